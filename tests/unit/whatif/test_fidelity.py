"""The simulator does what real brokers did, as they were recorded."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sharelag.whatif import Costs, Member, Poison, Scenario, Service, Topic, simulate
from tests.support.cases import Cases
from tools.fidelity_page import PAGE, part
from tools.record.fidelity import recorded
from tools.record.fidelity.__main__ import compare_all
from tools.record.fidelity.compare import BOUNDS, compared, table
from tools.record.fidelity.experiments import experiments
from tools.record.fidelity.measure import Run, simulated
from tools.record.fidelity.script import digest, script

EXPERIMENTS = experiments()


@pytest.fixture(scope="module")
def real() -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {}
    for (name, _), (_, run) in recorded.read().items():
        runs.setdefault(name, []).append(run)
    return runs


@pytest.mark.slow
def test_the_simulator_is_as_near_as_it_should_be(cases: Cases) -> None:
    """In one of three experiments, and with ``--exhaustive`` in all, as the page says."""
    comparisons = compare_all([*EXPERIMENTS][cases(2, 0) :: cases(3, 1)])
    assert [sentence for one in comparisons for sentence in one.surprises] == []
    page = PAGE.read_text()
    assert {*table(comparisons).splitlines()} <= {*page.splitlines()}
    assert len(comparisons) < len(EXPERIMENTS) or part(comparisons) in page


def test_brokers_were_configured_as_the_experiments_say(real: dict[str, list[Run]]) -> None:
    """When this fails, an experiment or the simulator's draws have changed: record again."""
    assert set(real) == set(EXPERIMENTS)
    assert min(len(runs) for runs in real.values()) >= 5
    for (name, seed), (result, _) in recorded.read().items():
        assert result == digest(script(EXPERIMENTS[name].scenario, seed)), f"{name}, seed {seed}"


def test_the_experiments_are_of_many_kinds() -> None:
    scenarios = [one.scenario for one in EXPERIMENTS.values()]
    assert {1, 4, 12} <= {one.topics[0].partitions for one in scenarios}
    assert {1, 3, 8} <= {len(one.each_member()) for one in scenarios}
    assert {fault.kind for one in scenarios for fault in one.faults} == {"crash", "hang"}
    sizes = {producer.batch_records for one in scenarios for producer in one.producers}
    assert (min(sizes), max(sizes)) == (1, 500)
    behaviours = [member.behaviour for one in scenarios for member in one.members]
    assert any(one.release and one.reject for one in behaviours)
    assert {one.acknowledgement for one in behaviours} == {"implicit", "explicit"}
    assert {one.commit for one in behaviours} == {"poll", "record"}


@pytest.mark.parametrize(
    ("name", "changed", "what"),
    [
        ("small-polls", lambda one: replace(one, costs=Costs(fetch_ms=3)), "drain"),
        ("commit-each", lambda one: replace(one, costs=Costs(write_ms=2.4)), "drain"),
        ("killed", lambda one: with_settings(one, session_timeout_ms=4000), "drain"),
        ("hung", lambda one: with_limits(one, lock_duration_ms=2000), "drain"),
        ("hung", lambda one: with_limits(one, max_record_locks=400), "lag"),
        ("poison", lambda one: with_limits(one, delivery_count_limit=3), "deliveries"),
        ("three-on-four", lambda one: replace(one, assignor="all-to-all"), "drain"),
    ],
)
def test_a_simulator_that_does_something_else_is_found_out(
    name: str, changed: Callable[[Scenario], Scenario], what: str, real: dict[str, list[Run]]
) -> None:
    experiment = replace(EXPERIMENTS[name], scenario=changed(EXPERIMENTS[name].scenario))
    runs = [simulated(experiment.scenario, seed) for seed in range(3)]
    assert what in compared(experiment, runs, real[name]).misses


def with_settings(scenario: Scenario, **settings: Any) -> Scenario:
    return replace(scenario, settings=replace(scenario.settings, **settings))


def with_limits(scenario: Scenario, **limits: Any) -> Scenario:
    return with_settings(scenario, limits=replace(scenario.settings.limits, **limits))


def test_surprises_are_what_is_too_far_and_what_is_better_than_its_excuse() -> None:
    experiment = EXPERIMENTS["killed"]
    runs = [Run(1000, 100, 10, (20, 10, 0))]
    slower = [replace(runs[0], drain_ms=1200.0, deliveries=110)]
    assert compared(experiment, runs, runs).surprises == []
    found = compared(experiment, slower, runs).surprises
    assert found == ["killed: drain is off by +20.0 %", "killed: deliveries is off by +10.0 %"]
    excused = replace(experiment, misses=(("drain", 0.25, "why"), ("deliveries", 0.06, "why")))
    assert compared(excused, slower, runs).surprises == ["killed: deliveries is off by +10.0 %"]
    assert compared(excused, runs, runs).surprises == [
        "killed: drain is off by +0.0 % only: no longer a known miss",
        "killed: deliveries is off by +0.0 % only: no longer a known miss",
    ]
    assert set(compared(experiment, runs, runs).errors) == set(BOUNDS)


def test_experiments_that_costs_were_fitted_to_are_marked() -> None:
    found = {name: one.calibration for name, one in EXPERIMENTS.items() if one.calibration}
    assert found == {"small-polls": "fetch_ms", "commit-each": "write_ms"}
    runs = [Run(1000, 100, 0, (100, 50, 0))]
    result = table([compared(one, runs, runs) for one in EXPERIMENTS.values()])
    marked = [line.split("**")[1] for line in result.splitlines() if " (calibration):" in line]
    assert marked == ["small-polls", "commit-each"]
    assert "**small-polls** is calibration: `Costs.fetch_ms` was fitted to it" in result
    assert len([line for line in result.splitlines() if "calibration" in line]) == 4
    assert all(name in result for name in EXPERIMENTS)


def test_lag_curves_are_compared_by_their_distance() -> None:
    experiment = EXPERIMENTS["killed"]
    real = [Run(100, 1, 0, lag) for lag in ((100, 60, 0), (100, 50, 0), (100, 40, 0))]
    ours = [Run(100, 1, 0, lag) for lag in ((100, 70, 20, 0), (100, 65, 20, 0), (100, 90, 20, 0))]
    found = compared(experiment, ours, real)
    assert found.errors["lag"] == pytest.approx((0 + 0.2 + 0.2 + 0) / 4)
    assert found.lag_at_most == pytest.approx(0.2)


@pytest.mark.parametrize("wait_ms", [200, 500])
@pytest.mark.parametrize(("records", "waits"), [(1, True), (2, False)])
def test_only_a_moved_start_offset_wakes_members(wait_ms: int, records: int, waits: bool) -> None:
    """Kafka's ``rollbackOrProcessStateUpdates``, seen in the experiment with poison."""
    topic, costs = Topic("t", 1, backlog=records), Costs(0.5, 1, 3)
    member = Member(service=Service(10), fetch_max_wait_ms=wait_ms)
    poison = Poison("t", 0, records - 1, attempts=1)
    scenario = Scenario((topic,), (member,), costs=costs, poison=(poison,), duration_ms=5000)
    row = simulate(scenario).summary.to_pylist()[0]
    # Join and fetch, work, and give back; then fetch, work, and write once more.
    drain_ms = 3 + 10 * records + 0.5 + (wait_ms if waits else 3) + 1.5 + 10 + 3.5
    assert (row["deliveries"], row["drain_ms"]) == (records + 1, drain_ms)
