"""Lag from now on in several scenarios, with what luck allows: the curves beside a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag.errors import InputError
from sharelag.whatif.comparison.intervals import mean_interval
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import simulate

#: The lag of a whole group in one scenario at one time.
PROJECTED = pa.schema(
    [
        ("variant", pa.string()),
        ("time_ms", pa.int64()),  # since the beginning of the scenario
        ("lag", pa.float64()),  # mean of the runs, in offsets
        ("low", pa.float64()),  # of its confidence interval; null with a single run
        ("high", pa.float64()),
    ]
)


def projected(
    variants: Mapping[str, Scenario], seeds: Iterable[int] = range(7), confidence: float = 0.95
) -> pa.Table:
    """Simulate scenarios with the same seeds and return their lag over time.

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
        `PROJECTED`, by variant and time.

    Raises
    ------
    InputError
        There is no seed.
    """
    chosen = list(seeds)
    if not chosen:
        raise InputError("there is nothing to simulate: give at least one seed")
    parts = [PROJECTED.empty_table()]
    for name, scenario in variants.items():
        runs = [_lag(simulate(scenario, seed).timeline) for seed in chosen]
        times, lags = runs[0][0], np.stack([lag for _, lag in runs])
        found = [mean_interval(values, confidence) for values in lags.T]
        columns = {
            "variant": pa.repeat(name, len(times)),
            "time_ms": times,
            **{
                out: [getattr(one, of) for one in found]
                for out, of in (("lag", "mean"), ("low", "low"), ("high", "high"))
            },
        }
        parts.append(pa.table(columns, PROJECTED))
    return pa.concat_tables(parts)


def _lag(timeline: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the times of a timeline and the lag of all share partitions together."""
    times, steps = np.unique(timeline.column("time_ms").to_numpy(), return_inverse=True)
    sums = np.bincount(steps, timeline.column("lag").to_numpy().astype(np.float64))
    return times, np.asarray(sums, np.float64)
