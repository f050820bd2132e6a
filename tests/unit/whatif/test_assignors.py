"""Assignors give the worked examples, users register theirs, and assignments are made by hand."""

import json
import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from sharelag.errors import InputError
from sharelag.whatif import (
    Behaviour,
    Fault,
    Group,
    Member,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    assign,
    check_assignor,
    from_json,
    named,
    register,
    simulate,
    to_json,
    what_if,
    with_assignment,
)
from sharelag.whatif.assignors import contract as rules
from sharelag.whatif.assignors.contract import predict_drain
from sharelag.whatif.assignors.group import AssignorError
from sharelag.whatif.assignors.simple import JavaMap
from sharelag.wire.placement import abs_hash
from tests.support.groups_to_assign import check, counts, figures, going_on, members, pairs, slowest

MADE = {"a": {"orders": [0, 2]}, "b": {"orders": [1, 2]}, "c": {}}
UNEVEN = (Producer("orders", 400.0, batch_records=10, weights=(0.9, 0.1, 0, 0)),)


# ---- worked examples -----------------------------------------------------------------------------
@pytest.mark.row("ASG-02", "ADM-12")
def test_every_partition_to_every_subscriber() -> None:
    group = [{"id": "m1", "subscribed": ["T1"]}, {"id": "m2", "subscribed": ["T1", "T2"]}]
    group += [{"id": "m3", "subscribed": ["T2"]}]
    answer = assign("all-to-all", group, {"T1": {"partitions": 2}, "T2": {"partitions": 4}})
    assert answer["m2"] == {"T1": [0, 1], "T2": [0, 1, 2, 3]}
    assert [sum(map(len, topics.values())) for topics in answer.values()] == [2, 6, 4]
    assert (counts(answer, "T1"), counts(answer, "T2")) == ([2] * 2, [2] * 4)
    same = assign("all-to-all", members(3), {"t": {"partitions": 4}})
    assert (len(pairs(same)), counts(same)) == (12, [3] * 4)
    three = tuple(map(Member, "abc"))
    # Of a topic without a record.
    found = simulate(Scenario((Topic("t", 4),), three, assignor="all-to-all"))
    assert found.assignments.column("pairs").to_pylist()[-1] == 12
    assert found.summary.column("idle_members").to_pylist() == [3]


@pytest.mark.row("FND-02")
def test_more_members_than_partitions_leave_nobody_idle() -> None:
    group, topics = members(5), {"t": {"partitions": 2}}
    answer = figures(group, topics, assign("all-to-all", group, topics))
    assert (answer.pairs, answer.idle) == (10, ())
    topic, five = Topic("t", 2, backlog=10_000), tuple(map(Member, "abcde"))
    result = simulate(Scenario((topic,), five, assignor="all-to-all"))
    last = result.assignments.to_pylist()[-1]
    assert (last["members"], last["pairs"], last["idle"]) == (5, 10, 0)
    assert result.members.column("partitions").to_pylist() == [2] * 5
    assert result.summary.column("idle_members").to_pylist() == [0]


@pytest.mark.row("ASG-03")
def test_members_in_proportion_to_the_lag() -> None:
    topics = {"t": {"partitions": 3, "lag": {0: 70, 1: 20, 2: 10}}}
    assert counts(assign("lag-proportional", members(10), topics)) == [7, 2, 1]
    assert counts(assign("simple", members(10), topics)) == [4, 4, 4]


@pytest.mark.parametrize(
    ("count", "lag", "held"), [(4, {0: 99, 1: 0, 2: 0}, [2, 1, 1]), (9, {0: 40, 1: 80}, [2, 4, 3])]
)
def test_without_lag_a_member_is_kept(count: int, lag: dict[int, int], held: list[int]) -> None:
    topics = {"t": {"partitions": 3, "lag": lag}}
    assert counts(assign("lag-proportional", members(count), topics)) == held


