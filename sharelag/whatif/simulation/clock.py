"""Virtual time: actions in the order of their times; simultaneous ones as scheduled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from typing import Any

#: Microseconds in a millisecond; the clock counts microseconds.
MS = 1000
#: Actions between two looks whether anybody still waits.
_OFTEN = 1024
_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


class CancelledError(Exception):
    """Nobody waits any more."""


@contextmanager
def cancellable(
    cancelled: Callable[[], bool], progress: Callable[[int, int], object]
) -> Iterator[Callable[[int, int], None]]:
    """Give what reports progress; that and the simulations within raise once it is cancelled."""

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
    """Raise `CancelledError` within `cancellable` when nobody waits any more."""
    asked = _CHECK.get()
    if asked is not None:
        asked()


class Clock:
    """Virtual time: ``now``, in microseconds from the begin, ``begins_ms`` after the epoch."""

    __slots__ = ("_actions", "_number", "begins_ms", "now")

    def __init__(self, begins_ms: int) -> None:
        self.now, self.begins_ms = 0, begins_ms
        self._actions: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    @property
    def now_ms(self) -> int:
        """The time as brokers have it: whole milliseconds since the epoch."""
        return self.begins_ms + self.now // MS

    def at(self, time: int, action: Callable[..., object], *arguments: Any) -> None:
        """Do something at a time, in microseconds; what is past already is done next."""
        self._number += 1
        heappush(self._actions, (max(time, self.now), self._number, action, arguments))

    def after(self, span: int, action: Callable[..., object], *arguments: Any) -> None:
        """Do something after a span of microseconds."""
        self.at(self.now + span, action, *arguments)

    def run(self, until: int) -> None:
        """Let time pass, that moment included."""
        actions = self._actions
        while actions and actions[0][0] <= until:
            for _ in range(_OFTEN):
                self.now, _, action, arguments = heappop(actions)
                action(*arguments)
                if not actions or actions[0][0] > until:
                    break
            check()
        self.now = until
