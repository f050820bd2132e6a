"""A simulation has what happens to groups: brokers die, members resubscribe or renew."""

from dataclasses import replace
from typing import Any

import pytest

from sharelag.errors import InputError
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.replay.state import window_items
from sharelag.whatif import (
    Behaviour,
    Costs,
    Fault,
    Limits,
    Member,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    simulate,
)
from sharelag.wire import STATE_TOPIC, decode_arrow
from tests.support.simulations import at, only

EAGER = Settings(heartbeat_interval_ms=100, assignment_interval_ms=0)


# ---- renewed locks ----
@pytest.mark.parametrize("commit", ["poll", "record"])
def test_a_member_that_renews_keeps_what_takes_longer_than_a_lock(commit: Any) -> None:
    """Three records of 20 s, locks of 30 s: without renewals the last are delivered repeatedly."""
    renews = Behaviour(commit=commit, renew_ms=10_000)
    scenario = Scenario(
        (Topic("t", 1, backlog=3, batch_records=3),),
        (Member(service=Service(20_000), behaviour=renews),),
        settings=Settings(Limits(delivery_count_limit=2)),
        duration_ms=200_000,
    )
    result = simulate(scenario)
    row = only(result.summary)
    assert (row["deliveries"], row["expired"], row["acknowledged"]) == (3, 0, 3)
    assert row["drain_ms"] == pytest.approx(60_000, abs=50)
    assert result.records().num_rows == (2 if commit == "poll" else 4)  # renewals write nothing
    member = replace(scenario.members[0], behaviour=Behaviour(commit=commit))
    row = only(simulate(replace(scenario, members=(member,))).summary)
    assert row["expired"] > 0
    assert row["archived"] > 0


def test_renewals_are_refused_where_the_group_does_not_allow_them() -> None:
    topic, settings = Topic("t", 1, backlog=1), Settings(Limits(renew_enabled=False))
    member = Member(service=Service(40_000), behaviour=Behaviour(renew_ms=10_000))
    scenario = Scenario((topic,), (member,), settings=settings, duration_ms=50_000)
    result = simulate(scenario)
    assert only(result.summary)["expired"] == 1
    # Once: that of its work, not those of its renewals.
    assert result.deliveries.column("refused").to_pylist() == [1]


def test_who_stands_still_does_not_renew() -> None:
    topic, fault = Topic("t", 1, backlog=10, batch_records=10), Fault(25_000, "hang", "a", 60_000)
    member = Member("a", service=Service(10_000), behaviour=Behaviour(renew_ms=10_000))
    scenario = Scenario((topic,), (member,), faults=(fault,), duration_ms=80_000)
    result = simulate(scenario)
    assert at(result, 50_000)["in_flight"] == 10  # renewed at 20 s
    assert at(result, 51_000)["in_flight"] == 0
    assert only(result.summary)["expired"] == 10


# ---- other topics ----
@pytest.mark.row("FND-04")
def test_members_subscribe_to_other_topics_at_any_time() -> None:
    """m1 has T1 only, and so no partition of T2, until it subscribes to that as well."""
    changes = (20_000, ("T1", "T2")), (40_000, ("T2",))
    scenario = Scenario(
        (Topic("T1", 2), Topic("T2", 2)),
        (Member("m1", topics=("T1",)), Member("m2")),
        (Producer("T1", 50), Producer("T2", 50)),
        EAGER,
        faults=tuple(Fault(at, "subscribe", "m1", topics=topics) for at, topics in changes),
        assignor="all-to-all",
        duration_ms=60_000,
    )
    early = simulate(replace(scenario, duration_ms=19_000)).deliveries.to_pylist()
    served = {(row["member"], row["topic"]) for row in early}
    assert served == {("m1", "T1"), ("m2", "T1"), ("m2", "T2")}
    result = simulate(scenario)
    later = {(row["member"], row["topic"]) for row in result.deliveries.to_pylist()}
    assert later == served | {("m1", "T2")}
    assert result.assignments.column("pairs").to_pylist() == [2, 6, 8, 6]
    assert result.assignments.column("revoked").to_pylist() == [0, 0, 0, 2]
    assert only(result.summary)["lag_end"] < 10
    rows = [row for row in result.timeline.to_pylist() if row["time_ms"] == 60_000]
    members = [(row["topic"], row["partition"], row["members"]) for row in rows]
    assert members == [("T1", 0, 1), ("T1", 1, 1), ("T2", 0, 2), ("T2", 1, 2)]


