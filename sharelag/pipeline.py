"""The pipeline on Spark: raw Kafka records in, lag out, on a laptop or a cluster.

Every function takes and gives DataFrames, and only distributes what `wire`, `replay` and `metrics` compute
over Arrow. Nothing runs before an action is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.arrow import for_spark
from sharelag.metrics.lag import OFFSET_COLUMNS, OFFSET_KEYS, ROLLUP_KEYS, ROLLUP_SUMS, lag_columns
from sharelag.metrics.observed import observe
from sharelag.replay.history import HISTORY_KEY, histories
from sharelag.replay.moment import Moment, of_groups, up_to
from sharelag.replay.state import KEY, latest, replay_arrow, split_last_key, whole_keys
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

    def thin_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(latest(batches, _REPLAYED), _REPLAYED)

    return _replayed(
        chosen(records, as_of).select(_REPLAYED.names).mapInArrow(thin_task, schemas.spark_schema(_REPLAYED))
    )


def chosen(records: DataFrame, as_of: Moment = None, groups: frozenset[str] = frozenset()) -> DataFrame:
    """The records of some groups (all, where none is named) that had been written by a moment."""
    records = records.where(F.col("group_id").isin(*groups)) if groups else records
    return records if as_of is None else records.where(_written_by(as_of))


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
        def kept() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                decoded = decode_arrow(batch)
                if rejected is not None:
                    rejected.add(decoded.rejects.num_rows)
                yield up_to(of_groups(decoded.records, groups), as_of).select(_REPLAYED.names)

        yield for_spark(latest(kept(), _REPLAYED), _REPLAYED)

    return _replayed(raw.select(schemas.RAW.names).mapInArrow(decode_task, schemas.spark_schema(_REPLAYED)))


def history(records: DataFrame, gaps: pa.Table | None = None) -> DataFrame:
    """The state of every share partition after each of its records.

    Parameters
    ----------
    records : pyspark.sql.DataFrame
        `sharelag.schemas.RECORDS`.
    gaps : pyarrow.Table, optional
        `sharelag.schemas.GAPS`: what `missing_offsets` found, so that nothing is bridged silently.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HISTORY`, a row a record; share partitions stand together, each in the order of the log.
    """
    schemas.require(records, schemas.RECORDS, "records")

    def history_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in histories(batches, gaps):
            yield for_spark(batch, schemas.HISTORY)

    return _together(records.select(_REPLAYED.names)).mapInArrow(history_task, schemas.spark_schema(schemas.HISTORY))


def observed(history: DataFrame, end: datetime, over: timedelta) -> DataFrame:
    """What a span of history says of each share partition; see `sharelag.metrics.observed.observe`.

    Parameters
    ----------
    history : pyspark.sql.DataFrame
        As `history` gives it.
    end : datetime
    over : timedelta

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.OBSERVED`, a row a share partition.
    """
    columns = HISTORY_KEY[:-1]

    def observe_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in whole_keys(batches, columns):
            yield for_spark(observe(whole, end, over), schemas.OBSERVED)

    sorted_by_key = history.select(schemas.HISTORY.names).repartition(*columns).sortWithinPartitions(*HISTORY_KEY)
    return sorted_by_key.mapInArrow(observe_task, schemas.spark_schema(schemas.OBSERVED))


def missing_offsets(raw: DataFrame) -> DataFrame:
    """The offsets of the state topic that are missing between raw records, as `sharelag.schemas.GAPS`."""
    before = F.lag("offset").over(Window.partitionBy("topic", "partition").orderBy("offset"))
    chosen = raw.where(F.col("topic").endswith(STATE_TOPIC)).select("topic", "partition", "offset")
    gaps = chosen.withColumn("first_offset", before + 1).where("offset > first_offset")
    return gaps.select("topic", "partition", "first_offset", F.col("offset").alias("end_offset"))


def _together(records: DataFrame) -> DataFrame:
    """Bring each share partition's records together, in the order of the log."""
    return records.repartition(*KEY).sortWithinPartitions(*KEY, "offset")


def _replayed(thin: DataFrame) -> DataFrame:
    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending = None
        for batch in batches:
            ready, pending = split_last_key(pending, batch)
            yield for_spark(replay_arrow(ready), schemas.WINDOWS)
        if pending is not None:
            yield for_spark(replay_arrow(pending), schemas.WINDOWS)

    return _together(thin).mapInArrow(replay_task, schemas.spark_schema(schemas.WINDOWS))


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


# ---- members and imbalance ------------------------------------------------------------------------------

from sharelag.arrow import flat  # noqa: E402
from sharelag.metrics.imbalance import imbalance_arrow  # noqa: E402
from sharelag.metrics.loads import NEEDED  # noqa: E402
from sharelag.replay.members import (  # noqa: E402
    GROUP_KEY,
    groups_arrow,
    latest_group_records,
    members_arrow,
)
from sharelag.replay.members import REPLAYED as _GROUPS_REPLAYED  # noqa: E402


def members(group_records: DataFrame, as_of: Moment = None) -> DataFrame:
    """The members of every share group, as of a moment.

    Parameters
    ----------
    group_records : pyspark.sql.DataFrame
        `sharelag.schemas.GROUP_RECORDS`.
    as_of : datetime, mapping of partition to offset, or None
        The last record to take into account; offsets are those of ``__consumer_offsets``.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.MEMBERS`; see `sharelag.replay.members`.
    """
    return _of_group_records(group_records, as_of, members_arrow, schemas.MEMBERS)


