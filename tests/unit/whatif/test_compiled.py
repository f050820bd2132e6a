"""Compiled kernels give what they give in plain Python, to the last byte."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Literal, TypeAlias

import pytest

from sharelag.whatif import (
    Behaviour,
    Fault,
    Limits,
    Member,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    SimulationResult,
    Topic,
    named,
    names,
    simulate,
)
from sharelag.whatif.compiled import support
from tests.support.own_process import run_code
from tests.support.simulation_scenarios import EVERYTHING, drawn_scenario
from tests.support.simulations import digest

#: Compiled for the first time it takes some 20 s of a core: left out of `make check`.
pytestmark = pytest.mark.slow

#: Random scenarios are tested in so many tests, which processes share.
_BLOCKS = 10
_SERVICE, _BEHAVIOUR = Service(2, "exponential"), Behaviour(0.9, 0.07, 0.01, 0.02)
BUSY = Scenario(
    (Topic("t", 6),),
    (Member("m", 12, service=_SERVICE, behaviour=_BEHAVIOUR, max_poll_records=50),),
    (Producer("t", 3000),),
    Settings(Limits(lock_duration_ms=700)),
    duration_ms=1500,
    settled=True,
)

#: Runs a scenario by compiled kernels and by plain ones.
Both: TypeAlias = Callable[[Scenario, int], list[SimulationResult]]


@pytest.fixture
def by_both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """Run a scenario by compiled kernels and by plain ones."""

    def run(scenario: Scenario, seed: int) -> list[SimulationResult]:
        results = []
        for choice in (True, False):
            monkeypatch.setattr(
                sys.modules[simulate.__module__], "use_compiled", lambda _, use=choice: use
            )
            results.append(simulate(scenario, seed, requests=True))
        return results

    return run


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_random_ones_are_equal(by_both: Both, cases: Callable[[int, int], int], block: int) -> None:
    """All tables, requests, writes, ends of logs, and what was finished when; records of some.

    Equal writes make equal records, which take most of the time.
    """
    for seed in range(block, _BLOCKS * cases(1, 100), _BLOCKS):
        compiled, plain = by_both(drawn_scenario(Random(seed)), seed)
        assert digest(compiled, records=False) == digest(plain, records=False), seed
        assert _writes(compiled) == _writes(plain), seed
        assert compiled.finished().equals(plain.finished()), seed
        assert compiled.offsets().equals(plain.offsets()), seed
        assert compiled.scaling.equals(plain.scaling), seed
        assert compiled.in_flight(7000).equals(plain.in_flight(7000)), seed
        assert compiled.duplicates == plain.duplicates, seed
        if seed % 50 == 7:
            assert compiled.records().equals(plain.records()), seed


def _writes(result: SimulationResult) -> list[object]:
    """What the share coordinator is called with, in order."""
    return [(call.__name__, arguments) for call, arguments in result._states.waiting()]


def test_time_goes_on_where_a_member_gets_nothing_at_once() -> None:
    """Neither requests nor answers take time there, so it would ask again at the same moment."""
    scenario = drawn_scenario(Random(86))
    assert (scenario.costs.network_ms, scenario.costs.fetch_ms) == (0, 0)
    last = simulate(scenario, 86).timeline.column("time_ms").to_pylist()[-1]
    assert scenario.duration_ms - scenario.step_ms < last <= scenario.duration_ms


def test_random_scenarios_write_and_finish(by_both: Both) -> None:
    """Busy ones, which are some of the above, have something to compare."""
    compiled, _ = by_both(drawn_scenario(Random(18)), 18)
    assert compiled.finished().num_rows > 1_400
    assert len(_writes(compiled)) > 1_000


@pytest.mark.exhaustive  # random scenarios and all that one can say are compared in each run
@pytest.mark.parametrize("commit", ["poll", "record"])
def test_a_busy_group_gives_the_same(by_both: Both, commit: Literal["poll", "record"]) -> None:
    """Locks run out, records are released and rejected, memory grows in the middle."""
    (member,) = BUSY.members
    behaviour = replace(member.behaviour, commit=commit)
    scenario = replace(BUSY, members=(replace(member, behaviour=behaviour),))
    compiled, plain = by_both(scenario, 5)
    assert digest(compiled) == digest(plain)
    row = compiled.summary.to_pylist()[0]
    assert min(row[name] for name in ("acknowledged", "archived", "expired", "redeliveries")) > 20


#: What random scenarios have, too, of which each run compares some.
_often = partial(pytest.param, marks=pytest.mark.exhaustive)


@pytest.mark.parametrize(
    ("change", "happened"),
    [
        ({"poison": tuple(Poison("t", at % 6, at, "reject") for at in range(60))}, "archived"),
        _often(
            {"poison": (Poison("t", 0, 9, "silent", 2), Poison("t", 1, 9, "silent"))}, "expired"
        ),
        _often({"poison": (Poison("t", 1, 9, work_ms=150),)}, "redeliveries"),
        _often({"poison": (Poison("t", 1, 9, "hold", 1, hold_ms=900),)}, "expired"),
        ({"faults": (Fault(300, "hang", "m-3", 900), Fault(500, "hang", "m-4"))}, "expired"),
        _often({"faults": (Fault(300, "crash", "m-3"), Fault(400, "mute", "m-4"))}, "redeliveries"),
        _often({"faults": (Fault(700, "subscribe", "m-3"),)}, "acknowledged"),
        _often(
            {"topics": (Topic("t", 6, retention_ms=60_000, segment_records=10),)}, "acknowledged"
        ),
        ({"brokers": 2, "faults": (Fault(300, "broker_down", broker=1),)}, "wasted"),
    ],
)
def test_what_happens_is_the_same(by_both: Both, change: dict[str, object], happened: str) -> None:
    """And without it, something else happens: it is not ignored by both."""
    scenario = replace(BUSY, members=(replace(BUSY.members[0], behaviour=Behaviour()),))
    without = simulate(scenario, 3)
    compiled, plain = by_both(replace(scenario, **change), 3)  # type: ignore[arg-type]
    assert digest(compiled) == digest(plain)
    assert compiled.summary.column(happened)[0].as_py() > 0
    if "topics" not in change:
        assert compiled.deliveries != without.deliveries


@pytest.mark.exhaustive  # random scenarios crash in each run
def test_members_that_crash_again_and_again_begin_many_lives(by_both: Both) -> None:
    """More lives than there is memory for at the begin."""
    behaviour = Behaviour(crash=0.3, hang=0.05, hang_ms=100, restart_ms=20, commit="error")
    (member,) = BUSY.members
    members = (replace(member, behaviour=behaviour),)
    settings = Settings(heartbeat_interval_ms=50, session_timeout_ms=200, assignment_interval_ms=0)
    scenario = replace(BUSY, members=members, settings=settings, duration_ms=2000)
    compiled, plain = by_both(scenario, 3)
    assert digest(compiled) == digest(plain)
    assert compiled.members.num_rows > 2 * member.count


def test_records_deleted_before_they_were_finished_are_lost_in_both(by_both: Both) -> None:
    compiled, plain = by_both(named("retention-loss"), 3)
    assert digest(compiled, records=False) == digest(plain, records=False)
    assert compiled.summary.column("lost")[0].as_py() > 0


def test_shipped_scenarios_give_the_same(by_both: Both) -> None:
    for name in names():
        scenario = named(name)
        short = replace(scenario, duration_ms=min(scenario.duration_ms, 10_000))
        compiled, plain = by_both(short, 7)
        assert digest(compiled) == digest(plain), name


def test_all_that_a_scenario_can_say_gives_the_same(by_both: Both) -> None:
    compiled, plain = by_both(EVERYTHING, 1)
    assert digest(compiled) == digest(plain)
    row = compiled.summary.to_pylist()[0]
    assert min(row[name] for name in ("acknowledged", "archived", "expired", "redeliveries")) > 5


#: Simulates the scenario above, in two durations, and says in which form.
_CODE = """
import sys
from dataclasses import replace
from functools import partial
from sharelag.whatif.compiled import support
from sharelag.whatif.simulate import simulate
from tests.unit.whatif.test_compiled import BUSY

