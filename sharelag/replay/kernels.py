"""The compiled state machine: records of share partitions in, their final states out.

It is equivalent to ``ShareCoordinatorShard.replay``. Records before a share partition's last
snapshot or tombstone have no effect and can be left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharelag.compiled import kernel, part
from sharelag.model import NO_TIMESTAMP, UNINITIALIZED_START_OFFSET
from sharelag.replay import layout as k
from sharelag.replay.merge import (
    GREATEST,
    LAST,
    OLD,
    OWN,
    RANK,
    SIZE,
    combine_any,
    compare,
    copy,
    from_matrix,
    measure,
    merge_rows,
    place_of,
    put,
    rank_of,
    runs_of,
    seams,
    splice,
)


@part
def apply(record: Any, state: Any, s: int, heap: Any, work: Any, count: bool, changes: Any) -> int:
    """Apply a record to a state in place; return the previous number of runs, or -1.

    ``record`` and ``work`` are those of `load`; the numbers of the state begin at ``s``, its
    batches are in the heap. With ``count``, changes by the record are counted: if only a part of a
    list was merged, their sums are stored in ``changes`` and the result is -1; otherwise the
    previous runs are at `OLD`.
    """
    kind = record[k.KIND]
    if kind == k.UPDATE_TOMBSTONE:
        state[s + k.REJECTED] += 1
        return -1
    if kind == k.TOMBSTONE:
        for number in range(s, s + k.PLACE):
            state[number] = 0
        state[s + k.UPDATED] = 1
        return -1
    n_old = -1
    if kind == k.SNAPSHOT or state[s + k.EXISTS] == 0:
        if count:
            n_old = runs_of(state, s, heap, work, OLD)
        _replace(record, state, s, heap, work)
        return n_old
    start = record[k.START_OFFSET]
    if start == UNINITIALIZED_START_OFFSET:
        start = state[s + k.START_OFFSET]
    size = record[k.BATCHES]
    early = _before_start(work, size, start) if state[s + k.PLAIN] == 1 else -1
    if early >= 0:
        size = _clip(work, size, start) if early > 0 else size
        _extend(state, s, heap, work, size, start, count, changes)
    else:
        if count:
            n_old = runs_of(state, s, heap, work, OLD)
        if not _extend_any(state, s, heap, work, size, start):
            state[s + k.REJECTED] += 1
            return -1
    state[s + k.START_OFFSET] = start
    if record[k.LEADER_EPOCH] != -1:
        state[s + k.LEADER_EPOCH] = record[k.LEADER_EPOCH]
    state[s + k.COMPLETE_COUNT] = record[k.COMPLETE_COUNT]
    state[s + k.UPDATED], state[s + k.MERGED] = 1, 1
    return n_old


@part
def _replace(record: Any, state: Any, s: int, heap: Any, work: Any) -> None:
    """Replace a state, by a snapshot, or by an update without a known snapshot."""
    from_snapshot = record[k.KIND] == k.SNAPSHOT
    for number in range(k.WRITTEN + 1):
        state[s + number] = record[number]
    if from_snapshot:
        state[s + k.REJECTED] = 0
    else:
        state[s + k.STATE_EPOCH] = 0
        state[s + k.CREATED], state[s + k.WRITTEN] = NO_TIMESTAMP, NO_TIMESTAMP
    state[s + k.FROM_SNAPSHOT], state[s + k.EXISTS], state[s + k.UPDATED] = from_snapshot, 1, 1
    state[s + k.MERGED] = 0
    size = record[k.BATCHES]
    give_place(state, s, heap, size)
    copy(heap, state[s + k.PLACE], work, 0, size)
    plain, seam, seam_end = seams(heap, state[s + k.PLACE], size, state[s + k.START_OFFSET])
    state[s + k.PLAIN], state[s + k.SEAM], state[s + k.SEAM_END] = plain, seam, seam_end


@part
def _before_start(work: Any, size: int, start: int) -> int:
    """Return how many new batches begin before the start offset.

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


@part
def _clip(work: Any, size: int, start: int) -> int:
    """Clip new batches to the start offset; return how many are left."""
    kept = 0
    for b in range(0, SIZE * size, SIZE):
        if work[b + LAST] >= start:
            put(work, SIZE * kept, max(work[b], start), work[b + LAST], work[b + RANK])
            kept += 1
    return kept


