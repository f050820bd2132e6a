"""The broker's answers to fetches, waiting fetches, and log ends."""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.acquiring import acquire, batch_at, can_fetch, next_fetch_offset
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.queue import insert, push
from sharelag.whatif.compiled.states import (
    count_gaps,
    counts_of,
    expire,
    move_log_start,
    next_end,
    see_time,
)


def log_end(a: Any, p: Any) -> Any:
    """Return the end offset at the current time."""
    at, times = a[p + AT], a[p + TIMES_AT]
    while at < a[p + BATCHES] and a[times + at] <= a[NOW]:
        at += 1
    a[p + AT] = at
    return a[a[p + BASES_AT] + at]


def fetch_end(a: Any, p: Any) -> Any:
    """Return the end of readable records: the last stable offset for ``read_committed`` groups."""
    if a[p + READS_AT] == a[p + TIMES_AT]:
        end = log_end(a, p)
        a[p + READABLE] = a[p + AT]
        return end
    at, reads = a[p + READABLE], a[p + READS_AT]
    while at < a[p + BATCHES] and a[reads + at] <= a[NOW]:
        at += 1
    a[p + READABLE] = at
    return a[a[p + BASES_AT] + at]


def note_drained(a: Any, p: Any) -> None:
    """Record the first time of each step when nothing is left to finish, here or anywhere."""
    last = a[DRAINED_AT] + a[DRAINS] - 1
    if a[DRAINS] and a[last] // a[STEP] >= a[NOW] // a[STEP]:
        return
    if log_end(a, p) - a[p + START] - a[p + COMPLETE] > 0:
        return
    # From the place that lagged last: from the first one, each event might pass all that do not.
    for number in range(a[LAGGING], a[LAGGING] + a[PLACES]):
        other = a[PLACES_AT] + number % a[PLACES] * PLACE
        if log_end(a, other) - a[other + START] - a[other + COMPLETE] > 0:
            a[LAGGING] = number % a[PLACES]
            return
    a[last + 1] = a[NOW]
    a[DRAINS] += 1


def node_of(a: Any, m: Any, p: Any) -> Any:
    """Return the address of a member's waiting fetch of a place."""
    return a[NODES_AT] + (a[m + MEMBER_INDEX] * a[PLACES] + a[p + INDEX]) * NODE_OF_PLACE


def wait(a: Any, session: Any, p: Any) -> None:
    """Append a fetch to the waiting list of a place."""
    m = a[session + S_MEMBER]
    node = node_of(a, m, p)
    if a[node]:  # it may wait with a former leader, and keeps its turn with the new one
        a[node] = session
        return
    a[node], a[node + 1], a[node + 2] = session, a[p + TAIL], 0
    if a[p + TAIL]:
        a[node_of(a, a[p + TAIL], p) + 2] = m
    else:
        a[p + HEAD] = m
    a[p + TAIL] = m


def drop_fetch(a: Any, session: Any) -> None:
    """Remove a fetch from all waiting lists."""
    a[session + FETCH_DONE] = 1
    for number in range(a[session + FETCHED]):
        p = a[a[session + FETCHED_AT] + number]
        node = node_of(a, a[session + S_MEMBER], p)
        if a[node] != session:
            continue
        before, after = a[node + 1], a[node + 2]
        a[node] = 0
        if before:
            a[node_of(a, before, p) + 2] = after
        else:
            a[p + HEAD] = after
        if after:
            a[node_of(a, after, p) + 1] = before
        else:
            a[p + TAIL] = before


def _ready_offset(a: Any, p: Any) -> Any:
    """Return the offset at which a fetch can start now; -1 if locked, full, or empty."""
    if a[p + LOCKED_UNTIL] > a[NOW]:
        return -1
    expire(a, p)
    offset = next_fetch_offset(a, p)
    if offset < a[p + LOG_START]:
        before = a[p + START] + a[p + COMPLETE]
        see_time(a, p)
        move_log_start(a, p, a[p + LOG_START])
        a[p + LOST] += a[p + START] + a[p + COMPLETE] - before
        offset = next_fetch_offset(a, p)
    return offset if can_fetch(a, p, offset) and offset < fetch_end(a, p) else -1


