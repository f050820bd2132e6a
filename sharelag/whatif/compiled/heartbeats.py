"""Heartbeats: most of them change nothing, and Python handles the others."""

from typing import Any

from sharelag.compiled import parts
from sharelag.whatif.compiled.layout import *
from sharelag.whatif.compiled.queue import push
from sharelag.whatif.compiled.working import call_python


def send_heartbeat(a: Any, m: Any, number: Any) -> None:
    """Send a heartbeat and schedule the next, unless another one was scheduled since."""
    hangs_for = a[m + HUNG_UNTIL] - a[NOW]
    if a[m + ENDED]:
        return
    if hangs_for > 0:
        if hangs_for < EVER:
            push(a, a[m + HUNG_UNTIL], HEARTBEAT_DUE, m, number)
        return
    if number != a[m + HEARTBEATS] or not a[m + SUBSCRIBES]:
        return
    a[m + HEARTBEATS] += 1
    if a[NOW] >= a[m + MUTED_UNTIL]:
        push(a, a[NOW] + a[NETWORK], HEARTBEAT_ARRIVES, m, 0)
    push(a, a[NOW] + a[INTERVAL], HEARTBEAT_DUE, m, a[m + HEARTBEATS])


def handle_heartbeat(a: Any, m: Any) -> None:
    """Note the time of a heartbeat that changes nothing in the group or for the member."""
    if a[m + ENDED] or not a[m + SUBSCRIBES]:
        return
    if a[NOW] < a[CALM_UNTIL] and a[m + KNOWS] == a[ASSIGNMENTS]:
        a[m + HEARD] = a[NOW]
    else:
        call_python(a, HEARTBEAT_NOW, m)


parts(globals())
