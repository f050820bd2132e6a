"""Virtual time: actions in the order of their times, and simultaneous ones as scheduled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from typing import Any

#: Microseconds in a millisecond; the clock counts microseconds.
MS = 1000
#: Actions between two checks for cancellation.
_OFTEN = 1024
_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


class CancelledError(Exception):
    """The caller has cancelled the simulation."""


@contextmanager
def cancellable(
    cancelled: Callable[[], bool], progress: Callable[[int, int], object]
) -> Iterator[Callable[[int, int], None]]:
    """Yield a progress callback; it and simulations within the block raise once cancelled."""

    def check() -> None:
        if cancelled():
            raise CancelledError

    def report(done: int, total: int) -> None:
        check()
        progress(done, total)

    token = _CHECK.set(check)
    try:
        yield report
    finally:
        _CHECK.reset(token)


def check() -> None:
    """Raise `CancelledError` within a `cancellable` block that was cancelled."""
    check = _CHECK.get()
    if check is not None:
        check()


class Clock:
    """Virtual time: ``now`` is in microseconds since ``begins_ms``, which counts from the epoch."""

    __slots__ = ("_actions", "_number", "begins_ms", "now")

    def __init__(self, begins_ms: int) -> None:
        self.now, self.begins_ms = 0, begins_ms
        self._actions: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    @property
    def now_ms(self) -> int:
        """The brokers' time: whole milliseconds since the epoch."""
        return self.begins_ms + self.now // MS

    def at(self, time: int, action: Callable[..., object], *arguments: Any) -> None:
        """Schedule an action at a time in microseconds, at the earliest now."""
        self._number += 1
        heappush(self._actions, (max(time, self.now), self._number, action, arguments))

    def after(self, span: int, action: Callable[..., object], *arguments: Any) -> None:
        """Schedule an action after a span of microseconds."""
        self.at(self.now + span, action, *arguments)

    def run(self, until: int) -> None:
        """Advance the time to ``until``, inclusive."""
        actions = self._actions
        while actions and actions[0][0] <= until:
            for _ in range(_OFTEN):
                self.now, _, action, arguments = heappop(actions)
                action(*arguments)
                if not actions or actions[0][0] > until:
                    break
            check()
        self.now = until
