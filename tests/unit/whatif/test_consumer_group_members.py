"""Members of a simulated consumer group that crash, leave, fall silent, or fail on a record."""

from dataclasses import replace

import pytest

from sharelag.model import StateBatch, Window
from sharelag.whatif import (
    Behaviour,
    ConsumerSettings,
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
    consumer_group_twin,
    named,
    simulate,
)
from sharelag.whatif.consumer_simulation import ConsumerGroupSimulation
from sharelag.whatif.scenario import BEGINS_MS
from tests.support.simulations import appended, at, lives, only


# ---- what Kafka promises of a consumer group
def test_a_partition_has_one_member_at_a_time() -> None:
    scenario = Scenario(
        (Topic("t", 5, backlog=2000),),
        (
            Member(count=3, service=Service(2)),
            Member("late", service=Service(2), join_ms=7000, leave_ms=15_000),
        ),
        duration_ms=40_000,
        step_ms=50,
    )
    twin = consumer_group_twin(scenario)
    assert max(twin.timeline.column("members").to_pylist()) == 1
    assert only(twin.summary)["redeliveries"] == only(twin.summary)["lag_end"] == 0
    assert only(twin.summary)["moves"] >= 3


def test_who_crashes_is_missed_when_its_session_times_out() -> None:
    """Its partition stands still for 45 s; then the other one goes on from what was committed."""
    scenario = appended(200, 2, 2, Service(100), duration_ms=120_000)
    crashed = replace(scenario, faults=(Fault(36_050, "crash", "member-0"),), step_ms=100)
    twin = consumer_group_twin(crashed)
    (mine,) = [p for p in (0, 1) if at(twin, 36_100, p)["members"] == 0]
    seen = [row for row in twin.timeline.to_pylist() if row["partition"] == mine]
    gap = [row["time_ms"] for row in seen if row["time_ms"] > 36_050 and row["members"] == 0]
    # Its last heartbeat was up to 5 s before, and the other's next one is up to 5 s after.
    assert 40_000 - 100 <= gap[-1] - gap[0] <= 50_000 + 100
    assert only(twin.summary)["lag_end"] == 0
    # At 30 s the first poll had nothing before it; the commits were at polls 5 s apart: at 35 s, of
    # the 50 done then.
    assert only(twin.summary)["redeliveries"] == twin.duplicates
    # What one member does in the six seconds before, and the batch at hand.
    assert 0 < twin.duplicates <= 6 * 10 + 10
    often = consumer_group_twin(crashed, settings=ConsumerSettings(auto_commit_interval_ms=1))
    assert often.duplicates == 10  # the batch at hand only


def test_who_leaves_commits() -> None:
    scenario = appended(200, 2, 2, Service(100), duration_ms=120_000)
    member = replace(scenario.members[0], count=1)
    two = replace(member, name="a", leave_ms=33_000), replace(member, name="b")
    twin = consumer_group_twin(replace(scenario, members=two))
    assert only(twin.summary)["redeliveries"] == only(twin.summary)["lag_end"] == 0
    assert 200 * 100 / 2 < only(twin.summary)["drain_ms"] - 30_000 <= 200 * 100


def test_who_does_not_poll_for_too_long_loses_its_partitions() -> None:
    """A batch of 10 s exceeds ``max.poll.interval.ms`` of 4 s: another member does it again."""
    scenario = appended(20, 2, 1, Service(1000), duration_ms=120_000)
    kept = consumer_group_twin(scenario)
    lost = consumer_group_twin(scenario, settings=ConsumerSettings(max_poll_interval_ms=4000))
    assert kept.duplicates == 0
    assert only(kept.summary)["drain_ms"] == pytest.approx(50_000, abs=2)
    assert lost.duplicates >= 10
    assert sum(row["deliveries"] > 0 for row in lives(lost)) == 2


def test_who_is_muted_works_on_and_its_work_is_done_twice() -> None:
    scenario = appended(600, 2, 1, Service(100), duration_ms=180_000)
    (owner,) = [row["member"] for row in lives(consumer_group_twin(scenario)) if row["deliveries"]]
    muted = replace(scenario, faults=(Fault(29_000, "mute", owner, 100_000),))
    twin = consumer_group_twin(muted)
    assert only(twin.summary)["lag_end"] == 0
    assert sum(row["deliveries"] > 0 for row in lives(twin)) == 2
    assert twin.duplicates > 0


