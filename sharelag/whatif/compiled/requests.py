"""Acknowledgement requests of members: building, checking and applying them."""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.queue import push
from sharelag.whatif.compiled.serving import after_write, drop_fetch, free, is_dead, node_of, wake
from sharelag.whatif.compiled.states import (
    change,
    counts_of,
    decide_release,
    expire,
    find_row,
    finish,
    release_all,
    see_time,
    undo,
)
from sharelag.whatif.compiled.window import (
    after_hole,
    batch_of,
    floor,
    is_hole,
    renew,
    slot_of,
    split,
)

#: A longer run of one type gets its own row.
_SAME_TYPE = 10


def is_gap(a: Any, p: Any, offset: Any, compacted: Any) -> bool:
    """Return whether an offset had lost its record by a number of compactions."""
    low = find_row(a, a[p + MISSING_AT], a[p + MISSING], MISS, offset)
    at = a[p + MISSING_AT] + low * MISS
    return bool(
        low < a[p + MISSING] and a[at + M_OFFSET] == offset and a[at + M_SINCE] <= compacted
    )


def poison_at(a: Any, p: Any, attempt: Any, offset: Any) -> Any:
    """Return the address of the poison that fails an offset in a delivery attempt, or 0."""
    low = find_row(a, a[p + POISONS_AT], a[p + POISONS], POISON, offset)
    at = a[p + POISONS_AT] + low * POISON
    if low == a[p + POISONS] or a[at + P_OFFSET] != offset or attempt > a[at + P_ATTEMPTS]:
        return 0
    return at


def type_of(a: Any, m: Any, p: Any, attempt: Any, offset: Any) -> Any:
    """Return how a member acknowledges a record in a delivery attempt."""
    if a[p + POISONS]:
        poison = poison_at(a, p, attempt, offset)
        if poison:
            return a[poison + P_TYPE]
    if a[m + ACCEPTS_ALL]:
        return ACCEPT
    chunk = a[p + CHUNK_AT] + offset // CHUNK - a[p + FIRST_CHUNK]
    drawn = a[a[a[CHANCES_AT] + (attempt - 1) * a[CHUNKS] + chunk] + offset % CHUNK]
    if drawn < a[m + BELOW_ACCEPT]:
        return ACCEPT
    if drawn < a[m + BELOW_RELEASE]:
        return RELEASE
    return REJECT if drawn < a[m + BELOW_REJECT] else SILENT


def _add_row(a: Any, ack: Any, p: Any, first: Any, last: Any, type_: Any, types: Any) -> None:
    at = ack + ACK_HEAD + a[ack + A_ROWS] * ROW
    a[ack + A_ROWS] += 1
    a[at + R_PLACE], a[at + R_FIRST], a[at + R_LAST] = p, first, last
    a[at + R_TYPE], a[at + R_TYPES], a[at + R_TAKEN] = type_, types, 0


def _add_mixed_rows(a: Any, ack: Any, p: Any, first: Any, begin: Any, end: Any) -> None:
    """Add rows without silent records: long runs of one type, and mixed rows between them."""
    at = begin
    mixed, groups = begin, 0  # start of the mixed row, and the number of runs in it
    while at <= end:
        one, after = a[at] if at < end else SILENT, at + 1
        while after < end and a[after] == one:
            after += 1
        if one == SILENT or after - at > _SAME_TYPE:
            if at > mixed:
                type_ = a[mixed] if groups == 1 else -1
                _add_row(a, ack, p, first + mixed - begin, first + at - begin - 1, type_, mixed)
            if one != SILENT:
                _add_row(a, ack, p, first + at - begin, first + after - begin - 1, one, 0)
            mixed, groups = after, 0
        else:
            groups += 1
        at = after


