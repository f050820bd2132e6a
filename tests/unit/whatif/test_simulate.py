"""A simulation does what brokers, clients and groups do, whatever happens to them, and again."""

import math
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any, Literal, cast
from unittest.mock import Mock

import numpy as np
import pyarrow.compute as pc
import pytest

from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.model import Window
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.replay.state import window_items
from sharelag.whatif import (
    Behaviour,
    Burst,
    Costs,
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
    named,
    simulate,
)
from sharelag.whatif.compiled import support
from sharelag.whatif.simulation.clock import CancelledError, cancellable
from sharelag.wire import STATE_TOPIC, decode_arrow
from tests.support.simulations import at, only

_USUAL = Behaviour(0.9, 0.05, 0.03, 0.02, crash=0.01, restart_ms=3000)
_MANY = Member("m", 3, service=Service(8, "lognormal"), max_poll_records=40, behaviour=_USUAL)
_WORK = Service(3, "exponential")
_LATE = Member("late", topics=("b",), service=_WORK, join_ms=9000, leave_ms=40_000)
_BURSTS = Producer("b", 10, batch_records=4, bursts=(Burst(10_000, 20_000, 5),))
_FAULTS = (Fault(6000, "hang", "m-1", 35_000), Fault(12_000, "leader_change", topic="a"))
#: Much of what can happen, at once; but no record vanishes.
MIXED = Scenario(
    (Topic("a", 3, backlog=(300, 20, 0), batch_records=7), Topic("b", 2)),
    (_MANY, _LATE),
    (Producer("a", 20, keys=50, key_skew=1.1), _BURSTS),
    poison=(Poison("a", 0, 33), Poison("a", 1, 4, "crash", 1)),
    faults=(*_FAULTS, Fault(30_000, "mute", "m-0", 50_000)),
    brokers=2,
    duration_ms=120_000,
)
EAGER = Settings(heartbeat_interval_ms=100, assignment_interval_ms=0)


# ---- the same again ----
@pytest.mark.parametrize(
    "service",
    [
        Service(4, "exponential"),
        Service(4, "lognormal", slow_share=0.1),
        Service(4, "measured", samples_ms=(1.0, 3.0, 8.0)),
    ],
)
def test_a_longer_run_begins_with_the_same_luck(service: Service) -> None:
    """Its logs are longer, and what members do with the first records stays."""
    member = Member("m", 3, service=service, behaviour=Behaviour(0.8, 0.15, 0.05))
    producer = Producer("t", 300, pattern="steady")
    short = Scenario((Topic("t", 2),), (member,), (producer,), duration_ms=5000)
    ran, longer = simulate(short).timeline, simulate(replace(short, duration_ms=9000)).timeline
    assert longer.slice(0, ran.num_rows).equals(ran)


def test_assignors_meet_the_same_luck() -> None:
    """Arrivals, and the work in each record, do not depend on who is asked to do it."""
    names = ("simple", "all-to-all", "round-robin")
    runs = [simulate(replace(MIXED, assignor=name), 1).timeline for name in names]
    ends, starts = (
        {str(run.column(f"{end}_offset").to_pylist()) for run in runs} for end in ("end", "start")
    )
    assert (len(ends), len(starts)) == (1, 3)
    member = Member(service=Service(5, "lognormal"))
    alone = Scenario((Topic("t", 1, backlog=1000),), (member,), duration_ms=60_000)
    whole = simulate(alone).members.column("busy_ms")[0].as_py()
    shared = simulate(replace(alone.with_members(3), assignor="all-to-all"))
    assert sum(shared.members.column("busy_ms").to_pylist()) == pytest.approx(whole)


