"""Who held which offsets locked, and how each lock ended, by a broker's request log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.compiled import kernel, ready
from sharelag.schemas import HOLDS, INSTANT, SHARE_PARTITION, Arrow, Ints
from sharelag.tables.arrow import (
    as_table,
    ascending,
    changes,
    each_offset,
    flat,
    integers,
    keys,
    table_of,
)

_SESSION, _MEMBER = ("broker", "group_id", "member_id"), ("group_id", "member_id")
_SESSION_CLOSED, _LEADER_CHANGED = "session closed", "leader changed"
ACQUIRED, ACKNOWLEDGED, WRITTEN = 0, 1, 2
#: Reasons for the end of a hold; acknowledgements are at the index of their type (4 renews).
ENDS = [
    *("gap", "accept", "release", "reject", "renew"),
    *("lock expired", "acquired again", "state written", _SESSION_CLOSED, _LEADER_CHANGED),
]
_RENEW, _EXPIRED, _AGAIN, _STATE = 4, 5, 6, 7
#: The time of an event that did not happen.
NEVER = np.iinfo(np.int64).max
#: More than the maximum number of deliveries of a record.
_MOST = 1 << 20


def holds_of(tables: Mapping[str, Arrow], last: int | None = None) -> pa.Table:
    """Return which member held which offsets, from when to when.

    That is `sharelag.schemas.HOLDS`, sorted by share partition, offset and time. A lock ends when
    an acknowledgement succeeds, when it expires, when the member closes its share session or
    acquires the offsets again, when the leader writes another state of them, or when another leader
    reads the state (KIP-932, "Share session"; Kafka's `SharePartition`).

    ``tables`` are ``requests acquisitions acknowledgements state_calls`` of
    `sharelag.schemas.REQUEST_TABLES`, complete for the wanted groups. ``last`` is the end of the
    log in microseconds since 1970, by default the last of ``requests``.
    """
    acquired, requests, calls = (
        as_table(tables[name]) for name in ("acquisitions", "requests", "state_calls")
    )
    if not acquired.num_rows:
        return HOLDS.empty_table()
    if last is None:
        last = int(integers(requests, "timestamp").max())
    pieces = _cut(_events_of(acquired, as_table(tables["acknowledgements"]), calls))
    ends, causes, locked = ready(ends_of_holds, work=len(pieces.time))(
        *(pieces.place, pieces.time, pieces.kind, pieces.member),
        *(pieces.deliveries, pieces.lock, pieces.type, np.int64(last)),
    )
    # Adjacent offsets of one acquisition that ended in the same way are one hold.
    held = np.flatnonzero(pieces.kind == ACQUIRED)
    held = held[np.lexsort((pieces.place[held], pieces.of[held]))]
    begins = changes(*(column[held] for column in (pieces.of, ends, causes, locked)))
    first = held[begins]
    end = pieces.end[held[np.append(begins[1:], True)]]
    until, cause, locked = ends[first], causes[first], locked[first]
    rows = acquired.take(pa.array(pieces.of[first]))
    since = integers(rows, "timestamp")
    closings = requests.filter(_is_good(requests, "session_epoch", -1))
    readings = calls.filter(_is_good(calls, "call", "read"))
    for name, of, asked in (
        (_SESSION_CLOSED, _SESSION, closings),
        (_LEADER_CHANGED, SHARE_PARTITION, readings),
    ):
        at = _next(keys(rows, of), since, asked, of)
        earlier = at < until
        until[earlier], cause[earlier] = at[earlier], ENDS.index(name)
    is_over = until != NEVER
    columns = {name: rows.column(name) for name in (*SHARE_PARTITION, "member_id")} | {
        "first_offset": pa.array(pieces.first[first]),
        "last_offset": pa.array(end - 1),
        "delivery_count": rows.column("delivery_count"),
        "since": rows.column("timestamp"),
        "locked_until": pa.array(locked, mask=locked == NEVER).cast(INSTANT),
        "until": pa.array(until, mask=~is_over).cast(INSTANT),
        "ended_by": pa.array(ENDS).take(pa.array(cause, mask=~is_over)),
    }
    return table_of(columns, HOLDS).sort_by(ascending(*SHARE_PARTITION, "first_offset", "since"))


def held_at(holds: pa.Table, moment: int) -> pa.Table:
    """Return the holds of a moment, in microseconds since 1970."""
    at = pa.scalar(moment).cast(INSTANT)
    until = holds.column("until")
    goes_on = pc.or_(until.is_null(), pc.greater(until, at).fill_null(False))
    return holds.filter(pc.and_(pc.less_equal(holds.column("since"), at), goes_on))


def _is_good(table: pa.Table, name: str, value: Any) -> pa.Array:
    good = pc.and_(pc.equal(table.column(name), value), pc.equal(table.column("error_code"), 0))
    return good.fill_null(False)


def _next(rows: pa.Array, since: Ints, asked: pa.Table, of: tuple[str, ...]) -> Ints:
    """Return the time of the next row of a table with the same key; `NEVER` without one."""
    if not asked.num_rows:
        return np.full(len(since), NEVER)
    mine, theirs = _codes([rows, keys(asked, of)])
    times = integers(asked, "timestamp")
    order = np.lexsort((times, theirs))
    code, time = theirs[order], times[order]
    moments = np.unique(np.concatenate([time, since]))
    step = len(moments) + 1
    have = code * step + np.searchsorted(moments, time)
    at = np.searchsorted(have, mine * step + np.searchsorted(moments, since), side="right")
    found = np.minimum(at, len(have) - 1)
    return np.where((at < len(have)) & (code[found] == mine), time[found], NEVER)


# ---- events of runs of offsets -------------------------------------------------------------------


class Events(NamedTuple):
    """Events of runs of offsets; one row per acquisition, acknowledgement and state batch."""

    place: Ints  # number of the share partition, or after `_cut` of a piece of one
    first: Ints
    end: Ints  # exclusive
    time: Ints
    kind: Ints
    member: Ints
    deliveries: Ints  # delivery count; the maximum for a finished state batch
    lock: Ints  # microseconds; 0: unknown
    type: Ints  # of an acknowledgement
    of: Ints  # the row of the acquisitions; else -1


def _events_of(acquired: pa.Table, acknowledged: pa.Table, calls: pa.Table) -> Events:
    accepted = pc.equal(acknowledged.column("error_code"), 0).fill_null(False)
    acknowledged, written = acknowledged.filter(accepted), _find_written(calls)
    parts = (acquired, acknowledged, written)
    sizes = [part.num_rows for part in parts]
    members = _codes([keys(part, _MEMBER) for part in parts[:2]])
    times = [integers(part, "timestamp") for part in parts]
    times[1] = _delay_acknowledgements(acquired, acknowledged, times[0], times[1], members)

    def column(name: str, *having: int) -> Ints:
        """Return a column of the tables that have it, and 0 for the others."""
        zeros = (np.zeros(size, np.int64) for size in sizes)
        each = enumerate(zip(parts, zeros, strict=True))
        return np.concatenate([integers(t, name) if n in having else no for n, (t, no) in each])

    return Events(
        place=np.concatenate(_codes([keys(part, SHARE_PARTITION) for part in parts])),
        first=column("first_offset", 0, 1, 2),
        end=column("last_offset", 0, 1, 2) + 1,
        time=np.concatenate(times),
        kind=np.repeat([ACQUIRED, ACKNOWLEDGED, WRITTEN], sizes),
        member=np.concatenate([*members, np.full(sizes[2], -1)]),
        deliveries=column("delivery_count", 0, 2),
        lock=1000 * column("lock_ms", 0, 1),
        type=column("acknowledge_type", 1),
        of=np.append(np.arange(sizes[0]), np.full(sizes[1] + sizes[2], -1)),
    )


def _find_written(calls: pa.Table) -> pa.Table:
    """Return one row per written state batch; a finished one ends any delivery."""
    written = calls.filter(_is_good(calls, "call", "write")).combine_chunks()
    lists = flat(written.column("state_batches"))
    parent, items = pc.list_parent_indices(lists), pc.list_flatten(lists)
    table = written.select([*SHARE_PARTITION, "timestamp"]).take(parent)
    for name in ("first_offset", "last_offset"):
        table = table.append_column(name, pc.struct_field(items, name))
    finished = pc.not_equal(pc.struct_field(items, "delivery_state"), 0)
    count = pc.struct_field(items, "delivery_count").cast(pa.int64())
    return table.append_column("delivery_count", pc.if_else(finished, _MOST, count))


def _delay_acknowledgements(
    acquired: pa.Table,
    acknowledged: pa.Table,
    acquired_at: Ints,
    acknowledged_at: Ints,
    members: list[Ints],
) -> Ints:
    """Return times of acknowledgements, but not before acquisitions of the member in earlier lines.

    The log has milliseconds, so a quick acknowledgement may seem to precede its acquisition; lines
    of one connection are in order.
    """
    both = (acquired, acknowledged)
    file = np.concatenate(_codes([flat(part.column("source")).fill_null("") for part in both]))
    of = np.concatenate(members) * (1 + int(file.max(initial=0))) + file
    line = np.concatenate([integers(part, "position") for part in both])
    is_acknowledgement = np.arange(len(line)) >= acquired.num_rows
    # Acknowledgements of a line precede its acquisitions.
    order = np.lexsort((~is_acknowledgement, line, of))
    time = np.concatenate([acquired_at + 1, np.full(len(acknowledged_at), np.iinfo(np.int64).min)])
    ranks = np.unique(time, return_inverse=True)
    number = np.unique(of[order], return_inverse=True)[1].astype(np.int64)
    step = len(ranks[0]) + 1
    latest = np.maximum.accumulate(ranks[1][order] + number * step) - number * step
    earliest = np.empty(len(line), dtype=np.int64)
    earliest[order] = ranks[0][latest]
    return np.maximum(acknowledged_at, earliest[acquired.num_rows :])


def _cut(events: Events) -> Events:
    """Cut events at all boundaries of events of their share partition, in order of time."""
    place = np.concatenate([events.place, events.place])
    offset = np.concatenate([events.first, events.end])
    order = np.lexsort((offset, place))
    is_new = changes(place[order], offset[order])
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(is_new) - 1
    offsets = offset[order][is_new]
    begin, end = number[: len(events.first)], number[len(events.first) :]
    row, piece = each_offset(begin, end - 1)
    # Order at equal times: acknowledgements, writes, acquisitions.
    rank = np.where(events.kind == ACQUIRED, 2, events.kind == WRITTEN)
    sorted_by = np.lexsort((rank[row], events.time[row], piece))
    row, piece = row[sorted_by], piece[sorted_by]
    every = Events(*(column[row] for column in events))
    return every._replace(place=piece, first=offsets[piece], end=offsets[piece + 1])


@kernel
def ends_of_holds(
    segment: Any, time: Any, kind: Any, member: Any, count: Any, lock: Any, how: Any, last: Any
) -> Any:
    """Return the end of each acquisition, its reason, and the end of its lock.

    Events are sorted by segment and time. A time is `NEVER` if it is unknown or not reached by
    ``last``, the end of the log. If an acknowledgement succeeded after its lock should have
    expired, the broker's clock is right: the lock held until then.
    """
    ends = np.full(time.size, NEVER)
    causes = np.zeros(time.size, np.int64)
    locked = np.full(time.size, NEVER)
    held = -1
    for k in range(time.size):
        if k and segment[k] != segment[k - 1]:
            held = -1
        if kind[k] == ACQUIRED:
            if held >= 0:
                ends[held], causes[held] = time[k], _AGAIN
                if locked[held] <= time[k]:
                    ends[held], causes[held] = locked[held], _EXPIRED
            held = k
            if lock[k]:
                locked[k] = time[k] + lock[k]
        elif held >= 0 and kind[k] == ACKNOWLEDGED and member[k] == member[held]:
            if how[k] == _RENEW:
                length = lock[k] if lock[k] else lock[held]
                if length:
                    locked[held] = time[k] + length
            else:
                ends[held], causes[held] = time[k], how[k]
                held = -1
        elif held >= 0 and kind[k] == WRITTEN and count[k] >= count[held]:
            ends[held], causes[held] = time[k], _STATE
            if locked[held] <= time[k]:
                ends[held], causes[held] = locked[held], _EXPIRED
            held = -1
        is_last = k + 1 == time.size or segment[k + 1] != segment[k]
        if is_last and held >= 0 and locked[held] <= last:
            ends[held], causes[held] = locked[held], _EXPIRED
    return ends, causes, locked


def _codes(columns: list[pa.Array]) -> list[Ints]:
    both = pa.concat_arrays([column.cast(pa.string()) for column in columns])
    numbers = both.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    ends = np.cumsum([len(column) for column in columns])
    return np.split(numbers, ends[:-1])
