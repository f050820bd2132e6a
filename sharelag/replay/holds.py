"""Who held which offsets locked, and how each lock ended, by a broker's log of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.compiled import ready
from sharelag.replay.hold_kernel import (
    ACKNOWLEDGED,
    ACQUIRED,
    ENDS,
    NEVER,
    WRITTEN,
    ends_of_holds,
)
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.schemas.records import SHARE_PARTITION
from sharelag.schemas.requests import HOLDS, INSTANT

_SESSION = ("broker", "group_id", "member_id")
_SESSION_CLOSED, _LEADER_CHANGED = "session closed", "leader changed"
_Ints = NDArray[np.int64]


class _Events(NamedTuple):
    """What happened to runs of offsets; a row an acquisition, acknowledgement or state batch."""

    place: _Ints  # share partition, by number
    first: _Ints
    end: _Ints  # exclusive
    time: _Ints
    kind: _Ints
    member: _Ints
    deliveries: _Ints  # delivery count; of a finished state batch the most there is
    lock: _Ints  # microseconds; 0: not known
    type: _Ints  # of an acknowledgement
    of: _Ints  # the row of the acquisitions; else -1


def holds_of(tables: Mapping[str, Arrow], last: int | None = None) -> pa.Table:
    """Return who held which offsets from when to when.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table or pyarrow.RecordBatch
        ``requests acquisitions acknowledgements state_calls`` of
        `sharelag.schemas.requests.REQUEST_TABLES`: all of the groups that are wanted.
    last : int, optional
        Where the log ends, in microseconds since 1970; else at the last of ``requests``.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.requests.HOLDS`, sorted by share partition, offset and time. A lock ends
        with an acknowledgement that was not refused, when it expires, when the member closes its
        share session or acquires the offsets again, when the leader writes another state of them,
        or when another leader reads the state (KIP-932, "Share session"; Kafka's `SharePartition`).
    """
    acquired = as_table(tables["acquisitions"])
    if not acquired.num_rows:
        return HOLDS.empty_table()
    events = _events(tables)
    if last is None:
        last = int(_micros(as_table(tables["requests"]), "timestamp").max())
    pieces = _pieces(events)
    ends, causes, locked = ready(ends_of_holds, work=len(pieces.time))(
        *(pieces.segment, pieces.time, pieces.kind, pieces.member),
        *(pieces.deliveries, pieces.lock, pieces.type, np.int64(last)),
    )
    held = pieces.kind == ACQUIRED
    found = _merged(pieces, held, ends, causes, locked)
    rows = acquired.take(pa.array(found.of))
    since = _micros(rows, "timestamp")
    for name, of, asked in (
        (_SESSION_CLOSED, _SESSION, _closings(tables)),
        (_LEADER_CHANGED, SHARE_PARTITION, _readings(tables)),
    ):
        at = _next(keys(rows, of), since, asked, of)
        earlier = at < found.until
        found.until[earlier], found.cause[earlier] = at[earlier], ENDS.index(name)
    ended = found.until != NEVER
    columns = {name: rows.column(name) for name in (*SHARE_PARTITION, "member_id")}
    columns |= {
        "first_offset": pa.array(found.first),
        "last_offset": pa.array(found.end - 1),
        "delivery_count": rows.column("delivery_count"),
        "since": rows.column("timestamp"),
        "locked_until": pa.array(found.locked, mask=found.locked == NEVER).cast(INSTANT),
        "until": pa.array(found.until, mask=~ended).cast(INSTANT),
        "ended_by": pa.array(ENDS).take(pa.array(found.cause, mask=~ended)),
    }
    table = pa.table([columns[field.name] for field in HOLDS], schema=HOLDS)
    return table.sort_by(
        [(name, "ascending") for name in (*SHARE_PARTITION, "first_offset", "since")]
    )


def held_at(holds: pa.Table, moment: int) -> pa.Table:
    """Return the holds of one moment, in microseconds since 1970."""
    at = pa.scalar(moment).cast(INSTANT)
    until = holds.column("until")
    goes_on = pc.or_(until.is_null(), pc.greater(until, at).fill_null(False))
    return holds.filter(pc.and_(pc.less_equal(holds.column("since"), at), goes_on))


# ---- events --------------------------------------------------------------------------------------


def _events(tables: Mapping[str, Arrow]) -> _Events:
    acquired = as_table(tables["acquisitions"])
    acknowledged = as_table(tables["acknowledgements"])
    counts = pc.equal(acknowledged.column("error_code"), 0).fill_null(False)
    acknowledged = acknowledged.filter(counts)
    written = _written(as_table(tables["state_calls"]))
    parts = (acquired, acknowledged, written)
    places = _codes([keys(part, SHARE_PARTITION) for part in parts])
    members = _codes([keys(part, _SESSION[1:]) for part in (acquired, acknowledged)])
    nobody = np.full(written.num_rows, -1)
    times = [_micros(part, "timestamp") for part in parts]
    times[1] = _after_acquiring(acquired, acknowledged, times[0], times[1], members)
    kinds = [
        np.full(part.num_rows, kind)
        for part, kind in zip(parts, (ACQUIRED, ACKNOWLEDGED, WRITTEN), strict=True)
    ]
    zeros = np.zeros(written.num_rows, dtype=np.int64)
    return _Events(
        place=np.concatenate(places),
        first=np.concatenate([_ints(part, "first_offset") for part in parts]),
        end=np.concatenate([_ints(part, "last_offset") for part in parts]) + 1,
        time=np.concatenate(times),
        kind=np.concatenate(kinds),
        member=np.concatenate([*members, nobody]),
        deliveries=np.concatenate(
            [
                _ints(acquired, "delivery_count"),
                np.zeros(acknowledged.num_rows, dtype=np.int64),
                _ints(written, "delivery_count"),
            ]
        ),
        lock=1000
        * np.concatenate([_ints(acquired, "lock_ms"), _ints(acknowledged, "lock_ms"), zeros]),
        type=np.concatenate(
            [
                np.zeros(acquired.num_rows, dtype=np.int64),
                _ints(acknowledged, "acknowledge_type"),
                zeros,
            ]
        ),
        of=np.concatenate(
            [
                np.arange(acquired.num_rows),
                np.full(acknowledged.num_rows + written.num_rows, -1),
            ]
        ),
    )


def _written(calls: pa.Table) -> pa.Table:
    """Return a row a state batch that was written; one that is finished ends any delivery."""
    good = pc.and_(pc.equal(calls.column("call"), "write"), pc.equal(calls.column("error_code"), 0))
    written = calls.filter(good.fill_null(False)).combine_chunks()
    lists = flat(written.column("state_batches"))
    parent, items = pc.list_parent_indices(lists), pc.list_flatten(lists)
    table = written.select([*SHARE_PARTITION, "timestamp"]).take(parent)
    for name in ("first_offset", "last_offset"):
        table = table.append_column(name, pc.struct_field(items, name))
    finished = pc.not_equal(pc.struct_field(items, "delivery_state"), 0)
    count = pc.struct_field(items, "delivery_count").cast(pa.int64())
    return table.append_column("delivery_count", pc.if_else(finished, 1 << 20, count))


def _after_acquiring(
    acquired: pa.Table,
    acknowledged: pa.Table,
    acquired_at: _Ints,
    acknowledged_at: _Ints,
    members: list[_Ints],
) -> _Ints:
    """Return times of acknowledgements, never before what the member acquired in earlier lines.

    The log tells milliseconds, so that a quick acknowledgement may seem earlier; lines of one
    connection stand in their order.
    """
    files = _codes([flat(part.column("source")).fill_null("") for part in (acquired, acknowledged)])
    of = np.concatenate(members) * (1 + max(int(f.max(initial=0)) for f in files)) + np.concatenate(
        files
    )
    line = np.concatenate([_ints(acquired, "position"), _ints(acknowledged, "position")])
    is_acknowledgement = np.arange(len(line)) >= acquired.num_rows
    # Acknowledgements of a line come before what the same line acquires.
    order = np.lexsort((~is_acknowledgement, line, of))
    time = np.concatenate([acquired_at + 1, np.full(len(acknowledged_at), np.iinfo(np.int64).min)])
    ranks = np.unique(time, return_inverse=True)
    number = np.unique(of[order], return_inverse=True)[1].astype(np.int64)
    step = len(ranks[0]) + 1
    latest = np.maximum.accumulate(ranks[1][order] + number * step) - number * step
    earliest = np.empty(len(line), dtype=np.int64)
    earliest[order] = ranks[0][latest]
    return np.maximum(acknowledged_at, earliest[acquired.num_rows :])


# ---- offsets -------------------------------------------------------------------------------------


class _Pieces(NamedTuple):
    """Events cut where any event of their share partition begins or ends, in their order."""

    segment: _Ints
    time: _Ints
    kind: _Ints
    member: _Ints
    deliveries: _Ints
    lock: _Ints
    type: _Ints
    of: _Ints
    first: _Ints
    end: _Ints


def _pieces(events: _Events) -> _Pieces:
    place = np.concatenate([events.place, events.place])
    offset = np.concatenate([events.first, events.end])
    order = np.lexsort((offset, place))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(place[order]) != 0) | (np.diff(offset[order]) != 0)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(is_new) - 1
    offsets = offset[order][is_new]
    begin, end = number[: len(events.first)], number[len(events.first) :]
    counts = np.maximum(end - begin, 0)
    row = np.repeat(np.arange(len(counts)), counts)
    segment = begin[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    # At one moment: acknowledgements, what is written, then what is acquired.
    rank = np.where(events.kind == ACQUIRED, 2, events.kind == WRITTEN)
    sorted_by = np.lexsort((rank[row], events.time[row], segment))
    row, segment = row[sorted_by], segment[sorted_by]
    return _Pieces(
        segment=segment,
        time=events.time[row],
        kind=events.kind[row],
        member=events.member[row],
        deliveries=events.deliveries[row],
        lock=events.lock[row],
        type=events.type[row],
        of=events.of[row],
        first=offsets[segment],
        end=offsets[segment + 1],
    )


class _Found(NamedTuple):
    of: _Ints
    first: _Ints
    end: _Ints
    until: _Ints
    cause: _Ints
    locked: _Ints


def _merged(
    pieces: _Pieces, held: NDArray[np.bool_], ends: _Ints, causes: _Ints, locked: _Ints
) -> _Found:
    """Join neighbours of one acquisition that ended in the same way."""
    chosen = np.flatnonzero(held)
    chosen = chosen[np.lexsort((pieces.segment[chosen], pieces.of[chosen]))]
    same = np.ones(len(chosen), dtype=bool)
    for column in (pieces.of, ends, causes, locked):
        same[1:] &= column[chosen][1:] == column[chosen][:-1]
    begins = same.copy()
    begins[0], begins[1:] = True, ~same[1:]
    first = np.flatnonzero(begins)
    last = np.concatenate([first[1:] - 1, [len(chosen) - 1]])
    of, to = chosen[first], chosen[last]
    return _Found(pieces.of[of], pieces.first[of], pieces.end[to], ends[of], causes[of], locked[of])


# ---- whole sessions and share partitions ---------------------------------------------------------


def _closings(tables: Mapping[str, Arrow]) -> pa.Table:
    requests = as_table(tables["requests"])
    closed = pc.and_(
        pc.equal(requests.column("session_epoch"), -1), pc.equal(requests.column("error_code"), 0)
    )
    return requests.filter(closed.fill_null(False))


def _readings(tables: Mapping[str, Arrow]) -> pa.Table:
    calls = as_table(tables["state_calls"])
    read = pc.and_(pc.equal(calls.column("call"), "read"), pc.equal(calls.column("error_code"), 0))
    return calls.filter(read.fill_null(False))


def _next(rows: pa.Array, since: _Ints, asked: pa.Table, of: tuple[str, ...]) -> _Ints:
    """Return the time of the next row of a table with the same key; `NEVER` without one."""
    if not asked.num_rows:
        return np.full(len(since), NEVER)
    codes = _codes([rows, keys(asked, of)])
    times = _micros(asked, "timestamp")
    order = np.lexsort((times, codes[1]))
    code, time = codes[1][order], times[order]
    moments = np.unique(np.concatenate([time, since]))
    step = len(moments) + 1
    have = code * step + np.searchsorted(moments, time)
    at = np.searchsorted(have, codes[0] * step + np.searchsorted(moments, since), side="right")
    found = np.minimum(at, len(have) - 1)
    return np.where((at < len(have)) & (code[found] == codes[0]), time[found], NEVER)


# ---- columns -------------------------------------------------------------------------------------


def _codes(columns: list[pa.Array]) -> list[_Ints]:
    """Number the texts of several columns: equal texts have equal numbers."""
    both = pa.concat_arrays([column.cast(pa.string()) for column in columns])
    codes = both.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    ends = np.cumsum([len(column) for column in columns])
    return np.split(codes, ends[:-1])


def _ints(table: pa.Table, name: str) -> _Ints:
    column = flat(table.column(name)).cast(pa.int64()).fill_null(0)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def _micros(table: pa.Table, name: str) -> _Ints:
    return np.asarray(
        flat(table.column(name)).cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64
    )
