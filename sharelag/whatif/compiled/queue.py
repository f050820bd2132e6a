"""Events in the order of their times; simultaneous ones as scheduled."""

from __future__ import annotations

from typing import Any

import numba

from sharelag.whatif.compiled.layout import EVENTS, KIND_BITS, NOW, NUMBER


@numba.njit(cache=True)
def push(c: Any, time: Any, kind: Any, subject: Any, more: Any) -> None:
    """Schedule an event; what is past already is done next."""
    a, heap = c.a, c.events
    a[NUMBER] += 1
    number, at = a[NUMBER], a[EVENTS]
    a[EVENTS] = at + 1
    time = max(time, a[NOW])
    while at > 0:
        up = (at - 1) >> 1
        if heap[up, 0] < time or (heap[up, 0] == time and heap[up, 1] < number):
            break
        for column in range(4):
            heap[at, column] = heap[up, column]
        at = up
    heap[at, 0], heap[at, 1] = time, number
    heap[at, 2], heap[at, 3] = (kind << KIND_BITS) + subject, more


@numba.njit(cache=True)
def drop(c: Any) -> None:
    """Take the first event away."""
    a, heap = c.a, c.events
    size = a[EVENTS] - 1
    a[EVENTS] = size
    time, number = heap[size, 0], heap[size, 1]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        right = down + 1
        if right < size and (
            heap[right, 0] < heap[down, 0]
            or (heap[right, 0] == heap[down, 0] and heap[right, 1] < heap[down, 1])
        ):
            down = right
        if time < heap[down, 0] or (time == heap[down, 0] and number < heap[down, 1]):
            break
        for column in range(4):
            heap[at, column] = heap[down, column]
        at = down
    for column in range(4):
        heap[at, column] = heap[size, column]
