"""What is exported now, gathered in the background, so that a request is cheap and never waits.

A cluster is asked once every so many seconds, however many scrape, and whether it answers, is slow,
or does not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sharelag.errors import ShareLagError
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.exports.scaling import scaling

_LOG = logging.getLogger(__name__)
#: Seconds that a gathering may go on when nobody wants its result any more: a client library is not
#: interrupted.
_GRACE = 10.0


@dataclass(frozen=True)
class Gathered:
    """The last answer, and how asking goes."""

    evidence: Evidence | None  # None: the last time there was no answer, or there was no time yet
    seconds: float | None = None  # how long the last answer took
    succeeded: float | None = None  # when there last was one, in seconds since 1970
    errors: Mapping[str, int] = field(default_factory=dict)  # by kind, since the start
    attempts: int = 0  # how often it was tried, since the start
    texts: dict[str, bytes] = field(
        default_factory=dict, compare=False
    )  # the metrics as written, by content type

    @cached_property
    def groups(self) -> dict[str, dict[str, Any]]:
        """The numbers of each group (see `scaling.scaling`), worked out once for all who ask."""
        return {} if self.evidence is None else scaling(self.evidence)


@contextmanager
def gathering(
    gather: Callable[[], Evidence],
    every: float,
    prepare: Callable[[Gathered, Gathered], None] | None = None,
) -> Iterator[Callable[[], Gathered]]:
    """Gather in one thread of its own until the end of the context.

    Parameters
    ----------
    gather : callable
        Gathers the evidence; what it raises is counted, logged and told to nobody who asks over the
        network.
    every : float
        Seconds from the end of one gathering to the beginning of the next.
    prepare : callable, optional
        Does with a result, and the one before, what would else be done when somebody asks.

    Yields
    ------
    callable
        What is known now, at once: the last result, also while the next one is gathered; nothing
        before the first.
    """
    last = Gathered(None)
    ended = threading.Event()

    def work() -> None:
        nonlocal last
        while not ended.is_set():
            last = _ask(gather, last, prepare)
            ended.wait(every)

    thread = threading.Thread(target=work, name="sharelag-gathering", daemon=True)
    thread.start()
    try:
        yield lambda: last
    finally:
        ended.set()
        thread.join(_GRACE)


def _ask(
    gather: Callable[[], Evidence],
    before: Gathered,
    prepare: Callable[[Gathered, Gathered], None] | None,
) -> Gathered:
    begun = time.monotonic()
    attempts = before.attempts + 1
    try:
        evidence = gather()
        found = Gathered(evidence, time.monotonic() - begun, time.time(), before.errors, attempts)
        _ = found.groups  # now, so that nobody who asks has to wait for it
        if prepare:
            prepare(found, before)
    except Exception as error:  # a server goes on; what is wrong is among its own metrics
        kind = type(error).__name__ if isinstance(error, ShareLagError) else "unexpected"
        _LOG.warning("could not gather: %s: %s", type(error).__name__, error)
        errors = {**before.errors, kind: before.errors.get(kind, 0) + 1}
        return Gathered(None, before.seconds, before.succeeded, errors, attempts)
    return found