# ---- what is written ----
@pytest.mark.parametrize("seed", range(4))
def test_every_record_is_counted_once(seed: int) -> None:
    """The lag is what came less what was finished; deliveries end in one of five ways."""
    result = simulate(MIXED, seed)
    row = only(result.summary)
    last = result.timeline.slice(result.timeline.num_rows - 5)
    written = replay_arrow(decode_arrow(result.records(), STATE_TOPIC).records)
    order = [("topic", "ascending"), ("partition", "ascending")]
    replayed = lag_arrow(written, result.offsets()).sort_by(order)
    assert replayed.column("lag").to_pylist() == last.column("lag").to_pylist()
    assert row["lag_end"] == 320 + row["arrived"] - row["completed"]
    assert row["completed"] == row["acknowledged"] + row["archived"]
    ways = result.deliveries.to_pylist()
    held = last.column("in_flight").to_pylist()
    said = sum(way[name] for way in ways for name in ("acknowledged", "released", "rejected"))
    # What members had of the partition whose leader changed.
    assert 0 <= row["deliveries"] - row["expired"] - sum(held) - said <= 3 * 40
    assert all(way["redeliveries"] <= way["deliveries"] for way in ways)
    timeline = result.timeline
    left = pc.subtract(timeline["end_offset"], timeline["start_offset"])
    left = pc.subtract(left, timeline["delivery_complete_count"])
    assert timeline.column("lag").equals(left)
    assert pc.min(timeline.column("lag")).as_py() >= 0


@pytest.mark.row("FET-06")
def test_durable_writes_go_by_record_batches() -> None:
    """A hundred records need a write each, or one together, as their producer sent them."""
    writes = {}
    for size in (1, 100):
        topic = Topic("t", 1, backlog=100, batch_records=size)
        member = Member(service=Service(1), max_poll_records=size)
        alone = Scenario((topic,), (member,), duration_ms=10_000)
        result = simulate(alone)
        assert only(result.summary)["lag_end"] == 0
        writes[size] = result.records().num_rows - 1  # the first is the state at the begin
    assert writes == {1: 100, 100: 1}


# ---- what is in flight ----
def test_the_state_of_every_offset_in_flight_is_known_at_any_moment() -> None:
    result = simulate(named("crash-redelivery"))
    rows = [tuple(row.values()) for row in result.in_flight(5000).to_pylist()]
    assert rows == [
        ("orders", 0, 100, 109, "acquired", 1, "c1", 30_000),
        ("orders", 0, 110, 119, "acknowledged", 1, None, None),
    ]
    assert result.in_flight(0).num_rows == result.in_flight().num_rows == 0
    states = simulate(named("in-flight")).in_flight().column("delivery_state").to_pylist()
    assert states == [*["available"] * 3, "acknowledged", "archived", "available"]
    mixed = simulate(MIXED, 3)
    held = [row for row in mixed.in_flight().to_pylist() if row["delivery_state"] == "acquired"]
    last = mixed.timeline.slice(mixed.timeline.num_rows - 5).column("in_flight").to_pylist()
    assert sum(row["last_offset"] - row["first_offset"] + 1 for row in held) == sum(last) > 0
    for moment in (-1, 40_001):
        with pytest.raises(InputError, match=rf"{moment} ms is not within .*: give 0 to 40000"):
            result.in_flight(moment)


# ---- fetches ----
@pytest.mark.row("FET-04")
def test_fetches_take_turns_with_partitions() -> None:
    topic = Topic("t", 3, backlog=40, batch_records=10)
    member = Member(service=Service(10), max_poll_records=10)
    scenario = Scenario((topic,), (member,), duration_ms=1100, step_ms=10)
    result = simulate(scenario)
    seen = [[at(result, time, p)["start_offset"] for p in range(3)] for time in range(0, 1100, 10)]
    steps = [zip(*pair, strict=True) for pair in pairwise(seen)]
    order = [place for step in steps for place, (was, now) in enumerate(step) if now > was]
    # The fetch that opens the session does not rotate, and the second moves on by one.
    assert order[:6] == [0, 1, 2, 0, 1, 2]


def test_a_waiting_fetch_wakes_up_for_a_record() -> None:
    member = Member(service=Service(1))
    quiet = Scenario((Topic("t", 1),), (member,), (Producer("t", 1, "steady"),), duration_ms=30_000)
    row = only(simulate(quiet).summary)
    # Half a millisecond there and back, a fetch, the work and the write: not the 500 ms that a
    # fetch may wait.
    assert row["latency_p95_ms"] < 8
    assert row["completed"] >= 29