@pytest.mark.row("CLT-02")
def test_who_subscribes_to_nothing_leaves_the_group_and_may_come_back() -> None:
    scenario = Scenario(
        (Topic("t", 2),),
        (Member("a"), Member("b")),
        (Producer("t", 20),),
        EAGER,
        faults=(Fault(10_000, "subscribe", "a"), Fault(30_000, "subscribe", "a", topics=("t",))),
        assignor="all-to-all",
        duration_ms=50_000,
    )
    result = simulate(scenario)
    assert result.assignments.column("members").to_pylist() == [1, 2, 1, 2]
    assert [at(result, time)["members"] for time in (9_000, 11_000, 29_000, 31_000)] == [2, 1, 1, 2]
    a = result.members.to_pylist()[0]
    assert (a["ended"], a["life"]) == (None, 0)
    assert a["unassigned_ms"] == pytest.approx(20_000, abs=110)


# ---- brokers ----
def down(for_ms: int | None = None, **more: Any) -> Scenario:
    return Scenario(
        (Topic("t", 2, backlog=400, batch_records=10),),
        (Member(count=2, service=Service(20), max_poll_records=20),),
        settings=Settings(assignment_interval_ms=0),
        costs=Costs(failover_ms=3000),
        faults=(Fault(3010, "broker_down", broker=1, for_ms=for_ms),),
        assignor="all-to-all",
        brokers=2,
        duration_ms=60_000,
        step_ms=100,
    ) if not more else replace(down(for_ms), **more)  # fmt: skip


def test_while_a_broker_is_down_nothing_of_its_partitions_moves() -> None:
    result = simulate(down(), requests=True)
    rows = {(row["time_ms"], row["partition"]): row for row in result.timeline.to_pylist()}
    before, outage, after = (rows[time, 1] for time in (3000, 6000, 8000))
    assert before["in_flight"] > 0
    assert outage["in_flight"] == 0
    assert before["start_offset"] <= outage["start_offset"] < after["start_offset"]
    assert rows[3100, 1]["lag"] == rows[6000, 1]["lag"]
    assert rows[6000, 0]["lag"] < rows[3000, 0]["lag"]  # the other broker goes on
    requested = [row for row in result.requests.to_pylist() if row["broker"] == 1]
    assert len([row for row in requested if 3010 <= row["time_ms"] < 6010]) > 10  # in vain
    row = only(result.summary)
    assert row["lag_end"] == 0
    assert row["acknowledged"] == 800
    assert 0 < row["deliveries"] - 800 <= 40  # what members had of it


def test_leaders_are_those_of_the_topic() -> None:
    """The broker that goes down leads partition 0 alone, and its own requests go to it."""
    led_otherwise = replace(down().topics[0], leaders=(1, 0))
    result = simulate(down(topics=(led_otherwise,)))
    rows = {(row["time_ms"], row["partition"]): row for row in result.timeline.to_pylist()}
    assert rows[3100, 0]["lag"] == rows[6000, 0]["lag"] > 0
    assert rows[6000, 1]["lag"] < rows[3000, 1]["lag"]
    led_by_one = replace(led_otherwise, leaders=(1, 1))
    both = simulate(down(topics=(led_by_one,), faults=()), requests=True)
    assert {row["broker"] for row in both.requests.to_pylist()} == {1}


def test_a_new_leader_knows_what_was_written_before_the_broker_died() -> None:
    """Of the released record the count is known; of first deliveries under way it is not."""
    scenario = down(poison=(Poison("t", 1, 0, "release", 1),), duration_ms=6_050)
    result = simulate(scenario)
    history = history_arrow(decode_arrow(result.records(), STATE_TOPIC).records).to_pylist()
    mine = [row for row in history if row["partition"] == 1]
    assert [row["leader_epoch"] for row in mine][-1] == 1
    windows = dict(window_items(replay_arrow(decode_arrow(result.records(), STATE_TOPIC).records)))
    keys = enumerate(result._states.keys)
    assert all(windows[key] == result._states.window(place) for place, key in keys)
    early = simulate(replace(scenario, duration_ms=3_200))
    place = early._states.window(1)
    row = early.timeline.to_pylist()[-1]
    assert place is not None
    ended = [batch for batch in place.batches if batch.delivery_state in (2, 4)]
    terminal = sum(batch.last_offset - batch.first_offset + 1 for batch in ended)
    assert row["end_offset"] - row["lag"] == place.start_offset + terminal


def test_sessions_with_a_broker_end_with_it() -> None:
    """When it is back and leads again, its sessions begin anew; those with the other one go on."""
    faults = *down(10_000).faults, Fault(15_000, "leader_change", topic="t", partition=1)
    scenario = down(10_000, faults=faults, producers=(Producer("t", 50),))
    requested = simulate(scenario, requests=True).requests.to_pylist()
    mine = [row for row in requested if row["member"] == "member-0"]
    of = {
        broker: [(row["time_ms"], row["session_epoch"]) for row in mine if row["broker"] == broker]
        for broker in (0, 1)
    }
    assert [epoch for _, epoch in of[0]] == list(range(len(of[0])))
    in_vain = [epoch for time, epoch in of[1] if 3010 <= time < 6010]
    assert set(in_vain[1:]) == {0}
    again = [epoch for time, epoch in of[1] if time >= 15_000]
    assert again == list(range(len(again)))
    assert len(again) > 10


