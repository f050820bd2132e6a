"""Choose evenly spaced moments."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def evenly_spaced(values: ArrayLike, most: int) -> list[int]:
    """Sort values and choose evenly spaced ones, including the first and the last.

    Parameters
    ----------
    values : int64[n]
        Distinct values.
    most : int
        Maximum number of values.
    """
    ordered = np.sort(np.asarray(values, np.int64))
    return [int(ordered[place]) for place in evenly_spaced_indices(len(ordered), most)]


def evenly_spaced_indices(count: int, most: int) -> NDArray[np.int64]:
    """Return the indices, among ``count`` sorted values, that `evenly_spaced` chooses."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.int64))
