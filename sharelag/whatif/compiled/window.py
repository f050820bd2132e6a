"""The window of a place: batches in flight, the holes between them, and acquisition locks.

All offsets from the first batch in flight to the last have a slot in a ring. Two batches may have a
hole between them: offsets without records in the log, or offsets that were fetched before the
leader started and are no longer known.

All locks of a place last equally long, so they expire in the order of acquisition. Locks of split
batches are the exception: they keep the expiry of the batch, in a heap.
"""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.queue import drop_first, is_before, put, rise


def slot_of(a: Any, p: Any, offset: Any) -> Any:
    """Return the address of an offset."""
    return a[p + WINDOW_AT] + ((offset & a[p + MASK]) << OFFSET_BITS)


def batch_of(a: Any, p: Any, offset: Any) -> Any:
    """Return the address of the first offset of its batch."""
    return slot_of(a, p, a[slot_of(a, p, offset) + BATCH])


def is_hole(a: Any, p: Any, offset: Any) -> bool:
    """Return whether an offset within the window is between two batches."""
    return bool(a[slot_of(a, p, offset) + BATCH] < 0)


def after_hole(a: Any, p: Any, offset: Any) -> Any:
    """Return ``offset``, or the first offset behind the hole that contains it."""
    if offset <= a[p + LAST]:
        at = slot_of(a, p, offset)
        if a[at + BATCH] < 0:
            return a[at + HOLE_LAST] + 1
    return offset


def from_batch(a: Any, p: Any, offset: Any) -> Any:
    """Return the first offset of the batch that contains an offset, or of the next one."""
    if offset < a[p + FIRST]:
        return a[p + FIRST]
    if offset > a[p + LAST]:
        return a[p + LAST] + 1
    at = slot_of(a, p, offset)
    return a[at + HOLE_LAST] + 1 if a[at + BATCH] < 0 else a[at + BATCH]


def floor(a: Any, p: Any, offset: Any) -> Any:
    """Return the first offset of the last batch that starts at or before an offset, or -1."""
    if not a[p + IN_MEMORY] or offset < a[p + FIRST]:
        return -1
    at = slot_of(a, p, min(offset, a[p + LAST]))
    if a[at + BATCH] < 0:
        at = slot_of(a, p, a[at + HOLE_FIRST] - 1)
    return a[at + BATCH]


def put_batch(a: Any, p: Any, first: Any, last: Any, is_split: Any) -> None:
    """Insert a batch in flight into a hole, or before or behind all batches."""
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


def _put_hole(a: Any, p: Any, first: Any, last: Any) -> None:
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        a[at + BATCH], a[at + HOLE_FIRST], a[at + HOLE_LAST] = -1, first, last


def span(a: Any, p: Any) -> Any:
    """Return the offsets from start to end, including finished ones and holes."""
    return a[p + END] - a[p + START] + 1 if a[p + IN_MEMORY] else 0


def has_gap(a: Any, p: Any) -> bool:
    """Return whether holes may be first deliveries in flight when the leader changed."""
    return bool(a[p + GAP_END] == a[p + END])


def held_in(a: Any, p: Any) -> Any:
    """Return the acquired offsets, except deleted ones before the start offset."""
    held = a[p + HELD]
    if a[p + IN_MEMORY] and a[p + IS_BEHIND]:
        for offset in range(a[p + FIRST], min(a[p + START], a[p + LAST] + 1)):
            if not is_hole(a, p, offset):
                batch = batch_of(a, p, offset)
                at = slot_of(a, p, offset) if a[batch + SPLIT] else batch
                held -= a[at + STATE] == S_ACQUIRED
    return held


def is_held(a: Any, p: Any, lock: Any) -> bool:
    """Return whether a lock still holds an offset: unacknowledged, unsplit, and not renewed."""
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


