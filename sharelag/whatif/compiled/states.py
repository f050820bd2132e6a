"""What a place writes, how its locks run out, and how its start offset moves."""

from __future__ import annotations

from typing import Any

import numba

from sharelag.whatif.compiled.layout import (
    ACKED,
    ACKNOWLEDGES,
    ARCHIVES,
    ATTEMPTS,
    AVAILABLE_FROM,
    BATCH,
    BATCH_LAST,
    BEGINS_MS,
    CAUSE,
    CAUSE_NUMBER,
    COMPLETE,
    COUNT,
    COUNTED,
    COUNTS,
    COUNTS_AT,
    END,
    EXPIRED,
    EXPIRES,
    EXPIRY_DUE,
    FIND,
    FIRST,
    GIVEN_BACK,
    HELD,
    HELD_BY_ALL,
    IN_MEMORY,
    INDEX,
    LOCK,
    LOCK_COUNT,
    LOCK_ENDS,
    LOCK_FIRST,
    LOCK_LAST,
    LOCK_NO,
    LOCKS_AT,
    MEMBERS,
    NOBODY,
    NOW,
    OPEN,
    REJECTED,
    RELEASED,
    RUNS,
    S_ACKNOWLEDGED,
    S_ACQUIRED,
    S_ARCHIVED,
    S_AVAILABLE,
    SPLIT,
    START,
    STATE,
    STATE_MS,
    WRITES,
)
from sharelag.whatif.compiled.locks import batch_of, drop_lock, is_held, slot_of


@numba.njit(cache=True)
def counts_of(a: Any, place: Any, member: Any) -> Any:
    """Where the counts of a place and a member lie."""
    return a[COUNTS_AT] + (place * a[MEMBERS] + member) * COUNTS


@numba.njit(cache=True)
def given_back(a: Any, count: Any) -> Any:
    """What an acquired offset becomes: available, or archived after the last attempt."""
    return S_ARCHIVED if count >= a[ATTEMPTS] else S_AVAILABLE


@numba.njit(cache=True)
def change(c: Any, p: Any, at: Any, first: Any, last: Any, state: Any, by_offset: Any) -> None:
    """Change acquired offsets that lie together, and put that in the write that is open."""
    a, runs = c.a, c.runs
    a[at + STATE] = state
    size = last - first + 1
    a[p + HELD] -= size
    a[HELD_BY_ALL] -= size
    if state != S_AVAILABLE:
        a[p + COMPLETE] += max(last - max(first, a[p + START]) + 1, 0)
    row = a[RUNS] - 1
    if (
        by_offset
        and row >= a[OPEN]
        and runs[row, 4] == 1
        and runs[row, 1] == first - 1
        and runs[row, 2] == state
        and runs[row, 3] == a[at + COUNT]
    ):
        runs[row, 1] = last
        return
    row += 1
    a[RUNS] = row + 1
    runs[row, 0], runs[row, 1], runs[row, 2] = first, last, state
    runs[row, 3], runs[row, 4] = a[at + COUNT], by_offset


@numba.njit(cache=True)
def _count(c: Any, p: Any, row: Any) -> None:
    """Count a run that was written."""
    a, runs = c.a, c.runs
    size, state = runs[row, 1] - runs[row, 0] + 1, runs[row, 2]
    is_someones = a[CAUSE_NUMBER] != NOBODY
    at = counts_of(a, a[p + INDEX], a[CAUSE_NUMBER]) if is_someones else 0
    if state == S_AVAILABLE:
        if a[CAUSE] == EXPIRES:
            a[p + EXPIRED] += size
        elif is_someones:
            a[at + RELEASED] += size
            if a[CAUSE] == ACKNOWLEDGES:
                a[GIVEN_BACK] += size
    elif state == S_ARCHIVED:
        a[p + ARCHIVES] += size
        if a[CAUSE] == EXPIRES:
            a[p + EXPIRED] += size
        elif is_someones:
            a[at + (REJECTED if a[CAUSE] == ACKNOWLEDGES else RELEASED)] += size
    elif is_someones:
        a[at + ACKED] += size


