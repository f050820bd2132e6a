"""The suite is varied and the same everywhere; a ranking says what its runs say."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag.errors import InputError
from sharelag.whatif import (
    ASSIGNORS,
    Group,
    Scenario,
    from_json,
    rank_assignors,
    register,
    simulate,
    suite,
    to_json,
)
from sharelag.whatif.assignors.group import AssignorError
from sharelag.whatif.ranking import ALL, FAMILIES, family_of, rank_runs
from tests.support.command import refused, rows_of, sharelag
from tools import assignors_page


def test_drawn_scenarios_vary_within_what_is_promised() -> None:
    scenarios = suite()
    assert len(set(scenarios)) == 200
    assert suite(7) == scenarios[:7]
    with pytest.raises(InputError, match="give at least 1"):
        suite(0)
    assert Counter(map(family_of, scenarios)) == dict.fromkeys(FAMILIES, 40)
    partitions = [sum(topic.partitions for topic in one.topics) for one in scenarios]
    assert (min(partitions), max(partitions)) == (2, 32)
    counts = [len(one.members) for one in scenarios]
    assert (min(counts), max(counts)) == (1, 24)
    crowded = sum(count > places for count, places in zip(counts, partitions, strict=True))
    assert 40 < crowded < 160
    assert {one.settings.rebalance_interval_ms for one in scenarios} == {5000, 10_000, 30_000}
    pairs = [(one.brokers, member) for one in scenarios for member in one.members]
    kinds = {member.service.kind for _, member in pairs}
    assert kinds == {"fixed", "exponential", "lognormal"}
    modes = {(brokers, member.acquire_mode) for brokers, member in pairs}
    assert modes == {*product((1, 3), ("batch_optimized", "record_limit"))}
    assert all(0.48 < load(one) < 1.32 for one in scenarios)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_what_it_is_called_for(family: str) -> None:
    scenarios = [one for one in suite() if family_of(one) == family]
    seen = {name: [has(one) for one in scenarios] for name, has in _HAS.items()}
    if family == "mixed":
        assert all(15 < sum(found) < 40 for found in seen.values())
    else:
        allowed = {family, "skewed" if family == "bursty" else ""}
        assert {name for name, found in seen.items() if any(found)} <= allowed
        # Where there is one member or one partition, some families show nothing.
        assert sum(seen[family]) >= 32


_HAS: dict[str, Callable[[Scenario], bool]] = {
    "skewed": lambda one: any(producer.weights or producer.keys for producer in one.producers),
    # Hot partitions change in the middle; bursts begin anywhere.
    "bursty": lambda one: any(
        0 < producer.begin_ms != until(one) / 2 for producer in one.producers
    ),
    "heterogeneous": lambda one: any(topic.racks for topic in one.topics),
    "failing": lambda one: bool(one.faults or one.poison),
}


def until(scenario: Scenario) -> int:
    return max(producer.end_ms or 0 for producer in scenario.producers)


def load(scenario: Scenario) -> float:
    """What arrives, of what the members could do in that time if each might do all."""
    arrive: dict[str, float] = defaultdict(float)
    for one in scenario.producers:
        arrive[one.topic] += one.rate * ((one.end_ms or 0) - one.begin_ms) / 1000
    # Partitions with more work a record get no more or fewer of them, as far as the plain load is
    # concerned.
    factors = dict(scenario.members[0].service.by_partition)
    work = sum(
        arrive[topic.name] / topic.partitions * factors.get((topic.name, number), 1.0)
        for topic in scenario.topics
        for number in range(topic.partitions)
    )
    speed = sum(1000 / member.service.mean_ms for member in scenario.members)
    return work / (speed * until(scenario) / 1000)


def test_a_scenario_of_the_suite_is_the_same_from_its_text() -> None:
    assert all(from_json(to_json(one)) == one for one in suite(20))


# ---- a ranking -----------------------------------------------------------------------------------
#: Two of each family.
FEW = 10


@pytest.fixture
def own() -> Iterator[str]:
    """An assignor of one's own: everything to the first who may have it."""

    @register("to-the-first")
    def to_the_first(group: Group) -> dict[str, dict[str, list[int]]]:
        answer: dict[str, dict[str, list[int]]] = {}
        for topic, partition in group.places:
            first = group.subscribers[topic][0]
            answer.setdefault(first, {}).setdefault(topic, []).append(partition)
        return answer

    yield "to-the-first"
    del ASSIGNORS["to-the-first"]


