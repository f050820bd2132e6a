"""The compiled state machine: records of share partitions in, their final states out.

It does what ``ShareCoordinatorShard.replay`` does. Records before a share partition's last snapshot
or tombstone have no effect and can be left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharelag.compiled import kernel
from sharelag.model import NO_TIMESTAMP, UNINITIALIZED_START_OFFSET
from sharelag.replay.layout import (
    BATCHES,
    BEGIN,
    COMPLETE_COUNT,
    CREATED,
    END,
    EXISTS,
    FROM_SNAPSHOT,
    KIND,
    LAST_ROW,
    LEADER_EPOCH,
    MERGED,
    PLACE,
    PLAIN,
    RECORD_COLUMNS,
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
from sharelag.replay.measures import compare, measure, place_of, runs_of
from sharelag.replay.merge import (
    GREATEST,
    LAST,
    OLD,
    OWN,
    RANK,
    SIZE,
    combine_any,
    copy,
    from_matrix,
    merge_rows,
    put,
    seams,
    splice,
)
from sharelag.replay.states import (
    give_place,
    has_room,
    load,
    make_room,
    most_pieces,
    new_work,
    with_room,
)


@kernel(_nrt=False)
def apply(record: Any, state: Any, s: int, heap: Any, work: Any, count: bool, changes: Any) -> int:
    """Apply a record to a state in place.

    Parameters
    ----------
    record, work
        As from `load`.
    state, s, heap
        A state: where its numbers begin; its batches are in the heap.
    count : bool
        Whether to count what the record changed. If only a part of a list was merged anew, sums
        of that are stored in ``changes``; otherwise the runs before are, at `OLD`.

    Returns
    -------
    int
        How many runs there were, or -1 if the sums are stored.
    """
    kind = record[KIND]
    if kind == UPDATE_TOMBSTONE:
        state[s + REJECTED] += 1
        return -1
    if kind == TOMBSTONE:
        for number in range(s, s + PLACE):
            state[number] = 0
        return -1
    n_old = -1
    if kind == SNAPSHOT or state[s + EXISTS] == 0:
        if count:
            n_old = runs_of(state, s, heap, work, OLD)
        _replace(record, state, s, heap, work)
        return n_old
    start = record[START_OFFSET]
    if start == UNINITIALIZED_START_OFFSET:
        start = state[s + START_OFFSET]
    size = record[BATCHES]
    early = _before_start(work, size, start) if state[s + PLAIN] == 1 else -1
    if early >= 0:
        size = _clipped(work, size, start) if early > 0 else size
        _extend(state, s, heap, work, size, start, count, changes)
    else:
        if count:
            n_old = runs_of(state, s, heap, work, OLD)
        if not _extend_any(state, s, heap, work, size, start):
            state[s + REJECTED] += 1
            return -1
    state[s + START_OFFSET] = start
    if record[LEADER_EPOCH] != -1:
        state[s + LEADER_EPOCH] = record[LEADER_EPOCH]
    state[s + COMPLETE_COUNT] = record[COMPLETE_COUNT]
    state[s + UPDATED], state[s + MERGED] = 1, 1
    return n_old


@kernel(_nrt=False)
def _replace(record: Any, state: Any, s: int, heap: Any, work: Any) -> None:
    """Begin a state: by a snapshot, or by an update of what no snapshot is known of."""
    from_snapshot = record[KIND] == SNAPSHOT
    for number in range(WRITTEN + 1):
        state[s + number] = record[number]
    if from_snapshot:
        state[s + REJECTED] = 0
    else:
        state[s + STATE_EPOCH] = 0
        state[s + CREATED], state[s + WRITTEN] = NO_TIMESTAMP, NO_TIMESTAMP
    state[s + FROM_SNAPSHOT], state[s + EXISTS], state[s + UPDATED] = from_snapshot, 1, 1
    state[s + MERGED] = 0
    size = record[BATCHES]
    give_place(state, s, heap, size)
    copy(heap, state[s + PLACE], work, 0, size)
    plain, seam, seam_end = seams(heap, state[s + PLACE], size, state[s + START_OFFSET])
    state[s + PLAIN], state[s + SEAM], state[s + SEAM_END] = plain, seam, seam_end


@kernel(_nrt=False)
def _before_start(work: Any, size: int, start: int) -> int:
    """Return how many new batches begin before the start offset.

    Returns
    -------
    int
        -1 unless those from the start offset on are sorted and disjoint.
    """
    found, before = 0, start - 1
    for b in range(0, SIZE * size, SIZE):
        first, last = work[b], work[b + LAST]
        if first < 0 or last < first or last >= GREATEST - 1:
            return -1
        found += first < start
        if last >= start:
            if max(first, start) <= before:
                return -1
            before = last
    return found


@kernel(_nrt=False)
def _clipped(work: Any, size: int, start: int) -> int:
    """Leave out of new batches what is before the start offset; return how many are left."""
    kept = 0
    for b in range(0, SIZE * size, SIZE):
        if work[b + LAST] >= start:
            put(work, SIZE * kept, max(work[b], start), work[b + LAST], work[b + RANK])
            kept += 1
    return kept


@kernel(_nrt=False)
def _extend(
    state: Any, s: int, heap: Any, work: Any, size: int, start: int, count: bool, changes: Any
) -> None:
    """Merge new batches into a plain list."""
    at, begin, end = state[s + PLACE], state[s + BEGIN], state[s + END]
    while begin < end and heap[at + SIZE * begin + LAST] < start:
        begin += 1
    if begin < end:
        heap[at + SIZE * begin] = max(heap[at + SIZE * begin], start)
    state[s + BEGIN] = begin
    seam, seam_end = state[s + SEAM], state[s + SEAM_END]
    if seam_end <= begin:
        seam, seam_end = -1, -1
    seam = max(seam, begin) if seam >= 0 else -1
    state[s + SEAM], state[s + SEAM_END] = seam, seam_end
    if size == 0 and seam < 0:
        return
    changed, unchanged, pieces, seam, seam_end = merge_rows(
        heap, at, begin, end, seam, seam_end, work, size
    )
    if count:
        first, until = at + SIZE * changed, at + SIZE * unchanged
        compare(heap, first, until, work, work.size // 4, pieces, changes)
    state[s + SEAM], state[s + SEAM_END] = seam, seam_end
    moved = make_room(state, s, heap, changed + pieces - unchanged)
    at, end = state[s + PLACE], state[s + END]
    splice(heap, at, changed - moved, unchanged - moved, end, work, pieces)
    state[s + END] = end + changed + pieces - unchanged


@kernel(_nrt=True)
def _extend_any(state: Any, s: int, heap: Any, work: Any, fresh: int, start: int) -> bool:
    """Merge lists of which one is not plain; return False if Kafka's merge would never end."""
    size = state[s + END] - state[s + BEGIN]
    matrix, merged = combine_any(heap, place_of(state, s), size, work, fresh, start)
    if merged < 0:
        return False
    give_place(state, s, heap, merged)
    from_matrix(matrix, merged, heap, state[s + PLACE])
    plain, seam, seam_end = seams(heap, state[s + PLACE], merged, start)
    state[s + PLAIN], state[s + SEAM], state[s + SEAM_END] = plain, seam, seam_end
    return True


