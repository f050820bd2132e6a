"""Records replayed: the state of share partitions, now and after each record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.metrics.observed import observe
from sharelag.pipeline.records import chosen
from sharelag.pipeline.tasks import (
    COUNTED,
    PACKED,
    REPLAYED,
    Counter,
    FileRecords,
    Files,
    Logs,
    as_bytes,
    counted,
    gathered,
    map_raw,
    packed,
    unpacked,
)
from sharelag.reading import Each
from sharelag.replay.columns import KEY
from sharelag.replay.history import HISTORY_KEY, histories, history_arrow
from sharelag.replay.moment import Moment, filter_groups, up_to
from sharelag.replay.positions import POSITIONS, latest_positions
from sharelag.replay.state import drop_superseded, replay_arrow, whole_keys
from sharelag.replay.stream import Latest, latest_windows
from sharelag.schemas.arrow import for_spark, one_batch
from sharelag.sources.spark.tabular import as_frame

if TYPE_CHECKING:
    from sharelag.sources.spark.tabular import Tabular

#: What `replayed` gives: windows as Arrow's bytes, and rows that count.
STATES = pa.schema([("rows", pa.binary()), *COUNTED])


def windows(records: Tabular, as_of: Moment = None) -> DataFrame:
    """Return the state of every share partition as of a moment.

    Parameters
    ----------
    records : DataFrame of Spark or pandas, or pyarrow.Table
        `sharelag.schemas.RECORDS`.
    as_of : datetime, mapping of state partition to offset, or None
        The last record to take into account; offsets leave out the state partitions they do not
        name.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.WINDOWS`, a row a share partition that exists.

    Notes
    -----
    Each task first drops what its own snapshots supersede, so what is shuffled per share partition
    is at most the updates since its last snapshot (500 by default) for each task that read some of
    them.
    """
    records = as_frame(records, schemas.RECORDS, "records")

    def pack_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from packed(drop_superseded(gathered(batches)))

    rows = chosen(records, as_of).select(REPLAYED.names)
    return windows_of(_replayed(rows.mapInArrow(pack_task, schemas.spark_schema(PACKED))))


def replayed(
    raw: DataFrame | Files | Logs,
    as_of: Moment = None,
    groups: frozenset[str] = frozenset(),
    generation: int | None = None,
) -> DataFrame:
    """Return windows and counts of raw records; decoded and replayed where they are, if possible.

    Parameters
    ----------
    raw : pyspark.sql.DataFrame, Files or Logs
        `sharelag.schemas.RAW`.
    as_of
        As for `windows`.
    groups : frozenset of str
        Only these groups; empty means all.
    generation : int, optional
        As for `sharelag.wire.decode_arrow`.

    Returns
    -------
    pyspark.sql.DataFrame
        `STATES`, of which `windows_of` makes rows.
    """
    if isinstance(raw, DataFrame):
        schemas.require(raw, schemas.RAW, "raw records")

    mine = partial(filter_groups, groups=groups) if groups else None
    until = None if as_of is None else partial(up_to, moment=as_of)

    def whole_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = latest_windows(batches, mine, generation, until)
        yield from as_bytes(found.windows, STATES)
        yield from counted(found, STATES)

    def pack_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counter = Counter(generation)
        yield from packed(drop_superseded(gathered(counter.decode(batches, as_of, groups))))
        yield from counter.row(PACKED)

    if isinstance(raw, Logs) or (isinstance(raw, Files) and raw.plan.whole):
        return map_raw(raw, whole_task, STATES)
    return _replayed(map_raw(raw, pack_task, PACKED))


def positions(raw: Files | Logs) -> DataFrame:
    """Return where share partitions stand after raw records, and counts.

    Parameters
    ----------
    raw : Files or Logs
        Whole files, or the logs of a cluster: no state partition is in several tasks.

    Returns
    -------
    pyspark.sql.DataFrame
        `STATES`, with rows of `sharelag.replay.positions.POSITIONS` packed in them. Where these
        need the batches of the records, a task replays its records.
    """

    def scan_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = latest_positions(batches, threads=1)
        if found is None:
            windows = latest_windows(batches)
            yield from as_bytes(windows.windows.select(POSITIONS.names), STATES)
            yield from counted(windows, STATES)
        else:
            yield from as_bytes(found.table, STATES)
            none = pa.RecordBatch.from_pylist([], schema=POSITIONS)
            yield from counted(Latest(none, 0, found.rejected, None, None), STATES)

    return map_raw(raw, scan_task, STATES)


def windows_of(states: DataFrame) -> DataFrame:
    """The windows among what `replayed` gave."""

    def unpack_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for windows in unpacked(batches):
            yield for_spark(windows, schemas.WINDOWS)

    packed = states.where("rows is not null").select("rows")
    return packed.mapInArrow(unpack_task, schemas.spark_schema(schemas.WINDOWS))


def history(records: Tabular | FileRecords, gaps: pa.Table | None = None) -> DataFrame:
    """Return the state of every share partition after each of its records.

    Parameters
    ----------
    records : DataFrame of Spark or pandas, pyarrow.Table or FileRecords
        `sharelag.schemas.RECORDS`.
    gaps : pyarrow.Table, optional
        `sharelag.schemas.GAPS`: what `missing_offsets` found, so that nothing is bridged silently.

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.HISTORY`, a row a record; share partitions stand together, each in the
        order of the log.
    """
    if isinstance(records, FileRecords):
        return records.map_whole(partial(history_arrow, gaps=gaps), schemas.HISTORY)
    records = as_frame(records, schemas.RECORDS, "records")

    def history_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in histories(batches, gaps):
            yield for_spark(batch, schemas.HISTORY)

    return _together(records.select(REPLAYED.names)).mapInArrow(
        history_task, schemas.spark_schema(schemas.HISTORY)
    )


def summarized(
    records: Tabular | FileRecords, each: Each, schema: pa.Schema, gaps: pa.Table | None = None
) -> DataFrame:
    """Apply a function to the whole history of share partitions, in the tasks that replay them.

    Parameters
    ----------
    records, gaps
        As for `history`.
    each : callable
        Takes `sharelag.schemas.HISTORY` of some share partitions, all rows of each, and gives a
        batch or table; its rows cross to Spark instead of the history's.
    schema : pyarrow.Schema
        Of what it gives.
    """
    if isinstance(records, FileRecords):
        return records.map_whole(lambda part: each(history_arrow(part, gaps)), schema)
    records = as_frame(records, schemas.RECORDS, "records")

    def summarize_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in whole_keys(histories(batches, gaps), HISTORY_KEY[:-1]):
            yield for_spark(one_batch(each(whole)), schema)

    return _together(records.select(REPLAYED.names)).mapInArrow(
        summarize_task, schemas.spark_schema(schema)
    )


#: What `finished_of` gives.
FINISHED = pa.schema(
    [("record_topic", pa.string()), ("record_partition", pa.int32()), ("finished", pa.int64())]
)


def finished_of(history: pa.RecordBatch) -> pa.Table:
    """How many offsets the records of each state partition finished."""
    sums = (
        pa.Table.from_batches([history])
        .group_by(FINISHED.names[:2])
        .aggregate([("finished", "sum")])
    )
    return sums.rename_columns(FINISHED.names)


def replayed_by(records: Tabular | FileRecords, each: Each, schema: pa.Schema) -> DataFrame:
    """Apply a function to all records of share partitions; parameters as for `summarized`."""
    if isinstance(records, FileRecords):
        return records.map_whole(each, schema)
    records = as_frame(records, schemas.RECORDS, "records")

    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in whole_keys(batches):
            yield for_spark(one_batch(each(whole)), schema)

    return _together(records.select(REPLAYED.names)).mapInArrow(
        replay_task, schemas.spark_schema(schema)
    )


def observed(
    records: Tabular | FileRecords, end: datetime, over: timedelta, gaps: pa.Table | None = None
) -> DataFrame:
    """Summarize the history of a span; see `sharelag.metrics.observed.observe`.

    Parameters
    ----------
    records, gaps
        As for `history`.
    end : datetime
    over : timedelta

    Returns
    -------
    pyspark.sql.DataFrame
        `sharelag.schemas.OBSERVED`, a row a share partition.
    """
    return summarized(records, partial(observe, end=end, over=over), schemas.OBSERVED, gaps)


def _together(records: DataFrame) -> DataFrame:
    """Bring each share partition's records together, in the order of the log."""
    return records.repartition(*KEY).sortWithinPartitions(*KEY, "offset")


def _replayed(rows: DataFrame) -> DataFrame:
    """Replay `PACKED` rows, each partition of the state topic in one task."""

    def replay_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: list[pa.RecordBatch] = []

        def rest() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                counts.append(batch.filter(batch.column("rows").is_null()))
                yield batch

        yield from as_bytes(replay_arrow(gathered(unpacked(rest()))), STATES)
        for batch in counts:
            yield for_spark(batch, STATES)

    together = rows.repartition("topic", "record_partition")
    return together.mapInArrow(replay_task, schemas.spark_schema(STATES))
