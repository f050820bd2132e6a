"""A simulated cluster: topics, members, and promises that it keeps whatever happens."""

import math
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any, Literal

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch, Window
from sharelag.replay import drop_superseded, replay_arrow
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
    SimulationResult,
    Topic,
    consumer_group_twin,
    named,
    simulate,
)
from sharelag.whatif.scenario import BEGINS_MS
from sharelag.whatif.simulation.loop import SimulationTables
from sharelag.wire import STATE_TOPIC, decode_arrow
from tests.support.own_process import run_by_any_hashes, run_code
from tests.support.readings import open_once
from tests.support.share_partition import Acquired
from tests.support.simulation_ledger import TERMINAL, Ledger, audited
from tests.support.simulation_scenarios import random_scenario
from tests.support.simulations import TABLES, at, only

seeds = st.integers(0, 10**9)


# ---- logs ----
@pytest.mark.row("WIN-11", "WIN-12")
@pytest.mark.parametrize("acknowledged", [0, 10])
def test_retention_moves_the_start_and_loses_what_was_not_delivered(acknowledged: int) -> None:
    batches = (StateBatch(40, 49, 0, 1), StateBatch(50, 59, 2, 1)) if acknowledged else ()
    window = Window(0, 0, 0, 40, acknowledged, BEGINS_MS, BEGINS_MS, batches)
    log = PartitionStart(200, 0, window, oldest_age_ms=160_000)  # a record a second
    topic = Topic("t", 1, starts=(log,), retention_ms=100_500, segment_records=100)
    member = Member(service=Service(1), max_poll_records=1, join_ms=10)
    scenario = Scenario((topic,), (member,), duration_ms=50, step_ms=1)
    result = simulate(scenario)
    assert at(result, 10)["start_offset"] == 40
    assert at(result, 50)["start_offset"] >= 100
    row = only(result.summary)
    assert row["lost"] == 60 - acknowledged
    assert row["lag_end"] == 100 - row["completed"]


def test_deleted_records_are_lost_and_leave_the_lag() -> None:
    topic, member = Topic("t", 1, backlog=100), Member(service=Service(1), join_ms=2000)
    fault = Fault(1000, "delete_records", topic="t", offset=70)
    scenario = Scenario((topic,), (member,), faults=(fault,), duration_ms=10_000)
    row = only(simulate(scenario).summary)
    assert (row["lost"], row["completed"], row["lag_end"]) == (70, 30, 0)


@pytest.mark.row("WIN-05", "PSC-16")
@pytest.mark.parametrize(("reset", "start"), [("latest", 100), ("earliest", 0)])
def test_a_new_group_begins_where_its_settings_say(reset: Any, start: int) -> None:
    topic = Topic("t", 1, starts=(PartitionStart(100),))
    scenario = Scenario((topic,), (), settings=Settings(auto_offset_reset=reset), duration_ms=1)
    assert at(simulate(scenario), 0)["start_offset"] == start
    # Until the leader has decided that, no record says it, and lag is not known.
    rows = open_once("not_started").lag().table.to_pylist()
    assert {(row["start_offset"], row["lag"]) for row in rows} == {(None, None)}


