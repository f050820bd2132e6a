"""An interrupt (Ctrl+C, or a notebook's Interrupt) ends Spark's jobs, too, in any cell.

pyspark sees to that only where its context is made in the main thread, since Python sets handlers
of signals nowhere else, and a notebook's kernel puts Python's own back before each cell. A
dashboard starts Spark in a thread. So each question of the main thread sees to it.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any

#: How often to ask before the jobs are left alone.
_ATTEMPTS = 10
#: The context that we made.
_OURS: list[Any] = []


def started() -> None:
    """Note that we started the Spark that is active now."""
    _OURS[:] = filter(None, [_context()])


def cancel_jobs() -> None:
    """Let an interrupt of the main thread cancel the jobs of a Spark that we started.

    Handlers that somebody else set stay. Spark Connect has no such jobs in this process.
    """
    if not _OURS or current_thread() is not main_thread() or _context() is not _OURS[0]:
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _cancel)


def _cancel(number: int, frame: FrameType | None) -> None:
    context = _context()
    if context is not None:
        # The main thread's own connection to Java may be busy with the very job.
        Thread(target=_ask, args=(context,), name="sharelag-cancel", daemon=True).start()
    signal.default_int_handler(number, frame)


def _ask(context: Any) -> None:
    """Ask Java to cancel all jobs; a Java that has gone has none."""
    from py4j.protocol import Py4JNetworkError

    for _ in range(_ATTEMPTS):
        # On a busy machine the first connection after an interrupt may fail: the next one is new.
        with suppress(Py4JNetworkError, OSError):
            context.cancelAllJobs()
            return


def _context() -> Any:
    from pyspark import SparkContext

    return SparkContext._active_spark_context
