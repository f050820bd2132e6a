"""Members: they fetch from all brokers at once, process, and acknowledge with the next fetch.

Follows ``ShareConsumeRequestManager`` and ``ShareMembershipManager`` of the Java client.
"""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.acquiring import batch_at
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.queue import push
from sharelag.whatif.compiled.requests import (
    add_merged_rows,
    add_single_rows,
    free_ack,
    is_gap,
    new_ack,
    poison_at,
    refuse,
    type_at,
    type_of,
)
from sharelag.whatif.compiled.serving import free


def processing_time(a: Any, m: Any, p: Any, first: Any, last: Any) -> Any:
    """Return the microseconds of processing some records."""
    total = 0
    if a[m + IS_FIXED]:
        return a[a[m + WORK_AT] + a[p + INDEX]] * (last - first + 1)
    chunks = a[m + WORK_AT] + a[PLACES] + a[p + CHUNK_AT] - a[p + FIRST_CHUNK]
    for offset in range(first, last + 1):
        total += a[a[chunks + offset // CHUNK] + offset % CHUNK]
    return total


def measure_part(a: Any, m: Any, slot: Any, is_part: Any) -> Any:
    """Return the work from the current record to the end of a part or slot, and set that end."""
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
            total += processing_time(a, m, p, offset, last)
            offset = last + 1
        while offset <= last:
            if not (a[p + MISSING] and is_gap(a, p, offset, a[slot + COMPACTED])):
                total += processing_time(a, m, p, offset, offset)
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
        offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
    return total


def may_crash(a: Any, slot: Any) -> bool:
    """Return whether the member crashes at a record of this delivery."""
    for entry in range(a[slot + ENTRIES]):
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p = a[at + E_PLACE]
        for one in range(a[p + POISONS]):
            poison = a[p + POISONS_AT] + one * POISON
            within = a[at + E_FIRST] <= a[poison + P_OFFSET] <= a[at + E_LAST]
            if a[poison + P_TYPE] == CRASH and within and a[at + E_COUNT] <= a[poison + P_ATTEMPTS]:
                return True
    return False


def is_rest_silent(a: Any, m: Any, slot: Any, entry: Any, offset: Any) -> bool:
    """Return whether all records from an offset on are silent and take no time."""
    while entry < a[slot + ENTRIES]:
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p = a[at + E_PLACE]
        while offset <= a[at + E_LAST]:
            if type_at(a, m, slot, p, a[at + E_COUNT], offset) != SILENT:
                return False
            if processing_time(a, m, p, offset, offset):
                return False
            offset += 1
        entry += 1
        offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
    return True


def build_ack(a: Any, m: Any, slot: Any, broker: Any, renews: bool) -> Any:
    """Return the request that acknowledges a part to a broker, or -1 if it has no rows.

    If it ``renews``, it is about all unacknowledged records instead. Sets ``FOUND`` to whether the
    broker leads a place of it.
    """
    ack, is_over = new_ack(a, m), False
    a[FOUND] = 0
    if not renews:
        _add_part(a, m, slot, ack, broker, False)
    else:
        entry, record = a[m + ENTRY], a[m + RECORD]
        part_entry, part_last, crashes = a[m + PART_ENTRY], a[m + PART_LAST], a[m + CRASHES]
        while not is_over and a[m + ENTRY] < a[slot + ENTRIES]:
            measure_part(a, m, slot, True)
            is_over = a[m + CRASHES] == 1
            skip_part(a, m, slot)
            _add_part(a, m, slot, ack, broker, True)
        a[m + ENTRY], a[m + RECORD] = entry, record
        a[m + PART_ENTRY], a[m + PART_LAST], a[m + CRASHES] = part_entry, part_last, crashes
    if a[ack + A_ROWS]:
        return ack
    free_ack(a, ack)
    return -1


def _add_part(a: Any, m: Any, slot: Any, ack: Any, broker: Any, renews: bool) -> None:
    """Add the rows of a slot's part about places that the broker leads.

    The client itself refuses places whose leader changed since the delivery.
    """
    entry, offset = a[slot + ACK_ENTRY], a[slot + ACK_OFFSET]
    while entry <= a[slot + ACK_TO_ENTRY]:
        begin, at = a[ack + A_ROWS], slot + SLOT_HEAD + entry * ENTRY_SIZE
        p, epoch = a[at + E_PLACE], a[at + E_EPOCH]
        if a[slot + ONE_BY_ONE]:
            entry = add_single_rows(a, m, slot, ack, entry, offset)
            offset = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST]
        else:
            entry = add_merged_rows(a, m, slot, ack, entry)
        if renews:
            for row in range(begin, a[ack + A_ROWS]):
                a[ack + ACK_HEAD + row * ROW + R_TYPE] = RENEWAL
        if a[p + LEADER] != broker:
            a[ack + A_ROWS] = begin
        elif a[ack + A_ROWS] > begin:
            a[FOUND] = 1
            if a[p + LEADER_EPOCH] != epoch:
                refuse(a, ack, begin, a[ack + A_ROWS])
                a[ack + A_ROWS] = begin


def skip_part(a: Any, m: Any, slot: Any) -> None:
    """Move a member behind a part, the slot's to acknowledge; after a held record, to the next."""
    entry, last = a[m + PART_ENTRY], a[m + PART_LAST]
    a[slot + ACK_ENTRY], a[slot + ACK_OFFSET] = a[m + ENTRY], a[m + RECORD]
    a[slot + ACK_TO_ENTRY], a[slot + ACK_TO] = entry, last
    if last == a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_LAST]:
        entry += 1
        last = a[slot + SLOT_HEAD + entry * ENTRY_SIZE + E_FIRST] - 1
    a[m + ENTRY], a[m + RECORD] = entry, last + 1
    if a[slot + HOLDS]:
        move_to_held(a, m, slot)