def test_producers_produce_what_the_scenario_says() -> None:
    def ends(producer: Producer, seconds: int, partitions: int = 1) -> list[int]:
        topic = Topic("t", partitions)
        made = simulate(Scenario((topic,), (), (producer,), duration_ms=seconds * 1000), 4)
        last: list[int] = made.timeline.column("end_offset").to_pylist()[-partitions:]
        return last

    assert ends(Producer("t", 0.5, "steady"), 20) == [10]
    assert ends(Producer("t", 0.5, "steady"), 19) == [9]
    assert ends(Producer("t", 1000, batch_records=10), 100)[0] == pytest.approx(100_000, rel=0.03)
    assert ends(Producer("t", 10, "steady", bursts=(Burst(2000, 4000, 10),)), 10) == [280]
    day = (0.0, *(1.0,) * 23)  # simulations begin at midnight
    assert ends(Producer("t", 0.01, "steady", day=day), 2 * 3600) == [36]
    assert ends(Producer("t", 100, "steady"), 10, 4) == [250] * 4
    weighted = ends(Producer("t", 100, weights=(3, 1)), 100, 2)
    assert weighted[0] / sum(weighted) == pytest.approx(0.75, abs=0.02)
    skewed = ends(Producer("t", 100, keys=100, key_skew=1.5), 100, 4)
    assert max(skewed) > 2 * min(skewed)
    late = Scenario((Topic("t", 2),), (), (Producer("t", 10, "steady"),), duration_ms=10_950)
    result, twin = simulate(late), consumer_group_twin(late)  # some arrive after the last step
    assert only(result.summary)["arrived"] == only(twin.summary)["arrived"] == 109
    assert sum(result.offsets().column("end_offset").to_pylist()) == 109
    with pytest.raises(InputError, match="24"):
        Producer("t", 1, day=(1.0,))


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_transactions_take_offsets_and_time(level: Any) -> None:
    """Every second record aborted: readers of committed records get the rest, after the marker."""
    producer = Producer("t", 20, "steady", transaction_batches=2, transaction_ms=400)
    scenario = Scenario(
        (Topic("t", 1),),
        (Member(service=Service(0)),),
        (replace(producer, abort_share=0.5, end_ms=20_000),),
        settings=Settings(isolation_level=level),
        duration_ms=30_000,
        step_ms=50,
    )
    result = simulate(scenario)
    row = only(result.summary)
    assert (row["arrived"], row["lag_end"]) == (600, 0)  # with 200 markers
    if level == "read_uncommitted":
        assert (row["acknowledged"], row["archived"]) == (400, 200)
        assert (row["deliveries"], only(result.deliveries)["rejected"]) == (400, 0)
        assert row["latency_p50_ms"] < 50
    else:
        assert 140 < row["acknowledged"] < 260
        assert row["acknowledged"] % 2 == 0
        assert row["latency_p50_ms"] > 400
    early = next(line for line in result.timeline.to_pylist() if line["end_offset"] >= 4)
    assert (early["window_end_offset"] > 0) == (level == "read_uncommitted")


def test_a_poll_that_got_only_a_marker_waits_to_its_end() -> None:
    """As Kafka's client does: see `tests/kafka/test_fidelity_live.py`."""
    producer = Producer("t", 10, "steady", transaction_batches=1, transaction_ms=30)

    def latency_p95(timeout_ms: int, batches: int = 1) -> float:
        member = Member(service=Service(1), poll_timeout_ms=timeout_ms)
        arriving = replace(producer, transaction_batches=batches)
        run = simulate(Scenario((Topic("t", 1),), (member,), (arriving,), duration_ms=60_000))
        return float(only(run.summary)["latency_p95_ms"])

    assert latency_p95(10) == latency_p95(1) == latency_p95(9000, batches=0) < 10
    assert 1800 < latency_p95(2000) < 2000
    with pytest.raises(InputError, match="poll_timeout_ms"):
        Member(poll_timeout_ms=0)


def test_services_have_the_mean_of_the_scenario() -> None:
    def busy(service: Service) -> float:
        topic = Topic("t", 1, backlog=20_000, batch_records=100)
        alone = Scenario((topic,), (Member(service=service),))
        return float(simulate(alone).members.column("busy_ms")[0].as_py()) / 20_000

    assert busy(Service(3)) == 3
    assert busy(Service(3, poll_ms=50)) == pytest.approx(3 + 50 / 500)
    assert busy(Service(3, "exponential")) == pytest.approx(3, rel=0.03)
    assert busy(Service(3, "lognormal", sigma=0.5)) == pytest.approx(3, rel=0.03)
    assert busy(Service(kind="measured", samples_ms=(1, 2, 6))) == pytest.approx(3, rel=0.03)
    assert busy(Service(3, slow_share=0.1, slow_factor=11)) == pytest.approx(6, rel=0.1)
    assert busy(Service(3, by_partition=((("t", 0), 2.0),))) == 6


