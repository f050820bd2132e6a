"""Events in the order of their times, simultaneous ones as scheduled: a heap, as others have."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import part
from sharelag.whatif.compiled.layout import *


@part
def push(a: Any, time: Any, kind: Any, subject: Any, more: Any) -> None:
    """Schedule an event; what is past already is done next."""
    a[NUMBER] += 1
    a[EVENTS] += 1
    what = (kind << KIND_BITS) + subject
    sift_up(a, a[EVENTS_AT], a[EVENTS] - 1, max(time, a[NOW]), a[NUMBER], what, more)


@part
def first(a: Any) -> Any:
    """Where the first event lies; 0: there is none."""
    return a[EVENTS_AT] if a[EVENTS] else 0


@part
def drop(a: Any) -> None:
    """Take the first event away."""
    a[EVENTS] -= 1
    drop_first(a, a[EVENTS_AT], a[EVENTS])


# ---- heaps of rows of four numbers, by the first two ----


@part
def sift_up(a: Any, heap: Any, at: Any, time: Any, number: Any, what: Any, more: Any) -> None:
    """Put a row into a heap, from a place at its end upwards."""
    row = heap + at * HEAP_ROW
    while at > 0:
        at = (at - 1) >> 1
        up = heap + at * HEAP_ROW
        if a[up] < time or (a[up] == time and a[up + 1] < number):
            break
        # Not in a loop, which would take plain Python twice as long.
        a[row], a[row + 1], a[row + 2], a[row + 3] = a[up], a[up + 1], a[up + 2], a[up + 3]
        row = up
    a[row], a[row + 1], a[row + 2], a[row + 3] = time, number, what, more


@part
def drop_first(a: Any, heap: Any, size: Any) -> None:
    """Take the first row out of a heap that has one more than so many."""
    moved, row, down = heap + size * HEAP_ROW, heap, 1
    time, number = a[moved], a[moved + 1]
    while down < size:
        one = heap + down * HEAP_ROW
        if down + 1 < size:
            other = one + HEAP_ROW
            if a[other] < a[one] or (a[other] == a[one] and a[other + 1] < a[one + 1]):
                down, one = down + 1, other
        if time < a[one] or (time == a[one] and number < a[one + 1]):
            break
        a[row], a[row + 1], a[row + 2], a[row + 3] = a[one], a[one + 1], a[one + 2], a[one + 3]
        row, down = one, 2 * down + 1
    a[row], a[row + 1], a[row + 2], a[row + 3] = time, number, a[moved + 2], a[moved + 3]
