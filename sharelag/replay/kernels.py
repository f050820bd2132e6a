"""The compiled state machine: records of share partitions in, their final states out.

It does what ``ShareCoordinatorShard.replay`` does. Records before a share partition's last snapshot
or tombstone have no effect and can be left out.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from sharelag.model import NO_TIMESTAMP, UNINITIALIZED_START_OFFSET
from sharelag.replay.combine import COUNT, FIRST, LAST, STATE, combine_rows

# Kinds of records.
SNAPSHOT = 0
UPDATE = 1
TOMBSTONE = 2
UPDATE_TOMBSTONE = 3  # Kafka never writes it and cannot load it

# Columns of the numbers of a record, and of a state.
SNAPSHOT_EPOCH, STATE_EPOCH, LEADER_EPOCH, START_OFFSET, COMPLETE_COUNT, CREATED, WRITTEN = range(7)
# Further columns of a state.
EFFECTIVE_START, WINDOW_END, FROM_SNAPSHOT, REJECTED, LAST_ROW = range(7, 12)
STATE_COLUMNS = 12
_GREATEST = np.iinfo(np.int64).max


@numba.njit(cache=True)
def grown(rows: Any, needed: int) -> Any:
    """Return the matrix with room for at least that many rows."""
    if rows.shape[0] >= needed:
        return rows
    larger = np.empty((2 * needed, 4), np.int64)
    larger[: rows.shape[0]] = rows
    return larger


@numba.njit(cache=True)
def _load(rows: Any, n: int, batches: Any, begin: int, end: int) -> bool:
    """Append batches to the matrix; return False if one ends before it begins."""
    fine = True
    for k in range(begin, end):
        rows[n, FIRST], rows[n, LAST] = batches[k, 0], batches[k, 1]
        rows[n, STATE], rows[n, COUNT] = batches[k, 2], batches[k, 3]
        fine &= batches[k, 0] <= batches[k, 1]
        n += 1
    return fine


@numba.njit(cache=True)
def apply(
    i: Any,
    kind: Any,
    numbers: Any,
    batches: Any,
    batch_at: Any,
    now: Any,
    rows: Any,
    n: Any,
    exists: Any,
    fine: Any,
) -> Any:
    """Apply record i to a state: its numbers ``now`` (in place) and its batches ``rows[:n]``.

    Returns
    -------
    rows, n, exists, fine
        The matrix, which may have grown; the number of batches; whether there is a state; whether
        all of its batches are valid (none ends before it begins).
    """
    if kind[i] == UPDATE_TOMBSTONE:
        now[REJECTED] += 1
        return rows, n, exists, fine
    if kind[i] == TOMBSTONE:
        now[:] = 0
        return rows, 0, False, True
    begin, end = batch_at[i], batch_at[i + 1]
    rows = grown(rows, 2 * (n + end - begin) + 2)
    if kind[i] == SNAPSHOT or not exists:
        rejected = 0 if kind[i] == SNAPSHOT else now[REJECTED]
        now[: WRITTEN + 1] = numbers[i]
        if kind[i] == UPDATE:
            now[STATE_EPOCH], now[CREATED], now[WRITTEN] = 0, NO_TIMESTAMP, NO_TIMESTAMP
        now[FROM_SNAPSHOT], now[REJECTED] = kind[i] == SNAPSHOT, rejected
        n = end - begin
        fine = _load(rows, 0, batches, begin, end)
    else:
        fine &= _load(rows, n, batches, begin, end)
        start = numbers[i, START_OFFSET]
        if start == UNINITIALIZED_START_OFFSET:
            start = now[START_OFFSET]
        before = rows[:0] if fine else rows[:n].copy()
        merged = combine_rows(rows, n + end - begin, start)
        if merged < 0:
            rows[:n] = before
            now[REJECTED] += 1
            return rows, n, exists, fine
        now[START_OFFSET] = start
        if numbers[i, LEADER_EPOCH] != -1:
            now[LEADER_EPOCH] = numbers[i, LEADER_EPOCH]
        now[COMPLETE_COUNT] = numbers[i, COMPLETE_COUNT]
        n = merged
    now[LAST_ROW] = i
    return rows, n, True, fine


@numba.njit(cache=True, nogil=True)
def replay_rows(
    order: Any, bounds: Any, kind: Any, numbers: Any, batches: Any, batch_at: Any
) -> Any:
    """Replay each share partition's records.

    Parameters
    ----------
    order : int64[records]
        Row numbers, share partition by share partition, each in the order of the log.
    bounds : int64[share partitions + 1]
        Where in ``order`` each share partition begins.
    kind : int8[records]; numbers : int64[records, 7]; batches : int64[batches, 4] (first last state
    count) batch_at : int64[records + 1]
        Where in ``batches`` those of each record begin.

    Returns
    -------
    alive : bool[share partitions]
        False where a tombstone is last, or nothing could be replayed.
    state : int64[share partitions, STATE_COLUMNS]
    raw, raw_at, runs, runs_at
        The batches of each state as the coordinator lists them, and normalised.
    """
    keys = bounds.size - 1
    alive = np.zeros(keys, np.bool_)
    state = np.zeros((keys, STATE_COLUMNS), np.int64)
    raw, raw_at = np.empty((1024, 4), np.int64), np.zeros(keys + 1, np.int64)
    runs, runs_at = np.empty((1024, 4), np.int64), np.zeros(keys + 1, np.int64)
    rows = np.empty((256, 4), np.int64)
    for key in range(keys):
        n = 0
        exists, fine = False, True
        now = state[key]
        for x in range(bounds[key], bounds[key + 1]):
            rows, n, exists, fine = apply(
                order[x], kind, numbers, batches, batch_at, now, rows, n, exists, fine
            )
        alive[key] = exists
        raw_at[key + 1], runs_at[key + 1] = raw_at[key], runs_at[key]
        if not exists:
            continue
        raw = grown(raw, raw_at[key] + n)
        raw[raw_at[key] : raw_at[key] + n] = rows[:n]
        raw_at[key + 1] += n
        runs = grown(runs, runs_at[key] + 2 * n + 2)
        mine = runs[runs_at[key] :]
        n = normalise(rows, n, now[START_OFFSET], mine)
        skipped = window_of(mine, n, now)
        mine[: n - skipped] = mine[skipped:n]
        runs_at[key + 1] += n - skipped
    return alive, state, raw, raw_at, runs, runs_at


@numba.njit(cache=True)
def normalise(rows: Any, n: int, start: int, runs: Any) -> int:
    """Write batches as sorted, disjoint, merged runs from the start offset on; return how many.

    ``rows[:n]`` is overwritten.
    """
    kept = 0
    for i in range(n):
        if rows[i, FIRST] <= rows[i, LAST]:
            rows[kept] = rows[i]
            kept += 1
    n = combine_rows(rows, kept, start)
    out = 0
    for i in range(n):
        joins = out > 0 and runs[out - 1, LAST] + 1 == rows[i, FIRST]
        if (
            joins
            and runs[out - 1, COUNT] == rows[i, COUNT]
            and runs[out - 1, STATE] == rows[i, STATE]
        ):
            runs[out - 1, LAST] = rows[i, LAST]
        else:
            runs[out] = rows[i]
            out += 1
    return out


@numba.njit(cache=True)
def window_of(runs: Any, n: int, now: Any) -> int:
    """Store both ends of the window of a state; return how many leading runs are finished."""
    start = now[START_OFFSET]
    effective, skipped = start, 0
    while start != UNINITIALIZED_START_OFFSET and skipped < n and runs[skipped, FIRST] == effective:
        if not is_terminal(runs[skipped, STATE]):
            break
        # The largest int64 has no next offset.
        effective = min(runs[skipped, LAST], _GREATEST - 1) + 1
        skipped += 1
    now[EFFECTIVE_START] = effective
    last = runs[n - 1, LAST] if skipped < n else effective - 1
    now[WINDOW_END] = last if last == _GREATEST else last + 1
    return skipped


@numba.njit(cache=True, inline="always")
def is_terminal(state: int) -> bool:
    """Whether a state is acknowledged or archived."""
    return state == 2 or state == 4