def add_merged_rows(a: Any, m: Any, slot: Any, ack: Any, entry: Any) -> Any:
    """Add the rows of one place, neighbours merged; return the first entry of the next place."""
    p, before = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE], a[ack + A_ROWS]
    count = a[slot + ENTRIES]
    is_typed = not a[m + ACCEPTS_ALL] or a[p + POISONS] > 0 or a[p + MISSING] > 0
    while entry < count and a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE] == p:
        first, begin = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST], a[ack + A_TYPES]
        last, is_plain, filled = first - 1, a[m + ACCEPTS_ALL], begin
        while entry < count:
            at = slot + SLOT_HEAD + entry * ENTRY_SIZE
            if a[at + E_PLACE] != p or a[at + E_FIRST] != last + 1:
                break
            last = a[at + E_LAST]
            if is_typed:
                for offset in range(a[at + E_FIRST], last + 1):
                    a[filled] = type_at(a, m, slot, p, a[at + E_COUNT], offset)
                    if a[filled] != ACCEPT:
                        is_plain = 0
                    filled += 1
            entry += 1
        if is_plain:
            _add_row(a, ack, p, first, last, ACCEPT, 0)
        else:
            a[ack + A_TYPES] = filled
            _add_mixed_rows(a, ack, p, first, begin, filled)
    if a[ack + A_ROWS] == before:  # sent even if it acknowledges nothing
        _add_row(a, ack, p, 0, -1, ACCEPT, 0)
    return entry


def type_at(a: Any, m: Any, slot: Any, p: Any, attempt: Any, offset: Any) -> Any:
    """Return how a member acknowledges an offset: as a gap, or silent while it is held."""
    if a[p + MISSING] and is_gap(a, p, offset, a[slot + COMPACTED]):
        return GAP
    type_ = type_of(a, m, p, attempt, offset)
    if type_ == HOLD:
        return ACCEPT if a[slot + HOLDS] else SILENT
    return type_


def add_single_rows(a: Any, m: Any, slot: Any, ack: Any, entry: Any, offset: Any) -> Any:
    """Add the rows of one place within a part; return the first entry of the next place."""
    p, before = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_PLACE], a[ack + A_ROWS]
    to_entry, to = a[slot + ACK_TO_ENTRY], a[slot + ACK_TO]
    while entry <= to_entry:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        if a[at + E_PLACE] != p:
            break
        for one in range(offset, (to if entry == to_entry else a[at + E_LAST]) + 1):
            type_ = type_at(a, m, slot, p, a[at + E_COUNT], one)
            if type_ in (SILENT, CRASH):
                continue
            row = ack + ACK_HEAD + (a[ack + A_ROWS] - 1) * ROW
            is_next = a[ack + A_ROWS] > before and a[row + R_LAST] == one - 1
            if is_next and a[row + R_TYPE] == type_:
                a[row + R_LAST] = one
            else:
                _add_row(a, ack, p, one, one, type_, 0)
        entry += 1
        offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
    return entry


def rows_end(a: Any, ack: Any, row: Any) -> Any:
    """Return the end of the rows about the same place."""
    p, row = a[ack + ACK_HEAD + row * ROW + R_PLACE], row + 1
    while row < a[ack + A_ROWS] and a[ack + ACK_HEAD + row * ROW + R_PLACE] == p:
        row += 1
    return row


def count_records(a: Any, ack: Any, begin: Any, end: Any) -> Any:
    """Return the number of records in rows, except renewals."""
    total = 0
    for row in range(begin, end):
        at = ack + ACK_HEAD + row * ROW
        if a[at + R_TYPE] != RENEWAL:
            total += a[at + R_LAST] - a[at + R_FIRST] + 1
    return total


def _range_error(a: Any, p: Any, first: Any, last: Any) -> Any:
    """Return the error of offsets that no member can acknowledge, or 0."""
    known = floor(a, p, first) >= 0 or (first < a[p + START] and floor(a, p, a[p + START]) >= 0)
    if not known:
        return NOT_IN_FLIGHT
    end = a[slot_of(a, p, floor(a, p, last)) + BATCH_LAST]
    return BEYOND if end < last else 0


def _is_held_by(a: Any, at: Any, member: Any) -> bool:
    return bool(a[at + STATE] == S_ACQUIRED and a[at + OWNER] == member)


def check_rows(a: Any, p: Any, ack: Any, begin: Any, end: Any, member: Any) -> Any:
    """Return the error of rows that the member cannot acknowledge, or 0."""
    for row in range(begin, end):
        at = ack + ACK_HEAD + row * ROW
        last, offset = a[at + R_LAST], max(a[at + R_FIRST], a[p + START])
        if offset > last:
            continue
        a[FOUND] = row
        error = _range_error(a, p, a[at + R_FIRST], last)
        if error:
            return error
        offset = after_hole(a, p, offset)
        while offset <= last:
            batch = batch_of(a, p, offset)
            until = a[batch + BATCH_LAST]
            if not a[batch + SPLIT]:
                if not _is_held_by(a, batch, member):
                    return NOT_HELD
            else:
                for one in range(offset, min(last, until) + 1):
                    if not _is_held_by(a, slot_of(a, p, one), member):
                        return NOT_HELD
            offset = after_hole(a, p, until + 1)
    return 0


