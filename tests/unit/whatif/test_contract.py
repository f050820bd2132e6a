"""The contract finds what is wrong with anyone's assignor; ours keep it for any group."""

import math
import time
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise, product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sharelag.errors import InputError
from sharelag.whatif import ASSIGNORS, Breach, Group, assign, check_assignor, check_contract
from sharelag.whatif.assignors import contract as rules
from sharelag.whatif.assignors.contract import predict_drain
from sharelag.whatif.assignors.group import AssignorError
from sharelag.whatif.assignors.optimal import optimum
from tests.support.cases import Cases
from tests.support.groups_to_assign import (
    OURS,
    Drawn,
    check,
    counts,
    figures,
    going_on,
    groups,
    members,
    pairs,
    slowest,
)

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


def by_member(found: set[tuple[str, str, int]]) -> dict[str, set[tuple[str, int]]]:
    everybody = {pair[0] for pair in found}
    return {who: {place[1:] for place in found if place[0] == who} for who in everybody}


@pytest.mark.parametrize("name", OURS)
@given(given_group=groups())
def test_everything_is_served_and_only_what_may_be(name: str, given_group: Drawn) -> None:
    group, topics = given_group
    answer = assign(name, group, topics)
    assert check(group, topics, answer) == []
    assert figures(group, topics, answer).idle == ()
    # The order of the group does not matter.
    assert answer == assign(name, list(reversed(group)), topics)
    assert list(answer) == [member["id"] for member in group]


@pytest.mark.parametrize("name", ["simple", "simple-4.1"])
@given(given_group=groups(), seed=st.randoms(use_true_random=False))
def test_kafkas_own_serves_all_that_is_assigned(name: str, given_group: Drawn, seed: Any) -> None:
    group, topics = given_group
    for topic in topics.values():
        topic.pop("assignable", None)
    group = going_on(group, {})
    for _ in range(3):
        answer = assign(name, group, topics)
        found = {finding.rule for finding in check(group, topics, answer)}
        alike = Group.of(group, topics).homogeneous
        other = rules.NOT_SUBSCRIBED if name == "simple" else rules.STARVED
        assert found <= (set() if alike else {other})
        group = going_on(group, answer)
        group = [member for member in group if seed.random() < 0.7] or group
        if not alike:
            wanted = seed.sample(sorted(topics), seed.randint(0, len(topics)))
            seed.choice(group)["subscribed"] = wanted


@pytest.mark.parametrize("name", ["round-robin", "balanced", "rack-aware"])
@given(given_group=groups(alike=True))
def test_loads_and_counts_differ_by_one_at_most(name: str, given_group: Drawn) -> None:
    group, topics = given_group
    answer = assign(name, group, topics)
    assert check(group, topics, answer, count_spread=1, load_spread=1) == []
    numbers = figures(group, topics, answer)
    assert numbers.pairs == (max(len(group), len(numbers.counts)) if numbers.counts else 0)
    if name == "rack-aware":
        plain = figures(group, topics, assign("balanced", group, topics))
        assert sorted(numbers.loads.items()) == sorted(plain.loads.items())
        assert (numbers.rack_match or 0) >= (plain.rack_match or 0)


@given(given_group=groups())
def test_what_is_settled_stays(given_group: Drawn) -> None:
    group, topics = given_group
    for name in ("sticky", "balanced"):
        settled = assign(name, group, topics)
        assert assign(name, going_on(group, settled), topics) == settled


@given(given_group=groups(alike=True))
def test_sticky_moves_no_more_than_it_must(given_group: Drawn) -> None:
    group, topics = given_group
    assume(len(group) > 1)
    settled = assign("sticky", going_on(group, {}), topics)
    loads = figures(group, topics, settled).loads
    left, *stayed = going_on(group, settled)
    answer = assign("sticky", stayed, topics)
    # What the others had moves only when somebody has nothing otherwise.
    assert figures(stayed, topics, answer).added <= loads[left["id"]]
    assert figures(stayed, topics, answer).revoked_needlessly == 0


