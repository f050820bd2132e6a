"""What the KIPs say of groups, members and assignments, in the simulator and our readers."""

from dataclasses import replace

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.metrics.lag import lag_arrow
from sharelag.model import SharePartition
from sharelag.model.settings import check_all, lint_consumer
from sharelag.model.settings.catalogue import find
from sharelag.replay import replay_arrow
from sharelag.replay.members import groups_arrow, members_arrow
from sharelag.whatif import (
    Fault,
    Group,
    Member,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    register,
    simulate,
)
from sharelag.whatif.compiled.run import Simulation
from sharelag.whatif.records import StateTopic
from sharelag.whatif.simulation.clock import MS
from sharelag.wire import decode_arrow
from tests.support.group_records import at as second
from tests.support.group_records import delete, join, log, record
from tests.support.groups_to_assign import check
from tests.support.records import offsets
from tests.support.simulations import at, only


# ---- what a group is ----
@pytest.mark.row("FND-06")
def test_one_partition_and_three_groups_are_three_share_partitions() -> None:
    topic = StateTopic()
    for group in ("g1", "g2", "g3"):
        topic.initialize(SharePartition(group, "A" * 22, 0), 1, 0, 0)
    windows = replay_arrow(decode_arrow(topic.records()).records)
    lag = lag_arrow(windows, offsets(7)).to_pylist()
    found = [(row["group_id"], row["topic"], row["partition"], row["lag"]) for row in lag]
    assert found == [(group, "orders", 0, 7) for group in ("g1", "g2", "g3")]


@pytest.mark.row("FND-08")
def test_members_ask_the_leaders_only() -> None:
    """Where the leader is, wherever the member is."""
    member = Member(rack="a", max_poll_records=5)
    scenario = Scenario((Topic("t", 3, backlog=30),), (member,), brokers=3, duration_ms=20_000)
    change = Fault(8000, "leader_change", topic="t")
    result = simulate(replace(scenario, faults=(change,)), requests=True)
    asked = [(row["time_ms"], row["broker"]) for row in result.requests.to_pylist()]
    assert {broker for time, broker in asked if time < 8000} == {0, 1, 2}
    assert {broker for time, broker in asked if time > 9000} == {1, 2}


# ---- group records ----
@pytest.mark.row("GRP-16", "GMR-01")
def test_a_group_is_there_from_its_first_record_to_its_tombstone() -> None:
    rows = [record(11, "g", epoch=1, metadata_hash=7), *delete("other"), *delete("g")]
    table = log(rows)
    there = [groups_arrow(table, second(n)).num_rows for n in range(len(rows) + 1)]
    assert there == [1, 1, 1, 1, 1, 1, 0, 0]
    line = groups_arrow(table, second(3)).to_pylist()[0]
    assert (line["group_id"], line["changed"]) == ("g", second(0))


@pytest.mark.row("GRP-02")
def test_a_group_has_the_fields_of_the_kip() -> None:
    fields = {field.name: field.type for field in schemas.GROUPS}
    assert fields["group_id"] == pa.string()
    assert fields["group_epoch"] == fields["assignment_epoch"] == fields["members"] == pa.int32()
    partitions = fields["initialized_topics"].value_type
    names = {partitions.field(n).name for n in range(partitions.num_fields)}
    assert names == {"topic_id", "topic_name", "partitions"}
    of_member = {field.name: field.type for field in schemas.MEMBERS}
    assert of_member["subscribed_topic_names"] == pa.list_(pa.string())
    # The assignor is the brokers', not each group's.
    assert find("group.share.assignors") is not None


@pytest.mark.row("WIN-08")
def test_members_have_no_offsets_and_no_positions() -> None:
    names = [name for schema in (schemas.MEMBERS, schemas.GROUPS) for name in schema.names]
    assert not [name for name in names if "offset" in name or "position" in name]


# ---- rebalances ----
@pytest.mark.row("GRP-08")
def test_members_come_to_their_targets_one_by_one_without_waiting_for_each_other() -> None:
    """b gets its partition at once, a gives it up at its next heartbeat: meanwhile both fetch."""
    topic, producer = Topic("t", 2), Producer("t", 100, "steady")
    members = (Member("a"), Member("b", join_ms=2000))
    settings = Settings(assignment_interval_ms=0)
    scenario = Scenario((topic,), members, (producer,), settings, duration_ms=12_000, step_ms=100)
    result = simulate(scenario)
    assert result.assignments.column("revoked").to_pylist() == [0, 1]
    moved = next(p for p in (0, 1) if at(result, 4000, p)["members"] == 2)
    rows = [row for row in result.timeline.to_pylist() if row["partition"] == moved]
    both = [row["time_ms"] for row in rows if row["members"] == 2]
    assert (both[0], both[-1]) == (2100, 5000)  # a's heartbeat after that of 0 ms
    delivered = [row for row in result.deliveries.to_pylist() if row["partition"] == moved]
    assert {row["member"] for row in delivered} == {"a", "b"}
    assert only(result.summary)["redeliveries"] == 0


