"""Members: they poll, work, and acknowledge with the next poll or after each record."""

from __future__ import annotations

from typing import Any

import numba

from sharelag.whatif.compiled.acknowledging import type_of
from sharelag.whatif.compiled.layout import (
    ACTIVE,
    ASKED,
    ASKS_ACKNOWLEDGE,
    ASKS_FETCH,
    BUSY,
    BUSY_SINCE,
    CHANGED,
    CHUNK,
    CHUNK_AT,
    CLOSES,
    E_COUNT,
    E_FIRST,
    E_LAST,
    E_PLACE,
    ENDED,
    ENTRIES,
    ENTRY,
    ENTRY_SIZE,
    EPOCH,
    FETCHED,
    FETCHED_AT,
    FETCHES,
    FIRST_CHUNK,
    HAS_SESSION,
    INDEX,
    IS_FIXED,
    IS_LAST,
    LEAVING,
    MEMBER_INDEX,
    NETWORK,
    NOTES_REQUESTS,
    NOW,
    PENDING,
    PER_RECORD,
    PLACES,
    POLL,
    POLLS,
    RECORD,
    SAYS,
    SAYS_AND_WAITS,
    SAYS_OFFSET,
    SAYS_PLACE,
    SAYS_RECORD,
    SAYS_TYPE,
    SESSION,
    SESSION_AT,
    SILENT,
    SLOT_HEAD,
    TODO,
    WANTED,
    WANTED_AT,
    WORK_AT,
    WORKED,
)
from sharelag.whatif.compiled.queue import push
from sharelag.whatif.compiled.serving import free


