"""The user's DataFrames as an input: raw records and offsets from any connector or table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.schemas.arrow import for_spark, one_batch
from sharelag.sources.inputs import RecordsOnly, ends_as_of, ends_between, fold_ends
from sharelag.sources.spark.failures import explain_failures
from sharelag.sources.spark.workers import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, eq=False)
class FrameInput(RecordsOnly):
    """Raw records and end offsets as Spark DataFrames.

    Parameters
    ----------
    raw : pyspark.sql.DataFrame
        `sharelag.schemas.RAW`: the columns of Spark's own Kafka source, as
        `sharelag.sources.spark.tabular.as_frame` gives them; other columns are ignored. Records of
        both topics may be mixed.
    given_offsets : pyspark.sql.DataFrame, optional
        `sharelag.schemas.OFFSETS`, one row per topic partition, or several at different moments:
        then the last one up to the moment is the end, and all of them are past ends. Beside a
        stream, whatever `sharelag.stream.lag` takes.

    Raises
    ------
    InputError
        When a column is missing or of another type.
    """

    raw: DataFrame
    given_offsets: Any = None

    def __post_init__(self) -> None:
        schemas.require(self.raw, schemas.RAW, "raw records")
        if hasattr(self.given_offsets, "isStreaming"):
            schemas.require_conformable(self.given_offsets.schema, schemas.OFFSETS, "offsets")
            if self.given_offsets.isStreaming:
                raise InputError(
                    "offsets cannot be a stream: write them to a table, and give its name or path"
                )

    @property
    def holds_both(self) -> bool:
        """Records of both topics may be mixed."""
        return True

    def latest_end(self) -> datetime | None:
        """Return the time of the last end offsets; None if there are none."""
        from pyspark.sql import functions as f

        if self.given_offsets is None:
            return None
        with explain_failures():
            last = self.given_offsets.agg(f.max("as_of").alias("as_of")).toArrow().column("as_of")
        return cast("datetime | None", last.cast(schemas.TIMESTAMP, safe=False)[0].as_py())

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        """Refuse: a DataFrame is not read in this process."""
        raise InputError("a DataFrame is read on Spark: use engine='spark'")

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """Return the records."""
        return self.raw.select(schemas.RAW.names)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """Return the last known end of each partition of these topics, up to a moment."""
        until = as_of if isinstance(as_of, datetime) else None
        find = partial(ends_as_of, topic_ids=topic_ids, as_of=as_of)
        return self._find_ends(find, None, until)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        """Return ends of these topics: the first and the last one between any two moments."""
        if not moments:
            return schemas.OFFSETS.empty_table()
        find = partial(ends_between, topic_ids=topic_ids, moments=moments)
        return self._find_ends(find, min(moments), max(moments))

    def _find_ends(
        self, find: Callable[[pa.Table], pa.Table], first: datetime | None, last: datetime | None
    ) -> pa.Table:
        """Apply a function to the offsets of a span in each task, and to all that it leaves."""
        from pyspark.sql import functions as f

        rows = self.given_offsets
        if rows is None:
            return schemas.OFFSETS.empty_table()
        rows = rows.select(schemas.OFFSETS.names)
        if first is not None:
            rows = rows.where(f.col("as_of") >= f.lit(first))
        if last is not None:  # of which Kafka has the milliseconds
            rows = rows.where(f.col("as_of") < f.lit(last + timedelta(milliseconds=1)))

        def find_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield for_spark(one_batch(fold_ends(batches, find)), schemas.OFFSETS)

        with explain_failures():
            found = map_in_arrow(rows, find_task, schemas.OFFSETS).toArrow()
        return find(found.cast(schemas.OFFSETS))

    def size(self) -> int:
        """Return more than fits in one process: a DataFrame is read on Spark."""
        return sys.maxsize

    def describe(self) -> str:
        """Return a description of the input."""
        without = "" if self.given_offsets is not None else ", without offsets"
        return f"a DataFrame of raw records{without}"


def latest_offsets(offsets: DataFrame) -> DataFrame:
    """Return the last row of each topic partition; rows without a time come first."""
    from pyspark.sql import functions as f

    when = f.coalesce("as_of", f.lit(datetime(1970, 1, 1, tzinfo=UTC)))
    last = f.max_by(f.struct(*schemas.OFFSETS.names), when).alias("last")
    # As in Kafka; Spark has microseconds.
    rows = offsets.withColumn("as_of", f.date_trunc("millisecond", "as_of"))
    rows = rows.groupBy("topic_id", "partition").agg(last)
    return rows.select("last.*").select(schemas.OFFSETS.names)
