"""The pipeline on Spark: raw Kafka records in, lag out, on a laptop or a cluster.

Every function takes and gives DataFrames, and only distributes what `wire`, `replay` and `metrics` compute
over Arrow. Nothing runs before an action is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.arrow import for_spark
from sharelag.metrics.lag import OFFSET_COLUMNS, OFFSET_KEYS, ROLLUP_KEYS, ROLLUP_SUMS, lag_columns
from sharelag.replay.moment import Moment, of_groups, up_to
from sharelag.replay.state import KEY, latest, replay_arrow, split_last_key
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC

# What replay reads; the rest stays where it is.
_REPLAYED = pa.schema([field for field in schemas.RECORDS if field.name != "unknown_tags"])


class Decoded(NamedTuple):
    """The two halves of a decoded DataFrame. Cache the raw one before using both."""

    records: DataFrame
    rejects: DataFrame


def decode(raw: DataFrame, topic: str = STATE_TOPIC) -> Decoded:
    """Decode raw Kafka records, from whatever connector, table or stream.

    Parameters
    ----------
    raw : pyspark.sql.DataFrame
        The columns of Spark's own Kafka source (`sharelag.schemas.RAW`); further ones are ignored. Rows of
        both topics may be mixed.
    topic : str
        ``__share_group_state``, or ``__consumer_offsets`` for the share groups' members and assignments.

    Returns
    -------
    Decoded
        ``records`` as `sharelag.schemas.RECORDS` (or `GROUP_RECORDS`), ``rejects`` as
        `sharelag.schemas.REJECTS`. Records of other kinds are in neither.

    Raises
    ------
    InputError
        When a column is missing or of another type.
    """
    schemas.require(raw, schemas.RAW, "raw records")
    good = schemas.RECORDS if topic == STATE_TOPIC else schemas.GROUP_RECORDS
    both = pa.schema([*good, *(f for f in schemas.REJECTS if f.name not in good.names)])

    def decode_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        decoded = decode_arrow(batch, topic)
        yield decoded.records
        yield decoded.rejects

    rows = _map(raw.select(schemas.RAW.names), decode_batch, both)
    is_reject = F.col("reason").isNotNull()
    return Decoded(rows.where(~is_reject).select(good.names), rows.where(is_reject).select(schemas.REJECTS.names))


def windows(records: DataFrame, as_of: Moment = None) -> DataFrame:
    """The state of every share partition, as of a moment.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        `sharelag.schemas.RECORDS`.
    as_of : datetime, mapping of state partition to offset, or None
        The last record to take into account; offsets leave out the state partitions they do not name.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, a row a share partition that exists.

    Notes
    -----
    Each task first drops what its own snapshots supersede, so what is shuffled per share partition is at most
    the updates since its last snapshot (500 by default) for each task that read some of them.
    """
    schemas.require(records, schemas.RECORDS, "records")
    chosen = records if as_of is None else records.where(_written_by(as_of))

    def thin_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(latest(batches, _REPLAYED), _REPLAYED)

    return _replayed(chosen.select(_REPLAYED.names).mapInArrow(thin_task, schemas.spark_schema(_REPLAYED)))


def windows_of_raw(
    raw: DataFrame, as_of: Moment = None, groups: frozenset[str] = frozenset(), rejected: Any = None
) -> DataFrame:
    """`windows` straight from raw records: decoded and thinned out where they are read, so that few bytes move.

    Parameters
    ----------
    raw, as_of
        As for `decode` and `windows`.
    groups : frozenset of str
        Only these groups; empty means all.
    rejected : pyspark.Accumulator, optional
        Receives how many records could not be decoded.
    """
    schemas.require(raw, schemas.RAW, "raw records")

    def decode_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def chosen() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                decoded = decode_arrow(batch)
                if rejected is not None:
                    rejected.add(decoded.rejects.num_rows)
                yield up_to(of_groups(decoded.records, groups), as_of).select(_REPLAYED.names)

        yield for_spark(latest(chosen(), _REPLAYED), _REPLAYED)

    return _replayed(raw.select(schemas.RAW.names).mapInArrow(decode_task, schemas.spark_schema(_REPLAYED)))


def _replayed(thin: DataFrame) -> DataFrame:
    """Bring each share partition's records together, in order, and replay them."""
    sorted_by_key = thin.repartition(*KEY).sortWithinPartitions(*KEY, "offset")

    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending = None
        for batch in batches:
            ready, pending = split_last_key(pending, batch)
            yield for_spark(replay_arrow(ready), schemas.WINDOWS)
        if pending is not None:
            yield for_spark(replay_arrow(pending), schemas.WINDOWS)

    return sorted_by_key.mapInArrow(replay_task, schemas.spark_schema(schemas.WINDOWS))


def lag(windows: DataFrame, offsets: DataFrame) -> DataFrame:
    """The lag of every share partition, term by term.

    Parameters
    ----------
    windows : pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, read before the offsets.
    offsets : pyspark.sql.DataFrame
        `sharelag.schemas.OFFSETS`.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.LAG`; see `sharelag.metrics.lag` for what the terms mean.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    schemas.require(offsets, schemas.OFFSETS, "offsets")
    ends = offsets.select(OFFSET_COLUMNS).dropDuplicates(OFFSET_KEYS)
    joined = windows.select(schemas.WINDOWS.names).drop("batches").join(ends, OFFSET_KEYS, "left")
    return _map(joined, lambda batch: [lag_columns(batch)], schemas.LAG)


def rollup(lag: DataFrame, by: str) -> DataFrame:
    """Sum a lag table up by ``"group"`` or ``"topic"``; see `sharelag.metrics.lag.rollup_arrow`."""
    counted = lag.withColumn("unknown_lags", F.col("lag").isNull().cast("long"))
    sums = [getattr(F, how)(F.col(column)).alias(name) for name, column, how in ROLLUP_SUMS]
    rolled = counted.groupBy(*ROLLUP_KEYS[by]).agg(F.count("partition").alias("partitions"), *sums)
    wanted = schemas.spark_schema(schemas.ROLLUP).fields
    columns = [
        F.col(f.name) if f.name in rolled.columns else F.lit(None).cast(f.dataType).alias(f.name) for f in wanted
    ]
    return rolled.select(columns)


def _written_by(moment: datetime | Any) -> Column:
    if isinstance(moment, datetime):
        return F.col("timestamp") <= F.lit(moment)
    each = [
        (F.col("record_partition") == partition) & (F.col("offset") <= offset) for partition, offset in moment.items()
    ]
    return reduce(Column.__or__, each, F.lit(False))


def _map(frame: DataFrame, each: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]], schema: pa.Schema) -> DataFrame:
    """Apply a function to every Arrow batch; columns of the schema that it does not give are null."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for result in each(batch):
                if result.num_rows:
                    yield for_spark(result, schema)

    return frame.mapInArrow(task, schemas.spark_schema(schema))