def run(scenario: Scenario, assignor: str, drain_ms: float | None, **more: float) -> dict[str, Any]:
    usual = {"age_p95_ms": 500.0, "moves_per_minute": 1.0, "pairs": 2, "duration_ms": 240_000}
    about = {"scenario": scenario.name, "assignor": assignor, "drain_ms": drain_ms}
    return usual | about | more


def test_a_ranking_says_what_its_runs_say() -> None:
    scenarios = suite(4)
    drains = [(10_000.0, 5000.0), (None, 120_000.0), (4000.0, 8000.0), (100.0, 900.0)]
    runs = []
    for scenario, (usual, other) in zip(scenarios, drains, strict=True):
        runs += [run(scenario, "simple", usual), run(scenario, "mine", other, pairs=4)]
    runs[1] |= {"age_p95_ms": 4000.0, "moves_per_minute": 5.0}
    found = rank_runs(pa.Table.from_pylist(runs), scenarios, "simple")
    best, usual = (row for row in found.ranked.to_pylist() if row["family"] == ALL)
    # 0.5, 0.5, 2 and 1, as less than a second counts as one.
    assert best["assignor"] == "mine"
    assert best["drain_ratio"] == pytest.approx(0.5**0.25)
    assert best["drain_ratio_low"] < best["drain_ratio"] < best["drain_ratio_high"]
    counts = [best[f"drain_{name}"] for name in ("better", "same", "worse")]
    assert counts == [2, 1, 1]
    assert best["age_p95_ratio"] == pytest.approx(4**0.25)
    assert (best["age_p95_worse"], best["age_p95_same"]) == (1, 3)
    assert (best["never_drained"], usual["never_drained"]) == (0, 1)
    assert (best["moves_per_minute"], usual["moves_per_minute"]) == (2.0, 1.0)
    assert best["pairs_share"] == 2 * usual["pairs_share"]
    assert usual["drain_ratio"] == usual["drain_ratio_low"] == usual["drain_ratio_high"] == 1.0
    # A single scenario tells no interval.
    of_family = {(row["family"], row["assignor"]): row for row in found.ranked.to_pylist()}
    one = of_family[family_of(scenarios[2]), "mine"]
    assert (one["drain_ratio"], one["drain_ratio_low"], one["scenarios"]) == (2.0, None, 1)
    told = found.presentation()
    # Its interval goes beyond 1: 0.84 may be chance.
    assert told.notes[0] == "no assignor is shown to drain sooner than simple"
    clear = [run(one, "simple", 40_000.0) for one in scenarios]
    clear += [run(one, "mine", 20_000.0 + n) for n, one in enumerate(scenarios)]
    verdict = rank_runs(pa.Table.from_pylist(clear), scenarios, "simple").verdict()
    assert verdict.startswith("mine drains soonest: 0.50 [0.50..0.50] of the time of simple, with ")
    assert told.table.column("assignor").to_pylist() == ["mine", "simple"]


