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
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sharelag.errors import ShareLagError
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.exports.scaling import scaling

_LOG = logging.getLogger(__name__)
#: Seconds to wait at the end for a collection under way: a client library cannot be interrupted.
_GRACE = 10.0


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
        Returns the latest result at once, also while the next one is collected.
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
        _ = found.groups  # computed now, so that no request waits for it
        if prepare:
            prepare(found, before)
    except Exception as error:  # the server goes on, and its metrics count the error
        kind = type(error).__name__ if isinstance(error, ShareLagError) else "unexpected"
        _LOG.warning("collection failed: %s: %s", type(error).__name__, error)
        errors = {**before.errors, kind: before.errors.get(kind, 0) + 1}
        return Gathered(None, before.seconds, before.succeeded, errors, attempts)
    return found
