"""The contract finds what is wrong with anyone's assignor, and ours keep it."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from sharelag.errors import InputError
from sharelag.whatif import ASSIGNORS, Breach, Group, assign, check_assignor, check_contract
from sharelag.whatif.assignors import contract as rules
from tests.support.cases import Cases
from tests.support.groups_to_assign import OURS

Answer = dict[str, dict[str, list[int]]]


@pytest.mark.parametrize("name", OURS)
def test_ours_keep_the_contract(name: str, cases: Any) -> None:
    assert check_contract(name, walks=cases(40, 1000)) == []


def test_kafkas_own_leaves_partitions_without_a_member() -> None:
    """Once some of them are not assignable, or subscriptions differ."""
    assert {one.rule for one in check_contract("simple")} >= {rules.NOT_SUBSCRIBED}


# ---- one that is faulty, by the rule that it breaks ----------------------------------------------
def usual(group: Group) -> Answer:
    """Give all to all, which is right."""
    return ASSIGNORS["all-to-all"](group)


def change_answer(group: Group, change: Callable[[str, list[int]], list[int]]) -> Answer:
    return {
        member: {name: change(name, ps) for name, ps in topics.items()}
        for member, topics in usual(group).items()
    }


def beyond_the_last(group: Group) -> Answer:
    return change_answer(group, lambda name, ps: [*ps, group.topics[name].partitions or 0])


def all_twice(group: Group) -> Answer:
    return change_answer(group, lambda _, ps: ps * 2)


def not_the_last(group: Group) -> Answer:
    """Leave the last partition of topics with three or more to nobody."""
    return change_answer(group, lambda _, ps: ps[:2])


def with_a_stranger(group: Group) -> Answer:
    return usual(group) | {"stranger": {"t": [0]}}


def with_a_strange_topic(group: Group) -> Answer:
    return {member: topics | {"strange": [0]} for member, topics in usual(group).items()}


def all_topics_to_all(group: Group) -> Answer:
    return {
        member.id: {name: list(topic.assignable) for name, topic in group.topics.items()}
        for member in group.members
    }


def failing(group: Group) -> Answer:
    if len(group.members) > 1:
        raise ZeroDivisionError("by a second member")
    return usual(group)


def one_each(group: Group, choose: Callable[[str], str]) -> Answer:
    """Give each partition to the one that is chosen of its topic."""
    answer: Answer = {}
    for topic, partition in group.places:
        answer.setdefault(choose(topic), {}).setdefault(topic, []).append(partition)
    return answer


def to_the_first_in_line(group: Group) -> Answer:
    return one_each(
        group, lambda topic: next(one.id for one in group.members if topic in one.subscribed)
    )


_turns = count()


def by_turns(group: Group) -> Answer:
    return one_each(
        group, lambda topic: group.subscribers[topic][next(_turns) % len(group.subscribers[topic])]
    )


def to_the_smallest_id(group: Group) -> Answer:
    return one_each(group, lambda topic: group.subscribers[topic][0])


def one_more_for_the_first(group: Group) -> Answer:
    """Give the first partition to all, the others to the member with the smallest id."""
    answer = to_the_smallest_id(group)
    for topic, partition in group.places[:1]:
        for member in group.subscribers[topic]:
            mine = answer.setdefault(member, {}).setdefault(topic, [])
            if partition not in mine:
                mine.append(partition)
    return answer


#: Each with what it is asked beside the group.
FAULTY: dict[str, tuple[Any, dict[str, int]]] = {
    rules.UNKNOWN_MEMBER: (with_a_stranger, {}),
    rules.UNKNOWN_TOPIC: (with_a_strange_topic, {}),
    rules.NOT_SUBSCRIBED: (all_topics_to_all, {}),
    rules.NOT_ASSIGNABLE: (beyond_the_last, {}),
    rules.DUPLICATE: (all_twice, {}),
    rules.STARVED: (not_the_last, {}),
    rules.UNEVEN_COUNTS: (one_more_for_the_first, {"count_spread": 1}),
    rules.UNEVEN_LOADS: (to_the_smallest_id, {"load_spread": 1}),
    rules.TOO_MANY_MOVES: (usual, {"moves": 3}),
    rules.NO_ANSWER: (failing, {}),
    rules.NOT_REPEATED: (by_turns, {}),
    rules.BY_ORDER: (to_the_first_in_line, {}),
}


def test_there_is_a_faulty_one_for_each_rule() -> None:
    assert set(FAULTY) == set(rules.RULES)
    assert check_contract(usual) == []


@pytest.mark.parametrize("rule", FAULTY)
def test_one_that_breaks_a_rule_is_found_in_a_small_group(rule: str, cases: Cases) -> None:
    function, limits = FAULTY[rule]
    (found,) = check_contract(function, walks=cases(50, 200), **limits)
    assert found.rule == rule
    assert found.text
    # Two members or three partitions show each of them.
    assert len(found.members) <= 3
    assert sum(topic["partitions"] for topic in found.topics.values()) <= 5


def test_the_group_that_shows_it_can_be_asked_about_again() -> None:
    (found,) = check_contract(not_the_last)
    again = check_assignor(not_the_last, found.members, found.topics)
    assert [(one.rule, one.text) for one in again.findings] == [(found.rule, found.text)]
    (raised,) = check_contract(failing)
    assert "ZeroDivisionError: by a second member" in raised.text
    assert f"{__file__}:" in raised.text
    assert len(raised.members) == 2


def test_the_smallest_group_comes_first_and_a_seed_draws_the_same_ones() -> None:
    def with_all_twice(group: Group) -> Answer:
        return all_twice(group) if len(group.members) > 2 else not_the_last(group)

    found = check_contract(with_all_twice, walks=50)
    assert {one.rule for one in found} == {rules.DUPLICATE, rules.STARVED}
    assert [size(one) for one in found] == sorted(map(size, found))
    assert check_contract(with_all_twice, walks=50) == found
    assert check_contract(with_all_twice, walks=50, seed=1) != found


def size(found: Breach) -> int:
    held = sum(len(ps) for one in found.members for ps in one["current"].values())
    return len(found.members) + sum(one["partitions"] for one in found.topics.values()) + held


def test_walks_go_through_what_happens_to_groups() -> None:
    seen: list[Group] = []

    def watching(group: Group) -> Answer:
        seen.append(group)
        return usual(group)

    assert check_contract(watching) == []
    assert {group.homogeneous for group in seen} == {True, False}
    assert max(len(group.members) for group in seen) > 5
    assert len(seen[0].members) == 1
    held = [member.current for group in seen for member in group.members]
    assert any(held)
    assert not all(held)
    topics = [topic for group in seen for topic in group.topics.values()]
    assert any(len(one.assignable) < (one.partitions or 0) for one in topics)
    assert any(len(one.lag) < (one.partitions or 0) for one in topics)


def test_options_of_an_assignor_are_given_and_checked() -> None:
    assert check_contract("lag-aware-sticky", walks=10, sharing=1) == []
    with pytest.raises(InputError, match="cannot take these options"):
        check_contract("sticky", walks=1, onyl="u")
    with pytest.raises(InputError, match="unknown assignor 'simpel'"):
        check_contract("simpel", walks=1)
    members = [{"id": "a", "subscribed": ["t"]}]
    assert assign("sticky", members, {"t": {"partitions": 1}}) == {"a": {"t": [0]}}


def test_a_failure_by_another_order_or_the_second_time_is_named_as_that() -> None:
    def by_order(group: Group) -> Answer:
        ids = [one.id for one in group.members]
        if ids != sorted(ids) and len(ids) > 1:
            raise ValueError("unsorted")
        return {one: {} for one in ids}

    found = {one.rule: one for one in check_contract(by_order, walks=40)}
    assert "unsorted" in found["by_order"].text
    for breach in found.values():
        ids = [one["id"] for one in breach.members]
        assert (breach.rule == "no_answer") == (ids != sorted(ids))


def test_no_walk_shows_nothing() -> None:
    with pytest.raises(InputError, match="give at least 1 walk"):
        check_contract("simple", walks=0)
