"""Compare variants of a group: simulate each with the same seeds, and separate effects from chance.

    tried = variants(scenario, assignors=["simple", "lag-aware-sticky"], members=[8, 16])
    comparison = compare(tried, seeds=range(20))
    comparison.measures, comparison.differences      # Arrow tables
    comparison.winner("age_p95_ms")                  # a name, or None if the runs show none

With the same seed, chance is the same for all variants, so they are compared run by run: the
remaining differences are effects of the variants, and few runs show them. Intervals are Student's
t; those of one measure are corrected for the number of comparisons (Bonferroni), so with a
confidence of 0.95 all of them are right in 95 of 100 comparisons. There is no correction over
several measures: among twenty measures, one seems to differ by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sharelag.durations import duration
from sharelag.errors import InputError, list_names
from sharelag.tables import report_views
from sharelag.tables.conform import require_conformable
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import number, per_second, percent, pluralize
from sharelag.whatif.comparison import intervals
from sharelag.whatif.comparison import rows as words
from sharelag.whatif.comparison.rows import Best
from sharelag.whatif.comparison.tables import DIFFERENCES, MEASURED, MEASURES, PROJECTED, RUNS
from sharelag.whatif.estimates import say_stuck
from sharelag.whatif.grid import Progress, in_turn, variants
from sharelag.whatif.horizon import rates
from sharelag.whatif.presenting import present
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import SimulationResult

__all__ = ["PROJECTED", "Comparison", "Progress", "compare", "compared", "variants"]


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
        Random seeds.
    baseline : str, optional
        The variant that the others are compared to; by default the first.
    confidence : float
        Confidence of the intervals.
    optimal : bool
        Also run each scenario with the assignor ``optimal``, and measure the distance to it.
    progress : callable, optional
        Called with ``(done, all)``, in runs.

    Raises
    ------
    InputError
        There is nothing to compare, a seed comes twice, or a scenario cannot be run.
    """
    if baseline is not None:
        require_baseline(list(variants), baseline)
    curves: dict[str, intervals.Curve] = {}

    def keep(run: str, found: SimulationResult) -> None:
        drain_ms = found.summary.column("drain_ms")[0].as_py()
        curves[run] = intervals.curve(found.timeline, drain_ms)

    runs = in_turn(variants, seeds, optimal=optimal, progress=progress, keep=keep)
    rows = runs.select(["variant", "run"]).to_pylist()
    by_variant = {
        name: [curves[row["run"]] for row in rows if row["variant"] == name] for name in variants
    }
    comparison = compared(runs, baseline, confidence, variants)
    return replace(comparison, projected=intervals.projections(by_variant, confidence))


def compared(
    runs: pa.Table,
    baseline: str | None = None,
    confidence: float = 0.95,
    scenarios: Mapping[str, Scenario] | None = None,
) -> Comparison:
    """Compare existing runs, such as those of a sweep.

    Parameters
    ----------
    runs : pyarrow.Table
        ``variant``, ``seed``, and columns of `RUNS` to compare by; other columns are ignored.
        Failed runs (with an ``error``) are counted, and otherwise left out.
    baseline, confidence
        As for `compare`.
    scenarios : mapping of str to Scenario, optional
        The scenarios of the runs, by variant: with them, the verdict mentions open transactions
        that block them, and unknown processing times.

    Raises
    ------
    InputError
        There are no runs, a variant has the same seed twice, or runs differ in duration.
    """
    needed = pa.schema([RUNS.field("variant"), RUNS.field("seed")])
    require_conformable(runs.schema, needed, "runs")
    if not runs.num_rows:
        raise InputError("there are no runs to compare: give at least one variant and one seed")
    if runs.group_by(["variant", "seed"]).aggregate([]).num_rows < runs.num_rows:
        raise InputError(
            "a variant has two runs with the same seed: give each (variant, seed) once"
        )
    spans = _durations(runs)
    if len(spans) > 1:
        raise InputError(
            f"these runs are of different durations ({', '.join(map(str, spans))} ms), which "
            "cannot be compared: give all scenarios the same duration_ms"
        )
    baseline = require_baseline(runs.column("variant").unique().to_pylist(), baseline)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, such as 0.95, not {confidence}")
    return Comparison(runs, baseline, confidence, scenarios=dict(scenarios or {}))


