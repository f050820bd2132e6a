"""The window of a place: batches in flight, the holes between them, and acquisition locks.

All offsets from the first batch in flight to the last have a slot in a ring. Between two batches
there may be a hole, of offsets that the log has no records for, or that were fetched before a
leader began and forgotten since.

All locks of a place last for the same time, so they end in the order in which they were taken. The
exception are those of batches that were split: they keep the end of the batch, in a heap.
"""

from __future__ import annotations

from typing import Any

from sharelag.compiled import part
from sharelag.whatif.compiled.layout import *


@part
def slot_of(a: Any, p: Any, offset: Any) -> Any:
    """Where an offset lies."""
    return a[p + WINDOW_AT] + ((offset & a[p + MASK]) << OFFSET_BITS)


@part
def batch_of(a: Any, p: Any, offset: Any) -> Any:
    """Where the first offset of its batch lies."""
    return slot_of(a, p, a[slot_of(a, p, offset) + BATCH])


@part
def is_hole(a: Any, p: Any, offset: Any) -> bool:
    """Return whether an offset within the window lies between two batches."""
    return bool(a[slot_of(a, p, offset) + BATCH] < 0)


@part
def after_hole(a: Any, p: Any, offset: Any) -> Any:
    """The first offset of a batch from one on that lies after another; or after all."""
    if offset <= a[p + LAST]:
        at = slot_of(a, p, offset)
        if a[at + BATCH] < 0:
            return a[at + HOLE_LAST] + 1
    return offset


@part
def from_batch(a: Any, p: Any, offset: Any) -> Any:
    """Where the batch begins that holds an offset, or else the next one; or after all."""
    if offset < a[p + FIRST]:
        return a[p + FIRST]
    if offset > a[p + LAST]:
        return a[p + LAST] + 1
    at = slot_of(a, p, offset)
    return a[at + HOLE_LAST] + 1 if a[at + BATCH] < 0 else a[at + BATCH]


@part
def floor(a: Any, p: Any, offset: Any) -> Any:
    """Where the last batch begins that begins at or before an offset; -1: there is none."""
    if not a[p + IN_MEMORY] or offset < a[p + FIRST]:
        return -1
    at = slot_of(a, p, min(offset, a[p + LAST]))
    if a[at + BATCH] < 0:
        at = slot_of(a, p, a[at + HOLE_FIRST] - 1)
    return a[at + BATCH]


@part
def put_batch(a: Any, p: Any, first: Any, last: Any, is_split: Any) -> None:
    """Put a batch in flight where none is."""
    if not a[p + IN_MEMORY]:
        a[p + IN_MEMORY], a[p + FIRST], a[p + LAST] = 1, first, last
    elif first > a[p + LAST]:
        _put_hole(a, p, a[p + LAST] + 1, first - 1)
        a[p + LAST] = last
    elif first < a[p + FIRST]:
        _put_hole(a, p, last + 1, a[p + FIRST] - 1)
        a[p + FIRST] = first
    else:
        hole = slot_of(a, p, first)
        begin, end = a[hole + HOLE_FIRST], a[hole + HOLE_LAST]
        _put_hole(a, p, begin, first - 1)
        _put_hole(a, p, last + 1, end)
    for offset in range(first, last + 1):
        a[slot_of(a, p, offset) + BATCH] = first
    batch = slot_of(a, p, first)
    a[batch + BATCH_LAST], a[batch + SPLIT] = last, is_split


@part
def _put_hole(a: Any, p: Any, first: Any, last: Any) -> None:
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        a[at + BATCH], a[at + HOLE_FIRST], a[at + HOLE_LAST] = -1, first, last


@part
def span(a: Any, p: Any) -> Any:
    """Offsets from start to end, finished ones and holes included."""
    return a[p + END] - a[p + START] + 1 if a[p + IN_MEMORY] else 0