def test_sessions_count_their_requests() -> None:
    topic = Topic("t", 2, backlog=100, batch_records=10)
    member = Member(max_poll_records=10, leave_ms=1000)
    scenario = Scenario((topic,), (member,), brokers=2, duration_ms=3000)
    made = simulate(scenario, requests=True).requests.to_pylist()
    for broker in (0, 1):
        epochs = [one["session_epoch"] for one in made if one["broker"] == broker]
        assert epochs[-1] == -1
        assert epochs[:-1] == list(range(len(epochs) - 1))
        assert len(epochs) > 5
    assert simulate(scenario).requests.num_rows == 0


# ---- long backlogs ----
def _tables(one: SimulationTables) -> list[Any]:
    kinds = ("timeline", "deliveries", "members", "summary")
    return [getattr(one, kind).to_pylist() for kind in kinds] + [one.finished().to_pylist()]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"producers": (Producer("t", rate=200, batch_records=7),)},
        {"faults": (Fault(50_000, "delete_records", topic="t", offset=250_000),)},
        {"poison": (Poison("t", 0, 65_530), Poison("t", 1, 65_541, how="reject"))},
    ],
    ids=["alone", "while records come", "deleted in part", "poison"],
)
@pytest.mark.parametrize("count", [2, 60])
def test_progress_in_a_backlog_makes_no_difference(count: int, more: dict[str, Any]) -> None:
    """A topic that is compacted, in years, has all of its records from the begin."""
    topic = Topic("t", 2, backlog=(300_000, 70_000), batch_records=3)
    member = Member(count=count, service=Service(2, "exponential"))
    scenario = Scenario((topic,), (member,), duration_ms=60_000, **more)
    whole = replace(scenario, topics=(replace(topic, compact_ms=10**12),))
    result, wanted = simulate(scenario, 3), simulate(whole, 3)
    assert _tables(result) == _tables(wanted)
    assert result.records() == wanted.records()
    assert result.in_flight(55_000).equals(wanted.in_flight(55_000))
    assert result.offsets().equals(wanted.offsets())
    assert only(result.summary)["completed"] > (130_000 if count == 60 else 5_000)
    as_consumers, wanted_ones = consumer_group_twin(scenario, 3), consumer_group_twin(whole, 3)
    assert _tables(as_consumers) == _tables(wanted_ones)


def test_how_far_members_got_is_not_forgotten_when_a_window_is_loaded_again() -> None:
    """They hold all from the deleted ones on when the leader goes: the next one has none of it."""
    topic, settings = Topic("t", 1, backlog=300_000), Limits(10_000, lock_duration_ms=300_000)
    deleted = Fault(1_000, "delete_records", topic="t", offset=58_000)
    scenario = Scenario(
        (topic,),
        (Member(count=20, service=Service(500)),),
        brokers=2,
        settings=Settings(limits=settings),
        faults=(deleted, Fault(15_000, "broker_down", broker=0)),
        duration_ms=20_000,
    )
    whole = replace(scenario, topics=(replace(topic, compact_ms=10**12),))
    assert _tables(simulate(scenario)) == _tables(simulate(whole))


def test_a_backlog_that_nobody_gets_through_costs_no_memory() -> None:
    """A table of a number for each of these records would take a petabyte."""
    member = Member(count=3, service=Service(5))
    few, many = (
        simulate(Scenario((Topic("t", 1, backlog=count),), (member,), duration_ms=10_000))
        for count in (50_000, 10**14)
    )
    assert many.finished().equals(few.finished())
    left = [only(one.summary)["lag_end"] for one in (few, many)]
    assert left[1] - left[0] == 10**14 - 50_000
    assert left[0] < 50_000


def test_thousands_of_share_partitions_take_the_memory_that_they_use() -> None:
    """A window has room for what may be in flight, of which a quiet share partition has little."""
    code = """
from resource import RUSAGE_SELF, getrusage
from sharelag.whatif import Member, Scenario, Topic, simulate
for count in (1, 3000):
    simulate(Scenario((Topic("t", count),), (Member(),), duration_ms=1000))
    print(getrusage(RUSAGE_SELF).ru_maxrss >> 10)
"""
    few, many = map(int, run_code(code).split())
    assert many - few < 200


