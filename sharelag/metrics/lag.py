"""Share-partition lag, term by term (KIP-1226).

    lag = end_offset - start_offset - delivery_complete_count                       (KIP-1226)

as Kafka computes it from the persisted state; like Kafka's command, unknown if negative. The window
splits the distance; for every row with known terms

    end_offset - start_offset = unread + window_available + window_unknown + window_complete

(if the end offset is older than the window, ``unread`` is 0 and the sum exceeds the distance). So
lag is the sum of unread, available and unknown, unless the broker's count differs from its batches.
If it counts the whole window, the whole window is complete (`sharelag.model.counts_all`).

`timeline_arrow` gives the lag at several moments, `diff_arrow` compares the states of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import (
    TERMINAL,
    Runs,
    begins,
    bools,
    first_reason,
    mask,
    names_by_place,
    numbers,
    present,
)
from sharelag.model import DeliveryState, counts_all, milliseconds
from sharelag.schemas import SHARE_PARTITION, Arrow, Bools, Ints
from sharelag.tables import gaps
from sharelag.tables.arrow import (
    as_table,
    ascending,
    batch_of,
    beside,
    changes,
    flat,
    keys,
    lists_of,
    table_of,
    with_columns,
)
from sharelag.wire.fields import STATE_TOPIC

#: The columns of offsets that `lag_columns` needs in addition to those of windows.
OFFSET_KEYS = ["topic_id", "partition"]
OFFSET_COLUMNS = [*OFFSET_KEYS, "topic", "log_start_offset", "end_offset", "as_of"]
ROLLUP_KEYS = {"group": ["group_id"], "topic": ["group_id", "topic", "topic_id"]}
#: Sums, each with the count of share partitions left out.
_UNKNOWN = {"lag": "unknown_lags", "effective_lag": "unknown_effective_lags"}
_SUMMED = [*_UNKNOWN, *_UNKNOWN.values(), "unread"]
_SUMMED += ["window_available", "window_unknown", "window_complete"]
#: Columns of the roll-up: the aggregated column of the lag table, and the function.
ROLLUP_SUMS = {name: (name, "sum") for name in _SUMMED}
ROLLUP_SUMS |= {"max_lag": ("lag", "max"), "as_of": ("as_of", "min")}
#: Later than any record.
_LAST = datetime(9999, 12, 31, tzinfo=UTC)


def choose_states(windows: Arrow, deleted: Arrow) -> pa.Table:
    """Return the windows with one state of each share partition: the one that Kafka reads.

    There are several beside a mirrored topic, and after the state topic got more partitions: then
    the coordinator reads the state that was created last, and those in other partitions stay.
    There is none if a state was ``deleted`` (`sharelag.replay.state.DELETED`) after that, or in the
    cluster's own topic, regardless of mirrored states. A state of unknown time counts as the last.
    """
    states, gone = as_table(windows), as_table(deleted)
    gone = gone.append_column("rank", gone.column("record_timestamp"))
    # A state without a snapshot has updates, which only the coordinator that is in charge writes.
    rank, written = states.column("create_timestamp"), states.column("record_timestamp")
    rank = pc.coalesce(rank, written, pa.scalar(_LAST, rank.type))
    both = pa.concat_tables([gone, states.append_column("rank", rank)], promote_options="default")
    found = _latest(both, SHARE_PARTITION, "rank")
    return found.filter(found.column("snapshot_epoch").is_valid()).select(states.column_names)


def _latest(states: pa.Table, of: Sequence[str], rank: str) -> pa.Table:
    """Return the row with the highest rank of each, first in the cluster's own topic."""
    own = mask(pc.equal(states.column("record_topic"), STATE_TOPIC))
    place = keys(states, of).dictionary_encode().indices.to_numpy()
    order = np.lexsort((numbers(states, rank)[0], own, place))[::-1]
    return states.take(np.sort(order[changes(place[order])]))


