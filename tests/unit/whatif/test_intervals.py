"""Are differences those of what was simulated, not of how numbers are rounded?"""

from __future__ import annotations

import numpy as np

from sharelag.whatif.comparison.intervals import less, mean_interval, mean_intervals


def test_differences_of_rounding_are_none() -> None:
    values = np.array([0.3, 1.0, 5.0, np.nan])
    others = np.array([0.1 + 0.2, 1.0 + 1e-12, 4.0, 4.0])
    assert less(values, others)[:3].tolist() == [0.0, 0.0, 1.0]
    assert np.isnan(less(values, others)[3])


def test_intervals_of_many_times_are_those_of_each() -> None:
    values = np.random.default_rng(7).normal(10, 3, (5, 40))
    values[:, 3] = 4.0  # the same in all runs
    found = np.array(mean_intervals(values, 0.9))
    each = np.array([mean_interval(column, 0.9) for column in values.T], np.float64)
    assert np.allclose(found.T, each, rtol=1e-12)
    assert found[:, 3].tolist() == [4.0] * 3
    mean, low, high = mean_intervals(values[:1], 0.9)
    assert mean.tolist() == values[0].tolist()
    assert np.isnan(low).all()
    assert np.isnan(high).all()
