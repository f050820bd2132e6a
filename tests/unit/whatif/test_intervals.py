"""Are differences those of what was simulated, not of how numbers are rounded?"""

from __future__ import annotations

import numpy as np

from sharelag.whatif.comparison.intervals import less


def test_differences_of_rounding_are_none() -> None:
    values = np.array([0.3, 1.0, 5.0, np.nan])
    others = np.array([0.1 + 0.2, 1.0 + 1e-12, 4.0, 4.0])
    assert less(values, others)[:3].tolist() == [0.0, 0.0, 1.0]
    assert np.isnan(less(values, others)[3])
