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
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.tables import report_views
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import counted, number, percent
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
from sharelag.whatif.comparison.rows import Best
from sharelag.whatif.comparison.tables import (
    DIFFERENCES,
    MEASURED,
    MEASURES,
    PROJECTED,
    Measure,
)
from sharelag.whatif.grid import PlannedRun, Progress, grid, run_all, variants
from sharelag.whatif.horizon import rates
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
        name: [curves[cell.run.id] for cell in plan.cells if cell.variant == name]
        for name in variants
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
                values, others = pair(mine, by_variant[baseline])
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
    keys = list(zip(*(runs.column(name).to_pylist() for name in ("variant", "seed")), strict=True))
    if len(set(keys)) < len(keys):
        raise InputError(
            "a variant has two runs with the same seed: give each (variant, seed) once"
        )
    spans = [] if "duration_ms" not in runs.column_names else runs.column("duration_ms").to_pylist()
    if len(known := dict.fromkeys(str(one) for one in spans if one is not None)) > 1:
        raise InputError(
            f"these runs are of different durations ({', '.join(known)} ms), which cannot be "
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

    @cached_property
    def names(self) -> list[str]:
        """The variants, in the order of the runs."""
        return list(dict.fromkeys(self.runs.column("variant").to_pylist()))

    @cached_property
    def seeds(self) -> int:
        """How many seeds there are."""
        return len(set(self.runs.column("seed").to_pylist()))

    @cached_property
    def horizon_ms(self) -> int | None:
        """How long was simulated; None where runs that were made elsewhere do not tell."""
        if "duration_ms" not in self.runs.column_names:
            return None
        return next(iter(self.runs.column("duration_ms").drop_null().to_pylist()), None)

    @cached_property
    def cells(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What is known of a variant by a measure, with its difference to the baseline."""
        against = {(row["variant"], row["measure"]): row for row in self.differences.to_pylist()}
        found = {}
        for row in self.measures.to_pylist():
            other = against.get((row["variant"], row["measure"]), {})
            found[row["variant"], row["measure"]] = {
                **{name: row[name] for name in ("measure", "variant", "n", "unknown", "failed")},
                **{name: row[name] for name in (*words.MEAN, "median")},
                "baseline": self.baseline,
                "difference": other.get("difference"),
                "difference_low": other.get("low"),
                "difference_high": other.get("high"),
                **{name: other.get(name) for name in (*words.RATIOS, "better")},
            }
        return found

    def presented(self) -> Presentation:
        """Return the table that decides, with the verdict before what else to know.

        It is the same on every page: the baseline first, what is best in bold.
        """
        rows = [words.decision_for_people(row) for row in self.decision()]
        known = [name for name in words.DECIDING if (self.baseline, name) in self.cells]
        best = {(name, variant) for name in known for variant in self.best(name).names}
        notes = (self.verdict(), *self.sentences())
        every = [words.for_people(row) for row in self.rows()]
        return replace(
            presented(f"Compared to {self.baseline}", rows, report_views.DECISION, notes),
            best=frozenset(
                (number, name)
                for number, row in enumerate(rows)
                for name in known
                if (name, row["variant"]) in best
            ),
            spans={"age_p95_difference": [row["age_p95_span"] for row in rows]},
            more=presented("All measures", every, report_views.COMPARED),
        )

    def decision(self) -> list[dict[str, Any]]:
        """Return one row per variant with what decides, the baseline first.

        Returns
        -------
        list of dict
            ``variant``, ``drain_ms`` (mean; None where a run never drained), ``drained`` (runs that
            did), ``age_p95_ms`` and its difference to the baseline in words, ``lag_p95``,
            ``redeliveries``, ``member_hours`` and ``verdict``, which agrees with `verdict`. `rows`
            has all measures. ``age_p95_span`` has low, mean and high of the difference.
        """
        rows = []
        for name in dict.fromkeys((self.baseline, *self.names)):
            of = {measure: self.cells.get((name, measure), {}) for measure in MEASURED}
            drain = of["drain_ms"]
            runs = drain.get("n", 0) + drain.get("unknown", 0)
            standings: dict[str, list[str]] = {}
            for measure, one in self.decisive.items():
                if how := _place(name, one, of[measure]["better"]):
                    standings.setdefault(how, []).append(words.DECISIVE[measure])
            said = [f"{how} by {' and '.join(by)}" for how, by in standings.items()]
            said += ["baseline"] if name == self.baseline else []
            said += [f"{drain['failed']} failed"] if drain.get("failed") else []
            row = {
                "variant": name,
                **{measure: of[measure].get("mean") for measure in words.DECIDING},
                "drained": f"{drain['n']} of {runs}" if runs else None,
                "horizon_ms": self.horizon_ms,
                "age_p95_difference": words.with_half(of["age_p95_ms"]),
                "age_p95_span": words.difference_span(of["age_p95_ms"]),
                "verdict": "; ".join(said) or None,
            }
            rows.append(row)
        return rows

    def winner(self, measure: str) -> str | None:
        """The variant that is better than each of the others; None where the runs do not show one.

        All pairs of variants are compared, and the confidence holds for all of them together.

        Raises
        ------
        InputError
            The measure is not among those compared, or no direction of it is better.
        """
        wins = self._wins(measure)
        return next((name for name in wins if 0 < len(wins[name]) == len(wins) - 1), None)

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
        wins, winner = self._wins(measure), self.winner(measure)
        cells = {name: self.cells[name, measure] for name in self.names}
        ahead = [name for name in self.names if cells[name]["better"] and name != winner]
        others = self._from_the_best(measure, ahead)
        names = [winner, *others] if winner else others

        def is_alike(name: str) -> bool:
            one, first = cells[name], cells[names[0]]
            own, best = one["difference"], first["difference"]
            if own is None or best is None or one["unknown"] != first["unknown"]:
                return False
            return bool(abs(own - best) < words.MATTERS * abs(best))

        tied = tuple(name for name in names if name not in wins[names[0]] or is_alike(name))
        beats_all = winner is not None and len(tied) == 1
        gains = [cells[name]["difference"] for name in tied]
        usual = cells[self.baseline]["mean"]
        if not usual or None in gains:
            return Best(tied, beats_all, (), None)
        sizes = tuple(map(abs, gains))
        return Best(tied, beats_all, sizes, max(sizes, default=0.0) / abs(usual))

    @cached_property
    def decisive(self) -> dict[str, Best]:
        """The best by each measure that decides, as far as it was compared."""
        return {name: self.best(name) for name in words.DECISIVE if name in self.runs.column_names}

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
        if measure in self._won:
            return self._won[measure]
        if (self.baseline, measure) not in self.cells or MEASURED[measure].better is None:
            columns = self.runs.column_names
            choices = [name for name, one in MEASURED.items() if one.better and name in columns]
            raise InputError(f"unknown measure {measure!r}: choose one of {', '.join(choices)}")
        by_variant = by_variant_and_seed(self.runs, measure)
        pairs = list(combinations(by_variant, 2))
        wins: dict[str, list[str]] = {name: [] for name in by_variant}
        level = each_level(self.confidence, len(pairs))
        for one, other in pairs:
            values, others = pair(by_variant[one], by_variant[other])
            better = is_better(values, others, MEASURED[measure], level)
            if better is not None:
                wins[one if better else other].append(other if better else one)
        self._won[measure] = wins
        return wins

    @cached_property
    def _won(self) -> dict[str, dict[str, list[str]]]:
        """The variants that each is better than, by measure: kept by `_wins`."""
        return {}

    def rows(self, measures: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
        """One row per measure and variant, with its difference to the baseline and whether it wins.

        Measures that some run does not know come after the others.
        """
        chosen: dict[str, list[dict[str, Any]]] = {}
        for (_, measure), cell in self.cells.items():
            if not measures or measure in measures:
                chosen.setdefault(measure, []).append(cell)
        dark = {name for name, rows in chosen.items() if any(row["unknown"] for row in rows)}
        for measure in sorted(chosen, key=dark.__contains__):
            best = self.best(measure)
            for cell in chosen[measure]:
                wins = best.beats_all and best.names == (cell["variant"],)
                yield {**cell, "winner": wins, "confidence": self.confidence}

    def verdict(self) -> str:
        """Return one sentence: which variant is better by which measure, and how each would go.

        The age of the oldest record, at its 95th percentile, and the time until the lag is gone
        decide. It names the one that shows a difference, or both, and where they disagree it says
        so. Variants that are better than the baseline and do not differ among themselves tie. A
        gain that is certain may still be too small to act on: then it says so. Nothing is said of
        which variant is better where nobody knows how long a record takes, and that no change helps
        where an open transaction holds what decides.
        """
        scenario = self.scenarios.get(self.baseline)
        if scenario is not None and (unknown := words.unknown_work(scenario)):
            return unknown
        best = list(dict.fromkeys(one.names for one in self.decisive.values() if one.names))
        held = "" if scenario is None else words.say_blocked(scenario)
        told = _in_order(self, best)
        # Who alone is named before the colon is not named again after it.
        is_one = len(best) == 1 or (not best and not held and len(told) == 2)
        figures = "; ".join(
            _course(self, names)
            if is_one and names == told[0]
            else f"{words.join_names(names)}: {_course(self, names)}"
            for names in told
        )
        if held and not best:
            return f"{held}: members do not help there, nor do assignors or locks; {figures}"
        if held:
            figures += f"; {self.baseline} is {held}"
        over = "" if self.horizon_ms is None else f" over {duration(self.horizon_ms)}"
        return f"{_who(self, told)}{over}: {figures}"

    def reasons(self, variant: str | None = None) -> Iterator[str]:
        """Yield why a variant, by default the best, differs from the baseline.

        Three mechanisms are known: members finish less than arrives, a poll takes longer than a
        lock, and members have nothing to do while others are behind. Each is said only where the
        runs show it.
        """
        if variant is None:
            best = (name for one in self.decisive.values() for name in one.names)
            variant = next(best, self.baseline)
        usual, changed = self.scenarios.get(self.baseline), self.scenarios.get(variant)
        if usual is None or changed is None or variant == self.baseline:
            return

        def both(measure: str) -> tuple[float, float] | None:
            """Return the means of baseline and variant where the runs tell them apart."""
            cell = self.cells.get((variant, measure), {})
            low, high = cell.get("difference_low"), cell.get("difference_high")
            if low is None or high is None or low <= 0 <= high:
                return None
            return self.cells[self.baseline, measure]["mean"], cell["mean"]

        known, more = rates(usual), rates(changed)
        few, many = len(usual.each_member()), len(changed.each_member())
        if known.each and few * known.each <= known.arriving < many * more.each:
            yield (
                f"{known.arriving:.3g} records/s arrive, of which {counted(few, 'member')} can "
                f"finish {few * known.each:.3g} and {counted(many, 'member')} "
                f"{many * more.each:.3g}"
            )
        locks = [one.settings.limits.lock_duration_ms for one in (usual, changed)]
        polls = [(one.max_poll_records * one.service.mean_ms, one) for one in usual.each_member()]
        longest, member = max(polls, key=lambda one: one[0], default=(0.0, None))
        expired = both("expired")
        if expired and member and locks[0] != locks[1] and longest >= _LONG_POLL * min(locks):
            yield (
                f"a poll of {counted(member.max_poll_records, 'record')} x "
                f"{number(member.service.mean_ms)} ms takes {duration(longest)}: with locks of "
                f"{duration(locks[0])} {number(expired[0])} deliveries expire, with "
                f"{duration(locks[1])} {number(expired[1])}"
            )
        busy = both("busy_share")
        if busy and usual.assignor != changed.assignor and busy[1] - busy[0] > _BUSIER:
            yield (
                f"with {usual.assignor} members are busy {percent(busy[0])} of the time, with "
                f"{changed.assignor} {percent(busy[1])}: it lets more of them work where the lag is"
            )

    def sentences(self) -> Iterator[str]:
        """Yield why the best differs, and what to know when reading it."""
        yield from (f"why: {reason}" for reason in self.reasons())
        yield from self.conditions()

    def conditions(self) -> Iterator[str]:
        """Yield what was run, by which intervals, what was assumed, and which runs failed."""
        yield (
            f"{counted(len(self.names), 'variant')}, {counted(self.seeds, 'seed')}, "
            f"compared seed by seed with {self.baseline}; "
            f"{100 * self.confidence:g} % confidence intervals, corrected for the number of "
            "variants but not of measures: among many measures, one may differ by chance"
        )
        level = each_level(self.confidence, len(self.names) - 1)
        yield from words.too_few(self.differences.to_pylist(), self.seeds, level)
        names = self.runs.column_names
        if "error" in names and (errors := self.runs.column("error").drop_null().to_pylist()):
            yield f"{len(errors)} failed runs are left out; the first error is: {min(errors)}"


# ---- in words -----------------------------------------------------------------------------------

#: A difference of the share of time that members are busy, below which it explains nothing.
_BUSIER = 0.05
#: A poll that takes this part of a lock on average often takes all of it.
_LONG_POLL = 0.5


def _place(name: str, best: Best, better: bool | None) -> str:
    """Say where a variant stands by a measure; empty where the runs do not tell."""
    if name not in best.names:
        return {True: "better", False: "worse", None: ""}[better]
    place = "ties" if len(best.names) > 1 else "best" if best.beats_all else "better"
    return f"{place} (less than a tenth)" if best.is_small else place


def _who(found: Comparison, told: list[tuple[str, ...]]) -> str:
    """Say who is best by which of the measures that decide."""
    by_measure, is_pair = found.decisive, len(found.names) == 2
    by_best: dict[tuple[str, ...], list[str]] = {}
    for measure, one in by_measure.items():
        if one.names:
            by_best.setdefault(one.names, []).append(measure)
    if not by_best:
        by = " or ".join(words.DECISIVE[measure] for measure in by_measure)
        who = f"{told[0][0]} is not" if is_pair else "no variant is"
        return f"{who} shown to be better{'' if is_pair else f' than {found.baseline}'} by {by}"
    said, verb = list[str](), ""
    for names, measures in by_best.items():
        best = min((by_measure[name] for name in measures), key=lambda one: one.beats_all)
        who, before = words.standing(best, found.baseline, is_pair), verb
        verb = who.removeprefix(words.join_names(names))
        by = " and ".join(
            words.DECISIVE[name] + _gain(by_measure[name], name, found) for name in measures
        )
        said.append(f"{words.join_names(names) if verb == before else who} by {by}")
    return ", but ".join(said)


def _gain(best: Best, measure: str, found: Comparison) -> str:
    """Say by how much variants that tie are better, and where a gain is too small to act on."""
    said = []
    if len(best.names) > 1 and best.gains:
        said.append(f"{words.span(measure, best.gains)} less than {found.baseline}")
    if best.is_small:
        said.append("less than a tenth")
    return f" ({', '.join(said)})" if said else ""


def _in_order(found: Comparison, best: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return whose figures it has: the best, others as far as they fit, the baseline."""
    named = {name for names in best for name in names}
    told = found.names if len(found.names) <= words.MOST_TOLD else []
    others = [(name,) for name in told if name not in named and name != found.baseline]
    return list(dict.fromkeys([*best, *others, (found.baseline,)]))


def _course(found: Comparison, names: tuple[str, ...]) -> str:
    """Say how the lag of variants went, on average; of several from the least to the most."""
    drains, ages = (
        [cell for name in names if (cell := found.cells.get((name, measure)))]
        for measure in ("drain_ms", "age_p95_ms")
    )
    drained = sum(cell["n"] for cell in drains)
    runs = drained + sum(cell["unknown"] for cell in drains)
    if drains and not runs:
        return "all of its runs failed"
    if drains and drained == runs:
        said = f"drained in {words.span('drain_ms', [cell['mean'] for cell in drains])}"
    else:
        often = f" in {runs - drained} of {runs} runs" if drained else ""
        within = "the run" if found.horizon_ms is None else duration(found.horizon_ms)
        said = f"not drained within {within}{often}"
    known = [cell["mean"] for cell in ages if cell["mean"] is not None]
    return f"{said}, p95 age {words.span('age_p95_ms', known)}" if known else said


# ---- runs, paired by seed ------------------------------------------------------------------------


def by_variant_and_seed(runs: pa.Table, measure: str) -> dict[str, dict[int, float]]:
    """Return a measure by variant and seed, NaN where it is unknown, without failed runs."""
    found: dict[str, dict[int, float]] = {name: {} for name in runs.column("variant").to_pylist()}
    if "error" in runs.column_names:
        runs = runs.filter(pc.is_null(runs.column("error")))
    columns = (runs.column(name).to_pylist() for name in ("variant", "seed", measure))
    for name, seed, value in zip(*columns, strict=True):
        found[name][seed] = np.nan if value is None else float(value)
    return found


def pair(one: Mapping[int, float], other: Mapping[int, float]) -> tuple[Floats, Floats]:
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