def _watch_locks(a: Any, p: Any) -> None:
    ends = next_end(a, p)
    if ends >= 0 and a[p + EXPIRY_DUE] < 0:
        a[p + EXPIRY_DUE] = (ends - a[BEGINS_MS]) * 1000
        push(a, a[p + EXPIRY_DUE], LOCKS_END, a[p + INDEX], a[p + LIFE])


def _first_batch(a: Any, p: Any, offset: Any) -> Any:
    """Return the record batch of the log with an offset, or the first one."""
    # Most fetches are near the end of the log.
    bases = a[p + BASES_AT]
    low = high = end = a[p + READABLE]
    while low > 0 and a[bases + low] > offset:
        low, high = max(2 * low - end - 1, 0), low
    return max(batch_at(a, p, offset, low, high), 0)


def _acquire(a: Any, m: Any, p: Any, offset: Any, room: Any, sharing: Any) -> None:
    entry = a[a[SLOT] + ENTRIES] if a[SLOT] >= 0 else 0
    # Later record batches cannot be acquired, so leaving them out changes nothing.
    last = min(
        max(a[p + END] + a[p + IN_MEMORY], offset) + room, offset + a[RECORDS_A_FETCH] // sharing
    )
    low, high = _first_batch(a, p, offset), a[p + READABLE] - 1
    if a[a[p + BASES_AT] + a[p + READABLE]] > last:
        high = batch_at(a, p, last, low, a[p + READABLE])
    see_time(a, p)
    acquire(a, m, p, offset, room, low, high)
    if a[p + IN_MEMORY] and a[p + END] - a[p + FIRST] + a[p + SPARE] > a[p + MASK]:
        a[IS_CRAMPED] = 1
    _watch_locks(a, p)
    if a[SLOT] < 0:
        return
    counts = counts_of(a, a[p + INDEX], a[m + MEMBER_INDEX])
    for one in range(entry, a[a[SLOT] + ENTRIES]):
        at = SLOT_HEAD + one * ENTRY_SIZE
        first, last = a[a[SLOT] + at + E_FIRST], a[a[SLOT] + at + E_LAST]
        size = last - first + 1 - count_gaps(a, p, first, last)
        a[counts + DELIVERED] += size
        a[counts + COUNTED] = 1
        if a[a[SLOT] + at + E_COUNT] > 1:
            a[counts + REDELIVERED] += size


def _serve(a: Any, session: Any, last_chance: bool) -> bool:
    """Answer the fetch of a session with the available records; return whether it is answered."""
    ready, count, m = a[READY_AT], 0, a[session + S_MEMBER]
    for number in range(a[session + FETCHED]):
        p = a[a[session + FETCHED_AT] + number]
        offset = _ready_offset(a, p)
        if offset >= 0:
            a[ready + 2 * count], a[ready + 2 * count + 1] = p, offset
            count += 1
    if not count and not last_chance:
        return False
    drop_fetch(a, session)
    a[SLOT], a[TAKEN] = -1, 0
    for one in range(count):
        p = a[ready + 2 * one]
        a[p + LOCKED_UNTIL] = a[NOW] + a[FETCH]
        if a[m + MAX_POLL] > a[TAKEN]:
            _acquire(a, m, p, a[ready + 2 * one + 1], a[m + MAX_POLL] - a[TAKEN], count)
    if a[SLOT] >= 0 and not a[a[SLOT] + ENTRIES]:
        free(a, a[SLOT])  # all acquired records belong to aborted transactions
        a[SLOT] = -1
    at = a[NOW] + (a[FETCH] if a[SLOT] >= 0 else 0)
    delay = a[NETWORK]
    if a[SLOT] < 0 and not last_chance and not delay:
        delay = REFETCH_DELAY
    push(a, max(at, a[session + ANSWER_FROM]) + delay, ANSWERED, session, a[SLOT])
    for one in range(count):
        p = a[ready + 2 * one]
        if a[p + HEAD]:
            _await_change(a, p)
    return True


