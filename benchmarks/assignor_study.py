"""Assignors on the drawn scenarios: runs, ratios to the baseline, and where they are worse."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import sharelag
from benchmarks.drawn import FAMILIES, drawn
from sharelag.whatif import Group, Scenario, simulate
from sharelag.whatif.assignors.optimal import optimum
from sharelag.whatif.simulation.logs import logs
from sharelag.whatif.simulation.streams import Work

BASELINE = "simple"
#: `lag-aware-sticky` without the lag: what is left of its gain is due to sharing.
UNAWARE = "sticky-spread"
ASSIGNORS = (BASELINE, "lag-proportional", UNAWARE, "lag-aware-sticky", "all-to-all", "optimal")
#: Measures that are compared, and what the summary must have at least for a ratio to mean anything.
RATIOS = {"drain_ms": 1000.0, "age_p95_ms": 1000.0}
#: Within this factor of each other two runs are as good.
ALIKE = 1.05
_COLUMNS = (
    *("scenario", "assignor", "duration_ms", "drain_ms", "age_p95_ms", "latency_p95_ms"),
    *("moves_per_minute", "pairs", "idle_members", "redeliveries", "expired"),
)
#: One scenario under one assignor.
RUNS = pa.schema(
    [
        ("number", pa.int32()),  # of the scenario: `drawn(number)`
        ("family", pa.string()),
        ("scenario", pa.string()),
        ("assignor", pa.string()),
        ("duration_ms", pa.int64()),
        ("drain_ms", pa.float64()),  # null: not within the duration
        ("age_p95_ms", pa.float64()),
        ("latency_p95_ms", pa.float64()),
        ("moves_per_minute", pa.float64()),
        ("pairs", pa.int64()),  # of member and partition, at most at once: places in share sessions
        ("idle_members", pa.int32()),
        ("redeliveries", pa.int64()),
        ("expired", pa.int64()),
        (
            "bound_ms",
            pa.float64(),
        ),  # no group of these members drains sooner; null: it did between two bursts
    ]
)
#: Of the simulations: all scenarios have the same, since each is another one already.
SEED = 0


def study(numbers: Iterable[int]) -> pa.Table:
    """Run each scenario under each assignor.

    Returns
    -------
    pyarrow.Table
        `RUNS`, by number and then as in `ASSIGNORS`.
    """
    scenarios = {number: drawn(number) for number in numbers}
    least = {number: least_drain_ms(scenario, SEED) for number, scenario in scenarios.items()}
    tried = {
        (number, name): (replace(one, assignor=name), SEED)
        for number, one in scenarios.items()
        for name in ASSIGNORS
    }
    rows = [row_of(number, row, *least[number]) for (number, _), row in simulated(tried).items()]
    return pa.Table.from_pylist(rows, schema=RUNS)


_Key = TypeVar("_Key", bound=Hashable)


def simulated(tried: Mapping[_Key, tuple[Scenario, int]]) -> dict[_Key, dict[str, Any]]:
    """`summary_of` each scenario and seed, on all cores."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return dict(
            zip(
                tried,
                pool.map(summary_of, *zip(*tried.values(), strict=True), chunksize=4),
                strict=True,
            )
        )


def summary_of(scenario: Scenario, seed: int) -> dict[str, Any]:
    """The summary of a run, and how many pairs of member and partition there were at most."""
    result = simulate(scenario, seed)
    (row,) = result.summary.to_pylist()
    return row | {"pairs": pc.max(result.assignments["pairs"]).as_py()}


def row_of(
    number: int, summary: dict[str, Any], bound_ms: float, arrives_until_ms: float
) -> dict[str, Any]:
    """A row of `RUNS` from the answers of `summary_of` and `least_drain_ms`."""
    drain = summary["drain_ms"]
    bound = None if drain is not None and drain < arrives_until_ms else bound_ms
    family = FAMILIES[number % len(FAMILIES)]
    return {"number": number, "family": family, "bound_ms": bound} | {
        name: summary[name] for name in _COLUMNS
    }


