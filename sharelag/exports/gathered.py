"""What is exported now? Gathered once for all who ask within a while, so that asking is cheap.

A cluster is asked at most once every so many seconds, however many scrape, and also when the answer was an error.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sharelag.errors import ShareLagError
from sharelag.exports.scaling import scaling
from sharelag.metrics.evidence import Evidence

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Gathered:
    """The last answer, and how asking goes."""

    evidence: Evidence | None  # None: the last time there was no answer
    seconds: float | None = None  # how long the last answer took
    succeeded: float | None = None  # when there last was one, in seconds since 1970
    errors: dict[str, int] = field(default_factory=dict)  # by kind, since the start

    @cached_property
    def groups(self) -> dict[str, dict[str, Any]]:
        """The numbers of each group (`sharelag.exports.scaling.scaling`), worked out once for all who ask."""
        return {} if self.evidence is None else scaling(self.evidence)


class Cache:
    """Gathers again when what it has is older than ``every`` seconds.

    Parameters
    ----------
    gather : callable
        Gathers the evidence; what it raises is counted, logged and told to nobody who asks over the network.
    every : float
        Seconds.
    clock : callable
        Seconds that only rise.
    """

    def __init__(
        self, gather: Callable[[], Evidence], every: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gather, self._every, self._clock = gather, every, clock
        self._lock = threading.Lock()
        self._at: float | None = None
        self._errors: Counter[str] = Counter()
        self._last = Gathered(None)

    def __call__(self) -> Gathered:
        """What is known now. Who comes while it is gathered waits for the same answer."""
        with self._lock:
            if self._at is None or self._clock() - self._at >= self._every:
                self._last = self._ask()
                self._at = self._clock()
            return self._last

    def _ask(self) -> Gathered:
        begun = self._clock()
        try:
            evidence = self._gather()
        except Exception as error:  # a server goes on; what is wrong is among its own metrics
            kind = type(error).__name__ if isinstance(error, ShareLagError) else "unexpected"
            self._errors[kind] += 1
            _LOG.warning("could not gather: %s: %s", type(error).__name__, error)
            return Gathered(None, self._last.seconds, self._last.succeeded, dict(self._errors))
        return Gathered(evidence, self._clock() - begun, time.time(), dict(self._errors))
