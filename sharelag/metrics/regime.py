"""Since when records arrive and are finished as they do now: after the last change of either.

    finished in each part of the span    40 41 39 40 42 | 3 0 2 1 2
                                                        since

A change is where all parts after it are beyond all parts before it, by more than chance: much
further than one part is from the next, and than counts of so many differ. So neither a lump of
acknowledgements nor a trend makes one, and a fall by a quarter that lasts is one. How fast the lag
grows is looked at like arrivals and completions: it is much steadier than either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sharelag.metrics.observed import BINS

#: Parts on each side of a change: of fewer no mean would say anything.
_LEAST = 2
#: Differences between neighbouring parts that tell how much parts differ by chance.
_LEAST_STEPS = 4
#: A change is so many standard errors, by those differences. Of random histories without a change,
#: lumpy ones included, one in fifty has one then.
_ERRORS = 5.5
#: And so many of counts that follow Poisson's distribution.
_COUNTED_ERRORS = 3.5
#: The least change that begins a regime: of the rate itself, and of growth as a share of arrivals.
_LEAST_CHANGE, _LEAST_GROWTH = 0.1, 0.05
#: Changes of one share partition that are looked for.
_CHANGES = 4
#: Where parts after a change begin, and where those before it end: at the same part, or one before.
_SPLITS = [
    (at, at - gap)
    for at in range(_LEAST, BINS - _LEAST + 1)
    for gap in (0, 1)
    if at - gap >= _LEAST
]
_TINY = 1e-9
#: From each part to the next one.
_STEPS = np.arange(BINS - 1)
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
_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


class _Measure(NamedTuple):
    """What may change: counts in each part, or by how much the lag grew there."""

    parts: _Floats  # [rows, BINS], NaN where unknown
    arrives: _Floats | None = None  # in a part: what growth is a share of; else the rate itself


def last_change(finished: _Floats, arrived: _Floats | None = None) -> _Ints:
    """Return the part of the span with which the present regime of each row begins.

    Parameters
    ----------
    finished : float64[rows, BINS]
        Offsets that were finished in each part; NaN where unknown, which changes nothing.
    arrived : float64[rows, BINS], optional
        Offsets that arrived in each part.

    Returns
    -------
    int64[rows]
        0 where nothing changed.
    """
    since = np.zeros(len(finished), np.int64)
    # Steps from part to part that belong to no change.
    calm = np.ones((len(finished), BINS - 1), bool)
    rows = np.arange(len(finished))
    for _ in range(_CHANGES):
        before = since.copy()
        for measure in _measures(finished[rows], None if arrived is None else arrived[rows]):
            found, until = _change(measure, since[rows], calm[rows])
            jump = (until[:, np.newaxis] - 1 <= _STEPS) & (found[:, np.newaxis] > _STEPS)
            calm[rows] &= ~(jump & (found > since[rows])[:, np.newaxis])
            since[rows] = found
        rows = np.flatnonzero(since > before)
        if not len(rows):
            break
    return since


def _measures(finished: _Floats, arrived: _Floats | None) -> list[_Measure]:
    if arrived is None:
        return [_Measure(finished)]
    known = ~np.isnan(arrived)
    usual = np.where(known, arrived, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return [_Measure(finished), _Measure(arrived), _Measure(arrived - finished, usual)]


def _change(measure: _Measure, since: _Ints, calm: _Bools) -> tuple[_Ints, _Ints]:
    """Return where the parts from ``since`` on change most, or ``since`` where they do not.

    Also where the parts before end: the part in which it changed may belong to neither side.
    """
    parts = measure.parts
    known = ~np.isnan(parts)
    sums, counts = _running(np.where(known, parts, 0)), _running(known)
    steps = np.diff(parts, axis=1)
    calm = calm & ~np.isnan(steps)
    squares, calms = _running(np.where(calm, steps**2, 0)), _running(calm)
    lowest = np.fmin.accumulate(parts[:, ::-1], axis=1)[:, ::-1]
    highest = np.fmax.accumulate(parts[:, ::-1], axis=1)[:, ::-1]
    found, end, best = since.copy(), since.copy(), np.zeros(len(parts))
    for at, until in _SPLITS:
        # How much parts differ by chance: by the steps that are not the jump itself.
        others = calms[:, -1] - calms[:, at] + calms[:, until - 1]
        spread = squares[:, -1] - squares[:, at] + squares[:, until - 1]
        noise = np.where(others >= _LEAST_STEPS, spread / (2 * np.maximum(others, 1)), np.inf)
        after, total = counts[:, -1] - counts[:, at], sums[:, -1] - sums[:, at]
        low = high = parts[:, until - 1]
        for begin in range(until - 2, -1, -1):
            low, high = np.fmin(low, parts[:, begin]), np.fmax(high, parts[:, begin])
            before, done = (each[:, until] - each[:, begin] for each in (counts, sums))
            apart = (lowest[:, at] > high) | (highest[:, at] < low)
            apart &= (before >= _LEAST) & (after >= _LEAST) & (begin >= since)
            if not apart.any():
                continue
            sure = _sureness(measure.arrives, noise, (done, before), (total, after))
            better = apart & (sure >= 1) & (sure > best)
            found, end = np.where(better, at, found), np.where(better, until, end)
            best = np.where(better, sure, best)
    return found, end


def _sureness(
    arrives: _Floats | None,
    noise: _Floats,
    before: tuple[_Floats, _Floats],
    after: tuple[_Floats, _Floats],
) -> _Floats:
    """Return how many times as large as it has to be a change is; each side is sum and count."""
    (was, some), (now, others) = ((total, np.maximum(count, 1)) for total, count in (before, after))
    size, few = abs(now / others - was / some), 1 / some + 1 / others
    if arrives is None:
        counted = (was + now) / (some + others)
        least = _LEAST_CHANGE * np.maximum(was / some, now / others)
    else:
        counted, least = np.ones(len(noise)), _LEAST_GROWTH * arrives
    by_noise = size / (_ERRORS * np.sqrt(np.maximum(noise, _TINY) * few))
    by_count = size / (_COUNTED_ERRORS * np.sqrt(np.maximum(counted, _TINY) * few))
    return np.where(size >= least, np.minimum(by_noise, by_count), 0)


def _running(values: _Floats | _Bools) -> _Floats:
    """Return ``[rows, parts + 1]``: the sum of all parts before each."""
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def mean_since(parts: _Floats, since: NDArray[np.int64]) -> tuple[_Floats, _Floats]:
    """Return the mean of the parts since then, and the half-width of its 95 % interval."""
    counts = BINS - since
    chosen = np.arange(BINS) >= since[:, np.newaxis]
    mean = np.where(chosen, parts, 0).sum(axis=1) / counts
    squares = np.where(chosen, (parts - mean[:, np.newaxis]) ** 2, 0).sum(axis=1)
    error = np.sqrt(squares / (counts - 1) / counts)
    return mean, _STUDENT_T[counts - 2] * error