support.begin_later = lambda code: print("later")
for duration_ms in (1500, 6000):
    result = simulate(replace(BUSY, duration_ms=duration_ms))
    print("numba" in sys.modules, support._is_loaded)
"""


def _loops(cache: Path | None = None) -> list[str]:
    return run_code(_CODE, **({"NUMBA_CACHE_DIR": str(cache)} if cache else {})).split()


def test_many_records_are_compiled_and_a_small_scenario_does_not_load_numba() -> None:
    from sharelag.whatif.compiled.ready import make_ready  # which imports numba: not in `_CODE`

    make_ready()
    assert _loops() == ["False", "False", "True", "True"]


@pytest.mark.exhaustive  # it compiles all kernels anew
def test_nobody_waits_for_the_compiler_for_few_records(tmp_path: Path) -> None:
    assert _loops(tmp_path) == ["False", "False", "later", "True", "False"]
    assert not list(tmp_path.rglob("*.nbi"))


def test_it_is_compiled_once_python_has_taken_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    later: list[str] = []
    monkeypatch.setattr(support, "begin_later", later.append)
    monkeypatch.setattr(support, "_so_far", 0)
    monkeypatch.setattr(support, "_is_loaded", False)
    monkeypatch.setattr(support, "_has_begun", False)
    monkeypatch.setattr("sharelag.whatif.compiled.ready.is_ready", lambda: False)
    monkeypatch.setattr("sharelag.whatif.compiled.ready.make_ready", lambda: made.append(True))
    long = replace(BUSY, duration_ms=22_000)
    assert [support.use_compiled(long) for _ in range(4)] == [False, False, True, True]
    assert (made, len(later)) == ([True], 1)
    assert not support.use_compiled(replace(BUSY, duration_ms=100))
    assert support.use_compiled(replace(BUSY, topics=(Topic("t", 4000),), duration_ms=2_000))
    # Members fetch again and again while nothing arrives.
    assert support.use_compiled(Scenario((Topic("t", 1, backlog=60),), (Member("m", 64),)))


def lines_of(scenario: Scenario) -> int:
    """Count the lines of plain Python that a run takes."""
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count if "compiled" in frame.f_code.co_filename else None

    simulate(scenario, 0)  # what is built once
    sys.settrace(count)
    try:
        simulate(scenario, 0)
    finally:
        sys.settrace(None)
    return lines


def test_a_fetch_takes_as_long_as_it_has_share_partitions() -> None:
    """Its session is not compared with all others."""

    def make(partitions: int) -> Scenario:
        topics, produced = (Topic("t", partitions),), (Producer("t", 100),)
        return Scenario(topics, (Member("m"),), produced, duration_ms=600, brokers=2)

    assert lines_of(make(200)) < 2.5 * lines_of(make(100))


def test_what_is_finished_takes_as_long_beside_many_share_partitions() -> None:
    """While one has a backlog, the others are not searched for one each time."""

    def make(partitions: int) -> Scenario:
        topics = (Topic("t", 1), Topic("quiet", partitions), Topic("unread", 1, backlog=1))
        member, produced = Member("m", topics=("t",)), (Producer("t", 50),)
        return Scenario(topics, (member,), produced, duration_ms=9000, step_ms=9000)

    assert lines_of(make(200)) < 1.2 * lines_of(make(100))


def test_heartbeats_that_change_nothing_do_not_reach_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long a simulation lasts."""
    monkeypatch.setattr(sys.modules[simulate.__module__], "use_compiled", lambda _: True)

    def make(ms: int) -> Scenario:
        settings = Settings(heartbeat_interval_ms=100)
        topics, members = (Topic("t", 1),), (Member("m", 20),)
        return Scenario(topics, members, (), settings, duration_ms=ms, step_ms=ms)

    assert lines_of(make(60_000)) < 1.2 * lines_of(make(20_000))
