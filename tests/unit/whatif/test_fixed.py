"""A simulation with an assignment made by hand has just that, and leaves nothing behind."""

from typing import Any

import pytest

from sharelag.errors import InputError
from sharelag.whatif import (
    Behaviour,
    Fault,
    Member,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    from_json,
    simulate,
    to_json,
    what_if,
    with_assignment,
)

MADE = {"a": {"orders": [0, 2]}, "b": {"orders": [1, 2]}, "c": {}}
UNEVEN = (Producer("orders", 400.0, batch_records=10, weights=(0.9, 0.1, 0, 0)),)


def scenario(**changes: object) -> Scenario:
    service = Service(2.0)
    given = {
        "topics": (Topic("orders", 4, backlog=200, batch_records=20),),
        "members": tuple(Member(name, service=service) for name in "abc"),
        "producers": (Producer("orders", 100.0),),
        "duration_ms": 8000,
        "settings": Settings(heartbeat_interval_ms=100, assignment_interval_ms=0),
    }
    return Scenario(**(given | changes))  # type: ignore[arg-type]


def served(run: Scenario, seed: int = 0) -> set[tuple[str, int]]:
    rows = simulate(run, seed).deliveries.to_pylist()
    return {(row["member"], row["partition"]) for row in rows if row["deliveries"]}


def test_everybody_gets_what_was_said_and_nobody_else() -> None:
    assert served(with_assignment(scenario(), MADE)) == {("a", 0), ("a", 2), ("b", 1), ("b", 2)}
    only = {"a": {}, "b": {"orders": range(4)}}
    assert served(with_assignment(scenario(), only), 2) == {("b", number) for number in range(4)}


def test_who_comes_back_after_a_crash_gets_its_own_again() -> None:
    restarts = Behaviour(restart_ms=300)
    faults = tuple(Fault(at, "crash", "b") for at in (1500, 3500, 5500))
    members = (Member("a"), Member("b", behaviour=restarts), Member("c"))
    run = scenario(members=members, faults=faults)
    result = simulate(with_assignment(run, MADE), 5)
    lives = [row for row in result.members.to_pylist() if row["member"] == "b"]
    assert [row["life"] for row in lives] == [0, 1, 2, 3]
    assert lives[-1]["partitions"] == 2
    assert lives[-1]["deliveries"] > 0


def test_members_are_those_of_the_assignment() -> None:
    slow = Service(50.0)
    members = (Member("a", service=slow), Member("b", count=2))
    before = scenario(members=members, faults=(Fault(1000, "crash", "a"),), assumed=("x",))
    after = with_assignment(before, {"b-0": {"orders": [0]}, "new": {"orders": [1]}})
    assert [member.name for member in after.members] == ["b-0", "new"]
    assert after.members[1].service == slow
    assert after.faults == ()
    assert after.assumed == ("x", "new is like a")
    assert served(after) == {("b-0", 0), ("new", 1)}


def test_the_same_assignment_gives_the_same_tables_elsewhere_too() -> None:
    edited = with_assignment(scenario(), MADE)
    there = from_json(to_json(edited))  # as in another process
    assert there == edited
    first, again = simulate(edited, 3), simulate(there, 3)
    assert first.summary.equals(again.summary)
    assert first.timeline.equals(again.timeline)
    changed = with_assignment(scenario(), MADE | {"c": {"orders": [3]}})
    assert not simulate(changed, 3).summary.equals(first.summary)


def test_what_members_had_before_is_taken_from_them() -> None:
    had = tuple(Member(name, assigned=(("orders", n),)) for n, name in enumerate("abc"))
    run = scenario(members=had, settled=True)
    (row,) = simulate(with_assignment(run, MADE)).summary.to_pylist()
    assert row["moves"] == 1  # of c, the others keep theirs


def test_what_cannot_be_is_said() -> None:
    for topic, partition in (("orders", 4), ("other", 0)):
        said = f"'a' has partition {partition} of '{topic}', which the scenario does not have"
        with pytest.raises(InputError, match=said):
            with_assignment(scenario(), {"a": {topic: [partition]}})


def test_the_difference_is_the_same_twice_and_the_baseline_is_the_scenario_as_it_is() -> None:
    everybody, uneven = {name: {"orders": range(4)} for name in "abc"}, scenario(producers=UNEVEN)
    received: list[tuple[int, int]] = []
    table = what_if(uneven, everybody, seeds=[1, 4], progress=lambda *done: received.append(done))
    assert table is not None
    assert table.equals(what_if(uneven, everybody, seeds=[1, 4]))
    assert received == [(done, 4) for done in range(5)]
    rows = {row["measure"]: row for row in table.to_pylist()}
    age = rows["Age of the oldest record, p95"]
    alone = [simulate(uneven, seed).summary.column("age_p95_ms")[0].as_py() for seed in (1, 4)]
    assert age["baseline"] == pytest.approx(sum(alone) / 2)
    assert age["edited"] < age["baseline"]
    assert age["low"] < age["edited"] - age["baseline"] < age["high"]
    assert (age["unit"], age["better"]) == ("ms", "less")
    assert rows["Redeliveries"]["verdict"] == "same"


def test_one_seed_does_not_show_who_is_better() -> None:
    table = what_if(scenario(producers=UNEVEN), {"a": {"orders": [0, 1, 2, 3]}}, seeds=[1])
    assert table is not None
    rows = {row["measure"]: row for row in table.to_pylist()}
    assert rows["Lag, largest"]["verdict"] in ("unclear", "same")
    assert rows["Lag, largest"]["low"] is None


def test_a_run_that_is_cancelled_gives_nothing_and_stops_at_once() -> None:
    received: list[tuple[int, int]] = []
    given: Any = {"cancelled": lambda: len(received) == 2}
    assert what_if(scenario(), MADE, **given, progress=lambda *done: received.append(done)) is None
    assert [done for done, _ in received] == [0, 1]