def move_to_held(a: Any, m: Any, slot: Any) -> bool:
    """Move a member to the next record that it has to hold; return whether there is one."""
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


#: The value of a random whole number's unit, as a share of 1.
_PART = 2.0**-53


def call_python(a: Any, code: Any, m: Any) -> None:
    """Hand a member to Python after this event."""
    a[CALLS], a[CALLED] = code, m


def _note_request(a: Any, m: Any, broker: Any, epoch: Any, what: Any) -> None:
    if a[NOTES_REQUESTS]:
        row = a[REQUESTS_AT] + a[REQUESTS] * REQUEST
        a[REQUESTS] += 1
        a[row], a[row + 1], a[row + 2] = a[NOW], a[m + MEMBER_INDEX], broker
        a[row + 3], a[row + 4] = epoch, what


def _session_of(a: Any, m: Any, broker: Any) -> Any:
    return a[m + SESSIONS_AT] + broker * (SESSION + 2 * a[PLACES])


def _find_session(a: Any, m: Any, broker: Any) -> Any:
    """Return the share session with a broker, a new one if it ended or is unreachable."""
    session = _session_of(a, m, broker)
    at = a[BROKERS_AT] + broker * BROKER
    epoch = a[at + BROKER_EPOCH]
    if not a[session + S_OPEN] or a[session + S_BROKER_EPOCH] != epoch or a[at + IS_DEAD]:
        a[session + S_OPEN], a[session + S_BROKER_EPOCH] = 1, epoch
        a[session + S_EPOCH] = a[session + S_PLACES] = 0
    return session


def _send(a: Any, m: Any, broker: Any, kind: Any, ack: Any) -> None:
    session = _find_session(a, m, broker)
    what = FETCH_REQUEST if kind == FETCH_ARRIVES else ACKNOWLEDGE_REQUEST
    _note_request(a, m, broker, a[session + S_EPOCH], what)
    a[session + S_EPOCH] += 1
    a[m + UNANSWERED] += kind == ACKS_BEFORE_POLL
    push(a, a[NOW] + a[NETWORK], kind, session if kind == FETCH_ARRIVES else m, ack)


def close_sessions(a: Any, m: Any) -> bool:
    """Acknowledge the rest and close all sessions; return whether there was a rest."""
    sent = _send_pending(a, m, ACKS_ARRIVE)
    for broker in range(a[BROKERS]):
        if a[_session_of(a, m, broker) + S_OPEN]:
            _note_request(a, m, broker, -1, CLOSE_REQUEST)
    return sent