def test_who_is_fenced_commits_nothing() -> None:
    """A muted member is out of the group after 45 s, works on, and its commits do not count."""
    scenario = appended(1200, 2, 1, Service(100), duration_ms=140_000)
    (owner,) = [row["member"] for row in lives(consumer_group_twin(scenario)) if row["deliveries"]]
    (other,) = {"member-0", "member-1"} - {owner}
    faults = (Fault(29_000, "mute", owner), Fault(60_000, "crash", other))
    run = ConsumerGroupSimulation(replace(scenario, faults=faults), 0, ConsumerSettings())
    done = only(run.end().summary)["completed"]
    assert done > 1000
    committed = run.partitions[0].committed
    assert committed is not None
    # It was heard of last between 24 s and 29 s; a record takes 0.1 s, and the first came at 30 s.
    assert 300 < committed <= (29 + 45 - 30) * 10


def test_who_leaves_at_work_does_not_commit_what_it_works_on() -> None:
    scenario = appended(200, 2, 1, Service(100), duration_ms=120_000)
    (owner,) = [row["member"] for row in lives(consumer_group_twin(scenario)) if row["deliveries"]]
    twin = consumer_group_twin(replace(scenario, faults=(Fault(32_550, "subscribe", owner),)))
    assert only(twin.summary)["lag_end"] == 0
    assert twin.duplicates == 10  # the batch at hand
    assert sum(row["deliveries"] > 0 for row in lives(twin)) == 2


def test_a_failing_record_holds_its_partition_until_it_is_given_up() -> None:
    """After five attempts in place the record is skipped; in the share group others pass it."""
    scenario = replace(
        appended(100, 1, 1, Service(100), duration_ms=120_000),
        poison=(Poison("t", 0, 50), Poison("t", 0, 60, "reject")),
    )
    twin = only(consumer_group_twin(scenario).summary)
    assert twin["drain_ms"] == pytest.approx(30_000 + 100 * 100 + 4 * 100, abs=2)
    assert (twin["archived"], twin["acknowledged"], twin["deliveries"]) == (2, 98, 104)
    assert twin["redeliveries"] == 4
    assert consumer_group_twin(scenario).duplicates == 0  # it gave them back to itself
    twice = consumer_group_twin(scenario, settings=ConsumerSettings(attempts=2))
    assert only(twice.summary)["deliveries"] == 101
    limits = replace(scenario, settings=Settings(Limits(delivery_count_limit=3)))
    assert only(consumer_group_twin(limits).summary)["deliveries"] == 102
    # Its attempts are those of all its deliveries: after a crash in the same poll it has none left.
    crashes = replace(scenario, poison=(Poison("t", 0, 50), Poison("t", 0, 51, "crash", 1)))
    back = replace(scenario.members[0], behaviour=Behaviour(restart_ms=1000))
    again = consumer_group_twin(replace(crashes, members=(back,)))
    assert sum(again.deliveries.column("released").to_pylist()) == 4
    mended = replace(scenario, poison=(Poison("t", 0, 50, attempts=2),))
    row = only(consumer_group_twin(mended).summary)
    assert (row["archived"], row["deliveries"]) == (0, 102)


def test_a_record_that_kills_stops_a_consumer_group_for_ever() -> None:
    """Nothing counts deliveries, so that it kills everybody; a share group archives it at five."""
    scenario = named("crash-loop")
    twin, share = only(consumer_group_twin(scenario).summary), only(simulate(scenario).summary)
    assert twin["lag_end"] >= 2000 - 120
    assert share["lag_end"] == 0
    once = replace(scenario, poison=(Poison("orders", 0, 120, "crash", 1),))
    assert only(consumer_group_twin(once).summary)["lag_end"] == 0
    # It ends within a poll: at the fourth of ten records of 100 ms.
    alone = replace(appended(10, 1, 1, Service(100)), poison=(Poison("t", 0, 3, "crash"),))
    (life,) = lives(consumer_group_twin(alone))
    assert life["ended"] == "crashed"
    assert life["left_ms"] == pytest.approx(30_000 + 4 * 100, abs=2)