@pytest.mark.row("ASG-04")
def test_consumers_per_partition_are_balanced_and_revocations_reported() -> None:
    topics = {"t": {"partitions": 4}}
    answer = assign("balanced", members(6), topics)
    assert counts(answer) == [2, 2, 1, 1]
    assert all(len(topics_["t"]) == 1 for topics_ in answer.values())
    crowded = {f"m{n}": {"t": [p]} for n, p in enumerate([0, 0, 0, 1, 2, 3])}
    group = going_on(members(6), crowded)
    answer = assign("balanced", group, topics)
    assert sorted(counts(answer)) == [1, 1, 2, 2]
    numbers = figures(group, topics, answer)
    assert (numbers.added, numbers.revoked, numbers.revoked_needlessly) == (1, 1, 1)


@pytest.mark.row("ASG-05")
def test_following_the_backlog_drains_sooner() -> None:
    topics = {"t": {"partitions": 3, "lag": {0: 70, 1: 20, 2: 10}}}
    drains = {
        name: figures(members(10), topics, assign(name, members(10), topics), service_rate=1.0)
        for name in ("balanced", "lag-proportional", "lag-aware-sticky")
    }
    assert drains["lag-proportional"].drain == {("t", 0): 10.0, ("t", 1): 10.0, ("t", 2): 10.0}
    balanced = {("t", n): seconds for n, seconds in enumerate((17.5, 20 / 3, 10 / 3))}
    assert drains["balanced"].drain == pytest.approx(balanced)
    # It keeps two on the partition with 10 that one could do in time: somebody is there when the
    # other is gone.
    assert slowest(drains["lag-aware-sticky"]) == pytest.approx(70 / 6)
    alone = assign("lag-aware-sticky", members(10), topics, sharing=1)
    assert slowest(figures(members(10), topics, alone, service_rate=1.0)) == 10.0


@pytest.mark.row("ASG-08")
def test_members_fetch_from_their_own_rack() -> None:
    group = [member | {"rack": rack} for member, rack in zip(members(2), "ab", strict=True)]
    topics = {"t": {"partitions": 4, "racks": {0: ["a"], 1: ["a"], 2: ["b"], 3: ["b"]}}}
    assert figures(group, topics, assign("simple", group, topics)).rack_match == 0.5
    answer = assign("rack-aware", group, topics)
    assert answer == {"m0": {"t": [0, 1]}, "m1": {"t": [2, 3]}}
    assert figures(group, topics, answer).rack_match == 1.0
    assert figures(members(2), topics, answer).rack_match is None


def test_drain_divides_a_member_among_what_has_lag_left() -> None:
    topics = {"t": {"partitions": 4, "lag": {0: 10, 1: 30, 2: 0}, "rate": {1: 0.5, 2: 0.25}}}
    group = Group.of(members(1), topics)
    # 2 a second less 0.25 for partition 2: 0.875 each until partition 0 is drained, then all to
    # partition 1.
    first = 10 / 0.875
    rest = (30 - first * (0.875 - 0.5)) / (1.75 - 0.5)
    drain = predict_drain(group, {"m0": {"t": [0, 1, 2, 3]}}, service_rate=2.0)
    assert drain == {
        ("t", 0): pytest.approx(first),
        ("t", 1): pytest.approx(first + rest),
        ("t", 2): 0.0,
        ("t", 3): None,
    }
    assert predict_drain(group, {"m0": {"t": [0]}})["t", 1] == math.inf
    with pytest.raises(InputError, match="'m0' has no service rate"):
        predict_drain(group, {}, service_rate={"m1": 1.0})


# ---- simple --------------------------------------------------------------------------------------
def test_simple_4_1_gives_members_the_partition_of_their_ids_hash() -> None:
    names = [f"{of}-{number}" for of in ("member", "consumer") for number in range(20)]
    group = [{"id": name, "subscribed": ["t"]} for name in names]  # of both signs
    answer = assign("simple-4.1", group, {"t": {"partitions": 7}})
    assert answer == {name: {"t": [abs_hash(name) % 7]} for name in names}


