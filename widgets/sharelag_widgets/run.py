"""One call of a function in a separate thread, which can be cancelled."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

#: Seconds between two words of progress; the last one is always said.
_PAUSE = 0.05


class Run:
    """A call that is going on.

    Parameters
    ----------
    act : callable
        ``act(cancelled, progress)``: it asks ``cancelled()`` now and then and gives up if so, and
        says ``progress(done, total)``.
    progressed : callable
        Takes the run, how much is done, and of how much. In the thread.
    ended : callable
        Takes the run, what ``act`` gave, and the exception that it raised instead. In the thread.
    """

    def __init__(
        self,
        act: Callable[[Callable[[], bool], Callable[[int, int], None]], Any],
        progressed: Callable[[Run, int, int], None],
        ended: Callable[[Run, Any, BaseException | None], None],
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
    does Voila, whose pages live and whose people look on.
    """
    if "VOILA_KERNEL_ID" in os.environ:
        return True
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))
