"""Lag from now on in several scenarios, with what luck allows: the curves beside a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from sharelag.whatif.compare import compare
from sharelag.whatif.comparison.tables import PROJECTED
from sharelag.whatif.scenario import Scenario

__all__ = ["PROJECTED", "projected"]


def projected(
    variants: Mapping[str, Scenario], seeds: Iterable[int] = range(7), confidence: float = 0.95
) -> pa.Table:
    """Simulate scenarios with the same seeds and return their lag over time.

    A comparison of the same runs has this table already: `Comparison.projected`.

    Parameters
    ----------
    variants : mapping of str to Scenario
        By name.
    seeds : iterable of int
    confidence : float
        Of the interval of each mean.

    Returns
    -------
    pyarrow.Table
        `PROJECTED`, by variant and time; of long runs 2,000 times, evenly apart.

    Raises
    ------
    InputError
        There is no scenario or no seed, or a seed comes twice.
    """
    return compare(variants, seeds=seeds, confidence=confidence).projected