def require_baseline(names: list[str], baseline: str | None) -> str:
    """Return the variant to compare to, by default the first."""
    if baseline is not None and baseline not in names:
        raise InputError(
            f"unknown variant {baseline!r} to compare to: "
            f"choose one of {list_names([*map(repr, names)])}"
        )
    return names[0] if baseline is None else baseline


def _durations(runs: pa.Table) -> list[int]:
    named = "duration_ms" in runs.column_names
    spans: list[int] = runs.column("duration_ms").unique().drop_null().to_pylist() if named else []
    return spans


@dataclass(frozen=True)
class Comparison(Displayable):
    """A comparison of variants, as tables of `sharelag.whatif.comparison.tables`.

    Attributes
    ----------
    runs
        One row per run: `RUNS`.
    baseline, confidence
        As they were given.
    projected
        Lag and age over time, the mean of the runs of each variant:
        `sharelag.whatif.compare.PROJECTED`. Empty for runs without a timeline, such as those of a
        sweep.
    scenarios
        The scenarios by variant; empty if only the runs are known.
    """

    runs: pa.Table
    baseline: str
    confidence: float
    projected: pa.Table = field(default_factory=PROJECTED.empty_table)
    scenarios: Mapping[str, Scenario] = field(default_factory=dict)
    #: Results of `_wins`, by measure.
    _won: dict[str, set[tuple[str, str]]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def measures(self) -> pa.Table:
        """One row per variant and measure: `MEASURES`."""
        rows = [cell | {"confidence": self.confidence} for cell in self.cells.values()]
        return pa.Table.from_pylist(rows, schema=MEASURES)

    @cached_property
    def differences(self) -> pa.Table:
        """One row per variant and measure against the baseline: `DIFFERENCES`."""
        rows = [
            {**cell, **cell["pairs"], "confidence": self.confidence}
            | {"low": cell["difference_low"], "high": cell["difference_high"]}
            for cell in self.cells.values()
            if "pairs" in cell
        ]
        return pa.Table.from_pylist(rows, schema=DIFFERENCES)

    @cached_property
    def names(self) -> list[str]:
        """The variants, in the order of the runs."""
        names: list[str] = self.runs.column("variant").unique().to_pylist()
        return names

    @cached_property
    def seeds(self) -> int:
        """The number of seeds."""
        return len(self.runs.column("seed").unique())

    @cached_property
    def horizon_ms(self) -> int | None:
        """The simulated time; None if the runs do not have it."""
        return next(iter(_durations(self.runs)), None)

    @cached_property
    def cells(self) -> dict[tuple[str, str], intervals.Cell]:
        """The values of a variant by measure, with its difference to the baseline."""
        cells = intervals.contrast(self.runs, MEASURED, self.baseline, self.confidence)
        hidden: dict[str, Any] = {"better": None} if self.unknown_work else {}
        return {(cell["variant"], cell["measure"]): cell | hidden for cell in cells}

    @cached_property
    def unknown_work(self) -> str:
        """Why no variant can be called better: a duration is unknown; empty if it is known."""
        return next(filter(None, map(words.unknown_work, self.scenarios.values())), "")

    def presentation(self) -> Presentation:
        """Return the decision table, with the verdict first among its notes.

        It is the same on every page: the baseline first, the best values in bold.
        """
        rows = [words.decision_for_people(row) for row in self.decision()]
        notes = (self.verdict(), *self.sentences())
        every = [words.for_people(row) for row in self.rows()]
        return replace(
            present(f"Compared to {self.baseline}", rows, report_views.DECISION, notes),
            best=self.best_cells(),
            spans={"age_p95_difference": [row["age_p95_span"] for row in rows]},
            more=present("All measures", every, report_views.COMPARED),
        )

    def decision(self) -> list[dict[str, Any]]:
        """Return one row per variant with the measures that decide, the baseline first.

        Returns
        -------
        list of dict
            ``variant``, ``drain_ms`` (mean; None if a run never drained), ``drained`` (runs that
            did), ``age_p95_ms`` and its difference to the baseline in words, ``lag_p95``,
            ``redeliveries``, ``member_hours`` and ``verdict``, which agrees with `verdict`. `rows`
            has all measures. ``age_p95_span`` has low, mean and high of the difference.
        """
        rows = []
        for name in self._in_rows:
            of = {measure: self.cells.get((name, measure), {}) for measure in words.DECIDING}
            drain = of["drain_ms"]
            runs = drain.get("n", 0) + drain.get("unknown", 0)
            standings: dict[str, list[str]] = {}
            for measure, best in self.decisive.items():
                if how := _say_place(name, best, of[measure]["better"]):
                    standings.setdefault(how, []).append(words.DECISIVE[measure])
            parts = [f"{how} by {' and '.join(by)}" for how, by in standings.items()]
            parts += ["baseline"] * (name == self.baseline)
            parts += [f"{drain['failed']} failed"] if drain.get("failed") else []
            span = words.difference_span(of["age_p95_ms"])
            row = {
                "variant": name,
                **{measure: cell.get("mean") for measure, cell in of.items()},
                "drained": f"{drain['n']} of {runs}" if runs else None,
                "horizon_ms": self.horizon_ms,
                "age_p95_difference": words.with_half(span),
                "age_p95_span": span,
                "verdict": "; ".join(parts) or None,
            }
            rows.append(row)
        return rows

    @cached_property
    def _in_rows(self) -> list[str]:
        return list(dict.fromkeys((self.baseline, *self.names)))

    def best_cells(self) -> frozenset[tuple[int, str]]:
        """Return the cells of `decision` that are best, by the row's number and the measure."""
        known = [one for one in words.DECIDING if (self.baseline, one) in self.cells]
        row = self._in_rows.index
        return frozenset((row(name), one) for one in known for name in self.best(one).names)

    def winner(self, measure: str) -> str | None:
        """Return the variant that is better than all others; None if the runs do not show one.

        All pairs of variants are compared, and the confidence holds for all of them together.

        Raises
        ------
        InputError
            The measure is not among those compared, or has no better direction.
        """
        counts = Counter(name for name, _ in self._wins(measure))
        return next((name for name in counts if counts[name] == len(self.names) - 1), None)

    def best(self, measure: str) -> Best:
        """Return the variants that are best by a measure, as far as the runs show it.

        That is the best of those that are better than the baseline, together with those of them
        that it is not shown to be better than: they tie. Others that are behind by less than a
        tenth of the best's gain tie as well. If the baseline is better than all others, it is the
        baseline. A measure without a better direction has no best variant.

        Raises
        ------
        InputError
            The measure is not among those compared.
        """
        if measure in MEASURED and MEASURED[measure].better is None:
            return Best((), False, (), None)
        wins, winner = self._wins(measure), self.winner(measure)
        cells = {name: self.cells[name, measure] for name in self.names}
        by_variant = intervals.by_variant_and_seed(self.runs, measure)
        sign = 1 if MEASURED[measure].better == "lower" else -1

        def place(name: str) -> tuple[bool, int, float]:
            """Return the sort key of a variant: the runs in which it is unknown, then the mean."""
            values = np.array(list(by_variant[name].values()))
            there = values[~np.isnan(values)]
            mean = float(there.mean()) if len(there) else 0.0
            return name != winner, len(values) - len(there), sign * mean

        ahead = (name for name in self.names if cells[name]["better"] or name == winner)
        names = sorted(ahead, key=place)

        def behind(name: str) -> float:
            """Return the distance to the best, as a share of its gain; NaN where unknown."""
            one, first = cells[name], cells[names[0]]
            own, best = one["difference"], first["difference"]
            if own is None or not best or one["unknown"] != first["unknown"]:
                return np.nan
            return float(abs(own - best) / abs(best))

        alike = [name for name in names if (names[0], name) not in wins]
        furthest = max(filter(np.isfinite, map(behind, alike)), default=0.0) + words.MATTERS
        tied = tuple(name for name in names if name in alike or behind(name) < furthest)
        beats_all = winner is not None and len(tied) == 1
        gains = [cells[name]["difference"] for name in tied]
        usual = cells[self.baseline]["mean"]
        if not usual or None in gains:
            return Best(tied, beats_all, (), None)
        sizes = tuple(map(abs, gains))
        return Best(tied, beats_all, sizes, max(sizes, default=0.0) / abs(usual))

    @cached_property
    def decisive(self) -> dict[str, Best]:
        """The best by each measure that decides, if it was compared."""
        return {name: self.best(name) for name in words.DECISIVE if name in self.runs.column_names}

    def _wins(self, measure: str) -> set[tuple[str, str]]:
        """Return pairs of variants, better one first; the confidence holds for all of them."""
        if measure in self._won:
            return self._won[measure]
        if (self.baseline, measure) not in self.cells or MEASURED[measure].better is None:
            columns = self.runs.column_names
            choices = [name for name, one in MEASURED.items() if one.better and name in columns]
            raise InputError(f"unknown measure {measure!r}: choose one of {', '.join(choices)}")
        by_variant = intervals.by_variant_and_seed(self.runs, measure)
        pairs = list(combinations(by_variant, 2))
        level = intervals.each_level(self.confidence, len(pairs))
        wins = self._won[measure] = set()
        for one, other in pairs if not self.unknown_work else ():
            values, others = intervals.pair(by_variant[one], by_variant[other])
            better = intervals.is_better(values, others, MEASURED[measure], level)
            if better is not None:
                wins.add((one, other) if better else (other, one))
        return wins

    def rows(self, measures: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
        """Yield a row per measure and variant, with the winner; measures with unknown runs last."""
        chosen: dict[str, list[intervals.Cell]] = {}
        for (_, measure), cell in self.cells.items():
            if not measures or measure in measures:
                chosen.setdefault(measure, []).append(cell)
        dark = {name for name, rows in chosen.items() if any(row["unknown"] for row in rows)}
        for measure in sorted(chosen, key=dark.__contains__):
            best = self.best(measure)
            for cell in chosen[measure]:
                wins = best.beats_all and best.names == (cell["variant"],)
                row = {name: value for name, value in cell.items() if name != "pairs"}
                over = {"duration_ms": self.horizon_ms}
                yield row | over | {"winner": wins, "confidence": self.confidence}

    def verdict(self) -> str:
        """Return one sentence: which variant is better by which measure, and how each would go.

        The 95th percentile of the age of the oldest record and the time until the lag is gone
        decide. Variants that are better than the baseline and do not differ tie; a certain gain may
        still be too small to act on. If no variant clears the lag, the sentence says what would. It
        names no better variant if the processing time is unknown, and says that no change helps if
        an open transaction blocks the deciding measures.
        """
        if self.unknown_work:
            return self.unknown_work
        scenario = self.scenarios.get(self.baseline)
        held = "" if scenario is None else words.say_blocked(scenario)
        best: _ByBest = {}
        for measure, one in self.decisive.items():
            if one.names:
                best.setdefault(one.names, []).append(measure)
        # The variants with figures: the best, others as far as they fit, and the baseline.
        apart = {self.baseline}.union(*best)
        fits = len(self.names) <= words.MOST_NAMED
        others = [(name,) for name in self.names if fits and name not in apart]
        shown = list(dict.fromkeys([*best, *others, (self.baseline,)]))
        # A variant that alone is named before the colon is not named again after it.
        is_one = len(best) == 1 or (not best and not held and len(shown) == 2)
        figures = "; ".join(
            course(self, names)
            if is_one and names == shown[0]
            else f"{words.name_variants(names)}: {course(self, names)}"
            for names in shown
        )
        if held and not best:
            return f"{held}: members do not help there, nor do assignors or locks; {figures}"
        if held:
            figures += f"; {self.baseline} is {held}"
        elif answer := _say_clearing(self):
            figures += f"; {answer}"
        over = "" if self.horizon_ms is None else f" over {duration(self.horizon_ms)}"
        by = " or ".join(words.DECISIVE[measure] for measure in self.decisive)
        if best:
            who = _say_best(self, best)
        elif len(self.names) == 2:
            who = f"{shown[0][0]} is not shown to be better by {by}"
        else:
            who = f"no variant is shown to be better than {self.baseline} by {by}"
        return f"{who}{over}: {figures}"

    def reasons(self, variant: str | None = None) -> Iterator[str]:
        """Yield why a variant, by default the best, differs from the baseline, as the runs show.

        Members finish less than arrives, a poll takes longer than a lock, or members are idle while
        others are behind.
        """
        if variant is None:
            best = (name for one in self.decisive.values() for name in one.names)
            variant = next(best, self.baseline)
        usual, changed = self.scenarios.get(self.baseline), self.scenarios.get(variant)
        if usual is None or changed is None or variant == self.baseline:
            return

        def both(measure: str) -> tuple[float, float] | None:
            """Return the means of baseline and variant if the runs show a difference."""
            cell = self.cells.get((variant, measure), {})
            low, high = cell.get("difference_low"), cell.get("difference_high")
            if low is None or high is None or low <= 0 <= high:
                return None
            return self.cells[self.baseline, measure]["mean"], cell["mean"]

        known, each = rates(usual), usual.each_member()
        few, many = len(each), len(changed.each_member())
        done, could = few * known.each, many * rates(changed).each
        if known.each and done <= known.arriving < could:
            arrive, has, gets = map(per_second, (known.arriving, done, could))
            yield (
                f"records arrive at {arrive}; {pluralize(few, 'member')} can finish {has}, "
                f"{pluralize(many, 'member')} {gets}"
            )
        locks = [one.settings.limits.lock_duration_ms for one in (usual, changed)]
        polls = ((one.max_poll_records * one.service.expected_ms, one) for one in each)
        longest, member = max(polls, key=lambda one: one[0], default=(0.0, None))
        expired = both("expired")
        if expired and member and locks[0] != locks[1] and longest >= _LONG_POLL * min(locks):
            yield (
                f"a poll of {pluralize(member.max_poll_records, 'record')} x "
                f"{number(member.service.expected_ms)} ms takes {duration(longest)}: with locks of "
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
        """Yield why the best variant differs, and the conditions of the comparison."""
        yield from (f"why: {reason}" for reason in self.reasons())
        yield from self.conditions()

    def conditions(self) -> Iterator[str]:
        """Yield the number of runs, the intervals, too few seeds, and failed runs."""
        yield (
            f"{pluralize(len(self.names), 'variant')}, {pluralize(self.seeds, 'seed')}, "
            f"compared seed by seed with {self.baseline}; "
            f"{100 * self.confidence:g} % confidence intervals, corrected for the number of "
            "variants but not of measures: among many measures, one may differ by chance"
        )
        level = intervals.each_level(self.confidence, len(self.names) - 1)
        yield from words.too_few(self.differences.to_pylist(), self.seeds, level)
        names = self.runs.column_names
        if "error" in names and (errors := self.runs.column("error").drop_null().to_pylist()):
            yield f"{len(errors)} failed runs are left out; the first error is: {min(errors)}"


# ---- in words -----------------------------------------------------------------------------------

#: A difference in busy time below this share explains nothing.
_BUSIER = 0.05
#: A poll that takes this share of a lock on average often takes all of it.
_LONG_POLL = 0.5
#: The measures by which variants are best, by these variants.
_ByBest: TypeAlias = dict[tuple[str, ...], list[str]]


def _say_place(name: str, best: Best, better: bool | None) -> str:
    """Say how a variant stands by a measure; empty if the runs do not show it."""
    if name not in best.names:
        return {True: "better", False: "worse", None: ""}[better]
    how = "ties" if len(best.names) > 1 else "best" if best.beats_all else "better"
    return f"{how} (less than a tenth)" if best.is_small else how


def _say_best(found: Comparison, by_best: _ByBest) -> str:
    """Say which variants are best by which deciding measures, with the gains of ties."""
    parts, verb = list[str](), ""
    for names, measures in by_best.items():
        best = min((found.decisive[name] for name in measures), key=lambda one: one.beats_all)
        who, before = words.standing(best, found.baseline, len(found.names) == 2), verb
        verb = who.removeprefix(words.name_variants(names))
        by = []
        for measure in measures:
            one, gain = found.decisive[measure], list[str]()
            if len(names) > 1 and one.gains:
                gain.append(f"{words.span(measure, one.gains)} less than {found.baseline}")
            gain += ["less than a tenth"] * one.is_small
            by.append(words.DECISIVE[measure] + (f" ({', '.join(gain)})" if gain else ""))
        who = words.name_variants(names) if verb == before else who
        parts.append(f"{who} by {' and '.join(by)}")
    return ", but ".join(parts)


def _say_clearing(found: Comparison) -> str:
    """Say what would clear a lag that no variant clears; empty if one does, or if it is unknown."""
    usual, over_ms = found.scenarios.get(found.baseline), found.horizon_ms
    drains = [cell for name in found.names if (cell := found.cells.get((name, "drain_ms")))]
    if usual is None or over_ms is None or any(cell["n"] for cell in drains):
        return ""
    if stuck := say_stuck(usual):
        return stuck
    most = max(len(one.each_member()) for one in found.scenarios.values())
    return rates(usual).say_fewest(over_ms, most)


def course(found: Comparison, names: tuple[str, ...]) -> str:
    """Say how the lag of variants develops on average, as a range for several of them."""
    drains, ages, ends = (
        [cell for name in names if (cell := found.cells.get((name, measure)))]
        for measure in ("drain_ms", "age_p95_ms", "lag_end")
    )
    drained = sum(cell["n"] for cell in drains)
    runs = drained + sum(cell["unknown"] for cell in drains)
    if drains and not runs:
        return "all of its runs failed"
    if drains and drained == runs:
        course = f"drained in {words.span('drain_ms', [cell['mean'] for cell in drains])}"
    else:
        within = "the run" if found.horizon_ms is None else duration(found.horizon_ms)
        often = f"drained within {within} in {drained} of {runs} runs"
        course = often if drained else f"not drained within {within}{_say_trend(found, ends)}"
    known = [cell["mean"] for cell in ages if cell["mean"] is not None]
    return f"{course}, p95 age {words.span('age_p95_ms', known)}" if known else course


def _say_trend(found: Comparison, ends: Sequence[intervals.Cell]) -> str:
    """Say where a lag that does not drain goes; empty if the runs do not show it."""
    usual = found.scenarios.get(found.baseline)
    bounds = [one[bound] for one in ends for bound in ("low", "high")]
    if usual is None or not bounds or None in bounds:
        return ""
    lag = rates(usual).waiting
    if min(bounds) <= lag <= max(bounds):
        return ""
    verb = "grows" if min(bounds) > lag else "falls"
    return f", lag {verb} to {words.span('lag_end', [one['mean'] for one in ends])}"
