"""Who held which offsets locked, and how each lock ended, by a broker's log of requests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.compiled import ready
from sharelag.replay.hold_events import events_of
from sharelag.replay.hold_kernel import ACQUIRED, ENDS, NEVER, ends_of_holds
from sharelag.replay.hold_pieces import merged, pieces_of
from sharelag.replay.request_columns import Ints, codes, micros
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, keys
from sharelag.schemas.records import SHARE_PARTITION
from sharelag.schemas.requests import HOLDS, INSTANT

_SESSION = ("broker", "group_id", "member_id")
_SESSION_CLOSED, _LEADER_CHANGED = "session closed", "leader changed"


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
    events = events_of(tables)
    if last is None:
        last = int(micros(as_table(tables["requests"]), "timestamp").max())
    pieces = pieces_of(events)
    ends, causes, locked = ready(ends_of_holds, work=len(pieces.time))(
        *(pieces.segment, pieces.time, pieces.kind, pieces.member),
        *(pieces.deliveries, pieces.lock, pieces.type, np.int64(last)),
    )
    held = pieces.kind == ACQUIRED
    found = merged(pieces, held, ends, causes, locked)
    rows = acquired.take(pa.array(found.of))
    since = micros(rows, "timestamp")
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


def _next(rows: pa.Array, since: Ints, asked: pa.Table, of: tuple[str, ...]) -> Ints:
    """Return the time of the next row of a table with the same key; `NEVER` without one."""
    if not asked.num_rows:
        return np.full(len(since), NEVER)
    mine, theirs = codes([rows, keys(asked, of)])
    times = micros(asked, "timestamp")
    order = np.lexsort((times, theirs))
    code, time = theirs[order], times[order]
    moments = np.unique(np.concatenate([time, since]))
    step = len(moments) + 1
    have = code * step + np.searchsorted(moments, time)
    at = np.searchsorted(have, mine * step + np.searchsorted(moments, since), side="right")
    found = np.minimum(at, len(have) - 1)
    return np.where((at < len(have)) & (code[found] == mine), time[found], NEVER)