def _await_change(a: Any, p: Any) -> None:
    """Schedule a retry for the end of a fetch or for new records; other changes call `wake`."""
    if a[p + LOCKED_UNTIL] > a[NOW]:
        if not a[p + UNLOCK_DUE]:
            a[p + UNLOCK_DUE] = 1
            push(a, a[p + LOCKED_UNTIL], UNLOCKED, a[p + INDEX], 0)
    elif not a[p + APPEND_DUE] and can_fetch(a, p, next_fetch_offset(a, p)):
        more = a[p + READABLE] < a[p + BATCHES]
        due = a[a[p + READS_AT] + a[p + READABLE]] if more else NEVER
        if due != NEVER:
            a[p + APPEND_DUE] = 1
            push(a, due, APPENDED, a[p + INDEX], 0)


def wake(a: Any, p: Any) -> None:
    """Serve the fetches that wait for a place, in order."""
    note_drained(a, p)
    while a[p + HEAD] and _ready_offset(a, p) >= 0:
        _serve(a, a[node_of(a, a[p + HEAD], p)], False)
    if a[p + HEAD]:
        _await_change(a, p)


def after_write(a: Any, p: Any, start: Any) -> None:
    """Wake fetches only if the start offset moved; released records wait for the next fetch."""
    if a[p + START] > start:
        wake(a, p)
    else:
        note_drained(a, p)


def end_wait(a: Any, session: Any, number: Any) -> None:
    """End a fetch after its maximum wait, or reschedule the timeout for a newer fetch."""
    a[session + TIMEOUT_DUE] = 0
    if a[session + FETCH_DONE]:
        return
    if a[session + FETCH_NUMBER] == number:
        _serve(a, session, True)
    else:
        _schedule_timeout(a, session)


def expire_locks(a: Any, p: Any, life: Any) -> None:
    """Let locks expire, unless the event belongs to a former leader."""
    if life != a[p + LIFE]:
        return
    given = expire(a, p)
    a[p + EXPIRY_DUE] = -1
    _watch_locks(a, p)
    if given:
        wake(a, p)


def serve_fetch(a: Any, session: Any, answer_from: Any) -> None:
    """Serve a fetch after its acknowledgements, or let it wait."""
    a[session + ANSWER_FROM] = answer_from
    a[session + FETCH_NUMBER] += 1
    a[session + FETCH_DONE] = 0
    if _serve(a, session, False):
        return
    for number in range(a[session + FETCHED]):
        p = a[a[session + FETCHED_AT] + number]
        wait(a, session, p)
        _await_change(a, p)
    a[NUMBER] += 1
    a[session + TIMEOUT_AT] = a[NOW] + a[a[session + S_MEMBER] + WAIT]
    a[session + TIMEOUT_NUMBER] = a[NUMBER]
    if not a[session + TIMEOUT_DUE]:
        _schedule_timeout(a, session)


def fail_fetch(a: Any, session: Any) -> bool:
    """Return whether a fetch reaches a broker that is down; its answer is then empty."""
    if a[BROKERS_FAIL]:
        for number in range(a[session + FETCHED]):
            if is_dead(a, a[a[session + FETCHED_AT] + number]):
                push(a, a[NOW] + RECONNECT, ANSWERED, session, -1)
                return True
    return False


def end_leader(a: Any, p: Any) -> None:
    """Answer the fetches that wait for a place with nothing, because its leader is down."""
    while a[p + HEAD]:
        session = a[node_of(a, a[p + HEAD], p)]
        drop_fetch(a, session)
        push(a, a[NOW] + RECONNECT, ANSWERED, session, -1)


def is_dead(a: Any, p: Any) -> bool:
    """Return whether the leader of a place is down."""
    return bool(a[a[BROKERS_AT] + a[p + LEADER] * BROKER + IS_DEAD])


def free(a: Any, slot: Any) -> None:
    """Return a slot to the free list."""
    a[slot + NEXT_FREE] = a[FREE]
    a[FREE] = slot
    a[FREE_SLOTS] += 1


def _schedule_timeout(a: Any, session: Any) -> None:
    """Schedule the timeout; one event per session suffices, as most fetches are answered before."""
    a[session + TIMEOUT_DUE] = 1
    at, number = a[session + TIMEOUT_AT], a[session + TIMEOUT_NUMBER]
    insert(a, at, number, WAIT_ENDS, session, a[session + FETCH_NUMBER])


parts(globals())