def test_simple_fails_where_kafka_fails() -> None:
    topics = {"t": {"partitions": 3, "assignable": [0]}}
    group = going_on(members(2), {"m0": {"t": [1]}, "m1": {"t": [2]}})
    # Each has its share of one, though of something that may not be assigned, and nobody takes
    # partition 0.
    broken = [one.rule for one in check(group, topics, assign("simple", group, topics))]
    assert broken == [rules.NOT_ASSIGNABLE, rules.NOT_ASSIGNABLE, rules.STARVED]
    group = going_on(members(2), {"m0": {"t": [1]}})
    with pytest.raises(AssignorError, match=r"NoSuchElementException.*partition 0 of 't'"):
        assign("simple", group, topics)


def test_a_bin_that_java_would_order_in_its_own_way_is_said() -> None:
    crowded: JavaMap[int, None] = JavaMap(lambda key: key, 64)
    keys = range(0, 9 * 64, 64)
    for key in keys[:8]:
        crowded.put(key, None)
    with pytest.warns(RuntimeWarning, match="Kafka's assignor may choose other members"):
        crowded.put(keys[8], None)
    assert list(crowded) == list(keys)


# ---- what users bring ----------------------------------------------------------------------------
@pytest.mark.usefixtures("registered")
def test_users_register_a_function() -> None:
    @register("to-the-first")
    def to_the_first(group: Group, only: str = "t") -> dict[str, dict[str, list[int]]]:
        return {group.members[0].id: {only: [p for topic, p in group.places if topic == only]}}

    group, topics = members(2, "t", "u"), {"t": {"partitions": 2}, "u": {"partitions": 1}}
    assert assign("to-the-first", group, topics) == {"m0": {"t": [0, 1]}, "m1": {}}
    for known in ("to-the-first", to_the_first):  # by its name, or the function itself
        checked = check_assignor(known, group, topics, service_rate=1.0, load_spread=1)
        assert checked.assignment == {"m0": {"t": [0, 1]}, "m1": {}}
        found = [(f.rule, f.topic, f.partition) for f in checked.findings]
        assert found == [(rules.STARVED, "u", 0), (rules.UNEVEN_LOADS, None, None)]
        assert (checked.figures.idle, checked.figures.loads) == (("m1",), {"m0": 2, "m1": 0})
        assert checked.figures.drain == {("t", 0): None, ("t", 1): None, ("u", 0): None}
        only_u = check_assignor(known, group, topics, only="u", moves=0)
        assert [f.rule for f in only_u.findings] == [*[rules.STARVED] * 2, rules.TOO_MANY_MOVES]
        with pytest.raises(InputError, match=r"'to.the.first' cannot take .*it knows only"):
            check_assignor(known, group, topics, onyl="u")
    assert assign("to-the-first", group, topics, only="u") == {"m0": {"u": [0]}, "m1": {}}
    with pytest.raises(InputError, match=r"cannot take these options .*it knows only"):
        assign("to-the-first", group, topics, onyl="u")
    register("to-nobody", lambda _: {})
    assert assign("to-nobody", group, topics) == {"m0": {}, "m1": {}}


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "must return a dict"),
        ({"x": {}}, "'x', who is not a member"),
        ({"m0": {"x": [1]}}, "unknown topic 'x'"),
        ({"m0": {"t": [-1]}}, "the partition -1: partitions are numbered from 0"),
        ({"m0": ["t"]}, "dict by topic for each member"),
        ({"m0": {"t": 0}}, "a list of partition numbers by topic"),
        ({"m0": {"t": ["0"]}}, "a list of partition numbers by topic"),
        ({"m0": {"t": [0.5]}}, "a list of partition numbers by topic"),
    ],
)
def test_a_bad_answer_is_the_assignors_fault(answer: Any, message: str) -> None:
    register("broken", lambda _: answer)
    with pytest.raises(AssignorError, match=message):
        assign("broken", members(1), {"t": {"partitions": 1}})


@pytest.mark.usefixtures("registered")
def test_a_simulation_says_where_an_assignor_fails() -> None:
    register("by-number", lambda group: {group.members[0].id: {group.topics[0].name: [0]}})
    scenario = replace(named("uneven"), assignor="by-number", duration_ms=1_000)
    with pytest.raises(AssignorError, match=r"failed at .*test_assignors\.py:\d+: KeyError"):
        simulate(scenario, 1)
    register("beyond", lambda group: {group.members[0].id: {"orders": [99]}})
    with pytest.raises(AssignorError, match="partition 99 of 'orders', which has "):
        simulate(replace(scenario, assignor="beyond"), 1)