def test_who_fetches_from_all_brokers_waits_for_none_that_has_nothing() -> None:
    """With ``record_limit`` a member asks one after the other, and waits 500 ms at the second."""
    drains = {}
    for mode in ("batch_optimized", "record_limit"):
        member = Member(service=Service(1), max_poll_records=100, acquire_mode=mode)
        producer = Producer("t", 1000, "steady", weights=(1, 0), begin_ms=1000, end_ms=2000)
        scenario = Scenario((Topic("t", 2),), (member,), (producer,), brokers=2, duration_ms=20_000)
        drains[mode] = only(simulate(scenario).summary)["drain_ms"]
    assert drains["batch_optimized"] < 2100
    assert drains["record_limit"] > 5000


def of_three_brokers(**more: Any) -> Scenario:
    backlogs = {"a": 10, "b": 4, "c": 10}
    topics = tuple(Topic(name, 1, backlog=n, batch_records=2) for name, n in backlogs.items())
    member = Member(service=Service(400), max_poll_records=10)
    return Scenario(topics, (member,), brokers=3, duration_ms=30_000, **more)


def test_records_of_several_brokers_wait_for_polls_as_in_kafkas_client() -> None:
    """A poll has so many records of all that wait, and nothing is fetched before all are had."""
    result = simulate(of_three_brokers(), requests=True)
    rows = result.requests.to_pylist()
    made = [(round(row["time_ms"]), row["broker"], row["request"]) for row in rows]
    begin = made[0][0]
    polls = [(time - begin, broker, what) for time, broker, what in made if time - begin < 9700]
    all_three = [(broker, "fetch") for broker in range(3)]
    assert [(broker, what) for _, broker, what in polls] == [
        *all_three,
        (0, "acknowledge"),  # of a: the others wait
        (1, "acknowledge"),  # of b, and of six records of c
        (2, "acknowledge"),
        *all_three,  # with what is said of the other four
    ]
    assert [time // 400 for time, _, _ in polls] == [0, 0, 0, 10, 20, 20, 24, 24, 24]
    assert only(result.members)["polls"] == 3
    assert only(result.summary)["deliveries"] == 24


def test_locks_run_while_records_wait_for_a_poll() -> None:
    """Those of c are taken back before the member gets to them; one broker gives none such."""
    settings = Settings(Limits(lock_duration_ms=5000))
    several = of_three_brokers(settings=settings)
    found = {count: only(simulate(replace(several, brokers=count)).summary) for count in (1, 3)}
    assert found[1]["redeliveries"] == 0
    assert found[3]["redeliveries"] > 0
    assert {row["lag_end"] for row in found.values()} == {0}


def test_acknowledgements_for_a_broker_that_is_down_are_lost() -> None:
    topic, member = Topic("t", 1, backlog=10, batch_records=10), Member(service=Service(500))
    costs, fault = Costs(failover_ms=9000), Fault(2000, "broker_down", broker=0)
    scenario = Scenario(
        (topic,), (member,), costs=costs, faults=(fault,), brokers=2, duration_ms=30_000
    )
    result = simulate(scenario)
    row = only(result.deliveries)
    assert (row["deliveries"], row["refused"], row["acknowledged"]) == (20, 10, 10)
    assert row["redeliveries"] == 0  # the first delivery was never written
    assert only(result.summary)["drain_ms"] == pytest.approx(11_000 + 5000, abs=70)


def test_scenarios_say_what_is_wrong_with_their_faults() -> None:
    halved: Any = (0, 0.5)
    for wrong, words in (
        (lambda: down(brokers=1), "at least"),
        (lambda: down(faults=(Fault(1, "broker_down", broker=2),)), "broker 2 of 2"),
        (lambda: down(100), "smaller costs.failover_ms"),
        (lambda: down(faults=(Fault(1, "subscribe", "x"),)), "not a member"),
        (lambda: down(faults=(Fault(1, "subscribe", "member-0", topics=("u",)),)), "'u'"),
        (lambda: Behaviour(renew_ms=0), "renew_ms"),
        (lambda: Behaviour(renew_ms=1, acknowledgement="implicit"), "explicit"),
        (lambda: Topic("t", 1, compact_ms=0), "compact_ms of Topic 't' is 0"),
        (lambda: Topic("t", 2, leaders=(0,)), "2 partitions and 1 leaders"),
        (lambda: down(topics=(Topic("t", 2, leaders=halved),)), "leaders must be a whole number"),
        (lambda: down(topics=(Topic("t", 2, leaders=(0, 2)),)), "numbered from 0 to 1"),
        (
            lambda: simulate(down(faults=tuple(Fault(1, "broker_down", broker=n) for n in (0, 1)))),
            "more brokers",
        ),
    ):
        with pytest.raises(InputError, match=words):
            wrong()


# ---- compaction ----
def test_compaction_takes_what_a_later_record_of_the_key_replaces() -> None:
    """Ten records a second of five keys; a late member finds one of each key, and the newest."""
    topic, member = Topic("t", 1, compact_ms=10_000), Member(service=Service(1), join_ms=25_000)
    producer = Producer("t", 10, "steady", keys=5, end_ms=20_000)
    settings = Settings(auto_offset_reset="earliest", assignment_interval_ms=0)
    scenario = Scenario((topic,), (member,), (producer,), settings=settings, duration_ms=40_000)
    result = simulate(scenario)
    row = only(result.summary)
    assert (row["arrived"], row["lag_end"]) == (200, 0)
    # The latest record is not looked at, so that its key may have two.
    assert row["acknowledged"] in (5, 6)
    # Offsets between them are delivered, and are gaps.
    assert row["deliveries"] == row["completed"] < 50
    late = replace(scenario, topics=(Topic("t", 1),))
    assert only(simulate(late).summary)["deliveries"] == 200


def test_compaction_keeps_what_was_committed_and_not_what_was_aborted() -> None:
    producer = Producer("t", 10, "steady", keys=3, end_ms=10_000)
    aborting = replace(producer, transaction_batches=1, abort_share=1)
    topic, member = Topic("t", 1, compact_ms=30_000), Member(service=Service(1), join_ms=31_000)
    producers = (producer, replace(aborting, begin_ms=10_000, end_ms=20_000))
    settings = Settings(isolation_level="read_committed", auto_offset_reset="earliest")
    scenario = Scenario((topic,), (member,), producers, settings=settings, duration_ms=60_000)
    row = only(simulate(scenario).summary)
    assert (row["acknowledged"], row["lag_end"]) == (3, 0)


# ---- partitions ----
@pytest.mark.parametrize("reset", ["latest", "earliest"])
def test_a_group_begins_with_a_new_partition_when_it_hears_of_it(reset: Any) -> None:
    """It has two seconds of records by then: Kafka 4.4 delivers them, whatever the reset."""
    scenario = Scenario(
        (Topic("t", 2, added_ms=(10_500,)),),
        (Member(service=Service(1)),),
        (Producer("t", 20, "steady"),),
        settings=replace(EAGER, heartbeat_interval_ms=2500, auto_offset_reset=reset),
        costs=Costs(write_ms=0),
        duration_ms=60_000,
    )
    result = simulate(scenario)
    early, late = at(result, 10_000, 1), at(result, 60_000, 1)
    assert (early["end_offset"], early["members"]) == (0, 0)
    assert at(result, 10_000)["end_offset"] == 200  # all records went to the one that was there
    assert late["end_offset"] == 496
    of = {row["partition"]: row for row in result.deliveries.to_pylist()}
    assert late["end_offset"] - late["lag"] == of[1]["acknowledged"] > 490
    assert result.assignments.column("pairs").to_pylist() == [1, 1, 2]
    assert result.assignments.column("unserved").to_pylist() == [0, 0, 0]


def test_a_new_partition_changes_the_group_twice() -> None:
    """As a live group did: one epoch when it hears of the partition, one when it is assignable."""
    scenario = Scenario(
        (Topic("t", 3, added_ms=(5000, 5000)),), (Member(),), settings=EAGER, duration_ms=10_000
    )
    result = simulate(scenario)
    assert result.assignments.column("assignment_epoch").to_pylist() == [1, 2, 3]
    assert result.assignments.column("pairs").to_pylist() == [1, 1, 3]
    decoded = decode_arrow(result.records(), STATE_TOPIC)
    created = {row["partition"]: row["start_offset"] for row in decoded.records.to_pylist()}
    assert created == {0: 0, 1: 0, 2: 0}
    never = simulate(replace(scenario, duration_ms=4000))
    assert decode_arrow(never.records(), STATE_TOPIC).records.column("partition").to_pylist() == [0]
    for count, added in ((3, (5, 4)), (1, (5,))):
        with pytest.raises(
            InputError, match=f"one per added partition, and fewer than its {count}"
        ):
            Topic("t", count, added_ms=added)