def groups(group_records: DataFrame, as_of: Moment = None) -> DataFrame:
    """The share groups that exist, as of a moment: `sharelag.schemas.GROUPS`. Parameters as for `members`."""
    return _of_group_records(group_records, as_of, groups_arrow, schemas.GROUPS)


def _of_group_records(
    group_records: DataFrame, as_of: Moment, replay: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema
) -> DataFrame:
    """Keep the last record of each key in each task, bring those of a group together, and replay them."""
    schemas.require(group_records, _GROUPS_REPLAYED, "group records")
    chosen = group_records if as_of is None else group_records.where(_written_by(as_of))

    def thin_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(latest_group_records(batches, _GROUPS_REPLAYED), _GROUPS_REPLAYED)

    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        latest_records = latest_group_records(batches, _GROUPS_REPLAYED)
        yield for_spark(replay(latest_records.cast(_GROUPS_REPLAYED)), schema)  # Spark names the items of lists anew

    thin = chosen.select(_GROUPS_REPLAYED.names).mapInArrow(thin_task, schemas.spark_schema(_GROUPS_REPLAYED))
    return thin.repartition(*GROUP_KEY).mapInArrow(replay_task, schemas.spark_schema(schema))


def imbalance(
    lag: DataFrame,
    members: DataFrame | None = None,
    groups: DataFrame | None = None,
    observed: DataFrame | None = None,
    past: DataFrame | None = None,
    by: str | None = None,
) -> DataFrame:
    """How unevenly the load of each group is spread.

    Parameters
    ----------
    lag, members, groups, observed, past : pyspark.sql.DataFrame
        As for `sharelag.metrics.imbalance.imbalance_arrow`; all but the first are optional.
    by : {"partition", "topic", "member"}, optional
        Only the rows over these.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.IMBALANCE`; all tables of a group meet in one task.
    """
    given = {"lag": lag, "members": members, "groups": groups, "observed": observed, "past": past}
    frames = {name: frame for name, frame in given.items() if frame is not None}
    for name, frame in frames.items():
        schemas.require(frame, NEEDED[name], name)
    frames = {name: frame.select(NEEDED[name].names) for name, frame in frames.items()}
    if past is not None:  # offsets are of no group, so they go with the lag
        then = frames.pop("past").dropDuplicates(OFFSET_KEYS).withColumnRenamed("end_offset", "past_end_offset")
        frames["lag"] = frames["lag"].join(then, OFFSET_KEYS, "left")

    names, has_past = list(frames), past is not None  # no DataFrame may travel to a task

    def spread_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = list(batches)
        if gathered:
            tables = {name: _of_kind(gathered, name) for name in names}
            if has_past:
                then = tables["lag"].select([*OFFSET_KEYS, "past_end_offset"])
                tables["past"] = then.rename_columns([*OFFSET_KEYS, "end_offset"])
            tables = {name: table.select(NEEDED[name].names).cast(NEEDED[name]) for name, table in tables.items()}
            yield for_spark(imbalance_arrow(**tables, by=by), schemas.IMBALANCE)

    # One column a table, so that rows of all of them can travel together.
    tagged = [frame.select("group_id", F.struct("*").alias(name)) for name, frame in frames.items()]
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
    return union.repartition("group_id").mapInArrow(spread_task, schemas.spark_schema(schemas.IMBALANCE))


def _of_kind(batches: list[pa.RecordBatch], name: str) -> pa.Table:
    column = flat(pa.Table.from_batches(batches).column(name))
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column.filter(column.is_valid()))])


# ---- the state topic's health ---------------------------------------------------------------------------

from sharelag.arrow import one_batch  # noqa: E402
from sharelag.metrics.health import COUNTS, gather, health_arrow  # noqa: E402
from sharelag.metrics.placement import Partitions  # noqa: E402


def health(raw: DataFrame, partitions: Partitions = None, history: DataFrame | None = None) -> DataFrame:
    """The health of every partition of the state topic, counted in the tasks that read it.

    Parameters
    ----------
    raw : pyspark.sql.DataFrame
        `sharelag.schemas.RAW`, each record once.
    partitions : int, mapping of topic to int, or None
        How many partitions the state topic has; without it nobody knows which records are misplaced.
    history : pyspark.sql.DataFrame, optional
        `sharelag.schemas.HISTORY` of the same records, for the bytes that a finished offset costs.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HEALTH`; see `sharelag.metrics.health` for what the figures mean.
    """
    schemas.require(raw, schemas.RAW, "raw records")

    def count_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield for_spark(one_batch(gather(batches)), COUNTS)

    def health_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = [batch.cast(COUNTS) for batch in batches]
        yield for_spark(health_arrow(pa.Table.from_batches(counts, COUNTS), partitions), schemas.HEALTH)

    counted = raw.select(schemas.RAW.names).mapInArrow(count_task, schemas.spark_schema(COUNTS))
    if history is not None:
        places = [F.col("record_topic").alias("topic"), F.col("record_partition").alias("partition")]
        finished = history.groupBy(*places).agg(F.sum("finished").alias("finished"))
        counted = counted.unionByName(finished, allowMissingColumns=True)
    # A row a share partition and task, so that one task judges each partition of the state topic.
    by_partition = counted.repartition("topic", "partition")
    return by_partition.mapInArrow(health_task, schemas.spark_schema(schemas.HEALTH))