@part
def _extend(
    state: Any, s: int, heap: Any, work: Any, size: int, start: int, count: bool, changes: Any
) -> None:
    """Merge new batches into a plain list."""
    at, begin, end = state[s + k.PLACE], state[s + k.BEGIN], state[s + k.END]
    while begin < end and heap[at + SIZE * begin + LAST] < start:
        begin += 1
    if begin < end:
        heap[at + SIZE * begin] = max(heap[at + SIZE * begin], start)
    state[s + k.BEGIN] = begin
    seam, seam_end = state[s + k.SEAM], state[s + k.SEAM_END]
    if seam_end <= begin:
        seam, seam_end = -1, -1
    seam = max(seam, begin) if seam >= 0 else -1
    state[s + k.SEAM], state[s + k.SEAM_END] = seam, seam_end
    if size == 0 and seam < 0:
        return
    changed, unchanged, pieces, seam, seam_end = merge_rows(
        heap, at, begin, end, seam, seam_end, work, size
    )
    if count:
        first, until = at + SIZE * changed, at + SIZE * unchanged
        compare(heap, first, until, work, work.size // 4, pieces, changes)
    state[s + k.SEAM], state[s + k.SEAM_END] = seam, seam_end
    moved = make_room(state, s, heap, changed + pieces - unchanged)
    at, end = state[s + k.PLACE], state[s + k.END]
    splice(heap, at, changed - moved, unchanged - moved, end, work, pieces)
    state[s + k.END] = end + changed + pieces - unchanged


@part
def _extend_any(state: Any, s: int, heap: Any, work: Any, fresh: int, start: int) -> bool:
    """Merge lists of which one is not plain; return False if Kafka's merge would never end."""
    size = state[s + k.END] - state[s + k.BEGIN]
    matrix, merged = combine_any(heap, place_of(state, s), size, work, fresh, start)
    if merged < 0:
        return False
    give_place(state, s, heap, merged)
    from_matrix(matrix, merged, heap, state[s + k.PLACE])
    plain, seam, seam_end = seams(heap, state[s + k.PLACE], merged, start)
    state[s + k.PLAIN], state[s + k.SEAM], state[s + k.SEAM_END] = plain, seam, seam_end
    return True


@kernel
def replay_rows(walk: Any, key: Any, c: Any, state: Any, heap: Any) -> Any:
    """Replay records (`Columns`); return the heap, which may have grown.

    ``walk`` are row numbers, in log order within each share partition, and ``key`` is the number of
    each row's share partition. ``state`` has the numbers of all states so far, which are updated in
    place, like their batches in the heap. A state does not exist if a tombstone is last, or nothing
    could be replayed.
    """
    (
        kind, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete_count, created,
        written, batch_at, first, last, delivery_state, delivery_count,
    ) = c  # fmt: skip
    # Records replaced by a later snapshot or tombstone are not replayed.
    reset = np.full(state.size // k.STATE_COLUMNS, -1, np.int64)
    for x in range(walk.size):
        if kind[walk[x]] in (k.SNAPSHOT, k.TOMBSTONE):
            reset[key[walk[x]]] = x
    work, changes, record = new_work(), np.zeros(3, np.int64), np.empty(k.RECORD_COLUMNS, np.int64)
    for x in range(walk.size):
        i = walk[x]
        if x < reset[key[i]]:
            continue
        s = k.STATE_COLUMNS * key[i]
        pieces = most_pieces(state, s, batch_at[i + 1] - batch_at[i])
        if not has_room(pieces, heap, work):
            heap, work = with_room(pieces, heap, work)
        load(
            i, record, work, kind, snapshot_epoch, state_epoch, leader_epoch, start_offset,
            complete_count, created, written, batch_at, first, last, delivery_state, delivery_count,
        )  # fmt: skip
        apply(record, state, s, heap, work, False, changes)
        if state[s + k.UPDATED] == 1:
            state[s + k.UPDATED], state[s + k.LAST_ROW] = 0, i
    return heap


@kernel
def put_states(state: Any, heap: Any) -> Any:
    """Store the windows of states; return their batches: ``raw, raw_at, runs, runs_at``.

    The first are those that the coordinator lists, the others are normalized.
    """
    count = state.size // k.STATE_COLUMNS
    total, most = 0, 0
    for s in range(0, state.size, k.STATE_COLUMNS):
        size = state[s + k.END] - state[s + k.BEGIN]
        total += size
        most = max(most, size)
    work = new_work()
    heap, work = with_room(2 * most + 2, heap, work)
    raw, raw_at = np.empty((3, total), np.int64), np.zeros(count + 1, np.int64)
    runs, runs_at = np.empty((3, 1024), np.int64), np.zeros(count + 1, np.int64)
    for number in range(count):
        raw, runs = put_state(
            number, state, k.STATE_COLUMNS * number, heap, work, raw, raw_at, runs, runs_at
        )
    return raw, raw_at, runs, runs_at


@part
def put_state(
    at: int, state: Any, s: int, heap: Any, work: Any, raw: Any, raw_at: Any, runs: Any,
    runs_at: Any,
) -> Any:  # fmt: skip
    """Append the batches of a state, if it exists, to both lists, and store its window.

    The returned matrices may have grown.
    """
    raw_at[at + 1], runs_at[at + 1] = raw_at[at], runs_at[at]
    if state[s + k.EXISTS] == 0:
        return raw, runs
    size = state[s + k.END] - state[s + k.BEGIN]
    raw, raw_at[at + 1] = _append(raw, raw_at[at], heap, place_of(state, s), size)
    own = OWN * (work.size // 4)
    n = runs_of(state, s, heap, work, OWN)
    skipped = measure(work, own, n, state, s)
    own += SIZE * skipped
    runs, runs_at[at + 1] = _append(runs, runs_at[at], work, own, n - skipped)
    return raw, runs


@part
def _append(to: Any, used: int, rows: Any, at: int, count: int) -> Any:
    size = used + count
    if to.shape[1] < size:
        larger = np.empty((3, 2 * size), np.int64)
        for row in range(3):
            for i in range(used):
                larger[row, i] = to[row, i]
        to = larger
    for row in range(3):
        for i in range(count):
            to[row, used + i] = rows[at + SIZE * i + row]
    return to, size


# ---- states in one array, their batches in a heap ------------------------------------------------


#: Additional batches for which a place has room.
_SPARE = 6
#: Index of the number of used elements of a heap.
USED = 0


@kernel
def new_heap() -> Any:
    """Return an empty heap; `with_room` enlarges it."""
    heap = np.empty(1 << 14, np.int64)
    heap[USED] = 1
    return heap


@part
def new_work() -> Any:
    """Return the working array for applying a record; `with_room` enlarges it."""
    return np.empty(4 * SIZE * 512, np.int64)


@part
def most_pieces(state: Any, s: int, fresh: int) -> int:
    """Return an upper bound of the batches after merging new ones into a state."""
    return int(2 * (state[s + k.END] - state[s + k.BEGIN] + fresh) + 2)


@part
def has_room(pieces: int, heap: Any, work: Any) -> bool:
    """Return whether the working lists, and a new place in the heap, have room for these pieces."""
    size = SIZE * pieces
    return bool(4 * size <= work.size and heap[USED] + 2 * size + SIZE * _SPARE <= heap.size)


@part
def with_room(pieces: int, heap: Any, work: Any) -> Any:
    """Return heap and work with room for these pieces, enlarged if necessary."""
    size = SIZE * pieces
    if 4 * size > work.size:
        work = np.empty(8 * size, np.int64)
    if heap[USED] + 2 * size + SIZE * _SPARE > heap.size:
        larger = np.empty(2 * heap.size + 4 * size, np.int64)
        for i in range(heap[USED]):
            larger[i] = heap[i]
        heap = larger
    return heap, work


@part
def load(
    i: int, record: Any, work: Any,
    kind: Any, snapshot_epoch: Any, state_epoch: Any, leader_epoch: Any, start_offset: Any,
    complete_count: Any, created: Any, written: Any,
    batch_at: Any, first: Any, last: Any, delivery_state: Any, delivery_count: Any,
) -> None:  # fmt: skip
    """Copy record ``i`` to ``record``, and its batches to `FRESH`, which is at 0.

    The columns are those of `Columns`. Callers unpack them once, because a kernel counts a
    reference whenever it takes an array out of a tuple.
    """
    record[k.KIND] = kind[i]
    record[k.SNAPSHOT_EPOCH], record[k.STATE_EPOCH] = snapshot_epoch[i], state_epoch[i]
    record[k.LEADER_EPOCH], record[k.START_OFFSET] = leader_epoch[i], start_offset[i]
    record[k.COMPLETE_COUNT] = complete_count[i]
    record[k.CREATED], record[k.WRITTEN] = created[i], written[i]
    record[k.BATCHES] = batch_at[i + 1] - batch_at[i]
    at = 0
    for b in range(batch_at[i], batch_at[i + 1]):
        put(work, at, first[b], last[b], rank_of(delivery_state[b], delivery_count[b]))
        at += SIZE


@part
def give_place(state: Any, s: int, heap: Any, size: int) -> None:
    """Give a state without batches a place for this many, and one more."""
    if state[s + k.ROOM] < size + 1:
        state[s + k.PLACE], state[s + k.ROOM] = heap[USED], size + size // 2 + _SPARE
        heap[USED] += SIZE * state[s + k.ROOM]
    state[s + k.BEGIN], state[s + k.END] = 0, size


@part
def make_room(state: Any, s: int, heap: Any, more: int) -> int:
    """Make room for some batches, and one more, after those of a state.

    Return by how many batches these moved towards the start of their place.
    """
    moved = state[s + k.BEGIN]
    size, before = state[s + k.END] - moved, place_of(state, s)
    if state[s + k.END] + more + 1 <= state[s + k.ROOM]:
        return 0
    if 4 * (size + more + 1) > 3 * state[s + k.ROOM]:
        state[s + k.ROOM] = 0
        give_place(state, s, heap, size + more)
    copy(heap, state[s + k.PLACE], heap, before, size)
    state[s + k.BEGIN], state[s + k.END] = 0, size
    if state[s + k.SEAM] >= 0:
        state[s + k.SEAM] -= moved
        state[s + k.SEAM_END] -= moved
    return int(moved)
