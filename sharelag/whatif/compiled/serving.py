"""The broker's answers to fetches and acknowledgements, and when they come."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.acknowledging import acknowledge, are_held, release_all, rows_of, said
from sharelag.whatif.compiled.acquiring import acquire, can_fetch, next_fetch_offset
from sharelag.whatif.compiled.layout import (
    ACKNOWLEDGED_NOW,
    ACKNOWLEDGES,
    ANSWER_FROM,
    ANSWERED,
    APPEND_DUE,
    APPENDED,
    AT,
    BASES_AT,
    BATCHES,
    BEGINS_MS,
    CAUSE,
    CAUSE_NUMBER,
    CLOSES_SESSION,
    COMPLETE,
    COUNTED,
    DELIVERED,
    DRAINED_AT,
    DRAINS,
    E_ACCEPTED,
    E_COUNT,
    E_FIRST,
    E_LAST,
    E_PLACE,
    END,
    ENTRIES,
    ENTRY_SIZE,
    EXPIRY_DUE,
    FETCH,
    FETCH_DONE,
    FETCH_NUMBER,
    FETCHED,
    FETCHED_AT,
    FREE,
    FREE_SLOTS,
    GIVE_UP_AT,
    GIVE_UP_DUE,
    GIVE_UP_NUMBER,
    GIVES_UP,
    HEAD,
    IN_MEMORY,
    INDEX,
    IS_LAST,
    LOCKED_UNTIL,
    LOCKS_END,
    MAX_POLL,
    MEMBER_INDEX,
    NETWORK,
    NEXT_FREE,
    NODES_AT,
    NOW,
    NUMBER,
    OF,
    PLACE,
    PLACES,
    PLACES_AT,
    READABLE,
    READY_AT,
    RECORDS_A_FETCH,
    REDELIVERED,
    REFUSED,
    SAYS_PLACE,
    SAYS_RECORD,
    SLOT,
    SLOT_HEAD,
    START,
    STEP,
    TAIL,
    TAKEN,
    TIMES_AT,
    UNLOCK_DUE,
    UNLOCKED,
    WAIT,
    WRITE,
)
from sharelag.whatif.compiled.queue import insert, push
from sharelag.whatif.compiled.states import counts_of, expire, next_end, see_time


@kernel
def log_end(a: Any, p: Any) -> Any:
    """The end offset now."""
    at, times = a[p + AT], a[p + TIMES_AT]
    while at < a[p + BATCHES] and a[times + at] <= a[NOW]:
        at += 1
    a[p + AT] = at
    return a[a[p + BASES_AT] + at]


@kernel
def fetch_end(a: Any, p: Any) -> Any:
    """Up to where fetches read."""
    end = log_end(a, p)
    a[p + READABLE] = a[p + AT]
    return end


@kernel
def note_drained(a: Any, p: Any) -> None:
    """Note the time if nothing is left to finish, neither there nor elsewhere."""
    if log_end(a, p) - a[p + START] - a[p + COMPLETE] > 0:
        return
    for number in range(a[PLACES]):
        other = a[PLACES_AT] + number * PLACE
        if log_end(a, other) - a[other + START] - a[other + COMPLETE] > 0:
            return
    last = a[DRAINED_AT] + a[DRAINS] - 1
    if not a[DRAINS] or a[last] // a[STEP] < a[NOW] // a[STEP]:
        a[last + 1] = a[NOW]
        a[DRAINS] += 1


# ---- fetches that wait: a list for each place, in the order of their coming ----


@kernel
def _node(a: Any, m: Any, p: Any) -> Any:
    return a[NODES_AT] + (a[m + MEMBER_INDEX] * a[PLACES] + a[p + INDEX]) * 3


@kernel
def _wait(a: Any, m: Any, p: Any) -> None:
    node = _node(a, m, p)
    if a[node]:
        return
    a[node], a[node + 1], a[node + 2] = 1, a[p + TAIL], 0
    if a[p + TAIL]:
        a[_node(a, a[p + TAIL], p) + 2] = m
    else:
        a[p + HEAD] = m
    a[p + TAIL] = m


@kernel
def forget(a: Any, m: Any) -> None:
    """A fetch waits no more."""
    a[m + FETCH_DONE] = 1
    for number in range(a[m + FETCHED]):
        p = a[a[m + FETCHED_AT] + number]
        node = _node(a, m, p)
        if not a[node]:
            continue
        before, after = a[node + 1], a[node + 2]
        a[node] = 0
        if before:
            a[_node(a, before, p) + 2] = after
        else:
            a[p + HEAD] = after
        if after:
            a[_node(a, after, p) + 1] = before
        else:
            a[p + TAIL] = before


# ---- fetches ----


@kernel
def _offset_ready(a: Any, p: Any) -> Any:
    """Where a fetch of a place can begin now; -1: it is locked, full, or empty."""
    if a[p + LOCKED_UNTIL] > a[NOW]:
        return -1
    expire(a, p)
    offset = next_fetch_offset(a, p)
    return offset if can_fetch(a, p) and offset < fetch_end(a, p) else -1


@kernel
def _watch_locks(a: Any, p: Any) -> None:
    ends = next_end(a, p)
    if ends >= 0 and a[p + EXPIRY_DUE] < 0:
        a[p + EXPIRY_DUE] = (ends - a[BEGINS_MS]) * 1000
        push(a, a[p + EXPIRY_DUE], LOCKS_END, a[p + INDEX], 0)


@kernel
def _acquire(a: Any, m: Any, p: Any, offset: Any, room: Any, sharing: Any) -> None:
    entry = a[a[SLOT] + ENTRIES] if a[SLOT] >= 0 else 0
    last = min(
        max(a[p + END] + a[p + IN_MEMORY], offset) + room, offset + a[RECORDS_A_FETCH] // sharing
    )
    see_time(a, p)
    acquire(a, m, p, offset, room, last)
    _watch_locks(a, p)
    if a[SLOT] < 0:
        return
    counts = counts_of(a, a[p + INDEX], a[m + MEMBER_INDEX])
    for one in range(entry, a[a[SLOT] + ENTRIES]):
        at = SLOT_HEAD + one * ENTRY_SIZE
        size = a[a[SLOT] + at + E_LAST] - a[a[SLOT] + at + E_FIRST] + 1
        a[counts + DELIVERED] += size
        a[counts + COUNTED] = 1
        if a[a[SLOT] + at + E_COUNT] > 1:
            a[counts + REDELIVERED] += size


@kernel
def _try(a: Any, m: Any, last_chance: bool) -> bool:
    ready, count = a[READY_AT], 0
    for number in range(a[m + FETCHED]):
        p = a[a[m + FETCHED_AT] + number]
        offset = _offset_ready(a, p)
        if offset >= 0:
            a[ready + 2 * count], a[ready + 2 * count + 1] = p, offset
            count += 1
    if not count and not last_chance:
        return False
    forget(a, m)
    a[SLOT], a[TAKEN] = -1, 0
    for one in range(count):
        p = a[ready + 2 * one]
        a[p + LOCKED_UNTIL] = a[NOW] + a[FETCH]
        if a[m + MAX_POLL] > a[TAKEN]:
            _acquire(a, m, p, a[ready + 2 * one + 1], a[m + MAX_POLL] - a[TAKEN], count)
    at = a[NOW] + (a[FETCH] if a[SLOT] >= 0 else 0)
    push(a, max(at, a[m + ANSWER_FROM]) + a[NETWORK], ANSWERED, m, a[SLOT])
    for one in range(count):
        p = a[ready + 2 * one]
        if a[p + HEAD]:
            _await(a, p)
    return True


@kernel
def _await(a: Any, p: Any) -> None:
    """Try again when it is unlocked or when records come; all else wakes it by itself."""
    if a[p + LOCKED_UNTIL] > a[NOW]:
        if not a[p + UNLOCK_DUE]:
            a[p + UNLOCK_DUE] = 1
            push(a, a[p + LOCKED_UNTIL], UNLOCKED, a[p + INDEX], 0)
    elif not a[p + APPEND_DUE] and can_fetch(a, p) and a[p + READABLE] < a[p + BATCHES]:
        a[p + APPEND_DUE] = 1
        push(a, a[a[p + TIMES_AT] + a[p + READABLE]], APPENDED, a[p + INDEX], 0)


@kernel
def _wake(a: Any, p: Any) -> None:
    """Let the fetches that wait for a place have it, the first comer first."""
    note_drained(a, p)
    while a[p + HEAD] and _offset_ready(a, p) >= 0:
        _try(a, a[p + HEAD], False)
    if a[p + HEAD]:
        _await(a, p)


@kernel
def _written(a: Any, p: Any, start: Any) -> None:
    """Wake fetches for a moved start offset only; released records wait for the next fetch."""
    if a[p + START] > start:
        _wake(a, p)
    else:
        note_drained(a, p)


# ---- events ----


@kernel
def gives_up(a: Any, m: Any, number: Any) -> None:
    """A fetch has waited for long enough, or one that was answered would have."""
    a[m + GIVE_UP_DUE] = 0
    if a[m + FETCH_DONE]:
        return
    if a[m + FETCH_NUMBER] == number:
        _try(a, m, True)
    else:
        _will_give_up(a, m)


@kernel
def appended(a: Any, p: Any) -> None:
    """Records have come that a fetch waited for."""
    a[p + APPEND_DUE] = 0
    fetch_end(a, p)
    _wake(a, p)


@kernel
def unlocked(a: Any, p: Any) -> None:
    """The fetch that locked a place is over."""
    a[p + UNLOCK_DUE] = 0
    _wake(a, p)


@kernel
def locks_end(a: Any, p: Any) -> None:
    """A lock may have run out."""
    given = expire(a, p)
    a[p + EXPIRY_DUE] = -1
    _watch_locks(a, p)
    if given:
        _wake(a, p)


@kernel
def free(a: Any, slot: Any) -> None:
    """A slot is needed no more."""
    a[slot + NEXT_FREE] = a[FREE]
    a[FREE] = slot
    a[FREE_SLOTS] += 1


@kernel
def _refuse(a: Any, p: Any, member: Any) -> None:
    counts = counts_of(a, a[p + INDEX], member)
    a[counts + REFUSED] += said(a)
    a[counts + COUNTED] = 1


@kernel
def _place_of(a: Any, slot: Any, entry: Any) -> Any:
    if a[slot + SAYS_RECORD]:
        return a[slot + SAYS_PLACE]
    return a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE]


@kernel
def check(a: Any, m: Any, slot: Any) -> Any:
    """Take acknowledgements that are to be written; from when on there is an answer."""
    if slot < 0:
        return 0
    entry, some = 0, False
    while entry < a[slot + ENTRIES]:
        p = _place_of(a, slot, entry)
        expire(a, p)
        after = rows_of(a, slot, entry)
        see_time(a, p)
        held = are_held(a, p, a[m + MEMBER_INDEX], False)
        a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_ACCEPTED] = held
        if held:
            some = True
        else:
            _refuse(a, p, a[m + MEMBER_INDEX])
        entry = after
    if not some:
        if a[slot + IS_LAST]:
            free(a, slot)
        return 0
    push(a, a[NOW] + a[WRITE], ACKNOWLEDGED_NOW, slot, 0)
    entry = 0
    while entry < a[slot + ENTRIES]:
        p, taken = (
            _place_of(a, slot, entry),
            a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_ACCEPTED],
        )
        entry = _next_place(a, slot, entry)
        if taken:
            _wake(a, p)
    return a[NOW] + a[WRITE]


@kernel
def _next_place(a: Any, slot: Any, entry: Any) -> Any:
    if a[slot + SAYS_RECORD]:
        return a[slot + ENTRIES]
    p = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE]
    while entry < a[slot + ENTRIES]:
        if a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE] != p:
            break
        entry += 1
    return entry


@kernel
def fetches(a: Any, m: Any, answer_from: Any) -> None:
    """Take the places of a fetch; it waits when there is nothing."""
    a[m + ANSWER_FROM] = answer_from
    a[m + FETCH_NUMBER] += 1
    a[m + FETCH_DONE] = 0
    if _try(a, m, False):
        return
    for number in range(a[m + FETCHED]):
        p = a[a[m + FETCHED_AT] + number]
        _wait(a, m, p)
        _await(a, p)
    a[NUMBER] += 1
    a[m + GIVE_UP_AT], a[m + GIVE_UP_NUMBER] = a[NOW] + a[m + WAIT], a[NUMBER]
    if not a[m + GIVE_UP_DUE]:
        _will_give_up(a, m)


@kernel
def _will_give_up(a: Any, m: Any) -> None:
    """Only one of these is among the events for each member: most fetches are answered before."""
    a[m + GIVE_UP_DUE] = 1
    at, number = a[m + GIVE_UP_AT], a[m + GIVE_UP_NUMBER]
    insert(a, at, number, GIVES_UP, m, a[m + FETCH_NUMBER])


@kernel
def acknowledged(a: Any, slot: Any) -> None:
    """The share coordinator has accepted a write."""
    entry = 0
    member = a[a[slot + OF] + MEMBER_INDEX]
    while entry < a[slot + ENTRIES]:
        p, taken = (
            _place_of(a, slot, entry),
            a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_ACCEPTED],
        )
        if taken:
            if expire(a, p):
                _wake(a, p)
            start = a[p + START]
            a[CAUSE], a[CAUSE_NUMBER] = ACKNOWLEDGES, member
            rows_of(a, slot, entry)
            see_time(a, p)
            if not acknowledge(a, p, member):
                _refuse(a, p, member)
            _written(a, p, start)
        entry = _next_place(a, slot, entry)
    if a[slot + IS_LAST]:
        free(a, slot)


@kernel
def closes(a: Any, m: Any) -> None:
    """End the share session of a member: release what it holds, forget what it waits for."""
    for number in range(a[PLACES]):
        p = a[PLACES_AT] + number * PLACE
        if a[_node(a, m, p)]:
            forget(a, m)
        expire(a, p)
        _wake(a, p)
        start = a[p + START]
        a[CAUSE], a[CAUSE_NUMBER] = CLOSES_SESSION, a[m + MEMBER_INDEX]
        see_time(a, p)
        release_all(a, p, a[m + MEMBER_INDEX])
        _written(a, p, start)
