"""Collect what is exported in the background, so that requests are cheap and never wait.

The cluster is queried at a fixed interval, however many clients scrape and however slowly it
answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sharelag.errors import ShareLagError
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.exports.scaling import scaling

_LOG = logging.getLogger(__name__)
#: Seconds to wait at the end for a collection under way: a client library cannot be interrupted.
_GRACE = 10.0
#: A result is shown no longer than this many times what a collection and the wait after it take,
#: and so many seconds at least: when a cluster hangs, its numbers end.
_SHOWN_TIMES, _SHOWN_SECONDS = 3.0, 10.0


@dataclass(frozen=True)
class Gathered:
    """The latest result, and statistics of the collection."""

    evidence: Evidence | None  # None: the last attempt failed, or there was none yet
    seconds: float | None = None  # duration of the last success
    succeeded: float | None = None  # time of the last success, in seconds since 1970
    errors: Mapping[str, int] = field(default_factory=dict)  # by kind, since the start
    attempts: int = 0  # since the start
    # The metrics as written, by content type.
    texts: dict[str, bytes] = field(default_factory=dict, compare=False)

    @cached_property
    def groups(self) -> dict[str, dict[str, Any]]:
        """The numbers of each group (see `scaling.scaling`), computed once per result."""
        return {} if self.evidence is None else scaling(self.evidence)


@contextmanager
def gathering(
    gather: Callable[[], Evidence],
    every: float,
    prepare: Callable[[Gathered, Gathered], None] | None = None,
) -> Iterator[Callable[[], Gathered]]:
    """Collect in a background thread until the end of the context.

    Parameters
    ----------
    gather : callable
        Gathers the evidence; its errors are counted and logged, and never sent to clients.
    every : float
        Seconds from the end of one collection to the beginning of the next.
    prepare : callable, optional
        Called with a result and the one before, to do ahead what requests would wait for.

    Yields
    ------
    callable
        Returns the latest result at once, also while the next one is collected; without its numbers
        when the next one is long overdue.
    """
    last = old = Gathered(None)
    since = time.monotonic()
    ended = threading.Event()

    def work() -> None:
        nonlocal last, since
        while not ended.is_set():
            found = _ask(gather, last, prepare)
            since = time.monotonic()
            last = found
            ended.wait(every)

    def latest() -> Gathered:
        nonlocal old
        now = last
        shown = max(_SHOWN_SECONDS, _SHOWN_TIMES * (every + (now.seconds or 0.0)))
        if now.evidence is None or time.monotonic() - since < shown:
            return now
        if old.succeeded != now.succeeded:  # one result, so that it is written once
            old = replace(now, evidence=None, texts={})
        return old

    thread = threading.Thread(target=work, name="sharelag-gathering", daemon=True)
    thread.start()
    try:
        yield latest
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
        _ = found.groups  # computed now, so that no request waits for it
        if prepare:
            prepare(found, before)
    except Exception as error:  # the server goes on, and its metrics count the error
        kind = type(error).__name__ if isinstance(error, ShareLagError) else "unexpected"
        _LOG.warning("collection failed: %s: %s", type(error).__name__, error)
        errors = {**before.errors, kind: before.errors.get(kind, 0) + 1}
        return Gathered(None, before.seconds, before.succeeded, errors, attempts)
    return found
