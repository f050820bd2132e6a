"""What a place writes, how its locks expire, and how its start offset moves."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.layout import (
    ACKED,
    ACKNOWLEDGES,
    ARCHIVES,
    ATTEMPTS,
    AVAILABLE,
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
    LOCK_ENDS,
    LOCK_FIRST,
    LOCK_LAST,
    LOCK_NO,
    NOBODY,
    NOW,
    OPEN,
    PLACES,
    REJECTED,
    RELEASED,
    RUN,
    RUNS,
    RUNS_AT,
    S_ACKNOWLEDGED,
    S_ACQUIRED,
    S_ARCHIVED,
    S_AVAILABLE,
    SPLIT,
    START,
    STATE,
    STATE_MS,
    WRITES,
    WRITES_AT,
    WROTE,
)
from sharelag.whatif.compiled.locks import batch_of, drop_lock, first_lock, is_held, slot_of


@kernel
def counts_of(a: Any, place: Any, member: Any) -> Any:
    """Where the counts of a place and a member lie."""
    return a[COUNTS_AT] + (member * a[PLACES] + place) * COUNTS


@kernel
def given_back(a: Any, count: Any) -> Any:
    """What an acquired offset becomes: available, or archived after the last attempt."""
    return S_ARCHIVED if count >= a[ATTEMPTS] else S_AVAILABLE


@kernel
def change(a: Any, p: Any, at: Any, first: Any, last: Any, state: Any, by_offset: Any) -> None:
    """Change acquired offsets that lie together, and put that in the write that is open."""
    a[at + STATE] = state
    size = last - first + 1
    a[p + HELD] -= size
    a[HELD_BY_ALL] -= size
    if state != S_AVAILABLE:
        a[p + COMPLETE] += max(last - max(first, a[p + START]) + 1, 0)
    else:
        a[p + AVAILABLE] += size
    row = a[RUNS_AT] + (a[RUNS] - 1) * RUN
    if (
        by_offset
        and a[RUNS] > a[OPEN]
        and a[row + 4] == 1
        and a[row + 1] == first - 1
        and a[row + 2] == state
        and a[row + 3] == a[at + COUNT]
    ):
        a[row + 1] = last
        return
    row += RUN
    a[RUNS] += 1
    a[row], a[row + 1], a[row + 2] = first, last, state
    a[row + 3], a[row + 4] = a[at + COUNT], by_offset


@kernel
def _count(a: Any, p: Any, row: Any) -> None:
    """Count a run that was written."""
    size, state = a[row + 1] - a[row] + 1, a[row + 2]
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


@kernel
def finish(a: Any, p: Any) -> None:
    """Write what was changed, then let the start offset move."""
    if a[RUNS] == a[OPEN]:
        return
    wrote = a[WRITES_AT] + a[WRITES] * WROTE
    a[WRITES] += 1
    a[wrote], a[wrote + 1], a[wrote + 2] = a[p + INDEX], a[NOW], a[p + STATE_MS]
    a[wrote + 3], a[wrote + 4], a[wrote + 5] = a[p + START], a[p + COMPLETE], a[RUNS]
    if a[CAUSE_NUMBER] != NOBODY:
        a[counts_of(a, a[p + INDEX], a[CAUSE_NUMBER]) + COUNTED] = 1
    for one in range(a[OPEN], a[RUNS]):
        row = a[RUNS_AT] + one * RUN
        _count(a, p, row)
        if a[row + 2] == S_AVAILABLE:
            a[p + FIND] = 1
            a[p + AVAILABLE_FROM] = min(a[p + AVAILABLE_FROM], a[row])
    a[OPEN] = a[RUNS]
    _move_start(a, p)


@kernel
def _is_terminal(state: Any) -> bool:
    return bool(state in (S_ACKNOWLEDGED, S_ARCHIVED))


@kernel
def _state_at(a: Any, p: Any, offset: Any) -> Any:
    batch = batch_of(a, p, offset)
    return a[(slot_of(a, p, offset) if a[batch + SPLIT] else batch) + STATE]


@kernel
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


@kernel
def _run_out(a: Any, p: Any, lock: Any) -> None:
    """Take back what a lock holds: a write a batch, or an offset of a split batch."""
    first, last, number = a[lock + LOCK_FIRST], a[lock + LOCK_LAST], a[lock + LOCK_NO]
    if last < 0:
        at = slot_of(a, p, first)
        change(a, p, at, first, a[at + BATCH_LAST], given_back(a, a[at + COUNT]), 0)
        finish(a, p)
        return
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        if a[at + STATE] == S_ACQUIRED and a[at + LOCK] == number + offset - first:
            change(a, p, at, offset, offset, given_back(a, a[at + COUNT]), 1)
            finish(a, p)


@kernel
def _advance(a: Any, p: Any, now_ms: Any) -> None:
    """Let the locks expire that end until now."""
    lock = first_lock(a, p)
    while lock and a[lock + LOCK_ENDS] <= now_ms:
        if is_held(a, p, lock):
            a[p + STATE_MS] = max(a[p + STATE_MS], a[lock + LOCK_ENDS])
            _run_out(a, p, lock)
        drop_lock(a, p, lock)
        lock = first_lock(a, p)
    a[p + STATE_MS] = max(a[p + STATE_MS], now_ms)


@kernel
def now_ms(a: Any) -> Any:
    """The time as brokers have it."""
    return a[BEGINS_MS] + a[NOW] // 1000


@kernel
def see_time(a: Any, p: Any) -> None:
    """Let a place know the time; locks that are over have expired before."""
    a[p + STATE_MS] = max(a[p + STATE_MS], now_ms(a))


@kernel
def expire(a: Any, p: Any) -> bool:
    """Let locks expire if any is due; whether any offset was given back."""
    if a[p + EXPIRY_DUE] < 0 or a[p + EXPIRY_DUE] > a[NOW]:
        return False
    a[CAUSE], a[CAUSE_NUMBER] = EXPIRES, NOBODY
    before = a[p + EXPIRED]
    _advance(a, p, now_ms(a))
    return bool(a[p + EXPIRED] > before)


@kernel
def next_end(a: Any, p: Any) -> Any:
    """When the next lock ends, in ms; -1 while nothing is acquired."""
    lock = first_lock(a, p)
    while lock and not is_held(a, p, lock):
        drop_lock(a, p, lock)
        lock = first_lock(a, p)
    return a[lock + LOCK_ENDS] if lock else -1
