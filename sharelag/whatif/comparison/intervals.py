"""Confidence intervals of means and differences, and tests between variants.

There is one number per run, NaN where it is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, log2
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.metrics.columns import evenly_spaced, floats
from sharelag.tables.conform import require_conformable
from sharelag.whatif.comparison.tables import DIFFERENCE, PROJECTED, RATIOS, RUNS, Measure

Floats = NDArray[np.float64]
#: Relative differences up to which means, and values of two variants, are equal.
_ROUNDING, _EQUAL = 1e-12, 1e-9


class Interval(NamedTuple):
    """A mean and its bounds; None where undefined."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None


def mean_interval(values: Floats, level: float) -> Interval:
    """Return the bounds of a mean by Student's t; none for unknown or single values."""
    found = mean_intervals(values, level) if len(values) else ()
    return Interval(*(None if np.isnan(one) else float(one) for one in found))


def half_width(values: Floats, level: float) -> Floats:
    """Return half of the interval of a mean, or of each column's mean."""
    from scipy.special import stdtrit  # takes a while to load, and only this needs it

    runs = len(values)
    error: Floats = values.std(axis=0, ddof=1) / np.sqrt(runs)
    return error * float(stdtrit(runs - 1, (1 + level) / 2))


def mean_intervals(values: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Return mean, low and high of each column; bounds of a single run are NaN."""
    mean = values.mean(axis=0)
    half = np.full_like(mean, np.nan)
    if len(values) > 1:
        same = np.ptp(values, axis=0) <= _ROUNDING * np.abs(values).max(axis=0)
        half = np.where(same, 0.0, half_width(values, level))
    return mean, mean - half, mean + half


def known(values: Floats) -> dict[str, int]:
    """Return how many of the values are known and unknown."""
    unknown = int(np.isnan(values).sum())
    return {"n": len(values) - unknown, "unknown": unknown}


def less(values: Floats, others: Floats) -> Floats:
    """Return paired differences, 0 where two values differ only by rounding."""
    same = np.isclose(values, others, rtol=_EQUAL, atol=0)
    return np.where(same, 0.0, values - others)


def difference_interval(differences: Floats, level: float) -> Interval:
    """Return the mean and bounds of paired differences.

    If all differences are equal, Student's t would be certain after two runs: then an exact sign
    test has to rule out chance.
    """
    found = mean_interval(differences, level)
    if found.mean and found.low == found.high and not _is_signed(differences, level):
        return Interval(found.mean)
    return found


def one_sided_interval(values: Floats, confidence: float) -> Interval:
    """Return one-sided bounds of a mean, for comparison with a limit.

    There are none if all values are equal and may be so by chance (`difference_interval`).
    """
    level = 2 * confidence - 1
    found = mean_interval(values, level)
    if found.mean is not None and found.low == found.high and len(values) < fewest_equal(level):
        return Interval(found.mean)
    return found


def fewest_equal(level: float) -> int:
    """Return how many runs on the same side rule out chance (two-sided exact sign test)."""
    return 1 + ceil(-log2(1 - level))


def enough_seeds(variants: int, confidence: float = 0.95) -> int:
    """Return the seeds that distinguish variants with equal differences, at least 7."""
    return max(7, fewest_equal(each_level(confidence, variants - 1)))


def ratio_interval(values: Floats, others: Floats, level: float) -> Interval:
    """Return the geometric mean of paired ratios above 0, by Student's t on their logarithms."""
    if not ((values > 0) & (others > 0)).all():  # false for NaN as well
        return Interval()
    found = difference_interval(np.log(values) - np.log(others), level)
    return Interval(*(None if number is None else float(np.exp(number)) for number in found))


def is_better(values: Floats, others: Floats, measure: Measure, level: float) -> bool | None:
    """Return whether the first values are better than the second, by seed; None: undecided.

    The interval of the differences decides, at this level. A value beyond the end of a run is
    unknown and has no difference: then an exact sign test of the larger value decides.
    """
    if measure.better is None:
        return None
    if measure.censored and (np.isnan(values) | np.isnan(others)).any():
        mine, theirs = (np.nan_to_num(one, nan=np.inf) for one in (values, others))
        signs = np.subtract(mine > theirs, mine < theirs, dtype=np.float64)
        if not _is_signed(signs, level):
            return None
        return bool(signs.sum() < 0) == (measure.better == "lower")
    found = difference_interval(less(values, others), level)
    if found.low is None or found.high is None or found.low <= 0 <= found.high:
        return None
    return (found.high < 0) == (measure.better == "lower")


def median(values: Floats, measure: Measure) -> float | None:
    """Return the median, known while fewer than half of the values are beyond the run's end."""
    if measure.censored:
        values = np.nan_to_num(values, nan=np.inf)
    middle = float(np.median(values)) if len(values) else np.nan
    return middle if np.isfinite(middle) else None


def _is_signed(differences: Floats, level: float) -> bool:
    """Return whether the sign of the pairs is significant (two-sided exact sign test)."""
    from scipy import stats

    more, less = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    return more + less > 0 and float(stats.binomtest(more, more + less).pvalue) <= 1 - level


def each_level(confidence: float, comparisons: int) -> float:
    """Return the confidence of each of several intervals for a joint confidence (Bonferroni)."""
    return 1 - (1 - confidence) / max(comparisons, 1)


#: The values of a variant by a measure, and its difference to the baseline.
Cell: TypeAlias = dict[str, Any]


def contrast(
    runs: pa.Table, measured: Mapping[str, Measure], baseline: str, confidence: float
) -> Iterator[Cell]:
    """Yield the cells of the measures that the runs have, measure by measure.

    Cells of variants other than the baseline have ``pairs``: how many seeds have both values, or
    not.
    """
    has_error = "error" in runs.column_names
    failed = runs.filter(pc.is_valid(runs.column("error"))) if has_error else runs.slice(0, 0)
    failures = Counter(failed.column("variant").to_pylist())
    for measure in filter(runs.column_names.__contains__, measured):
        about, by_variant = measured[measure], by_variant_and_seed(runs, measure)
        level = each_level(confidence, len(by_variant) - 1)
        for name, mine in by_variant.items():
            values = np.array(list(mine.values()), np.float64)
            cell = {
                "measure": measure,
                "variant": name,
                **known(values),
                "failed": failures[name],
                **mean_interval(values, confidence)._asdict(),
                "median": median(values, about),
                "baseline": baseline,
                **dict.fromkeys((*DIFFERENCE, *RATIOS, "better")),
            }
            if name != baseline:
                pairs = pair(mine, by_variant[baseline])
                ratio = ratio_interval(*pairs, level)
                cell |= zip(DIFFERENCE, difference_interval(less(*pairs), level), strict=True)
                cell |= zip(RATIOS, (ratio.mean, ratio.high, ratio.low), strict=True)
                cell["better"] = is_better(*pairs, about, level)
                cell["pairs"] = known(pairs[0] - pairs[1])
            yield cell


def by_variant_and_seed(runs: pa.Table, measure: str) -> dict[str, dict[int, float]]:
    """Return a measure by variant and seed, NaN where it is unknown, without failed runs."""
    found: dict[str, dict[int, float]] = {name: {} for name in runs.column("variant").to_pylist()}
    if "error" in runs.column_names:
        runs = runs.filter(pc.is_null(runs.column("error")))
    columns = (runs.column(name).to_pylist() for name in ("variant", "seed"))
    for name, seed, value in zip(*columns, floats(runs.column(measure)).tolist(), strict=True):
        found[name][seed] = value
    return found


def pair(one: Mapping[int, float], other: Mapping[int, float]) -> tuple[Floats, Floats]:
    """Return the values of the seeds that both have."""
    seeds = [seed for seed in one if seed in other]
    return np.array([one[seed] for seed in seeds]), np.array([other[seed] for seed in seeds])


#: Points of a curve: more than a screen shows, and few enough for thousands of runs.
MOST_TIMES = 2_000


class Curve(NamedTuple):
    """The lag of all share partitions together in one run, and its oldest record."""

    times: NDArray[np.int64]  # ms since the beginning of the scenario, shape (n,)
    lag: NDArray[np.float64]  # offsets, shape (n,)
    age_ms: NDArray[np.float64]  # of the oldest unfinished record, shape (n,)
    drain_ms: float | None  # None: it never drained


def curve(timeline: pa.Table, drain_ms: float | None = None) -> Curve:
    """Return lag and age of all share partitions over time, at evenly spaced times if long."""
    sums = timeline.group_by("time_ms").aggregate([("lag", "sum"), ("age_ms", "max")])
    sums = sums.sort_by("time_ms").take(evenly_spaced(range(len(sums)), MOST_TIMES))
    times, lag, age = (sums.column(one).to_numpy() for one in ("time_ms", "lag_sum", "age_ms_max"))
    return Curve(times, lag.astype(np.float64), age.astype(np.float64), drain_ms)


def projections(curves: Mapping[str, Iterable[Curve]], confidence: float) -> pa.Table:
    """Return the mean of the curves of each variant, with its interval, as `PROJECTED`."""
    parts = [PROJECTED.empty_table()]
    for name, runs in curves.items():
        each = list(runs)
        times, drains = each[0].times, [one.drain_ms for one in each if one.drain_ms is not None]
        drain_ms = sum(drains) / len(drains) if len(drains) == len(each) else None
        lag = mean_intervals(np.stack([one.lag for one in each]), confidence)
        age = mean_intervals(np.stack([one.age_ms for one in each]), confidence)
        columns = [
            pa.repeat(name, len(times)),
            pa.array(times),
            # NaN: a single run has no interval
            *(pa.array(one, from_pandas=True) for one in (*lag, *age)),
            pa.repeat(pa.scalar(drain_ms, pa.float64()), len(times)),
        ]
        parts.append(pa.Table.from_arrays(columns, schema=PROJECTED))
    return pa.concat_tables(parts)


#: One variant: means of its runs with bounds. Failed runs and runs without an age are left out.
COST_AGAINST_AGE = pa.schema(
    [
        ("variant", pa.string()),
        ("n", pa.int32()),  # runs that count
        ("member_hours", pa.float64()),
        ("member_hours_low", pa.float64()),  # null: fewer than two runs
        ("member_hours_high", pa.float64()),
        ("age_p95_ms", pa.float64()),
        ("age_p95_low_ms", pa.float64()),
        ("age_p95_high_ms", pa.float64()),
        # runs in which nothing was left at some time after the largest lag
        ("drained", pa.int32()),
        # no other variant is as good in cost and age, and better in one of them
        ("is_on_front", pa.bool_()),
    ]
)


def cost_against_age(runs: pa.Table, confidence: float = 0.95) -> pa.Table:
    """Return member-hours and the 95th percentile of the age of the oldest unfinished record.

    Parameters
    ----------
    runs : pyarrow.Table
        ``variant`` and the columns of `sharelag.whatif.simulation.tables.SUMMARY`, such as
        ``Comparison.runs``.
    confidence : float
        Confidence of the bounds (Student's t).

    Returns
    -------
    pyarrow.Table
        `COST_AGAINST_AGE`, cheapest first. Member-hours count from when members join until they are
        gone, without their startup.

    Raises
    ------
    InputError
        A column is missing.
    """
    names = ("variant", "member_hours", "age_p95_ms", "drain_ms")
    require_conformable(runs.schema, pa.schema([RUNS.field(name) for name in names]), "runs")
    variant = runs.column("variant").to_numpy(zero_copy_only=False)
    hours, age, drain = (floats(runs.column(name)) for name in names[1:])
    known = ~np.isnan(hours) & ~np.isnan(age)
    rows = []
    for name in dict.fromkeys(variant[known].tolist()):
        mine = known & (variant == name)
        bounds = (*mean_interval(hours[mine], confidence), *mean_interval(age[mine], confidence))
        values = (name, int(mine.sum()), *bounds, int((~np.isnan(drain[mine])).sum()))
        rows.append(dict(zip(COST_AGAINST_AGE.names, values, strict=False)))
    rows.sort(key=lambda row: (row["member_hours"], row["age_p95_ms"]))
    costs = np.array([(row["member_hours"], row["age_p95_ms"]) for row in rows]).reshape(-1, 2)
    for row, is_on in zip(rows, on_front(costs).tolist(), strict=True):
        row["is_on_front"] = is_on
    return pa.Table.from_pylist(rows, schema=COST_AGAINST_AGE)


def on_front(costs: Floats) -> NDArray[np.bool_]:
    """Return which rows are on the Pareto front: no other is as low in all and lower in one."""
    as_low = np.all(costs[:, None] >= costs, axis=2)
    lower = np.any(costs[:, None] > costs, axis=2)
    beaten: NDArray[np.bool_] = np.any(as_low & lower, axis=1)
    return ~beaten
