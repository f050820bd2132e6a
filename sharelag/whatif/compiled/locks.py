"""Acquisition locks of a place, a heap by their ends, and the window that they lock."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.layout import (
    BATCH,
    BATCH_LAST,
    COUNT,
    DEADLINE,
    HELD,
    HELD_BY_ALL,
    LOCK,
    LOCK_COUNT,
    LOCK_ENDS,
    LOCK_FIRST,
    LOCK_LAST,
    LOCK_MS,
    LOCK_NO,
    LOCK_NUMBER,
    LOCK_ROOM,
    LOCK_SIZE,
    LOCKS_AT,
    MASK,
    OFFSET_BITS,
    OWNER,
    S_ACQUIRED,
    SPLIT,
    STATE,
    STATE_MS,
    WINDOW_AT,
)


@kernel
def slot_of(a: Any, p: Any, offset: Any) -> Any:
    """Where an offset lies."""
    return a[p + WINDOW_AT] + ((offset & a[MASK]) << OFFSET_BITS)


@kernel
def batch_of(a: Any, p: Any, offset: Any) -> Any:
    """Where the first offset of its batch lies."""
    return slot_of(a, p, a[slot_of(a, p, offset) + BATCH])


@kernel
def is_held(a: Any, p: Any, lock: Any) -> bool:
    """Whether a lock still holds an offset: not acknowledged, split, or locked anew since."""
    first, last, number = a[lock + LOCK_FIRST], a[lock + LOCK_LAST], a[lock + LOCK_NO]
    at = slot_of(a, p, first)
    if last < 0:
        mine = a[at + STATE] == S_ACQUIRED and a[at + LOCK] == number
        return bool(mine and a[at + BATCH] == first and a[at + SPLIT] == 0)
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        if a[at + STATE] == S_ACQUIRED and a[at + LOCK] == number + offset - first:
            return True
    return False


@kernel
def _put(a: Any, p: Any, at: Any, ends: Any, number: Any, first: Any, last: Any) -> None:
    """Sift a lock up from a place in the heap."""
    base = a[p + LOCKS_AT]
    while at > 0:
        up = base + ((at - 1) >> 1) * LOCK_SIZE
        if a[up + LOCK_ENDS] < ends or (a[up + LOCK_ENDS] == ends and a[up + LOCK_NO] < number):
            break
        for column in range(LOCK_SIZE):
            a[base + at * LOCK_SIZE + column] = a[up + column]
        at = (at - 1) >> 1
    lock = base + at * LOCK_SIZE
    a[lock + LOCK_ENDS], a[lock + LOCK_NO] = ends, number
    a[lock + LOCK_FIRST], a[lock + LOCK_LAST] = first, last


@kernel
def _clear(a: Any, p: Any) -> None:
    """Forget locks that hold nothing any more."""
    base, count, kept = a[p + LOCKS_AT], a[p + LOCK_COUNT], 0
    for one in range(count):
        lock = base + one * LOCK_SIZE
        if is_held(a, p, lock):
            _put(
                a,
                p,
                kept,
                a[lock + LOCK_ENDS],
                a[lock + LOCK_NO],
                a[lock + LOCK_FIRST],
                a[lock + LOCK_LAST],
            )
            kept += 1
    a[p + LOCK_COUNT] = kept


@kernel
def drop_lock(a: Any, p: Any) -> None:
    """Take the lock that ends first away."""
    base, size = a[p + LOCKS_AT], a[p + LOCK_COUNT] - 1
    a[p + LOCK_COUNT] = size
    moved = base + size * LOCK_SIZE
    ends, number, at = a[moved + LOCK_ENDS], a[moved + LOCK_NO], 0
    while 2 * at + 1 < size:
        down = 2 * at + 1
        one, other = base + down * LOCK_SIZE, base + (down + 1) * LOCK_SIZE
        if down + 1 < size and (
            a[other + LOCK_ENDS] < a[one + LOCK_ENDS]
            or (
                a[other + LOCK_ENDS] == a[one + LOCK_ENDS] and a[other + LOCK_NO] < a[one + LOCK_NO]
            )
        ):
            down, one = down + 1, other
        if ends < a[one + LOCK_ENDS] or (ends == a[one + LOCK_ENDS] and number < a[one + LOCK_NO]):
            break
        for column in range(LOCK_SIZE):
            a[base + at * LOCK_SIZE + column] = a[one + column]
        at = down
    for column in range(LOCK_SIZE):
        a[base + at * LOCK_SIZE + column] = a[moved + column]


@kernel
def _lock(a: Any, p: Any, first: Any, last: Any, ends: Any) -> None:
    """Put a new lock in the heap; ``last`` is -1 for a whole batch."""
    if a[p + LOCK_COUNT] == a[LOCK_ROOM]:
        _clear(a, p)
    number = a[p + LOCK_NUMBER]
    a[p + LOCK_NUMBER] += last - first + 1 if last >= 0 else 1
    a[p + LOCK_COUNT] += 1
    _put(a, p, a[p + LOCK_COUNT] - 1, ends, number, first, last)


@kernel
def acquire_offsets(
    a: Any, p: Any, first: Any, last: Any, count: Any, owner: Any, is_split: bool
) -> None:
    """Let a member have offsets: single ones of a split batch, or a whole batch."""
    ends, number = a[p + STATE_MS] + a[LOCK_MS], a[p + LOCK_NUMBER]
    for offset in range(first, last + 1 if is_split else first + 1):
        at = slot_of(a, p, offset)
        a[at + STATE], a[at + COUNT], a[at + OWNER] = S_ACQUIRED, count, owner
        a[at + DEADLINE], a[at + LOCK] = ends, number + offset - first
    _lock(a, p, first, last if is_split else -1, ends)
    a[p + HELD] += last - first + 1
    a[HELD_BY_ALL] += last - first + 1


@kernel
def split(a: Any, p: Any, batch: Any) -> None:
    """Give every offset of a batch a state and a lock of its own; there is no way back."""
    if a[batch + SPLIT]:
        return
    a[batch + SPLIT] = 1
    first, last, number = a[batch + BATCH], a[batch + BATCH_LAST], a[p + LOCK_NUMBER]
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        a[at + STATE], a[at + COUNT], a[at + OWNER] = (
            a[batch + STATE],
            a[batch + COUNT],
            a[batch + OWNER],
        )
        a[at + DEADLINE], a[at + LOCK] = a[batch + DEADLINE], number + offset - first
    if a[batch + STATE] == S_ACQUIRED:
        _lock(a, p, first, last, a[batch + DEADLINE])
