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
    SAYS_PLACE,
    SAYS_RECORD,
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
            wake(a, p)
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
