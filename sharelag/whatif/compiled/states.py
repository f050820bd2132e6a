"""Writes of a place, expiry of its locks, and moves of its start offset."""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.window import (
    after_hole,
    batch_of,
    drop_lock,
    first_lock,
    floor,
    has_gap,
    is_held,
    is_hole,
    slot_of,
    split,
)


def counts_of(a: Any, place: Any, member: Any) -> Any:
    """Return the address of the counts of a place and a member."""
    return a[COUNTS_AT] + (member * a[PLACES] + place) * COUNTS


def decide_release(a: Any, p: Any, count: Any, last: Any) -> Any:
    """Return the state of released offsets: archived after the last attempt or if deleted."""
    return S_ARCHIVED if count >= a[ATTEMPTS] or last < a[p + START] else S_AVAILABLE


def change(a: Any, p: Any, at: Any, first: Any, last: Any, state: Any, by_offset: Any) -> None:
    """Change the state of adjacent acquired offsets, and add that to the open write."""
    a[at + STATE] = state
    size = last - first + 1
    a[p + HELD] -= size
    a[HELD_BY_ALL] -= size
    if state != S_AVAILABLE:
        a[p + COMPLETE] += max(last - max(first, a[p + START]) + 1, 0)
    else:
        a[p + AVAILABLE] += size
    row = a[RUNS_AT] + (a[RUNS] - 1) * RUN
    if (
        by_offset
        and a[RUNS] > a[OPEN]
        and a[row + BY_OFFSET] == 1
        and a[row + RUN_LAST] == first - 1
        and a[row + RUN_STATE] == state
        and a[row + RUN_COUNT] == a[at + COUNT]
    ):
        a[row + RUN_LAST] = last
        return
    row += RUN
    a[RUNS] += 1
    a[row + RUN_PLACE], a[row + RUN_TIME] = a[p + INDEX], a[NOW]
    a[row + RUN_FIRST], a[row + RUN_LAST], a[row + RUN_STATE] = first, last, state
    a[row + RUN_COUNT], a[row + BY_OFFSET] = a[at + COUNT], by_offset


