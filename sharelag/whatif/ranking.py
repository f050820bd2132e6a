"""Assignors ranked by the scenarios of the suite, against one of them.

    found = rank_assignors(["simple", "lag-aware-sticky", "mine"])
    found                    # best first
    found.ranked             # the same as a table, by family of scenarios, too

Each scenario is simulated once under each assignor, with the same luck. The time to drain says how
well members are used, the p95 age how fair that is to the oldest records; moves and pairs are what
it costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sharelag.errors import InputError
from sharelag.tables import views
from sharelag.tables.declared import trials
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import counted, number, percent
from sharelag.whatif.assignors.group import AssignorError
from sharelag.whatif.assignors.registry import find_assignor
from sharelag.whatif.comparison.intervals import Floats, Interval
from sharelag.whatif.grid import Progress, Runs, grid, run_all
from sharelag.whatif.presenting import present
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.suite import FAMILIES, family_of, suite

RANKED = trials.RANKED.schema
#: The family of a row about the whole suite.
ALL = "all"
#: Two runs within this factor of each other are as good; a time below this counts as this, since a
#: timeline has one row per second.
_ALIKE, _LEAST_MS = 1.05, 1000.0
_RATIOS = {"drain_ratio": "drain_ms", "age_p95_ratio": "age_p95_ms"}
_RESAMPLES, _CONFIDENCE = 9999, 0.95


@dataclass(frozen=True)
class Ranking(Displayable):
    """How assignors do over the suite.

    Attributes
    ----------
    ranked
        One row per assignor, over all scenarios and then by their family, the shortest times to
        drain first: `RANKED`.
    runs
        One row per scenario and assignor: `sharelag.whatif.comparison.tables.RUNS`.
    baseline
        What the others are compared to.
    """

    ranked: pa.Table
    runs: pa.Table
    baseline: str

    def for_people(self) -> list[dict[str, Any]]:
        """Return the rows over all scenarios, as people read them."""
        return [
            row
            | {name: _ratio_for_people(row, name) for name in _RATIOS}
            | {"moves_per_minute": number(row["moves_per_minute"])}
            | {"pairs_share": percent(row["pairs_share"])}
            for row in self.ranked.to_pylist()
            if row["family"] == ALL
        ]

    def verdict(self) -> str:
        """Return one sentence, without a full stop: which is best, and by how much."""
        best = self.for_people()[0]
        high = self.ranked.column("drain_ratio_high")[0].as_py()
        if best["assignor"] == self.baseline or high is None or high >= 1:
            return f"none is shown to drain sooner than {self.baseline}"
        return (
            f"{best['assignor']} drains soonest: {best['drain_ratio']} of the time of "
            f"{self.baseline}, with {best['age_p95_ratio']} of its p95 age"
        )

    def conditions(self) -> str:
        """Say what was simulated, and what the intervals are."""
        count = len(set(self.runs.column("scenario").to_pylist()))
        return (
            f"{counted(count, 'scenario')}, each under the same luck; ratios are geometric means "
            f"with {percent(_CONFIDENCE)} intervals by bootstrap over the scenarios"
        )

    def presentation(self) -> Presentation:
        """Return the table with what is best before what else to know."""
        notes = (self.verdict(), self.conditions())
        title = f"Assignors, compared to {self.baseline}"
        return present(title, self.for_people(), views.RANKED, notes)


def rank_assignors(
    assignors: Iterable[str],
    *,
    baseline: str = "simple",
    count: int = 200,
    seed: int = 0,
    runs: Runs | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Simulate assignors in the scenarios of the suite, and rank them.

    Parameters
    ----------
    assignors : iterable of str
        Some of `assignor_names`; functions of your own by the name that `register` gave them.
    baseline : str
        What the others are compared to; it need not be among them.
    count : int
        How many scenarios, as for `suite`.
    seed : int
        Random seed of the simulations.
    runs : callable, optional
        Makes the runs of variants and seeds, such as `sharelag.sweep`; when not given they are made
        in this process, one after the other.
    progress : callable, optional
        Called with ``(done, all)``, in runs, when they are made in this process.

    Returns
    -------
    Ranking
        A row for each assignor, the best first.

    Raises
    ------
    InputError
        An assignor is unknown, or ``count`` is below 1.
    AssignorError
        An assignor has no answer in some scenario.
    """
    if isinstance(assignors, str):
        raise InputError(f"assignors are several names: give [{assignors!r}]")
    names, scenarios = list(dict.fromkeys([baseline, *assignors])), suite(count)
    for name in names:
        find_assignor(name)
    variants = {
        f"{name} · {one.name}": replace(one, assignor=name) for name in names for one in scenarios
    }
    made = run_all(grid(variants, [seed]), progress) if runs is None else runs(variants, [seed])
    failed = [row for row in made.to_pylist() if row["error"] is not None]
    if failed:
        raise AssignorError(
            f"{counted(len(failed), 'run')} failed, so that nothing can be ranked; the first is "
            f"{failed[0]['variant']}: {failed[0]['error']}; sharelag.whatif.check_contract shows "
            "where an assignor of your own goes wrong"
        )
    return rank_runs(made, scenarios, baseline)


