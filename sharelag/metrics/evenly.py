"""Of many moments some that are evenly apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def evenly_apart(values: ArrayLike, most: int) -> list[int]:
    """Sort values and keep so many that are evenly apart among them, the last one too.

    Parameters
    ----------
    values : int64[n]
        Each once.
    most : int

    Returns
    -------
    list of int
    """
    ordered = np.sort(np.asarray(values, np.int64))
    return [int(ordered[place]) for place in places_of(len(ordered), most)]


def places_of(count: int, most: int) -> NDArray[np.int64]:
    """Which of so many sorted values `evenly_apart` keeps, from 0 on."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.int64))