@pytest.mark.slow
@given(given_group=groups(alike=True))
def test_seats_follow_the_lag(given_group: Drawn) -> None:
    group, topics = given_group
    found = figures(group, topics, assign("lag-proportional", group, topics))
    assume(0 < len(found.counts) <= len(group))
    assert set(found.loads.values()) == {1}
    lag = {place: topics[place[0]]["lag"].get(place[1]) for place in found.counts}
    known = [place for place in lag if lag[place] is not None]
    assert all(found.counts[a] <= found.counts[b] for a in known for b in known if lag[a] < lag[b])


# ---- lag-aware-sticky ----------------------------------------------------------------------------
@given(given_group=groups(), budget=st.integers(0, 3), sharing=st.integers(1, 3))
def test_movement_and_sessions_are_bounded(given_group: Drawn, budget: int, sharing: int) -> None:
    group, topics = given_group
    held = Group.of(group, topics)
    kept = {(who, *place) for who, places in held.current.items() for place in places}
    answer = pairs(assign("lag-aware-sticky", group, topics, budget=budget, sharing=sharing))
    assert len(kept - answer) <= budget
    before = Counter(place[1:] for place in kept)
    needed = {place: min(sharing, len(held.subscribers[place[0]])) for place in held.places}
    after = Counter(place[1:] for place in answer)
    assert all(after[place] >= least for place, least in needed.items())
    # Beyond what is needed to serve all, nobody gains a place unless there is room for it.
    missing = sum(max(least - before[place], 0) for place, least in needed.items())
    room = math.ceil(sharing * len(held.places) / len(group)) + 1
    idle = sum(not places for places in held.current.values())
    gained = by_member(answer).items()
    over = sum(max(len(ours) - max(room, len(held.current[who])), 0) for who, ours in gained)
    assert over <= missing + idle


@given(
    given_group=groups(), hysteresis=st.sampled_from([0.05, 0.1, 0.3]), sharing=st.integers(1, 3)
)
def test_it_rests_where_nothing_is_new(given_group: Drawn, hysteresis: float, sharing: int) -> None:
    group, topics = given_group
    options = {"hysteresis": hysteresis, "sharing": sharing}
    seen = [assign("lag-aware-sticky", group, topics, **options)]
    for _ in range(100):
        answer = assign("lag-aware-sticky", going_on(group, seen[-1]), topics, **options)
        if answer == seen[-1]:
            return
        assert answer not in seen
        seen.append(answer)
    pytest.fail("it never comes to rest")


@given(
    count=st.integers(4, 8), partitions=st.integers(3, 5), sharing=st.integers(1, 2), data=st.data()
)
def test_a_change_is_kept(count: int, partitions: int, sharing: int, data: st.DataObject) -> None:
    settings = {"budget": 1, "hysteresis": 0.2, "horizon": 0, "sharing": sharing, "extra": 0}
    # All crowd where the least is to be done, so that joining is not enough.
    bounds = [(100, 300) if p < 2 else (300, 1000) for p in range(partitions)]
    lag = {p: data.draw(st.integers(*between)) for p, between in enumerate(bounds)}
    topics = {"t": {"partitions": partitions, "lag": lag}}
    group = [member | {"current": {"t": [0, 1]}} for member in members(count)]
    start = assign("lag-aware-sticky", group, topics, **settings | {"budget": 0})
    changed = assign("lag-aware-sticky", going_on(group, start), topics, **settings)
    assume(changed != start)
    # Short of 1 / (1 - h) = 1.25, with room for the 1 that is added to every weight.
    factors = st.floats(1 / 1.24, 1.24)
    topics["t"]["lag"] = {p: lag[p] * data.draw(factors) for p in range(partitions)}
    assert assign("lag-aware-sticky", going_on(group, changed), topics, **settings) != start


