"""The compiled loop gives what the readable one gives, to the last byte."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from sharelag.model import StateBatch, Window
from sharelag.whatif.autoscale import Keda
from sharelag.whatif.compiled import support
from sharelag.whatif.compiled.outcome import CompiledStates
from sharelag.whatif.compiled.support import why_not
from sharelag.whatif.gallery import named, names
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

#: Random scenarios are tested in so many tests, which processes share.
_BLOCKS = 10
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
        for choice in (True, False):
            monkeypatch.setattr(
                sys.modules[simulate.__module__], "use_compiled", lambda _, use=choice: use
            )
            results.append(simulate(scenario, seed, requests=True))
        compiled, readable = results
        assert isinstance(compiled._states, CompiledStates) or _loses_records(readable)
        assert not isinstance(readable._states, CompiledStates)
        return results

    return run


def _loses_records(result: SimulationResult) -> bool:
    """Whether the log began behind the group at any time; only the readable loop goes on then."""
    return result.summary.column("lost")[0].as_py() > 0


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_random_scenarios_give_the_same(
    by_both: Callable[[Scenario, int], list[SimulationResult]],
    cases: Callable[[int, int], int],
    block: int,
) -> None:
    """All tables, requests, writes, ends of logs, and what was finished when; records of some.

    Equal writes make equal records, which take most of the time.
    """
    for seed in range(block, _BLOCKS * cases(2, 100), _BLOCKS):
        compiled, readable = by_both(calm_scenario(Random(seed)), seed)
        assert digest(compiled, records=False) == digest(readable, records=False), seed
        assert _writes(compiled) == _writes(readable), seed
        assert compiled.finished().equals(readable.finished()), seed
        assert compiled.offsets().equals(readable.offsets()), seed
        assert compiled.duplicates == readable.duplicates, seed
        if seed % 50 == 7:
            assert compiled.records().equals(readable.records()), seed


def _writes(result: SimulationResult) -> list[object]:
    """What the share coordinator is called with, in order."""
    return [(call.__name__, arguments) for call, arguments in result._states.waiting()]


def test_random_scenarios_write_and_finish(
    by_both: Callable[[Scenario, int], list[SimulationResult]],
) -> None:
    """The scenarios above have something to compare."""
    compiled, _ = by_both(calm_scenario(Random(9)), 9)
    assert compiled.finished().num_rows > 1_400
    assert len(_writes(compiled)) > 1_000


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


@pytest.mark.parametrize(
    ("change", "happened"),
    [
        ({"poison": tuple(Poison("t", at % 6, at, "reject") for at in range(60))}, "archived"),
        ({"poison": (Poison("t", 0, 9, "silent", 2), Poison("t", 1, 9, "silent"))}, "expired"),
        ({"poison": (Poison("t", 1, 9, work_ms=150),)}, "redeliveries"),
        ({"faults": (Fault(300, "hang", "m-3", 900), Fault(500, "hang", "m-4"))}, "expired"),
        ({"faults": (Fault(300, "crash", "m-3"), Fault(400, "mute", "m-4"))}, "redeliveries"),
        ({"faults": (Fault(700, "subscribe", "m-3"),)}, "acknowledged"),
        ({"topics": (Topic("t", 6, retention_ms=60_000, segment_records=10),)}, "acknowledged"),
    ],
)
def test_what_happens_to_members_and_records_is_the_same(
    by_both: Callable[[Scenario, int], list[SimulationResult]],
    change: dict[str, object],
    happened: str,
) -> None:
    """And without it, something else happens: it is not ignored by both."""
    scenario = replace(BUSY, members=(replace(BUSY.members[0], behaviour=Behaviour()),))
    without = simulate(scenario, 3)
    compiled, readable = by_both(replace(scenario, **change), 3)  # type: ignore[arg-type]
    assert digest(compiled) == digest(readable)
    assert isinstance(compiled._states, CompiledStates)
    assert compiled.summary.column(happened)[0].as_py() > 0
    if "topics" not in change:
        assert compiled.deliveries != without.deliveries


def test_members_that_crash_again_and_again_begin_many_lives(
    by_both: Callable[[Scenario, int], list[SimulationResult]],
) -> None:
    """More lives than there is memory for at the begin."""
    behaviour = Behaviour(crash=0.3, hang=0.05, hang_ms=100, restart_ms=20, commit="error")
    (member,) = BUSY.members
    members = (replace(member, behaviour=behaviour),)
    settings = Settings(heartbeat_interval_ms=50, session_timeout_ms=200, assignment_interval_ms=0)
    scenario = replace(BUSY, members=members, settings=settings, duration_ms=2000)
    compiled, readable = by_both(scenario, 3)
    assert digest(compiled) == digest(readable)
    assert compiled.members.num_rows > 2 * member.count


def test_records_deleted_before_they_were_finished_are_left_to_the_readable_loop(
    by_both: Callable[[Scenario, int], list[SimulationResult]],
) -> None:
    compiled, readable = by_both(named("retention-loss"), 3)
    assert digest(compiled, records=False) == digest(readable, records=False)
    assert _loses_records(compiled)
    assert not isinstance(compiled._states, CompiledStates)


def test_shipped_scenarios_give_the_same(
    by_both: Callable[[Scenario, int], list[SimulationResult]],
) -> None:
    ours = [name for name in names() if why_not(named(name)) is None]
    assert set(names()) - set(ours) == {"gaps", "leader-change"}
    for name in ours:
        scenario = named(name)
        short = replace(scenario, duration_ms=min(scenario.duration_ms, 10_000))
        compiled, readable = by_both(short, 7)
        assert digest(compiled) == digest(readable), name


#: Simulates the scenario above, in two durations, and says which loop did it.
_CODE = """
import sys
from dataclasses import replace
from sharelag.whatif.simulate import simulate
from tests.unit.whatif.test_compiled import BUSY

