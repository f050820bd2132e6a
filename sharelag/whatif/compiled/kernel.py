"""The loop itself: events are done one after the other until Python is needed."""

from __future__ import annotations

from typing import Any

import numba

from sharelag.whatif.compiled.layout import (
    ACCEPTS_ALL,
    ACKNOWLEDGED_NOW,
    ANSWERED,
    APPENDED,
    ASKED,
    CALL,
    CHANCES_AT,
    CHUNK,
    CHUNK_AT,
    CHUNKS,
    CLOSE,
    CLOSES,
    DRAW_CHANCE,
    DRAW_WORK,
    E_COUNT,
    E_FIRST,
    E_LAST,
    E_PLACE,
    ENDED_RUN,
    ENTRIES,
    ENTRY_SIZE,
    EVENTS,
    FETCHES,
    FIRST_CHUNK,
    FREE_SLOTS,
    GIVES_UP,
    GROW,
    HELD_BY_ALL,
    INDEX,
    IS_FIXED,
    KIND_BITS,
    LOCKS_END,
    MEMBERS,
    MISSING_CHUNK,
    MISSING_OF,
    MISSING_PLACE,
    NETWORK,
    NOW,
    NUMBER,
    PLACE,
    PLACES,
    PLACES_AT,
    PYTHON,
    RESUMES,
    RUNS,
    SAYS,
    SAYS_AND_WAITS,
    SLOT_HEAD,
    UNLOCKED,
    WORK_AT,
    WORKED,
    WRITES,
)
from sharelag.whatif.compiled.queue import drop, push
from sharelag.whatif.compiled.serving import (
    acknowledged,
    appended,
    check,
    fetches,
    gives_up,
    locks_end,
    unlocked,
)
from sharelag.whatif.compiled.working import answered, resumes, worked


@numba.njit(cache=True)
def _misses(c: Any, m: Any, slot: Any) -> Any:
    """Which random numbers are to be drawn before a member can work on a slot; 0: none."""
    a, slots = c.a, c.slots
    for entry in range(slots[slot, ENTRIES]):
        at = SLOT_HEAD + entry * ENTRY_SIZE
        p, count = slots[slot, at + E_PLACE], slots[slot, at + E_COUNT]
        first, last = slots[slot, at + E_FIRST] // CHUNK, slots[slot, at + E_LAST] // CHUNK
        for chunk in range(first, last + 1):
            number = a[p + CHUNK_AT] + chunk - a[p + FIRST_CHUNK]
            work = a[m + WORK_AT] + a[PLACES] + number
            chance = a[CHANCES_AT] + (count - 1) * a[CHUNKS] + number
            a[MISSING_PLACE], a[MISSING_CHUNK] = a[p + INDEX], chunk
            if not a[m + IS_FIXED] and a[work] < 0:
                a[MISSING_OF] = m
                return DRAW_WORK
            if not a[m + ACCEPTS_ALL] and a[chance] < 0:
                a[MISSING_OF] = count
                return DRAW_CHANCE
    return 0


@numba.njit(cache=True)
def _is_full(c: Any) -> bool:
    """Whether the next event might need more room than there is."""
    a = c.a
    members, places = a[MEMBERS], a[PLACES]
    changes = a[HELD_BY_ALL] + 8
    return bool(
        a[EVENTS] + 2 * members + 4 * places + 8 > len(c.events)
        or a[FREE_SLOTS] < members + 1
        or a[RUNS] + changes > len(c.runs)
        or a[WRITES] + changes > len(c.writes)
        or a[ASKED] + 8 > len(c.asked)
    )


@numba.njit(cache=True)
def _do(c: Any, kind: Any, subject: Any, more: Any) -> None:
    a = c.a
    if kind == WORKED:
        worked(c, subject)
    elif kind == FETCHES:
        fetches(c, subject, check(c, subject, more))
    elif kind == ANSWERED:
        answered(c, subject, more)
    elif kind == ACKNOWLEDGED_NOW:
        acknowledged(c, subject)
    elif kind == UNLOCKED:
        unlocked(c, a[PLACES_AT] + subject * PLACE)
    elif kind == APPENDED:
        appended(c, a[PLACES_AT] + subject * PLACE)
    elif kind == LOCKS_END:
        locks_end(c, a[PLACES_AT] + subject * PLACE)
    elif kind == GIVES_UP:
        gives_up(c, subject, more)
    elif kind == RESUMES:
        resumes(c, subject)
    elif kind == SAYS_AND_WAITS:
        push(c, max(a[NOW], check(c, subject, more)) + a[NETWORK], RESUMES, subject, 0)
    elif kind == SAYS:
        check(c, subject, more)
        a[NUMBER] += 1  # an answer that nobody waits for


@numba.njit(cache=True)
def run(c: Any, until: Any) -> Any:
    """Let time pass, that moment included, and say what Python has to do.

    Returns
    -------
    int, int
        One of the codes of `layout`, and a member or the number of an action.
    """
    a, heap = c.a, c.events
    while a[EVENTS] and heap[0, 0] <= until:
        kind, subject = heap[0, 2] >> KIND_BITS, heap[0, 2] & ((1 << KIND_BITS) - 1)
        more = heap[0, 3]
        if kind == ANSWERED and more >= 0:
            misses = _misses(c, subject, more)
            if misses:
                return misses, 0
        if _is_full(c):
            return GROW, 0
        a[NOW] = heap[0, 0]
        drop(c)
        if kind == PYTHON:
            return CALL, subject
        _do(c, kind, subject, more)
        if a[CLOSES]:
            m = a[CLOSES]
            a[CLOSES] = 0
            return CLOSE, m
    a[NOW] = until
    return ENDED_RUN, 0
