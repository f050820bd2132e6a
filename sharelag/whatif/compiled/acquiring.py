"""Acquire records for a fetch, and find the offset at which the next fetch starts."""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.states import archive
from sharelag.whatif.compiled.window import (
    acquire_offsets,
    after_hole,
    floor,
    from_batch,
    has_gap,
    is_hole,
    put_batch,
    slot_of,
    span,
    split,
)


def next_fetch_offset(a: Any, p: Any) -> Any:
    """Return the next fetch offset; reset the search flag if nothing is to be redelivered."""
    nothing = not a[p + IN_MEMORY] or a[p + START] > a[p + LAST]
    if a[p + FIND] and not nothing:
        offset = _first_available(a, p)
        if offset >= 0:
            return offset
    a[p + FIND] = 0
    return a[p + END] if nothing else a[p + END] + 1


def _first_available(a: Any, p: Any) -> Any:
    """Return the first offset that is available or in a hole of unknown state, or -1."""
    gap = a[p + GAP_START] if has_gap(a, p) else NEVER
    at = from_batch(a, p, a[p + AVAILABLE_FROM]) if gap == NEVER else a[p + FIRST]
    while (a[p + AVAILABLE] or gap < NEVER) and at <= a[p + LAST]:
        if at > gap:
            return gap
        found = _first_available_in(a, p, at)
        if found >= 0:
            a[p + AVAILABLE_FROM] = found
            return found
        end = a[slot_of(a, p, at) + BATCH_LAST]
        gap, at = max(gap, end + 1), after_hole(a, p, end + 1)
    a[p + AVAILABLE_FROM] = a[p + LAST] + 1
    return -1


def _first_available_in(a: Any, p: Any, first: Any) -> Any:
    """Return the first available offset of the batch that starts at ``first``, or -1."""
    batch = slot_of(a, p, first)
    if not a[batch + SPLIT]:
        return first if a[batch + STATE] == S_AVAILABLE else -1
    for offset in range(max(first, a[p + AVAILABLE_FROM]), a[batch + BATCH_LAST] + 1):
        if a[slot_of(a, p, offset) + STATE] == S_AVAILABLE:
            return offset
    return -1


def can_fetch(a: Any, p: Any, offset: Any) -> bool:
    """Return whether a fetch from an offset redelivers, or has room for new offsets."""
    return bool(offset != a[p + END] + 1 or span(a, p) < a[LOCKS])


def batch_at(a: Any, p: Any, offset: Any, low: Any, high: Any) -> Any:
    """Return the last record batch in ``low..high`` that starts by ``offset``, or low - 1."""
    bases = a[p + BASES_AT]
    high += 1
    while low < high:
        middle = (low + high) >> 1
        if a[bases + middle] <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _has_flag(a: Any, p: Any, batch: Any, flag: Any) -> bool:
    """Return whether a record batch of the log has a flag, such as removed or aborted."""
    return bool(a[p + FLAGS_AT] and a[a[p + FLAGS_AT] + batch] & flag)


def _align(a: Any, p: Any, offset: Any, low: Any, high: Any) -> Any:
    """Return the last offset of the fetched record batch with ``offset``; ``offset`` in a hole."""
    at = batch_at(a, p, offset, low, high)
    while at >= low and _has_flag(a, p, at, IS_REMOVED):
        at -= 1
    return max(a[a[p + BASES_AT] + at + 1] - 1, offset) if at >= low else offset


def _add_to_slot(a: Any, p: Any, first: Any, last: Any, count: Any) -> None:
    """Add acquired offsets to the slot of this fetch, which the first call allocates."""
    if a[SLOT] < 0:
        a[SLOT] = a[FREE]
        a[FREE], a[FREE_SLOTS] = a[a[SLOT] + NEXT_FREE], a[FREE_SLOTS] - 1
        a[a[SLOT] + ENTRIES] = 0
    slot = a[SLOT]
    at = slot + SLOT_HEAD + a[slot + ENTRIES] * ENTRY_SIZE
    a[slot + ENTRIES] += 1
    a[at + E_PLACE], a[at + E_FIRST], a[at + E_LAST], a[at + E_COUNT] = p, first, last, count
    a[TAKEN] += last - first + 1


def _availability(a: Any, p: Any, batch: Any, first: Any, last: Any) -> Any:
    """Return 1 if an offset is available, 2 if it also failed too often to share a fetch, or 0."""
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


