"""Is the forecast made from the rates since they last changed?"""

from __future__ import annotations

import math
from statistics import mean, stdev

import numpy as np
import pytest

from sharelag.metrics.observed import BINS
from sharelag.metrics.regime import last_change, mean_since

FLAT = [40, 41, 39, 40, 42, 40, 38, 41, 40, 39]


@pytest.mark.parametrize(
    ("parts", "since"),
    [
        (FLAT, 0),
        ([0] * BINS, 0),
        ([40, 41, 39, 40, 42, 3, 0, 2, 1, 2], 5),  # it fell
        ([2, 1, 2, 0, 3, 42, 40, 39, 41, 40], 5),  # it rose
        ([5, 5, 5, 5, 5, 5, 200, 0, 0, 0], 7),  # after a burst
        ([5, 5, 5, 40, 41, 39, 40, 1, 2, 0], 7),  # the later of two changes
        ([40, 41, 39, 40, 42, 38, 30, 29, 31, 28], 0),  # lower, but not by much
        ([0, 200, 0, 0, 200, 0, 0, 200, 0, 0], 0),  # lumps
        ([40, 41, 39, 40, 42, 40, 38, 41, 40, 0], 0),  # too short to say
        ([float("nan")] * 5 + [1, 1, 1, 1, 1], 0),  # not known
    ],
)
def test_where_a_regime_begins(parts: list[float], since: int) -> None:
    rows = np.array([FLAT, parts], float)
    assert last_change(rows).tolist() == [0, since]
    # Whichever of arrivals and completions changes last.
    assert last_change(np.array([FLAT, FLAT], float), rows).tolist() == [0, since]


def test_the_mean_and_its_interval_are_of_what_follows_the_change() -> None:
    parts = [40.0, 41, 39, 40, 42, 3, 0, 2, 1, 2]
    found, wide = mean_since(np.array([parts, FLAT], float), np.array([5, 0]))
    assert found.tolist() == pytest.approx([mean(parts[5:]), mean(FLAT)])
    expected = [
        2.7764451 * stdev(parts[5:]) / math.sqrt(5),
        2.2621572 * stdev(FLAT) / math.sqrt(BINS),
    ]
    assert wide.tolist() == pytest.approx(expected)
