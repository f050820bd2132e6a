"""Since when records arrive and are finished as they do now: after the last change of either.

    finished in each part of the span    40 41 39 40 42 | 3 0 2 1 2
                                                        since

A change is where all parts after it are beyond all parts before it, and twice as high or low in the
mean; so neither chance nor a single lump of acknowledgements makes one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharelag.metrics.observed import BINS

#: Parts on each side of a change: of fewer no mean would say anything.
_LEAST = 2
_TIMES = 2.0
#: The 97.5 % point of Student's t distribution with BINS - 1 degrees of freedom.
STUDENT_T = 2.262157162798
#: With 1, 2, ... degrees of freedom.
_STUDENT_T = np.array(
    [
        *(12.7062047, 4.3026527, 3.1824463, 2.7764451),
        *(2.5705818, 2.4469119, 2.3646243, 2.3060041, STUDENT_T),
    ]
)

_Floats = NDArray[np.float64]


def last_change(*series: _Floats) -> NDArray[np.int64]:
    """Return the part of the span with which the present regime of each row begins.

    Parameters
    ----------
    *series : float64[rows, BINS]
        What is to change; NaN where unknown, which changes nothing.
    """
    since = np.zeros(len(series[0]), np.int64)
    for _ in range(BINS // _LEAST):
        for parts in series:
            since = _split(parts, since)
    return since


def _split(parts: _Floats, since: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the parts from ``since`` on differ most, or ``since`` where they do not."""
    place, best, found = np.arange(BINS), np.zeros(len(parts)), since
    for at in range(_LEAST, BINS - _LEAST + 1):
        is_before = (place < at) & (place >= since[:, np.newaxis])
        before = np.where(is_before, parts, np.nan)
        low, high = np.fmin.reduce(before, axis=1), np.fmax.reduce(before, axis=1)
        counts = is_before.sum(axis=1)
        was = np.where(is_before, parts, 0).sum(axis=1) / np.maximum(counts, 1)
        after = parts[:, at:]
        now = after.mean(axis=1)
        apart = (after.min(axis=1) > high) & (now >= _TIMES * was)
        apart |= (after.max(axis=1) < low) & (_TIMES * now <= was)
        apart &= (counts >= _LEAST) & (abs(now - was) > best)
        found, best = np.where(apart, at, found), np.where(apart, abs(now - was), best)
    return found


def mean_since(parts: _Floats, since: NDArray[np.int64]) -> tuple[_Floats, _Floats]:
    """Return the mean of the parts since then, and the half-width of its 95 % interval."""
    counts = BINS - since
    chosen = np.arange(BINS) >= since[:, np.newaxis]
    mean = np.where(chosen, parts, 0).sum(axis=1) / counts
    squares = np.where(chosen, (parts - mean[:, np.newaxis]) ** 2, 0).sum(axis=1)
    error = np.sqrt(squares / (counts - 1) / counts)
    return mean, _STUDENT_T[counts - 2] * error