# ---- members and what happens to them ----
@pytest.mark.row("ACK-01")
def test_members_do_four_things_with_records() -> None:
    behaviour = Behaviour(accept=0.9, release=0.05, reject=0.03, silent=0.02)
    topic = Topic("t", 2, backlog=10_000, batch_records=10)
    member = Member(service=Service(0.1), behaviour=behaviour)
    settings = Settings(Limits(delivery_count_limit=10))
    scenario = Scenario((topic,), (member,), settings=settings, duration_ms=600_000)
    result = simulate(scenario)
    row = only(result.summary)
    ways = {
        name: sum(result.deliveries.column(name).to_pylist())
        for name in ("acknowledged", "released", "rejected")
    }
    ways["silent"] = row["expired"]
    assert row["lag_end"] == 0
    assert sum(ways.values()) == row["deliveries"]
    for name, share in zip(ways, (0.9, 0.05, 0.03, 0.02), strict=True):
        spread = 4 * math.sqrt(share * (1 - share) / row["deliveries"])
        assert ways[name] / row["deliveries"] == pytest.approx(share, abs=spread)
    assert row["archived"] == ways["rejected"]
    with pytest.raises(InputError, match="sum up to 1"):
        Behaviour(accept=0.9, release=0.2)


@pytest.mark.parametrize("commit", ["poll", "error", "record"])
@pytest.mark.parametrize(("hold_ms", "late"), [(18_000, 1), (9_000, 0)])
def test_a_member_holds_a_record_past_its_lock_then_goes_on(
    commit: Literal["poll", "error", "record"], hold_ms: int, late: int
) -> None:
    """It acknowledges the rest of its poll first, and what it holds too late, or in time."""
    held = Poison("t", 0, 5, "hold", 1, hold_ms=hold_ms)
    topic, settings = Topic("t", 1, backlog=40), Settings(Limits(lock_duration_ms=15_000))
    member = Member(max_poll_records=10, service=Service(1), behaviour=Behaviour(commit=commit))
    scenario = Scenario((topic,), (member,), settings=settings, poison=(held,), duration_ms=60_000)
    result = simulate(scenario)
    (row,) = result.deliveries.to_pylist()
    assert (row["acknowledged"], row["refused"], row["redeliveries"]) == (40, late, late)
    assert only(result.summary)["expired"] == late
    rest = [one for one in result.finished().to_pylist() if one["last_offset"] < 10]
    alone = max(rest, key=lambda one: one["time_ms"])
    assert (alone["first_offset"], alone["last_offset"]) == (5, 5)
    assert all(one["time_ms"] < 100 for one in rest if one is not alone)
    assert alone["time_ms"] > hold_ms
    assert only(result.summary)["drain_ms"] == pytest.approx(hold_ms, abs=1_000)
    with pytest.raises(InputError, match="give hold_ms"):
        replace(held, hold_ms=None)
    with pytest.raises(InputError, match="give hold_ms"):
        replace(held, how="release")


def test_a_member_renews_what_it_holds_and_holds_one_record_after_the_other() -> None:
    poison = tuple(Poison("t", 0, offset, "hold", 1, hold_ms=3000) for offset in (2, 7))
    topic, member = Topic("t", 1, backlog=10), Member(behaviour=Behaviour(renew_ms=1000))
    settings = Settings(Limits(lock_duration_ms=2000))
    scenario = Scenario((topic,), (member,), settings=settings, poison=poison, duration_ms=30_000)
    result = simulate(scenario)
    assert only(result.summary)["expired"] == 0
    finished = [(one["time_ms"], one["first_offset"]) for one in result.finished().to_pylist()]
    late = [(first, round(time, -3)) for time, first in finished if time > 1000]
    assert late == [(2, 3000), (7, 6000)]