def lock_offsets(a: Any, p: Any, first: Any, last: Any, ends: Any) -> None:
    """Lock offsets until a time; ``last`` is -1 for a whole batch."""
    number, to, at, early = a[p + LOCK_NUMBER], a[p + LOCKS_TO], a[p + LOCKS_AT], a[p + EARLY_LOCKS]
    a[p + LOCK_NUMBER] += last - first + 1 if last >= 0 else 1
    if a[p + LOCKS_FROM] < to and a[at + (to - 1) * LOCK_SIZE + LOCK_ENDS] > ends:
        if early == a[p + LOCK_ROOM]:
            early = _clear(a, p, a[p + EARLY_LOCKS_AT], 0, early)
        a[p + EARLY_LOCKS] = early + 1
        rise(a, a[p + EARLY_LOCKS_AT], early, ends, number, first, last)
        return
    if to == a[p + LOCK_ROOM]:
        to = _clear(a, p, at, a[p + LOCKS_FROM], to)
        a[p + LOCKS_FROM] = 0
    a[p + LOCKS_TO] = to + 1
    put(a, at + to * LOCK_SIZE, ends, number, first, last)


def _clear(a: Any, p: Any, base: Any, begin: Any, end: Any) -> Any:
    """Drop locks that hold nothing any more; return how many are left, in the same order."""
    kept = 0
    for one in range(begin, end):
        lock = base + one * LOCK_SIZE
        if is_held(a, p, lock):
            ends, number = a[lock + LOCK_ENDS], a[lock + LOCK_NO]
            rise(a, base, kept, ends, number, a[lock + LOCK_FIRST], a[lock + LOCK_LAST])
            kept += 1
    return kept


def first_lock(a: Any, p: Any) -> Any:
    """Return the address of the lock that expires first, held or not, or 0."""
    lock = 0
    if a[p + LOCKS_FROM] < a[p + LOCKS_TO]:
        lock = a[p + LOCKS_AT] + a[p + LOCKS_FROM] * LOCK_SIZE
    if a[p + EARLY_LOCKS]:
        early = a[p + EARLY_LOCKS_AT]
        if not lock or is_before(a, early, a[lock + LOCK_ENDS], a[lock + LOCK_NO]):
            return early
    return lock


def drop_lock(a: Any, p: Any, lock: Any) -> None:
    """Remove the lock that expires first."""
    if lock == a[p + EARLY_LOCKS_AT]:
        a[p + EARLY_LOCKS] -= 1
        drop_first(a, lock, a[p + EARLY_LOCKS])
        return
    a[p + LOCKS_FROM] += 1
    if a[p + LOCKS_FROM] == a[p + LOCKS_TO]:
        a[p + LOCKS_FROM] = a[p + LOCKS_TO] = 0


def acquire_offsets(
    a: Any, p: Any, first: Any, last: Any, count: Any, owner: Any, is_split: bool
) -> None:
    """Acquire offsets for a member: single ones of a split batch, or a whole batch."""
    ends, number = a[p + STATE_MS] + a[LOCK_MS], a[p + LOCK_NUMBER]
    for offset in range(first, last + 1 if is_split else first + 1):
        at = slot_of(a, p, offset)
        a[at + STATE], a[at + COUNT], a[at + OWNER] = S_ACQUIRED, count, owner
        a[at + DEADLINE], a[at + LOCK] = ends, number + offset - first
    lock_offsets(a, p, first, last if is_split else -1, ends)
    a[p + HELD] += last - first + 1
    a[HELD_BY_ALL] += last - first + 1


def split(a: Any, p: Any, batch: Any) -> None:
    """Give every offset of a batch its own state and lock, irreversibly."""
    if a[batch + SPLIT]:
        return
    a[batch + SPLIT] = 1
    first, last, number = a[batch + BATCH], a[batch + BATCH_LAST], a[p + LOCK_NUMBER]
    state, count = a[batch + STATE], a[batch + COUNT]
    owner, ends = a[batch + OWNER], a[batch + DEADLINE]
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        a[at + STATE], a[at + COUNT], a[at + OWNER], a[at + DEADLINE] = state, count, owner, ends
        a[at + LOCK] = number + offset - first
    if state == S_ACQUIRED:
        lock_offsets(a, p, first, last, ends)


def renew(a: Any, p: Any, at: Any, first: Any, last: Any) -> None:
    """Renew the lock of an acquired offset, or of a whole batch if ``last`` is -1."""
    a[at + DEADLINE], a[at + LOCK] = a[p + STATE_MS] + a[LOCK_MS], a[p + LOCK_NUMBER]
    lock_offsets(a, p, first, last, a[at + DEADLINE])


parts(globals())