def _next_state(a: Any, p: Any, type_: Any, count: Any, last: Any) -> Any:
    if type_ == ACCEPT:
        return S_ACKNOWLEDGED
    return decide_release(a, p, count, last) if type_ == RELEASE else S_ARCHIVED


def acknowledge(a: Any, p: Any, ack: Any, begin: Any, end: Any, member: Any) -> Any:
    """Apply rows, or none of them if one is an error; nothing is written yet.

    Returns the error, or 0. Renewed locks and split batches stay after an error.
    """
    complete, error = a[p + COMPLETE], 0
    for row in range(begin, end):
        at = ack + ACK_HEAD + row * ROW
        first, last, start = a[at + R_FIRST], a[at + R_LAST], a[p + START]
        if last < start:
            continue
        error = _range_error(a, p, first, last)
        if not error and first > start and is_hole(a, p, first):
            # Kafka also checks the batch before a hole.
            batch = slot_of(a, p, floor(a, p, first))
            if a[batch + BATCH_LAST] >= start and not a[batch + SPLIT]:
                error = 0 if _is_held_by(a, batch, member) else NOT_HELD
                if not error:
                    split(a, p, batch)
        offset = max(first, start)
        if not error:
            offset = after_hole(a, p, offset)
        while not error and offset <= last:
            batch = batch_of(a, p, offset)
            error = _take_batch(a, p, at, batch, offset, member)
            offset = after_hole(a, p, a[batch + BATCH_LAST] + 1)
        if error:
            a[FOUND] = row
            undo(a, p, complete)
            return error
    return 0


def _take_batch(a: Any, p: Any, row: Any, batch: Any, offset: Any, member: Any) -> Any:
    """Apply a row to a batch from an offset on; return the error, or 0."""
    first, end, type_ = a[batch + BATCH], a[batch + BATCH_LAST], a[row + R_TYPE]
    if not a[batch + SPLIT]:
        if not _is_held_by(a, batch, member):
            return NOT_HELD
        if type_ >= 0 and offset <= first and end <= a[row + R_LAST]:
            if type_ != RENEWAL:
                state = _next_state(a, p, type_, a[batch + COUNT], end)
                change(a, p, batch, first, end, state, 0)
                return 0
            if a[RENEWS]:
                renew(a, p, batch, first, -1)
            return 0 if a[RENEWS] else NOT_RENEWED
        split(a, p, batch)
    types, low = a[row + R_TYPES], a[row + R_FIRST]
    for one in range(offset, min(a[row + R_LAST], end) + 1):
        at, mine = slot_of(a, p, one), type_ if type_ >= 0 else a[types + one - low]
        if not _is_held_by(a, at, member):
            return NOT_HELD
        if mine != RENEWAL:
            change(a, p, at, one, one, _next_state(a, p, mine, a[at + COUNT], one), 1)
        elif a[RENEWS]:
            renew(a, p, at, one, one)
        else:
            return NOT_RENEWED
    return 0


def new_ack(a: Any, m: Any) -> Any:
    """Allocate an empty request of a member."""
    ack = a[FREE_ACK]
    a[FREE_ACK] = a[ack + A_NEXT_FREE]
    a[FREE_ACKS] -= 1
    a[ack + A_OF], a[ack + A_ROWS] = m, 0
    a[ack + A_TYPES] = ack + ACK_HEAD + a[ACK_ROWS] * ROW
    return ack


def free_ack(a: Any, ack: Any) -> None:
    """Return a request to the free list."""
    a[ack + A_NEXT_FREE] = a[FREE_ACK]
    a[FREE_ACK] = ack
    a[FREE_ACKS] += 1


def refuse(a: Any, ack: Any, begin: Any, end: Any) -> None:
    """Count the acknowledgements in rows of one place as refused."""
    p, m = a[ack + ACK_HEAD + begin * ROW + R_PLACE], a[ack + A_OF]
    counts = counts_of(a, a[p + INDEX], a[m + MEMBER_INDEX])
    a[counts + REFUSED] += count_records(a, ack, begin, end)
    a[counts + COUNTED] = 1


