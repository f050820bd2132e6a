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
    PLAIN,
    REDELIVERED,
    RELEASED,
    RUNS,
    START_OFFSET,
    WINDOW_END,
)
from sharelag.replay.merge import (
    FIRST,
    GREATEST,
    LAST,
    RANK,
    combine_any,
    count_of,
    from_matrix,
    state_of,
)


@kernel
def compare(old: Any, o: int, old_end: int, new: Any, size: int, changes: Any) -> None:
    """Walk along ``old[o:old_end]`` and ``new[:size]`` and sum what happened to each offset."""
    for r in range(size):
        at, until, rank = new[FIRST, r], new[LAST, r], new[RANK, r]
        state, count = state_of(rank), count_of(rank)
        while at <= until:
            while o < old_end and old[LAST, o] < at:
                o += 1
            covered = o < old_end and old[FIRST, o] <= at
            stop = until
            if o < old_end:
                stop = min(until, old[LAST, o] if covered else old[FIRST, o] - 1)
            if not covered or old[RANK, o] != rank:
                was, size_here = count_of(old[RANK, o]) if covered else 0, stop - at + 1
                if state == 4 and not (covered and state_of(old[RANK, o]) == 4):
                    changes[ARCHIVED] += size_here
                if count > was:
                    changes[REDELIVERED] += size_here * (count - max(was, 1))
                    if state == 0:
                        changes[RELEASED] += size_here
            if stop == GREATEST:
                break  # no offset follows
            at = stop + 1


@kernel
def runs_of(rows: Any, now: Any, runs: Any) -> Any:
    """Write the batches of a state sorted, disjoint, merged and clipped to the start offset.

    Returns
    -------
    runs, n
        The matrix, which may have grown, and how many there are.
    """
    begin, end = now[BEGIN], now[END]
    if now[PLAIN] == 0:
        return _runs_of_any(rows, now, runs)
    if runs.shape[1] < end - begin:
        runs = np.empty((3, 2 * (end - begin)), np.int64)
    return runs, _joined(rows, begin, end, runs)


@kernel
def _runs_of_any(rows: Any, now: Any, runs: Any) -> Any:
    begin, end = now[BEGIN], now[END]
    kept = np.empty((3, end - begin), np.int64)
    n = 0
    for i in range(begin, end):
        if rows[FIRST, i] <= rows[LAST, i]:
            for part in range(3):
                kept[part, n] = rows[part, i]
            n += 1
    matrix, n = combine_any(kept, 0, n, now[START_OFFSET])
    apart = np.empty((3, n), np.int64)
    from_matrix(matrix, n, apart)
    if runs.shape[1] < n:
        runs = np.empty((3, 2 * n), np.int64)
    return runs, _joined(apart, 0, n, runs)


@kernel
def _joined(rows: Any, begin: int, end: int, runs: Any) -> int:
    n = 0
    for i in range(begin, end):
        if n > 0 and runs[LAST, n - 1] + 1 == rows[FIRST, i] and runs[RANK, n - 1] == rows[RANK, i]:
            runs[LAST, n - 1] = rows[LAST, i]
        else:
            for part in range(3):
                runs[part, n] = rows[part, i]
            n += 1
    return n


@kernel
def measure(rows: Any, begin: int, end: int, now: Any) -> int:
    """Store what follows from sorted, disjoint batches: both ends of the window, and sums.

    Returns
    -------
    int
        Where those after the finished ones at the start begin.
    """
    first, last, rank = rows[FIRST], rows[LAST], rows[RANK]
    start = now[START_OFFSET]
    effective, skipped = start, begin
    complete = available = greatest = 0
    while start != UNINITIALIZED_START_OFFSET and skipped < end and first[skipped] == effective:
        if not is_terminal(state_of(rank[skipped])):
            break
        complete += last[skipped] - first[skipped] + 1
        # The largest int64 has no next offset.
        effective = min(last[skipped], GREATEST - 1) + 1
        skipped += 1
    runs = 0
    for i in range(skipped, end):
        state, size = state_of(rank[i]), last[i] - first[i] + 1
        if is_terminal(state):
            complete += size
        else:
            available += size if state == 0 else 0
            greatest = max(greatest, count_of(rank[i]))
        runs += i == skipped or first[i] != last[i - 1] + 1 or rank[i] != rank[i - 1]
    now[EFFECTIVE_START], now[AVAILABLE], now[COMPLETE] = effective, available, complete
    now[RUNS], now[MAX_COUNT], now[HEAD_COUNT] = runs, greatest, 0
    if skipped < end and first[skipped] == effective:
        now[HEAD_COUNT] = count_of(rank[skipped])
    until = last[end - 1] if skipped < end else effective - 1
    now[WINDOW_END] = until if until == GREATEST else until + 1
    return skipped


@kernel(inline="always")
def is_terminal(state: int) -> bool:
    """Whether a state is acknowledged or archived."""
    return state == 2 or state == 4
