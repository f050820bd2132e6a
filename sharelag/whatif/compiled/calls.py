"""The calls from Python into the loop: one kernel, so that shared code is compiled once."""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.heartbeats import send_heartbeat
from sharelag.whatif.compiled.kernel import run, sample
from sharelag.whatif.compiled.layout import HEARTBEATS
from sharelag.whatif.compiled.requests import close_member
from sharelag.whatif.compiled.serving import end_leader, note_drained, wake
from sharelag.whatif.compiled.states import expire, move_start
from sharelag.whatif.compiled.window import held_in
from sharelag.whatif.compiled.working import close_sessions, poll

RUN, SAMPLE, NOTE_DRAINED, CLOSE_MEMBER, POLL, CLOSE_SESSIONS = range(6)
MOVE_START, EXPIRE, WAKE, END_LEADER, HELD_IN, HEARTBEAT = range(6, 12)


def call_kernel(a: Any, what: Any, at: Any, number: Any) -> Any:
    """Call the kernel that Python names, with a member, place or time; return two numbers."""
    found = 0
    if what == RUN:
        return run(a, at, number)
    if what == SAMPLE:
        sample(a)
    elif what == NOTE_DRAINED:
        note_drained(a, at)
    elif what == CLOSE_MEMBER:
        close_member(a, at)
    elif what == POLL:
        poll(a, at)
    elif what == CLOSE_SESSIONS:
        found = int(close_sessions(a, at))
    elif what == MOVE_START:
        move_start(a, at)
    elif what == EXPIRE:
        expire(a, at)
    elif what == WAKE:
        wake(a, at)
    elif what == END_LEADER:
        end_leader(a, at)
    elif what == HELD_IN:
        found = held_in(a, at)
    elif what == HEARTBEAT:
        send_heartbeat(a, at, a[at + HEARTBEATS])
    return found, 0


parts(globals())