def _acquire_some(a: Any, m: Any, p: Any, batch: Any, first: Any, last: Any, limit: Any) -> None:
    """Acquire available offsets of a split batch; ``limit`` -1 means no limit."""
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
        # Kafka compares for equality: if more is taken before the first record that failed often,
        # there is no ceiling.
        for one in (limit, ceiling):
            if one > taken and (most < 0 or one - taken < most):
                most = one - taken
        if 0 <= most < number:
            number = most
        acquire_offsets(a, p, begin, begin + number - 1, count + 1, a[m + MEMBER_INDEX], True)
        a[p + AVAILABLE] -= number
        _add_to_slot(a, p, begin, begin + number - 1, count + 1)
        taken += number
        if number == most:
            break
        begin += number


def _acquire_in_flight(
    a: Any, m: Any, p: Any, batch: Any, first: Any, last: Any, room: Any, few: Any
) -> None:
    begin, end = a[batch + BATCH], a[batch + BATCH_LAST]
    limited = a[m + RECORD_LIMIT] and end - begin + 1 > room
    if a[batch + SPLIT] or begin < first or end > last or few or limited:
        split(a, p, batch)
        limit = room if a[m + RECORD_LIMIT] else -1
        _acquire_some(a, m, p, batch, first, last, limit)
        return
    acquire_offsets(a, p, begin, end, a[batch + COUNT] + 1, a[m + MEMBER_INDEX], False)
    a[p + AVAILABLE] -= end - begin + 1
    _add_to_slot(a, p, begin, end, a[batch + COUNT])


def _acquire_new(
    a: Any, m: Any, p: Any, first: Any, last: Any, room: Any, low: Any, high: Any
) -> None:
    """Acquire new offsets, up to the end of a record batch (``acquireNewBatchRecords``)."""
    bases, member, until = a[p + BASES_AT], a[m + MEMBER_INDEX], last
    if room < last - first + 1:
        until = _align(a, p, first + room - 1, low, high)
        if has_gap(a, p) and until > last:
            until = last  # not into the batch after the hole
    if a[m + RECORD_LIMIT] and until - first + 1 > room:
        put_batch(a, p, first, until, 1)
        acquire_offsets(a, p, first, first + room - 1, 1, member, True)
        for offset in range(first + room, until + 1):
            at = slot_of(a, p, offset)
            a[at + STATE], a[at + COUNT] = S_AVAILABLE, 0
        a[p + AVAILABLE] += until - first - room + 1
        a[p + FIND], a[p + AVAILABLE_FROM] = 1, min(a[p + AVAILABLE_FROM], first + room)
        _add_to_slot(a, p, first, first + room - 1, 1)
    else:
        size, begin = a[m + MAX_POLL], first
        if not a[m + RECORD_LIMIT] and until - first + 1 > size:
            for at in range(low, high + 1):
                base = a[bases + at]
                if base > until:
                    break
                if base - begin >= size and not _has_flag(a, p, at, IS_REMOVED):
                    _acquire_whole(a, p, begin, base - 1, member)
                    begin = base
        _acquire_whole(a, p, begin, until, member)
    if a[p + FIRST] == first:
        a[p + START] = first
    a[p + END] = max(a[p + END], until)
    if a[p + GAP_END] >= 0:
        _shrink_gap(a, p)


def _acquire_whole(a: Any, p: Any, first: Any, last: Any, member: Any) -> None:
    put_batch(a, p, first, last, 0)
    acquire_offsets(a, p, first, last, 1, member, False)
    _add_to_slot(a, p, first, last, 1)


def _shrink_gap(a: Any, p: Any) -> None:
    """Move the gap behind the last acquired offset, or end it behind the loaded batches."""
    slot = a[SLOT]
    offset = a[slot + SLOT_HEAD + (a[slot + ENTRIES] - 1) * ENTRY_SIZE + E_LAST] + 1
    if has_gap(a, p) and offset <= a[p + GAP_END]:
        a[p + GAP_START] = offset
    else:
        a[p + GAP_END] = -1


