"""Work in a separate thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .still import is_of_voila

#: How a run can be.
STATES = ("idle", "running", "done", "cancelled", "failed")
#: Seconds between two words of progress; the last one is always said.
_PAUSE = 0.05


class Run:
    """A call that is going on in a thread: ``act(cancelled, progress)``.

    ``act`` asks ``cancelled()`` now and then and gives up if so, and says ``progress(done,
    total)``, which ``progressed`` takes after the run. ``ended`` takes the run, what ``act`` gave,
    and the exception that it raised instead.
    """

    def __init__(
        self,
        act: Callable[[Callable[[], bool], Callable[[int, int], None]], Any],
        ended: Callable[[Run, Any, BaseException | None], None],
        progressed: Callable[[Run, int, int], None] = lambda *_: None,
    ) -> None:
        self._act, self._progressed, self._ended = act, progressed, ended
        self._cancelled = threading.Event()
        self._said = -_PAUSE
        # Who closes the notebook does not wait for a simulation.
        self._thread = threading.Thread(target=self._go, name="sharelag-what-if", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def cancel(self) -> None:
        """Ask it to give up."""
        self._cancelled.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it ends; return whether it did."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _go(self) -> None:
        try:
            given = self._act(self._cancelled.is_set, self._progress)
        except BaseException as error:  # an exit must not leave the view waiting
            self._ended(self, None, error)
        else:
            self._ended(self, given, None)

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total or now - self._said >= _PAUSE:
            self._said = now
            self._progressed(self, int(done), int(total))


def is_watched() -> bool:
    """Whether a person runs the cell, and can be shown a part first; else all has to be there.

    Who runs notebooks without people (nbconvert, papermill) allows no questions to them; neither
    does Voila.
    """
    if is_of_voila():
        return True
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))