def least_drain_ms(scenario: Scenario, seed: int) -> tuple[float, float]:
    """When everything could be finished at best, and when the last record arrives, in ms.

    As if all records were there from the begin, all members as well, and each of them always had
    the right one at hand: a bound by linear program, with the work that the simulation draws for
    each record.
    """
    members = scenario.each_member()
    fast = min((member.service for member in members), key=lambda service: service.mean_ms)
    topics: dict[str, dict[str, Any]] = {}
    place, until = 0, 0.0
    for topic, parts in zip(scenario.topics, logs(scenario, seed), strict=True):
        lag = {}
        for number, log in enumerate(parts):
            factor = dict(fast.by_partition).get((topic.name, number), 1.0)
            first, end = log.bases[0], log.bases[-1]
            lag[number] = (
                Work(seed, place, fast, factor).total(first, end - 1) / 1000 if end > first else 0.0
            )
            until = max(until, log.times[-1] / 1000 if log.times else 0.0)
            place += 1
        topics[topic.name] = {"partitions": topic.partitions, "lag": lag}
    group = Group.of(
        ({"id": member.name, "subscribed": member.topics} for member in members), topics
    )
    speeds = {member.name: fast.mean_ms / member.service.mean_ms for member in members}
    return max(optimum(group, speeds).bound, until), until


def ratios(
    runs: pa.Table, measure: str, assignor: str, family: str | None = None, to: str = BASELINE
) -> np.ndarray:
    """The measure over that of another assignor, a scenario each.

    What never drained counts as drained at the end, and what is below a second as a second: that is
    how finely the timeline tells.
    """
    if family is not None:
        runs = runs.filter(pc.equal(runs["family"], family))
    values = (
        pc.coalesce(runs[measure], runs["duration_ms"]) if measure == "drain_ms" else runs[measure]
    )
    at_least = np.maximum(values.to_numpy(zero_copy_only=False), RATIOS[measure])
    names = np.array(runs["assignor"].to_pylist())
    return at_least[names == assignor] / at_least[names == to]


