"""What members acknowledge: the rows of a request, and what they change."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled.layout import (
    ACCEPT,
    ACCEPTS_ALL,
    BATCH,
    BATCH_LAST,
    BELOW_ACCEPT,
    BELOW_REJECT,
    BELOW_RELEASE,
    BY_ERROR,
    BY_RECORD,
    CHANCES_AT,
    CHUNK,
    CHUNK_AT,
    CHUNKS,
    COUNT,
    E_COUNT,
    E_FIRST,
    E_LAST,
    E_PLACE,
    END,
    ENTRIES,
    ENTRY_SIZE,
    FIRST_CHUNK,
    IN_MEMORY,
    OF,
    OWNER,
    P_ATTEMPTS,
    P_OFFSET,
    P_TYPE,
    POISON,
    POISONS,
    POISONS_AT,
    R_FIRST,
    R_LAST,
    R_TYPE,
    R_TYPES,
    REJECT,
    RELEASE,
    ROW,
    ROWS,
    ROWS_AT,
    S_ACKNOWLEDGED,
    S_ACQUIRED,
    S_ARCHIVED,
    SAYS_BY,
    SAYS_ENTRY,
    SAYS_OFFSET,
    SAYS_TO,
    SAYS_TO_ENTRY,
    SAYS_TYPE,
    SILENT,
    SLOT_HEAD,
    SPLIT,
    START,
    STATE,
    TYPES_AT,
)
from sharelag.whatif.compiled.locks import batch_of, slot_of, split
from sharelag.whatif.compiled.states import change, finish, given_back

#: A run of one type that is longer is acknowledged apart from its neighbours.
_SAME_TYPE = 10


@kernel
def _poison_of(a: Any, p: Any, attempt: Any, offset: Any) -> Any:
    """How a record goes wrong in its so many-th delivery; 0: it does not."""
    low, high = 0, a[p + POISONS]
    while low < high:
        middle = (low + high) >> 1
        if a[a[p + POISONS_AT] + middle * POISON + P_OFFSET] < offset:
            low = middle + 1
        else:
            high = middle
    at = a[p + POISONS_AT] + low * POISON
    if low == a[p + POISONS] or a[at + P_OFFSET] != offset or attempt > a[at + P_ATTEMPTS]:
        return 0
    return a[at + P_TYPE]


@kernel
def type_of(a: Any, m: Any, p: Any, attempt: Any, offset: Any) -> Any:
    """What a member says of a record in its so many-th delivery."""
    if a[p + POISONS]:
        poison = _poison_of(a, p, attempt, offset)
        if poison:
            return poison
    if a[m + ACCEPTS_ALL]:
        return ACCEPT
    chunk = a[p + CHUNK_AT] + offset // CHUNK - a[p + FIRST_CHUNK]
    drawn = a[a[a[CHANCES_AT] + (attempt - 1) * a[CHUNKS] + chunk] + offset % CHUNK]
    if drawn < a[m + BELOW_ACCEPT]:
        return ACCEPT
    if drawn < a[m + BELOW_RELEASE]:
        return RELEASE
    return REJECT if drawn < a[m + BELOW_REJECT] else SILENT


@kernel
def _row(a: Any, first: Any, last: Any, type_: Any, types: Any) -> None:
    at = a[ROWS_AT] + a[ROWS] * ROW
    a[ROWS] += 1
    a[at + R_FIRST], a[at + R_LAST], a[at + R_TYPE], a[at + R_TYPES] = first, last, type_, types


@kernel
def _of_neighbours(a: Any, first: Any, begin: Any, end: Any) -> None:
    """Rows without silent records: long runs of one type, the rest one by one."""
    types, at = a[TYPES_AT], begin
    mixed, groups = begin, 0  # where what is one by one begins, and how many types follow
    while at < end:
        one, after = a[types + at], at + 1
        while after < end and a[types + after] == one:
            after += 1
        if one == SILENT or after - at > _SAME_TYPE:
            if at > mixed:
                type_ = a[types + mixed] if groups == 1 else -1
                _row(a, first + mixed - begin, first + at - begin - 1, type_, types + mixed)
            if one != SILENT:
                _row(a, first + at - begin, first + after - begin - 1, one, 0)
            mixed, groups = after, 0
        else:
            groups += 1
        at = after
    if end > mixed:
        type_ = a[types + mixed] if groups == 1 else -1
        _row(a, first + mixed - begin, first + end - begin - 1, type_, types + mixed)


@kernel
def _rows_until_error(a: Any, slot: Any, entry: Any) -> Any:
    """Rows of one place up to an error: neighbours of one type together, silent ones left out."""
    m, p = a[slot + OF], a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE]
    while entry <= a[slot + SAYS_TO_ENTRY]:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        if a[at + E_PLACE] != p:
            break
        first = a[slot + SAYS_OFFSET] if entry == a[slot + SAYS_ENTRY] else a[at + E_FIRST]
        last = a[slot + SAYS_TO] if entry == a[slot + SAYS_TO_ENTRY] else a[at + E_LAST]
        for offset in range(first, last + 1):
            type_ = type_of(a, m, p, a[at + E_COUNT], offset)
            before = a[ROWS_AT] + (a[ROWS] - 1) * ROW
            if type_ == SILENT:
                continue
            if a[ROWS] and a[before + R_LAST] == offset - 1 and a[before + R_TYPE] == type_:
                a[before + R_LAST] = offset
            else:
                _row(a, offset, offset, type_, 0)
        entry += 1
    return entry


@kernel
def rows_of(a: Any, slot: Any, entry: Any) -> Any:
    """Fill in the rows of one place, from an entry on; where the next place begins."""
    a[ROWS] = 0
    m, count = a[slot + OF], a[slot + ENTRIES]
    if a[slot + SAYS_BY] == BY_RECORD:
        offset = a[slot + SAYS_OFFSET]
        _row(a, offset, offset, a[slot + SAYS_TYPE], 0)
        return count
    if a[slot + SAYS_BY] == BY_ERROR:
        return _rows_until_error(a, slot, entry)
    p, filled = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE], 0
    while entry < count and a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE] == p:
        first, begin = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST], filled
        last, is_plain = first - 1, a[m + ACCEPTS_ALL]
        is_typed = not is_plain or a[p + POISONS] > 0
        while entry < count:
            at = SLOT_HEAD + entry * ENTRY_SIZE
            if a[slot + at + E_PLACE] != p or a[slot + at + E_FIRST] != last + 1:
                break
            last = a[slot + at + E_LAST]
            if is_typed:
                for offset in range(a[slot + at + E_FIRST], last + 1):
                    one = type_of(a, m, p, a[slot + at + E_COUNT], offset)
                    a[a[TYPES_AT] + filled] = one
                    filled += 1
                    if one != ACCEPT:
                        is_plain = 0
            entry += 1
        if is_plain:
            _row(a, first, last, ACCEPT, 0)
        else:
            _of_neighbours(a, first, begin, filled)
    return entry


@kernel
def records_in(a: Any) -> Any:
    """How many records the rows are about."""
    total = 0
    for row in range(a[ROWS]):
        at = a[ROWS_AT] + row * ROW
        total += a[at + R_LAST] - a[at + R_FIRST] + 1
    return total


@kernel
def are_held(a: Any, p: Any, member: Any, splits: Any) -> bool:
    """Whether all that the rows are about is the member's; ``splits`` batches as needed."""
    for row in range(a[ROWS]):
        at = a[ROWS_AT] + row * ROW
        last, type_ = a[at + R_LAST], a[at + R_TYPE]
        offset = max(a[at + R_FIRST], a[p + START])
        while offset <= last:
            if not a[p + IN_MEMORY] or offset > a[p + END]:
                return False
            batch = batch_of(a, p, offset)
            first, end = a[batch + BATCH], a[batch + BATCH_LAST]
            if not a[batch + SPLIT]:
                if a[batch + STATE] != S_ACQUIRED or a[batch + OWNER] != member:
                    return False
                if splits and (type_ < 0 or offset > first or last < end):
                    split(a, p, batch)
            else:
                for one in range(offset, min(last, end) + 1):
                    record = slot_of(a, p, one)
                    if a[record + STATE] != S_ACQUIRED or a[record + OWNER] != member:
                        return False
            offset = end + 1
    return True