def _send_pending(a: Any, m: Any, kind: Any) -> bool:
    """Acknowledge the last poll with requests of a kind; return whether any was sent."""
    slot = a[m + PENDING]
    if slot < 0:
        return False
    a[m + PENDING] = -1
    sent = _acknowledge(a, m, slot, kind, kind, False)
    free(a, slot)
    return sent


def _acknowledge(a: Any, m: Any, slot: Any, each: Any, then: Any, renews: bool) -> bool:
    """Acknowledge a part with separate requests to each broker; return whether any was sent.

    ``then`` is the kind of the last request, and ``each`` that of the others.
    """
    last, last_ack = -1, -1
    for broker in range(a[BROKERS]):
        ack = build_ack(a, m, slot, broker, renews)
        if a[FOUND]:
            if last >= 0:
                _send(a, m, last, each, last_ack)
            last, last_ack = broker, ack
    if last >= 0:
        _send(a, m, last, then, last_ack)
    return bool(last >= 0)


def _open_session(a: Any, m: Any, broker: Any) -> Any:
    """Update a session: places that stay keep their order, and new ones follow."""
    session = _find_session(a, m, broker)
    kept, after, assigned, places = 0, 0, a[m + ASSIGNED_AT], session + SESSION
    for old in range(a[session + S_PLACES]):
        p = a[places + old]
        found = _index_of(a, p, assigned, a[m + ASSIGNED], after) if a[p + LEADER] == broker else -1
        if found >= 0:
            a[places + kept] = p
            kept, after = kept + 1, found + 1
    total, after = kept, 0
    for new in range(a[m + ASSIGNED]):
        p = a[assigned + new]
        if a[p + LEADER] == broker:
            found = _index_of(a, p, places, kept, after)
            if found < 0:
                a[places + total] = p
                total += 1
            else:
                after = found + 1
    a[session + S_PLACES], a[m + CHANGED] = total, 0
    return session


def _index_of(a: Any, p: Any, places: Any, count: Any, begin: Any) -> Any:
    """Return the index of a place in a list, or -1; it is expected at ``begin``."""
    for number in range(begin, begin + count):
        at = number - count if number >= count else number
        if a[places + at] == p:
            return at
    return -1


def _next_broker(a: Any, m: Any) -> Any:
    """Return the next of the brokers that lead its places, or -1 if one has not answered yet.

    This is how ``share.acquire.mode`` ``record_limit`` fetches, since several brokers might return
    more records than a poll may have.
    """
    count = 0
    for broker in range(a[BROKERS]):
        count += _leads(a, m, broker)
        if a[_session_of(a, m, broker) + IS_PENDING]:
            return -1
    if not count:
        return -1
    turn = a[m + TURN] % count
    a[m + TURN] += 1
    for broker in range(a[BROKERS]):
        if _leads(a, m, broker):
            if not turn:
                return broker
            turn -= 1
    return -1


def _leads(a: Any, m: Any, broker: Any) -> bool:
    for number in range(a[m + ASSIGNED]):
        if a[a[a[m + ASSIGNED_AT] + number] + LEADER] == broker:
            return True
    return False


def poll(a: Any, m: Any) -> None:
    """Return buffered records or fetch new ones; a member that leaves closes instead."""
    if a[m + LEAVING]:
        call_python(a, CLOSE, m)
        return
    while a[m + BUFFERED] >= 0:
        slot = _collect(a, m)
        if _has_records(a, slot):
            # There is no fetch for acknowledgements to go with, so they are sent separately.
            _send_pending(a, m, ACKS_BEFORE_POLL)
            push(a, a[NOW], COLLECTED, m, slot)
            return
        _acknowledge_gaps(a, m, slot, ACKS_BEFORE_POLL)
    if not a[m + IN_POLL]:
        a[m + IN_POLL], a[m + POLLED] = 1, a[NOW]
    if not a[m + UNANSWERED] and a[m + IDLE_UNTIL] <= a[NOW]:
        _fetch(a, m)


