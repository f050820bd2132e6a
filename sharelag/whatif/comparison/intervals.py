"""Confidence intervals of means and differences, and tests between variants.

Numbers are one a run, NaN where a run does not know.
"""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sharelag.whatif.comparison.tables import Measure

Floats = NDArray[np.float64]


#: Numbers not further apart, relative to their size, are the same.
_ROUNDING = 1e-12


class Interval(NamedTuple):
    """A mean and its bounds; None where it cannot be said."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None


def mean_interval(values: Floats, level: float) -> Interval:
    """Bounds of a mean by Student's t.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (n,)
    level : float
        Confidence, such as 0.95.

    Returns
    -------
    Interval
        Without a mean when a value is unknown, without bounds for a single one.
    """
    if not len(values) or np.isnan(values).any():
        return Interval()
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean)
    if np.ptp(values) <= _ROUNDING * np.abs(values).max():
        return Interval(mean, mean, mean)
    from scipy import stats  # takes a second to load, and only this needs it

    low, high = stats.t.interval(level, len(values) - 1, loc=mean, scale=stats.sem(values))
    return Interval(mean, float(low), float(high))


def mean_intervals(values: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Means over the runs at many times, and their bounds: `mean_interval` of each column.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (runs, times)
    level : float
        Confidence, such as 0.95.

    Returns
    -------
    (mean, low, high) : numpy.ndarray of float64, shape (times,)
        Bounds are NaN for a single run.
    """
    mean = values.mean(axis=0)
    if len(values) < 2:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    from scipy import stats

    half = stats.sem(values, axis=0) * stats.t.ppf((1 + level) / 2, len(values) - 1)
    same = np.ptp(values, axis=0) <= _ROUNDING * np.abs(values).max(axis=0)
    half = np.where(same, 0.0, half)
    return mean, mean - half, mean + half


#: Values that differ by less than this part of them differ by rounding.
_EQUAL = 1e-9


def less(values: Floats, others: Floats) -> Floats:
    """Return paired differences, 0 where two values differ by rounding alone."""
    same = np.isclose(values, others, rtol=_EQUAL, atol=0)
    return np.where(same, 0.0, values - others)


def difference_interval(differences: Floats, level: float) -> Interval:
    """The same of paired differences.

    Where all pairs differ by the same, Student's t has no spread to judge by and would be sure of
    anything after two runs: then an exact sign test has to rule out luck.
    """
    found = mean_interval(differences, level)
    if found.mean and found.low == found.high and not _is_signed(differences, level):
        return Interval(found.mean)
    return found


def one_sided_interval(values: Floats, confidence: float) -> Interval:
    """Bounds of a mean, each of which leaves out one side only: to hold it against a limit.

    Where all values are the same, that need not be luck, as with `difference_interval`: else
    there are no bounds.
    """
    level = 2 * confidence - 1
    found = mean_interval(values, level)
    if found.mean is not None and found.low == found.high and len(values) < fewest_equal(level):
        return Interval(found.mean)
    return found


def fewest_equal(level: float) -> int:
    """How many runs, all on one side, cannot be luck (two-sided exact sign test)."""
    return 1 + ceil(-log2(1 - level))


def ratio_interval(values: Floats, others: Floats, level: float) -> Interval:
    """The geometric mean of paired ratios, by Student's t on their logarithms.

    Nothing where one is not above 0.
    """
    if not ((values > 0) & (others > 0)).all():  # NaN is not, either
        return Interval()
    found = difference_interval(np.log(values) - np.log(others), level)
    return Interval(*(None if number is None else float(np.exp(number)) for number in found))


def is_better(values: Floats, others: Floats, measure: Measure, level: float) -> bool | None:
    """Whether the first are better than the second, pair by pair.

    None: the values do not say so, or neither direction is better.

    Parameters
    ----------
    values, others : numpy.ndarray of float64, shape (n,)
        Of the same seeds.
    measure : Measure
    level : float
        Confidence of this comparison.

    Notes
    -----
    By the interval of the differences. Where the measure of some run is unknown since it is beyond
    the run's end, there is no difference, but which one is more: then by an exact sign test.
    """
    if measure.better is None:
        return None
    if measure.censored and (np.isnan(values) | np.isnan(others)).any():
        mine, theirs = (np.nan_to_num(one, nan=np.inf) for one in (values, others))
        signs = np.subtract(mine > theirs, mine < theirs, dtype=np.float64)
        if not _is_signed(signs, level):
            return None
        return bool(signs.sum() < 0) == (measure.better == "lower")
    found = difference_interval(less(values, others), level)
    if found.low is None or found.high is None or found.low <= 0 <= found.high:
        return None
    return (found.high < 0) == (measure.better == "lower")


def median(values: Floats, measure: Measure) -> float | None:
    """The median; known as long as fewer than half of the values are beyond the run's end."""
    if measure.censored:
        values = np.nan_to_num(values, nan=np.inf)
    middle = float(np.median(values)) if len(values) else np.nan
    return middle if np.isfinite(middle) else None


def _is_signed(differences: Floats, level: float) -> bool:
    """Whether the sign of the pairs is significant (two-sided exact sign test)."""
    from scipy import stats

    more, less = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    return more + less > 0 and float(stats.binomtest(more, more + less).pvalue) <= 1 - level


def each_level(confidence: float, comparisons: int) -> float:
    """The confidence of each of several intervals that makes up that of all (Bonferroni)."""
    return 1 - (1 - confidence) / max(comparisons, 1)
