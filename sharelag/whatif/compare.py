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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.tables import views
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import counted
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison.intervals import (
    Curve,
    Floats,
    curve,
    difference_interval,
    each_level,
    is_better,
    known,
    less,
    mean_interval,
    median,
    projections,
    ratio_interval,
)
from sharelag.whatif.comparison.mechanism import mechanisms
from sharelag.whatif.comparison.rows import Best
from sharelag.whatif.comparison.tables import (
    DIFFERENCES,
    MEASURED,
    MEASURES,
    PROJECTED,
    Measure,
)
from sharelag.whatif.grid import PlannedRun, Progress, grid, run_all, variants
from sharelag.whatif.presented import presented
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import SimulationResult

__all__ = ["PROJECTED", "Comparison", "Progress", "compare", "compared", "projected", "variants"]


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
    curves: dict[str, Curve] = {}

    def keep(planned: PlannedRun, found: SimulationResult) -> None:
        curves[planned.id] = curve(found.timeline, found.summary.column("drain_ms")[0].as_py())

    runs = run_all(plan, progress, keep)
    by_variant = {
        name: [curves[cell.run] for cell in plan.cells if cell.variant == name] for name in variants
    }
    comparison = compared(runs, baseline, confidence, variants)
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
    measures, differences = contrast(runs, MEASURED, baseline, confidence)
    return Comparison(
        runs,
        pa.Table.from_pylist(measures, schema=MEASURES),
        pa.Table.from_pylist(differences, schema=DIFFERENCES),
        baseline,
        confidence,
        scenarios=dict(scenarios or {}),
    )


def join(parts: Sequence[Comparison]) -> Comparison:
    """Return one comparison of the runs of several; the baseline is that of the first."""
    first = parts[0]
    found = compared(
        pa.concat_tables([one.runs for one in parts]),
        first.baseline,
        first.confidence,
        {name: some for one in parts for name, some in one.scenarios.items()},
    )
    return replace(found, projected=pa.concat_tables([one.projected for one in parts]))


Rows: TypeAlias = list[dict[str, Any]]


def contrast(
    runs: pa.Table, measured: Mapping[str, Measure], baseline: str, confidence: float
) -> tuple[Rows, Rows]:
    """Return the rows of `MEASURES` and of `DIFFERENCES` for the measures that the runs have."""
    failed = _failed(runs)
    measures, differences = [], []
    for measure, how in measured.items():
        if measure not in runs.column_names:
            continue
        by_variant = by_variant_and_seed(runs, measure)
        level = each_level(confidence, len(by_variant) - 1)
        about = {"measure": measure, "confidence": confidence}
        for name, mine in by_variant.items():
            values = np.array(list(mine.values()), np.float64)
            bounds = mean_interval(values, confidence)._asdict() | {"median": median(values, how)}
            counts = {"variant": name, "failed": failed.get(name, 0)}
            measures.append(about | counts | known(values) | bounds)
            if name != baseline:
                values, others = paired(mine, by_variant[baseline])
                found = difference_interval(less(values, others), level)
                ratio = ratio_interval(values, others, level)
                differences.append(
                    about
                    | {"variant": name, "baseline": baseline}
                    | known(values - others)
                    | {"difference": found.mean, "low": found.low, "high": found.high}
                    | {"ratio": ratio.mean, "ratio_low": ratio.low, "ratio_high": ratio.high}
                    | {"better": is_better(values, others, how, level)}
                )
    return measures, differences


def require_baseline(names: list[str], baseline: str | None) -> str:
    """Return the variant to compare to: the first when none is given."""
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


