"""Lag over time in the runs of a comparison: a curve a run, a mean with its interval a variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag.whatif.comparison.intervals import mean_intervals
from sharelag.whatif.comparison.tables import PROJECTED

#: Points of a curve: more than a screen has, and few enough for thousands of runs.
MOST_TIMES = 2_000


class Curve(NamedTuple):
    """The lag of all share partitions together in one run."""

    times: NDArray[np.int64]  # ms since the beginning of the scenario, shape (n,)
    lag: NDArray[np.float64]  # offsets, shape (n,)


def curve(timeline: pa.Table) -> Curve:
    """The times of a timeline, and the lag of all share partitions together at each.

    Of a long run as many times as can be drawn and kept for every run, evenly apart, the first and
    the last among them.
    """
    times, steps = np.unique(timeline.column("time_ms").to_numpy(), return_inverse=True)
    sums = np.bincount(steps, timeline.column("lag").to_numpy().astype(np.float64))
    kept = np.linspace(0, len(times) - 1, min(len(times), MOST_TIMES)).round().astype(np.int64)
    return Curve(times[kept], np.asarray(sums, np.float64)[kept])


def projections(curves: Mapping[str, Iterable[Curve]], confidence: float) -> pa.Table:
    """The mean of the curves of each variant, with its interval, as `PROJECTED`."""
    parts = [PROJECTED.empty_table()]
    for name, runs in curves.items():
        each = list(runs)
        mean, low, high = mean_intervals(np.stack([one.lag for one in each]), confidence)
        times = each[0].times
        columns = {
            "variant": pa.repeat(name, len(times)),
            "time_ms": times,
            "lag": mean,
            "low": pa.array(low, from_pandas=True),  # NaN: a single run has no interval
            "high": pa.array(high, from_pandas=True),
        }
        parts.append(pa.table(columns, PROJECTED))
    return pa.concat_tables(parts)
