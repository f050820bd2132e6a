"""Assignors that users register, what is wrong with an input, and with an answer."""

import json
import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from sharelag.errors import InputError
from sharelag.whatif import Group, assign, check_assignor, named, register, simulate
from sharelag.whatif.assignors import contract as rules
from sharelag.whatif.assignors.group import AssignorError
from tests.support.groups_to_assign import check, counts, members


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
    with pytest.raises(AssignorError, match=r"failed at .*test_assignors_input\.py:\d+: KeyError"):
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
