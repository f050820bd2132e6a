"""The optimal assignment: as quick as the best of all, within its moves."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sharelag.errors import InputError
from sharelag.whatif import assign
from sharelag.whatif.assignors.contract import predict_drain
from sharelag.whatif.assignors.group import AssignorError, Group
from sharelag.whatif.assignors.optimal import optimum
from tests.support.groups_to_assign import (
    OURS,
    Members,
    Topics,
    check,
    counts,
    figures,
    going_on,
    groups,
    members,
)

# ---- optimal -------------------------------------------------------------------------------------


def free_division(
    group: Members, topics: Topics, assignment: dict[str, dict[str, list[int]]]
) -> float:
    """Seconds to drain with members of rate 1 on one partition each, nothing arriving."""
    return max(topics["t"]["lag"][p] / count for p, count in enumerate(counts(assignment)))


@given(lag=st.lists(st.integers(1, 100), min_size=1, max_size=3), count=st.integers(1, 5))
def test_with_one_partition_a_member_the_optimum_is_that_of_all_tries(
    lag: list[int], count: int
) -> None:
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
    assert free_division(group, topics, found.assignment) == pytest.approx(best, rel=2e-3)
    assert check(group, topics, found.assignment, load_spread=0) == []


@given(given_group=groups(), name=st.sampled_from(OURS))
def test_nobody_drains_sooner_than_the_bound(
    given_group: tuple[Members, Topics], name: str
) -> None:
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
    group = going_on(
        members(4), {"m0": {"t": [0]}, "m1": {"t": [1]}, "m2": {"t": [2]}, "m3": {"t": [2]}}
    )
    held = Group.of(group, topics)
    drains = []
    for moves in range(4):
        found = optimum(held, moves=moves, gap=0)
        assert check(group, topics, found.assignment, moves=moves) == []
        drains.append(found.drain)
    assert drains == [pytest.approx(seconds, rel=2e-3) for seconds in (90, 45, 40, 37.5)]
    bounded = optimum(held, partitions_per_member=2, moves=1)
    assert figures(group, topics, bounded.assignment).pairs <= 5
    with pytest.raises(AssignorError, match="at most 1 partitions a member and 0 moves"):
        optimum(Group.of(members(2), topics), partitions_per_member=1, moves=0)
    with pytest.raises(InputError, match="limit of 0"):
        assign("optimal", group, topics, partitions_per_member=0)


def test_more_arrives_than_can_be_served() -> None:
    topics = {"t": {"partitions": 2, "lag": {0: 10, 1: 10}, "rate": {0: 3, 1: 1}}}
    found = optimum(Group.of(members(2), topics), service_rate=1.0)
    assert (found.drain, found.bound) == (math.inf, math.inf)
    assert found.served == pytest.approx(0.5)
    topics["t"]["rate"] = {0: 1.0, 1: 0.5}
    assert optimum(Group.of(members(2), topics)).drain == pytest.approx(20 / 0.5)