@pytest.mark.parametrize(
    "lag", [lambda p: 1e6 / (p + 1), lambda p: 1e6 if p == 0 else 10, lambda p: p * 37 % 101]
)
def test_a_large_group_gets_its_answer_soon(lag: Callable[[int], float]) -> None:
    topics = {"t": {"partitions": 1000, "lag": {p: lag(p) for p in range(1000)}}}
    group = going_on(members(200), assign("lag-aware-sticky", members(200), topics))
    # The opposite order: as much as possible has to change.
    topics["t"]["lag"] = {p: lag(999 - p) for p in range(1000)}
    begin = time.process_time()
    answer = assign("lag-aware-sticky", group, topics)
    assert time.process_time() - begin < 2  # it takes about 0.4 s
    assert answer != {member["id"]: member["current"] for member in group}


def test_it_follows_a_hot_partition_within_its_budget() -> None:
    topics = {"t": {"partitions": 6, "lag": dict.fromkeys(range(6), 100)}}
    group = going_on(members(6), assign("lag-aware-sticky", members(6), topics))
    for hot in (0, 3):
        topics["t"]["lag"] = {p: 10_000 if p == hot else 100 for p in range(6)}
        drains, revoked = [], []
        for _ in range(8):
            answer = assign("lag-aware-sticky", group, topics, budget=1)
            numbers = figures(group, topics, answer, service_rate=10)
            drains.append(slowest(numbers))
            revoked.append(numbers.revoked)
            group = going_on(group, answer)
        assert all(after <= before for before, after in pairwise(drains))
        assert drains[-1] < 200  # all six together need 175 s
        assert max(revoked) <= 1
        assert revoked[-1] == 0
        # While there is room, they join, and nobody loses anything; then they have to leave
        # something for it.
        assert (sum(revoked) > 0) == (hot == 3)


def test_who_joins_later_gets_its_part_at_once() -> None:
    topics = {"t": {"partitions": 24, "lag": dict.fromkeys(range(24), 50)}}
    group = going_on(members(1), assign("lag-aware-sticky", members(1), topics))
    for number in (2, 3):
        group = [*group, *members(number)[-1:]]
        answer = assign("lag-aware-sticky", group, topics)
        assert len(answer[f"m{number - 1}"]["t"]) >= 24 / number
        group = going_on(group, answer)


def test_a_change_has_to_be_worth_it() -> None:
    topics = {"t": {"partitions": 2, "lag": {0: 49, 1: 79}}}
    group = going_on(members(2), {"m0": {"t": [0, 1]}, "m1": {"t": [1]}})
    alone: dict[str, Any] = {"sharing": 1, "extra": 0}
    # Of 50 + 40 and 40, m1 could take partition 0 over: but it has no room.
    as_it_was = {"m0": {"t": [0, 1]}, "m1": {"t": [1]}}
    assert assign("lag-aware-sticky", group, topics, **alone) == as_it_was
    # With room for one more it joins, to 65 and 65, if that is enough below 90; nobody loses
    # anything.
    both = {"m0": {"t": [0, 1]}, "m1": {"t": [0, 1]}}
    assert assign("lag-aware-sticky", group, topics, sharing=1, hysteresis=0.28)["m1"] == {"t": [1]}
    assert assign("lag-aware-sticky", group, topics, sharing=1, hysteresis=0.27) == both
    assert assign("lag-aware-sticky", group, topics, sharing=1, budget=0) == both
    # By default both serve both.
    assert assign("lag-aware-sticky", members(2), topics) == both
    # A partition that weighs next to nothing is not worth a session, however large the load around
    # it is.
    topics = {"t": {"partitions": 3, "lag": {0: 1000, 1: 1000, 2: 3}}}
    group = going_on(members(2), {"m0": {"t": [0, 1, 2]}, "m1": {"t": [2]}})
    assert 2 in assign("lag-aware-sticky", group, topics, sharing=1, extra=3)["m0"]["t"]
    with pytest.raises(InputError, match="between 0 and 1"):
        assign("lag-aware-sticky", group, topics, hysteresis=0)
    with pytest.raises(InputError, match="leaves partitions unserved"):
        assign("lag-aware-sticky", group, topics, sharing=0)