def geometric(values: np.ndarray) -> tuple[float, float, float]:
    """The geometric mean, and its 95 % interval by bootstrap over the scenarios."""
    from scipy import stats  # which takes a second to import, and tests read this module

    drawn_again = stats.bootstrap(
        (np.log(values),),
        np.mean,
        n_resamples=9999,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    interval = drawn_again.confidence_interval
    mean, low, high = (
        float(np.exp(one)) for one in (np.log(values).mean(), interval.low, interval.high)
    )
    return mean, low, high


def summed_up(runs: pa.Table) -> list[dict[str, Any]]:
    """One row a family (null: all of them) and assignor."""
    rows = []
    for family in (*FAMILIES, None):
        ours = runs if family is None else runs.filter(pc.equal(runs["family"], family))
        for assignor in ASSIGNORS:
            mine = ours.filter(pc.equal(ours["assignor"], assignor))
            row: dict[str, Any] = {
                "family": family,
                "assignor": assignor,
                "scenarios": mine.num_rows,
            }
            for measure in RATIOS:
                values = ratios(runs, measure, assignor, family)
                mean, low, high = geometric(values)
                row |= {f"{measure}_ratio": mean, f"{measure}_low": low, f"{measure}_high": high}
                row |= {f"{measure}_better": int((values < 1 / ALIKE).sum())}
                row |= {f"{measure}_worse": int((values > ALIKE).sum())}
            mean, low, high = geometric(ratios(runs, "drain_ms", assignor, family, to="optimal"))
            row |= {
                "drain_over_optimal": mean,
                "drain_over_optimal_low": low,
                "drain_over_optimal_high": high,
            }
            over = pc.drop_null(pc.divide(mine["drain_ms"], mine["bound_ms"]))
            row["never_drained"] = mine["drain_ms"].null_count
            row["drain_over_bound"] = (
                float(np.exp(np.log(over.to_numpy()).mean())) if len(over) else None
            )
            row["moves_per_minute"] = pc.mean(mine["moves_per_minute"]).as_py()
            everywhere = ours.filter(pc.equal(ours["assignor"], "all-to-all"))
            row["pairs_of_all"] = (
                pc.sum(mine["pairs"]).as_py() / pc.sum(everywhere["pairs"]).as_py()
            )
            row["idle_members"] = pc.mean(mine["idle_members"]).as_py()
            rows.append(row)
    return rows


def splits(runs: pa.Table, assignor: str = "lag-aware-sticky") -> list[dict[str, Any]]:
    """The ratios of an assignor by what the scenarios are like, a row each."""
    numbers = [row["number"] for row in runs.to_pylist() if row["assignor"] == assignor]
    scenarios = [drawn(number) for number in numbers]
    found = []
    for what, has in SPLITS.items():
        chosen = np.array([has(scenario) for scenario in scenarios])
        row: dict[str, Any] = {"scenarios with": what, "scenarios": int(chosen.sum())}
        for measure in RATIOS:
            values = ratios(runs, measure, assignor)[chosen]
            mean, low, high = geometric(values)
            row |= {f"{measure}_ratio": mean, f"{measure}_low": low, f"{measure}_high": high}
            row |= {f"{measure}_worse": int((values > ALIKE).sum())}
        found.append(row)
    return found


def _partitions(scenario: Scenario) -> int:
    return sum(topic.partitions for topic in scenario.topics)


SPLITS: dict[str, Callable[[Scenario], bool]] = {
    # All assignors give the only member everything; what is left is the order in which it fetches.
    "one member": lambda one: len(one.members) == 1,
    "2 or 3 members": lambda one: 2 <= len(one.members) <= 3,
    "4 members or more": lambda one: len(one.members) >= 4,
    "more members than partitions": lambda one: len(one.members) > _partitions(one),
    "one leader": lambda one: one.brokers == 1,
    "three leaders, record_limit": lambda one: one.brokers == 3,
}


def worst(
    runs: pa.Table, assignor: str = "lag-aware-sticky", count: int = 10
) -> list[dict[str, Any]]:
    """Return the scenarios where an assignor is furthest behind `BASELINE`, by either ratio."""
    numbers = [row["number"] for row in runs.to_pylist() if row["assignor"] == assignor]
    mine = {measure: ratios(runs, measure, assignor) for measure in RATIOS}
    others = {
        name: np.maximum(*(ratios(runs, measure, name) for measure in RATIOS))
        for name in ("all-to-all", UNAWARE)
    }
    behind = np.maximum(*mine.values())
    found = []
    for at in np.argsort(-behind, kind="stable")[:count].tolist():
        row: dict[str, Any] = {"number": numbers[at], "scenario": drawn(numbers[at]).name}
        row |= {f"{measure}_ratio": float(values[at]) for measure, values in mine.items()}
        found.append(row | {name: float(values[at]) for name, values in others.items()})
    return found


def reasons(numbers: Iterable[int], assignor: str = "lag-aware-sticky") -> list[dict[str, Any]]:
    """Why an assignor is behind: what is left of it when one thing about the scenario is another.

    Returns
    -------
    list of dict
        One a scenario: the worse of the two ratios by what was changed. Where a change takes the
        disadvantage away, it was the reason.
    """
    numbers = list(numbers)
    changes = [(what, change, SEED) for what, change in INSTEAD.items()]
    changes += [(_AS_IT_IS, lambda scenario: scenario, seed) for seed in _OTHER_SEEDS]
    made = simulated(
        {
            (number, what, seed, name): (replace(change(drawn(number)), assignor=name), seed)
            for number in numbers
            for what, change, seed in changes
            for name in (BASELINE, assignor)
        }
    )

    def behind(number: int, what: str, seed: int) -> float:
        ours, theirs = (made[number, what, seed, name] for name in (assignor, BASELINE))
        drains = [row["drain_ms"] or row["duration_ms"] for row in (ours, theirs)]
        ages = [max(row["age_p95_ms"], RATIOS["age_p95_ms"]) for row in (ours, theirs)]
        return max(drains[0] / drains[1], ages[0] / ages[1])

    found = []
    for number in numbers:
        row: dict[str, Any] = {"number": number} | {
            what: behind(number, what, SEED) for what in INSTEAD
        }
        luck = [behind(number, _AS_IT_IS, seed) for seed in _OTHER_SEEDS]
        found.append(row | {"other luck": float(np.exp(np.mean(np.log(luck))))})
    return found


def _of_one_speed(scenario: Scenario) -> Scenario:
    # As fast together as before.
    services = [member.service for member in scenario.members]
    mean_ms = len(services) / sum(1 / service.mean_ms for service in services)
    alike = tuple(
        replace(one, service=replace(one.service, mean_ms=mean_ms)) for one in scenario.members
    )
    return replace(scenario, members=alike)


def _asked_often(scenario: Scenario) -> Scenario:
    return replace(scenario, settings=replace(scenario.settings, rebalance_interval_ms=2000))


#: What could be to blame, and the scenario without it.
INSTEAD: dict[str, Callable[[Scenario], Scenario]] = {
    "one leader": lambda scenario: replace(scenario, brokers=1),
    "one speed": _of_one_speed,
    "asked every 2 s": _asked_often,
    "no accidents": lambda scenario: replace(scenario, faults=(), poison=()),
}
_AS_IT_IS = "as it is"
_OTHER_SEEDS = (1, 2, 3, 4)


def code_version() -> str:
    """The version, and a hash of all that the simulator consists of."""
    folder = Path(sharelag.__file__).parent
    digest = hashlib.sha256()
    for path in sorted((folder / "whatif").rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return f"{sharelag.__version__}+{digest.hexdigest()[:12]}"
