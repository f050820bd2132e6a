"""Move tables from Spark to this process, at once or in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from sharelag.engine.spark.packing import to_bytes
from sharelag.inputs.spark import java
from sharelag.inputs.spark.workers import explain_failures, map_in_arrow
from sharelag.tables.arrow import as_table, one_batch

_ROWS = pa.schema([("rows", pa.binary())])


def collect(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """Collect a DataFrame with one row per share partition, or a summary.

    The schema is that of the result: Spark's Arrow has microseconds and other names inside lists.
    """
    java.cancel_jobs()
    with explain_failures():
        return frame.select(schema.names).toArrow().cast(schema)


def stream_rows(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a DataFrame of any size, one task's rows after another, in its order."""
    java.cancel_jobs()
    packed = map_in_arrow(frame.select(schema.names), _pack, _ROWS)
    with explain_failures():
        for row in packed.toLocalIterator(prefetchPartitions=True):
            for batch in pa.ipc.open_stream(pa.py_buffer(row.rows)):
                yield one_batch(as_table(batch).cast(schema))


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([{"rows": to_bytes(as_table(batch))}], _ROWS)