def _collect(a: Any, m: Any) -> Any:
    """Return a slot with the buffered records of one poll (``ShareFetchCollector``)."""
    slot, room = a[m + BUFFERED], a[m + MAX_POLL]
    a[m + BUFFERED] = a[slot + NEXT_FREE]
    for entry in range(a[slot + ENTRIES]):
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        room -= a[at + E_LAST] - a[at + E_FIRST] + 1
    while room > 0 and a[m + BUFFERED] >= 0:
        other = a[m + BUFFERED]
        room -= _move_entries(a, slot, other, room)
        if not a[other + ENTRIES]:
            a[m + BUFFERED] = a[other + NEXT_FREE]
            free(a, other)
    return slot


def _move_entries(a: Any, slot: Any, other: Any, room: Any) -> Any:
    """Move up to ``room`` records from one slot to another, and the rest of their record batch.

    Returns how many were moved.
    """
    a[slot + COMPACTED] = min(a[slot + COMPACTED], a[other + COMPACTED])
    moved, entry, place, until = 0, 0, 0, -1
    while entry < a[other + ENTRIES]:
        at = other + SLOT_HEAD + entry * ENTRY_SIZE
        p, first, last = a[at + E_PLACE], a[at + E_FIRST], a[at + E_LAST]
        if moved >= room and (p != place or first > until):
            break
        if moved + last - first + 1 >= room:
            place, enough = p, first + max(room - moved, 1) - 1
            batch = batch_at(a, p, enough, 0, a[p + BATCHES] - 1)
            until = a[a[p + BASES_AT] + batch + 1] - 1
            last = min(last, until)
        to = slot + SLOT_HEAD + a[slot + ENTRIES] * ENTRY_SIZE
        for field in range(ENTRY_SIZE):
            a[to + field] = a[at + field]
        a[to + E_LAST] = last
        a[slot + ENTRIES] += 1
        moved += last - first + 1
        if last == a[at + E_LAST]:
            entry += 1
        else:
            a[at + E_FIRST] = last + 1
    a[other + ENTRIES] -= entry
    for word in range(a[other + ENTRIES] * ENTRY_SIZE):
        to = other + SLOT_HEAD + word
        a[to] = a[to + entry * ENTRY_SIZE]
    return moved


def _fetch(a: Any, m: Any) -> None:
    """Fetch from the brokers that lead any of its places, and acknowledge to the others.

    Brokers that have not answered yet are left out. Records that others return while the member
    works wait for its next poll, during which their locks run.
    """
    is_limited, only = a[BROKERS] > 1 and a[m + RECORD_LIMIT] > 0, -1
    if is_limited:
        only = _next_broker(a, m)
    slot = a[m + PENDING]
    a[m + PENDING] = -1
    if slot >= 0:
        for broker in range(a[BROKERS]):
            if not _may_fetch_from(a, m, broker, is_limited, only):
                ack = build_ack(a, m, slot, broker, False)
                if a[FOUND]:
                    _send(a, m, broker, ACKS_ARRIVE, ack)
    for broker in range(a[BROKERS]):
        if _may_fetch_from(a, m, broker, is_limited, only):
            _fetch_from(a, m, broker, build_ack(a, m, slot, broker, False) if slot >= 0 else -1)
    if slot >= 0:
        free(a, slot)


def _may_fetch_from(a: Any, m: Any, broker: Any, is_limited: bool, only: Any) -> bool:
    if is_limited and broker != only:
        return False
    return not a[_session_of(a, m, broker) + IS_PENDING] and _leads(a, m, broker)


def _fetch_from(a: Any, m: Any, broker: Any, ack: Any) -> None:
    """Fetch from the places that a broker leads, starting with another one each time."""
    session = _session_of(a, m, broker)
    if a[m + CHANGED] or a[BROKERS_FAIL]:
        session = _open_session(a, m, broker)
    count, places = a[session + S_PLACES], session + SESSION
    a[session + FETCHED], a[session + IS_PENDING] = count, 1
    turn = a[session + S_EPOCH] % count
    for number in range(count):
        at = number + turn
        a[a[session + FETCHED_AT] + number] = a[places + (at - count if at >= count else at)]
    _send(a, m, broker, FETCH_ARRIVES, ack)


