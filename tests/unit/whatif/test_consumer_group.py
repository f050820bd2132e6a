"""A simulated consumer group is what arithmetic and Kafka's promises say, also if members fail."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharelag.errors import InputError
from sharelag.model import StateBatch, Window
from sharelag.whatif import (
    Behaviour,
    ConsumerSettings,
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
    compared,
    consumer_group_twin,
    named,
    should_move,
    simulate,
)
from sharelag.whatif.consumer_group import _out_of_order
from sharelag.whatif.consumer_simulation import ConsumerGroupSimulation, uniform
from sharelag.whatif.scenario import BEGINS_MS
from sharelag.whatif.simulation.tables import FINISHED
from tests.support.command import ask, refused, sharelag
from tests.support.simulations import FREE, appended, at, lives, only


@pytest.mark.parametrize("partitions", [1, 2, 6])
def test_with_a_member_each_both_groups_drain_as_arithmetic_says(partitions: int) -> None:
    """120 records of 50 ms each, shared out evenly: 6 s over the number of partitions."""
    scenario = appended(120, partitions, partitions, Service(50))
    for run in (consumer_group_twin(scenario), simulate(scenario)):
        assert only(run.summary)["arrived"] == 120
        assert only(run.summary)["drain_ms"] == pytest.approx(30_000 + 120 * 50 / partitions, abs=2)


def test_the_slowest_partition_is_the_last() -> None:
    """One partition gets twice the records, or twice the work in each: that one counts."""
    members = (Member(service=Service(10)), Member("other", service=Service(10)))
    scenario = Scenario((Topic("t", 2, backlog=(200, 100)),), members, costs=FREE)
    # The second joins a heartbeat later, when the first one has said what it gives up.
    assert 2000 <= drains(scenario) <= 3000
    slow = appended(120, 2, 2, Service(50, by_partition=((("t", 1), 2.0),)))
    assert drains(slow) == pytest.approx(30_000 + 60 * 100, abs=2)


def test_latencies_are_counted() -> None:
    """A record for a waiting consumer takes the answer of a fetch already there, and the work."""
    costs = Costs(network_ms=3, fetch_ms=5)
    scenario = replace(appended(1, 1, 1, Service(50)), costs=costs, step_ms=10)
    assert drains(scenario) == pytest.approx(30_001 + 5 + 3 + 50, abs=1)


def test_a_consumer_fetches_ahead() -> None:
    """While it works on a poll the next records come: a long way to the broker costs once."""
    member = Member(service=Service(5), max_poll_records=100)
    scenario = Scenario((Topic("t", 1, backlog=1000),), (member,), costs=Costs(200, 0, 0))
    assert drains(scenario) == pytest.approx(1000 * 5 + 200 * 6, abs=1)
    # Each fetch brings 50 records: 250 ms of work.
    small = ConsumerSettings(max_partition_fetch_bytes=50_000)
    assert drains(scenario, settings=small) > 1000 * 5 + 200 * 6 + 1000


def drains(scenario: Scenario, **more: Any) -> float:
    """When the consumer group has nothing left, in ms."""
    return float(only(consumer_group_twin(scenario, **more).summary)["drain_ms"])


# ---- the same work
def test_both_groups_have_the_same_work_arrivals_and_luck() -> None:
    member = Member(count=3, service=Service(10, "lognormal"))
    producer = Producer("t", 50, keys=20, key_skew=1)
    scenario = Scenario((Topic("t", 3, backlog=100),), (member,), (producer,), duration_ms=60_000)

    def both(given: Scenario) -> list[Any]:
        return [consumer_group_twin(given, 5), simulate(given, 5)]

    twin, share = both(scenario)
    assert twin.timeline.column("end_offset").equals(share.timeline.column("end_offset"))
    quiet = replace(scenario, producers=())
    busy = [sum(row["busy_ms"] for row in lives(run)) for run in both(quiet)]
    assert busy[0] == pytest.approx(busy[1])
    rejecting = replace(quiet, members=(Member(count=3, behaviour=Behaviour(0.9, 0, 0.1, 0)),))
    archived = [only(run.summary)["archived"] for run in both(rejecting)]
    assert archived[0] == archived[1] > 10


def test_who_would_have_left_by_now_does_not_come_back() -> None:
    member = Member("a", leave_ms=4000, behaviour=Behaviour(restart_ms=2000))
    crash = (Fault(3000, "crash", "a"),)
    topics = (Topic("t", 1, backlog=20),)
    scenario = Scenario(topics, (member,), faults=crash, duration_ms=10_000)
    for run in (consumer_group_twin(scenario), simulate(scenario)):
        assert [life["ended"] for life in lives(run)] == ["crashed"]


def test_the_same_seed_gives_the_same_bytes() -> None:
    crashing = (Member(count=3, behaviour=Behaviour(crash=0.2, restart_ms=500)),)
    scenario = replace(named("crash-loop"), members=crashing)
    one, other, another = (consumer_group_twin(scenario, seed) for seed in (1, 1, 2))
    for name in ("timeline", "deliveries", "members", "assignments", "summary"):
        assert getattr(one, name).equals(getattr(other, name))
    assert not one.members.equals(another.members)


@settings(max_examples=40, deadline=None)
@given(
    counts=st.tuples(st.integers(1, 4), st.integers(1, 5)),
    behaviour=st.sampled_from([Behaviour(), Behaviour(0.7, 0.2, 0.05, 0.05)]),
    crash=st.sampled_from([0.0, 0.05]),
    kinds=st.lists(
        st.tuples(st.sampled_from(["crash", "hang", "mute"]), st.integers(0, 50)), max_size=3
    ),
    seed=st.integers(0, 5),
)
def test_nothing_is_left_out(
    counts: tuple[int, int], behaviour: Behaviour, crash: float, kinds: list[Any], seed: int
) -> None:
    """Whatever happens to members: what is done is done once, in order, and counts add up."""
    partitions, members = counts
    behaviour = replace(behaviour, crash=crash, restart_ms=2000)
    work: dict[str, Any] = {"service": Service(20, "exponential"), "max_poll_records": 15}
    name = "m" if members == 1 else "m-0"
    faults = tuple(Fault(at * 1000, kind, "late" if at % 3 else name, 20_000) for kind, at in kinds)
    scenario = Scenario(
        (Topic("t", partitions, backlog=80),),
        (
            Member("m", count=members, behaviour=behaviour, **work),
            Member("late", join_ms=4000, leave_ms=20_000),
        ),
        faults=faults,
        duration_ms=150_000,
    )
    twin = consumer_group_twin(scenario, seed)
    row = only(twin.summary)
    assert row["completed"] + row["lag_end"] == 80 * partitions
    spans = sorted(
        (one["partition"], one["first_offset"], one["last_offset"])
        for one in twin.finished().to_pylist()
    )
    for before, after in pairwise(spans):
        assert after[0] > before[0] or after[1] == before[2] + 1
    # One, and one that does not know yet that it lost it.
    assert max(twin.timeline.column("members").to_pylist()) <= 2
    assert row["deliveries"] - row["redeliveries"] <= 80 * partitions
    assert twin.duplicates <= row["redeliveries"]
    assert row["busy_share"] <= 1


# ---- the assignor
@given(
    members=st.lists(
        st.tuples(st.sets(st.integers(0, 2)), st.sets(st.integers(0, 11))), min_size=1, max_size=6
    ),
    same=st.booleans(),
)
def test_partitions_are_shared_out(members: list[tuple[set[int], set[int]]], same: bool) -> None:
    """Three topics of four partitions: each partition wanted has one member, in even numbers."""
    wishes = [members[0][0] if same else wish for wish, _ in members]
    subscribed = {
        f"m{n}": frozenset(4 * topic + place for topic in wish for place in range(4))
        for n, wish in enumerate(wishes)
    }
    given_to = uniform(subscribed, {f"m{n}": frozenset(had) for n, (_, had) in enumerate(members)})
    taken = sorted(place for mine in given_to.values() for place in mine)
    assert taken == sorted(frozenset().union(*subscribed.values()))
    assert all(mine <= subscribed[member] for member, mine in given_to.items())
    sizes = [len(mine) for mine in given_to.values()]
    assert not same or max(sizes) - min(sizes) <= 1
    assert uniform(subscribed, given_to) == given_to


def test_one_more_member_moves_no_more_than_it_gets() -> None:
    four = {f"m{n}": frozenset(range(12)) for n in range(4)}
    before = uniform({name: four[name] for name in ("m0", "m1", "m2")}, {})
    after = uniform(four, before)
    assert sorted(map(len, after.values())) == [3] * 4
    assert sum(len(before[name] - after[name]) for name in before) == 3


def test_partitions_with_the_fewest_to_choose_from_come_first() -> None:
    """Only so everybody has one: m1 may have nothing but 0, and 2 is for m2 alone."""
    subscribed = {"m0": frozenset({0, 1}), "m1": frozenset({0}), "m2": frozenset({1, 2})}
    assert uniform(subscribed, {}) == {"m0": {1}, "m1": {0}, "m2": {2}}


# ---- should we move?
@pytest.mark.row("FND-13")
def test_only_a_share_group_uses_more_members_than_partitions() -> None:
    """4 partitions, 12 consumers: a consumer group uses 4, a share group all, and is faster."""
    twins, shares = [], []
    for members in (2, 4, 8, 12):
        scenario = replace(named("idle-members").with_members(members), duration_ms=80_000)
        twins.append(only(consumer_group_twin(scenario).summary))
        shares.append(only(simulate(scenario).summary))
    assert [row["members"] - row["idle_members"] for row in twins] == [2, 4, 4, 4]
    assert [row["members"] - row["idle_members"] for row in shares] == [2, 4, 8, 12]
    twin, share = ([row["drain_ms"] for row in group] for group in (twins, shares))
    assert twin[1] < 0.7 * twin[0]
    assert twin[2:] == pytest.approx([twin[1]] * 2, rel=0.01)
    assert share[3] < 0.8 * share[2] < 0.6 * share[1] < 0.5 * share[0]


def test_should_we_move() -> None:
    """Four partitions, twelve members: a share group is thrice as fast, and not in order."""
    progress: list[tuple[int, int]] = []
    scenario = replace(named("idle-members"), duration_ms=60_000)
    moving = should_move(scenario, range(6), progress=lambda *done: progress.append(done))
    assert progress == [(2 * n, 12) for n in range(1, 7)]
    answers = {row["measure"]: row for row in moving.answers.to_pylist()}
    drain, idle, parallel = (answers[name] for name in ("drain_ms", "idle_members", "parallelism"))
    assert (idle["consumer_group"], idle["share_group"]) == (8, 0)
    assert drain["share_group"] < drain["consumer_group"] / 2
    assert drain["better"] == idle["better"] == "share group"
    assert parallel["consumer_group"] <= 4 < 7 < parallel["share_group"]
    more = parallel["share_group"] - parallel["consumer_group"]
    assert parallel["difference"] == pytest.approx(more)
    assert answers["lost"]["better"] is None
    # The runs can be compared by all else, too.
    comparison = compared(moving.runs, "consumer group")
    variants = {row["variant"] for row in comparison.measures.to_pylist()}
    assert variants == {"consumer group", "share group"}
    with pytest.raises(InputError, match="at least one seed"):
        should_move(named("walk"), [])
    stops = replace(named("walk"), brokers=2, faults=(Fault(1, "broker_down", broker=1),))
    with pytest.raises(InputError, match="leave out the broker_down faults"):
        should_move(stops)


def test_the_price_of_moving_is_the_order() -> None:
    """With uneven work, records of a partition overtake each other in a share group only."""
    topic = Topic("t", 2, backlog=600, batch_records=5)
    member = Member(count=6, service=Service(10, "exponential"), max_poll_records=5)
    scenario = Scenario((topic,), (member,), duration_ms=60_000)
    answers = should_move(scenario, range(3)).answers.to_pylist()
    (order,) = [row for row in answers if row["measure"] == "out_of_order_share"]
    assert order["consumer_group"] == 0
    assert 0.2 < order["share_group"] < 1
    assert order["better"] == "consumer group"


def test_overtaking_is_counted_by_offsets() -> None:
    rows = [
        (1.0, "t", 0, 10, 19),  # before 0..9
        (2.0, "t", 0, 0, 9),
        (3.0, "t", 0, 20, 20),
        (0.5, "t", 1, 5, 5),
        (0.4, "t", 1, 0, 4),
        (0.1, "s", 0, 7, 8),  # another topic
    ]
    table = pa.table(dict(zip(FINISHED.names, zip(*rows, strict=True), strict=True)), FINISHED)
    assert _out_of_order(table) == 10 / 29
    assert _out_of_order(table.slice(0, 0)) is None


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"auto_commit_interval_ms": 0}, {"attempts": 0}, {"session_timeout_ms": 0}):
        with pytest.raises(InputError):
            ConsumerSettings(**wrong)


def test_the_command_prints_the_answers() -> None:
    given = ("--scenario", "idle-members", "--duration", "60s", "--against", "consumer-group")
    answer = sharelag("simulate", *given, "--seeds", "6")
    lines = answer.stdout.splitlines()
    headings = "MEASURE VARIANT CONSUMER-GROUP SHARE-GROUP DIFFERENCE FROM TO BETTER"
    assert " ".join(lines[0].split()) == headings
    (drain,) = [line for line in lines if line.startswith("drain_ms")]
    assert drain.endswith("share group")
    assert " s " in drain
    assert "6 seeds" in answer.stderr
    rows = ask("simulate", *given, "--seeds", "2")
    assert rows[0]["measure"] == "drain_ms"
    assert rows[0]["consumer_group"] == pytest.approx(40_000, abs=3000)
    assert {row["variant"] for row in rows} == {"as it is"}


def test_the_command_takes_autoscalers() -> None:
    policies = ["fixed:2", "keda:threshold=1000,min=1,max=9"]
    given = ("--scenario", "burst", *(part for one in policies for part in ("--autoscale", one)))
    rows = ask("simulate", *given, "--duration", "60s")
    assert [row["variant"] for row in rows] == policies
    assert rows[0]["member_hours"] < rows[1]["member_hours"]
    assert "choose one" in refused("simulate", *given[:4], "--fewest-members", "x", code=2)


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