#: Two join, one subscribes to another topic, one is not heard of any more, a topic gets a
#: partition.
CHANGING = Scenario(
    (Topic("t", 3, added_ms=(60_000,)), Topic("u", 1)),
    (Member("a", topics=("t",)), Member("b", join_ms=1000)),
    settings=Settings(assignment_interval_ms=0),
    faults=(Fault(5000, "subscribe", "a", topics=("t", "u")), Fault(6000, "hang", "b")),
    duration_ms=70_000,
)


@pytest.mark.row("GRP-06", "GRP-07", "MET-02")
def test_the_group_epoch_is_one_more_with_each_change_of_the_group() -> None:
    """Five changes; Kafka makes it six: the new partition is assignable when its state exists."""
    run, seen = Simulation(CHANGING, 0, requests=False), [(0, 0)]
    for time in range(70_000):
        run.clock.run(time * MS)
        if run.coordinator.group_epoch != seen[-1][1]:
            seen.append((time, run.coordinator.group_epoch))
    # The session of b ends 45 s after its last heartbeat; each of the others is a heartbeat, and
    # its way there.
    assert seen == [(0, 0), (1, 1), (1001, 2), (5001, 3), (46_001, 4), (60_001, 5), (60_002, 6)]
    made = simulate(CHANGING).assignments  # with each next heartbeat
    assert made.column("assignment_epoch").to_pylist() == [1, 2, 3, 4, 5, 6]
    times = [round(time) for time in made.column("time_ms").to_pylist()]
    assert times == [0, 1000, 5000, 50_000, 60_000, 65_000]
    # Kafka 4.3 counts rebalances by heartbeats, and not the member that timed out: five.
    assert made.column("rebalances").to_pylist() == [1, 2, 3, 3, 4, 5]


@pytest.mark.row("GRP-09")
def test_members_that_have_the_same_partitions_are_no_finding() -> None:
    members = [{"id": name, "subscribed": ["t"]} for name in ("a", "b", "c")]
    topics = {"t": {"partitions": 2}}
    everybody = {name: {"t": [0, 1]} for name in ("a", "b", "c")}
    assert check(members, topics, everybody) == []
    rows = [row for name in ("a", "b") for row in join("g", name, 2, 0, 1)]
    told = members_arrow(log(rows)).to_pylist()  # both as they are
    assert [one["assigned_partitions"][0]["partitions"] for one in told] == [[0, 1]] * 2


@pytest.mark.row("CFG-13")
def test_a_full_group_refuses_the_next_one() -> None:
    """200 members are the default; the 201st gets GROUP_MAX_SIZE_REACHED and does not retry."""
    topic, fault = Topic("t", 4), Fault(15_000, "crash", "m-0")
    members = (Member("m", 200), Member("late", join_ms=3000), Member("later", join_ms=30_000))
    settings = Settings(session_timeout_ms=10_000)
    crowd = Scenario((topic,), members, faults=(fault,), settings=settings, duration_ms=40_000)
    lives = {row["member"]: row for row in simulate(crowd).members.to_pylist()}
    late = [lives["late"][name] for name in ("ended", "left_ms", "deliveries")]
    assert late == ["refused", 3000, 0]
    assert lives["later"]["ended"] is None  # there is room again
    assert sum(life["ended"] is None for life in lives.values()) == 200
    assert find("group.share.max.size").default == 200  # type: ignore[union-attr]
    assert check_all({"group.share.max.size": "1001"})


# ---- assignors ----
@pytest.mark.row("ASG-01")
@pytest.mark.usefixtures("registered")
def test_an_assignor_of_ones_own_runs_in_a_simulation() -> None:
    """Members do not choose one: it is the group's, and a consumer's property for it is refused."""

    @register("all-to-the-first")
    def all_to_the_first(group: Group) -> dict[str, dict[str, list[int]]]:
        first = min(member.id for member in group.members)
        return {first: {"t": [partition for _, partition in group.places]}}

    scenario = Scenario(
        (Topic("t", 3, backlog=50),),
        (Member(count=2, service=Service(1), max_poll_records=5),),
        settings=Settings(assignment_interval_ms=0),
        assignor="all-to-the-first",
        duration_ms=20_000,
    )
    result = simulate(scenario)
    assert sorted(result.members.column("partitions").to_pylist()) == [0, 3]
    row = only(result.summary)
    assert (row["assignor"], row["lag_end"]) == ("all-to-the-first", 0)
    (problem,) = lint_consumer({"partition.assignment.strategy": "range"})
    assert "group.share.assignors" in problem.hint
