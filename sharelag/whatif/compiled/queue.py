"""Events in the order of their times, and simultaneous ones in the order of scheduling.

Near events are in lists, one per bucket of time, on a ring of buckets. Distant events, and those
that would stand far back in a list, are in a heap.
"""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.layout import *

#: Events of a bucket that an insertion may pass before it uses the heap.
_MOST_PASSED = 12


def push(a: Any, time: Any, kind: Any, subject: Any, more: Any) -> None:
    """Schedule an event, at the earliest now."""
    a[NUMBER] += 1
    insert(a, max(time, a[NOW]), a[NUMBER], kind, subject, more)


def insert(a: Any, time: Any, number: Any, kind: Any, subject: Any, more: Any) -> None:
    """Insert an event with its number."""
    what = (kind << KIND_BITS) + subject
    bucket = time >> a[BUCKET_BITS]
    if bucket - (a[NOW] >> a[BUCKET_BITS]) >= BUCKETS or not a[FREE_NODE]:
        _insert_far(a, time, number, what, more)
        return
    head = a[BUCKETS_AT] + (bucket & (BUCKETS - 1))
    before, after, passed = 0, a[head], 0
    while after and (a[after] < time or (a[after] == time and a[after + 1] < number)):
        if passed == _MOST_PASSED:
            _insert_far(a, time, number, what, more)
            return
        before, after, passed = after, a[after + NODE_NEXT], passed + 1
    node = a[FREE_NODE]
    a[FREE_NODE] = a[node + NODE_NEXT]
    a[node], a[node + 1], a[node + 2], a[node + 3] = time, number, what, more
    a[node + NODE_NEXT] = after
    if before:
        a[before + NODE_NEXT] = node
    else:
        a[head] = node
    if not a[NEAR] or bucket < a[CURSOR]:
        a[CURSOR] = bucket
    a[NEAR] += 1


def first(a: Any) -> Any:
    """Return the address of the first event, or 0."""
    far = a[EVENTS_AT] if a[EVENTS] else 0
    if not a[NEAR]:
        return far
    bucket, ring = a[CURSOR], a[BUCKETS_AT]
    while not a[ring + (bucket & (BUCKETS - 1))]:
        bucket += 1
    a[CURSOR] = bucket
    near = a[ring + (bucket & (BUCKETS - 1))]
    return far if far and is_before(a, far, a[near], a[near + 1]) else near


def drop(a: Any, event: Any) -> None:
    """Remove the first event."""
    if event == a[EVENTS_AT]:
        a[EVENTS] -= 1
        drop_first(a, event, a[EVENTS])
        return
    a[a[BUCKETS_AT] + (a[CURSOR] & (BUCKETS - 1))] = a[event + NODE_NEXT]
    a[event + NODE_NEXT], a[FREE_NODE] = a[FREE_NODE], event
    a[NEAR] -= 1


def _insert_far(a: Any, time: Any, number: Any, what: Any, more: Any) -> None:
    a[EVENTS] += 1
    rise(a, a[EVENTS_AT], a[EVENTS] - 1, time, number, what, more)


def is_before(a: Any, row: Any, time: Any, number: Any) -> bool:
    """Return whether a row precedes a time and number."""
    return bool(a[row] < time or (a[row] == time and a[row + 1] < number))


def put(a: Any, row: Any, time: Any, number: Any, what: Any, more: Any) -> None:
    """Write a row of a heap."""
    a[row], a[row + 1], a[row + 2], a[row + 3] = time, number, what, more


def _copy(a: Any, row: Any, to: Any) -> None:
    put(a, to, a[row], a[row + 1], a[row + 2], a[row + 3])


def rise(a: Any, heap: Any, at: Any, time: Any, number: Any, what: Any, more: Any) -> None:
    """Insert a row into a heap of events or locks, from the free position ``at``."""
    while at > 0:
        above = heap + ((at - 1) >> 1) * EVENT
        if is_before(a, above, time, number):
            break
        _copy(a, above, heap + at * EVENT)
        at = (at - 1) >> 1
    put(a, heap + at * EVENT, time, number, what, more)


def drop_first(a: Any, heap: Any, size: Any) -> None:
    """Remove the first row of a heap, which leaves ``size`` rows."""
    moved = heap + size * EVENT
    time, number, at = a[moved], a[moved + 1], 0
    while 2 * at + 1 < size:
        down = 2 * at + 1
        one = heap + down * EVENT
        if down + 1 < size and is_before(a, one + EVENT, a[one], a[one + 1]):
            down, one = down + 1, one + EVENT
        if not is_before(a, one, time, number):
            break
        _copy(a, one, heap + at * EVENT)
        at = down
    _copy(a, moved, heap + at * EVENT)


parts(globals())
