"""Cancellable work in a separate thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .still import is_of_voila

#: States of a run.
STATES = ("idle", "running", "done", "cancelled", "failed")
#: Minimum seconds between reports of progress; the last one is always sent.
_PAUSE = 0.05


class Run:
    """A call in a thread: ``act(cancelled, progress)``.

    ``act`` calls ``cancelled()`` regularly and returns early if true, and reports
    ``progress(done, total)``, which is passed to ``progressed`` after the run itself. ``ended``
    receives the run, the result of ``act``, and the exception that it raised instead.
    """

    def __init__(
        self,
        act: Callable[[Callable[[], bool], Callable[[int, int], None]], Any],
        ended: Callable[[Run, Any, BaseException | None], None],
        progressed: Callable[[Run, int, int], None] = lambda *_: None,
    ) -> None:
        self._act, self._progressed, self._ended = act, progressed, ended
        self._cancelled = threading.Event()
        self._reported_at = -_PAUSE
        # A daemon thread, so that closing the notebook does not wait for a simulation.
        self._thread = threading.Thread(target=self._go, name="sharelag-what-if", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def cancel(self) -> None:
        """Request that the call ends early."""
        self._cancelled.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it ends; return whether it did."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _go(self) -> None:
        try:
            given = self._act(self._cancelled.is_set, self._progress)
        except BaseException as error:  # even an exit must not leave the view waiting
            self._ended(self, None, error)
        else:
            self._ended(self, given, None)

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total or now - self._reported_at >= _PAUSE:
            self._reported_at = now
            self._progressed(self, int(done), int(total))


def is_watched() -> bool:
    """Return whether a user runs the cell, so that parts can be shown before all is there.

    Unattended runs (nbconvert, papermill) allow no input requests. Voila does not either, but its
    pages are watched.
    """
    if is_of_voila():
        return True
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))
