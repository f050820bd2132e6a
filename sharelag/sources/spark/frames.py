"""The user's DataFrames as an input: raw records and offsets from any connector or table."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.sources.inputs import RecordsOnly, of_topics, without_ends
from sharelag.sources.spark.failures import explain_failures

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
        last = self.given_offsets.agg(f.max("as_of").alias("as_of")).toArrow().column("as_of")
        return cast("datetime | None", last.cast(schemas.TIMESTAMP, safe=False)[0].as_py())

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        """Refuse: a DataFrame is not read in this process."""
        raise InputError("a DataFrame is read on Spark: use engine='spark'")

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """Return the records."""
        return self.raw.select(schemas.RAW.names)

    def ends(self) -> DataFrame:
        """Return the offsets; empty if none were given."""
        if self.given_offsets is None:
            return self.raw.sparkSession.createDataFrame([], schemas.spark_schema(schemas.OFFSETS))
        return in_milliseconds(self.given_offsets.select(schemas.OFFSETS.names))

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """Return the last known end of each partition of these topics, up to a moment."""
        from pyspark.sql import functions as f

        is_time = isinstance(as_of, datetime)
        rows = self.ends().where(f.col("topic_id").isin(*topic_ids))
        rows = rows.where(f.col("as_of") <= f.lit(as_of)) if is_time else rows
        table = _collect(latest_offsets(rows))
        # Offsets of the state topic have no time, so no end offsets belong to them.
        return table if as_of is None or is_time else without_ends(table)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        """Return ends of these topics: the first and the last one between any two moments."""
        from pyspark.sql import functions as f

        if not moments:
            return schemas.OFFSETS.empty_table()
        requested = f.lit(sorted(round(moment.timestamp() * 1000) for moment in moments))
        rows = self.ends().where(f.col("as_of").between(f.lit(min(moments)), f.lit(max(moments))))
        rows = rows.where(f.col("topic_id").isin(*topic_ids))
        time = f.unix_millis("as_of")
        rows = rows.withColumn("step", f.size(f.filter(requested, lambda moment: moment < time)))
        row = f.struct(*schemas.OFFSETS.names)
        ends = f.array(f.min_by(row, "as_of"), f.max_by(row, "as_of"))
        steps = rows.groupBy("topic_id", "partition", "step").agg(
            f.array_distinct(ends).alias("ends")
        )
        return of_topics(_collect(steps.select(f.inline("ends"))), topic_ids)

    def size(self) -> int:
        """Return more than fits in one process: a DataFrame is read on Spark."""
        return sys.maxsize

    def describe(self) -> str:
        """Return a description of the input."""
        without = "" if self.given_offsets is not None else ", without offsets"
        return f"a DataFrame of raw records{without}"


def _collect(offsets: DataFrame) -> pa.Table:
    with explain_failures():
        return offsets.toArrow().select(schemas.OFFSETS.names).cast(schemas.OFFSETS)


def in_milliseconds(offsets: DataFrame) -> DataFrame:
    """Round ``as_of`` to milliseconds, as in Kafka; Spark has microseconds."""
    from pyspark.sql import functions as f

    return offsets.withColumn("as_of", f.date_trunc("millisecond", "as_of"))


def latest_offsets(offsets: DataFrame) -> DataFrame:
    """Return the last row of each topic partition; rows without a time come first."""
    from pyspark.sql import functions as f

    when = f.coalesce("as_of", f.lit(datetime(1970, 1, 1, tzinfo=UTC)))
    last = f.max_by(f.struct(*schemas.OFFSETS.names), when).alias("last")
    rows = in_milliseconds(offsets).groupBy("topic_id", "partition").agg(last)
    return rows.select("last.*").select(schemas.OFFSETS.names)
