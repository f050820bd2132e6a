"""Measures of inequality, for many segments of a column at once.

For the n known numbers x of a segment, sorted, with mean m and total t:

    max_mean    max(x) / m
    gini        sum over i of (2 i - n - 1) x[i] / (n t); the mean absolute difference over 2 m
    cv          square root of the mean of (x - m) ** 2, over m
    top_share   the largest (top3_share: the three largest together) / t
    jain        t ** 2 / (n times the sum of x ** 2), after R. Jain et al., DEC-TR-301
    hoover      sum of |x - m| / (2 t): the part that would have to move to make all equal

All are invariant under changes of unit and order, and (except the shares) under repetition of all
numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


class Spread(NamedTuple):
    """The measures of every segment; NaN where undefined."""

    items: _Ints  # numbers, known or not
    unknown: _Ints  # unknown ones among them
    # Of the known ones, as are mean, min and max; NaN if there are none. All but min are NaN, too,
    # where all known ones are 0 and others are unknown: the sum may not be 0 then.
    total: _Floats
    mean: _Floats
    min: _Floats
    max: _Floats
    max_mean: _Floats  # this and the following: NaN also if the total is 0
    gini: _Floats
    cv: _Floats
    top_share: _Floats
    top3_share: _Floats
    jain: _Floats
    hoover: _Floats


def spread_columns(values: _Floats, segment: _Ints, segments: int) -> Spread:
    """Return how unevenly the numbers of each segment are spread.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (n,)
        At least 0; NaN where unknown.
    segment : numpy.ndarray of int64, shape (n,)
        Which segment each number belongs to, from 0 to ``segments - 1``, in any order.
    segments : int

    Returns
    -------
    Spread
        Of arrays of shape ``(segments,)``.

    Raises
    ------
    ValueError
        When a number is negative or infinite.
    """
    known = ~np.isnan(values)
    if (values[known] < 0).any() or np.isinf(values).any():
        raise ValueError("values must be finite and at least 0")
    items = np.bincount(segment, minlength=segments)
    numbers = np.bincount(segment[known], minlength=segments)
    order = np.lexsort((values, segment))
    order = order[known[order]]
    ends = np.cumsum(numbers)
    figures = {name: np.full(segments, np.nan) for name in Spread._fields[2:]}
    some = np.flatnonzero(numbers)
    if len(some):
        sorted_figures = _figures(values[order], (ends - numbers)[some], numbers[some])
        for name, figure in sorted_figures.items():
            figures[name][some] = figure
    is_open = (figures["total"] == 0) & (items > numbers)
    for name in ("total", "mean", "max"):
        figures[name][is_open] = np.nan
    return Spread(items, items - numbers, **figures)


def _figures(values: _Floats, begins: _Ints, numbers: _Ints) -> dict[str, _Floats]:
    """Return the measures of non-empty, contiguous segments, each ascending."""
    largest = values[begins + numbers - 1]
    which = np.repeat(np.arange(len(numbers)), numbers)
    rank = np.arange(len(values)) - begins[which] + 1
    # Divide by the largest so that squares and sums stay within a float; all 0 without a total.
    unit = np.where(largest > 0, largest, 1.0)
    part = values / unit[which]

    def total(of: _Floats) -> _Floats:
        return np.asarray(np.add.reduceat(of, begins))

    whole = total(part)
    mean = whole / numbers
    has_total = np.where(whole > 0, whole, np.nan)
    away = part - mean[which]
    top3 = total(np.where(rank > numbers[which] - 3, part, 0.0))
    return {
        "total": total(values),
        "mean": mean * unit,
        "min": values[begins],
        "max": largest,
        "max_mean": numbers / has_total,
        "gini": total((2 * rank - numbers[which] - 1) * part) / (numbers * has_total),
        "cv": np.sqrt(total(away**2) / numbers) * numbers / has_total,
        "top_share": 1 / has_total,
        "top3_share": top3 / has_total,
        "jain": has_total**2 / (numbers * total(part**2)),
        "hoover": total(np.abs(away)) / (2 * has_total),
    }
