"""Members: they poll, work, and acknowledge with the next poll or after each record."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.acknowledging import type_of
from sharelag.whatif.compiled.layout import (
    ACTIVE,
    ASKED,
    ASKED_AT,
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
    REQUEST,
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
    WANTED,
    WANTED_AT,
    WORK_AT,
    WORKED,
    WORKING_ON,
)
from sharelag.whatif.compiled.queue import push
from sharelag.whatif.compiled.requests import free


@kernel
def work_in(a: Any, m: Any, p: Any, first: Any, last: Any) -> Any:
    """Microseconds that records take together."""
    total = 0
    if a[m + IS_FIXED]:
        return a[a[m + WORK_AT] + a[p + INDEX]] * (last - first + 1)
    chunks = a[m + WORK_AT] + a[PLACES] + a[p + CHUNK_AT] - a[p + FIRST_CHUNK]
    for offset in range(first, last + 1):
        total += a[a[chunks + offset // CHUNK] + offset % CHUNK]
    return total


@kernel
def note_request(a: Any, m: Any, what: Any) -> None:
    """Note a request, if that is wanted."""
    if a[NOTES_REQUESTS]:
        row = a[ASKED_AT] + a[ASKED] * REQUEST
        a[ASKED] += 1
        a[row], a[row + 1] = a[NOW], a[m + MEMBER_INDEX]
        a[row + 2], a[row + 3] = a[m + EPOCH], what


@kernel
def _send(a: Any, m: Any, kind: Any, slot: Any) -> None:
    note_request(a, m, ASKS_FETCH if kind == FETCHES else ASKS_ACKNOWLEDGE)
    a[m + HAS_SESSION] = 1
    a[m + EPOCH] += 1
    push(a, a[NOW] + a[NETWORK], kind, m, slot)


@kernel
def send_pending(a: Any, m: Any) -> bool:
    """Acknowledge what is pending without a fetch; whether there was anything."""
    slot = a[m + PENDING]
    a[m + PENDING] = -1
    if slot >= 0:
        _send(a, m, SAYS, slot)
    return bool(slot >= 0)


@kernel
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


@kernel
def poll(a: Any, m: Any) -> None:
    """Fetch from the places that it has, if any; one that leaves closes instead."""
    if a[m + LEAVING]:
        a[CLOSES] = m
        return
    a[m + ACTIVE] = a[m + WANTED] > 0
    if not a[m + ACTIVE]:
        send_pending(a, m)
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
    _send(a, m, FETCHES, slot)


@kernel
def answered(a: Any, m: Any, slot: Any) -> None:
    """A fetch is answered: work on what it brought, or poll again."""
    if a[m + ENDED]:
        return
    if slot < 0:
        poll(a, m)
        return
    a[m + POLLS] += 1
    a[m + WORKING_ON], a[m + ENTRY], a[m + RECORD] = slot, 0, a[slot + SLOT_HEAD + E_FIRST]
    a[slot + SAYS_RECORD], a[slot + IS_LAST] = a[m + PER_RECORD], 1
    duration = a[m + POLL]
    if a[m + PER_RECORD]:
        first = a[m + RECORD]
        duration += work_in(a, m, a[slot + SLOT_HEAD + E_PLACE], first, first)
    else:
        for entry in range(a[slot + ENTRIES]):
            at = SLOT_HEAD + entry * ENTRY_SIZE
            p = a[slot + at + E_PLACE]
            duration += work_in(a, m, p, a[slot + at + E_FIRST], a[slot + at + E_LAST])
    _work(a, m, duration)


@kernel
def _work(a: Any, m: Any, duration: Any) -> None:
    a[m + BUSY_SINCE] = a[NOW]
    push(a, a[NOW] + duration, WORKED, m, 0)


@kernel
def resumes(a: Any, m: Any) -> None:
    """Work on the next record."""
    slot = a[m + WORKING_ON]
    p = a[slot + SLOT_HEAD + a[m + ENTRY] * ENTRY_SIZE + E_PLACE]
    _work(a, m, work_in(a, m, p, a[m + RECORD], a[m + RECORD]))


@kernel
def worked(a: Any, m: Any) -> None:
    """Work is done: acknowledge it with the next poll, or at once if more is to be done."""
    slot = a[m + WORKING_ON]
    if a[m + ENDED]:
        return
    a[m + BUSY] += a[NOW] - a[m + BUSY_SINCE]
    a[m + BUSY_SINCE] = -1
    if not a[m + PER_RECORD]:
        a[m + PENDING] = slot
        poll(a, m)
        return
    at = SLOT_HEAD + a[m + ENTRY] * ENTRY_SIZE
    p, offset = a[slot + at + E_PLACE], a[m + RECORD]
    type_ = type_of(a, m, p, a[slot + at + E_COUNT], offset)
    a[slot + SAYS_PLACE], a[slot + SAYS_OFFSET] = p, offset
    a[slot + SAYS_TYPE] = type_
    a[m + RECORD] += 1
    if offset == a[slot + at + E_LAST]:
        a[m + ENTRY] += 1
        if a[m + ENTRY] < a[slot + ENTRIES]:
            a[m + RECORD] = a[slot + SLOT_HEAD + a[m + ENTRY] * ENTRY_SIZE + E_FIRST]
    if a[m + ENTRY] < a[slot + ENTRIES]:
        a[slot + IS_LAST] = 0
        if type_ == SILENT:
            resumes(a, m)
        else:
            _send(a, m, SAYS_AND_WAITS, slot)
        return
    a[slot + IS_LAST] = 1
    if type_ == SILENT:
        free(a, slot)
    else:
        a[m + PENDING] = slot
    poll(a, m)
