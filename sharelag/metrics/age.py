"""Age of the lag: how long the oldest unfinished record of each share partition has been waiting.

It starts at the timestamp of the record at the effective start offset if that record was read;
otherwise it is interpolated between moments with a known end offset of the topic partition. If only
transaction markers or compacted offsets are left, or the log is empty, no record is waiting and the
age is 0, as without lag. Records of an open transaction also wait; for a read_committed group their
age is interpolated.

Times are record timestamps: of the producer's clock with ``message.timestamp.type=CreateTime``, of
the broker's with ``LogAppendTime``. A record from the future has an age of 0, or an unknown age if
it is ahead by more than `CLOCKS`, as it may have waited for days.

End offsets over time are interpolated linearly between known ones, and unknown before the first and
after the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import PARTITION, known_times, numbers, present
from sharelag.schemas import Arrow, Bools, Ints
from sharelag.tables.arrow import as_table, beside, flat, keys


@dataclass(frozen=True)
class Ends:
    """Known end offsets, sorted by topic partition and time, and the topic partition of each row.

    ``place`` and ``rows`` use the same numbers for topic partitions, from 0.
    """

    place: Ints  # [known ends]
    time: Ints
    end: Ints  # non-decreasing within a topic partition
    rows: Ints  # [rows]

    @cached_property
    def by_time(self) -> _Steps:
        """The steps for a lookup by time."""
        return _number(self.place, self.time)

    @cached_property
    def by_end(self) -> _Steps:
        """The steps for a lookup by end offset."""
        return _number(self.place, self.end)


def known_ends(lag: Arrow, past_offsets: Arrow, until: int) -> Ends:
    """Return the known ends of the topic partitions in a lag table, including those of its rows.

    ``past_offsets`` may have any moments, in any order; ends later than ``until``, in milliseconds,
    are ignored.
    """
    mine, past = keys(lag, PARTITION), keys(past_offsets, PARTITION)
    places = pc.index_in(pa.chunked_array([mine, past]), pc.unique(mine).drop_null())
    codes = flat(places).fill_null(-1).to_numpy().astype(np.int64)
    time, timed = _of_both(lag, past_offsets, "as_of")
    end, ended = _of_both(lag, past_offsets, "end_offset")
    is_past = np.arange(len(codes)) >= lag.num_rows
    used = np.flatnonzero(timed & ended & (codes >= 0) & (~is_past | (time <= until)))
    order = used[np.lexsort((end[used], time[used], codes[used]))]
    return Ends(codes[order], time[order], _risen(codes[order], end[order]), codes[: lag.num_rows])


def time_of(ends: Ends, offset: Ints) -> tuple[Ints, Bools]:
    """Estimate when the end of each row's topic partition reached an offset, and whether known.

    In milliseconds. If the end stayed at the offset, it is the last such moment.
    """
    return _between(ends, ends.by_end, ends.end, ends.time, offset)


def end_at(ends: Ends, time: Ints) -> tuple[Ints, Bools]:
    """Estimate the end of each row's topic partition at a time in ms, and whether known."""
    return _between(ends, ends.by_time, ends.time, ends.end, time)


def first_time(ends: Ends) -> tuple[Ints, Bools]:
    """Return the first moment at which the end of each row's topic partition is known."""
    at = np.searchsorted(ends.place, ends.rows, side="left")
    known = at < np.searchsorted(ends.place, ends.rows, side="right")
    return np.append(ends.time, 0)[np.where(known, at, -1)], known


class _Steps(NamedTuple):
    """(topic partition, x) as one ascending number, to look up all rows at once."""

    values: Ints  # of x, each once, ascending
    numbered: Ints  # [known ends]


def _number(place: Ints, x: Ints) -> _Steps:
    values = np.unique(x)
    return _Steps(values, place * (len(values) + 1) + np.searchsorted(values, x, side="right"))


def _between(ends: Ends, steps: _Steps, x: Ints, y: Ints, points: Ints) -> tuple[Ints, Bools]:
    """Interpolate between the last point up to the target and the first beyond it."""
    if not len(x):
        return np.zeros(len(points), np.int64), np.zeros(len(points), bool)
    values, numbered = steps
    sought = ends.rows * (len(values) + 1) + np.searchsorted(values, points, side="right")
    after = np.searchsorted(numbered, sought, side="right")
    known = (after > 0) & (after < len(x))
    after = np.where(known, after, 0)
    before = np.maximum(after - 1, 0)
    known &= (ends.place[before] == ends.rows) & (ends.place[after] == ends.rows)
    share = np.where(known, points - x[before], 0) / np.where(known, x[after] - x[before], 1)
    return y[before] + np.rint(share * (y[after] - y[before])).astype(np.int64), known


def _of_both(lag: Arrow, past_offsets: Arrow, name: str) -> tuple[Ints, Bools]:
    (now, now_known), (past, past_known) = numbers(lag, name), numbers(past_offsets, name)
    return np.concatenate([now, past]), np.concatenate([now_known, past_known])


def _risen(place: Ints, end: Ints) -> Ints:
    """Raise ends that went back (after an unclean election) to the highest before."""
    steps, rank = np.unique(end, return_inverse=True)
    highest = np.maximum.accumulate(place * len(steps) + rank)
    return np.asarray(steps[highest - place * len(steps)] if len(steps) else end)


