"""Events in the order of their times; simultaneous ones as scheduled."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.layout import EVENT, EVENTS, EVENTS_AT, KIND_BITS, NOW, NUMBER


@kernel
def push(a: Any, time: Any, kind: Any, subject: Any, more: Any) -> None:
    """Schedule an event; what is past already is done next."""
    a[NUMBER] += 1
    insert(a, max(time, a[NOW]), a[NUMBER], kind, subject, more)


@kernel
def insert(a: Any, time: Any, number: Any, kind: Any, subject: Any, more: Any) -> None:
    """Put an event in its place among those of its time."""
    at, heap = a[EVENTS], a[EVENTS_AT]
    a[EVENTS] = at + 1
    while at > 0:
        up = (at - 1) >> 1
        above, below = heap + up * EVENT, heap + at * EVENT
        if a[above] < time or (a[above] == time and a[above + 1] < number):
            break
        for column in range(EVENT):
            a[below + column] = a[above + column]
        at = up
    event = heap + at * EVENT
    a[event], a[event + 1] = time, number
    a[event + 2], a[event + 3] = (kind << KIND_BITS) + subject, more


@kernel
def drop(a: Any) -> None:
    """Take the first event away."""
    size, heap = a[EVENTS] - 1, a[EVENTS_AT]
    a[EVENTS] = size
    moved = heap + size * EVENT
    time, number, at = a[moved], a[moved + 1], 0
    while 2 * at + 1 < size:
        down = 2 * at + 1
        one, other = heap + down * EVENT, heap + (down + 1) * EVENT
        if down + 1 < size and (
            a[other] < a[one] or (a[other] == a[one] and a[other + 1] < a[one + 1])
        ):
            down, one = down + 1, other
        if time < a[one] or (time == a[one] and number < a[one + 1]):
            break
        for column in range(EVENT):
            a[heap + at * EVENT + column] = a[one + column]
        at = down
    for column in range(EVENT):
        a[heap + at * EVENT + column] = a[moved + column]
