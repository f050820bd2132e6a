"""What follows from the batches of a state: its window, sums of it, and what a record changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from sharelag.compiled import kernel
from sharelag.model import UNINITIALIZED_START_OFFSET
from sharelag.replay.layout import (
    ARCHIVED,
    AVAILABLE,
    BEGIN,
    COMPLETE,
    EFFECTIVE_START,
    END,
    HEAD_COUNT,
    MAX_COUNT,
    PLACE,
    PLAIN,
    REDELIVERED,
    RELEASED,
    RUNS,
    START_OFFSET,
    WINDOW_END,
)
from sharelag.replay.merge import (
    GREATEST,
    LAST,
    RANK,
    SIZE,
    combine_any,
    count_of,
    from_matrix,
    put,
    state_of,
)


@kernel(_nrt=False)
def compare(old: Any, o: int, old_end: int, new: Any, at: int, size: int, changes: Any) -> None:
    """Walk along the batches ``old[o:old_end]`` and a list; sum what happened to each offset."""
    for r in range(at, at + SIZE * size, SIZE):
        first, until, rank = new[r], new[r + LAST], new[r + RANK]
        state, count = state_of(rank), count_of(rank)
        while first <= until:
            while o < old_end and old[o + LAST] < first:
                o += SIZE
            covered = o < old_end and old[o] <= first
            stop = until
            if o < old_end:
                stop = min(until, old[o + LAST] if covered else old[o] - 1)
            if not covered or old[o + RANK] != rank:
                was, size_here = count_of(old[o + RANK]) if covered else 0, stop - first + 1
                if state == 4 and not (covered and state_of(old[o + RANK]) == 4):
                    changes[ARCHIVED] += size_here
                if count > was:
                    changes[REDELIVERED] += size_here * (count - max(was, 1))
                    if state == 0:
                        changes[RELEASED] += size_here
            if stop == GREATEST:
                break  # no offset follows
            first = stop + 1


@kernel(_nrt=False)
def runs_of(state: Any, s: int, heap: Any, work: Any, to: int) -> int:
    """Write the batches of a state sorted, disjoint, merged and clipped to the start offset.

    Parameters
    ----------
    state, s, heap
        A state: where its numbers begin; its batches are in the heap.
    to : int
        Which list of the working array.

    Returns
    -------
    int
        How many there are.
    """
    to *= work.size // 4
    begin, size = place_of(state, s), state[s + END] - state[s + BEGIN]
    if state[s + PLAIN] == 1:
        return _joined(heap, begin, size, work, to)
    return _joined(
        work, to, _runs_of_any(heap, begin, size, work, to, state[s + START_OFFSET]), work, to
    )


@kernel(_nrt=True)
def _runs_of_any(rows: Any, at: int, size: int, work: Any, to: int, start: int) -> int:
    kept = 0
    for i in range(at, at + SIZE * size, SIZE):
        if rows[i] <= rows[i + LAST]:
            put(work, to + SIZE * kept, rows[i], rows[i + LAST], rows[i + RANK])
            kept += 1
    matrix, kept = combine_any(work, to, kept, work, 0, start)
    from_matrix(matrix, kept, work, to)
    return int(kept)


@kernel(inline="always")
def place_of(state: Any, s: int) -> int:
    """Return where in the heap the first batch of a state is."""
    return state[s + PLACE] + SIZE * state[s + BEGIN]


@kernel(_nrt=False)
def _joined(rows: Any, at: int, size: int, to: Any, begin: int) -> int:
    """Join equal neighbours of a list that touch; it may be written over itself."""
    n, before, before_rank = 0, np.int64(-2), np.int64(0)
    for i in range(at, at + SIZE * size, SIZE):
        first, last, rank = rows[i], rows[i + LAST], rows[i + RANK]
        if n > 0 and before + 1 == first and before_rank == rank:
            to[begin + SIZE * (n - 1) + LAST] = last
        else:
            put(to, begin + SIZE * n, first, last, rank)
            n += 1
        before, before_rank = last, rank
    return n


@kernel(_nrt=False)
def measure(rows: Any, at: int, size: int, state: Any, s: int) -> int:
    """Store what follows from sorted, disjoint batches: both ends of the window, and sums.

    Returns
    -------
    int
        How many finished ones are at the start.
    """
    start = state[s + START_OFFSET]
    effective, i, end = start, at, at + SIZE * size
    complete = available = greatest = runs = 0
    while start != UNINITIALIZED_START_OFFSET and i < end and rows[i] == effective:
        if not is_terminal(state_of(rows[i + RANK])):
            break
        complete += rows[i + LAST] - rows[i] + 1
        # The largest int64 has no next offset.
        effective = min(rows[i + LAST], GREATEST - 1) + 1
        i += SIZE
    skipped = (i - at) // SIZE
    head, until = np.int64(0), effective - 1
    if i < end and rows[i] == effective:
        head = count_of(rows[i + RANK])
    begin, before = i, np.int64(0)
    while i < end:
        # Without branches, which would follow the data and be guessed wrong.
        first, last, rank = rows[i], rows[i + LAST], rows[i + RANK]
        here, is_done = last - first + 1, is_terminal(state_of(rank))
        runs += (i == begin) | (first != until + 1) | (rank != before)
        complete += here * is_done
        available += here * (state_of(rank) == 0)
        greatest = max(greatest, count_of(rank) * (not is_done))
        until, before = last, rank
        i += SIZE
    state[s + EFFECTIVE_START], state[s + AVAILABLE] = effective, available
    state[s + COMPLETE], state[s + RUNS] = complete, runs
    state[s + MAX_COUNT], state[s + HEAD_COUNT] = greatest, head
    state[s + WINDOW_END] = until if until == GREATEST else until + 1
    return skipped


@kernel(inline="always")
def is_terminal(state: int) -> bool:
    """Whether a state is acknowledged or archived."""
    return bool((state == 2) | (state == 4))
