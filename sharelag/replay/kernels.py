"""The compiled state machine: records of share partitions in, their final states out.

It does what ``ShareCoordinatorShard.replay`` does. Records before a share partition's last snapshot
or tombstone have no effect and can be left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharelag.compiled import kernel
from sharelag.model import NO_TIMESTAMP, UNINITIALIZED_START_OFFSET
from sharelag.replay.gather import BLOCK, gather, room
from sharelag.replay.layout import (
    BATCHES,
    BATCHES_END,
    BEGIN,
    COMPLETE_COUNT,
    CREATED,
    END,
    EXISTS,
    FROM_SNAPSHOT,
    KIND,
    LAST_ROW,
    LEADER_EPOCH,
    PLAIN,
    REJECTED,
    SEAM,
    SEAM_END,
    SNAPSHOT,
    START_OFFSET,
    STATE_COLUMNS,
    STATE_EPOCH,
    TOMBSTONE,
    UPDATE_TOMBSTONE,
    UPDATED,
    WRITTEN,
)
from sharelag.replay.measures import compare, measure, runs_of
from sharelag.replay.merge import (
    FIRST,
    FRESH,
    GREATEST,
    LAST,
    OUT,
    RANK,
    combine_any,
    from_matrix,
    merge_rows,
    seams,
    splice,
)


@kernel
def new_matrix() -> Any:
    """Return the matrix that `apply` works on; it returns a larger one when that is needed."""
    return np.empty((9, 512), np.int64)


@kernel
def apply(
    record: Any, batches: Any, now: Any, rows: Any, count: bool, changes: Any, old: Any
) -> Any:
    """Apply a record to a state: its numbers ``now`` and its batches in ``rows``, both in place.

    Parameters
    ----------
    record, batches
        A row of what `gather` returns, and its batches.
    count : bool
        Whether it is asked what the record changed. If only a part of a list was merged anew, sums
        of that are stored in ``changes``; otherwise the runs before are, in ``old``.

    Returns
    -------
    rows, old, n_old
        The matrices, which may have grown; how many runs there were, or -1 if the sums are stored.
    """
    kind = record[KIND]
    if kind == UPDATE_TOMBSTONE:
        now[REJECTED] += 1
        return rows, old, -1
    if kind == TOMBSTONE:
        now[:] = 0
        return rows, old, -1
    begin, end = record[BATCHES], record[BATCHES_END]
    rows = _with_room(rows, now, end - begin)
    n_old = -1
    if kind == SNAPSHOT or now[EXISTS] == 0:
        if count:
            old, n_old = runs_of(rows, now, old)
        _replace(record, batches, now, rows)
        return rows, old, n_old
    start = record[START_OFFSET]
    if start == UNINITIALIZED_START_OFFSET:
        start = now[START_OFFSET]
    size = _load_in_order(batches, begin, end, start, rows) if now[PLAIN] == 1 else -1
    if size >= 0:
        _extend(now, rows, size, start, count, changes)
    else:
        if count:
            old, n_old = runs_of(rows, now, old)
        if not _extend_any(batches, begin, end, now, rows, start):
            now[REJECTED] += 1
            return rows, old, -1
    now[START_OFFSET] = start
    if record[LEADER_EPOCH] != -1:
        now[LEADER_EPOCH] = record[LEADER_EPOCH]
    now[COMPLETE_COUNT] = record[COMPLETE_COUNT]
    now[UPDATED] = 1
    return rows, old, n_old


@kernel
def _with_room(rows: Any, now: Any, fresh: int) -> Any:
    """Return the matrix with room for the pieces of all batches; moves those of the state."""
    begin, size = now[BEGIN], now[END] - now[BEGIN]
    needed = 2 * (size + fresh) + 2
    if begin + needed <= rows.shape[1]:
        return rows
    larger = rows
    if needed > rows.shape[1] // 2:
        larger = np.empty((9, 4 * needed), np.int64)
    for part in range(3):
        for i in range(size):
            larger[part, i] = rows[part, begin + i]
    if now[SEAM] >= 0:
        now[SEAM] -= begin
        now[SEAM_END] -= begin
    now[BEGIN], now[END] = 0, size
    return larger


@kernel
def _load(batches: Any, begin: int, end: int, rows: Any, at: int) -> None:
    """Write batches as they are."""
    for part in range(3):
        for b in range(begin, end):
            rows[part, at + b - begin] = batches[part, b]


@kernel
def _replace(record: Any, batches: Any, now: Any, rows: Any) -> None:
    """Begin a state: by a snapshot, or by an update of what no snapshot is known of."""
    from_snapshot = record[KIND] == SNAPSHOT
    for number in range(WRITTEN + 1):
        now[number] = record[number]
    if from_snapshot:
        now[REJECTED] = 0
    else:
        now[STATE_EPOCH], now[CREATED], now[WRITTEN] = 0, NO_TIMESTAMP, NO_TIMESTAMP
    now[FROM_SNAPSHOT], now[EXISTS], now[UPDATED] = from_snapshot, 1, 1
    begin, end = record[BATCHES], record[BATCHES_END]
    _load(batches, begin, end, rows, 0)
    now[BEGIN], now[END] = 0, end - begin
    now[PLAIN], now[SEAM], now[SEAM_END] = seams(rows, 0, end - begin, now[START_OFFSET])


@kernel
def _load_in_order(batches: Any, begin: int, end: int, start: int, rows: Any) -> int:
    """Write new batches from the start offset on; -1 unless they are sorted and disjoint."""
    size, before = 0, start - 1
    first, last, rank = rows[FRESH + FIRST], rows[FRESH + LAST], rows[FRESH + RANK]
    for b in range(begin, end):
        f, t = batches[FIRST, b], batches[LAST, b]
        if f < 0 or t < f or t >= GREATEST - 1:
            return -1
        if t < start:
            continue
        f = max(f, start)
        if f <= before:
            return -1
        first[size], last[size], rank[size] = f, t, batches[RANK, b]
        before = t
        size += 1
    return size


@kernel
def _extend(now: Any, rows: Any, size: int, start: int, count: bool, changes: Any) -> None:
    """Merge new batches into a plain list."""
    begin, end = now[BEGIN], now[END]
    while begin < end and rows[LAST, begin] < start:
        begin += 1
    if begin < end:
        rows[FIRST, begin] = max(rows[FIRST, begin], start)
    now[BEGIN] = begin
    seam, seam_end = now[SEAM], now[SEAM_END]
    if seam_end <= begin:
        seam, seam_end = -1, -1
    seam = max(seam, begin) if seam >= 0 else -1
    if size == 0 and seam < 0:
        now[SEAM], now[SEAM_END] = -1, -1
        return
    changed, unchanged, pieces, seam, seam_end = merge_rows(rows, begin, end, size, seam, seam_end)
    if count:
        compare(rows, changed, unchanged, rows[OUT : OUT + 3], pieces, changes)
    now[END] = splice(rows, changed, unchanged, end, pieces)
    now[SEAM], now[SEAM_END] = seam, seam_end


@kernel
def _extend_any(batches: Any, begin: int, end: int, now: Any, rows: Any, start: int) -> bool:
    """Merge lists of which one is not plain; return False if Kafka's merge would never end."""
    at = now[END]
    _load(batches, begin, end, rows, at)
    matrix, merged = combine_any(rows, now[BEGIN], at + end - begin, start)
    if merged < 0:
        return False
    now[BEGIN], now[END] = 0, merged
    from_matrix(matrix, merged, rows)
    now[PLAIN], now[SEAM], now[SEAM_END] = seams(rows, 0, merged, start)
    return True