def test_lag_that_is_not_known_is_no_lag_of_zero() -> None:
    topics = {"t": {"partitions": 4, "lag": {0: 100, 1: 100, 2: 0}}}
    answer = assign("lag-aware-sticky", members(8), topics, sharing=1)
    held = counts(answer)
    assert held[3] > held[2]


# ---- optimal -------------------------------------------------------------------------------------
@given(lag=st.lists(st.integers(1, 100), min_size=1, max_size=3), count=st.integers(1, 5))
def test_with_one_partition_a_member_it_is_the_best_of_all(lag: list[int], count: int) -> None:
    assume(count >= len(lag))
    topics = {"t": {"partitions": len(lag), "lag": dict(enumerate(lag))}}
    group = members(count)
    best = min(
        max(amount / seats.count(p) for p, amount in enumerate(lag))
        for seats in product(range(len(lag)), repeat=count)
        if set(seats) == set(range(len(lag)))
    )
    found = optimum(Group.of(group, topics), partitions_per_member=1, gap=0)
    assert found.drain == pytest.approx(best, rel=2e-3)
    assert found.bound <= best * (1 + 1e-9)
    drains = [lag[p] / seats for p, seats in enumerate(counts(found.assignment))]
    assert max(drains) == pytest.approx(best, rel=2e-3)
    assert check(group, topics, found.assignment, load_spread=0) == []


@given(given_group=groups(), name=st.sampled_from(OURS))
def test_nobody_drains_sooner_than_the_bound(given_group: Drawn, name: str) -> None:
    group, topics = given_group
    for topic in topics.values():
        topic["lag"] = dict.fromkeys(range(topic["partitions"]), 5) | topic["lag"]
        topic["rate"] = {}
    held = Group.of(group, topics)
    assume(any(held.lag(place) for place in held.places))
    found = optimum(held)
    # The bound leaves room for ties: a thousandth of the speed of all members together.
    everybody = {member for ids in held.subscribers.values() for member in ids}
    speed = len(everybody) / sum(held.lag(place) or 0 for place in held.places)
    assert found.bound <= found.drain
    assert 1 / found.bound - 1 / found.drain <= 1e-3 * speed + 1e-9
    drains = predict_drain(held, assign(name, group, topics)).values()
    assert max(drain for drain in drains if drain is not None) >= found.bound * (1 - 1e-9)


def test_the_optimum_moves_no_more_than_it_may() -> None:
    topics = {"t": {"partitions": 3, "lag": {0: 90, 1: 30, 2: 30}}}
    group = going_on(members(4), {f"m{n}": {"t": [p]} for n, p in enumerate((0, 1, 2, 2))})
    held = Group.of(group, topics)
    drains = []
    for moves in range(4):
        found = optimum(held, moves=moves, gap=0)
        assert check(group, topics, found.assignment, moves=moves) == []
        drains.append(found.drain)
    assert drains == [pytest.approx(seconds, rel=2e-3) for seconds in (90, 45, 40, 37.5)]
    bounded = optimum(held, partitions_per_member=2, moves=1)
    assert figures(group, topics, bounded.assignment).pairs <= 5
    with pytest.raises(AssignorError, match="at most 1 partitions per member and 0 moves"):
        optimum(Group.of(members(2), topics), partitions_per_member=1, moves=0)
    with pytest.raises(InputError, match="limit of 0"):
        assign("optimal", group, topics, partitions_per_member=0)


def test_more_arrives_than_the_optimum_can_serve() -> None:
    topics = {"t": {"partitions": 2, "lag": {0: 10, 1: 10}, "rate": {0: 3, 1: 1}}}
    found = optimum(Group.of(members(2), topics), service_rate=1.0)
    assert (found.drain, found.bound) == (math.inf, math.inf)
    assert found.served == pytest.approx(0.5)
    topics["t"]["rate"] = {0: 1.0, 1: 0.5}
    assert optimum(Group.of(members(2), topics)).drain == pytest.approx(20 / 0.5)
