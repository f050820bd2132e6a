"""How long something takes, without the time that a busy machine gives to others."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_STATISTICS = Path("/proc/thread-self/schedstat")


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """Call a function; return its result, and its seconds without waits for a processor.

    What it waits for may itself wait for a processor, which still counts.
    """
    begun, starved = time.monotonic(), _starved()
    result = call()
    return result, time.monotonic() - begun - (_starved() - starved)


def _starved() -> float:
    """Return the seconds that this thread was ready to run while others had all processors."""
    return int(_STATISTICS.read_text().split()[1]) / 1e9 if _STATISTICS.exists() else 0.0