@pytest.mark.slow
def test_own_assignors_are_ranked_among_ours(own: str) -> None:
    seen: list[tuple[int, int]] = []
    found = rank_assignors([own, "all-to-all"], count=FEW, progress=lambda *done: seen.append(done))
    assert seen[-1] == (3 * FEW, 3 * FEW)
    rows = {row["assignor"]: row for row in found.ranked.to_pylist() if row["family"] == ALL}
    assert list(rows) == ["all-to-all", "simple", own]
    assert {row["scenarios"] for row in rows.values()} == {FEW}
    # More than all where a member came back before the group missed it.
    assert 1 <= rows["all-to-all"]["pairs_share"] < 1.1
    assert rows[own]["drain_worse"] > 0
    assert rows["all-to-all"]["drain_ratio_high"] < 1 < rows[own]["drain_ratio_low"]
    families = Counter(found.ranked.column("family").to_pylist())
    assert families == dict.fromkeys((ALL, *FAMILIES), 3)
    assert rank_assignors(["all-to-all", own], count=FEW).ranked.equals(found.ranked)


def test_what_cannot_be_ranked_is_said_before_anything_runs() -> None:
    with pytest.raises(InputError, match="unknown assignor 'simpel'"):
        rank_assignors(["simpel"])
    with pytest.raises(InputError, match=r"give \['sticky'\]"):
        rank_assignors("sticky")
    failed = [{"variant": "mine · skewed-0", "error": "ValueError: no"}]
    with pytest.raises(AssignorError, match=r"1 run failed.*mine · skewed-0: ValueError: no"):
        rank_assignors(["sticky"], runs=lambda *_: pa.Table.from_pylist(failed))


# ---- in the terminal -----------------------------------------------------------------------------
MINE = """
from dataclasses import dataclass

def assign(group):
    return {group.members[0].id: {name: topic.assignable for name, topic in group.topics.items()}}
"""


@pytest.fixture
def mine(tmp_path: Path, registered: None) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path / 'mine.py'}:assign"


def test_a_command_ranks_a_function_of_a_file(mine: str) -> None:
    given = ["--suite", "2", "--assignor", mine, "--baseline", "sticky"]
    answer = sharelag("simulate", *given, "-o", "json")
    rows = rows_of(answer)
    assert [row["family"] for row in rows] == [ALL, ALL, *FAMILIES[:1] * 2, *FAMILIES[1:2] * 2]
    assert {row["assignor"] for row in rows} == {mine, "sticky"}
    assert "2 scenarios, each with the same seed" in answer.stderr
    shown = sharelag("simulate", *given)
    assert len(shown.stdout.splitlines()) == 3
    assert "no assignor is shown to drain sooner than sticky" in shown.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--suite", "--suite needs --assignor"),
        ("--suite --assignor simple --seed 1 --seed 2", "one --seed at most"),
        ("--suite --assignor simple --members 3", "remove --members"),
        ("--suite --assignor simple --compare", "cannot be combined"),
        ("--suite 0 --assignor simple", "0 is not in the range"),
        ("--suite --assignor missing.py:assign", "cannot be run (FileNotFoundError"),
        ("--suite --assignor {mine}:other", "has no function 'other'"),
    ],
)
def test_a_command_says_what_is_wrong(mine: str, given: str, said: str) -> None:
    file = mine.rpartition(":")[0]
    answer = refused("simulate", *given.format(mine=file).split(), code=2)
    assert said in " ".join(answer.split())


# ---- the leaderboard -----------------------------------------------------------------------------
def test_the_leaderboard_says_what_the_kept_runs_say() -> None:
    page = assignors_page.PAGE.read_text("utf-8")
    assert assignors_page.page(page) == page, "run `python -m tools.assignors_page`"


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 6, 10, 47, 104])
@pytest.mark.exhaustive  # whole simulations of each assignor
def test_the_kept_runs_can_be_repeated(number: int) -> None:
    scenario = suite(number + 1)[number]
    rows = pq.read_table(assignors_page.RUNS).to_pylist()
    kept = [row for row in rows if row["scenario"] == scenario.name]
    assert {row["assignor"] for row in kept} == set(assignors_page.ASSIGNORS)
    for row in kept:
        (again,) = simulate(replace(scenario, assignor=row["assignor"])).summary.to_pylist()
        assert row == {name: again[name] for name in row}, (
            "the simulation or an assignor has changed: measure anew by "
            "`python -m tools.assignors_page --anew`"
        )
