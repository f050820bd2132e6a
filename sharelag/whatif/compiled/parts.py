"""The parts of what a member works on: up to the next poll, a record, or an error."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import part
from sharelag.whatif.compiled.acknowledging import (
    is_gap,
    poison_at,
    rows_one_by_one,
    rows_together,
    type_at,
    type_of,
)
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.requests import free_ask, new_ask, refuse


@part
def work_in(a: Any, m: Any, p: Any, first: Any, last: Any) -> Any:
    """Microseconds that records take together."""
    total = 0
    if a[m + IS_FIXED]:
        return a[a[m + WORK_AT] + a[p + INDEX]] * (last - first + 1)
    chunks = a[m + WORK_AT] + a[PLACES] + a[p + CHUNK_AT] - a[p + FIRST_CHUNK]
    for offset in range(first, last + 1):
        total += a[a[chunks + offset // CHUNK] + offset % CHUNK]
    return total


@part
def until(a: Any, m: Any, slot: Any, is_part: Any) -> Any:
    """Work from the record at hand to the end of a part, or of all; notes where that is."""
    entry, offset, total = a[m + ENTRY], a[m + RECORD], 0
    commit = a[m + COMMIT] if is_part else BY_POLL
    a[m + CRASHES] = 0
    if a[slot + HOLDS]:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        a[m + PART_ENTRY], a[m + PART_LAST] = entry, offset
        return a[poison_at(a, a[at + E_PLACE], a[at + E_COUNT], offset) + P_HOLD]
    while entry < a[slot + ENTRIES]:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p, count, last = a[at + E_PLACE], a[at + E_COUNT], a[at + E_LAST]
        a[m + PART_ENTRY], a[m + PART_LAST] = entry, last
        if commit == BY_POLL and not a[p + POISONS] and not a[p + MISSING]:
            total += work_in(a, m, p, offset, last)
            offset = last + 1
        while offset <= last:
            if not (a[p + MISSING] and is_gap(a, p, offset, a[slot + COMPACTED])):
                total += work_in(a, m, p, offset, offset)
                type_ = type_of(a, m, p, count, offset)
                if (
                    commit == BY_RECORD
                    or type_ == CRASH
                    or (commit == BY_ERROR and type_ not in (ACCEPT, HOLD, SILENT))
                ):
                    a[m + PART_LAST], a[m + CRASHES] = offset, type_ == CRASH
                    return total
            offset += 1
        entry += 1
        if entry < a[slot + ENTRIES]:
            offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
    return total


@part
def may_crash(a: Any, slot: Any) -> bool:
    """Whether a record lets the process crash in this delivery."""
    for entry in range(a[slot + ENTRIES]):
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p = a[at + E_PLACE]
        for one in range(a[p + POISONS]):
            poison = a[p + POISONS_AT] + one * POISON
            within = a[at + E_FIRST] <= a[poison + P_OFFSET] <= a[at + E_LAST]
            if a[poison + P_TYPE] == CRASH and within and a[at + E_COUNT] <= a[poison + P_ATTEMPTS]:
                return True
    return False


@part
def is_nothing(a: Any, m: Any, slot: Any, entry: Any, offset: Any) -> bool:
    """Whether all offsets from one on are silent records that take no time."""
    while entry < a[slot + ENTRIES]:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p = a[at + E_PLACE]
        while offset <= a[at + E_LAST]:
            if type_at(a, m, slot, p, a[at + E_COUNT], offset) != SILENT:
                return False
            if work_in(a, m, p, offset, offset):
                return False
            offset += 1
        entry += 1
        if entry < a[slot + ENTRIES]:
            offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
    return True


@part
def ask_of(a: Any, m: Any, slot: Any, broker: Any) -> Any:
    """The request that acknowledges a part, as far as a broker leads; -1: it says nothing.

    The part is that of the member's ``SAYS``. Counts in ``FOUND`` the places that the part is about
    and the broker leads; of those with another leader than the one that delivered, the client fails
    all already.
    """
    ask, entry, offset = new_ask(a, m), a[m + SAYS_ENTRY], a[m + SAYS_OFFSET]
    a[FOUND] = 0
    while entry <= a[m + SAYS_TO_ENTRY]:
        begin, at = a[ask + A_ROWS], slot + SLOT_HEAD + entry * ENTRY_SIZE
        p, epoch = a[at + E_PLACE], a[at + E_EPOCH]
        if a[slot + ONE_BY_ONE]:
            to_entry, to = a[m + SAYS_TO_ENTRY], a[m + SAYS_TO]
            entry = rows_one_by_one(a, m, slot, ask, entry, offset, to_entry, to)
            offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
        else:
            entry = rows_together(a, m, slot, ask, entry)
        _keep(a, ask, p, epoch, begin, broker)
    return _some(a, ask)


@part
def _keep(a: Any, ask: Any, p: Any, epoch: Any, begin: Any, broker: Any) -> None:
    """Keep new rows about a place if a broker leads it that has delivered its records."""
    if a[ask + A_ROWS] == begin:
        return
    if broker >= 0 and a[p + LEADER] != broker:
        a[ask + A_ROWS] = begin
        return
    a[FOUND] += 1
    if a[p + LEADER_EPOCH] != epoch:
        refuse(a, ask, begin, a[ask + A_ROWS])
        a[ask + A_ROWS] = begin


@part
def _some(a: Any, ask: Any) -> Any:
    if a[ask + A_ROWS]:
        return ask
    free_ask(a, ask)
    return -1


@part
def renewal_of(a: Any, m: Any, slot: Any, broker: Any) -> Any:
    """The request that renews the locks of all that is still to be acknowledged, as `ask_of`."""
    entry, record = a[m + ENTRY], a[m + RECORD]
    part_entry, part_last, crashes = a[m + PART_ENTRY], a[m + PART_LAST], a[m + CRASHES]
    ask, is_over = new_ask(a, m), False
    a[FOUND] = 0
    begin, p, epoch = 0, 0, 0
    while not is_over and a[m + ENTRY] < a[slot + ENTRIES]:
        until(a, m, slot, True)
        is_over = a[m + CRASHES] == 1
        one, offset = a[m + ENTRY], a[m + RECORD]
        while one <= a[m + PART_ENTRY]:
            at = slot + SLOT_HEAD + one * ENTRY_SIZE
            if a[at + E_PLACE] != p:
                if p:
                    _keep(a, ask, p, epoch, begin, broker)
                begin, p, epoch = a[ask + A_ROWS], a[at + E_PLACE], a[at + E_EPOCH]
            if a[slot + ONE_BY_ONE]:
                to_entry, to = a[m + PART_ENTRY], a[m + PART_LAST]
                one = rows_one_by_one(a, m, slot, ask, one, offset, to_entry, to)
                offset = a[slot + SLOT_HEAD + one * ENTRY_SIZE + E_FIRST]
            else:
                one = rows_together(a, m, slot, ask, one)
            for row in range(begin, a[ask + A_ROWS]):
                a[ask + ASK_HEAD + row * ROW + R_TYPE] = RENEWAL
        after_part(a, m, slot)
    if p:
        _keep(a, ask, p, epoch, begin, broker)
    a[m + ENTRY], a[m + RECORD] = entry, record
    a[m + PART_ENTRY], a[m + PART_LAST], a[m + CRASHES] = part_entry, part_last, crashes
    return _some(a, ask)


@part
def after_part(a: Any, m: Any, slot: Any) -> None:
    """Let a member begin what follows a part; after a record that it held, the next such one."""
    entry, last = a[m + PART_ENTRY], a[m + PART_LAST]
    if last == a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_LAST]:
        entry += 1
        last = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST] - 1
    a[m + ENTRY], a[m + RECORD] = entry, last + 1
    if a[slot + HOLDS]:
        to_held(a, m, slot)


@part
def to_held(a: Any, m: Any, slot: Any) -> bool:
    """Move a member to the next record that it has to hold; whether there is any."""
    entry, offset = a[m + ENTRY], a[m + RECORD]
    while entry < a[slot + ENTRIES]:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p = a[at + E_PLACE]
        while a[p + POISONS] and offset <= a[at + E_LAST]:
            poison = poison_at(a, p, a[at + E_COUNT], offset)
            is_there = not (a[p + MISSING] and is_gap(a, p, offset, a[slot + COMPACTED]))
            if poison and a[poison + P_TYPE] == HOLD and is_there:
                a[m + ENTRY], a[m + RECORD] = entry, offset
                return True
            offset += 1
        entry += 1
        offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
    a[m + ENTRY] = entry
    return False