def test_a_crash_gives_records_back_at_once() -> None:
    scenario = Scenario(
        (Topic("t", 1, backlog=10, batch_records=10),),
        (Member("a", service=Service(1000)), Member("b", service=Service(1), join_ms=1000)),
        settings=Settings(assignment_interval_ms=0),
        faults=(Fault(3000, "crash", "a"),),
        assignor="all-to-all",
        duration_ms=60_000,
    )
    result = simulate(scenario)
    assert only(result.summary)["drain_ms"] == pytest.approx(3015, abs=10)
    a = result.members.to_pylist()[0]
    assert (a["ended"], a["left_ms"], a["busy_ms"]) == ("crashed", 3000, pytest.approx(3000, abs=5))
    hung = simulate(replace(scenario, faults=(Fault(3000, "hang", "a"),)))
    assert only(hung.summary)["drain_ms"] == pytest.approx(30_015, abs=10)


def test_a_member_that_worked_in_one_of_its_lives_is_not_idle() -> None:
    member = Member("a", service=Service(10), behaviour=Behaviour(restart_ms=2000))
    crash = (Fault(5000, "crash", "a"),)
    scenario = Scenario((Topic("t", 1, backlog=20),), (member,), faults=crash, duration_ms=60_000)
    result = simulate(scenario)
    assert [life["deliveries"] for life in result.members.to_pylist()] == [20, 0]
    assert only(result.summary)["idle_members"] == 0


def test_a_restarted_member_is_a_new_one() -> None:
    restarts = Behaviour(restart_ms=2000)
    member = Member("a", service=Service(100), max_poll_records=10, behaviour=restarts)
    crash = (Fault(500, "crash", "a"),)
    scenario = Scenario((Topic("t", 1, backlog=100),), (member,), faults=crash, duration_ms=60_000)
    lives = simulate(scenario).members.to_pylist()
    told = [(life["life"], life["joined_ms"], life["ended"]) for life in lives]
    assert told == [(0, 0, "crashed"), (1, 2500, None)]
    assert lives[0]["member_id"] != lives[1]["member_id"]
    assert sum(life["deliveries"] for life in lives) == 110


def test_members_join_and_leave_by_heartbeats() -> None:
    member = Member("a", max_poll_records=10)
    members = (member, replace(member, name="b", join_ms=2000, leave_ms=12_000))
    costs = Costs(0.5, 1, 3)
    scenario = Scenario((Topic("t", 2, backlog=1000),), members, costs=costs, duration_ms=30_000)
    result = simulate(scenario)
    a, b = result.members.to_pylist()
    assert (a["left_ms"], a["ended"]) == (None, None)
    assert (b["joined_ms"], b["ended"]) == (2000, "left")
    assert 12_000 <= b["left_ms"] <= 12_510  # when the fetch that it waits for is over
    assert result.assignments.column("members").to_pylist() == [1, 2, 1]
    assert result.assignments.column("assignment_epoch").to_pylist() == [1, 2, 3]
    # b has it with the answer to its first heartbeat, a with its next; the same after b left.
    assert result.assignments.column("time_ms").to_pylist() == [0.5, 2000.5, 15_002.5]
    assert b["unassigned_ms"] == 1


@pytest.mark.row("LCK-03")
def test_at_the_limit_one_more_record_is_acquired_after_each_accept() -> None:
    """201 members take a record each; the last one waits until the first has accepted its own."""
    first = Member("first", max_poll_records=1, service=Service(10_000))
    slow = replace(first, name="m", count=200, service=Service(500_000), join_ms=100)
    scenario = Scenario(
        (Topic("t", 1, backlog=300, batch_records=1),),
        (first, slow),
        settings=Settings(Limits(max_record_locks=200, lock_duration_ms=600_000), max_size=300),
        assignor="all-to-all",
        duration_ms=12_000,
        step_ms=1000,
    )
    result = simulate(scenario)
    rows = [row for row in result.timeline.to_pylist() if row["time_ms"] >= 6000]
    seen = [(row["start_offset"], row["window_end_offset"], row["in_flight"]) for row in rows]
    assert seen == [(0, 200, 200)] * 5 + [(1, 201, 200)] * 2
    assert sum(result.deliveries.column("deliveries").to_pylist()) == 201


