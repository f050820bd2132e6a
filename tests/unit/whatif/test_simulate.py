"""A simulation does what brokers, coordinators and clients do, and does it again."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch, Window
from sharelag.replay import replay_arrow
from sharelag.replay.state import window_items
from sharelag.whatif.partition.values import Limits
from sharelag.whatif.scenario import (
    BEGINS_MS,
    Behaviour,
    Burst,
    Costs,
    Fault,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
)
from sharelag.whatif.simulate import simulate
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tests.support.simulation_digest import digest
from tests.support.simulations import MIXED, at, only

# ---- the same again ----


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    code = (
        "from sharelag.whatif.simulate import simulate; "
        "from tests.support.simulation_digest import digest; "
        "from tests.support.simulations import MIXED; "
        "print(digest(simulate(MIXED, 5, requests=True)))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "2")
    }
    assert digests == {digest(simulate(MIXED, 5, requests=True)) + "\n"}
    assert digest(simulate(MIXED, 6, requests=True)) + "\n" not in digests


def test_assignors_meet_the_same_luck() -> None:
    """Arrivals, and the work in each record, do not depend on who is asked to do it."""
    runs = [
        simulate(replace(MIXED, assignor=name), 1)
        for name in ("simple", "all-to-all", "round-robin")
    ]
    ends = [run.timeline.column("end_offset").to_pylist() for run in runs]
    assert ends[0] == ends[1] == ends[2]
    assert (
        len(
            {
                run.timeline.column("start_offset").combine_chunks().to_pylist().__repr__()
                for run in runs
            }
        )
        == 3
    )
    alone = Scenario(
        (Topic("t", 1, backlog=1000),),
        (Member(service=Service(5, "lognormal")),),
        duration_ms=60_000,
    )
    whole = simulate(alone).members.column("busy_ms")[0].as_py()
    shared = simulate(replace(alone.with_members(3), assignor="all-to-all"))
    assert sum(shared.members.column("busy_ms").to_pylist()) == pytest.approx(whole)


# ---- what is written ----


@pytest.mark.parametrize("seed", range(4))
def test_what_is_written_replays_to_the_lag_of_the_simulation(seed: int) -> None:
    """The whole pipeline runs on a simulation's records as on a cluster's."""
    result = simulate(MIXED, seed)
    raw = result.records()
    assert raw.schema == schemas.RAW
    decoded = decode_arrow(raw, STATE_TOPIC)
    assert decoded.rejects.num_rows == 0
    windows = replay_arrow(decoded.records)
    kept = dict(window_items(windows))
    assert len(kept) == 5
    for place, key in enumerate(result._states.keys):
        assert kept[key] == result._states.window(place)
    lag = lag_arrow(windows, result.offsets())
    told = {
        (row["topic"], row["partition"]): row["lag"]
        for row in pa.Table.from_batches([lag]).to_pylist()
    }
    last = result.timeline.slice(result.timeline.num_rows - 5).to_pylist()
    assert {(row["topic"], row["partition"]): row["lag"] for row in last} == told
    assert sum(told.values()) == only(result.summary)["lag_end"]


@pytest.mark.parametrize("seed", range(4))
def test_every_record_is_counted_once(seed: int) -> None:
    """The lag is what came less what was finished; deliveries end in one of five ways."""
    result = simulate(MIXED, seed)
    row = only(result.summary)
    assert row["lag_end"] == 320 + row["arrived"] - row["completed"]
    assert row["completed"] == row["acknowledged"] + row["archived"]
    ways = result.deliveries.to_pylist()
    held = result.timeline.slice(result.timeline.num_rows - 5).column("in_flight").to_pylist()
    lost_with_the_leader = (
        row["deliveries"]
        - row["expired"]
        - sum(held)
        - sum(way[name] for way in ways for name in ("acknowledged", "released", "rejected"))
    )
    assert (
        0 <= lost_with_the_leader <= 3 * 40
    )  # what members had of the partition whose leader changed
    assert all(way["redeliveries"] <= way["deliveries"] for way in ways)
    timeline = result.timeline
    left = pc.subtract(
        pc.subtract(timeline["end_offset"], timeline["start_offset"]),
        timeline["delivery_complete_count"],
    )
    assert timeline.column("lag").equals(left)
    assert pc.min(timeline.column("lag")).as_py() >= 0


@pytest.mark.row("FET-06")
def test_durable_writes_go_by_record_batches() -> None:
    """A hundred records need a write each, or one together, as their producer sent them."""
    writes = {}
    for size in (1, 100):
        alone = Scenario(
            (Topic("t", 1, backlog=100, batch_records=size),),
            (Member(service=Service(1), max_poll_records=size),),
            duration_ms=10_000,
        )
        result = simulate(alone)
        assert only(result.summary)["lag_end"] == 0
        writes[size] = result.records().num_rows - 1  # the first is the state at the begin
    assert writes == {1: 100, 100: 1}


shares = st.sampled_from([(1.0, 0.0, 0.0, 0.0), (0.7, 0.2, 0.05, 0.05), (0.3, 0.6, 0.05, 0.05)])
scenarios = st.builds(
    lambda parts, batch, members, poll, mode, behaviour, limit, locks, crash, faults, level, brokers: (
        Scenario(
            (Topic("t", parts, backlog=60, batch_records=batch),),
            (
                Member(
                    count=members,
                    service=Service(4, "exponential"),
                    behaviour=replace(
                        Behaviour(*behaviour),
                        crash=crash,
                        restart_ms=1000,
                        commit="error" if limit == 3 else "poll",
                    ),
                    max_poll_records=poll,
                    acquire_mode=mode,
                ),
            ),
            (
                Producer(
                    "t", 30, batch_records=batch, transaction_batches=level and 2, abort_share=0.3
                ),
            ),
            Settings(
                Limits(max_record_locks=locks, delivery_count_limit=limit, lock_duration_ms=2000),
                isolation_level="read_committed" if level == 2 else "read_uncommitted",
            ),
            faults=tuple(faults),
            brokers=brokers,
            assignor="all-to-all",
            duration_ms=15_000,
            step_ms=500,
        )
    ),
    st.integers(1, 3),
    st.sampled_from([1, 4, 10]),
    st.integers(1, 3),
    st.sampled_from([1, 7, 500]),
    st.sampled_from(["batch_optimized", "record_limit"]),
    shares,
    st.integers(2, 5),
    st.sampled_from([20, 2000]),
    st.sampled_from([0.0, 0.05]),
    st.lists(
        st.one_of(
            st.builds(Fault, st.integers(0, 14_000), st.just("leader_change"), topic=st.just("t")),
            st.builds(
                Fault,
                st.integers(0, 14_000),
                st.just("delete_records"),
                topic=st.just("t"),
                offset=st.just(30),
            ),
        ),
        max_size=2,
    ),
    st.integers(0, 2),
    st.integers(1, 2),
)


@pytest.mark.slow
@given(scenarios, st.integers(0, 1000))
def test_whatever_happens_offsets_are_neither_lost_nor_finished_twice(
    scenario: Scenario, seed: int
) -> None:
    result = simulate(scenario, seed)
    partitions = scenario.topics[0].partitions
    starts = np.array(result.timeline.column("start_offset").to_pylist()).reshape(-1, partitions)
    # A new leader does not know what was never written: what was archived as aborted, or as
    # deleted.
    if not any(fault.kind == "leader_change" for fault in scenario.faults):
        assert (np.diff(starts, axis=0) >= 0).all()
    assert pc.min(result.timeline.column("lag")).as_py() >= 0
    row = only(result.summary)
    finished = row["completed"] + row["lost"]
    arrived = 60 * partitions + row["arrived"]
    assert row["lag_end"] <= arrived
    if scenario.settings.isolation_level == "read_uncommitted" and not scenario.faults:
        assert finished + row["lag_end"] == arrived
    windows = dict(window_items(replay_arrow(decode_arrow(result.records(), STATE_TOPIC).records)))
    for place, key in enumerate(result._states.keys):
        assert windows[key] == result._states.window(place)
        most = max((batch.delivery_count for batch in windows[key].batches), default=0)
        assert most <= scenario.settings.limits.delivery_count_limit


# ---- fetches ----


@pytest.mark.row("FET-04")
def test_fetches_take_turns_with_partitions() -> None:
    scenario = Scenario(
        (Topic("t", 3, backlog=40, batch_records=10),),
        (Member(service=Service(10), max_poll_records=10),),
        duration_ms=1100,
        step_ms=10,
    )
    result = simulate(scenario)
    by_place = [
        result.timeline.filter(pc.equal(result.timeline["partition"], number))
        .column("start_offset")
        .to_pylist()
        for number in range(3)
    ]
    order = [
        place
        for step in range(1, len(by_place[0]))
        for place in range(3)
        if by_place[place][step] > by_place[place][step - 1]
    ]
    # The fetch that opens the session does not rotate, and the second moves on by one.
    assert order[:6] == [0, 1, 2, 0, 1, 2]


def test_a_waiting_fetch_wakes_up_for_a_record() -> None:
    quiet = Scenario(
        (Topic("t", 1),),
        (Member(service=Service(1)),),
        (Producer("t", 1, "steady"),),
        duration_ms=30_000,
    )
    row = only(simulate(quiet).summary)
    # Half a millisecond there and back, a fetch, the work and the write: not the 500 ms that a
    # fetch may wait.
    assert row["latency_p95_ms"] < 8
    assert row["completed"] >= 29


def test_a_full_window_lets_nobody_fetch() -> None:
    """One record that is held makes new ones wait, although all others are finished."""
    stuck = Scenario(
        (Topic("t", 1, backlog=3000, batch_records=10),),
        (Member(count=2, service=Service(1), max_poll_records=50),),
        settings=Settings(Limits(max_record_locks=200), assignment_interval_ms=0),
        poison=(Poison("t", 0, 5, "silent", 1),),
        duration_ms=60_000,
    )
    result = simulate(stuck)
    full = at(result, 20_000)
    assert (full["start_offset"], full["window_end_offset"]) == (5, 210)
    assert full["delivery_complete_count"] == 204
    assert full["in_flight"] == 1
    assert at(result, 25_000)["lag"] == full["lag"] == 2791
    assert at(result, 60_000)["lag"] == 0  # the lock ran out after 30 s
    assert only(result.summary)["expired"] == 1


def test_an_acknowledgement_makes_room_for_a_waiting_fetch_at_once() -> None:
    scenario = Scenario(
        (Topic("t", 1, backlog=1000, batch_records=10),),
        (Member(service=Service(1), max_poll_records=10),),
        settings=Settings(Limits(max_record_locks=10)),
        costs=Costs(0.5, 1, 3),
        duration_ms=60_000,
    )
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
    scenario = Scenario(
        (Topic("t", 1),),
        (Member(service=Service(5, "exponential"), max_poll_records=1),),
        (Producer("t", 100),),
        costs=Costs(network_ms=0.001, fetch_ms=0, write_ms=0),
        duration_ms=600_000,
    )
    row = only(simulate(scenario, 3).summary)
    assert row["latency_p50_ms"] == pytest.approx(1000 * math.log(2) / (200 - 100), rel=0.05)
    assert row["latency_p95_ms"] == pytest.approx(1000 * math.log(20) / (200 - 100), rel=0.05)
    assert row["busy_share"] == pytest.approx(0.5, rel=0.03)


# ---- members and what happens to them ----


@pytest.mark.row("ACK-01")
def test_members_do_four_things_with_records() -> None:
    behaviour = Behaviour(accept=0.9, release=0.05, reject=0.03, silent=0.02)
    scenario = Scenario(
        (Topic("t", 2, backlog=10_000, batch_records=10),),
        (Member(service=Service(0.1), behaviour=behaviour),),
        settings=Settings(Limits(delivery_count_limit=10)),
        duration_ms=600_000,
    )
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


@pytest.mark.row("RST-15")
@pytest.mark.row("LCK-02")
def test_what_a_lost_member_had_is_delivered_again() -> None:
    from sharelag.whatif.named import named

    result = simulate(named("crash-redelivery"))
    taken = next(row["time_ms"] for row in result.timeline.to_pylist() if row["in_flight"] == 10)
    between = at(result, 20_000)
    assert (between["start_offset"], between["delivery_complete_count"], between["lag"]) == (
        100,
        10,
        10,
    )
    of = {row["member"]: row for row in result.deliveries.to_pylist()}
    assert (of["c1"]["deliveries"], of["c1"]["acknowledged"]) == (10, 0)
    assert (of["c2"]["deliveries"], of["c2"]["redeliveries"], of["c2"]["acknowledged"]) == (
        20,
        10,
        20,
    )
    again = [
        row
        for row in result.timeline.to_pylist()
        if row["time_ms"] > 25_000 and row["in_flight"] == 10
    ]
    drained = only(result.summary)["drain_ms"]
    assert drained - 1000 - 10 <= taken + 30_000 < drained  # its ten records take a second
    assert again
    assert at(result, 40_000)["start_offset"] == 120


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


def test_a_restarted_member_is_a_new_one() -> None:
    scenario = Scenario(
        (Topic("t", 1, backlog=100),),
        (
            Member(
                "a", service=Service(100), max_poll_records=10, behaviour=Behaviour(restart_ms=2000)
            ),
        ),
        faults=(Fault(500, "crash", "a"),),
        duration_ms=60_000,
    )
    lives = simulate(scenario).members.to_pylist()
    assert [(life["life"], life["joined_ms"], life["ended"]) for life in lives] == [
        (0, 0, "crashed"),
        (1, 2500, None),
    ]
    assert lives[0]["member_id"] != lives[1]["member_id"]
    assert sum(life["deliveries"] for life in lives) == 110


def test_members_join_and_leave_by_heartbeats() -> None:
    scenario = Scenario(
        (Topic("t", 2, backlog=1000),),
        (
            Member("a", max_poll_records=10),
            Member("b", max_poll_records=10, join_ms=2000, leave_ms=12_000),
        ),
        costs=Costs(0.5, 1, 3),
        duration_ms=30_000,
    )
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
    slow = [
        Member(f"m{n}", max_poll_records=1, service=Service(500_000), join_ms=100)
        for n in range(200)
    ]
    scenario = Scenario(
        (Topic("t", 1, backlog=300, batch_records=1),),
        (Member("first", max_poll_records=1, service=Service(10_000)), *slow),
        settings=Settings(Limits(max_record_locks=200, lock_duration_ms=600_000), max_size=300),
        assignor="all-to-all",
        duration_ms=12_000,
        step_ms=1000,
    )
    result = simulate(scenario)
    seen = [
        (row["start_offset"], row["window_end_offset"], row["in_flight"])
        for row in result.timeline.to_pylist()
        if row["time_ms"] >= 6000
    ]
    assert seen == [(0, 200, 200)] * 5 + [(1, 201, 200)] * 2
    assert sum(result.deliveries.column("deliveries").to_pylist()) == 201


@pytest.mark.row("GRP-12")
def test_a_silent_member_is_removed_after_the_session_timeout() -> None:
    scenario = Scenario(
        (Topic("t", 2),),
        (Member("silent"), Member("b", join_ms=1)),
        settings=Settings(assignment_interval_ms=0),
        faults=(Fault(1, "hang", "silent"),),
        duration_ms=60_000,
    )
    defaults = scenario.settings
    assert defaults.session_timeout_ms == 9 * defaults.heartbeat_interval_ms == 45_000
    made = simulate(scenario).assignments.to_pylist()
    assert [one["members"] for one in made] == [1, 2, 1]
    # The next heartbeat of b, 1 ms later, gets the partitions of the removed member.
    assert 45_001 <= made[-1]["time_ms"] <= 45_002
    assert made[-1]["pairs"] == 2


@pytest.mark.row("GRP-13")
def test_a_removed_member_can_still_acknowledge() -> None:
    scenario = Scenario(
        (Topic("t", 1),),
        (Member("a", service=Service(1000)), Member("b")),
        (Producer("t", 10, "steady", 10, begin_ms=39_000, end_ms=40_000),),
        faults=(Fault(100, "mute", "a", 51_000),),
        assignor="all-to-all",
        duration_ms=70_000,
    )
    scenario = replace(
        scenario,
        members=(scenario.members[0], replace(scenario.members[1], topics=(), join_ms=60_000)),
    )
    result = simulate(scenario)
    of = {row["member"]: row for row in result.deliveries.to_pylist()}
    assert (of["a"]["deliveries"], of["a"]["acknowledged"], of["a"]["refused"]) == (10, 10, 0)
    assert 50_000 < only(result.summary)["drain_ms"] < 50_020  # out of the group since 45 s
    joined = result.assignments.to_pylist()
    assert joined[1]["members"] == 1
    assert 50_000 < joined[1]["time_ms"] < 56_000


def test_targets_are_computed_once_an_interval() -> None:
    """Eight members join within a second: the first gets all, the rest at their next heartbeat."""
    many = Scenario(
        (Topic("t", 4),),
        tuple(Member(f"m{n}", join_ms=n * 100) for n in range(8)),
        duration_ms=20_000,
    )
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


# ---- logs ----


@pytest.mark.row("WIN-11")
@pytest.mark.row("WIN-12")
@pytest.mark.parametrize("acknowledged", [0, 10])
def test_retention_moves_the_start_and_loses_what_was_not_delivered(acknowledged: int) -> None:
    batches = (StateBatch(40, 49, 0, 1), StateBatch(50, 59, 2, 1)) if acknowledged else ()
    window = Window(0, 0, 0, 40, acknowledged, BEGINS_MS, BEGINS_MS, batches)
    log = PartitionStart(200, 0, window, oldest_age_ms=160_000)  # a record a second
    scenario = Scenario(
        (Topic("t", 1, starts=(log,), retention_ms=100_500, segment_records=100),),
        (Member(service=Service(1), max_poll_records=1, join_ms=10),),
        duration_ms=50,
        step_ms=1,
    )
    result = simulate(scenario)
    assert at(result, 10)["start_offset"] == 40
    assert at(result, 50)["start_offset"] >= 100
    row = only(result.summary)
    assert row["lost"] == 60 - acknowledged
    assert row["lag_end"] == 100 - row["completed"]


def test_deleted_records_are_lost_and_leave_the_lag() -> None:
    scenario = Scenario(
        (Topic("t", 1, backlog=100),),
        (Member(service=Service(1), join_ms=2000),),
        faults=(Fault(1000, "delete_records", topic="t", offset=70),),
        duration_ms=10_000,
    )
    row = only(simulate(scenario).summary)
    assert (row["lost"], row["completed"], row["lag_end"]) == (70, 30, 0)


@pytest.mark.row("WIN-05")
@pytest.mark.parametrize(("reset", "start"), [("latest", 100), ("earliest", 0)])
def test_a_new_group_begins_where_its_settings_say(reset: Any, start: int) -> None:
    scenario = Scenario(
        (Topic("t", 1, starts=(PartitionStart(100),)),),
        (),
        settings=Settings(auto_offset_reset=reset),
        duration_ms=1,
    )
    assert at(simulate(scenario), 0)["start_offset"] == start


def test_producers_produce_what_the_scenario_says() -> None:
    def ends(producer: Producer, seconds: int, partitions: int = 1) -> list[int]:
        made = simulate(
            Scenario((Topic("t", partitions),), (), (producer,), duration_ms=seconds * 1000), 4
        )
        return (
            made.timeline.slice(made.timeline.num_rows - partitions)
            .column("end_offset")
            .to_pylist()
        )

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
    with pytest.raises(InputError, match="24"):
        Producer("t", 1, day=(1.0,))


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_transactions_take_offsets_and_time(level: Any) -> None:
    """Every second record aborted: readers of committed records get the rest, after the marker."""
    scenario = Scenario(
        (Topic("t", 1),),
        (Member(service=Service(0)),),
        (
            Producer(
                "t",
                20,
                "steady",
                transaction_batches=2,
                transaction_ms=400,
                abort_share=0.5,
                end_ms=20_000,
            ),
        ),
        settings=Settings(isolation_level=level),
        duration_ms=30_000,
        step_ms=50,
    )
    result = simulate(scenario)
    row = only(result.summary)
    assert (row["arrived"], row["lag_end"]) == (600, 0)  # with 200 markers
    if level == "read_uncommitted":
        assert (row["acknowledged"], row["archived"]) == (400, 200)
        assert row["latency_p50_ms"] < 50
    else:
        assert 140 < row["acknowledged"] < 260
        assert row["acknowledged"] % 2 == 0
        assert row["latency_p50_ms"] > 400
    early = next(line for line in result.timeline.to_pylist() if line["end_offset"] >= 4)
    assert (early["window_end_offset"] > 0) == (level == "read_uncommitted")


def test_services_have_the_mean_of_the_scenario() -> None:
    def busy(service: Service) -> float:
        alone = Scenario(
            (Topic("t", 1, backlog=20_000, batch_records=100),), (Member(service=service),)
        )
        return float(simulate(alone).members.column("busy_ms")[0].as_py()) / 20_000

    assert busy(Service(3)) == 3
    assert busy(Service(3, poll_ms=50)) == pytest.approx(3 + 50 / 500)
    assert busy(Service(3, "exponential")) == pytest.approx(3, rel=0.03)
    assert busy(Service(3, "lognormal", sigma=0.5)) == pytest.approx(3, rel=0.03)
    assert busy(Service(kind="measured", samples_ms=(1, 2, 6))) == pytest.approx(3, rel=0.03)
    assert busy(Service(3, slow_share=0.1, slow_factor=11)) == pytest.approx(6, rel=0.1)
    assert busy(Service(3, by_partition=((("t", 0), 2.0),))) == 6


def test_members_commit_as_the_scenario_says() -> None:
    def lags(behaviour: Behaviour) -> list[int]:
        ten = Scenario(
            (Topic("t", 1, backlog=10, batch_records=10),),
            (Member(service=Service(100), behaviour=behaviour),),
            poison=(Poison("t", 0, 4, "reject"),),
            duration_ms=3000,
            step_ms=10,
        )
        result = simulate(ten)
        assert only(result.summary)["deliveries"] == 10  # the rest of a batch is not delivered anew
        return list(dict.fromkeys(result.timeline.column("lag").to_pylist()))

    assert lags(Behaviour()) == [10, 0]
    assert lags(Behaviour(commit="error")) == [10, 5, 0]
    assert lags(Behaviour(commit="record")) == list(range(10, -1, -1))


def test_sessions_count_their_requests() -> None:
    scenario = Scenario(
        (Topic("t", 2, backlog=100, batch_records=10),),
        (Member(max_poll_records=10, leave_ms=1000),),
        brokers=2,
        duration_ms=3000,
    )
    made = simulate(scenario, requests=True).requests.to_pylist()
    for broker in (0, 1):
        epochs = [one["session_epoch"] for one in made if one["broker"] == broker]
        assert epochs[-1] == -1
        assert epochs[:-1] == list(range(len(epochs) - 1))
        assert len(epochs) > 5
    assert simulate(scenario).requests.num_rows == 0


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
        (lambda: Scenario((topic,), (), duration_ms=0), "at least 1"),
        (lambda: Service(kind="measured"), "samples"),
        (lambda: Service(-1), "below 0"),
        (lambda: Behaviour(accept=0.5, release=0.5, acknowledgement="implicit"), "implicit"),
    ):
        with pytest.raises(InputError, match=words):
            wrong()


def test_simulations_need_neither_spark_nor_a_client_nor_pandas() -> None:
    code = """