@numba.njit(cache=True)
def finish(c: Any, p: Any) -> None:
    """Write what was changed, then let the start offset move."""
    a, writes, runs = c.a, c.writes, c.runs
    if a[RUNS] == a[OPEN]:
        return
    row = a[WRITES]
    a[WRITES] = row + 1
    writes[row, 0], writes[row, 1], writes[row, 2] = a[p + INDEX], a[NOW], a[p + STATE_MS]
    writes[row, 3], writes[row, 4], writes[row, 5] = a[p + START], a[p + COMPLETE], a[RUNS]
    if a[CAUSE_NUMBER] != NOBODY:
        a[counts_of(a, a[p + INDEX], a[CAUSE_NUMBER]) + COUNTED] = 1
    for one in range(a[OPEN], a[RUNS]):
        _count(c, p, one)
        if runs[one, 2] == S_AVAILABLE:
            a[p + FIND] = 1
            a[p + AVAILABLE_FROM] = min(a[p + AVAILABLE_FROM], runs[one, 0])
    a[OPEN] = a[RUNS]
    _move_start(a, p)


@numba.njit(cache=True)
def _is_terminal(state: Any) -> bool:
    return bool(state in (S_ACKNOWLEDGED, S_ARCHIVED))


@numba.njit(cache=True)
def _state_at(a: Any, p: Any, offset: Any) -> Any:
    batch = batch_of(a, p, offset)
    return a[(slot_of(a, p, offset) if a[batch + SPLIT] else batch) + STATE]


@numba.njit(cache=True)
def _move_start(a: Any, p: Any) -> None:
    """Move the start over finished offsets; only complete batches leave memory."""
    start, end = a[p + START], a[p + END]
    if not a[p + IN_MEMORY] or not _is_terminal(_state_at(a, p, start)):
        return
    # What lies in memory before the start offset is finished.
    at = start
    while at <= end:
        batch = batch_of(a, p, at)
        if not a[batch + SPLIT]:
            if not _is_terminal(a[batch + STATE]):
                break
            at = a[batch + BATCH_LAST] + 1
        elif _is_terminal(a[slot_of(a, p, at) + STATE]):
            at += 1
        else:
            break
    if at > end:
        a[p + START], a[p + END] = end + 1, end + 1
        a[p + IN_MEMORY], a[p + COMPLETE] = 0, 0
        return
    a[p + COMPLETE] -= at - start
    a[p + START] = at
    a[p + FIRST] = a[slot_of(a, p, at) + BATCH]


@numba.njit(cache=True)
def _run_out(c: Any, p: Any, lock: Any) -> None:
    """Take back what a lock holds: a write a batch, or an offset of a split batch."""
    a = c.a
    first, last, number = a[lock + LOCK_FIRST], a[lock + LOCK_LAST], a[lock + LOCK_NO]
    if last < 0:
        at = slot_of(a, p, first)
        change(c, p, at, first, a[at + BATCH_LAST], given_back(a, a[at + COUNT]), 0)
        finish(c, p)
        return
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        if a[at + STATE] == S_ACQUIRED and a[at + LOCK] == number + offset - first:
            change(c, p, at, offset, offset, given_back(a, a[at + COUNT]), 1)
            finish(c, p)


@numba.njit(cache=True)
def _advance(c: Any, p: Any, now_ms: Any) -> None:
    """Let the locks run out that end until now."""
    a = c.a
    while a[p + LOCK_COUNT] and a[a[p + LOCKS_AT] + LOCK_ENDS] <= now_ms:
        lock = a[p + LOCKS_AT]
        if is_held(a, p, lock):
            a[p + STATE_MS] = max(a[p + STATE_MS], a[lock + LOCK_ENDS])
            _run_out(c, p, lock)
        drop_lock(a, p)
    a[p + STATE_MS] = max(a[p + STATE_MS], now_ms)


@numba.njit(cache=True)
def now_ms(a: Any) -> Any:
    """The time as brokers have it."""
    return a[BEGINS_MS] + a[NOW] // 1000


@numba.njit(cache=True)
def see_time(c: Any, p: Any) -> None:
    """Let a place know the time; locks that are over have run out before."""
    c.a[p + STATE_MS] = max(c.a[p + STATE_MS], now_ms(c.a))


@numba.njit(cache=True)
def expire(c: Any, p: Any) -> bool:
    """Let locks run out if any is due; whether any offset was given back."""
    a = c.a
    if a[p + EXPIRY_DUE] < 0 or a[p + EXPIRY_DUE] > a[NOW]:
        return False
    a[CAUSE], a[CAUSE_NUMBER] = EXPIRES, NOBODY
    before = a[p + EXPIRED]
    _advance(c, p, now_ms(a))
    return bool(a[p + EXPIRED] > before)


@numba.njit(cache=True)
def next_end(a: Any, p: Any) -> Any:
    """When the next lock ends, in ms; -1 while nothing is acquired."""
    while a[p + LOCK_COUNT]:
        lock = a[p + LOCKS_AT]
        if is_held(a, p, lock):
            return a[lock + LOCK_ENDS]
        drop_lock(a, p)
    return -1
