"""States of share partitions as kernels have them: numbers in one array, batches in a heap.

A state is `STATE_COLUMNS` numbers in a row. Its batches have a place in the heap, with room for
more; a list that outgrows its place gets a larger one at the end of the heap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharelag.compiled import kernel
from sharelag.replay.layout import (
    BATCHES,
    BEGIN,
    COMPLETE_COUNT,
    CREATED,
    END,
    KIND,
    LEADER_EPOCH,
    PLACE,
    ROOM,
    SEAM,
    SEAM_END,
    SNAPSHOT_EPOCH,
    START_OFFSET,
    STATE_EPOCH,
    WRITTEN,
)
from sharelag.replay.measures import place_of
from sharelag.replay.merge import SIZE, copy, put, rank_of

#: A place has room for so many batches more than are needed.
_SPARE = 6
#: How many numbers of a heap are in use: its first number.
USED = 0


@kernel
def new_heap() -> Any:
    """Return an empty heap; `with_room` makes it larger."""
    heap = np.empty(1 << 14, np.int64)
    heap[USED] = 1
    return heap


@kernel
def new_work() -> Any:
    """Return the array of the lists that a record is applied with; `with_room` makes it larger."""
    return np.empty(4 * SIZE * 512, np.int64)


@kernel(inline="always")
def most_pieces(state: Any, s: int, fresh: int) -> int:
    """Return a number of batches that the merge of a state and so many more cannot exceed."""
    return int(2 * (state[s + END] - state[s + BEGIN] + fresh) + 2)


@kernel(inline="always")
def has_room(pieces: int, heap: Any, work: Any) -> bool:
    """Whether so many pieces fit into the working lists, and a new place for them in the heap."""
    size = SIZE * pieces
    return bool(4 * size <= work.size and heap[USED] + 2 * size + SIZE * _SPARE <= heap.size)


@kernel
def with_room(pieces: int, heap: Any, work: Any) -> Any:
    """Return heap and work with room for so many pieces: larger ones, where there is none."""
    size = SIZE * pieces
    if 4 * size > work.size:
        work = np.empty(8 * size, np.int64)
    if heap[USED] + 2 * size + SIZE * _SPARE > heap.size:
        larger = np.empty(2 * heap.size + 4 * size, np.int64)
        larger[: heap[USED]] = heap[: heap[USED]]
        heap = larger
    return heap, work


@kernel(inline="always")
def load(
    i: int, record: Any, work: Any,
    kind: Any, snapshot_epoch: Any, state_epoch: Any, leader_epoch: Any, start_offset: Any,
    complete_count: Any, created: Any, written: Any,
    batch_at: Any, first: Any, last: Any, delivery_state: Any, delivery_count: Any,
) -> None:  # fmt: skip
    """Copy record ``i`` to ``record``, and its batches to `FRESH`, which is at 0.

    The columns are those of `Columns`, which callers unpack once: whenever a kernel takes an array
    out of a tuple, it counts references to it.
    """
    record[KIND] = kind[i]
    record[SNAPSHOT_EPOCH], record[STATE_EPOCH] = snapshot_epoch[i], state_epoch[i]
    record[LEADER_EPOCH], record[START_OFFSET] = leader_epoch[i], start_offset[i]
    record[COMPLETE_COUNT] = complete_count[i]
    record[CREATED], record[WRITTEN] = created[i], written[i]
    record[BATCHES] = batch_at[i + 1] - batch_at[i]
    at = 0
    for b in range(batch_at[i], batch_at[i + 1]):
        put(work, at, first[b], last[b], rank_of(delivery_state[b], delivery_count[b]))
        at += SIZE


@kernel(_nrt=False)
def give_place(state: Any, s: int, heap: Any, size: int) -> None:
    """Give a state that has no batches yet a place for so many, and one more."""
    if state[s + ROOM] < size + 1:
        state[s + PLACE], state[s + ROOM] = heap[USED], size + size // 2 + _SPARE
        heap[USED] += SIZE * state[s + ROOM]
    state[s + BEGIN], state[s + END] = 0, size


@kernel(_nrt=False)
def make_room(state: Any, s: int, heap: Any, more: int) -> int:
    """Make sure of room for some batches, and one more, after those of a state.

    Returns
    -------
    int
        By how many batches they moved towards the start of their place.
    """
    moved = state[s + BEGIN]
    size, before = state[s + END] - moved, place_of(state, s)
    if state[s + END] + more + 1 <= state[s + ROOM]:
        return 0
    if 4 * (size + more + 1) > 3 * state[s + ROOM]:
        state[s + ROOM] = 0
        give_place(state, s, heap, size + more)
    copy(heap, state[s + PLACE], heap, before, size)
    state[s + BEGIN], state[s + END] = 0, size
    if state[s + SEAM] >= 0:
        state[s + SEAM] -= moved
        state[s + SEAM_END] -= moved
    return int(moved)