@kernel
def replay_rows(walk: Any, key: Any, c: Any, state: Any, heap: Any) -> Any:
    """Replay records.

    Parameters
    ----------
    walk : int64[records]
        Row numbers, those of each share partition in the order of the log.
    key : int[rows]
        The number of each row's share partition.
    c : Columns
    state : int64[share partitions * STATE_COLUMNS]
        States so far, which are changed. A state does not exist where a tombstone is last, or
        nothing could be replayed.
    heap : int64[]
        Their batches; it is changed.

    Returns
    -------
    heap
        Which may have grown.
    """
    (
        kind, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete_count, created,
        written, batch_at, first, last, delivery_state, delivery_count,
    ) = c  # fmt: skip
    # What a later snapshot or tombstone replaces need not be replayed.
    reset = np.full(state.size // STATE_COLUMNS, -1, np.int64)
    for x in range(walk.size):
        if kind[walk[x]] in (SNAPSHOT, TOMBSTONE):
            reset[key[walk[x]]] = x
    work, changes, record = new_work(), np.zeros(3, np.int64), np.empty(RECORD_COLUMNS, np.int64)
    for x in range(walk.size):
        i = walk[x]
        if x < reset[key[i]]:
            continue
        s = STATE_COLUMNS * key[i]
        pieces = most_pieces(state, s, batch_at[i + 1] - batch_at[i])
        if not has_room(pieces, heap, work):
            heap, work = with_room(pieces, heap, work)
        load(
            i, record, work, kind, snapshot_epoch, state_epoch, leader_epoch, start_offset,
            complete_count, created, written, batch_at, first, last, delivery_state, delivery_count,
        )  # fmt: skip
        apply(record, state, s, heap, work, False, changes)
        if state[s + UPDATED] == 1:
            state[s + UPDATED], state[s + LAST_ROW] = 0, i
    return heap


@kernel
def put_states(state: Any, heap: Any) -> Any:
    """Return the batches of states, and store their windows.

    Returns
    -------
    raw, raw_at, runs, runs_at
        The batches of each state as the coordinator lists them, and normalised.
    """
    count = state.size // STATE_COLUMNS
    total, most = 0, 0
    for s in range(0, state.size, STATE_COLUMNS):
        size = state[s + END] - state[s + BEGIN]
        total += size
        most = max(most, size)
    work = new_work()
    heap, work = with_room(2 * most + 2, heap, work)
    raw, raw_at = np.empty((3, total), np.int64), np.zeros(count + 1, np.int64)
    runs, runs_at = np.empty((3, 1024), np.int64), np.zeros(count + 1, np.int64)
    for number in range(count):
        raw, runs = put_state(
            number, state, STATE_COLUMNS * number, heap, work, raw, raw_at, runs, runs_at
        )
    return raw, raw_at, runs, runs_at


@kernel
def put_state(
    at: int, state: Any, s: int, heap: Any, work: Any, raw: Any, raw_at: Any, runs: Any,
    runs_at: Any,
) -> Any:  # fmt: skip
    """Append the batches of a state, if there is one, to both lists, and store its window.

    Returns
    -------
    raw, runs
        The matrices, which may have grown.
    """
    raw_at[at + 1], runs_at[at + 1] = raw_at[at], runs_at[at]
    if state[s + EXISTS] == 0:
        return raw, runs
    size = state[s + END] - state[s + BEGIN]
    raw, raw_at[at + 1] = _appended(raw, raw_at[at], heap, place_of(state, s), size)
    own = OWN * (work.size // 4)
    n = runs_of(state, s, heap, work, OWN)
    skipped = measure(work, own, n, state, s)
    own += SIZE * skipped
    runs, runs_at[at + 1] = _appended(runs, runs_at[at], work, own, n - skipped)
    return raw, runs


@kernel
def _appended(to: Any, used: int, rows: Any, at: int, count: int) -> Any:
    size = used + count
    if to.shape[1] < size:
        larger = np.empty((3, 2 * size), np.int64)
        larger[:, :used] = to[:, :used]
        to = larger
    for part in range(3):
        for i in range(count):
            to[part, used + i] = rows[at + SIZE * i + part]
    return to, size