def rank_runs(runs: pa.Table, scenarios: Sequence[Scenario], baseline: str) -> Ranking:
    """Rank assignors by runs that are there already.

    Parameters
    ----------
    runs : pyarrow.Table
        One row per scenario and assignor, with the columns ``scenario``, ``assignor``,
        ``duration_ms``, ``drain_ms``, ``age_p95_ms``, ``moves_per_minute`` and ``pairs``.
    scenarios : sequence of Scenario
        Those of the suite that were run.
    baseline : str
        What the others are compared to.
    """
    rows = {(row["assignor"], row["scenario"]): row for row in runs.to_pylist()}
    names = list(dict.fromkeys(name for name, _ in rows))
    found: list[dict[str, Any]] = []
    for family in (ALL, *FAMILIES):
        chosen = [one for one in scenarios if family in (ALL, family_of(one))]
        if not chosen:
            continue
        by_name = {name: [rows[name, one.name] for one in chosen] for name in names}
        most = sum(map(_pairs_of_all, chosen))
        mine = [
            {"family": family, "assignor": name}
            | _row(by_name[name], by_name[baseline])
            | {"pairs_share": sum(row["pairs"] for row in by_name[name]) / most}
            for name in names
        ]
        found += sorted(mine, key=lambda row: tuple(row[name] for name in _RATIOS))
    return Ranking(pa.Table.from_pylist(found, schema=RANKED), runs, baseline)


def _row(mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "scenarios": len(mine),
        "never_drained": sum(one["drain_ms"] is None for one in mine),
        "moves_per_minute": float(np.mean([one["moves_per_minute"] for one in mine])),
    }
    for name, measure in _RATIOS.items():
        ratios = _measured(mine, measure) / _measured(theirs, measure)
        better, worse = int((ratios < 1 / _ALIKE).sum()), int((ratios > _ALIKE).sum())
        of = name.removesuffix("_ratio")
        row |= {f"{of}_better": better, f"{of}_worse": worse}
        row[f"{of}_same"] = len(ratios) - better - worse
        row[name], row[f"{name}_low"], row[f"{name}_high"] = _geometric_mean(ratios)
    return row


def _measured(rows: Sequence[Mapping[str, Any]], measure: str) -> Floats:
    values = [row["duration_ms"] if row[measure] is None else row[measure] for row in rows]
    return np.maximum(np.array(values, np.float64), _LEAST_MS)


def _geometric_mean(ratios: Floats) -> Interval:
    """Return the mean, and its interval by bootstrap over the scenarios."""
    from scipy import stats  # which takes a second to import

    logs = np.log(ratios)
    mean = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return Interval(mean)
    how = {"n_resamples": _RESAMPLES, "confidence_level": _CONFIDENCE, "method": "percentile"}
    drawn_again = stats.bootstrap((logs,), np.mean, rng=np.random.default_rng(0), **how)
    low, high = drawn_again.confidence_interval
    return Interval(mean, float(np.exp(low)), float(np.exp(high)))


def _pairs_of_all(scenario: Scenario) -> int:
    """Return the pairs of member and partition if each member had all that it subscribes to."""
    partitions = {topic.name: topic.partitions for topic in scenario.topics}
    return sum(partitions[name] for member in scenario.each_member() for name in member.topics)


def _ratio_for_people(row: Mapping[str, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.2f}" + ("" if low is None else f" [{low:.2f}..{high:.2f}]")