def lag_arrow(windows: Arrow, offsets: Arrow) -> pa.RecordBatch:
    """Return the lag of every window as `sharelag.schemas.LAG`, sorted by group, topic, partition.

    Windows have to be read before the offsets; otherwise the lag could be negative.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    schemas.require(offsets, schemas.OFFSETS, "offsets")
    joined, ends = as_table(windows).select(schemas.WINDOWS.names), as_table(offsets)
    # Arrow's own join does not support lists and is slow to load.
    partners = beside(keys(joined, OFFSET_KEYS), ends, OFFSET_KEYS)
    for name in OFFSET_COLUMNS[len(OFFSET_KEYS) :]:
        joined = joined.append_column(name, partners.column(name))
    topic = pc.coalesce(flat(joined.column("topic")), names_by_place(joined))
    joined = with_columns(joined, {"topic": topic})
    return lag_columns(joined).sort_by(ascending("group_id", "topic", "topic_id", "partition"))


def lag_columns(joined: Arrow) -> pa.RecordBatch:
    """Return the lag of windows joined with their offsets (the part that Spark distributes).

    ``joined`` has the columns of `sharelag.schemas.WINDOWS`, joined by ``topic_id`` and
    ``partition`` with `OFFSET_COLUMNS`, which are null without a match.
    """
    if joined.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=schemas.LAG)
    # Terms are 0 where they are unknown.
    start, has_start = numbers(joined, "start_offset")
    effective, _ = numbers(joined, "effective_start_offset")
    window_end, _ = numbers(joined, "window_end_offset")
    count, has_count = numbers(joined, "delivery_complete_count")
    end, has_end = numbers(joined, "end_offset")
    log_start, has_log_start = numbers(joined, "log_start_offset")
    is_whole = bools(joined, "from_snapshot")
    lag = end - start - count
    is_known = has_start & has_count & has_end
    runs = Runs(joined.column("runs"))
    low = np.maximum(start, log_start)
    window = np.maximum(window_end - start, 0)
    available = runs.sum((int(DeliveryState.AVAILABLE),))
    is_done = has_start & has_count & counts_all(count, window, available)
    passed = np.where(is_done, window_end, effective)
    beyond = np.where(is_done, 0, runs.sum(TERMINAL, low))
    finished = beyond + np.maximum(passed - low, 0)
    complete = np.where(is_done, window, runs.sum(TERMINAL) + effective - start)
    sized = has_start & has_end
    columns = {
        "lag": (lag, is_known & (lag >= 0)),
        # Beyond the end of the log, the lag and the effective lag are unknown.
        "effective_lag": (
            np.maximum(np.maximum(end, window_end) - low - finished, 0),
            sized & ((start <= end) | (window_end > start)),
        ),
        "unread": (np.maximum(end - np.maximum(window_end, start), 0), sized),
        "window_available": (available, has_start),
        "window_unknown": (window - available - complete, has_start),
        "window_complete": (complete, has_start),
        "effective_start_offset": (np.maximum(passed, log_start), has_start),
    }
    notes = {
        gaps.START_BELOW_LOG_START: has_start & has_log_start & (passed < log_start),
        gaps.COUNT_DIFFERS: has_start & has_count & (count != complete),
        gaps.PARTIAL_STATE: ~is_whole,
        gaps.ARCHIVING: runs.sum((int(DeliveryState.ARCHIVING),)) > 0,
        gaps.REJECTED_RECORDS: numbers(joined, "rejected_records")[0] > 0,
    }
    arrays = {name: pa.array(values, mask=~known) for name, (values, known) in columns.items()}
    # Like Kafka's command, which shows nothing until the start offset is known.
    epoch = flat(joined.column("leader_epoch"))
    arrays["leader_epoch"] = pc.if_else(pa.array(has_start), epoch, pa.scalar(None, epoch.type))
    reasons = {
        gaps.RECORDS_MISSING: ~has_start & ~is_whole,
        gaps.NO_START_OFFSET: ~has_start,
        gaps.UNKNOWN_TOPIC: ~present(joined, "topic"),
        gaps.NO_END_OFFSET_THEN: ~has_end & ~present(joined, "as_of"),
        gaps.NO_END_OFFSET: ~has_end,
        gaps.NO_COMPLETE_COUNT: ~has_count,  # last, because the effective lag is still known
        gaps.NEGATIVE_LAG: is_known & (lag < 0),
    }
    arrays["lag_reason"] = first_reason(reasons)
    flags = np.stack(list(notes.values()), axis=1)
    names = pa.array(list(notes)).take(pa.array(np.nonzero(flags)[1]))
    arrays["notes"] = lists_of(flags.sum(axis=1), names)
    arrays |= {name: joined.column(name) for name in schemas.LAG.names if name not in arrays}
    return batch_of(arrays, schemas.LAG)


def rollup_keys(by: str) -> list[str]:
    """Return the key columns for ``"group"`` or ``"topic"``; other values are an InputError."""
    if by not in list(ROLLUP_KEYS):  # a list, because values may be unhashable
        raise InputError(f"cannot sum lag by {by!r}: choose one of {', '.join(ROLLUP_KEYS)}")
    return ROLLUP_KEYS[by]


def rollup_arrow(lag: Arrow, by: str) -> pa.RecordBatch:
    """Sum lag ``by`` group or topic, as `ROLLUP`; unknown lags are counted, not summed as zero.

    ``lag`` sums the known lags. It is null, like ``max_lag``, if they are all 0 and others are
    unknown; the same applies to ``effective_lag``.
    """
    keys = rollup_keys(by)
    table = as_table(lag)
    for name, counts in _UNKNOWN.items():
        table = table.append_column(counts, pc.is_null(lag.column(name)).cast(pa.int64()))
    known = pc.ScalarAggregateOptions(min_count=1)
    sums = [(column, how, known) for column, how in ROLLUP_SUMS.values()]
    grouped = table.group_by(keys).aggregate([("partition", "count"), *sums])
    columns = {name: grouped.column("_".join(of)) for name, of in ROLLUP_SUMS.items()}
    for name, counts in _UNKNOWN.items():
        is_known = pc.or_(pc.greater(columns[name], 0), pc.equal(columns[counts], 0))
        columns[name] = pc.if_else(is_known, columns[name], None)
    columns["max_lag"] = pc.if_else(columns["lag"].is_valid(), columns["max_lag"], None)
    columns |= {key: grouped.column(key) for key in keys}
    columns["partitions"] = grouped.column("partition_count")
    return batch_of(columns, schemas.ROLLUP, pad=True).sort_by(ascending(*keys))


_STATE = ("start_offset", "effective_start_offset", "window_end_offset", "delivery_complete_count")
_KEPT = (*SHARE_PARTITION, *_STATE, "window_available", "window_complete", "max_delivery_count")


def timeline_arrow(history: Arrow, past_offsets: Arrow, moments: Sequence[datetime]) -> pa.Table:
    """Return the lag of share partitions at several moments, as `TIMELINE`.

    ``history`` has all rows of some share partitions, in the order of `history_arrow`;
    ``past_offsets`` has one row per topic partition and moment, and other moments are ignored.
    There is one row per moment and share partition that existed then, of the state that Kafka read,
    or may have existed, as records before its first one may be missing. Lag is null if the end
    offset at the moment is unknown or below finished offsets, or the start offset is unknown.
    """
    times = np.unique(np.array([milliseconds(moment) for moment in moments], np.int64))
    if history.num_rows == 0 or not len(times):
        return schemas.TIMELINE.empty_table()
    table = as_table(history)
    rows, at = last_rows(table, times)
    # The coordinator of a former state partition only rewrites its snapshots.
    first = begins(table)
    is_new = first | ~bools(table, "rewritten")
    changed = np.maximum.accumulate(np.where(is_new, np.arange(len(is_new)), 0))[rows]
    changed = numbers(table, "record_timestamp")[0][changed]
    then = table.select([*_KEPT, "record_topic", "record_kind", "from_snapshot"]).take(rows)
    then = then.append_column("moment", pa.array(at)).append_column("changed", pa.array(changed))
    then = pa.concat_tables([then, _before_records(table, times, then.schema)])
    heads = keys(table.filter(first), SHARE_PARTITION)
    if pc.count_distinct(heads).as_py() < len(heads):
        then = _latest(then, [*SHARE_PARTITION, "moment"], "changed")
    is_there = pc.not_equal(then.column("record_kind"), "tombstone").fill_null(True)
    then = then.filter(is_there)
    at = then.column("moment").to_numpy()
    offsets = as_table(past_offsets)
    ids = pc.unique(flat(then.column("topic_id")))
    moment, noted = numbers(offsets, "as_of")
    nearest = np.minimum(np.searchsorted(times, moment), len(times) - 1)
    there = np.where(noted & (times[nearest] == moment), nearest, -1)
    mine = _places(then, ids, at, len(times))
    place = pc.index_in(mine, _places(offsets, ids, there, len(times)))
    ends = offsets.select(["topic", "end_offset"]).take(place)
    return _add_lag(then, ends, pa.array(times[at]).view(schemas.TIMESTAMP))


def _before_records(table: pa.Table, times: Ints, schema: pa.Schema) -> pa.Table:
    """Return rows of unknown state before the first record, unless that creates the state."""
    first = np.flatnonzero(begins(table) & ~bools(table, "follows"))
    begun = numbers(table, "record_timestamp")[0][first]
    row, at = np.nonzero(times[np.newaxis, :] < begun[:, np.newaxis])
    heads = table.select([*SHARE_PARTITION, "record_topic"]).take(first[row])
    known = {"moment": pa.array(at), "changed": pa.array(np.full(len(at), -1))}
    return table_of({name: heads.column(name) for name in heads.column_names} | known, schema, True)


def _places(table: pa.Table, ids: pa.Array, moment: Ints, moments: int) -> pa.Array:
    """Return one number per topic partition and moment; null where one of them is unknown."""
    topic = pc.index_in(flat(table.column("topic_id")), ids).fill_null(-1).to_numpy()
    partition, known = numbers(table, "partition")
    number = (topic.astype(np.int64) * 2**31 + partition) * moments + moment
    return pa.array(number, mask=~known | (topic < 0) | (moment < 0))


def last_rows(table: pa.Table, moments: Ints) -> tuple[Ints, Ints]:
    """Return each state's last row up to each moment, and the moment's number."""
    first = np.flatnonzero(begins(table))
    time, _ = numbers(table, "record_timestamp")
    # Brokers' clocks may differ: a record counts once all before it do.
    low = min(int(time.min()), int(moments[0]))
    width = max(int(time.max()), int(moments[-1])) - low + 2
    states = np.arange(len(first), dtype=np.int64)
    place = states.repeat(np.diff(np.append(first, len(time))))
    sorted_by = np.maximum.accumulate(place * width + (time - low))
    requested = (states[:, np.newaxis] * width + (moments - low)).ravel()
    found = np.searchsorted(sorted_by, requested, side="right") - 1
    there = found >= np.repeat(first, len(moments))
    return found[there], np.tile(np.arange(len(moments)), len(first))[there]


def _add_lag(then: pa.Table, ends: pa.Table, as_of: pa.Array) -> pa.Table:
    start, has_start = numbers(then, "start_offset")
    count, has_count = numbers(then, "delivery_complete_count")
    end, has_end = numbers(ends, "end_offset")
    window_end, _ = numbers(then, "window_end_offset")
    is_whole = bools(then, "from_snapshot")
    lag = end - start - count
    reasons = {
        gaps.RECORDS_MISSING: ~has_start & ~is_whole,
        gaps.NO_START_OFFSET: ~has_start,
        gaps.NO_END_OFFSET_THEN: ~has_end,
        gaps.NO_COMPLETE_COUNT: ~has_count,
        gaps.NEGATIVE_LAG: lag < 0,
    }
    unread = np.maximum(end - np.maximum(window_end, start), 0)
    columns = {name: then.column(name) for name in _KEPT} | {
        "topic": ends.column("topic"),
        "as_of": as_of,
        "end_offset": ends.column("end_offset"),
        "lag": pa.array(lag, mask=np.any(list(reasons.values()), axis=0)),
        "unread": pa.array(unread, mask=~(has_start & has_end)),
        "lag_reason": first_reason(reasons),
    }
    return table_of(columns, schemas.TIMELINE)


_KEY = ["record_topic", "record_partition", "topic_id", "partition", "group_id"]
_COMPARED = (*_STATE, "runs", "leader_epoch")


def diff_arrow(before: Arrow, after: Arrow) -> pa.Table:
    """Compare the `sharelag.schemas.WINDOWS` of two moments.

    The result is `sharelag.schemas.DIFF`, one row per state of a share partition that existed at
    either moment, changed or not, sorted by group, topic id and partition.
    """
    for table in (before, after):
        schemas.require(table, schemas.WINDOWS, "windows")
    old, new = as_table(before), as_table(after)
    both = pa.concat_tables([old.select(_KEY), new.select(_KEY)])
    every = both.group_by(_KEY, use_threads=False).aggregate([])
    place = keys(every, _KEY)
    was, now = beside(place, old, _KEY), beside(place, new, _KEY)
    columns = {name: every.column(name) for name in SHARE_PARTITION}
    columns["topic"] = pa.nulls(every.num_rows, pa.string())
    for name in _COMPARED:
        columns |= {f"{name}_before": was.column(name), f"{name}_after": now.column(name)}
    columns |= _change(was, now)
    return table_of(columns, schemas.DIFF).sort_by(ascending(*SHARE_PARTITION))


def _change(was: pa.Table, now: pa.Table) -> dict[str, pa.Array]:
    existed, exists = present(was, "group_id"), present(now, "group_id")
    # A state that was initialised again, or whose start offset was altered, has another state epoch
    # or, after its deletion, a newer snapshot of no later number.
    (epoch, _), (epoch_before, _) = numbers(now, "state_epoch"), numbers(was, "state_epoch")
    whole = bools(was, "from_snapshot") & bools(now, "from_snapshot")
    (snapshots, _), (snapshots_before, _) = (numbers(one, "snapshot_epoch") for one in (now, was))
    (made, _), (made_before, _) = (numbers(one, "create_timestamp") for one in (now, was))
    anew = (epoch != epoch_before) | ((snapshots <= snapshots_before) & (made > made_before))
    reset = existed & exists & whole & anew
    (done_before, known_before), (done, known) = _add_finished(was), _add_finished(now)
    moved = (done != done_before) | ~_same(was, now)
    # The earlier state is unknown if the share partition is older than its first record.
    created = (numbers(now, "snapshot_epoch")[0] == 0) & bools(now, "from_snapshot")
    change = np.select(
        [~existed & ~created, ~existed, ~exists, reset, moved],
        ["unknown", "new", "gone", "reset", "moved"],
        "same",
    )
    comparable = existed & exists & ~reset & known & known_before & (done >= done_before)
    return {"change": pa.array(change), "finished": pa.array(done - done_before, mask=~comparable)}


def _add_finished(windows: pa.Table) -> tuple[Ints, Bools]:
    """Return the effective start offset plus the number of finished offsets beyond it."""
    effective, known = numbers(windows, "effective_start_offset")
    beyond = Runs(flat(windows.column("runs"))).sum(TERMINAL)
    return effective + beyond, known


def _same(was: pa.Table, now: pa.Table) -> Bools:
    pairs = zip(was.column("runs").to_pylist(), now.column("runs").to_pylist(), strict=True)
    same = np.array([one == other for one, other in pairs], bool)
    for name in _STATE:  # a new leader alone changes no state
        one, other = was.column(name), now.column(name)
        same &= mask(pc.equal(one, other)) | mask(pc.and_(pc.is_null(one), pc.is_null(other)))
    return same
