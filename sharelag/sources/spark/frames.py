"""DataFrames of the user's own as an input: raw records and offsets from any connector, table or stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.sources.inputs import RecordsOnly, of_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, eq=False)
class FrameInput(RecordsOnly):
    """Raw records, and where topics end, as Spark DataFrames.

    Parameters
    ----------
    raw : pyspark.sql.DataFrame
        `sharelag.schemas.RAW`: the columns of Spark's own Kafka source; further ones are ignored. Records of both
        topics may be mixed.
    given_offsets : pyspark.sql.DataFrame, optional
        `sharelag.schemas.OFFSETS`, a row a topic partition, or several of different moments: then the last one that
        counts is the end, and all of them are past ends.

    Raises
    ------
    InputError
        When a column is missing or of another type.
    """

    raw: DataFrame
    given_offsets: DataFrame | None = None

    def __post_init__(self) -> None:
        schemas.require(self.raw, schemas.RAW, "raw records")
        if self.given_offsets is not None:
            schemas.require(self.given_offsets, schemas.OFFSETS, "offsets")

    @property
    def holds_both(self) -> bool:
        """Records of both topics may be mixed."""
        return True

    @property
    def rereadable(self) -> bool:
        """Whether the records are cached already: else another reading may find others."""
        level = self.raw.storageLevel
        return bool(level.useMemory or level.useDisk)

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        """Refuse: a DataFrame is not read in this process."""
        raise InputError("a DataFrame is read on Spark: use engine='spark'")

    def frame(self, spark: SparkSession, topic: str) -> DataFrame:
        """The records as they were given."""
        return self.raw.select(schemas.RAW.names)

    def ends(self) -> DataFrame:
        """The offsets as they were given; nothing where none were."""
        if self.given_offsets is None:
            return self.raw.sparkSession.createDataFrame([], schemas.spark_schema(schemas.OFFSETS))
        return self.given_offsets.select(schemas.OFFSETS.names)

    def offsets(self, topic_ids: Sequence[str], as_of: object = None) -> pa.Table:
        """The last known end of each partition of these topics, up to a moment."""
        from pyspark.sql import functions as f

        is_time = isinstance(as_of, datetime)
        rows = self.ends().where(f.col("topic_id").isin(*topic_ids))
        rows = rows.where(f.col("as_of") <= f.lit(as_of)) if is_time else rows
        when = f.coalesce("as_of", f.lit(datetime(1970, 1, 1, tzinfo=UTC)))
        last = f.max_by(f.struct(*schemas.OFFSETS.names), when).alias("last")
        found = rows.groupBy("topic_id", "partition").agg(last).select("last.*").toArrow()
        table = found.select(schemas.OFFSETS.names).cast(schemas.OFFSETS)
        # Offsets of the state topic tell no time, so they have no end offsets to go with.
        return table if as_of is None or is_time else _without_ends(table)

    def past_offsets(self, topic_ids: Sequence[str], moments: Sequence[datetime]) -> pa.Table:
        """All ends of these topics in the span of the moments."""
        from pyspark.sql import functions as f

        if not moments:
            return schemas.OFFSETS.empty_table()
        rows = self.ends().where(f.col("as_of").between(f.lit(min(moments)), f.lit(max(moments))))
        found = rows.where(f.col("topic_id").isin(*topic_ids)).toArrow()
        return of_topics(found.select(schemas.OFFSETS.names).cast(schemas.OFFSETS), topic_ids)

    def size(self) -> int:
        """More than one process is asked to hold: a DataFrame is Spark's."""
        return sys.maxsize

    def describe(self) -> str:
        """What it is."""
        told = "" if self.given_offsets is not None else ", without offsets"
        return f"a DataFrame of raw records{told}"


def _without_ends(offsets: pa.Table) -> pa.Table:
    for name in ("end_offset", "log_start_offset", "as_of"):
        kind = schemas.OFFSETS.field(name).type
        place = offsets.schema.get_field_index(name)
        offsets = offsets.set_column(place, name, pa.nulls(len(offsets), kind))
    return offsets