@pytest.mark.usefixtures("registered")
def test_our_names_are_taken() -> None:
    with pytest.raises(InputError, match="choose another name"):
        register("simple", lambda _: {})
    with pytest.raises(InputError, match="not a function"):
        register("nothing", cast(Any, "simple"))


@pytest.mark.parametrize(
    ("member", "topic", "message"),
    [
        ({"subscribtion": []}, {}, "unknown key 'subscribtion': use current, id, rack, subscribed"),
        ({"subscribed": "t"}, {}, "'subscribed' a list of topic names"),
        ({"current": {"gone": [0]}}, {}, "'gone', which is not among the topics: add it"),
        ({"current": {"t": [-1]}}, {}, "give the numbers of partitions"),
        ({}, {"partition": 3}, "unknown key 'partition'"),
        ({}, {"partitions": -1}, "give their number, or None if it was deleted"),
        ({}, {"assignable": [3]}, "has 3 in 'assignable', but its 2 partitions"),
        ({}, {"lag": {2: 5}}, "has 2 in 'lag'"),
        ({}, {"lag": {1: -5}}, "lag -5 in partition 1: give a number of at least 0"),
        ({}, {"rate": {1: math.nan}}, "rate nan"),
        ({}, {"id": "abc"}, "22 characters"),
    ],
)
def test_errors_say_what_next(member: dict[str, Any], topic: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assign("simple", [members(1)[0] | member], {"t": {"partitions": 2} | topic})


def test_ids_must_differ() -> None:
    with pytest.raises(InputError, match="duplicate member id 'm0'"):
        assign("simple", members(1) + members(1), {"t": {"partitions": 1}})
    same = {"partitions": 1, "id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    with pytest.raises(InputError, match="topic id"):
        assign("simple", members(1), {"t": same, "u": same})


def test_the_contract_names_what_is_wrong() -> None:
    group = [{"id": "m0", "subscribed": ["t"]}, {"id": "m1", "subscribed": ["u"]}]
    topics: dict[str, Any] = {"t": {"partitions": 3, "assignable": [0, 1]}, "u": {"partitions": 1}}
    answer = {"m0": {"t": [0, 0, 2, 7], "u": [0]}, "m1": {}}
    found = {(f.rule, f.member, f.topic, f.partition) for f in check(group, topics, answer)}
    assert found == {
        (rules.DUPLICATE, "m0", "t", 0),
        (rules.NOT_ASSIGNABLE, "m0", "t", 2),
        (rules.NOT_ASSIGNABLE, "m0", "t", 7),
        (rules.NOT_SUBSCRIBED, "m0", "u", 0),
        (rules.STARVED, None, "t", 1),
        (rules.STARVED, None, "u", 0),
    }
    uneven = {"m0": {"t": [0, 1]}, "m1": {}}
    two = {"t": {"partitions": 2}}
    found_rules = [one.rule for one in check(members(2), two, uneven, load_spread=1, moves=1)]
    assert found_rules == [rules.UNEVEN_LOADS, rules.TOO_MANY_MOVES]
    crowd = {"m0": {"t": [0, 1]}, "m1": {"t": [0]}, "m2": {"t": [0]}}
    (finding,) = check(members(3), two, crowd, count_spread=1)
    assert finding.text == "one partition has 3 members and another 1; they may differ by 1"


def test_numbers_may_come_from_tables() -> None:
    partition = np.arange(3)
    lag = dict(zip(partition, np.array([70, 20, 10]), strict=True))
    topics = {"t": {"partitions": np.int64(3), "lag": lag}}
    group = [{"id": "m0", "subscribed": ["t"], "current": {"t": partition}}, *members(10)[1:]]
    assert counts(assign("lag-proportional", group, topics)) == [7, 2, 1]
    answer = assign("simple", group, topics)
    assert json.loads(json.dumps(answer)) == answer


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
