"""Every assignor keeps its contract, and the worked examples come out."""

import math

import pytest

from sharelag.errors import InputError
from sharelag.whatif import ASSIGNORS, Group, Member, Scenario, Topic, assign, simulate
from sharelag.whatif.assignors import contract as rules
from sharelag.whatif.assignors.contract import predict_drain
from sharelag.whatif.assignors.group import AssignorError
from sharelag.whatif.assignors.simple import JavaMap
from sharelag.wire.placement import abs_hash
from tests.support.groups_to_assign import check, counts, figures, going_on, members, pairs, slowest
from tests.support.own_process import run_by_any_hashes

#: As this is imported: other tests add assignors.
SHIPPED = [*ASSIGNORS]


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


def test_the_same_group_gets_the_same_answer_in_every_process() -> None:
    group = [{"id": f"m{n}", "subscribed": ["t", "u"][: 1 + n % 2]} for n in range(9)]
    topics = {name: {"partitions": 7, "lag": {n: (n * 37) % 11 for n in range(7)}} for name in "tu"}
    code = f"""
from sharelag.whatif import assign
for name in {SHIPPED}:
    print(name, assign(name, {group}, {topics}))
"""
    answer = run_by_any_hashes(code)
    assert [line.split()[0] for line in answer.splitlines()] == SHIPPED