def acquire(a: Any, m: Any, p: Any, offset: Any, room: Any, low: Any, high: Any) -> None:
    """Acquire from the fetched record batches ``low..high`` of the log."""
    while low <= high and _has_flag(a, p, low, IS_REMOVED):
        low += 1
    while low <= high and _has_flag(a, p, high, IS_REMOVED):
        high -= 1
    bases = a[p + BASES_AT]
    if room <= 0 or high < low or a[bases + high + 1] - 1 < a[p + START]:
        return
    base, last = a[bases + low], a[bases + high + 1] - 1
    wanted, room = room, min(room, a[LOCKS] - span(a, p))
    if room <= 0 and offset <= a[p + END]:
        room, last = min(wanted, a[p + END] - offset + 1), min(last, a[p + END])
    if room <= 0:
        return
    if a[p + IN_MEMORY] and offset < base:
        # The log no longer has the available records before its first batch.
        begin = from_batch(a, p, offset)
        if archive(a, p, begin, offset, base - 1, S_AVAILABLE, True):
            a[p + FIND] = 1
    begin = base
    if not a[p + IN_MEMORY] or base < a[p + FIRST]:
        begin = max(base, a[p + START])
    elif base <= a[p + LAST] and not is_hole(a, p, base):
        begin = a[slot_of(a, p, base) + BATCH]
    if min(base, begin) > last:
        return
    entry, taken = a[a[SLOT] + ENTRIES] if a[SLOT] >= 0 else 0, a[TAKEN]
    if a[p + IN_MEMORY] and from_batch(a, p, min(base, begin)) <= min(last, a[p + LAST]):
        _acquire_all(a, m, p, base, last, begin, room, low, high)
    else:
        _acquire_new(a, m, p, begin, last, room, low, high)
    if a[p + FLAGS_AT] and a[TAKEN] > taken:
        _drop_aborted(a, p, entry, taken, low, high)


def _acquire_all(
    a: Any, m: Any, p: Any, base: Any, last: Any, begin: Any, room: Any, low: Any, high: Any
) -> None:
    """Acquire from batches in flight, from unknown holes between them, and behind them."""
    taken, at = a[TAKEN], from_batch(a, p, min(base, begin))
    end = floor(a, p, last)
    end = a[slot_of(a, p, end) + BATCH_LAST]
    while (a[p + AVAILABLE] or has_gap(a, p)) and at <= min(last, end):
        count, first = a[TAKEN] - taken, at
        if count >= room:
            break
        batch = slot_of(a, p, first)
        at = after_hole(a, p, a[batch + BATCH_LAST] + 1)
        if has_gap(a, p):
            if begin < first:
                _acquire_new(a, m, p, begin, first - 1, room - count, low, high)
                count = a[TAKEN] - taken
            begin = a[batch + BATCH_LAST] + 1
            if count >= room:
                break
        found = _availability(a, p, batch, base, last)
        if found == 2 and count:
            room = 0  # a record that failed often waits for its own fetch
            break
        if found:
            _acquire_in_flight(a, m, p, batch, base, last, room - count, found == 2)
            if found == 2 and a[TAKEN] - taken > count:
                room = 0
                break
    count = a[TAKEN] - taken
    if count < room and end < last:
        _acquire_new(a, m, p, end + 1, last, room - count, low, high)
    if a[p + GAP_END] >= 0 and a[TAKEN] > taken:
        _shrink_gap(a, p)


def _drop_aborted(a: Any, p: Any, entry: Any, taken: Any, low: Any, high: Any) -> None:
    """Archive acquired record batches of aborted transactions, and remove them from the answer.

    As in Kafka, this also archives records that another member holds.
    """
    slot, bases, is_any = a[SLOT], a[p + BASES_AT], False
    for batch in range(low, high + 1):
        if _has_flag(a, p, batch, IS_ABORTED):
            base, last = a[bases + batch], a[bases + batch + 1] - 1
            begin, is_any = floor(a, p, base), True
            if begin < 0:
                # Kafka fails this fetch: the records stay acquired until their locks expire.
                a[slot + ENTRIES], a[TAKEN] = entry, taken
                return
            archive(a, p, begin, base, last, S_ACQUIRED, True)
    if not is_any:
        return
    count = a[slot + ENTRIES]
    a[TAKEN] = taken
    for one in range(entry, count):
        at = slot + SLOT_HEAD + one * ENTRY_SIZE
        begin, end, times = a[at + E_FIRST], a[at + E_LAST], a[at + E_COUNT]
        for batch in range(low, high + 1):
            base, last = a[bases + batch], a[bases + batch + 1] - 1
            if last >= begin and base <= end and _has_flag(a, p, batch, IS_ABORTED):
                if base > begin:
                    _add_to_slot(a, p, begin, base - 1, times)
                begin = last + 1
        if begin <= end:
            _add_to_slot(a, p, begin, end, times)
    # The remaining entries were appended behind all acquired ones: move them forward.
    for one in range(count, a[slot + ENTRIES]):
        for field in range(ENTRY_SIZE):
            to = slot + SLOT_HEAD + (entry + one - count) * ENTRY_SIZE + field
            a[to] = a[slot + SLOT_HEAD + one * ENTRY_SIZE + field]
    a[slot + ENTRIES] -= count - entry


parts(globals())