def _is_stopped(a: Any, m: Any, kind: Any, subject: Any, more: Any) -> bool:
    """Return whether a member has ended or hangs; a hanging one handles the event later."""
    if a[m + ENDED]:
        return True
    if a[m + HUNG_UNTIL] <= a[NOW]:
        return False
    if a[m + HUNG_UNTIL] - a[NOW] < EVER:
        push(a, a[m + HUNG_UNTIL], kind, subject, more)
    return True


def handle_answer(a: Any, session: Any, slot: Any) -> None:
    """Process the answer of a fetch if the member polls, or buffer it; fetch again if empty."""
    m = a[session + S_MEMBER]
    if _is_stopped(a, m, ANSWERED, session, slot):
        if a[m + ENDED] and slot >= 0:
            free(a, slot)
        return
    a[session + IS_PENDING] = 0
    if slot < 0:
        if a[m + IN_POLL]:
            poll(a, m)
        return
    a[slot + COMPACTED] = a[COMPACTIONS]
    for entry in range(a[slot + ENTRIES]):
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        a[at + E_EPOCH] = a[a[at + E_PLACE] + LEADER_EPOCH]
    if a[m + IN_POLL] and not _has_records(a, slot):
        _acknowledge_gaps(a, m, slot, ACKS_ARRIVE)
        _idle(a, m)
        return
    if a[m + IN_POLL]:
        _send_pending(a, m, ACKS_ARRIVE)  # if they waited for other answers, and with them a fetch
        _begin(a, m, slot)
        return
    before = m + BUFFERED
    while a[before] >= 0:
        before = a[before] + NEXT_FREE
    a[before], a[slot + NEXT_FREE] = slot, -1


def _has_records(a: Any, slot: Any) -> bool:
    """Return whether an answer has records, not only offsets without one."""
    for entry in range(a[slot + ENTRIES]):
        at = slot + SLOT_HEAD + entry * ENTRY_SIZE
        p, offset = a[at + E_PLACE], a[at + E_FIRST]
        while offset <= a[at + E_LAST]:
            if not (a[p + MISSING] and is_gap(a, p, offset, a[slot + COMPACTED])):
                return True
            offset += 1
    return False


def _acknowledge_gaps(a: Any, m: Any, slot: Any, kind: Any) -> None:
    """Acknowledge an answer without records, separately from other acknowledgements."""
    a[slot + ACK_ENTRY], a[slot + ACK_TO_ENTRY] = 0, a[slot + ENTRIES] - 1
    a[slot + HOLDS] = a[slot + ONE_BY_ONE] = 0
    _acknowledge(a, m, slot, kind, kind, False)
    free(a, slot)


def _idle(a: Any, m: Any) -> None:
    """Fetch nothing until the next call of poll, after an answer without records.

    ``ShareConsumerImpl`` asks for fetches once in a poll, which continues in vain until its timeout
    (``shouldSendShareFetchEvent``), and offsets that are acquired end them (``fetchMoreRecords``).
    """
    waited = (a[NOW] - a[m + POLLED]) % a[m + POLL_WAIT]
    a[m + IDLE_UNTIL] = a[NOW] + a[m + POLL_WAIT] - waited
    push(a, a[m + IDLE_UNTIL], POLL_ENDS, m, 0)


def end_poll(a: Any, m: Any) -> None:
    """Poll again after a poll that returned nothing, unless it returned other records before."""
    if not _is_stopped(a, m, POLL_ENDS, m, 0) and 0 < a[m + IDLE_UNTIL] <= a[NOW]:
        a[m + IDLE_UNTIL] = 0
        poll(a, m)


def handle_buffered(a: Any, m: Any, slot: Any) -> None:
    """Process buffered records that a poll returned."""
    if _is_stopped(a, m, COLLECTED, m, slot):
        if a[m + ENDED]:
            free(a, slot)
        return
    _begin(a, m, slot)


