"""Bring rows of several tables with the same keys into one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.inputs.spark.frames import as_frame
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.tables.arrow import flat, for_spark, one_batch

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular

#: A function of tables by name, each with all rows of some keys.
Together = Callable[[dict[str, pa.Table]], schemas.Arrow]

_ORDER = ("group_id", "topic", "topic_id", "partition", "member_id")


def meet(
    given: Mapping[str, Tabular],
    columns: Mapping[str, pa.Schema],
    by: Sequence[str],
    each: Together,
    schema: pa.Schema,
) -> DataFrame:
    """Apply a function to several tables, a few keys at a time and all rows of each.

    ``columns`` says what is read of each table, ``by`` which columns all of them have. ``each``
    takes the tables by name, one without rows of these keys is empty, and gives rows of a schema.
    """
    frames = {name: as_frame(table, columns[name], name) for name, table in given.items()}
    kinds = {name: columns[name] for name in frames}  # no DataFrame may travel to a task

    def meet_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = list(batches)
        if gathered:
            tables = {name: _of_kind(gathered, name, kind) for name, kind in kinds.items()}
            yield for_spark(one_batch(each(tables)), schema)

    # One column a table, so that rows of all of them can travel together.
    tagged = [
        frame.select(*by, F.struct(*kinds[name].names).alias(f"of_{name}"))
        for name, frame in frames.items()
    ]
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
    return map_in_arrow(union.repartition(*by), meet_task, schema)


def _of_kind(batches: list[pa.RecordBatch], name: str, kind: pa.Schema) -> pa.Table:
    column = flat(pa.Table.from_batches(batches).column(f"of_{name}"))
    rows = pa.RecordBatch.from_struct_array(column.filter(column.is_valid()))
    # Sums of fractions depend on the order, and Spark's is another each time.
    order = [(name, "ascending") for name in _ORDER if name in kind.names]
    return pa.Table.from_batches([rows]).select(kind.names).cast(kind).sort_by(order)
