"""Requests of members: their acknowledgements, as they arrive and when they are written."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import part
from sharelag.whatif.compiled.acknowledging import acknowledge, check_rows, records_in, rows_end
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.queue import push
from sharelag.whatif.compiled.serving import after_write, forget, is_dead, node_of, wake
from sharelag.whatif.compiled.states import counts_of, expire, finish, release_all, see_time


@part
def new_ask(a: Any, m: Any) -> Any:
    """An empty request of a member."""
    ask = a[FREE_ASK]
    a[FREE_ASK] = a[ask + A_NEXT_FREE]
    a[FREE_ASKS] -= 1
    a[ask + A_OF], a[ask + A_ROWS] = m, 0
    a[ask + A_TYPES] = ask + ASK_HEAD + a[ASK_ROWS] * ROW
    return ask


@part
def free_ask(a: Any, ask: Any) -> None:
    """A request is over."""
    a[ask + A_NEXT_FREE] = a[FREE_ASK]
    a[FREE_ASK] = ask
    a[FREE_ASKS] += 1


@part
def refuse(a: Any, ask: Any, begin: Any, end: Any) -> None:
    """Count acknowledgements in rows about one place that no leader takes."""
    p, m = a[ask + ASK_HEAD + begin * ROW + R_PLACE], a[ask + A_OF]
    counts = counts_of(a, a[p + INDEX], a[m + MEMBER_INDEX])
    a[counts + REFUSED] += records_in(a, ask, begin, end)
    a[counts + COUNTED] = 1


@part
def refuse_all(a: Any, ask: Any) -> None:
    """Take nothing of a request: its broker cannot be reached."""
    row = 0
    while row < a[ask + A_ROWS]:
        end = rows_end(a, ask, row)
        refuse(a, ask, row, end)
        row = end
    free_ask(a, ask)


@part
def check(a: Any, ask: Any) -> Any:
    """Take acknowledgements that are to be written; from when on there is an answer."""
    if ask < 0:
        return 0
    row, some, member = 0, False, a[a[ask + A_OF] + MEMBER_INDEX]
    while row < a[ask + A_ROWS]:
        p, end = a[ask + ASK_HEAD + row * ROW + R_PLACE], rows_end(a, ask, row)
        expire(a, p)
        see_time(a, p)
        if check_rows(a, p, ask, row, end, member):
            refuse(a, ask, row, end)
        else:
            a[ask + ASK_HEAD + row * ROW + R_TAKEN] = some = True
        row = end
    if not some:
        free_ask(a, ask)
        return 0
    push(a, a[NOW] + a[WRITE], ACKNOWLEDGED_NOW, ask, 0)
    for one in range(a[ask + A_ROWS]):
        at = ask + ASK_HEAD + one * ROW
        if a[at + R_TAKEN]:
            wake(a, a[at + R_PLACE])
    return a[NOW] + a[WRITE]


@part
def acknowledged(a: Any, ask: Any) -> None:
    """The share coordinator has accepted a write."""
    row, member = 0, a[a[ask + A_OF] + MEMBER_INDEX]
    while row < a[ask + A_ROWS]:
        at, end = ask + ASK_HEAD + row * ROW, rows_end(a, ask, row)
        if a[at + R_TAKEN]:
            p = a[at + R_PLACE]
            if expire(a, p):
                wake(a, p)
            start = a[p + START]
            a[CAUSE], a[CAUSE_NUMBER] = ACKNOWLEDGES, member
            see_time(a, p)
            if acknowledge(a, p, ask, row, end, member):
                refuse(a, ask, row, end)
            else:
                finish(a, p)
            after_write(a, p, start)
        row = end
    free_ask(a, ask)


@part
def closes(a: Any, m: Any) -> None:
    """End the share sessions of a member: release what it holds, forget what it waits for."""
    for number in range(a[PLACES]):
        p = a[PLACES_AT] + number * PLACE
        if a[node_of(a, m, p)]:
            forget(a, m)
        expire(a, p)
        wake(a, p)
        start = a[p + START]
        a[CAUSE], a[CAUSE_NUMBER] = CLOSES_SESSION, a[m + MEMBER_INDEX]
        see_time(a, p)
        release_all(a, p, a[m + MEMBER_INDEX])
        finish(a, p)
        after_write(a, p, start)


@part
def says(a: Any, m: Any, ask: Any, waits: bool) -> None:
    """Take a request that only acknowledges; nobody may wait for the answer."""
    if _is_unreachable(a, ask):
        refuse_all(a, ask)
        at = a[NOW] + RECONNECT
    else:
        at = max(a[NOW], check(a, ask)) + a[NETWORK]
    if waits:
        push(a, at, RESUMES, m, 0)
    else:
        a[NUMBER] += 1


@part
def _is_unreachable(a: Any, ask: Any) -> bool:
    """Whether a request is about a place whose leader is down."""
    if a[BROKERS_FAIL] and ask >= 0:
        for row in range(a[ask + A_ROWS]):
            if is_dead(a, a[ask + ASK_HEAD + row * ROW + R_PLACE]):
                return True
    return False