import sys
class Without:
    def find_spec(self, name, *_):
        if name in ("pyspark", "confluent_kafka", "pandas", "sharelag.metrics"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Without())
from sharelag.whatif.named import named
from sharelag.whatif.simulate import simulate
print(simulate(named("gaps")).summary.column("archived").to_pylist())
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "[2]\n"


def test_the_percentiles_of_latency_count_records() -> None:
    """Two batches of 10 and 90 records: the median is that of the larger one."""
    starts = (
        PartitionStart(10, 0, Window(0, 0, 0, 0, 0, 0, 0), 10),
        PartitionStart(90, 0, Window(0, 0, 0, 0, 0, 0, 0), 90),
    )
    scenario = Scenario(
        (Topic("t", 2, starts=starts),),
        (Member(service=Service(10), max_poll_records=10),),
        duration_ms=5000,
    )
    row = only(simulate(scenario).summary)
    assert row["latency_p50_ms"] > 900
    assert np.isclose(row["latency_p50_ms"], row["latency_p95_ms"])


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
        assert (
            assigned["time_ms"],
            assigned["members"],
            assigned["added"],
            assigned["revoked"],
        ) == (0, 8, 0, 0)
    assert settled.assignments.num_rows == 1
    for busy in settled.members.column("busy_ms").to_pylist():
        assert busy == pytest.approx(2000, abs=1)
    # Strangers: the first one gets everything, and the others wait for their second heartbeat.
    cold, warm = only(simulate(strangers).summary), only(settled.summary)
    assert (cold["moves"] > 0, warm["idle_members"]) == (True, 0)
    assert cold["drain_ms"] > 2 * warm["drain_ms"]
