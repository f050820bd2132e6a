"""How long brokers that do not answer are waited for: once, however many requests wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: Seconds that a request has at least: brokers that are well answer within it.
LEAST = 0.25
#: Seconds that requests have together once the timeout is lost: opening a connection with TLS and a
#: login to a broker that is well may take longer than `LEAST`.
GRACE = 0.75
#: Seconds that a client has at least that reads records: it is a new one each time, which begins
#: with connections to all leaders.
READING = 1.5


@dataclass
class Patience:
    """Time that was lost on brokers that did not answer, over all requests of a client's settings.

    A command asks many things of the same brokers. If each of them waited for the whole timeout, a
    silent broker would cost a multiple of it. So what was waited in vain is taken from what the
    following requests have. Requests that are answered cost nothing, however long they take, unless
    others were waited for in vain before: then brokers are in trouble, and late answers, such as
    those that come when leaders have moved, would add up.

    Parameters
    ----------
    timeout : float
        Seconds to lose at most, beside `GRACE`; they are there again when none was lost for that
        long.
    clock : callable
        Returns seconds that never go back.
    """

    timeout: float
    clock: Callable[[], float] = time.monotonic
    #: The client that some brokers answered while others did not; see `known`.
    _known: Any = field(default=None, init=False, repr=False)
    _lost: float = field(default=0.0, init=False)
    _last: float = field(default=0.0, init=False)

    def left(self) -> float:
        """Return how long the next request may wait, in seconds."""
        if self._lost and self.clock() - self._last > self.timeout:
            self._lost = 0.0
        return max(min(self.timeout, self.timeout + GRACE - self._lost), LEAST)

    def lose(self, seconds: float) -> None:
        """Note that so long was waited for a broker that did not answer."""
        self.left()  # what was lost long ago counts no more
        self._lost += seconds
        self._last = self.clock()

    def answered(self, seconds: float) -> None:
        """Note that an answer came after so long."""
        if seconds > LEAST and self.left() < self.timeout:
            self.lose(seconds)

    @property
    def known(self) -> Any:
        """The client that has connections to brokers that answer; None while no time is lost.

        When little time is left, a new client may not have logged in within it.
        """
        if self.left() == self.timeout:
            self._known = None
        return self._known

    @known.setter
    def known(self, client: Any) -> None:
        self._known = client

    def __reduce__(self) -> tuple[Any, ...]:
        return Patience, (self.timeout,)  # clients stay in their process