@kernel
def replay_rows(order: Any, bounds: Any, c: Any) -> Any:
    """Replay each share partition's records.

    Parameters
    ----------
    order : int64[records]
        Row numbers, share partition by share partition, each in the order of the log.
    bounds : int64[share partitions + 1]
        Where in ``order`` each share partition begins.
    c : Columns

    Returns
    -------
    state : int64[share partitions, STATE_COLUMNS]
        It does not exist where a tombstone is last, or nothing could be replayed.
    raw, raw_at, runs, runs_at
        The batches of each state as the coordinator lists them, and normalised.
    """
    keys = bounds.size - 1
    state = np.zeros((keys, STATE_COLUMNS), np.int64)
    raw, raw_at = np.empty((3, 1024), np.int64), np.zeros(keys + 1, np.int64)
    runs, runs_at = np.empty((3, 1024), np.int64), np.zeros(keys + 1, np.int64)
    rows, own, changes = new_matrix(), np.empty((3, 512), np.int64), np.zeros(3, np.int64)
    records, batches = room()
    for key in range(keys):
        now = state[key]
        for begin in range(bounds[key], bounds[key + 1], BLOCK):
            end = min(begin + BLOCK, bounds[key + 1])
            batches = gather(order, begin, end, c, records, batches)
            for x in range(end - begin):
                rows, own, _ = apply(records[x], batches, now, rows, False, changes, own)
                if now[UPDATED] == 1:
                    now[UPDATED], now[LAST_ROW] = 0, order[begin + x]
        raw, runs, own = put_state(key, now, rows, own, raw, raw_at, runs, runs_at)
    return state, raw, raw_at, runs, runs_at


@kernel
def put_state(
    at: int, now: Any, rows: Any, own: Any, raw: Any, raw_at: Any, runs: Any, runs_at: Any
) -> Any:
    """Append the batches of a state, if there is one, to both lists, and store its window.

    Returns
    -------
    raw, runs, own
        The matrices, which may have grown; ``own`` is for this function alone.
    """
    raw_at[at + 1], runs_at[at + 1] = raw_at[at], runs_at[at]
    if now[EXISTS] == 0:
        return raw, runs, own
    begin, end = now[BEGIN], now[END]
    raw, raw_at[at + 1] = _appended(raw, raw_at[at], rows, begin, end)
    own, n = runs_of(rows, now, own)
    skipped = measure(own, 0, n, now)
    runs, runs_at[at + 1] = _appended(runs, runs_at[at], own, skipped, n)
    return raw, runs, own


@kernel
def _appended(to: Any, used: int, rows: Any, begin: int, end: int) -> Any:
    size = used + end - begin
    if to.shape[1] < size:
        larger = np.empty((3, 2 * size), np.int64)
        larger[:, :used] = to[:, :used]
        to = larger
    for part in range(3):
        for i in range(begin, end):
            to[part, used + i - begin] = rows[part, i]
    return to, size