@kernel
def _becomes(a: Any, type_: Any, count: Any) -> Any:
    if type_ == ACCEPT:
        return S_ACKNOWLEDGED
    return given_back(a, count) if type_ == RELEASE else S_ARCHIVED


@kernel
def acknowledge(a: Any, p: Any, member: Any) -> bool:
    """Take the rows of a request: all of them, or nothing when one offset is not the member's."""
    if not are_held(a, p, member, True):
        return False
    for row in range(a[ROWS]):
        at = a[ROWS_AT] + row * ROW
        low, last, type_ = a[at + R_FIRST], a[at + R_LAST], a[at + R_TYPE]
        offset = max(low, a[p + START])
        while offset <= last:
            batch = batch_of(a, p, offset)
            end = a[batch + BATCH_LAST]
            if not a[batch + SPLIT]:
                state = _becomes(a, type_, a[batch + COUNT])
                change(a, p, batch, a[batch + BATCH], end, state, 0)
            else:
                for one in range(offset, min(last, end) + 1):
                    record = slot_of(a, p, one)
                    mine = type_ if type_ >= 0 else a[a[at + R_TYPES] + one - low]
                    change(a, p, record, one, one, _becomes(a, mine, a[record + COUNT]), 1)
            offset = end + 1
    finish(a, p)
    return True


@kernel
def release_all(a: Any, p: Any, member: Any) -> None:
    """End a share session: give back all that a member has acquired."""
    if not a[p + IN_MEMORY]:
        return
    offset = a[p + START]
    while offset <= a[p + END]:
        batch = batch_of(a, p, offset)
        end = a[batch + BATCH_LAST]
        if not a[batch + SPLIT]:
            if a[batch + STATE] == S_ACQUIRED and a[batch + OWNER] == member:
                change(a, p, batch, a[batch + BATCH], end, given_back(a, a[batch + COUNT]), 0)
        else:
            for one in range(offset, end + 1):
                record = slot_of(a, p, one)
                if a[record + STATE] == S_ACQUIRED and a[record + OWNER] == member:
                    change(a, p, record, one, one, given_back(a, a[record + COUNT]), 1)
        offset = end + 1
    finish(a, p)
