"""Decode raw Kafka records and select those of some groups up to a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.pipeline.tasks import Files, map_raw
from sharelag.replay import history
from sharelag.replay.moment import Moment, with_zone
from sharelag.schemas.arrow import for_spark, one_batch
from sharelag.sources.spark.tabular import as_frame
from sharelag.wire.decode import decode_arrow, topic_mask
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import require_generation

if TYPE_CHECKING:
    from sharelag.sources.spark.tabular import Tabular

_PLACE = ("topic", "partition", "offset")


class Decoded(NamedTuple):
    """Records and rejects of raw records. Cache the raw DataFrame before using both."""

    records: DataFrame
    rejects: DataFrame


def decode(raw: Tabular, topic: str = STATE_TOPIC, generation: int | None = None) -> Decoded:
    """Decode raw Kafka records from any connector, table or stream.

    Parameters
    ----------
    raw : DataFrame of Spark or pandas, or pyarrow.Table
        The columns of Spark's own Kafka source (`sharelag.schemas.RAW`); further ones are ignored.
        Rows of both topics may be mixed.
    topic : str
        ``__share_group_state``, or ``__consumer_offsets`` for the share groups' members and
        assignments.
    generation : int, optional
        As for `sharelag.wire.decode_arrow`.

    Returns
    -------
    Decoded
        ``records`` as `sharelag.schemas.RECORDS` (or `GROUP_RECORDS`), ``rejects`` as
        `sharelag.schemas.REJECTS`. Records of other kinds are in neither.

    Raises
    ------
    InputError
        When a column is missing or of another type, or there is no such generation.
    """
    raw = as_frame(raw, schemas.RAW, "raw records")
    require_generation(generation)
    good = schemas.RECORDS if topic == STATE_TOPIC else schemas.GROUP_RECORDS
    both = pa.schema([*good, *(f for f in schemas.REJECTS if f.name not in good.names)])

    def decode_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        decoded = decode_arrow(batch, topic, generation)
        yield decoded.records
        yield decoded.rejects

    rows = map_arrow(raw.select(schemas.RAW.names), decode_batch, both)
    is_reject = F.col("reason").isNotNull()
    return Decoded(
        rows.where(~is_reject).select(good.names),
        rows.where(is_reject).select(schemas.REJECTS.names),
    )


def chosen(
    records: DataFrame, as_of: Moment = None, groups: frozenset[str] = frozenset()
) -> DataFrame:
    """Return the records of some groups (default all) written up to a moment."""
    records = records.where(F.col("group_id").isin(*groups)) if groups else records
    return records if as_of is None else records.where(written_by(as_of))


def missing_offsets(raw: Tabular | Files) -> DataFrame:
    """Return `sharelag.schemas.GAPS`: offsets of the state topic missing between raw records.

    Parameters
    ----------
    raw : DataFrame of Spark or pandas, pyarrow.Table or Files
        `sharelag.schemas.RAW`; files must be whole.
    """
    if isinstance(raw, Files):
        return map_raw(raw, _gaps_task, schemas.GAPS, _PLACE)
    raw = as_frame(raw, schemas.RAW, "raw records")
    before = F.lag("offset").over(Window.partitionBy("topic", "partition").orderBy("offset"))
    chosen = raw.where(F.col("topic").endswith(STATE_TOPIC)).select("topic", "partition", "offset")
    gaps = chosen.withColumn("first_offset", before + 1).where("offset > first_offset")
    return gaps.select("topic", "partition", "first_offset", F.col("offset").alias("end_offset"))


def _gaps_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    places = [batch.filter(topic_mask(batch, STATE_TOPIC)).select(_PLACE) for batch in batches]
    if places:
        yield for_spark(
            one_batch(history.missing_offsets(pa.Table.from_batches(places))), schemas.GAPS
        )


def written_by(moment: datetime | Any) -> Column:
    """Return the condition that a record was written up to a time, or to offsets."""
    with_zone(moment)  # Spark would take it for a time of the driver's zone
    if isinstance(moment, datetime):
        return F.col("timestamp") <= F.lit(moment)
    each = [
        (F.col("record_partition") == partition) & (F.col("offset") <= offset)
        for partition, offset in moment.items()
    ]
    return reduce(Column.__or__, each, F.lit(False))


def map_arrow(
    frame: DataFrame, each: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Apply a function to every Arrow batch; schema columns missing from its result are null."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for result in each(batch):
                if result.num_rows:
                    yield for_spark(result, schema)

    return frame.mapInArrow(task, schemas.spark_schema(schema))
