"""Compare variants of a group: simulate each under the same chance, and tell differences from luck.

    tried = variants(scenario, assignors=["simple", "lag-aware-sticky"], members=[8, 16])
    comparison = compare(tried, seeds=range(20))
    comparison.measures, comparison.differences      # Arrow tables
    comparison.winner("age_p95_ms")                  # a name, or None: the runs do not say
    comparison.projected                             # lag over time, for `charts.projection_figure`

With the same seed all variants meet the same luck, so that they are compared run by run: what is
left is what the variants do to it, and few runs show it. Intervals are Student's t; those of one
measure are narrowed by the number of comparisons (Bonferroni), so that with a confidence of 0.95
not even one of them is wrong in 95 of 100 comparisons. Over several measures nothing is corrected:
who looks at twenty of them finds one that seems to differ by luck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.whatif.comparison.choices import variants
from sharelag.whatif.comparison.curves import Curve, curve, projections
from sharelag.whatif.comparison.intervals import (
    Floats,
    difference_interval,
    each_level,
    is_better,
    less,
    mean_interval,
    median,
    ratio_interval,
)
from sharelag.whatif.comparison.outcome import Comparison, by_variant_and_seed, paired
from sharelag.whatif.comparison.tables import DIFFERENCES, MEASURED, MEASURES
from sharelag.whatif.grid import as_runs, grid, row_of
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import simulate

__all__ = [
    "Comparison",
    "Progress",
    "compare",
    "compared",
    "require_baseline",
    "variants",
]

#: Called with the number of runs done, and of all runs.
Progress = Callable[[int, int], object]


def compare(
    variants: Mapping[str, Scenario],
    *,
    seeds: Iterable[int] = range(20),
    baseline: str | None = None,
    confidence: float = 0.95,
    optimal: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Simulate variants with the same seeds, one run after the other, and compare them.

    Parameters
    ----------
    variants : mapping of str to Scenario
        By name, as `variants` makes them, or any scenarios of the same duration.
    seeds : iterable of int
    baseline : str, optional
        What the others are compared to; the first variant when not given.
    confidence : float
        Of the intervals.
    optimal : bool
        Run each scenario with the assignor ``optimal``, too, and measure the distance to it.
    progress : callable, optional
        Called with ``(done, all)``, in runs.

    Raises
    ------
    InputError
        There is nothing to compare, a seed comes twice, or a scenario cannot be run.
    """
    plan = grid(variants, seeds, optimal=optimal)
    require_baseline(list(variants), baseline)
    rows = []
    curves: dict[str, Curve] = {}
    for done, planned in enumerate(plan.runs):
        if progress is not None:
            progress(done, len(plan.runs))
        found = simulate(planned.scenario, planned.seed)
        rows.append(row_of(planned, found))
        curves[planned.id] = curve(found.timeline)
    if progress is not None:
        progress(len(plan.runs), len(plan.runs))
    by_variant = {
        name: [curves[cell.run] for cell in plan.cells if cell.variant == name] for name in variants
    }
    comparison = compared(as_runs(plan, rows), baseline, confidence, variants)
    return replace(comparison, projected=projections(by_variant, confidence))


def compared(
    runs: pa.Table,
    baseline: str | None = None,
    confidence: float = 0.95,
    scenarios: Mapping[str, Scenario] | None = None,
) -> Comparison:
    """Compare runs that are there already, such as those of a sweep.

    Parameters
    ----------
    runs : pyarrow.Table
        ``variant``, ``seed``, and columns of `RUNS` to be compared by; others are passed over.
        Failed runs (with an ``error``) are counted, and left out of all else.
    baseline, confidence
        As for `compare`.
    scenarios : mapping of str to Scenario, optional
        What the runs are of, by variant: the verdict then says where an open transaction blocks
        them, and where the work of a record is not known.

    Raises
    ------
    InputError
        There is no run, a variant has the same seed twice, or runs are not of the same duration.
    """
    names = _require_runs(runs)
    baseline = require_baseline(names, baseline)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, such as 0.95, not {confidence}")
    failed = _failed(runs)
    measures, differences = [], []
    for measure, how in MEASURED.items():
        if measure not in runs.column_names:
            continue
        by_variant = by_variant_and_seed(runs, measure)
        for name, mine in by_variant.items():
            values = np.array(list(mine.values()), np.float64)
            unknown = int(np.isnan(values).sum())
            counts = {"n": len(values) - unknown, "unknown": unknown, "failed": failed.get(name, 0)}
            bounds = mean_interval(values, confidence)._asdict() | {"median": median(values, how)}
            measures.append(
                {"variant": name, "measure": measure} | counts | bounds | {"confidence": confidence}
            )
        for name in names:
            if name != baseline:
                values, others = paired(by_variant[name], by_variant[baseline])
                level = each_level(confidence, len(names) - 1)
                row = {
                    "variant": name,
                    "baseline": baseline,
                    "measure": measure,
                    "confidence": confidence,
                }
                row |= _difference(values, others, level)
                differences.append(row | {"better": is_better(values, others, how, level)})
    return Comparison(
        runs,
        pa.Table.from_pylist(measures, schema=MEASURES),
        pa.Table.from_pylist(differences, schema=DIFFERENCES),
        baseline,
        confidence,
        scenarios=dict(scenarios or {}),
    )


def require_baseline(names: list[str], baseline: str | None) -> str:
    """The variant to compare to: the first when none is given.

    Raises
    ------
    InputError
        It is not one of these.
    """
    if baseline is not None and baseline not in names:
        raise InputError(
            f"unknown variant {baseline!r} to compare to: "
            f"choose one of {', '.join(map(repr, names))}"
        )
    return names[0] if baseline is None else baseline


def _require_runs(runs: pa.Table) -> list[str]:
    for column in ("variant", "seed"):
        if column not in runs.column_names:
            raise InputError(
                f"these runs have no column {column!r}: give the table of a comparison or a sweep"
            )
    if not runs.num_rows:
        raise InputError("there are no runs to compare: give at least one variant and one seed")
    keys = list(
        zip(runs.column("variant").to_pylist(), runs.column("seed").to_pylist(), strict=True)
    )
    if len(set(keys)) < len(keys):
        raise InputError(
            "a variant has two runs with the same seed: give each (variant, seed) once"
        )
    if (
        "duration_ms" in runs.column_names
        and len(spans := pc.unique(runs.column("duration_ms").drop_null())) > 1
    ):
        raise InputError(
            f"these runs are of different durations "
            f"({', '.join(map(str, spans.to_pylist()))} ms), which cannot be "
            "compared: give all scenarios the same duration_ms"
        )
    return list(dict.fromkeys(name for name, _ in keys))


def _failed(runs: pa.Table) -> dict[str, int]:
    if "error" not in runs.column_names:
        return {}
    counts = runs.filter(pc.is_valid(runs.column("error"))).column("variant").value_counts()
    return {one["values"]: one["counts"] for one in counts.to_pylist()}


def _difference(values: Floats, others: Floats, level: float) -> dict[str, float | int | None]:
    difference, ratio = (
        difference_interval(less(values, others), level),
        ratio_interval(values, others, level),
    )
    unknown = int(np.isnan(values - others).sum())
    return {
        "n": len(values) - unknown,
        "unknown": unknown,
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "ratio": ratio.mean,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
    }