def find_row(a: Any, rows: Any, count: Any, size: Any, offset: Any) -> Any:
    """Return the first of some rows, sorted by their first field, that is at least ``offset``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if a[rows + middle * size] < offset:
            low = middle + 1
        else:
            high = middle
    return low


def count_gaps(a: Any, p: Any, first: Any, last: Any) -> Any:
    """Return the number of offsets in a range that have no record now."""
    low, total = find_row(a, a[p + MISSING_AT], a[p + MISSING], MISS, first), 0
    while low < a[p + MISSING] and a[a[p + MISSING_AT] + low * MISS + M_OFFSET] <= last:
        total += a[a[p + MISSING_AT] + low * MISS + M_SINCE] <= a[COMPACTIONS]
        low += 1
    return total


def _count(a: Any, p: Any, row: Any) -> None:
    first, last, state = a[row + RUN_FIRST], a[row + RUN_LAST], a[row + RUN_STATE]
    is_someones, size = a[CAUSE_NUMBER] != NOBODY, last - first + 1
    at = counts_of(a, a[p + INDEX], a[CAUSE_NUMBER]) if is_someones else 0
    if state == S_ARCHIVED:
        a[p + ARCHIVES] += size
    if a[p + MISSING] and state != S_ACKNOWLEDGED:
        size -= count_gaps(a, p, first, last)  # nobody received these
    if state == S_ACKNOWLEDGED:
        if is_someones:
            a[at + ACKED] += size
    elif a[CAUSE] == EXPIRY:
        a[p + EXPIRED] += size
    elif is_someones:
        is_rejected = state == S_ARCHIVED and a[CAUSE] == ACKNOWLEDGEMENT
        a[at + (REJECTED if is_rejected else RELEASED)] += size
        if state == S_AVAILABLE and a[CAUSE] == ACKNOWLEDGEMENT:
            a[GIVEN_BACK] += size


def undo(a: Any, p: Any, complete: Any) -> None:
    """Roll back the open write: its offsets are acquired again, with the same locks."""
    for one in range(a[OPEN], a[RUNS]):
        row = a[RUNS_AT] + one * RUN
        first, last = a[row + RUN_FIRST], a[row + RUN_LAST]
        size = last - first + 1
        a[p + HELD] += size
        a[HELD_BY_ALL] += size
        if a[row + RUN_STATE] == S_AVAILABLE:
            a[p + AVAILABLE] -= size
        for offset in range(first, last + 1 if a[row + BY_OFFSET] else first + 1):
            a[slot_of(a, p, offset) + STATE] = S_ACQUIRED
    a[RUNS], a[p + COMPLETE] = a[OPEN], complete


def finish(a: Any, p: Any) -> None:
    """Complete the open write, then move the start offset."""
    if a[RUNS] == a[OPEN]:
        return
    wrote = a[WRITES_AT] + a[WRITES] * WRITE_ROW
    a[WRITES] += 1
    a[wrote], a[wrote + 1], a[wrote + 2] = a[p + INDEX], a[NOW], a[p + STATE_MS]
    a[wrote + 3], a[wrote + 4] = a[p + START], a[p + COMPLETE]
    a[wrote + 5], a[wrote + 6] = a[p + WRITE_EPOCH], a[RUNS]
    a[p + WRITTEN_START], a[p + WRITTEN_COMPLETE] = a[p + START], a[p + COMPLETE]
    if a[CAUSE_NUMBER] != NOBODY:
        a[counts_of(a, a[p + INDEX], a[CAUSE_NUMBER]) + COUNTED] = 1
    for one in range(a[OPEN], a[RUNS]):
        row = a[RUNS_AT] + one * RUN
        _count(a, p, row)
        if a[row + RUN_STATE] == S_AVAILABLE:
            a[p + FIND] = 1
            a[p + AVAILABLE_FROM] = min(a[p + AVAILABLE_FROM], a[row + RUN_FIRST])
    a[OPEN] = a[RUNS]
    move_start(a, p)


def _is_terminal(state: Any) -> bool:
    return bool(state in (S_ACKNOWLEDGED, S_ARCHIVED))


def _can_move(a: Any, p: Any) -> bool:
    """Return whether the state at the start offset is terminal (``canMoveStartOffset``)."""
    first = floor(a, p, a[p + START])
    if first < 0:  # nothing in flight, or an unknown hole at the start offset
        return False
    batch = slot_of(a, p, first)
    if not a[batch + SPLIT]:
        return _is_terminal(a[batch + STATE])
    # Kafka fails here, and stops, if the log start offset passed a split batch.
    within = a[p + START] <= a[batch + BATCH_LAST]
    return bool(within and _is_terminal(a[slot_of(a, p, a[p + START]) + STATE]))


def move_start(a: Any, p: Any) -> None:
    """Move the start over finished offsets (``maybeUpdateCachedStateAndOffsets``).

    Behind a complete batch it jumps to the next batch, since there is no data between them, but not
    over a hole that may have been fetched before the leader started. Only complete batches leave
    memory.
    """
    if not _can_move(a, p):
        return
    start, terminal, finished = a[p + START], 0, -1
    # Offsets in memory before the start offset are finished, unless the log start passed it.
    at = a[p + FIRST] if a[p + IS_BEHIND] else start
    while at <= a[p + LAST]:
        batch = batch_of(a, p, at)
        end = a[batch + BATCH_LAST]
        if has_gap(a, p) and end >= a[p + GAP_START]:
            break
        begin = at
        if not a[batch + SPLIT]:
            if not _is_terminal(a[batch + STATE]):
                break
            at = end + 1
        else:
            while at <= end and _is_terminal(a[slot_of(a, p, at) + STATE]):
                at += 1
        if at > begin:
            finished = at - 1
            terminal += max(at - max(begin, start), 0)
        if at <= end:
            break
        at = after_hole(a, p, at)
    if finished == -1:
        return
    if finished == a[p + LAST]:
        # If the log start passed it, this moves the start offset back, as in Kafka.
        a[p + START] = a[p + END] = finished + 1
        a[p + IN_MEMORY] = a[p + COMPLETE] = a[p + IS_BEHIND] = 0
        return
    batch = batch_of(a, p, finished)
    if finished == a[batch + BATCH_LAST]:
        first = after_hole(a, p, finished + 1)
        a[p + START] = max(start, first)
        if has_gap(a, p):
            a[p + START] = min(a[p + START], a[p + GAP_START])
    else:
        first = a[batch + BATCH]
        a[p + START] = max(start, finished + 1)
    a[p + COMPLETE] -= terminal
    a[p + FIRST] = first


def archive(a: Any, p: Any, at: Any, first: Any, last: Any, initial: Any, counted: bool) -> bool:
    """Archive the offsets in ``first..last`` with the state ``initial`` (``archiveRecords``).

    ``at`` is the offset to search from. If ``counted``, the delivery complete count grows; Kafka
    then also counts offsets before the start offset. Returns whether anything was archived.
    """
    found = False
    while a[p + IN_MEMORY] and at <= min(last, a[p + LAST]):
        batch, begin = slot_of(a, p, at), at
        end = a[batch + BATCH_LAST]
        at = after_hole(a, p, end + 1)
        if not a[batch + SPLIT]:
            if a[batch + STATE] != initial:
                continue
            if begin >= first and end <= last:
                _archive(a, p, batch, initial, end - begin + 1, counted)
                found = True
                continue
            split(a, p, batch)
        for offset in range(max(begin, first), min(end, last) + 1):
            if a[slot_of(a, p, offset) + STATE] == initial:
                _archive(a, p, slot_of(a, p, offset), initial, 1, counted)
                found = True
    return found


def _archive(a: Any, p: Any, at: Any, initial: Any, size: Any, counted: bool) -> None:
    a[at + STATE] = S_ARCHIVED
    if initial == S_AVAILABLE:
        a[p + AVAILABLE] -= size
    else:
        a[p + HELD] -= size
        a[HELD_BY_ALL] -= size
    if counted:
        a[p + COMPLETE] += size


def move_log_start(a: Any, p: Any, offset: Any) -> None:
    """Follow the log start offset after records were deleted (``updateCacheAndOffsets``).

    Available records before it are archived, acquired ones stay with their member. Nothing is
    written.
    """
    start = a[p + START]
    if offset <= start:
        return
    if not a[p + IN_MEMORY]:
        a[p + START], a[p + END], a[p + COMPLETE] = offset, offset, 0
        return
    passed, at = 0, max(start, a[p + FIRST])
    while at <= min(offset - 1, a[p + LAST]):
        if is_hole(a, p, at):
            at = after_hole(a, p, at)
            continue
        batch = batch_of(a, p, at)
        passed += _is_terminal(a[(slot_of(a, p, at) if a[batch + SPLIT] else batch) + STATE])
        at += 1
    if archive(a, p, a[p + FIRST], start, offset - 1, S_AVAILABLE, False):
        a[p + FIND] = 1
    a[p + IS_BEHIND] = 1
    a[p + START], a[p + END] = offset, max(a[p + END], offset)
    a[p + COMPLETE] -= passed


def _expire_lock(a: Any, p: Any, lock: Any) -> None:
    """Release the offsets of an expired lock, with a write per batch or split offset."""
    first, last, number = a[lock + LOCK_FIRST], a[lock + LOCK_LAST], a[lock + LOCK_NO]
    if last < 0:
        at = slot_of(a, p, first)
        last = a[at + BATCH_LAST]
        if first < a[p + START] <= last:
            split(a, p, at)  # still a single write, because it was a single lock
            for offset in range(first, last + 1):
                _release(a, p, offset)
        else:
            change(a, p, at, first, last, decide_release(a, p, a[at + COUNT], last), 0)
        finish(a, p)
        return
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        if a[at + STATE] == S_ACQUIRED and a[at + LOCK] == number + offset - first:
            _release(a, p, offset)
            finish(a, p)


def _release(a: Any, p: Any, offset: Any) -> None:
    at = slot_of(a, p, offset)
    change(a, p, at, offset, offset, decide_release(a, p, a[at + COUNT], offset), 1)


def release_all(a: Any, p: Any, member: Any) -> None:
    """Release all offsets that a member has acquired (``releaseAcquiredRecords``), unwritten."""
    if not a[p + IN_MEMORY]:
        return
    at = a[p + FIRST] if a[p + IS_BEHIND] else max(a[p + START], a[p + FIRST])
    while at <= a[p + LAST]:
        batch = batch_of(a, p, at)
        first, end = a[batch + BATCH], a[batch + BATCH_LAST]
        is_mine = a[batch + STATE] == S_ACQUIRED and a[batch + OWNER] == member
        if is_mine and not a[batch + SPLIT]:
            if first < a[p + START] <= end:
                split(a, p, batch)
            else:
                change(a, p, batch, first, end, decide_release(a, p, a[batch + COUNT], end), 0)
        if a[batch + SPLIT]:
            for offset in range(at, end + 1):
                one = slot_of(a, p, offset)
                if a[one + STATE] == S_ACQUIRED and a[one + OWNER] == member:
                    _release(a, p, offset)
        at = after_hole(a, p, end + 1)


def advance(a: Any, p: Any, now_ms: Any) -> None:
    """Let the locks expire that are due at a time."""
    lock = first_lock(a, p)
    while lock and a[lock + LOCK_ENDS] <= now_ms:
        if is_held(a, p, lock):
            a[p + STATE_MS] = max(a[p + STATE_MS], a[lock + LOCK_ENDS])
            _expire_lock(a, p, lock)
        drop_lock(a, p, lock)
        lock = first_lock(a, p)
    a[p + STATE_MS] = max(a[p + STATE_MS], now_ms)


def now_ms(a: Any) -> Any:
    """Return the brokers' time, in milliseconds since the epoch."""
    return a[BEGINS_MS] + a[NOW] // 1000


def see_time(a: Any, p: Any) -> None:
    """Update the time of a place; locks that are due have expired before."""
    a[p + STATE_MS] = max(a[p + STATE_MS], now_ms(a))


def expire(a: Any, p: Any) -> bool:
    """Let due locks expire; return whether any offset was released."""
    if a[p + EXPIRY_DUE] < 0 or a[p + EXPIRY_DUE] > a[NOW]:
        return False
    a[CAUSE], a[CAUSE_NUMBER] = EXPIRY, NOBODY
    before = a[p + EXPIRED]
    advance(a, p, now_ms(a))
    return bool(a[p + EXPIRED] > before)


def next_end(a: Any, p: Any) -> Any:
    """Return when the next lock expires, in ms; -1 if nothing is acquired."""
    lock = first_lock(a, p)
    while lock and not is_held(a, p, lock):
        drop_lock(a, p, lock)
        lock = first_lock(a, p)
    return a[lock + LOCK_ENDS] if lock else -1


parts(globals())