@dataclass(frozen=True)
class Comparison(Displayable):
    """What came of it, as tables of `sharelag.whatif.comparison.tables`.

    Attributes
    ----------
    runs
        One row per run: `RUNS`.
    measures
        One row per variant and measure: `MEASURES`.
    differences
        One row per variant and measure against the baseline: `DIFFERENCES`.
    baseline, confidence
        As they were given.
    projected
        Lag and age over time, the mean of the runs of each variant:
        `sharelag.whatif.compare.PROJECTED`.
        Empty for runs that were made elsewhere, such as those of a sweep: they keep no timeline.
    scenarios
        What was compared, by variant; empty where only the runs are at hand.
    """

    runs: pa.Table
    measures: pa.Table
    differences: pa.Table
    baseline: str
    confidence: float
    projected: pa.Table = field(default_factory=PROJECTED.empty_table)
    scenarios: Mapping[str, Scenario] = field(default_factory=dict)

    def presented(self) -> Presentation:
        """Return the table that decides, with the verdict before what else to know."""
        found = [words.decision_for_people(row) for row in self.decision()]
        notes = (self.verdict(), *self.sentences())
        return presented(f"Compared to {self.baseline}", found, views.DECISION, notes)

    def decision(self) -> list[dict[str, Any]]:
        """Return one row per variant with what decides, the baseline first.

        Returns
        -------
        list of dict
            ``variant``, ``drain_ms`` (mean; None where a run never drained), ``drained`` (runs that
            did), ``age_p95_ms`` and its difference to the baseline in words, ``lag_p95``,
            ``redeliveries``, ``member_hours`` and ``verdict``, which agrees with `verdict`. `rows`
            has all measures.
        """
        return list(words.decision(self))

    def winner(self, measure: str) -> str | None:
        """The variant that is better than each of the others; None where the runs do not show one.

        All pairs of variants are compared, and the confidence holds for all of them together.

        Raises
        ------
        InputError
            The measure is not among those compared, or no direction of it is better.
        """
        return _first_of_all(self._wins(measure))

    def best(self, measure: str) -> Best:
        """Return the variants that are best by a measure, as far as the runs show it.

        That is the best of those that are better than the baseline, and those of them that it is
        not shown to be better than, or by less than a tenth of its gain: they tie. Where the
        baseline is better than each of the others, it is the baseline. None is best by a measure of
        which neither direction is better.

        Raises
        ------
        InputError
            The measure is not among those compared.
        """
        if measure in MEASURED and MEASURED[measure].better is None:
            return Best((), False, (), None)
        wins = self._wins(measure)
        winner = _first_of_all(wins)
        ahead = {
            row["variant"]: row["difference"]
            for row in self.differences.to_pylist()
            if row["measure"] == measure and row["better"]
        }
        mine = [row for row in self.measures.to_pylist() if row["measure"] == measure]
        unknown = {row["variant"]: row["unknown"] for row in mine}
        (usual,) = (row["mean"] for row in mine if row["variant"] == self.baseline)
        others = [name for name in self._from_the_best(measure, list(ahead)) if name != winner]
        names = [winner, *others] if winner else others

        def is_alike(name: str) -> bool:
            own, best = ahead.get(name), ahead.get(names[0])
            if own is None or best is None or unknown[name] != unknown[names[0]]:
                return False
            return bool(abs(own - best) < words.MATTERS * abs(best))

        tied = [name for name in names if name not in wins[names[0]] or is_alike(name)]
        gains = [abs(ahead[name]) for name in tied if ahead.get(name) is not None]
        is_known = len(gains) == len(tied) and usual
        share = max(gains, default=0.0) / abs(usual) if is_known else None
        return Best(
            tuple(tied),
            winner is not None and len(tied) == 1,
            tuple(gains) if is_known else (),
            share,
        )

    def _from_the_best(self, measure: str, names: list[str]) -> list[str]:
        """Sort variants by a measure: by the runs that do not know it, then by the mean."""
        sign = 1 if MEASURED[measure].better == "lower" else -1
        means = by_variant_and_seed(self.runs, measure)

        def place(name: str) -> tuple[int, float]:
            values = np.array(list(means[name].values()))
            there = values[~np.isnan(values)]
            return len(values) - len(there), sign * float(there.mean()) if len(there) else 0.0

        return sorted(names, key=place)

    def _wins(self, measure: str) -> dict[str, list[str]]:
        """Return the variants that each is better than; the confidence holds for all pairs."""
        told = self.measures.column("measure").to_pylist()
        if measure not in told or MEASURED[measure].better is None:
            columns = self.runs.column_names
            choices = [name for name, one in MEASURED.items() if one.better and name in columns]
            raise InputError(f"unknown measure {measure!r}: choose one of {', '.join(choices)}")
        by_variant = by_variant_and_seed(self.runs, measure)
        pairs = list(combinations(by_variant, 2))
        wins: dict[str, list[str]] = {name: [] for name in by_variant}
        level = each_level(self.confidence, len(pairs))
        for one, other in pairs:
            values, others = paired(by_variant[one], by_variant[other])
            better = is_better(values, others, MEASURED[measure], level)
            if better is not None:
                wins[one if better else other].append(other if better else one)
        return wins

    def rows(self, measures: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
        """One row per measure and variant, with its difference to the baseline and whether it wins.

        Measures that some run does not know come after the others.
        """
        against = {(row["measure"], row["variant"]): row for row in self.differences.to_pylist()}
        told = self.measures.to_pylist()
        rows = [row for row in told if not measures or row["measure"] in measures]
        dark = {row["measure"] for row in rows if row["unknown"]}
        best = {
            measure: self.best(measure) for measure in dict.fromkeys(r["measure"] for r in rows)
        }
        for row in sorted(rows, key=lambda row: row["measure"] in dark):
            measure, variant = row["measure"], row["variant"]
            other = against.get((measure, variant), {})
            yield {
                "measure": measure,
                "variant": variant,
                **{name: row[name] for name in ("n", "unknown", "failed", *words.MEAN, "median")},
                "baseline": self.baseline,
                "difference": other.get("difference"),
                "difference_low": other.get("low"),
                "difference_high": other.get("high"),
                **{name: other.get(name) for name in sorted(words.RATIOS)},
                "better": other.get("better"),
                "winner": best[measure].beats_all and best[measure].names == (variant,),
                "confidence": self.confidence,
            }

    def verdict(self) -> str:
        """Return one sentence: which variant is better by which measure, and how each would go.

        The age of the oldest record, at its 95th percentile, and the time until the lag is gone
        decide; see `sharelag.whatif.comparison.rows`.
        """
        return words.verdict(self)

    def reasons(self, variant: str | None = None) -> Iterator[str]:
        """Yield why a variant, by default the best, differs from the baseline.

        See `sharelag.whatif.comparison.mechanism`; nothing where the runs do not show it.
        """
        if variant is None:
            decisive = [name for name in words.DECISIVE if name in self.runs.column_names]
            best = (name for measure in decisive for name in self.best(measure).names)
            variant = next(best, self.baseline)
        yield from mechanisms(self, variant)

    def sentences(self) -> Iterator[str]:
        """Yield why the best differs, and what to know when reading it."""
        yield from (f"why: {reason}" for reason in self.reasons())
        yield from self.conditions()

    def conditions(self) -> Iterator[str]:
        """Yield what was run, by which intervals, what was assumed, and which runs failed."""
        variants = len(set(self.runs.column("variant").to_pylist()))
        seeds = len(set(self.runs.column("seed").to_pylist()))
        yield (
            f"{counted(variants, 'variant')}, {counted(seeds, 'seed')}, "
            f"compared seed by seed with {self.baseline}; "
            f"{100 * self.confidence:g} % confidence intervals, corrected for the number of "
            "variants but not of measures: among many measures, one may differ by chance"
        )
        yield from words.too_few(
            self.differences.to_pylist(), seeds, each_level(self.confidence, variants - 1)
        )
        names = self.runs.column_names
        if "error" in names and (errors := self.runs.column("error").drop_null().to_pylist()):
            yield f"{len(errors)} failed runs are left out; the first error is: {min(errors)}"


def _first_of_all(wins: Mapping[str, list[str]]) -> str | None:
    return next((name for name in wins if 0 < len(wins[name]) == len(wins) - 1), None)


def by_variant_and_seed(runs: pa.Table, measure: str) -> dict[str, dict[int, float]]:
    """Return a measure by variant and seed, NaN where it is unknown, without failed runs."""
    found: dict[str, dict[int, float]] = {name: {} for name in runs.column("variant").to_pylist()}
    if "error" in runs.column_names:
        runs = runs.filter(pc.is_null(runs.column("error")))
    columns = (runs.column(name).to_pylist() for name in ("variant", "seed", measure))
    for name, seed, value in zip(*columns, strict=True):
        found[name][seed] = np.nan if value is None else float(value)
    return found


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> tuple[Floats, Floats]:
    """Return the values of the seeds that both have."""
    seeds = [seed for seed in one if seed in other]
    return np.array([one[seed] for seed in seeds]), np.array([other[seed] for seed in seeds])


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
    """
    return compare(variants, seeds=seeds, confidence=confidence).projected
