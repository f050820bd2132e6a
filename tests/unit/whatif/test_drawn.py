"""Drawn scenarios are valid, varied and the same everywhere; the study of assignors holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import assignor_study as study
from benchmarks.drawn import FAMILIES, drawn
from sharelag.whatif.scenario import Member, Producer, Scenario, Service, Topic
from sharelag.whatif.scenario_json import from_json, to_json

STUDIES = Path(__file__).parents[3] / "data" / "studies"
#: Of the study, two of each family, by chance.
SAMPLE = [
    family + 5 * int(one)
    for family in range(5)
    for one in np.random.default_rng(family).permutation(40)[:2]
]


def test_drawn_scenarios_vary_within_what_is_promised() -> None:
    scenarios = [drawn(seed) for seed in range(200)]
    assert len(set(scenarios)) == 200
    assert Counter(one.name.split("-")[0] for one in scenarios) == dict.fromkeys(FAMILIES, 40)
    partitions = [sum(topic.partitions for topic in one.topics) for one in scenarios]
    assert (min(partitions), max(partitions)) == (2, 32)
    counts = [len(one.members) for one in scenarios]
    assert (min(counts), max(counts)) == (1, 24)
    crowded = sum(count > places for count, places in zip(counts, partitions, strict=True))
    assert 40 < crowded < 160
    assert {one.settings.rebalance_interval_ms for one in scenarios} == {5000, 10_000, 30_000}
    assert {member.service.kind for one in scenarios for member in one.members} == {
        "fixed",
        "exponential",
        "lognormal",
    }
    assert {(one.brokers, member.acquire_mode) for one in scenarios for member in one.members} == {
        (1, "batch_optimized"),
        (3, "record_limit"),
    }
    assert all(0.48 < load(one) < 1.32 for one in scenarios)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_what_it_is_called_for(family: str) -> None:
    scenarios = [drawn(seed) for seed in range(200) if FAMILIES[seed % 5] == family]
    seen = {name: [has(one) for one in scenarios] for name, has in _HAS.items()}
    if family == "mixed":
        assert all(15 < sum(found) < 40 for found in seen.values())
    else:
        assert {name for name, found in seen.items() if any(found)} <= {
            family,
            "skewed" if family == "bursty" else "",
        }
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


def test_a_seed_is_the_same_scenario_in_every_process() -> None:
    code = (
        "import hashlib; from benchmarks.drawn import drawn; "
        "from sharelag.whatif.scenario_json import to_json; "
        "print(hashlib.sha256("
        "''.join(to_json(drawn(seed)) for seed in range(100)).encode()).hexdigest())"
    )
    result = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(result) == 1
    assert all(from_json(to_json(drawn(seed))) == drawn(seed) for seed in range(20))


# ---- the study -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored() -> dict[tuple[int, str], dict[str, Any]]:
    rows = pq.read_table(STUDIES / "assignors.parquet").to_pylist()
    return {(row["number"], row["assignor"]): row for row in rows}


def test_the_study_is_whole(stored: dict[tuple[int, str], dict[str, Any]]) -> None:
    assert set(stored) == {(number, name) for number in range(200) for name in study.ASSIGNORS}
    assert {FAMILIES[number % 5] for number in SAMPLE} == set(FAMILIES)
    table = pq.read_table(STUDIES / "assignors.parquet")
    result = json.loads((STUDIES / "assignors.json").read_text())
    summed = {"summary": study.summed_up, "splits": study.splits, "worst": study.worst}
    for name, sums in summed.items():
        again = json.loads(json.dumps(sums(table)))
        # Other releases of numpy and scipy sum in another order.
        assert [pytest.approx(one) for one in again] == result[name], name


@pytest.mark.slow
@pytest.mark.parametrize("number", SAMPLE)
@pytest.mark.exhaustive
def test_the_study_can_be_repeated(
    number: int, stored: dict[tuple[int, str], dict[str, Any]]
) -> None:
    scenario = drawn(number)
    bound = study.least_drain_ms(scenario, study.SEED)
    for assignor in ("simple", "lag-aware-sticky", "all-to-all"):
        row = study.row_of(
            number, study.summary_of(replace(scenario, assignor=assignor), study.SEED), *bound
        )
        kept = stored[number, assignor]
        # The bound comes from a solver of floating-point numbers.
        solved, known = row.pop("bound_ms"), kept["bound_ms"]
        assert (solved is None) == (known is None)
        assert known is None or solved == pytest.approx(known, rel=1e-6)
        assert row == {name: value for name, value in kept.items() if name != "bound_ms"}, (
            "the simulation or an assignor has changed: "
            "make the study anew by `python -m benchmarks assignors`"
        )


def test_no_run_drains_before_its_bound(stored: dict[tuple[int, str], dict[str, Any]]) -> None:
    bounded = [
        row
        for row in stored.values()
        if row["bound_ms"] is not None and row["drain_ms"] is not None
    ]
    assert len(bounded) > 800
    assert all(row["drain_ms"] >= row["bound_ms"] * (1 - 1e-3) for row in bounded)


def test_the_bound_of_one_that_can_be_computed_by_hand() -> None:
    members = (Member("a", service=Service(10)), Member("b", service=Service(20), topics=("t",)))
    topics = (Topic("t", 2, backlog=150), Topic("u", 1, backlog=100))
    # Only a does u, in 1 s; b does a third of t in that time, and two thirds of what is left are
    # a's.
    scenario = Scenario(topics, members, duration_ms=60_000)
    assert study.least_drain_ms(scenario, 0) == (
        pytest.approx(1000 + (300 - 50) / 150 * 1000, rel=2e-3),
        0.0,
    )
    later = replace(scenario, producers=(Producer("u", 1, "steady", end_ms=30_000),))
    assert study.least_drain_ms(later, 0) == (30_000.0, 30_000.0)


def test_ratios_are_of_the_same_scenario() -> None:
    base = {"family": "skewed", "scenario": "s", "duration_ms": 1000_000, "idle_members": 0}
    rows = []
    for number, (simple, other) in enumerate(
        [(10_000.0, 5000.0), (None, 250_000.0), (4000.0, 8000.0), (100.0, 900.0)]
    ):
        for assignor, drain in (("simple", simple), ("optimal", other)):
            rows.append(
                base
                | {"number": number, "assignor": assignor, "drain_ms": drain, "age_p95_ms": 0.0}
            )
    runs = pa.Table.from_pylist(rows, schema=study.RUNS)
    assert study.ratios(runs, "drain_ms", "optimal").tolist() == [0.5, 0.25, 2.0, 1.0]
    assert study.ratios(runs, "age_p95_ms", "optimal").tolist() == [1.0] * 4
    mean, low, high = study.geometric(np.array([0.5, 0.25, 2.0, 1.0]))
    assert mean == pytest.approx(2**-0.5)
    assert low < mean < high
    assert study.geometric(np.ones(5)) == (1.0, 1.0, 1.0)