def test_a_full_window_lets_nobody_fetch() -> None:
    """One record that is held makes new ones wait, although all others are finished."""
    topic, poison = Topic("t", 1, backlog=3000, batch_records=10), Poison("t", 0, 5, "silent", 1)
    member = Member(count=2, service=Service(1), max_poll_records=50)
    settings = Settings(Limits(max_record_locks=200), assignment_interval_ms=0)
    stuck = Scenario((topic,), (member,), settings=settings, poison=(poison,), duration_ms=60_000)
    result = simulate(stuck)
    full = at(result, 20_000)
    assert (full["start_offset"], full["window_end_offset"]) == (5, 210)
    assert full["delivery_complete_count"] == 204
    assert full["in_flight"] == 1
    assert at(result, 25_000)["lag"] == full["lag"] == 2791
    assert at(result, 60_000)["lag"] == 0  # the lock ran out after 30 s
    assert only(result.summary)["expired"] == 1


def test_an_acknowledgement_makes_room_for_a_waiting_fetch_at_once() -> None:
    topic, costs = Topic("t", 1, backlog=1000, batch_records=10), Costs(0.5, 1, 3)
    member = Member(service=Service(1), max_poll_records=10)
    settings = Settings(Limits(max_record_locks=10))
    scenario = Scenario((topic,), (member,), settings=settings, costs=costs, duration_ms=60_000)
    # 100 polls: 10 ms of work, 3 ms until the write, 1 ms for the fetch, 1 ms for the way.
    assert only(simulate(scenario).summary)["drain_ms"] == pytest.approx(1500, abs=20)


def test_one_fetch_at_a_time_has_a_share_partition() -> None:
    """Two members that ask at once get different records, the second after the first."""
    scenario = Scenario(
        (Topic("t", 1, backlog=20, batch_records=10),),
        (Member(count=2, service=Service(50), max_poll_records=10),),
        settings=Settings(assignment_interval_ms=0),
        costs=Costs(fetch_ms=5),
        assignor="all-to-all",
        duration_ms=5000,
        step_ms=1,
    )
    held = simulate(scenario).timeline.column("in_flight").to_pylist()
    first, second = held.index(10), held.index(20)
    assert second - first == 5


@pytest.mark.slow
def test_a_queue_with_one_server_is_as_theory_has_it() -> None:
    """M/M/1: the time in the system is exponential, service rate less arrival rate."""
    member = Member(service=Service(5, "exponential"), max_poll_records=1)
    producer, costs = Producer("t", 100), Costs(network_ms=0.001, fetch_ms=0, write_ms=0)
    scenario = Scenario((Topic("t", 1),), (member,), (producer,), costs=costs, duration_ms=600_000)
    row = only(simulate(scenario, 3).summary)
    assert row["latency_p50_ms"] == pytest.approx(1000 * math.log(2) / (200 - 100), rel=0.05)
    assert row["latency_p95_ms"] == pytest.approx(1000 * math.log(20) / (200 - 100), rel=0.05)
    assert row["busy_share"] == pytest.approx(0.5, rel=0.03)


def test_the_percentiles_of_latency_count_records() -> None:
    """Two batches of 10 and 90 records: the median is that of the larger one."""
    window = Window(0, 0, 0, 0, 0, 0, 0)
    starts = tuple(PartitionStart(count, 0, window, count) for count in (10, 90))
    member = Member(service=Service(10), max_poll_records=10)
    scenario = Scenario((Topic("t", 2, starts=starts),), (member,), duration_ms=5000)
    row = only(simulate(scenario).summary)
    assert row["latency_p50_ms"] > 900
    assert np.isclose(row["latency_p50_ms"], row["latency_p95_ms"])