@part
def has_gap(a: Any, p: Any) -> bool:
    """Return whether holes may be first deliveries that were in flight when the leader changed."""
    return bool(a[p + GAP_END] == a[p + END])


@part
def held_in(a: Any, p: Any) -> Any:
    """Count the acquired offsets, but for those of deleted records, before the start offset."""
    held = a[p + HELD]
    if a[p + IN_MEMORY] and a[p + IS_BEHIND]:
        for offset in range(a[p + FIRST], min(a[p + START], a[p + LAST] + 1)):
            if not is_hole(a, p, offset):
                batch = batch_of(a, p, offset)
                at = slot_of(a, p, offset) if a[batch + SPLIT] else batch
                held -= a[at + STATE] == S_ACQUIRED
    return held


@part
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


@part
def _write(a: Any, lock: Any, ends: Any, number: Any, first: Any, last: Any) -> None:
    a[lock + LOCK_ENDS], a[lock + LOCK_NO] = ends, number
    a[lock + LOCK_FIRST], a[lock + LOCK_LAST] = first, last


@part
def _copy(a: Any, lock: Any, to: Any) -> None:
    _write(a, to, a[lock + LOCK_ENDS], a[lock + LOCK_NO], a[lock + LOCK_FIRST], a[lock + LOCK_LAST])


@part
def _is_before(a: Any, one: Any, ends: Any, number: Any) -> bool:
    return bool(
        a[one + LOCK_ENDS] < ends or (a[one + LOCK_ENDS] == ends and a[one + LOCK_NO] < number)
    )


@part
def lock_offsets(a: Any, p: Any, first: Any, last: Any, ends: Any) -> None:
    """Lock offsets until a time; ``last`` is -1 for a whole batch."""
    number, to = a[p + LOCK_NUMBER], a[p + LOCKS_TO]
    a[p + LOCK_NUMBER] += last - first + 1 if last >= 0 else 1
    before = a[p + LOCKS_AT] + (to - 1) * LOCK_SIZE
    if a[p + LOCKS_FROM] < to and a[before + LOCK_ENDS] > ends:
        _lock_early(a, p, ends, number, first, last)
        return
    if to == a[p + LOCK_ROOM]:
        _clear(a, p)
        to = a[p + LOCKS_TO]
    a[p + LOCKS_TO] = to + 1
    _write(a, a[p + LOCKS_AT] + to * LOCK_SIZE, ends, number, first, last)


@part
def _clear(a: Any, p: Any) -> None:
    """Forget locks that hold nothing any more."""
    base, kept = a[p + LOCKS_AT], 0
    for one in range(a[p + LOCKS_FROM], a[p + LOCKS_TO]):
        lock = base + one * LOCK_SIZE
        if is_held(a, p, lock):
            _copy(a, lock, base + kept * LOCK_SIZE)
            kept += 1
    a[p + LOCKS_FROM], a[p + LOCKS_TO] = 0, kept


@part
def _lock_early(a: Any, p: Any, ends: Any, number: Any, first: Any, last: Any) -> None:
    """Lock offsets for less long than what was locked before."""
    if a[p + EARLY_LOCKS] == a[p + LOCK_ROOM]:
        _clear_early(a, p)
    a[p + EARLY_LOCKS] += 1
    _put(a, p, a[p + EARLY_LOCKS] - 1, ends, number, first, last)


@part
def _put(a: Any, p: Any, at: Any, ends: Any, number: Any, first: Any, last: Any) -> None:
    """Sift a lock up from a place in the heap."""
    base = a[p + EARLY_LOCKS_AT]
    while at > 0:
        up = base + ((at - 1) >> 1) * LOCK_SIZE
        if _is_before(a, up, ends, number):
            break
        _copy(a, up, base + at * LOCK_SIZE)
        at = (at - 1) >> 1
    _write(a, base + at * LOCK_SIZE, ends, number, first, last)


