"""Acknowledgements, as they arrive and when they are written; the ends of share sessions."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.acknowledging import (
    acknowledge,
    are_held,
    records_in,
    release_all,
    rows_of,
)
from sharelag.whatif.compiled.layout import (
    ACKNOWLEDGED_NOW,
    ACKNOWLEDGES,
    BY_ERROR,
    BY_RECORD,
    CAUSE,
    CAUSE_NUMBER,
    CLOSES_SESSION,
    COUNTED,
    E_ACCEPTED,
    E_PLACE,
    ENTRIES,
    ENTRY_SIZE,
    FREE,
    FREE_SLOTS,
    INDEX,
    IS_LAST,
    MEMBER_INDEX,
    NEXT_FREE,
    NOW,
    OF,
    PLACE,
    PLACES,
    PLACES_AT,
    REFUSED,
    ROWS,
    SAYS_BY,
    SAYS_ENTRY,
    SAYS_PLACE,
    SAYS_TO_ENTRY,
    SLOT_HEAD,
    START,
    WRITE,
)
from sharelag.whatif.compiled.queue import push
from sharelag.whatif.compiled.serving import after_write, wake
from sharelag.whatif.compiled.states import counts_of, expire, see_time
from sharelag.whatif.compiled.waiting import forget, node_of


@kernel
def free(a: Any, slot: Any) -> None:
    """A slot is needed no more."""
    a[slot + NEXT_FREE] = a[FREE]
    a[FREE] = slot
    a[FREE_SLOTS] += 1


@kernel
def _refuse(a: Any, p: Any, member: Any) -> None:
    counts = counts_of(a, a[p + INDEX], member)
    a[counts + REFUSED] += records_in(a)
    a[counts + COUNTED] = 1


@kernel
def _place_of(a: Any, slot: Any, entry: Any) -> Any:
    if a[slot + SAYS_BY] == BY_RECORD:
        return a[slot + SAYS_PLACE]
    return a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE]


@kernel
def _first(a: Any, slot: Any) -> Any:
    """The first entry that a slot says anything of."""
    return a[slot + SAYS_ENTRY] if a[slot + SAYS_BY] == BY_ERROR else 0


@kernel
def _end(a: Any, slot: Any) -> Any:
    """After the last entry that a slot says anything of."""
    return a[slot + SAYS_TO_ENTRY] + 1 if a[slot + SAYS_BY] == BY_ERROR else a[slot + ENTRIES]


@kernel
def check(a: Any, m: Any, slot: Any) -> Any:
    """Take acknowledgements that are to be written; from when on there is an answer."""
    if slot < 0:
        return 0
    entry, end, some = _first(a, slot), _end(a, slot), False
    while entry < end:
        p = _place_of(a, slot, entry)
        after = rows_of(a, slot, entry)
        a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_ACCEPTED] = 0
        if not a[ROWS] and a[slot + SAYS_BY] == BY_ERROR:
            entry = after  # nothing is said of this place
            continue
        expire(a, p)
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
    entry = _first(a, slot)
    while entry < end:
        p, taken = (
            _place_of(a, slot, entry),
            a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_ACCEPTED],
        )
        entry = _next_place(a, slot, entry)
        if taken:
            wake(a, p)
    return a[NOW] + a[WRITE]


@kernel
def _next_place(a: Any, slot: Any, entry: Any) -> Any:
    if a[slot + SAYS_BY] == BY_RECORD:
        return a[slot + ENTRIES]
    p, end = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE], _end(a, slot)
    while entry < end:
        if a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE] != p:
            break
        entry += 1
    return entry


@kernel
def acknowledged(a: Any, slot: Any) -> None:
    """The share coordinator has accepted a write."""
    entry, end = _first(a, slot), _end(a, slot)
    member = a[a[slot + OF] + MEMBER_INDEX]
    while entry < end:
        p, taken = (
            _place_of(a, slot, entry),
            a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_ACCEPTED],
        )
        if taken:
            if expire(a, p):
                wake(a, p)
            start = a[p + START]
            a[CAUSE], a[CAUSE_NUMBER] = ACKNOWLEDGES, member
            rows_of(a, slot, entry)
            see_time(a, p)
            if not acknowledge(a, p, member):
                _refuse(a, p, member)
            after_write(a, p, start)
        entry = _next_place(a, slot, entry)
    if a[slot + IS_LAST]:
        free(a, slot)


@kernel
def closes(a: Any, m: Any) -> None:
    """End the share session of a member: release what it holds, forget what it waits for."""
    for number in range(a[PLACES]):
        p = a[PLACES_AT] + number * PLACE
        if a[node_of(a, m, p)]:
            forget(a, m)
        expire(a, p)
        wake(a, p)
        start = a[p + START]
        a[CAUSE], a[CAUSE_NUMBER] = CLOSES_SESSION, a[m + MEMBER_INDEX]
        see_time(a, p)
        release_all(a, p, a[m + MEMBER_INDEX])
        after_write(a, p, start)