@pytest.mark.row("GRP-12")
def test_a_silent_member_is_removed_after_the_session_timeout() -> None:
    topic, settings = Topic("t", 2), Settings(assignment_interval_ms=0)
    members = (Member("silent"), Member("b", join_ms=1))
    fault = Fault(1, "hang", "silent")
    scenario = Scenario((topic,), members, settings=settings, faults=(fault,), duration_ms=60_000)
    defaults = scenario.settings
    assert defaults.session_timeout_ms == 9 * defaults.heartbeat_interval_ms == 45_000
    made = simulate(scenario).assignments.to_pylist()
    assert [one["members"] for one in made] == [1, 2, 1]
    # The next heartbeat of b, 1 ms later, gets the partitions of the removed member.
    assert 45_001 <= made[-1]["time_ms"] <= 45_002
    assert made[-1]["pairs"] == 2


@pytest.mark.row("GRP-13")
def test_a_removed_member_can_still_acknowledge() -> None:
    topic, producer = Topic("t", 1), Producer("t", 10, "steady", 10, begin_ms=39_000, end_ms=40_000)
    members = (Member("a", service=Service(1000)), Member("b", join_ms=60_000))
    fault = Fault(100, "mute", "a", 51_000)
    scenario = Scenario(
        (topic,), members, (producer,), faults=(fault,), assignor="all-to-all", duration_ms=70_000
    )
    result = simulate(scenario)
    of = {row["member"]: row for row in result.deliveries.to_pylist()}
    assert (of["a"]["deliveries"], of["a"]["acknowledged"], of["a"]["refused"]) == (10, 10, 0)
    assert 50_000 < only(result.summary)["drain_ms"] < 50_020  # out of the group since 45 s
    joined = result.assignments.to_pylist()
    assert joined[1]["members"] == 1
    assert 50_000 < joined[1]["time_ms"] < 56_000


@pytest.mark.parametrize(("id_", "cases"), [("", 3), ("A" * 22, 2)])
def test_a_topic_of_which_only_the_name_is_known_gets_a_new_id_with_each_seed(
    id_: str, cases: int
) -> None:
    """Which of three partitions is alone? By one id the first or last, by the ids of members."""
    topic, producer = Topic("t", 3, id_), Producer("t", 30, "steady", begin_ms=11_000)
    members = (Member("a"), Member("b"))
    scenario = Scenario((topic,), members, (producer,), duration_ms=13_000)
    alone = set()
    for seed in range(12):
        parts: dict[str, list[int]] = {"a": [], "b": []}
        for row in simulate(scenario, seed).deliveries.to_pylist():
            parts[row["member"]].append(row["partition"])
        fewest = min(parts.values(), key=len)
        alone.add(tuple(fewest))
    assert len(alone) == cases


def test_targets_are_computed_once_an_interval() -> None:
    """Eight members join within a second: the first gets all, the rest at their next heartbeat."""
    members = tuple(Member(f"m{n}", join_ms=n * 100) for n in range(8))
    many = Scenario((Topic("t", 4),), members, duration_ms=20_000)
    times = simulate(many).assignments.column("time_ms").to_pylist()
    assert times == [0.1, 5000.3]
    eager = replace(many, settings=Settings(assignment_interval_ms=0))
    assert simulate(eager).assignments.num_rows == 8


def test_a_new_group_waits_for_its_share_partitions() -> None:
    new = Scenario((Topic("t", 1, backlog=10),), (Member(),), initialized=False, duration_ms=20_000)
    result = simulate(new)
    assert 5000 < only(result.summary)["drain_ms"] < 5100
    assert result.members.column("unassigned_ms").to_pylist()[0] > 5000


def test_an_assignor_by_lag_runs_again() -> None:
    uneven = Scenario(
        (Topic("t", 2),),
        (Member(count=4, service=Service(10, "exponential"), max_poll_records=20),),
        (Producer("t", 300, weights=(9, 1)),),
        assignor="lag-aware-sticky",
        settings=Settings(rebalance_interval_ms=5000),
        duration_ms=60_000,
    )
    by_lag, by_count = simulate(uneven), simulate(replace(uneven, assignor="simple"))
    assert at(by_count, 60_000)["members"] == 2
    assert at(by_lag, 60_000)["members"] > 2
    assert only(by_lag.summary)["age_p95_ms"] < only(by_count.summary)["age_p95_ms"] / 2