RECORD = "record"
INTERPOLATED = "interpolated"
#: Maximum lead of a producer's clock whose records have an age, in milliseconds.
CLOCKS = 60_000
#: Intervals of an unfinished range of a compacted topic, between which offsets are sampled.
SAMPLED = 16


@dataclass(frozen=True)
class Oldest:
    """The oldest unfinished offset of each row of a lag table; numbers are 0 where unknown."""

    offset: Ints
    unfinished: Bools  # whether there is one
    idle: Bools  # whether no record is known to be left to deliver
    timestamp: Ints  # milliseconds
    dated: Bools  # whether its time is known
    interpolated: Bools


def oldest_offsets(lag: Arrow) -> pa.Table:
    """Return the distinct offsets whose times `oldest` needs.

    They are ``topic topic_id partition asked_offset`` of `sharelag.schemas.TIMES`.
    """
    waiting = as_table(lag).filter(pc.greater(lag.column("effective_lag"), 0))
    names = ["topic", "topic_id", "partition", "effective_start_offset"]
    distinct = waiting.group_by(names, use_threads=False).aggregate([])
    return distinct.select(names).rename_columns(schemas.TIMES.names[:4])


def request_offsets(lag: Arrow, logs: Arrow) -> pa.Table:
    """Return the offsets that causes look up: the oldest unfinished and the first unread ones.

    For compacted topics it adds a sample, to estimate how many still have a record. The columns are
    those of `oldest_offsets`.
    """
    names = schemas.TIMES.names[:4]
    place = ["topic", "topic_id", "partition"]
    table = as_table(lag)
    unread = table.filter(pc.greater(table.column("unread"), 0))
    policy = beside(keys(table, PARTITION), logs, PARTITION).column("cleanup_policy")
    is_compacted = pc.match_substring(policy.cast(pa.string()), "compact")
    compacted = table.filter(pc.and_(is_compacted, pc.greater(table.column("effective_lag"), 0)))
    unread = unread.select([*place, "window_end_offset"]).rename_columns(names)
    tables = [oldest_offsets(table), unread]
    start, end = (numbers(compacted, name)[0] for name in ("effective_start_offset", "end_offset"))
    for n in range(1, SAMPLED):
        offsets = pa.array(start + (end - start) * n // SAMPLED)
        tables.append(compacted.select(place).append_column("asked_offset", offsets))
    return pa.concat_tables(tables).group_by(names, use_threads=False).aggregate([]).select(names)


def oldest(lag: Arrow, times: Arrow, ends: Ends, stable: Arrow | None = None) -> Oldest:
    """Return the oldest unfinished offset of each share partition, and its record's time.

    ``times`` has those of `oldest_offsets` that could be read. If the offset was compacted away,
    its time is that of the next record: if that one is finished, the oldest unfinished record is
    younger, never older. ``ends`` belong to the same lag table. For reads of committed records,
    ``stable`` has `sharelag.schemas.LOGS`: records between the last stable offset and the end wait,
    although they could not be read.
    """
    left, left_known = numbers(lag, "effective_lag")
    offset, _ = numbers(lag, "effective_start_offset")
    unfinished = left_known & (left > 0)
    requested = keys(lag, (*PARTITION, "effective_start_offset"))
    found = beside(requested, times, (*PARTITION, "asked_offset"))
    there, has_record = numbers(found, "offset")
    timestamp, timed = numbers(found, "timestamp")
    was_read = unfinished & present(found, "asked_offset")
    end, ended = numbers(lag, "end_offset")
    log_start, has_log_start = numbers(lag, "log_start_offset")
    # A record beyond that moment's end arrived later, so none was left at the moment.
    last = np.maximum(end, numbers(lag, "window_end_offset")[0])
    only_markers = was_read & (~has_record | (there >= last))
    if stable is not None:
        logs = beside(keys(lag, PARTITION), stable, PARTITION)
        limit, limited = numbers(logs, "last_stable_offset")
        only_markers &= ~(limited & ended & (limit < end))
    # In an empty log no record is waiting, wherever the group will start.
    empty = ~left_known & ended & has_log_start & (end <= log_start)
    dated = was_read & ~only_markers & timed & (timestamp >= 0)  # -1: a record without a time
    between, interpolated = time_of(ends, offset)
    interpolated &= unfinished & ~only_markers & ~dated
    return Oldest(
        offset=offset,
        unfinished=unfinished,
        idle=(left_known & (left == 0)) | only_markers | empty,
        timestamp=np.where(dated, timestamp, np.where(interpolated, between, 0)),
        dated=dated | interpolated,
        interpolated=interpolated,
    )


def age_columns(found: Oldest, as_of: int) -> dict[str, pa.Array]:
    """Return the age columns of `sharelag.schemas.PROGRESS` at a moment in milliseconds."""
    source = np.where(found.interpolated, INTERPOLATED, RECORD)
    is_known = found.dated | (found.unfinished & found.idle)
    age = np.where(found.idle, 0, np.maximum(as_of - found.timestamp, 0))
    is_aged = found.dated & (found.timestamp <= as_of + CLOCKS)
    return {
        "oldest_offset": pa.array(found.offset, mask=~found.unfinished),
        "oldest_timestamp": known_times(found.timestamp, found.dated),
        "oldest_from": pa.array(source, pa.string(), mask=~is_known),
        "age_ms": pa.array(age, mask=~(is_aged | found.idle)),
    }