def test_what_is_silent_is_done() -> None:
    """A consumer group does not know that a record was not acknowledged, or too late."""
    scenario = replace(
        appended(100, 1, 1, Service(10)), poison=(Poison("t", 0, 50, "silent"),), duration_ms=60_000
    )
    twin = only(consumer_group_twin(scenario).summary)
    assert (twin["acknowledged"], twin["deliveries"]) == (100, 100)
    held = replace(scenario, poison=(Poison("t", 0, 50, "hold", 1, hold_ms=9000),))
    holding = only(consumer_group_twin(held).summary)
    assert (holding["acknowledged"], holding["deliveries"]) == (100, 100)
    assert holding["drain_ms"] == pytest.approx(twin["drain_ms"] + 9000)


def test_deleted_records_are_lost_where_the_reset_says() -> None:
    """Who is behind the log start goes on at its new begin, or at its end."""
    topic, member = Topic("t", 1, backlog=1000), Member(service=Service(100), max_poll_records=10)
    producer = Producer("t", 1, "steady", begin_ms=20_000)
    fault = Fault(1500, "delete_records", topic="t", offset=400)
    scenario = Scenario((topic,), (member,), (producer,), faults=(fault,), duration_ms=110_000)
    fetched = ConsumerSettings(max_partition_fetch_bytes=10_000)  # ten records ahead
    resets = scenario, replace(scenario, settings=Settings(auto_offset_reset="earliest"))
    latest, earliest = (only(consumer_group_twin(one, settings=fetched).summary) for one in resets)
    assert earliest["lost"] in (370, 380, 390)
    assert latest["lost"] == earliest["lost"] + 600
    assert latest["drain_ms"] < 5000


def test_it_begins_where_the_share_group_is() -> None:
    batches = (StateBatch(12, 14, 2, 1), StateBatch(17, 17, 4, 5))
    window = Window(0, 0, 0, 10, 0, BEGINS_MS, BEGINS_MS, batches)
    topic = Topic("t", 1, starts=(PartitionStart(20, 0, window),))
    scenario = Scenario((topic,), (Member(service=Service(10)),), duration_ms=10_000)
    twin = consumer_group_twin(scenario)
    assert twin.timeline.column("lag")[0].as_py() == 6
    assert sum(row["busy_ms"] for row in lives(twin)) == 60
    finished = PartitionStart(20, 0, replace(window, batches=(StateBatch(10, 11, 2, 1),)))
    ahead = consumer_group_twin(replace(scenario, topics=(Topic("t", 1, starts=(finished,)),)))
    assert ahead.timeline.column("start_offset")[0].as_py() == 12
    new = replace(scenario, topics=(Topic("t", 1, starts=(PartitionStart(20),)),))
    assert only(consumer_group_twin(new).summary)["deliveries"] == 0
    from_begin = replace(new, settings=Settings(auto_offset_reset="earliest"))
    assert only(consumer_group_twin(from_begin).summary)["deliveries"] == 20


def test_offsets_without_records_are_no_work() -> None:
    member, settings = Member(service=Service(10)), Settings(isolation_level="read_committed")
    producer = Producer("t", 50, transaction_batches=5, abort_share=0.5, end_ms=20_000)
    scenario = Scenario((Topic("t", 1),), (member,), (producer,), settings, duration_ms=60_000)
    twin = consumer_group_twin(scenario)
    log = only(twin.summary)
    assert log["lag_end"] == 0
    assert sum(row["busy_ms"] for row in lives(twin)) == log["acknowledged"] * 10
    # Markers, and what was aborted.
    assert 0.3 * log["arrived"] < log["archived"] < 0.8 * log["arrived"]


def test_partitions_that_are_added_get_a_member() -> None:
    topic, producer = Topic("t", 3, added_ms=(20_000,)), Producer("t", 30, "steady")
    settings = Settings(auto_offset_reset="earliest")
    scenario = Scenario((topic,), (Member(count=3),), (producer,), settings, duration_ms=60_000)
    twin = consumer_group_twin(scenario)
    assert only(twin.summary)["lag_end"] <= 3
    first = next(r for r in twin.timeline.to_pylist() if r["partition"] == 2 and r["members"])
    assert 20_000 < first["time_ms"] <= 31_000
    assert only(twin.summary)["idle_members"] == 0
