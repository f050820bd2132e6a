"""A simulation does what brokers, coordinators and clients do, and does it again."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Literal
from unittest.mock import Mock

import numpy as np
import pyarrow.compute as pc
import pytest

from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.model import Window
from sharelag.replay import replay_arrow
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


def test_scenarios_say_what_is_wrong_with_them() -> None:
    topic = Topic("t", 2)
    for wrong, words in (
        (lambda: Topic("t", 2, backlog=(1,)), "2 partitions and 1"),
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
    ):
        with pytest.raises(InputError, match=words):
            wrong()


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


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_endless_simulation_ends(is_loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = replace(named("uneven"), duration_ms=3_600_000)
    monkeypatch.setattr(support, "_is_loaded", is_loaded)
    monkeypatch.setattr(support, "LOADED_FROM", 1 << 60)
    cancelled = Mock(side_effect=[False] * 4 + [True])
    with pytest.raises(CancelledError), cancellable(cancelled, print):
        simulate(scenario)
    assert cancelled.call_count == 5
