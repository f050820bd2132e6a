"""Medians, ranges, ratios and verdicts of measured repetitions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

AIM, LEAST, SHORT = "reaches the aim", "reaches the least", "FALLS SHORT"


class Spread(NamedTuple):
    """The median of repetitions with their minimum and maximum."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return median and range."""
    return Spread(statistics.median(values), min(values), max(values))


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return the ratio of the medians, with the range of the ratios round by round.

    Both sides of a round ran one after the other, so other load on the machine affected both.
    """
    each = [a / b for a, b in zip(above, below, strict=True)]
    median = statistics.median(above) / statistics.median(below)
    return Spread(median, min(*each, median), max(*each, median))


def verdict(found: float, at_least: float, aim: float, within: bool = False) -> str:
    """Judge a ratio by its two goals; ``within``: smaller is better."""
    sign = -1 if within else 1
    if sign * found >= sign * aim:
        return AIM
    return LEAST if sign * found >= sign * at_least else SHORT


def poorest(verdicts: Sequence[str]) -> str:
    """Return the worst of some verdicts."""
    return max(verdicts, key=(AIM, LEAST, SHORT).index)
