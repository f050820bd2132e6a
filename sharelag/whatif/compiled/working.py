"""Members: they poll, work, and acknowledge with the next poll or after each record."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.acknowledging import type_of
from sharelag.whatif.compiled.layout import (
    ACTIVE,
    ANSWERED,
    ASKED,
    ASKED_AT,
    ASKS_ACKNOWLEDGE,
    ASKS_FETCH,
    BELOW_CRASH,
    BELOW_HANG,
    BUSY,
    BUSY_SINCE,
    BY_POLL,
    BY_RECORD,
    CALLED,
    CALLS,
    CHANGED,
    CLOSE,
    COMMIT,
    CRASH,
    CRASH_NOW,
    CRASHED,
    CRASHES,
    DRAWN,
    DRAWN_AT,
    E_COUNT,
    E_FIRST,
    E_LAST,
    E_PLACE,
    ENDED,
    ENTRIES,
    ENTRY,
    ENTRY_SIZE,
    EPOCH,
    EVER,
    FETCHED,
    FETCHED_AT,
    FETCHES,
    HAS_ACCIDENTS,
    HAS_SESSION,
    HUNG,
    HUNG_UNTIL,
    IS_LAST,
    LEAVING,
    MEMBER_INDEX,
    NETWORK,
    NOTES_REQUESTS,
    NOW,
    PART_ENTRY,
    PART_LAST,
    PENDING,
    POISONS,
    POLL,
    POLLS,
    RECORD,
    REQUEST,
    SAYS,
    SAYS_AND_WAITS,
    SAYS_BY,
    SAYS_ENTRY,
    SAYS_OFFSET,
    SAYS_PLACE,
    SAYS_TO,
    SAYS_TO_ENTRY,
    SAYS_TYPE,
    SESSION,
    SESSION_AT,
    SILENT,
    SLOT_HEAD,
    WANTED,
    WANTED_AT,
    WORKED,
    WORKING_ON,
)
from sharelag.whatif.compiled.parts import is_nothing, is_silent, until, work_in
from sharelag.whatif.compiled.queue import push
from sharelag.whatif.compiled.requests import free

#: Whole random numbers are parts of 1.
_PART = 2.0**-53


@kernel
def call(a: Any, code: Any, m: Any) -> None:
    """Let Python go on with a member after this event."""
    a[CALLS], a[CALLED] = code, m


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
        call(a, CLOSE, m)
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
def _is_stopped(a: Any, m: Any, kind: Any, more: Any) -> bool:
    """Whether a member has ended or hangs; one that hangs acts later."""
    if a[m + ENDED]:
        return True
    if a[m + HUNG_UNTIL] <= a[NOW]:
        return False
    if a[m + HUNG_UNTIL] - a[NOW] < EVER:
        push(a, a[m + HUNG_UNTIL], kind, m, more)
    return True


@kernel
def answered(a: Any, m: Any, slot: Any) -> None:
    """A fetch is answered: work on what it brought, or poll again."""
    if _is_stopped(a, m, ANSWERED, slot):
        if a[m + ENDED] and slot >= 0:
            free(a, slot)
        return
    if slot < 0:
        poll(a, m)
        return
    a[m + POLLS] += 1
    a[m + WORKING_ON], a[m + ENTRY], a[m + RECORD] = slot, 0, a[slot + SLOT_HEAD + E_FIRST]
    a[slot + SAYS_BY], a[slot + IS_LAST] = a[m + COMMIT], 1
    if a[m + HAS_ACCIDENTS]:
        _draw_accident(a, m, a[m + POLL] + until(a, m, slot, False))
    _work(a, m, a[m + POLL])


@kernel
def _draw_accident(a: Any, m: Any, duration: Any) -> None:
    """Draw whether a member crashes or hangs within the work that it begins now."""
    at = a[m + DRAWN_AT] + a[m + DRAWN]
    a[m + DRAWN] += 3
    when = a[NOW] + int(a[at + 2] * _PART * duration)
    if a[at] < a[m + BELOW_CRASH]:
        push(a, when, CRASHED, m, 0)
    elif a[at + 1] < a[m + BELOW_HANG]:
        push(a, when, HUNG, m, 0)


@kernel
def _work(a: Any, m: Any, before: Any) -> None:
    """Work on the next part, after something else."""
    slot = a[m + WORKING_ON]
    if a[m + COMMIT] == BY_RECORD:
        at, offset = slot + SLOT_HEAD + a[m + ENTRY] * ENTRY_SIZE, a[m + RECORD]
        p = a[at + E_PLACE]
        duration = work_in(a, m, p, offset, offset)
        is_poison = a[p + POISONS] > 0
        a[m + CRASHES] = is_poison and type_of(a, m, p, a[at + E_COUNT], offset) == CRASH
    else:
        duration = until(a, m, slot, True)
    a[m + BUSY_SINCE] = a[NOW]
    push(a, a[NOW] + before + duration, WORKED, m, 0)


@kernel
def resumes(a: Any, m: Any) -> None:
    """Work on the next record, or up to the next error."""
    _work(a, m, 0)


@kernel
def worked(a: Any, m: Any) -> None:
    """Work is done: acknowledge it with the next poll, or at once if more is to be done."""
    slot = a[m + WORKING_ON]
    if _is_stopped(a, m, WORKED, 0):
        if a[m + ENDED]:
            free(a, slot)
        return
    if a[m + BUSY_SINCE] >= 0:  # else it hung meanwhile
        a[m + BUSY] += a[NOW] - a[m + BUSY_SINCE]
        a[m + BUSY_SINCE] = -1
    if a[m + CRASHES]:
        free(a, slot)
        call(a, CRASH_NOW, m)
    elif a[m + COMMIT] == BY_POLL:
        a[m + PENDING] = slot
        poll(a, m)
    elif a[m + COMMIT] == BY_RECORD:
        _record_is_done(a, m, slot)
    else:
        _part_is_done(a, m, slot)


@kernel
def _record_is_done(a: Any, m: Any, slot: Any) -> None:
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


@kernel
def _part_is_done(a: Any, m: Any, slot: Any) -> None:
    """Say what led to an error; without one, what is left goes with the next poll."""
    entry, last = a[m + PART_ENTRY], a[m + PART_LAST]
    a[slot + SAYS_ENTRY], a[slot + SAYS_OFFSET] = a[m + ENTRY], a[m + RECORD]
    a[slot + SAYS_TO_ENTRY], a[slot + SAYS_TO] = entry, last
    if last == a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_LAST]:
        entry += 1
        last = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST] - 1
    a[m + ENTRY], a[m + RECORD] = entry, last + 1
    # What is left may be silent and take no time: then nothing follows.
    a[slot + IS_LAST] = entry == a[slot + ENTRIES] or is_nothing(a, m, slot, entry, last + 1)
    if not a[slot + IS_LAST]:
        _send(a, m, SAYS_AND_WAITS, slot)
        return
    if is_silent(a, m, slot):
        free(a, slot)
    else:
        a[m + PENDING] = slot
    poll(a, m)
