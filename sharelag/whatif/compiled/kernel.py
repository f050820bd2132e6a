"""The event loop, which handles events until Python is needed, and samples of the state."""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.acquiring import batch_at
from sharelag.whatif.compiled.heartbeats import handle_heartbeat, send_heartbeat
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.queue import drop, first
from sharelag.whatif.compiled.requests import apply_acks, check_acks, handle_acks, refuse_all
from sharelag.whatif.compiled.serving import (
    end_wait,
    expire_locks,
    fail_fetch,
    fetch_end,
    log_end,
    serve_fetch,
    wake,
)
from sharelag.whatif.compiled.window import held_in
from sharelag.whatif.compiled.working import (
    call_python,
    end_part,
    end_poll,
    handle_answer,
    handle_buffered,
    renew_locks,
    resume_poll,
    start_part,
)


def _find_undrawn(a: Any, m: Any, slot: Any) -> Any:
    """Return which random numbers a member needs before it can process a slot, or 0."""
    for entry in range(a[slot + ENTRIES]):
        at = SLOT_HEAD + entry * ENTRY_SIZE
        p, count = a[slot + at + E_PLACE], a[slot + at + E_COUNT]
        first, last = a[slot + at + E_FIRST] // CHUNK, a[slot + at + E_LAST] // CHUNK
        for chunk in range(first, last + 1):
            number = a[p + CHUNK_AT] + chunk - a[p + FIRST_CHUNK]
            work = a[m + WORK_AT] + a[PLACES] + number
            chance = a[CHANCES_AT] + (count - 1) * a[CHUNKS] + number
            a[MISSING_PLACE], a[MISSING_CHUNK] = a[p + INDEX], chunk
            if not a[m + IS_FIXED] and a[work] < 0:
                a[MISSING_OF] = m
                return DRAW_WORK
            if not a[m + ACCEPTS_ALL] and a[chance] < 0:
                a[MISSING_OF] = count
                return DRAW_CHANCE
    if a[m + HAS_ACCIDENTS] and a[m + DRAWN] == a[m + DRAWS]:
        a[MISSING_OF] = m
        return DRAW_ACCIDENT
    return 0


def _is_full(a: Any) -> bool:
    """Return whether the next event might need more room than is left."""
    members, places = a[MEMBERS], a[PLACES]
    changes = a[HELD_BY_ALL] + 8
    return bool(
        a[IS_CRAMPED]
        or a[EVENTS] + 2 * (members + a[BROKERS]) + 4 * places + 8 > a[EVENTS_ROOM]
        or a[FREE_SLOTS] < members * a[SLOTS_EACH] + 1
        or a[FREE_ACKS] < a[BROKERS] + 2
        or a[RUNS] + changes > a[RUNS_ROOM]
        or a[WRITES] + changes > a[WRITES_ROOM]
        or a[REQUESTS] + 2 * a[BROKERS] + 8 > a[REQUESTS_ROOM]
    )


def _handle(a: Any, kind: Any, subject: Any, more: Any) -> None:
    if kind == PART_DONE:
        end_part(a, subject)
    elif kind == FETCH_ARRIVES:
        if not fail_fetch(a, subject):
            serve_fetch(a, subject, check_acks(a, more))
        elif more >= 0:
            refuse_all(a, more)
    elif kind == ANSWERED:
        handle_answer(a, subject, more)
    elif kind == ACKS_WRITTEN:
        apply_acks(a, subject)
    elif kind == UNLOCKED:
        p = a[PLACES_AT] + subject * PLACE
        a[p + UNLOCK_DUE] = 0
        wake(a, p)
    elif kind == APPENDED:
        p = a[PLACES_AT] + subject * PLACE
        a[p + APPEND_DUE] = 0
        fetch_end(a, p)
        wake(a, p)
    elif kind == LOCKS_END:
        expire_locks(a, a[PLACES_AT] + subject * PLACE, more)
    elif kind == WAIT_ENDS:
        end_wait(a, subject, more)
    elif kind == CRASHED:
        call_python(a, CRASH_NOW, subject)
    elif kind == HUNG:
        call_python(a, HANG_NOW, subject)
    elif kind == WORK_RESUMES:
        start_part(a, subject, 0)
    elif kind == ACKS_BEFORE_WORK:
        handle_acks(a, subject, more, WORK_RESUMES)
    elif kind == ACKS_ARRIVE:
        handle_acks(a, subject, more, -1)
    elif kind == ACKS_BEFORE_POLL:
        handle_acks(a, subject, more, POLL_RESUMES)
    elif kind == POLL_RESUMES:
        resume_poll(a, subject)
    elif kind == COLLECTED:
        handle_buffered(a, subject, more)
    elif kind == POLL_ENDS:
        end_poll(a, subject)
    elif kind == RENEWAL_DUE:
        renew_locks(a, subject, more)
    elif kind == HEARTBEAT_DUE:
        send_heartbeat(a, subject, more)
    elif kind == HEARTBEAT_ARRIVES:
        handle_heartbeat(a, subject)


def run(a: Any, until: Any, number: Any) -> Any:
    """Handle the events before ``until``, and at it those below ``number``.

    Returns one of the codes of `layout` for Python, and a member; after ENDED_RUN, the time of the
    next event instead.
    """
    event = first(a)
    while event and (a[event] < until or (a[event] == until and a[event + 1] < number)):
        kind, subject = a[event + 2] >> KIND_BITS, a[event + 2] & ((1 << KIND_BITS) - 1)
        more = a[event + 3]
        if kind in (ANSWERED, COLLECTED) and more >= 0:
            m = a[subject + S_MEMBER] if kind == ANSWERED else subject
            undrawn = _find_undrawn(a, m, more)
            if undrawn:
                return undrawn, 0
        if _is_full(a):
            return GROW, 0
        a[NOW] = a[event]
        drop(a, event)
        _handle(a, kind, subject, more)
        if a[CALLS]:
            code = a[CALLS]
            a[CALLS] = 0
            return code, a[CALLED]
        event = first(a)
    return ENDED_RUN, a[event] if event else NEVER


def sample(a: Any) -> None:
    """Fill in a row for each place with its current state."""
    for number in range(a[PLACES]):
        p, row = a[PLACES_AT] + number * PLACE, a[SAMPLE_AT] + number * SAMPLE
        end = log_end(a, p)
        lag = end - a[p + START] - a[p + COMPLETE]
        a[row], a[row + 1] = a[p + LOG_START], a[p + START]
        a[row + 2] = a[p + END] + a[p + IN_MEMORY]
        a[row + 3], a[row + 4], a[row + 5], a[row + 6] = a[p + COMPLETE], held_in(a, p), end, lag
        a[row + 7] = max(a[NOW] - _append_time(a, p, a[p + START]), 0) // 1000 if lag > 0 else 0


def _append_time(a: Any, p: Any, offset: Any) -> Any:
    last = a[p + BATCHES]
    batch = min(max(batch_at(a, p, offset, 0, last), 0), last - 1)
    return a[a[p + TIMES_AT] + batch] if last else 0


parts(globals())
