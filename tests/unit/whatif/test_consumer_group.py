"""A simulated consumer group is what arithmetic and Kafka's promises say it is."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from sharelag.cli.simulate import simulate as command
from sharelag.errors import InputError
from sharelag.model import StateBatch, Window
from sharelag.whatif.compare import compared
from sharelag.whatif.consumer_group import ConsumerSettings, consumer_group_twin, should_move
from sharelag.whatif.consumer_groups.run import Run
from sharelag.whatif.consumer_groups.uniform import uniform
from sharelag.whatif.named import named
from sharelag.whatif.scenario import (
    BEGINS_MS,
    Behaviour,
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
)
from sharelag.whatif.simulate import simulate
from sharelag.whatif.simulation.summary import SUMMARY
from sharelag.whatif.simulation.tables import DELIVERIES, MEMBERS, TIMELINE

FREE = Costs(0, 0, 0)


def only(result: Any) -> dict[str, Any]:
    (row,) = result.summary.to_pylist()
    return dict(row)


def lives(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.members.to_pylist()
    return found


# ---- by arithmetic


def appended(
    records: int, members: int, partitions: int, service: Service, **more: Any
) -> Scenario:
    """Records that all come at 30 s, when each member has what it gets."""
    return Scenario(
        (Topic("t", partitions),),
        (Member(count=members, service=service, max_poll_records=10),),
        (Producer("t", records * 1000, "steady", begin_ms=30_000, end_ms=30_001),),
        costs=FREE,
        **more,
    )


@pytest.mark.parametrize("partitions", [1, 2, 6])
def test_with_a_member_for_each_partition_both_groups_drain_as_arithmetic_says(
    partitions: int,
) -> None:
    """120 records of 50 ms each, shared out evenly: 6 s over the number of partitions."""
    scenario = appended(120, partitions, partitions, Service(50))
    expected = 30_000 + 120 * 50 / partitions
    twin, share = only(consumer_group_twin(scenario)), only(simulate(scenario))
    assert twin["arrived"] == share["arrived"] == 120
    assert twin["drain_ms"] == pytest.approx(expected, abs=2)
    assert share["drain_ms"] == pytest.approx(expected, abs=2)


@pytest.mark.parametrize("members", [2, 3, 8])
def test_more_members_than_partitions_make_a_consumer_group_no_faster(members: int) -> None:
    scenario = appended(120, members, 2, Service(50))
    twin = consumer_group_twin(scenario)
    assert only(twin)["drain_ms"] == pytest.approx(30_000 + 120 * 50 / 2, abs=2)
    assert only(twin)["idle_members"] == members - 2
    assert sorted(row["deliveries"] for row in lives(twin)) == [0] * (members - 2) + [60, 60]
    assert only(simulate(scenario))["drain_ms"] <= 30_000 + 120 * 50 / members + 10 * 50 + 2


def test_the_slowest_partition_is_the_last() -> None:
    """One partition gets twice the records, or twice the work in each: that one counts."""
    scenario = Scenario(
        (Topic("t", 2, backlog=(200, 100)),),
        (Member(service=Service(10)), Member("other", service=Service(10))),
        costs=FREE,
    )
    # The second joins a heartbeat later, when the first one has said what it gives up.
    assert 2000 <= only(consumer_group_twin(scenario))["drain_ms"] <= 3000
    slow = replace(appended(120, 2, 2, Service(50, by_partition=((("t", 1), 2.0),))))
    assert only(consumer_group_twin(slow))["drain_ms"] == pytest.approx(30_000 + 60 * 100, abs=2)


def test_latencies_are_counted() -> None:
    """A record for a waiting consumer takes the answer of a fetch already there, and the work."""
    costs = Costs(network_ms=3, fetch_ms=5)
    scenario = replace(appended(1, 1, 1, Service(50)), costs=costs, step_ms=10)
    assert only(consumer_group_twin(scenario))["drain_ms"] == pytest.approx(
        30_001 + 5 + 3 + 50, abs=1
    )


def test_a_consumer_fetches_ahead() -> None:
    """While it works on a poll the next records come: a long way to the broker costs once."""
    scenario = Scenario(
        (Topic("t", 1, backlog=1000),),
        (Member(service=Service(5), max_poll_records=100),),
        costs=Costs(200, 0, 0),
    )
    row = only(consumer_group_twin(scenario))
    assert row["drain_ms"] == pytest.approx(1000 * 5 + 200 * 6, abs=1)
    small = consumer_group_twin(
        scenario, settings=ConsumerSettings(max_partition_fetch_bytes=50_000)
    )
    assert (
        only(small)["drain_ms"] > 1000 * 5 + 200 * 6 + 1000
    )  # each fetch brings 50 records: 250 ms of work


# ---- the same work


def test_both_groups_have_the_same_work_arrivals_and_luck() -> None:
    scenario = Scenario(
        (Topic("t", 3, backlog=100),),
        (Member(count=3, service=Service(10, "lognormal")),),
        (Producer("t", 50, keys=20, key_skew=1),),
        duration_ms=60_000,
    )
    twin, share = consumer_group_twin(scenario, 5), simulate(scenario, 5)
    assert twin.timeline.column("end_offset").equals(share.timeline.column("end_offset"))
    quiet = replace(scenario, producers=())
    busy = [
        sum(row["busy_ms"] for row in lives(run))
        for run in (consumer_group_twin(quiet, 5), simulate(quiet, 5))
    ]
    assert busy[0] == pytest.approx(busy[1])
    rejecting = replace(quiet, members=(Member(count=3, behaviour=Behaviour(0.9, 0, 0.1, 0)),))
    archived = [
        only(run)["archived"] for run in (consumer_group_twin(rejecting, 5), simulate(rejecting, 5))
    ]
    assert archived[0] == archived[1] > 10


def test_the_same_seed_gives_the_same_bytes() -> None:
    scenario = replace(
        named("crash-loop"),
        members=(Member(count=3, behaviour=Behaviour(crash=0.2, restart_ms=500)),),
    )
    one, other, another = (consumer_group_twin(scenario, seed) for seed in (1, 1, 2))
    for name in ("timeline", "deliveries", "members", "assignments", "summary"):
        assert getattr(one, name).equals(getattr(other, name))
    assert not one.members.equals(another.members)


def test_the_tables_are_those_of_a_simulation() -> None:
    twin = consumer_group_twin(named("walk"))
    assert twin.summary.schema.equals(SUMMARY)
    assert twin.timeline.schema.equals(TIMELINE)
    assert twin.members.schema.equals(MEMBERS)
    assert twin.deliveries.schema.equals(DELIVERIES)
    assert only(twin)["assignor"] == "consumer-group (uniform)"


# ---- what Kafka promises of a consumer group


def test_records_of_a_partition_are_done_in_order() -> None:
    scenario = Scenario(
        (Topic("t", 3, backlog=300),),
        (
            Member(
                count=4, service=Service(10, "exponential"), behaviour=Behaviour(0.8, 0.15, 0.05, 0)
            ),
        ),
        faults=(Fault(2000, "crash", "member-1"), Fault(3000, "hang", "member-0", 60_000)),
        duration_ms=200_000,
    )
    twin = consumer_group_twin(scenario)
    assert only(twin)["lag_end"] == 0
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for row in twin.finished().to_pylist():
        by_partition.setdefault(row["partition"], []).append(
            (row["first_offset"], row["last_offset"])
        )
    for mine in by_partition.values():
        assert mine[0][0] == 0
        assert mine[-1][1] == 299
        assert all(after[0] == before[1] + 1 for before, after in pairwise(mine))


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
    assert only(twin)["redeliveries"] == only(twin)["lag_end"] == 0
    assert only(twin)["moves"] >= 3


def test_who_crashes_is_missed_when_its_session_times_out() -> None:
    """Its partition stands still for 45 s; then the other one goes on from what was committed."""
    scenario = appended(200, 2, 2, Service(100), duration_ms=120_000)
    crashed = replace(scenario, faults=(Fault(36_050, "crash", "member-0"),), step_ms=100)
    twin = consumer_group_twin(crashed)
    owned = {
        partition: [row for row in twin.timeline.to_pylist() if row["partition"] == partition]
        for partition in (0, 1)
    }
    (mine,) = [p for p, found in owned.items() if found[361]["members"] == 0]
    gap = [row["time_ms"] for row in owned[mine] if row["time_ms"] > 36_050 and row["members"] == 0]
    # Its last heartbeat was up to 5 s before, and the other's next one is up to 5 s after.
    assert 40_000 - 100 <= gap[-1] - gap[0] <= 50_000 + 100
    assert only(twin)["lag_end"] == 0
    # At 30 s the first poll had nothing before it; the commits were at polls 5 s apart: at 35 s, of
    # the 50 done then.
    assert only(twin)["redeliveries"] == twin.duplicates
    assert (
        0 < twin.duplicates <= 6 * 10 + 10
    )  # what one member does in the six seconds before, and the batch at hand
    often = consumer_group_twin(crashed, settings=ConsumerSettings(auto_commit_interval_ms=1))
    assert often.duplicates == 10  # the batch at hand only


def test_who_leaves_commits() -> None:
    scenario = appended(200, 2, 2, Service(100), duration_ms=120_000)
    leaving = replace(
        scenario,
        members=tuple(
            replace(scenario.members[0], name=name, count=1, leave_ms=leave)
            for name, leave in (("a", 33_000), ("b", None))
        ),
    )
    twin = consumer_group_twin(leaving)
    assert only(twin)["redeliveries"] == only(twin)["lag_end"] == 0
    assert 200 * 100 / 2 < only(twin)["drain_ms"] - 30_000 <= 200 * 100


def test_who_does_not_poll_for_too_long_loses_its_partitions() -> None:
    """A batch of 10 s exceeds ``max.poll.interval.ms`` of 4 s: another member does it again."""
    scenario = appended(20, 2, 1, Service(1000), duration_ms=120_000)
    kept = consumer_group_twin(scenario)
    lost = consumer_group_twin(scenario, settings=ConsumerSettings(max_poll_interval_ms=4000))
    assert kept.duplicates == 0
    assert only(kept)["drain_ms"] == pytest.approx(50_000, abs=2)
    assert lost.duplicates >= 10
    assert sum(row["deliveries"] > 0 for row in lives(lost)) == 2


def test_who_is_muted_works_on_and_its_work_is_done_twice() -> None:
    scenario = appended(600, 2, 1, Service(100), duration_ms=180_000)
    (owner,) = [row["member"] for row in lives(consumer_group_twin(scenario)) if row["deliveries"]]
    muted = replace(scenario, faults=(Fault(29_000, "mute", owner, 100_000),))
    twin = consumer_group_twin(muted)
    assert only(twin)["lag_end"] == 0
    assert sum(row["deliveries"] > 0 for row in lives(twin)) == 2
    assert twin.duplicates > 0


def test_who_is_fenced_commits_nothing() -> None:
    """A muted member is out of the group after 45 s, works on, and its commits do not count."""
    scenario = appended(1200, 2, 1, Service(100), duration_ms=140_000)
    (owner,) = [row["member"] for row in lives(consumer_group_twin(scenario)) if row["deliveries"]]
    (other,) = {"member-0", "member-1"} - {owner}
    faults = (Fault(29_000, "mute", owner), Fault(60_000, "crash", other))
    run = Run(replace(scenario, faults=faults), 0, ConsumerSettings())
    done = only(run.result())["completed"]
    assert done > 1000
    committed = run.partitions[0].committed
    assert committed is not None
    # It was heard of last between 24 s and 29 s; a record takes 0.1 s, and the first came at 30 s.
    assert 300 < committed <= (29 + 45 - 30) * 10


def test_who_leaves_at_work_does_not_commit_what_it_works_on() -> None:
    scenario = appended(200, 2, 1, Service(100), duration_ms=120_000)
    (owner,) = [row["member"] for row in lives(consumer_group_twin(scenario)) if row["deliveries"]]
    twin = consumer_group_twin(replace(scenario, faults=(Fault(32_550, "subscribe", owner),)))
    assert only(twin)["lag_end"] == 0
    assert twin.duplicates == 10  # the batch at hand
    assert sum(row["deliveries"] > 0 for row in lives(twin)) == 2


def test_a_failing_record_holds_its_partition_until_it_is_given_up() -> None:
    """After five attempts in place the record is skipped; in the share group others pass it."""
    scenario = replace(
        appended(100, 1, 1, Service(100), duration_ms=120_000),
        poison=(Poison("t", 0, 50), Poison("t", 0, 60, "reject")),
    )
    twin = only(consumer_group_twin(scenario))
    assert twin["drain_ms"] == pytest.approx(30_000 + 100 * 100 + 4 * 100, abs=2)
    assert (twin["archived"], twin["acknowledged"], twin["deliveries"]) == (2, 98, 104)
    assert twin["redeliveries"] == 4
    assert consumer_group_twin(scenario).duplicates == 0  # it gave them back to itself
    twice = consumer_group_twin(scenario, settings=ConsumerSettings(attempts=2))
    assert only(twice)["deliveries"] == 101
    limits = replace(scenario, settings=Settings(Limits(delivery_count_limit=3)))
    assert only(consumer_group_twin(limits))["deliveries"] == 102
    mended = replace(scenario, poison=(Poison("t", 0, 50, attempts=2),))
    assert (
        only(consumer_group_twin(mended))["archived"],
        only(consumer_group_twin(mended))["deliveries"],
    ) == (0, 102)


def test_a_record_that_kills_stops_a_consumer_group_for_ever() -> None:
    """Nothing counts deliveries, so that it kills everybody; a share group archives it at five."""
    scenario = named("crash-loop")
    twin, share = only(consumer_group_twin(scenario)), only(simulate(scenario))
    assert twin["lag_end"] >= 2000 - 120
    assert share["lag_end"] == 0
    once = replace(scenario, poison=(Poison("orders", 0, 120, "crash", 1),))
    assert only(consumer_group_twin(once))["lag_end"] == 0


def test_what_is_silent_is_done() -> None:
    """A consumer group does not know that a record was not acknowledged."""
    scenario = replace(
        appended(100, 1, 1, Service(10)), poison=(Poison("t", 0, 50, "silent"),), duration_ms=60_000
    )
    twin = only(consumer_group_twin(scenario))
    assert (twin["acknowledged"], twin["deliveries"]) == (100, 100)


def test_deleted_records_are_lost_where_the_reset_says() -> None:
    """Who is behind the log start goes on at its new begin, or at its end."""
    scenario = Scenario(
        (Topic("t", 1, backlog=1000),),
        (Member(service=Service(100), max_poll_records=10),),
        (Producer("t", 1, "steady", begin_ms=20_000),),
        faults=(Fault(1500, "delete_records", topic="t", offset=400),),
        duration_ms=110_000,
    )
    fetched = ConsumerSettings(max_partition_fetch_bytes=10_000)  # ten records ahead
    earliest = only(
        consumer_group_twin(
            replace(scenario, settings=Settings(auto_offset_reset="earliest")), settings=fetched
        )
    )
    latest = only(consumer_group_twin(scenario, settings=fetched))
    assert earliest["lost"] in (370, 380, 390)
    assert latest["lost"] == earliest["lost"] + 600
    assert latest["drain_ms"] < 5000


def test_it_begins_where_the_share_group_is() -> None:
    batches = (StateBatch(12, 14, 2, 1), StateBatch(17, 17, 4, 5))
    window = Window(0, 0, 0, 10, 0, BEGINS_MS, BEGINS_MS, batches)
    scenario = Scenario(
        (Topic("t", 1, starts=(PartitionStart(20, 0, window),)),),
        (Member(service=Service(10)),),
        duration_ms=10_000,
    )
    twin = consumer_group_twin(scenario)
    assert twin.timeline.column("lag")[0].as_py() == 6
    assert sum(row["busy_ms"] for row in lives(twin)) == 60
    new = replace(scenario, topics=(Topic("t", 1, starts=(PartitionStart(20),)),))
    assert only(consumer_group_twin(new))["deliveries"] == 0
    from_begin = replace(new, settings=Settings(auto_offset_reset="earliest"))
    assert only(consumer_group_twin(from_begin))["deliveries"] == 20


def test_offsets_without_records_are_no_work() -> None:
    scenario = Scenario(
        (Topic("t", 1),),
        (Member(service=Service(10)),),
        (Producer("t", 50, transaction_batches=5, abort_share=0.5, end_ms=20_000),),
        Settings(isolation_level="read_committed"),
        duration_ms=60_000,
    )
    twin = consumer_group_twin(scenario)
    log = only(twin)
    assert log["lag_end"] == 0
    assert sum(row["busy_ms"] for row in lives(twin)) == log["acknowledged"] * 10
    assert (
        0.3 * log["arrived"] < log["archived"] < 0.8 * log["arrived"]
    )  # markers, and what was aborted


def test_partitions_that_are_added_get_a_member() -> None:
    scenario = Scenario(
        (Topic("t", 3, added_ms=(20_000,)),),
        (Member(count=3),),
        (Producer("t", 30, "steady"),),
        Settings(auto_offset_reset="earliest"),
        duration_ms=60_000,
    )
    twin = consumer_group_twin(scenario)
    assert only(twin)["lag_end"] <= 3
    first = next(
        row for row in twin.timeline.to_pylist() if row["partition"] == 2 and row["members"]
    )
    assert 20_000 < first["time_ms"] <= 31_000
    assert only(twin)["idle_members"] == 0


behaviours = st.sampled_from([Behaviour(), Behaviour(0.7, 0.2, 0.05, 0.05)])


@settings(max_examples=40, deadline=None)
@given(
    partitions=st.integers(1, 4),
    members=st.integers(1, 5),
    behaviour=behaviours,
    crash=st.sampled_from([0.0, 0.05]),
    kinds=st.lists(
        st.tuples(st.sampled_from(["crash", "hang", "mute"]), st.integers(0, 50)), max_size=3
    ),
    seed=st.integers(0, 5),
)
def test_nothing_is_left_out(
    partitions: int,
    members: int,
    behaviour: Behaviour,
    crash: float,
    kinds: list[tuple[Any, int]],
    seed: int,
) -> None:
    """Whatever happens to the members: what is done is done once and in order, and counts add up."""
    scenario = Scenario(
        (Topic("t", partitions, backlog=80),),
        (
            Member(
                "m",
                count=members,
                service=Service(20, "exponential"),
                behaviour=replace(behaviour, crash=crash, restart_ms=2000),
                max_poll_records=15,
            ),
            Member("late", join_ms=4000, leave_ms=20_000),
        ),
        faults=tuple(
            Fault(at * 1000, kind, "late" if at % 3 else "m" if members == 1 else "m-0", 20_000)
            for kind, at in kinds
        ),
        duration_ms=150_000,
    )
    twin = consumer_group_twin(scenario, seed)
    row = only(twin)
    assert row["completed"] + row["lag_end"] == 80 * partitions
    spans = sorted(
        (one["partition"], one["first_offset"], one["last_offset"])
        for one in twin.finished().to_pylist()
    )
    for before, after in pairwise(spans):
        assert after[0] > before[0] or after[1] == before[2] + 1
    assert (
        max(twin.timeline.column("members").to_pylist()) <= 2
    )  # one, and one that does not know yet that it lost it
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
def test_partitions_are_shared_out_evenly_and_stay(
    members: list[tuple[set[int], set[int]]], same: bool
) -> None:
    """Three topics of four partitions: each partition wanted has one member, in even numbers."""
    places = {topic: frozenset(range(4 * topic, 4 * topic + 4)) for topic in range(3)}
    wishes = [members[0][0] if same else wish for wish, _ in members]
    subscribed = {
        f"m{n}": frozenset().union(*(places[topic] for topic in wish))
        for n, wish in enumerate(wishes)
    }
    given_to = uniform(subscribed, {f"m{n}": frozenset(had) for n, (_, had) in enumerate(members)})
    assert sorted(place for mine in given_to.values() for place in mine) == sorted(
        frozenset().union(*subscribed.values())
    )
    for member, mine in given_to.items():
        assert mine <= subscribed[member]
    sizes = [len(mine) for mine in given_to.values()]
    if same:
        assert max(sizes) - min(sizes) <= 1
    assert uniform(subscribed, given_to) == given_to


def test_one_more_member_moves_no_more_than_it_gets() -> None:
    four = {f"m{n}": frozenset(range(12)) for n in range(4)}
    before = uniform({name: four[name] for name in ("m0", "m1", "m2")}, {})
    after = uniform(four, before)
    assert sorted(map(len, after.values())) == [3] * 4
    assert sum(len(before[name] - after[name]) for name in before) == 3


# ---- should we move?


@pytest.mark.row("FND-13")
def test_only_a_share_group_uses_more_members_than_partitions() -> None:
    """4 partitions, 12 consumers: a consumer group uses 4, a share group all, and is faster."""
    twins, shares = [], []
    for members in (2, 4, 8, 12):
        scenario = replace(named("idle-members").with_members(members), duration_ms=80_000)
        twins.append(only(consumer_group_twin(scenario)))
        shares.append(only(simulate(scenario)))
    assert [row["members"] - row["idle_members"] for row in twins] == [2, 4, 4, 4]
    assert [row["members"] - row["idle_members"] for row in shares] == [2, 4, 8, 12]
    assert twins[1]["drain_ms"] < 0.7 * twins[0]["drain_ms"]
    assert [row["drain_ms"] for row in twins[2:]] == pytest.approx(
        [twins[1]["drain_ms"]] * 2, rel=0.01
    )
    drains = [row["drain_ms"] for row in shares]
    assert drains[3] < 0.8 * drains[2] < 0.6 * drains[1] < 0.5 * drains[0]


def test_should_we_move() -> None:
    """Four partitions, twelve members: a share group is thrice as fast, and not in order."""
    progress: list[tuple[int, int]] = []
    moving = should_move(
        replace(named("idle-members"), duration_ms=60_000),
        range(6),
        progress=lambda *done: progress.append(done),
    )
    assert progress == [(2 * n, 12) for n in range(1, 7)]
    answers = {row["measure"]: row for row in moving.answers.to_pylist()}
    assert answers["idle_members"]["consumer_group"] == 8
    assert answers["idle_members"]["share_group"] == 0
    assert answers["drain_ms"]["share_group"] < answers["drain_ms"]["consumer_group"] / 2
    assert answers["drain_ms"]["better"] == answers["idle_members"]["better"] == "share group"
    assert answers["parallelism"]["consumer_group"] <= 4
    assert answers["parallelism"]["share_group"] > 7
    assert answers["parallelism"]["difference"] == pytest.approx(
        answers["parallelism"]["share_group"] - answers["parallelism"]["consumer_group"]
    )
    assert answers["lost"]["better"] is None
    # The runs can be compared by all else, too.
    comparison = compared(moving.runs, "consumer group")
    assert {row["variant"] for row in comparison.measures.to_pylist()} == {
        "consumer group",
        "share group",
    }
    with pytest.raises(InputError, match="at least one seed"):
        should_move(named("walk"), [])


def test_the_price_of_moving_is_the_order() -> None:
    """With uneven work, records of a partition overtake each other in a share group only."""
    scenario = Scenario(
        (Topic("t", 2, backlog=600, batch_records=5),),
        (Member(count=6, service=Service(10, "exponential"), max_poll_records=5),),
        duration_ms=60_000,
    )
    told = {row["measure"]: row for row in should_move(scenario, range(3)).answers.to_pylist()}
    assert told["out_of_order_share"]["consumer_group"] == 0
    assert 0.2 < told["out_of_order_share"]["share_group"] < 1
    assert told["out_of_order_share"]["better"] == "consumer group"


def test_overtaking_is_counted_by_offsets() -> None:
    from sharelag.whatif.consumer_group import _out_of_order

    rows = [
        (1.0, "t", 0, 10, 19),  # before 0..9
        (2.0, "t", 0, 0, 9),
        (3.0, "t", 0, 20, 20),
        (0.5, "t", 1, 5, 5),
        (0.4, "t", 1, 0, 4),
        (0.1, "s", 0, 7, 8),  # another topic
    ]
    columns = dict(
        zip(
            ("time_ms", "topic", "partition", "first_offset", "last_offset"),
            zip(*rows, strict=True),
            strict=True,
        )
    )
    assert _out_of_order(pa.table(columns)) == 10 / 29
    assert _out_of_order(pa.table(columns).slice(0, 0)) is None


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"auto_commit_interval_ms": 0}, {"attempts": 0}, {"session_timeout_ms": 0}):
        with pytest.raises(InputError):
            ConsumerSettings(**wrong)


def test_the_command_prints_the_answers() -> None:
    given = ("--scenario", "idle-members", "--duration", "60s", "--against", "consumer-group")
    answer = CliRunner().invoke(command, [*given, "--seeds", "6"], catch_exceptions=False)
    lines = answer.stdout.splitlines()
    assert lines[0].split() == [
        "MEASURE", "VARIANT", "CONSUMER-GROUP", "SHARE-GROUP",
        "DIFFERENCE", "AT-LEAST", "AT-MOST", "BETTER",
    ]  # fmt: skip
    (drain,) = [line for line in lines if line.startswith("drain_ms")]
    assert drain.endswith("share group")
    assert " s " in drain
    assert "6 seeds" in answer.stderr
    answer = CliRunner().invoke(
        command, [*given, "--seeds", "2", "-o", "json"], catch_exceptions=False
    )
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert rows[0]["measure"] == "drain_ms"
    assert rows[0]["consumer_group"] == pytest.approx(40_000, abs=3000)
    assert {row["variant"] for row in rows} == {"as it is"}


def test_the_command_takes_autoscalers() -> None:
    policies = ("--autoscale", "fixed:2", "--autoscale", "keda:threshold=1000,min=1,max=9")
    given = ("--scenario", "burst", *policies)
    answer = CliRunner().invoke(
        command, [*given, "--duration", "60s", "-o", "json"], catch_exceptions=False
    )
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [row["variant"] for row in rows] == ["fixed:2", "keda:threshold=1000,min=1,max=9"]
    assert rows[0]["member_hours"] < rows[1]["member_hours"]
    refused = CliRunner().invoke(
        command, ["--scenario", "burst", "--autoscale", "fixed:2", "--fewest-members", "x"]
    )
    assert refused.exit_code == 2
    assert "choose one" in refused.output
