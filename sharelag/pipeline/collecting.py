"""The way between Spark and this process: tables of a row a share partition, or rows one piece after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.schemas.arrow import as_table, for_spark, one_batch


def collected(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """Bring a DataFrame into this process: for a row a share partition, or a summary.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    schema : pyarrow.Schema
        The columns that are wanted, with their types: Spark's Arrow has microseconds and other
        names inside lists.

    Returns
    -------
    pyarrow.Table
    """
    with _files_there():
        return frame.select(schema.names).toArrow().cast(schema)


def streamed(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Bring a DataFrame of any size into this process, one task's rows after another.

    Parameters
    ----------
    frame, schema
        As for `collected`.

    Yields
    ------
    pyarrow.RecordBatch
        In the order of the DataFrame.
    """
    packed = frame.select(schema.names).mapInArrow(_packed, "rows binary")
    with _files_there():
        for row in packed.toLocalIterator(prefetchPartitions=True):
            for batch in pa.ipc.open_stream(pa.py_buffer(row.rows)):
                yield one_batch(as_table(batch).cast(schema))


def frame_of(spark: SparkSession, table: schemas.Arrow) -> DataFrame:
    """Make a DataFrame of a table in this process, with exactly its columns also where it has no rows."""
    batch = one_batch(table)
    if not batch.num_rows:
        return spark.createDataFrame([], schemas.spark_schema(batch.schema))
    return spark.createDataFrame(as_table(for_spark(batch, batch.schema)))


@contextmanager
def _files_there() -> Iterator[None]:
    """Say what to do where an archive has replaced the files that a DataFrame names."""
    try:
        yield
    except (
        Exception
    ) as error:  # Spark raises it as one of several kinds, by how rows were asked for
        if "FILE_NOT_EXIST" not in str(error):
            raise
        raise InputError(
            "files that were read before are gone: an archive that is followed replaces its files after a quarter of "
            "an hour. Read it again: bench.refresh(), or sharelag.open(...)"
        ) from error


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays(
            [pa.array([bytes(sink.getvalue())], pa.binary())], names=["rows"]
        )