@pytest.mark.slow
@pytest.mark.row("FND-12")
@settings(max_examples=settings().max_examples * 2 // 5)
@given(seeds)
def test_each_record_is_delivered_to_one_at_a_time_until_it_is_finished(seed: int) -> None:
    """Members crash, hang, renew, resubscribe; brokers fail. The ledger checks each step."""
    scenario = random_scenario(Random(seed), plain=True)
    result, ledgers = audited(scenario, seed, plain=True)
    row = only(result.summary)
    assert row["lost"] == 0
    for line, ledger in zip(result.offsets().to_pylist(), ledgers, strict=True):
        # The group began with the first record: all that was there is finished, or it is lag.
        assert _lag(ledger, line["end_offset"]) == line["end_offset"] - len(ledger.finished)
        # At least once: nothing is finished that was not delivered.
        assert all(ledger.counts[offset] >= 1 for offset in ledger.finished)
    assert row["deliveries"] == sum(ledger.delivered for ledger in ledgers)
    _replays(result, ledgers, plain=True)


@pytest.mark.slow
@given(seeds)
@pytest.mark.exhaustive  # the one above is tried in each run
def test_while_records_are_deleted_and_compacted_none_is_delivered_to_two(seed: int) -> None:
    scenario = random_scenario(Random(seed), plain=False)
    result, ledgers = audited(scenario, seed, plain=False)
    if not any(producer.abort_share for producer in scenario.producers):
        # Of aborted record batches Kafka counts what lies before the start offset, too.
        assert pc.min(result.timeline.column("lag")).as_py() >= 0
    _replays(result, ledgers, plain=False)


def _replays(result: SimulationResult, ledgers: list[Ledger], plain: bool) -> None:
    """What was written is the coordinator's state, by every way to replay it, and gives the lag."""
    decoded = decode_arrow(result.records(), STATE_TOPIC)
    assert decoded.rejects.num_rows == 0
    windows = replay_arrow(decoded.records)
    kept = dict(window_items(windows))
    keys = enumerate(result._states.keys)
    assert kept == {key: result._states.window(place) for place, key in keys}
    assert dict(window_items(replay_arrow(drop_superseded(decoded.records)))) == kept
    after, lag = (
        {(row["topic_id"], row["partition"]): row for row in table.to_pylist()}
        for table in (history_arrow(decoded.records), lag_arrow(windows, result.offsets()))
    )
    for key, ledger in zip(result._states.keys, ledgers, strict=True):
        found = lag[key.topic_id, key.partition]
        assert after[key.topic_id, key.partition]["start_offset"] == found["start_offset"]
        if found["lag"] is None:
            assert not ledger.finished  # nothing was ever written of it
        elif plain:
            assert found["lag"] == found["effective_lag"] == _lag(ledger, found["end_offset"])


def _lag(ledger: Ledger, end: int) -> int:
    return end - ledger.share.start_offset - ledger.share.delivery_complete_count


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 5)
@given(seeds)
def test_nothing_is_left_when_one_member_stays_that_accepts_all(seed: int) -> None:
    """However it went before: no record is lost, and none is stuck where Kafka's would not be."""
    scenario = random_scenario(Random(seed), plain=True)
    members = tuple(replace(one, leave_ms=one.leave_ms or 14_000) for one in scenario.members)
    # Who hangs for good never leaves, and keeps what is assigned.
    hung = [
        replace(one, for_ms=one.for_ms or 1000) for one in scenario.faults if one.kind == "hang"
    ]
    longer = replace(
        scenario,
        faults=(*(one for one in scenario.faults if one.kind != "hang"), *hung),
        members=(*members, Member("last", join_ms=16_000, max_poll_records=100)),
        producers=tuple(replace(one, end_ms=14_000) for one in scenario.producers),
        poison=(),
        duration_ms=120_000,
    )
    result, ledgers = audited(longer, seed, plain=True)
    for line, ledger in zip(result.offsets().to_pylist(), ledgers, strict=True):
        # Stands still after a load, as Kafka's own class does: see its tests.
        if not ledger.share.can_fetch():
            assert {run.delivery_state for run in ledger.share.in_flight()} <= set(TERMINAL)
            continue
        assert ledger.finished == set(range(line["end_offset"]))
        assert _lag(ledger, line["end_offset"]) == 0