def resume_poll(a: Any, m: Any) -> None:
    """Fetch after the answer to acknowledgements that were sent separately."""
    if not _is_stopped(a, m, POLL_RESUMES, m, 0):
        a[m + UNANSWERED] -= 1
        if a[m + IN_POLL]:
            poll(a, m)


def _begin(a: Any, m: Any, slot: Any) -> None:
    a[m + IN_POLL] = a[m + IDLE_UNTIL] = 0
    a[m + POLLS] += 1
    a[m + WORKING_ON], a[m + ENTRY], a[m + RECORD] = slot, 0, a[slot + SLOT_HEAD + E_FIRST]
    a[slot + HOLDS] = 0
    a[slot + ONE_BY_ONE] = a[m + COMMIT] != BY_POLL or may_crash(a, slot)
    if a[m + HAS_ACCIDENTS]:
        _draw_accident(a, m, a[m + POLL] + measure_part(a, m, slot, False))
    if a[m + RENEW]:
        push(a, a[NOW] + a[m + RENEW], RENEWAL_DUE, m, a[m + POLLS])
    start_part(a, m, a[m + POLL])


def renew_locks(a: Any, m: Any, of_poll: Any) -> None:
    """Renew the locks of all unacknowledged records, and schedule the next renewal."""
    if _is_stopped(a, m, RENEWAL_DUE, m, of_poll):
        return
    slot = a[m + WORKING_ON]
    if of_poll == a[m + POLLS] and slot >= 0:
        _acknowledge(a, m, slot, ACKS_ARRIVE, ACKS_ARRIVE, True)
        push(a, a[NOW] + a[m + RENEW], RENEWAL_DUE, m, of_poll)


def _draw_accident(a: Any, m: Any, duration: Any) -> None:
    """Draw whether a member crashes or hangs during the work that starts now."""
    at = a[m + DRAWN_AT] + a[m + DRAWN]
    a[m + DRAWN] += 3
    when = a[NOW] + int(a[at + 2] * _PART * duration)
    if a[at] < a[m + BELOW_CRASH]:
        push(a, when, CRASHED, m, 0)
    elif a[at + 1] < a[m + BELOW_HANG]:
        push(a, when, HUNG, m, 0)


def start_part(a: Any, m: Any, before: Any) -> None:
    """Start the next part after some microseconds."""
    duration = measure_part(a, m, a[m + WORKING_ON], True)
    a[m + BUSY_SINCE] = a[NOW]
    push(a, a[NOW] + before + duration, PART_DONE, m, 0)


def end_part(a: Any, m: Any) -> None:
    """End a part: acknowledge it with the next poll, or at once if more follows."""
    slot = a[m + WORKING_ON]
    if _is_stopped(a, m, PART_DONE, m, 0):
        if a[m + ENDED]:
            free(a, slot)
        return
    if a[m + BUSY_SINCE] >= 0:  # otherwise it has hung
        a[m + BUSY] += a[NOW] - a[m + BUSY_SINCE]
        a[m + BUSY_SINCE] = -1
    if a[m + CRASHES]:
        a[m + WORKING_ON] = -1
        free(a, slot)
        call_python(a, CRASH_NOW, m)
        return
    skip_part(a, m, slot)
    entry, record = a[m + ENTRY], a[m + RECORD]
    is_last = entry == a[slot + ENTRIES]
    # The rest after an error may be silent and take no time: then nothing follows.
    if a[m + COMMIT] == BY_ERROR and not a[slot + HOLDS]:
        is_last = is_last or is_rest_silent(a, m, slot, entry, record)
    is_rest = False
    if is_last and not a[slot + HOLDS]:
        a[m + ENTRY], a[m + RECORD] = 0, a[slot + SLOT_HEAD + E_FIRST]
        is_rest = move_to_held(a, m, slot)
    if is_last and not is_rest:
        a[m + WORKING_ON], a[m + PENDING] = -1, slot
        poll(a, m)
        return
    waits = _acknowledge(a, m, slot, ACKS_ARRIVE, ACKS_BEFORE_WORK, False)
    if is_rest:  # from now on it acknowledges held records
        a[slot + HOLDS] = a[slot + ONE_BY_ONE] = 1
    if not waits:
        start_part(a, m, 0)


parts(globals())
