"""Is the forecast made from the rates since they last changed?"""

from __future__ import annotations

import math
from statistics import mean, stdev

import numpy as np
import pytest
from numpy.typing import NDArray

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
        ([40, 41, 39, 40, 42, 40, 38, 38, 37, 38], 0),  # lower, but not by much
        ([1222, 1176, 1193, 1198, 1051, 880, 844, 860, 866, 879], 5),  # by a quarter, for long
        ([116, 118, 135, 122, 123, 112, 27, 0, 0, 0], 7),  # it ended within a part
        ([0, 200, 0, 0, 200, 0, 0, 200, 0, 0], 0),  # lumps
        ([40, 41, 39, 40, 42, 40, 38, 41, 40, 0], 0),  # too short to say
        ([float("nan")] * 5 + [1, 1, 1, 1, 1], 0),  # not known
    ],
)
def test_where_a_regime_begins(parts: list[float], since: int) -> None:
    rows = np.array([FLAT, parts], float)
    assert last_change(rows).tolist() == [0, since]
    # Whichever of arrivals and completions changes last.
    steady = np.stack([FLAT, np.full(BINS, np.median(np.nan_to_num(parts[:5])))])
    assert last_change(steady, rows).tolist() == [0, since]


def test_a_growth_that_begins_is_seen_before_the_rates_are_apart() -> None:
    """Who keeps up finishes what arrives: that a twelfth is left differs from all before."""
    arrived = np.array([[494, 462, 496, 474, 485, 481, 465, 490, 491, 480]], float)
    finished = np.array([[496, 463, 495, 472, 488, 481, 449, 438, 445, 436]], float)
    assert last_change(finished).tolist() == last_change(arrived).tolist() == [0]
    assert last_change(finished, arrived).tolist() == [7]


def test_chance_and_lumps_seldom_make_a_change() -> None:
    rng, rows, shares = np.random.default_rng(16), 1500, []

    def histories(usual: float, lump: float) -> NDArray[np.float64]:
        return np.asarray(rng.poisson(usual / lump, (rows, BINS)) * lump, np.float64)

    for usual, lump in ((5, 1), (40, 1), (500, 1), (5, 10), (40, 10), (500, 10), (500, 200)):
        arrived, finished = histories(usual, 1), histories(usual, lump)
        flying = rng.poisson(usual / 20, (rows, BINS + 1))
        keeping_up = arrived - np.diff(flying, axis=1)
        shares += [(last_change(seen, arrived) > 0).mean() for seen in (finished, keeping_up)]
    assert max(shares) < 0.04
    assert np.mean(shares) < 0.015
    # And a fall by a quarter is found where counts can tell it, where it is.
    fallen = np.hstack([rng.poisson(500, (rows, 6)), rng.poisson(375, (rows, 4))]).astype(float)
    found = last_change(fallen)
    assert ((found == 6) | (found == 7)).mean() > 0.97


def test_the_mean_and_its_interval_are_of_what_follows_the_change() -> None:
    parts = [40.0, 41, 39, 40, 42, 3, 0, 2, 1, 2]
    found, wide = mean_since(np.array([parts, FLAT], float), np.array([5, 0]))
    assert found.tolist() == pytest.approx([mean(parts[5:]), mean(FLAT)])
    expected = [
        2.7764451 * stdev(parts[5:]) / math.sqrt(5),
        2.2621572 * stdev(FLAT) / math.sqrt(BINS),
    ]
    assert wide.tolist() == pytest.approx(expected)