def refuse_all(a: Any, ack: Any) -> None:
    """Refuse a whole request, because its broker cannot be reached."""
    for row in range(a[ack + A_ROWS]):
        refuse(a, ack, row, row + 1)
    free_ack(a, ack)


def _write_begins(a: Any, p: Any) -> Any:
    """Return when a write to the share coordinator of a place succeeds, except for its cost."""
    begins, wait = a[NOW], REWRITE
    if not a[p + RETRIES]:
        return max(begins, a[p + WRITES_FROM])
    while begins < a[p + WRITES_FROM]:
        begins += wait
        wait = min(2 * wait, REWRITE_MOST)
    return begins


def check_acks(a: Any, ack: Any) -> Any:
    """Check acknowledgements, start their write, and return when it is answered."""
    if ack < 0:
        return 0
    row, is_taken, member = 0, False, a[a[ack + A_OF] + MEMBER_INDEX]
    begins = a[NOW]
    while row < a[ack + A_ROWS]:
        p, end = a[ack + ACK_HEAD + row * ROW + R_PLACE], rows_end(a, ack, row)
        expire(a, p)
        see_time(a, p)
        if check_rows(a, p, ack, row, end, member):
            refuse(a, ack, row, end)
        else:
            a[ack + ACK_HEAD + row * ROW + R_TAKEN] = is_taken = True
            begins = max(begins, _write_begins(a, p))
        row = end
    if not is_taken:
        free_ack(a, ack)
        return 0
    # A leader finishes records in memory before the write, so that no lock of theirs expires.
    push(a, a[NOW] + a[WRITE], ACKS_WRITTEN, ack, 0)
    for one in range(a[ack + A_ROWS]):
        at = ack + ACK_HEAD + one * ROW
        if a[at + R_TAKEN]:
            wake(a, a[at + R_PLACE])
    return begins + a[WRITE]


def apply_acks(a: Any, ack: Any) -> None:
    """Apply acknowledgements after the share coordinator's answer to their write."""
    row, member = 0, a[a[ack + A_OF] + MEMBER_INDEX]
    while row < a[ack + A_ROWS]:
        at, end = ack + ACK_HEAD + row * ROW, rows_end(a, ack, row)
        if a[at + R_TAKEN]:
            p = a[at + R_PLACE]
            if expire(a, p):
                wake(a, p)
            start = a[p + START]
            a[CAUSE], a[CAUSE_NUMBER] = ACKNOWLEDGEMENT, member
            see_time(a, p)
            if acknowledge(a, p, ack, row, end, member):
                refuse(a, ack, row, end)
            else:
                finish(a, p)
            after_write(a, p, start)
        row = end
    free_ack(a, ack)


def close_member(a: Any, m: Any) -> None:
    """End the share sessions of a member: release its records, and drop its waiting fetches."""
    for number in range(a[PLACES]):
        p = a[PLACES_AT] + number * PLACE
        if a[node_of(a, m, p)]:
            drop_fetch(a, a[node_of(a, m, p)])
        expire(a, p)
        wake(a, p)
        start = a[p + START]
        a[CAUSE], a[CAUSE_NUMBER] = SESSION_CLOSE, a[m + MEMBER_INDEX]
        see_time(a, p)
        release_all(a, p, a[m + MEMBER_INDEX])
        finish(a, p)
        after_write(a, p, start)
    while a[m + BUFFERED] >= 0:
        slot = a[m + BUFFERED]
        a[m + BUFFERED] = a[slot + NEXT_FREE]
        free(a, slot)


def handle_acks(a: Any, m: Any, ack: Any, then: Any) -> None:
    """Handle a request that only acknowledges; its answer is event ``then``, or none if -1."""
    if _is_unreachable(a, ack):
        refuse_all(a, ack)
        at = a[NOW] + RECONNECT
    else:
        at = max(a[NOW], check_acks(a, ack)) + a[NETWORK]
    if then >= 0:
        push(a, at, then, m, 0)


def _is_unreachable(a: Any, ack: Any) -> bool:
    """Return whether the leader of a place in a request is down."""
    if a[BROKERS_FAIL] and ack >= 0:
        for row in range(a[ack + A_ROWS]):
            if is_dead(a, a[ack + ACK_HEAD + row * ROW + R_PLACE]):
                return True
    return False


parts(globals())
