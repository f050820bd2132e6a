"""The parts of what a member works on: up to the next poll, a record, or an error."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.acknowledging import type_of
from sharelag.whatif.compiled.layout import (
    ACCEPT,
    BY_ERROR,
    CHUNK,
    CHUNK_AT,
    COMMIT,
    CRASH,
    CRASHES,
    E_COUNT,
    E_FIRST,
    E_LAST,
    E_PLACE,
    ENTRIES,
    ENTRY,
    ENTRY_SIZE,
    FIRST_CHUNK,
    INDEX,
    IS_FIXED,
    PART_ENTRY,
    PART_LAST,
    PLACES,
    POISONS,
    RECORD,
    SAYS_ENTRY,
    SAYS_OFFSET,
    SAYS_TO,
    SAYS_TO_ENTRY,
    SILENT,
    SLOT_HEAD,
    WORK_AT,
)


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
def until(a: Any, m: Any, slot: Any, is_part: Any) -> Any:
    """Work from the record at hand to the end of a part, or of all; notes where that is."""
    entry, offset, total = a[m + ENTRY], a[m + RECORD], 0
    a[m + CRASHES] = 0
    stops = is_part and a[m + COMMIT] == BY_ERROR
    while entry < a[slot + ENTRIES]:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p, count, last = a[at + E_PLACE], a[at + E_COUNT], a[at + E_LAST]
        a[m + PART_ENTRY], a[m + PART_LAST] = entry, last
        if not stops and not a[p + POISONS]:
            total += work_in(a, m, p, offset, last)
            offset = last + 1
        while offset <= last:
            total += work_in(a, m, p, offset, offset)
            type_ = type_of(a, m, p, count, offset)
            if type_ == CRASH or (stops and type_ != ACCEPT and type_ != SILENT):
                a[m + PART_LAST], a[m + CRASHES] = offset, type_ == CRASH
                return total
            offset += 1
        entry += 1
        if entry < a[slot + ENTRIES]:
            offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
    return total


@kernel
def is_nothing(a: Any, m: Any, slot: Any, entry: Any, offset: Any) -> bool:
    """Whether all records from one on are silent and take no time."""
    while entry < a[slot + ENTRIES]:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p = a[at + E_PLACE]
        while offset <= a[at + E_LAST]:
            if type_of(a, m, p, a[at + E_COUNT], offset) != SILENT:
                return False
            if work_in(a, m, p, offset, offset):
                return False
            offset += 1
        entry += 1
        if entry < a[slot + ENTRIES]:
            offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
    return True


@kernel
def is_silent(a: Any, m: Any, slot: Any) -> bool:
    """Whether nothing is said of the records of a part."""
    for entry in range(a[slot + SAYS_ENTRY], a[slot + SAYS_TO_ENTRY] + 1):
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        first = a[slot + SAYS_OFFSET] if entry == a[slot + SAYS_ENTRY] else a[at + E_FIRST]
        last = a[slot + SAYS_TO] if entry == a[slot + SAYS_TO_ENTRY] else a[at + E_LAST]
        for offset in range(first, last + 1):
            if type_of(a, m, a[at + E_PLACE], a[at + E_COUNT], offset) != SILENT:
                return False
    return True