@part
def _clear_early(a: Any, p: Any) -> None:
    base, count, kept = a[p + EARLY_LOCKS_AT], a[p + EARLY_LOCKS], 0
    for one in range(count):
        lock = base + one * LOCK_SIZE
        if is_held(a, p, lock):
            ends, number = a[lock + LOCK_ENDS], a[lock + LOCK_NO]
            _put(a, p, kept, ends, number, a[lock + LOCK_FIRST], a[lock + LOCK_LAST])
            kept += 1
    a[p + EARLY_LOCKS] = kept


@part
def first_lock(a: Any, p: Any) -> Any:
    """Where the lock lies that ends first, held or not; 0: there is none."""
    lock = 0
    if a[p + LOCKS_FROM] < a[p + LOCKS_TO]:
        lock = a[p + LOCKS_AT] + a[p + LOCKS_FROM] * LOCK_SIZE
    if a[p + EARLY_LOCKS]:
        early = a[p + EARLY_LOCKS_AT]
        if not lock or _is_before(a, early, a[lock + LOCK_ENDS], a[lock + LOCK_NO]):
            return early
    return lock


@part
def drop_lock(a: Any, p: Any, lock: Any) -> None:
    """Take the lock that ends first away."""
    if lock == a[p + EARLY_LOCKS_AT]:
        _drop_early(a, p)
        return
    a[p + LOCKS_FROM] += 1
    if a[p + LOCKS_FROM] == a[p + LOCKS_TO]:
        a[p + LOCKS_FROM] = a[p + LOCKS_TO] = 0


@part
def _drop_early(a: Any, p: Any) -> None:
    base, size = a[p + EARLY_LOCKS_AT], a[p + EARLY_LOCKS] - 1
    a[p + EARLY_LOCKS] = size
    moved = base + size * LOCK_SIZE
    ends, number, at = a[moved + LOCK_ENDS], a[moved + LOCK_NO], 0
    while 2 * at + 1 < size:
        down = base + (2 * at + 1) * LOCK_SIZE
        other = down + LOCK_SIZE
        if 2 * at + 2 < size and _is_before(a, other, a[down + LOCK_ENDS], a[down + LOCK_NO]):
            down = other
        if not _is_before(a, down, ends, number):
            break
        _copy(a, down, base + at * LOCK_SIZE)
        at = (down - base) // LOCK_SIZE
    _copy(a, moved, base + at * LOCK_SIZE)


@part
def acquire_offsets(
    a: Any, p: Any, first: Any, last: Any, count: Any, owner: Any, is_split: bool
) -> None:
    """Let a member have offsets: single ones of a split batch, or a whole batch."""
    ends, number = a[p + STATE_MS] + a[LOCK_MS], a[p + LOCK_NUMBER]
    for offset in range(first, last + 1 if is_split else first + 1):
        at = slot_of(a, p, offset)
        a[at + STATE], a[at + COUNT], a[at + OWNER] = S_ACQUIRED, count, owner
        a[at + DEADLINE], a[at + LOCK] = ends, number + offset - first
    lock_offsets(a, p, first, last if is_split else -1, ends)
    a[p + HELD] += last - first + 1
    a[HELD_BY_ALL] += last - first + 1


@part
def split(a: Any, p: Any, batch: Any) -> None:
    """Give every offset of a batch its own state and lock; there is no way back."""
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
        lock_offsets(a, p, first, last, a[batch + DEADLINE])


@part
def renew(a: Any, p: Any, at: Any, first: Any, last: Any) -> None:
    """Lock acquired offsets anew: single ones, or a whole batch where ``last`` is -1."""
    ends, number = a[p + STATE_MS] + a[LOCK_MS], a[p + LOCK_NUMBER]
    a[at + DEADLINE], a[at + LOCK] = ends, number
    for offset in range(first + 1, last + 1):
        at = slot_of(a, p, offset)
        a[at + DEADLINE], a[at + LOCK] = ends, number + offset - first
    lock_offsets(a, p, first, last, ends)