@pytest.mark.parametrize(("kind", "values"), [("exponential", 1_000), ("fixed", 1)])
def test_latency_is_of_all_records(kind: Literal["exponential", "fixed"], values: int) -> None:
    """By what was finished when: record batches of 3 records are appended every 15 ms."""
    member = Member(service=Service(4, kind), max_poll_records=20)
    producer = Producer("t", 200, "steady", batch_records=3)
    scenario = Scenario((Topic("t", 1),), (member,), (producer,), duration_ms=20_000)
    result = simulate(scenario, 3)
    waited = [
        row["time_ms"] - (offset // 3 + 1) * 15
        for row in result.finished().to_pylist()
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    ]
    row = only(result.summary)
    expected = np.quantile(waited, [0.5, 0.95], method="inverted_cdf")
    assert len(waited) > 3_500
    assert len(set(waited)) > values
    assert np.allclose([row["latency_p50_ms"], row["latency_p95_ms"]], expected, atol=1e-6)


@pytest.mark.parametrize(
    "assignor", ["simple", "sticky", "rack-aware", "round-robin", "balanced", "lag-proportional"]
)
def test_a_settled_group_is_at_work_at_once_and_nothing_moves(assignor: str) -> None:
    members = tuple(
        Member(f"m{number}", service=Service(10), assigned=(("orders", (number + 4) % 8),))
        for number in range(8)
    )
    topic = Topic("orders", 8, backlog=200)
    strangers = Scenario((topic,), members, assignor=assignor, duration_ms=30_000)
    settled = simulate(replace(strangers, settled=True))
    if assignor in ("simple", "sticky", "balanced"):  # they leave everybody what they have
        (assigned,) = settled.assignments.to_pylist()
        assert assigned | {"time_ms": 0, "members": 8, "added": 0, "revoked": 0} == assigned
    assert settled.assignments.num_rows == 1
    for busy in settled.members.column("busy_ms").to_pylist():
        assert busy == pytest.approx(2000, abs=1)
    # Strangers: the first one gets everything, and the others wait for their second heartbeat.
    cold, warm = only(simulate(strangers).summary), only(settled.summary)
    assert (cold["moves"] > 0, warm["idle_members"]) == (True, 0)
    assert cold["drain_ms"] > 2 * warm["drain_ms"]


def test_a_settled_group_keeps_who_has_more() -> None:
    """Kafka assigns when something changes; then the order of ids decides who gets more."""
    topics = Topic("t", 4), Topic("u", 2)

    def moves(*numbers: tuple[int, ...], others: tuple[int, ...] = ()) -> set[int]:
        had = [tuple(("t", one) for one in mine) for mine in numbers]
        members = [Member(name, assigned=one) for name, one in zip("abc", had, strict=True)]
        scenario = Scenario(topics[:1], tuple(members), settled=True, duration_ms=2000)
        if others:
            both = replace(members[0], assigned=had[0] + tuple(("u", one) for one in others))
            alone = tuple(replace(one, topics=("t",)) for one in members[1:])
            scenario = replace(scenario, topics=topics, members=(both, *alone))
        runs = [simulate(scenario, seed) for seed in range(3)]
        assert {run.members.column("member_id").to_pylist()[0] for run in runs} == {"a"}
        return {row["revoked"] for run in runs for row in run.assignments.to_pylist()}

    for numbers in permutations([(0,), (1, 2), (3,)]):
        assert moves(*numbers) == moves(*numbers, others=(0, 1)) == {0}
    assert moves((0, 1, 2, 3), (), ()) == {2}
    assert moves((0, 1, 2), (3,), ()) == {1}


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_endless_simulation_ends(is_loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = replace(named("uneven"), duration_ms=3_600_000)
    monkeypatch.setattr(support, "_is_loaded", is_loaded)
    monkeypatch.setattr(support, "LOADED_FROM", 1 << 60)
    cancelled = Mock(side_effect=[False] * 4 + [True])
    with pytest.raises(CancelledError), cancellable(cancelled, print):
        simulate(scenario)
    assert cancelled.call_count == 5


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
        (Topic("t", 2, backlog=400, batch_records=10, coordinators=(0, 0)),),
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


def test_while_a_broker_is_down_what_it_keeps_waits() -> None:
    """It leads partition 1 alone; others lead 0, of whose state it may have a copy."""
    topic, (few,) = down().topics[0], down().members
    late = replace(few, name="late", count=1, join_ms=3100)

    def outage(coordinators: tuple[int, ...], **more: Any) -> tuple[int, int, Any]:
        members = few, late
        topics = (replace(topic, coordinators=coordinators),)
        result = simulate(down(topics=topics, members=members, **more))
        rows = {(row["time_ms"], row["partition"]): row for row in result.timeline.to_pylist()}
        *_, last = result.members.to_pylist()
        assert result.assignments.num_rows == 3  # each member joins once
        assert only(result.summary)["lag_end"] == 0
        before, during, after = (rows[time, 0]["lag"] for time in (4000, 6000, 8900))
        return before - during, during - after, last["unassigned_ms"]

    elsewhere = {"brokers": 5, "coordinator": 0}
    finished, _, unassigned = outage((2, 2), **elsewhere)
    assert (finished > 40, unassigned < 10) == (True, True)
    finished, later, _ = outage((4, 2), **elsewhere)
    assert (finished == 0, later > 40) == (True, True)
    # Leaders find the next coordinator at their second retry, after six seconds.
    assert outage((1, 2), **elsewhere)[:2] == (0, 0)
    assert outage((), coordinator=0)[0] == 0  # two brokers have copies of everything
    # A new coordinator of the group begins sessions anew.
    sessions = Settings(
        assignment_interval_ms=0, session_timeout_ms=2000, heartbeat_interval_ms=500
    )
    assert 2900 < outage((2, 2), brokers=5, coordinator=1, settings=sessions)[2] < 3500
    # Copies stay where they are when another of them becomes the coordinator.
    first = Fault(100, "broker_down", broker=4, for_ms=2500)
    more = {"brokers": 5, "coordinator": 3, "costs": Costs(failover_ms=2500)}
    for broker, is_held in ((2, False), (4, True)):
        faults = first, Fault(3900, "broker_down", broker=broker)
        assert (outage((4, 4), faults=faults, **more)[0] <= 20) == is_held
    by_placement = down(topics=(replace(topic, coordinators=()),), brokers=5)
    assert (by_placement.coordinators, by_placement.group_coordinator) == ((1, 0), 3)


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


@pytest.mark.parametrize("batches", [0, 10])
def test_slow_writes_of_one_broker_lose_no_acknowledgement_to_another(batches: int) -> None:
    """A poll waits for the write of one broker while others answer, also with markers only."""
    producer = Producer("t", 200, "steady", transaction_batches=batches, transaction_ms=30)
    topic, member, costs = Topic("t", 4), Member(service=Service(1)), Costs(write_ms=20)
    result = simulate(
        Scenario((topic,), (member,), (producer,), brokers=3, costs=costs, duration_ms=40_000)
    )
    row = only(result.summary)
    assert (row["redeliveries"], row["expired"]) == (0, 0)
    assert row["lag_end"] < 20
    assert 0 <= row["deliveries"] - row["acknowledged"] < 20


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


def test_scenarios_say_what_is_wrong_with_them() -> None:
    topic, halved = Topic("t", 2), cast(Any, (0, 0.5))
    for wrong, words in (
        (lambda: Topic("t", 2, backlog=(1,)), "2 partitions and 1"),
        (lambda: PartitionStart(5, open_from=7), "open from offset 7 on, in a log of .* 0 to 5"),
        (lambda: Scenario((topic,), (Member("a"), Member("a"))), "two members"),
        (lambda: Scenario((topic,), (), faults=(Fault(1, "crash", "x"),)), "not a member"),
        (lambda: Scenario((topic,), (), poison=(Poison("t", 2, 0),)), "partition 2"),
        (lambda: Scenario((topic,), (), (Producer("u", 1),)), "'u'"),
        (lambda: Scenario((topic,), (), (Producer("t", 1, weights=(1,)),)), "weights"),
        (lambda: Scenario((), ()), "needs topics"),
        (lambda: Scenario((topic,), (), duration_ms=0), "duration_ms of .* at least 1"),
        (lambda: Service(kind="measured"), "samples"),
        (lambda: Service(-1), "mean_ms of Service is -1: give at least 0"),
        (lambda: Behaviour(accept=0.5, release=0.5, acknowledgement="implicit"), "implicit"),
        (lambda: down(brokers=1), "at least"),
        (lambda: down(faults=(Fault(1, "broker_down", broker=2),)), "broker 2 of 2"),
        (lambda: down(100), "smaller costs.failover_ms"),
        (lambda: down(faults=(Fault(1, "subscribe", "x"),)), "not a member"),
        (lambda: down(faults=(Fault(1, "subscribe", "member-0", topics=("u",)),)), "'u'"),
        (lambda: Behaviour(renew_ms=0), "renew_ms"),
        (lambda: Behaviour(renew_ms=1, acknowledgement="implicit"), "explicit"),
        (lambda: Topic("t", 1, compact_ms=0), "compact_ms of Topic 't' is 0"),
        (lambda: Topic("t", 2, leaders=(0,)), "2 partitions and 1 leaders"),
        (lambda: Topic("t", 1, coordinators=(0, 1)), "1 partitions and 2 coordinators"),
        (lambda: down(coordinator=2), "the group has coordinator 2"),
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
    # Offsets between them come along, and are gaps.
    assert row["deliveries"] == row["acknowledged"] < row["completed"] < 50
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
