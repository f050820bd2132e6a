"""The compiled loop gives what the readable one gives, to the last byte."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Literal

import pytest

from sharelag.model import StateBatch, Window
from sharelag.whatif.autoscale import Keda
from sharelag.whatif.compiled.sizes import records_of
from sharelag.whatif.compiled.support import why_not
from sharelag.whatif.named import named, names
from sharelag.whatif.scenario import (
    BEGINS_MS,
    Behaviour,
    Fault,
    Limits,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
)
from sharelag.whatif.simulate import SimulationResult, simulate
from tests.support.simulation_digest import digest
from tests.support.simulation_scenarios import EVERYTHING, calm_scenario

#: Compiled for the first time it takes half a minute: left out of `make check`.
pytestmark = pytest.mark.slow

BUSY = Scenario(
    (Topic("t", 6),),
    (
        Member(
            "m",
            12,
            service=Service(2, "exponential"),
            behaviour=Behaviour(0.9, 0.07, 0.01, 0.02),
            max_poll_records=50,
        ),
    ),
    (Producer("t", 3000),),
    Settings(Limits(lock_duration_ms=700)),
    duration_ms=1500,
    settled=True,
)


@pytest.fixture
def by_both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario, int], list[SimulationResult]]:
    """Run a scenario in the compiled loop and in the readable one."""

    def run(scenario: Scenario, seed: int) -> list[SimulationResult]:
        assert why_not(scenario) is None
        results = []
        for least in (0, records_of(scenario) + 1):
            monkeypatch.setattr("sharelag.whatif.compiled.support.COMPILED_FROM", least)
            results.append(simulate(scenario, seed, requests=True))
        compiled, readable = results
        assert type(compiled._states) is not type(readable._states)
        return results

    return run


def test_random_scenarios_give_the_same(
    by_both: Callable[[Scenario, int], list[SimulationResult]], cases: Callable[[int, int], int]
) -> None:
    """All tables, requests, records, ends of logs, and what was finished when."""
    finished = 0
    # Seed 0 takes longer than the next dozen together, to make its records.
    for seed in range(1, 1 + cases(5, 1000)):
        compiled, readable = by_both(calm_scenario(Random(seed)), seed)
        assert digest(compiled) == digest(readable), seed
        assert compiled.finished().equals(readable.finished()), seed
        assert compiled.offsets().equals(readable.offsets()), seed
        assert compiled.duplicates == readable.duplicates, seed
        finished += compiled.finished().num_rows
    assert finished > 1_500


@pytest.mark.parametrize("commit", ["poll", "record"])
def test_a_busy_group_gives_the_same(
    by_both: Callable[[Scenario, int], list[SimulationResult]], commit: Literal["poll", "record"]
) -> None:
    """Locks run out, records are released and rejected, memory grows in the middle."""
    (member,) = BUSY.members
    behaviour = replace(member.behaviour, commit=commit)
    scenario = replace(BUSY, members=(replace(member, behaviour=behaviour),))
    compiled, readable = by_both(scenario, 5)
    assert digest(compiled) == digest(readable)
    row = compiled.summary.to_pylist()[0]
    assert min(row[name] for name in ("acknowledged", "archived", "expired", "redeliveries")) > 20


def test_shipped_scenarios_give_the_same(
    by_both: Callable[[Scenario, int], list[SimulationResult]],
) -> None:
    ours = [name for name in names() if why_not(named(name)) is None]
    assert {"uneven", "burst", "slow-work", "everybody-everywhere"} <= set(ours)
    for name in ours:
        scenario = named(name)
        short = replace(scenario, duration_ms=min(scenario.duration_ms, 10_000))
        compiled, readable = by_both(short, 7)
        assert digest(compiled) == digest(readable), name


def test_a_large_scenario_is_compiled_and_a_small_one_does_not_load_numba() -> None:
    code = (
        "import sys; from dataclasses import replace; from sharelag.whatif.simulate import simulate\n"
        "from tests.unit.whatif.test_compiled import BUSY\n"
        "small = simulate(BUSY)\n"
        "print('sharelag.whatif.compiled.kernel' in sys.modules, type(small._states).__name__)\n"
        "large = simulate(replace(BUSY, duration_ms=40_000))\n"
        "print('sharelag.whatif.compiled.kernel' in sys.modules, type(large._states).__name__)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "StateLog", "True", "CompiledStates"]


_WINDOW = Window(0, 0, 0, 2, 0, BEGINS_MS, BEGINS_MS)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"faults": (Fault(1, "crash", "m-0"),)}, "it has faults"),
        ({"poison": (Poison("t", 0, 3),)}, "it has poison records"),
        ({"autoscaler": Keda()}, "it has an autoscaler"),
        ({"brokers": 2}, "it has several brokers"),
        ({"producers": (Producer("t", 5, transaction_batches=2),)}, "a producer uses transactions"),
        ({"topics": (Topic("t", 6, retention_ms=9),)}, "records of topic 't' are deleted"),
        ({"topics": (Topic("t", 6, compact_ms=9),)}, "records of topic 't' are deleted"),
        ({"topics": (Topic("t", 6, added_ms=(9,)),)}, "partitions are added to topic 't'"),
        (
            {"topics": (Topic("t", 1, starts=(PartitionStart(9, missing=(4,)),)),)},
            "topic 't' has been compacted",
        ),
        (
            {
                "topics": (
                    Topic(
                        "t",
                        1,
                        starts=(
                            PartitionStart(
                                9, window=replace(_WINDOW, batches=(StateBatch(3, 4, 2, 1),))
                            ),
                        ),
                    ),
                )
            },
            "the group has records of topic 't' in flight",
        ),
        (
            {"topics": (Topic("t", 1, starts=(PartitionStart(9, 5, _WINDOW),)),)},
            "records of topic 't' were deleted",
        ),
        (
            {"topics": (Topic("t", 1, starts=(PartitionStart(1, 0, _WINDOW),)),)},
            "the group is ahead of topic 't'",
        ),
        ({"members": (Member("m", behaviour=Behaviour(crash=0.1)),)}, "may crash or hang"),
        ({"members": (Member("m", behaviour=Behaviour(hang=0.1)),)}, "may crash or hang"),
        ({"members": (Member("m", behaviour=Behaviour(renew_ms=9)),)}, "'m' renews locks"),
        ({"members": (Member("m", behaviour=Behaviour(commit="error")),)}, "commits after errors"),
        ({"settings": Settings(Limits(max_record_locks=1 << 30))}, "too much memory"),
    ],
)
def test_what_only_the_readable_loop_does_is_a_reason(
    change: dict[str, object], reason: str
) -> None:
    assert why_not(BUSY) is None
    result = why_not(replace(BUSY, **change))  # type: ignore[arg-type]
    assert result is not None
    assert reason in result


def test_what_is_not_compiled_runs_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(simulate(EVERYTHING, 1, requests=True))
    monkeypatch.setattr("sharelag.whatif.compiled.support.COMPILED_FROM", 0)
    assert digest(simulate(EVERYTHING, 1, requests=True)) == before
