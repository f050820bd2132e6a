"""The compiled history: the state of each share partition after each record, and what changed."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from sharelag.model import UNINITIALIZED_START_OFFSET
from sharelag.replay import kernels as k
from sharelag.replay.combine import COUNT, FIRST, LAST, STATE

# Columns that follow those of a state.
EXISTS, REFUSED, REPLACED, AVAILABLE, COMPLETE, RUNS, MAX_COUNT, HEAD_COUNT = range(
    k.STATE_COLUMNS, k.STATE_COLUMNS + 8
)
# What changed since the previous row; CHANGE_KNOWN is 0 where that is unknown.
CHANGE_KNOWN, FINISHED, ARCHIVED, RELEASED, REDELIVERED = range(
    k.STATE_COLUMNS + 8, k.STATE_COLUMNS + 13
)
HISTORY_COLUMNS = k.STATE_COLUMNS + 13


@numba.njit(cache=True, nogil=True)
def history_rows(
    order: Any, bounds: Any, kind: Any, numbers: Any, batches: Any, batch_at: Any
) -> Any:
    """Replay each share partition's records and store the state after each.

    The arguments are those of `replay_rows`.

    Returns
    -------
    int64[records, HISTORY_COLUMNS]
        In the order of ``order``.
    """
    history = np.zeros((order.size, HISTORY_COLUMNS), np.int64)
    rows = np.empty((256, 4), np.int64)
    scratch, old, new = (
        np.empty((256, 4), np.int64),
        np.empty((256, 4), np.int64),
        np.empty((256, 4), np.int64),
    )
    state = np.zeros(k.STATE_COLUMNS, np.int64)
    before = np.zeros(k.STATE_COLUMNS, np.int64)
    for key in range(bounds.size - 1):
        n, n_old, complete_old = 0, 0, 0
        exists, fine = False, True
        state[:] = 0
        for x in range(bounds[key], bounds[key + 1]):
            i, existed = order[x], exists
            before[:] = state
            rows, n, exists, fine = k.apply(
                i, kind, numbers, batches, batch_at, state, rows, n, exists, fine
            )
            now = history[x]
            now[REFUSED] = kind[i] == k.UPDATE_TOMBSTONE or (
                exists and state[k.REJECTED] > before[k.REJECTED]
            )
            if not exists:
                n_old = 0
                continue
            # Normalise a copy: the coordinator's own list stays as it is.
            scratch, new = k.grown(scratch, 2 * n + 2), k.grown(new, 2 * n + 2)
            scratch[:n] = rows[:n]
            n_new = k.normalise(scratch, n, state[k.START_OFFSET], new)
            skipped = k.window_of(new, n_new, state)
            now[: k.STATE_COLUMNS] = state
            now[EXISTS] = 1
            now[REPLACED] = kind[i] == k.SNAPSHOT and (not existed or _is_another(before, state, n))
            _measure(new, n_new, skipped, now)
            if existed and not now[REPLACED]:
                _compare(old, n_old, new, n_new, now)
                done = state[k.START_OFFSET] + now[COMPLETE] - before[k.START_OFFSET] - complete_old
                has_start = before[k.START_OFFSET] != UNINITIALIZED_START_OFFSET
                if not has_start and before[k.FROM_SNAPSHOT] == 1 and n_old == 0:
                    # Until its first write a share partition has no start offset and nothing
                    # finished.
                    has_start, done = (
                        state[k.START_OFFSET] != UNINITIALIZED_START_OFFSET,
                        now[COMPLETE],
                    )
                # A start offset that goes back is a broker bug; no record becomes unfinished by it.
                now[CHANGE_KNOWN], now[FINISHED] = has_start and done >= 0, done
            complete_old = now[COMPLETE]
            old, new, n_old = new, old, n_new
    return history


@numba.njit(cache=True)
def _is_another(before: Any, now: Any, batches: int) -> bool:
    """Whether a snapshot replaces the state: initialised again, or its start offset altered.

    The group coordinator then sends a new state epoch. It can equal the old one (two resets of an
    empty group), but no other snapshot has no batches, leader epoch 0 and a new creation time.
    """
    if now[k.STATE_EPOCH] != before[k.STATE_EPOCH]:
        # A state that started with an update has none.
        return before[k.FROM_SNAPSHOT] == 1
    forgot = (
        now[k.START_OFFSET] != before[k.START_OFFSET]
        or before[k.WINDOW_END] > before[k.START_OFFSET]
    )
    return (
        batches == 0
        and now[k.LEADER_EPOCH] == 0
        and now[k.CREATED] > before[k.CREATED] > 0
        and forgot
    )


@numba.njit(cache=True)
def _measure(runs: Any, n: int, skipped: int, now: Any) -> None:
    """Sum the runs of a window; the first ``skipped`` of them are finished and at its start."""
    for r in range(n):
        size = runs[r, LAST] - runs[r, FIRST] + 1
        if k.is_terminal(runs[r, STATE]):
            now[COMPLETE] += size
        elif runs[r, STATE] == 0:
            now[AVAILABLE] += size
        if not k.is_terminal(runs[r, STATE]):
            now[MAX_COUNT] = max(now[MAX_COUNT], runs[r, COUNT])
    now[RUNS] = n - skipped
    if skipped < n and runs[skipped, FIRST] == now[k.EFFECTIVE_START]:
        now[HEAD_COUNT] = runs[skipped, COUNT]


@numba.njit(cache=True)
def _compare(old: Any, n_old: int, new: Any, n_new: int, now: Any) -> None:
    """Walk along both lists of runs and store what happened to each offset of the new one."""
    o = 0
    for r in range(n_new):
        at, state, count = new[r, FIRST], new[r, STATE], new[r, COUNT]
        while at <= new[r, LAST]:
            while o < n_old and old[o, LAST] < at:
                o += 1
            covered = o < n_old and old[o, FIRST] <= at
            until = new[r, LAST]
            if o < n_old:
                until = min(until, old[o, LAST] if covered else old[o, FIRST] - 1)
            was, size = old[o, COUNT] if covered else 0, until - at + 1
            if state == 4 and not (covered and old[o, STATE] == 4):
                now[ARCHIVED] += size
            if count > was:
                now[REDELIVERED] += size * (count - max(was, 1))
                if state == 0:
                    now[RELEASED] += size
            at = until + 1