@numba.njit(cache=True)
def work_in(c: Any, m: Any, p: Any, first: Any, last: Any) -> Any:
    """Microseconds that records take together."""
    a, total = c.a, 0
    if a[m + IS_FIXED]:
        return a[a[m + WORK_AT] + a[p + INDEX]] * (last - first + 1)
    chunks = a[m + WORK_AT] + a[PLACES] + a[p + CHUNK_AT] - a[p + FIRST_CHUNK]
    for offset in range(first, last + 1):
        total += c.chunks[a[chunks + offset // CHUNK], offset % CHUNK]
    return total


@numba.njit(cache=True)
def note_request(c: Any, m: Any, what: Any) -> None:
    """Note a request, if that is wanted."""
    a = c.a
    if a[NOTES_REQUESTS]:
        row = a[ASKED]
        a[ASKED] = row + 1
        c.asked[row, 0], c.asked[row, 1] = a[NOW], a[m + MEMBER_INDEX]
        c.asked[row, 2], c.asked[row, 3] = a[m + EPOCH], what


@numba.njit(cache=True)
def _send(c: Any, m: Any, kind: Any, slot: Any) -> None:
    a = c.a
    note_request(c, m, ASKS_FETCH if kind == FETCHES else ASKS_ACKNOWLEDGE)
    a[m + HAS_SESSION] = 1
    a[m + EPOCH] += 1
    push(c, a[NOW] + a[NETWORK], kind, m, slot)


@numba.njit(cache=True)
def send_pending(c: Any, m: Any) -> bool:
    """Acknowledge what is pending without a fetch; whether there was anything."""
    slot = c.a[m + PENDING]
    c.a[m + PENDING] = -1
    if slot >= 0:
        _send(c, m, SAYS, slot)
    return bool(slot >= 0)


@numba.njit(cache=True)
def _open_session(a: Any, m: Any) -> None:
    """Places that stay keep their order in the session; new ones follow."""
    kept, wanted, session = 0, a[m + WANTED_AT], a[m + SESSION_AT]
    for old in range(a[m + SESSION]):
        for new in range(a[m + WANTED]):
            if a[wanted + new] == a[session + old]:
                a[session + kept] = a[session + old]
                kept += 1
                break
    total = kept
    for new in range(a[m + WANTED]):
        known = False
        for old in range(kept):
            if a[session + old] == a[wanted + new]:
                known = True
                break
        if not known:
            a[session + total] = a[wanted + new]
            total += 1
    a[m + SESSION], a[m + CHANGED] = total, 0


@numba.njit(cache=True)
def poll(c: Any, m: Any) -> None:
    """Fetch from the places that it has, if any; one that leaves closes instead."""
    a = c.a
    if a[m + LEAVING]:
        a[CLOSES] = m
        return
    a[m + ACTIVE] = a[m + WANTED] > 0
    if not a[m + ACTIVE]:
        send_pending(c, m)
        return
    if a[m + CHANGED]:
        _open_session(a, m)
    count = a[m + SESSION]
    a[m + FETCHED] = count
    turn = a[m + EPOCH] % count
    for number in range(count):
        at = number + turn
        a[a[m + FETCHED_AT] + number] = a[a[m + SESSION_AT] + (at - count if at >= count else at)]
    slot = a[m + PENDING]
    a[m + PENDING] = -1
    _send(c, m, FETCHES, slot)


@numba.njit(cache=True)
def answered(c: Any, m: Any, slot: Any) -> None:
    """A fetch is answered: work on what it brought, or poll again."""
    a, slots = c.a, c.slots
    if a[m + ENDED]:
        return
    if slot < 0:
        poll(c, m)
        return
    a[m + POLLS] += 1
    a[m + TODO], a[m + ENTRY], a[m + RECORD] = slot, 0, slots[slot, SLOT_HEAD + E_FIRST]
    slots[slot, SAYS_RECORD], slots[slot, IS_LAST] = a[m + PER_RECORD], 1
    duration = a[m + POLL]
    if a[m + PER_RECORD]:
        first = a[m + RECORD]
        duration += work_in(c, m, slots[slot, SLOT_HEAD + E_PLACE], first, first)
    else:
        for entry in range(slots[slot, ENTRIES]):
            at = SLOT_HEAD + entry * ENTRY_SIZE
            p = slots[slot, at + E_PLACE]
            duration += work_in(c, m, p, slots[slot, at + E_FIRST], slots[slot, at + E_LAST])
    _work(c, m, duration)


@numba.njit(cache=True)
def _work(c: Any, m: Any, duration: Any) -> None:
    c.a[m + BUSY_SINCE] = c.a[NOW]
    push(c, c.a[NOW] + duration, WORKED, m, 0)


@numba.njit(cache=True)
def resumes(c: Any, m: Any) -> None:
    """Work on the next record."""
    a, slots, slot = c.a, c.slots, c.a[m + TODO]
    p = slots[slot, SLOT_HEAD + a[m + ENTRY] * ENTRY_SIZE + E_PLACE]
    _work(c, m, work_in(c, m, p, a[m + RECORD], a[m + RECORD]))


@numba.njit(cache=True)
def worked(c: Any, m: Any) -> None:
    """Work is done: acknowledge it with the next poll, or at once if more is to be done."""
    a, slots, slot = c.a, c.slots, c.a[m + TODO]
    if a[m + ENDED]:
        return
    a[m + BUSY] += a[NOW] - a[m + BUSY_SINCE]
    a[m + BUSY_SINCE] = -1
    if not a[m + PER_RECORD]:
        a[m + PENDING] = slot
        poll(c, m)
        return
    at = SLOT_HEAD + a[m + ENTRY] * ENTRY_SIZE
    p, offset = slots[slot, at + E_PLACE], a[m + RECORD]
    type_ = type_of(c, m, p, slots[slot, at + E_COUNT], offset)
    slots[slot, SAYS_PLACE], slots[slot, SAYS_OFFSET] = p, offset
    slots[slot, SAYS_TYPE] = type_
    a[m + RECORD] += 1
    if offset == slots[slot, at + E_LAST]:
        a[m + ENTRY] += 1
        if a[m + ENTRY] < slots[slot, ENTRIES]:
            a[m + RECORD] = slots[slot, SLOT_HEAD + a[m + ENTRY] * ENTRY_SIZE + E_FIRST]
    if a[m + ENTRY] < slots[slot, ENTRIES]:
        slots[slot, IS_LAST] = 0
        if type_ == SILENT:
            resumes(c, m)
        else:
            _send(c, m, SAYS_AND_WAITS, slot)
        return
    slots[slot, IS_LAST] = 1
    if type_ == SILENT:
        free(c, slot)
    else:
        a[m + PENDING] = slot
    poll(c, m)