@pytest.mark.slow
def test_the_ledger_sees_what_is_wrong() -> None:
    """A promise that cannot be broken would not be one."""
    ledger = Ledger(Limits(delivery_count_limit=2))
    ledger.acquired("a", 0, [Acquired(0, 4, 1)])
    with pytest.raises(AssertionError, match="held by a"):
        ledger.acquired("b", 1, [Acquired(4, 4, 2)])
    ledger.expire(30_000)
    with pytest.raises(AssertionError):
        ledger.acquired("b", 30_001, [Acquired(0, 0, 1)])
    ledger.acquired("b", 30_001, [Acquired(1, 1, 2)])
    ledger.released("b")
    with pytest.raises(AssertionError, match="finished"):
        ledger.acquired("c", 30_002, [Acquired(1, 1, 3)])


# ---- the same again ----
@pytest.mark.slow
def test_simulations_the_suite_and_assignments_are_the_same_in_every_process() -> None:
    group = [{"id": f"m{n}", "subscribed": ["t", "u"][: 1 + n % 2]} for n in range(9)]
    topics = {name: {"partitions": 7, "lag": {n: (n * 37) % 11 for n in range(7)}} for name in "tu"}
    code = f"""
from random import Random
from sharelag.whatif import ASSIGNORS, assign, simulate, suite, to_json
from tests.support.simulation_scenarios import EVERYTHING, random_scenario
from tests.support.simulations import digest
print(digest(simulate(EVERYTHING, 1, requests=True)))
for n in range(4):
    print(digest(simulate(random_scenario(Random(n), n % 2 == 0), n, requests=True)))
print([*map(to_json, suite(100))])
for name in ASSIGNORS:
    print(name, assign(name, {group}, {topics}))
"""
    lines = run_by_any_hashes(code).splitlines()
    assert len({*lines[:5]}) == 5
    assert {"simple", "optimal"} <= {line.split()[0] for line in lines[6:]}


#: Work and arrivals by chance, records that fail, a member that dies: all streams of chance are
#: asked.
CHANCE = Scenario(
    (Topic("t", 3, backlog=(200, 50, 0), batch_records=10),),
    (
        Member(
            count=3,
            service=Service(30, "lognormal", 0.8, slow_share=0.05, slow_factor=10),
            behaviour=Behaviour(0.9, 0.06, 0.02, 0.02, crash=0.02, restart_ms=1000),
            max_poll_records=20,
        ),
    ),
    (
        Producer(
            "t", 40, batch_records=4, keys=50, key_skew=1.1, transaction_batches=3, abort_share=0.2
        ),
    ),
    Settings(
        Limits(lock_duration_ms=3000), session_timeout_ms=6000, isolation_level="read_committed"
    ),
    poison=(Poison("t", 0, 30), Poison("t", 1, 7, "silent")),
    faults=(Fault(9000, "crash", "member-1"), Fault(12_000, "leader_change", topic="t")),
    brokers=2,
    duration_ms=20_000,
)


def values(result: SimulationResult) -> str:
    """A digest of every value of every table, however pyarrow keeps them."""
    tables = [*(getattr(result, name) for name in TABLES), result.records()]
    return sha256(repr([table.to_pylist() for table in tables]).encode()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "committed"),
    [
        (
            replace(named("uneven"), duration_ms=20_000),
            "5c14026704ca08f66b5ea8b95dc01107a212d97a19097eb23bc3f33db54d91bd",
        ),
        (CHANCE, "433416184a832898c28c26f84058524daa1771699c73c063fca8bf94e26ca4bf"),
    ],
    ids=["uneven", "chance"],
)
def test_a_seed_gives_the_same_on_any_machine(scenario: Scenario, committed: str) -> None:
    """When it fails, simulations have changed: on purpose, or by a library or a machine."""
    assert values(simulate(scenario, 7, requests=True)) == committed
