"""Acquire records for a fetch, and find where the next one begins."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.layout import (
    ATTEMPTS,
    AVAILABLE,
    AVAILABLE_FROM,
    BASES_AT,
    BATCH,
    BATCH_LAST,
    BY_POLL,
    COUNT,
    E_ACCEPTED,
    E_COUNT,
    E_FIRST,
    E_LAST,
    E_PLACE,
    END,
    ENTRIES,
    ENTRY_SIZE,
    FIND,
    FIRST,
    FREE,
    FREE_SLOTS,
    IN_MEMORY,
    LOCKS,
    MAX_POLL,
    MEMBER_INDEX,
    NEXT_FREE,
    OF,
    READABLE,
    RECORD_LIMIT,
    S_AVAILABLE,
    SAYS_BY,
    SLOT,
    SLOT_HEAD,
    SPLIT,
    START,
    STATE,
    TAKEN,
    THROTTLED,
)
from sharelag.whatif.compiled.locks import acquire_offsets, batch_of, slot_of, split


@kernel
def next_fetch_offset(a: Any, p: Any) -> Any:
    """Where the next fetch begins; the search may find that nothing is to be redelivered."""
    if a[p + FIND] and a[p + AVAILABLE]:
        at = max(a[p + AVAILABLE_FROM], a[p + FIRST])
        while at <= a[p + END]:
            batch = batch_of(a, p, at)
            if a[batch + SPLIT]:
                if a[slot_of(a, p, at) + STATE] == S_AVAILABLE:
                    break
                at += 1
            elif a[batch + STATE] == S_AVAILABLE:
                at = a[batch + BATCH]
                break
            else:
                at = a[batch + BATCH_LAST] + 1
        a[p + AVAILABLE_FROM] = at
        if at <= a[p + END]:
            return at
    a[p + FIND], a[p + AVAILABLE_FROM] = 0, a[p + END] + 1
    return a[p + END] + a[p + IN_MEMORY]


@kernel
def span(a: Any, p: Any) -> Any:
    """Offsets from start to end, finished ones included."""
    return a[p + END] - a[p + START] + 1 if a[p + IN_MEMORY] else 0


@kernel
def can_fetch(a: Any, p: Any) -> bool:
    """Whether a fetch may go on: there is something to deliver again, or room for new records."""
    again = next_fetch_offset(a, p) != a[p + END] + 1
    return bool(again or span(a, p) < a[LOCKS])


@kernel
def batch_at(a: Any, p: Any, offset: Any, low: Any, high: Any) -> Any:
    """The last record batch of ``low..high`` that begins at or before an offset; else low - 1."""
    bases = a[p + BASES_AT]
    high += 1
    while low < high:
        middle = (low + high) >> 1
        if a[bases + middle] <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def _taken(a: Any, m: Any, p: Any, first: Any, last: Any, count: Any) -> None:
    """Note what a fetch acquired; the slot is there from the first time on."""
    if a[SLOT] < 0:
        a[SLOT] = a[FREE]
        a[FREE], a[FREE_SLOTS] = a[a[SLOT] + NEXT_FREE], a[FREE_SLOTS] - 1
        a[a[SLOT] + ENTRIES], a[a[SLOT] + OF] = 0, m
        a[a[SLOT] + SAYS_BY] = BY_POLL
    slot = a[SLOT]
    at = SLOT_HEAD + a[slot + ENTRIES] * ENTRY_SIZE
    a[slot + ENTRIES] += 1
    a[slot + at + E_PLACE], a[slot + at + E_FIRST], a[slot + at + E_LAST] = p, first, last
    a[slot + at + E_COUNT], a[slot + at + E_ACCEPTED] = count, 0
    a[TAKEN] += last - first + 1


@kernel
def _throttled(a: Any, p: Any, batch: Any, first: Any, last: Any) -> Any:
    """Whether anything is available (1), and failed too often to come with others (2)."""
    if not a[batch + SPLIT]:
        if a[batch + STATE] != S_AVAILABLE:
            return 0
        return 2 if a[batch + COUNT] >= a[THROTTLED] else 1
    found = 0
    for offset in range(max(first, a[batch + BATCH]), min(last, a[batch + BATCH_LAST]) + 1):
        at = slot_of(a, p, offset)
        if a[at + STATE] == S_AVAILABLE:
            if a[at + COUNT] >= a[THROTTLED]:
                return 2
            found = 1
    return found


@kernel
def _acquire_some(a: Any, m: Any, p: Any, batch: Any, first: Any, last: Any, limit: Any) -> None:
    """Acquire available offsets of a split batch; no limit is -1."""
    attempts, size = a[ATTEMPTS], a[batch + BATCH_LAST] - a[batch + BATCH] + 1
    begin, last = max(first, a[batch + BATCH]), min(last, a[batch + BATCH_LAST])
    ceiling, taken = -1, 0
    while begin <= last:
        at = slot_of(a, p, begin)
        if a[at + STATE] != S_AVAILABLE:
            begin += 1
            continue
        count, end = a[at + COUNT], begin
        while end < last:
            after = slot_of(a, p, end + 1)
            if a[after + STATE] != S_AVAILABLE or a[after + COUNT] != count:
                break
            end += 1
        is_last = attempts > 2 and count == attempts - 1
        if is_last and taken:
            break
        excess = count - a[THROTTLED]
        if excess >= 0 and ceiling < 0:
            ceiling = max(1, size >> min(excess + 1, 62))
        number, most = end - begin + 1, -1
        if is_last:
            most = 1
        for one in (limit, ceiling):
            if one > taken and (most < 0 or one - taken < most):
                most = one - taken
        if 0 <= most < number:
            number = most
        acquire_offsets(a, p, begin, begin + number - 1, count + 1, a[m + MEMBER_INDEX], True)
        a[p + AVAILABLE] -= number
        _taken(a, m, p, begin, begin + number - 1, count + 1)
        taken += number
        if number == most:
            break
        begin += number


@kernel
def _known(a: Any, m: Any, p: Any, batch: Any, first: Any, last: Any, room: Any, few: Any) -> None:
    """Acquire what is available of a batch in flight."""
    begin, end = a[batch + BATCH], a[batch + BATCH_LAST]
    limited = a[m + RECORD_LIMIT] and end - begin + 1 > room
    if a[batch + SPLIT] or begin < first or end > last or few or limited:
        split(a, p, batch)
        limit = room if a[m + RECORD_LIMIT] else -1
        _acquire_some(a, m, p, batch, first, last, limit)
        return
    acquire_offsets(a, p, begin, end, a[batch + COUNT] + 1, a[m + MEMBER_INDEX], False)
    a[p + AVAILABLE] -= end - begin + 1
    _taken(a, m, p, begin, end, a[batch + COUNT])


@kernel
def _put(a: Any, p: Any, first: Any, last: Any, is_split: Any) -> None:
    """Put a new batch in flight, after all others."""
    batch = slot_of(a, p, first)
    for offset in range(first, last + 1):
        a[slot_of(a, p, offset) + BATCH] = first
    a[batch + BATCH_LAST], a[batch + SPLIT] = last, is_split


@kernel
def _new(a: Any, m: Any, p: Any, first: Any, last: Any, room: Any, low: Any, high: Any) -> None:
    """Acquire new offsets, up to the end of a record batch of ``low..high``."""
    bases, member = a[p + BASES_AT], a[m + MEMBER_INDEX]
    if room < last - first + 1:
        aligned = first + room - 1
        at = batch_at(a, p, aligned, low, high)
        last = max(a[bases + at + 1] - 1, aligned) if at >= low else aligned
    if not a[p + IN_MEMORY]:
        a[p + IN_MEMORY], a[p + FIRST], a[p + START], a[p + END] = 1, first, first, last
    a[p + END] = max(a[p + END], last)
    if a[m + RECORD_LIMIT] and last - first + 1 > room:
        _put(a, p, first, last, 1)
        acquire_offsets(a, p, first, first + room - 1, 1, member, True)
        for offset in range(first + room, last + 1):
            at = slot_of(a, p, offset)
            a[at + STATE], a[at + COUNT] = S_AVAILABLE, 0
        a[p + AVAILABLE] += last - first - room + 1
        a[p + FIND], a[p + AVAILABLE_FROM] = 1, min(a[p + AVAILABLE_FROM], first + room)
        _taken(a, m, p, first, first + room - 1, 1)
        return
    size, begin = a[m + MAX_POLL], first
    if not a[m + RECORD_LIMIT] and last - first + 1 > size:
        for at in range(low, high + 1):
            base = a[bases + at]
            if base > last:
                break
            if base - begin >= size:
                _whole(a, m, p, begin, base - 1)
                begin = base
    _whole(a, m, p, begin, last)


@kernel
def _whole(a: Any, m: Any, p: Any, first: Any, last: Any) -> None:
    _put(a, p, first, last, 0)
    acquire_offsets(a, p, first, last, 1, a[m + MEMBER_INDEX], False)
    _taken(a, m, p, first, last, 1)


@kernel
def acquire(a: Any, m: Any, p: Any, offset: Any, room: Any, most: Any) -> None:
    """Acquire from the record batches that hold any of the offsets up to ``most``."""
    bases = a[p + BASES_AT]
    # What is fetched is near the end of the log more often than not.
    low = high = end = a[p + READABLE]
    while low > 0 and a[bases + low] > offset:
        low, high = max(2 * low - end - 1, 0), low
    low = max(batch_at(a, p, offset, low, high), 0)
    high = end - 1
    if a[bases + end] > most:
        high = batch_at(a, p, most, low, end)
    if room <= 0 or high < low or a[bases + high + 1] - 1 < a[p + START]:
        return
    base, last = a[bases + low], a[bases + high + 1] - 1
    wanted, room = room, min(room, a[LOCKS] - span(a, p))
    if room <= 0 and offset <= a[p + END]:
        room, last = min(wanted, a[p + END] - offset + 1), min(last, a[p + END])
    if room <= 0:
        return
    begin = base
    if not a[p + IN_MEMORY] or base < a[p + FIRST]:
        begin = max(base, a[p + START])
    if min(base, begin) > last:
        return
    at, taken = begin, a[TAKEN]
    if a[p + IN_MEMORY] and a[p + FIRST] <= last and begin <= a[p + END]:
        at = max(begin, a[p + FIRST])
        while at <= min(last, a[p + END]):
            if a[TAKEN] - taken >= room:
                return
            if not a[p + AVAILABLE]:
                at = a[p + END] + 1
                break
            batch = batch_of(a, p, at)
            found = _throttled(a, p, batch, base, last)
            at = a[batch + BATCH_LAST] + 1
            if found == 2 and a[TAKEN] > taken:
                return
            if found:
                before = a[TAKEN]
                _known(a, m, p, batch, base, last, room - a[TAKEN] + taken, found == 2)
                if found == 2 and a[TAKEN] > before:
                    return
    room -= a[TAKEN] - taken
    if room > 0 and at <= last:
        _new(a, m, p, at, last, room, low, high)