for duration_ms in (1500, 6000):
    result = simulate(replace(BUSY, duration_ms=duration_ms))
    print("numba" in sys.modules, type(result._states).__name__)
"""


def _loops(cache: Path | None = None) -> list[str]:
    environment = os.environ | ({"NUMBA_CACHE_DIR": str(cache)} if cache else {})
    done = subprocess.run(
        [sys.executable, "-c", _CODE], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.split()


def test_many_records_are_compiled_and_a_small_scenario_does_not_load_numba() -> None:
    subprocess.run([sys.executable, "-m", "tests.support.compiled", "simulations"], check=True)
    assert _loops() == ["False", "StateLog", "True", "CompiledStates"]


def test_nobody_waits_for_the_compiler_for_few_records(tmp_path: Path) -> None:
    assert _loops(tmp_path) == ["False", "StateLog", "True", "StateLog"]
    assert not list(tmp_path.rglob("*.nbi"))


def test_it_is_compiled_when_the_readable_loop_has_taken_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    monkeypatch.setattr(support, "_so_far", 0)
    monkeypatch.setattr(support, "_is_loaded", False)
    monkeypatch.setattr("sharelag.whatif.compiled.ready.is_ready", lambda: False)
    monkeypatch.setattr("sharelag.whatif.compiled.ready.make_ready", lambda: made.append(True))
    long = replace(BUSY, duration_ms=40_000)
    assert [support.use_compiled(long) for _ in range(4)] == [False, False, True, True]
    assert made == [True]
    assert not support.use_compiled(replace(BUSY, duration_ms=100))


_WINDOW = Window(0, 0, 0, 2, 0, BEGINS_MS, BEGINS_MS)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"faults": (Fault(1, "leader_change", topic="t"),)}, "it has faults of brokers"),
        ({"autoscaler": Keda()}, "it has an autoscaler"),
        ({"brokers": 2}, "it has several brokers"),
        ({"producers": (Producer("t", 5, transaction_batches=2),)}, "a producer uses transactions"),
        ({"topics": (Topic("t", 6, compact_ms=9),)}, "topic 't' is compacted"),
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
            "the group had records of topic 't' with members",
        ),
        (
            {"topics": (Topic("t", 1, starts=(PartitionStart(9, 5, _WINDOW),)),)},
            "records of topic 't' were deleted",
        ),
        (
            {"topics": (Topic("t", 1, starts=(PartitionStart(1, 0, _WINDOW),)),)},
            "the group is ahead of topic 't'",
        ),
        ({"members": (Member("m", behaviour=Behaviour(renew_ms=9)),)}, "'m' renews locks"),
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
    monkeypatch.setattr(support, "_is_loaded", True)
    assert digest(simulate(EVERYTHING, 1, requests=True)) == before
