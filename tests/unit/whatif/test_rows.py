"""What the KIPs say of groups, members, deliveries and writes, in the simulator and our readers."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.model import SharePartition, StateBatch, Window
from sharelag.model.settings import check_all, lint_consumer
from sharelag.model.settings.catalogue import find
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.replay.members import groups_arrow, members_arrow
from sharelag.whatif import (
    Behaviour,
    Fault,
    Group,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    named,
    register,
    simulate,
)
from sharelag.whatif.compiled.run import Simulation
from sharelag.whatif.records import StateTopic
from sharelag.whatif.simulation.clock import MS
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, decode_arrow, encode_record
from tests.support.group_records import at as second
from tests.support.group_records import delete, join, log, record
from tests.support.groups_to_assign import check
from tests.support.records import offsets, raw, row
from tests.support.share_evidence import Wrote
from tests.support.share_evidence import only as only_cause
from tests.support.share_partition import SharePartition as Simulated
from tests.support.share_partitions import ACCEPT, say
from tests.support.share_partitions import GAP as GAP_TYPE
from tests.support.share_partitions import log as log_of
from tests.support.simulations import at, only
from tests.support.walk import walk_records


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
    assert seen == [(0, 0), (1, 1), (1001, 2), (5001, 3), (46_001, 4), (60_001, 5), (60_003, 6)]
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


ACQUIRED, ACKNOWLEDGED, ARCHIVED = 1, 2, 4
ACCEPTS = Behaviour()


def ten(behaviour: Behaviour = ACCEPTS, poison: tuple[Poison, ...] = (), **more: Any) -> Scenario:
    """Ten records in one record batch, and a member that needs 100 ms for each."""
    topic = Topic("t", 1, backlog=10, batch_records=10)
    member = Member(service=Service(100), behaviour=behaviour)
    scenario = Scenario((topic,), (member,), poison=poison, duration_ms=3000, step_ms=10)
    return replace(scenario, **more)


# ---- acknowledgements ----
@pytest.mark.row("ACK-03")
def test_implicit_acknowledgement_accepts_all_with_the_next_poll() -> None:
    topic = Topic("t", 1, backlog=5, batch_records=5)
    five = ten(Behaviour(acknowledgement="implicit"), topics=(topic,))
    result = simulate(five, requests=True)
    polls = [row for row in result.requests.to_pylist() if row["time_ms"] < 700]
    assert {row["request"] for row in polls} == {"fetch"}
    assert len(polls) == 2
    second = polls[1]["time_ms"]
    assert at(result, int(second))["in_flight"] == 5
    assert at(result, int(second) + 10)["lag"] == 0
    assert only(result.deliveries)["acknowledged"] == 5
    assert result.records().num_rows == 2  # the state at the begin, and one write for all five


@pytest.mark.row("ACK-05")
def test_what_is_not_acknowledged_yet_stays_in_the_same_delivery() -> None:
    """One of three is committed: the other two stay acquired, and are never delivered again."""
    three = ten(Behaviour(commit="record"), topics=(Topic("t", 1, backlog=3, batch_records=3),))
    result = simulate(three)
    between = at(result, 150)
    assert (between["start_offset"], between["in_flight"]) == (1, 2)
    row = only(result.deliveries)
    assert (row["deliveries"], row["redeliveries"], row["acknowledged"]) == (3, 0, 3)


@pytest.mark.row("ACK-05")
def test_who_closes_commits_what_it_has_done_and_gives_back_nothing_else() -> None:
    """It finishes the batch at hand, and says so as it leaves."""
    result = simulate(ten(members=(Member(service=Service(100), leave_ms=500),)), requests=True)
    assert result.requests.column("request").to_pylist() == ["fetch", "acknowledge", "close"]
    assert only(result.summary)["acknowledged"] == 10
    assert result.members.column("ended").to_pylist() == ["left"]


@pytest.mark.row("ACK-07")
@pytest.mark.parametrize("case", ["empty", "accepted", "error"])
def test_a_batch_that_ends_at_an_error(case: str) -> None:
    stops = Behaviour(commit="error")
    if case == "empty":
        result = simulate(ten(stops, topics=(Topic("t", 1),)), requests=True)
        # Nothing to commit.
        assert {row["request"] for row in result.requests.to_pylist()} == {"fetch"}
        assert result.records().num_rows == 1
        return
    bad = (Poison("t", 0, 4, "reject"),) if case == "error" else ()
    result = simulate(ten(stops, bad), requests=True)
    row = only(result.deliveries)
    assert (row["deliveries"], row["redeliveries"]) == (10, 0)
    if case == "accepted":
        assert row["acknowledged"] == 10
        # It goes with the next poll.
        assert "acknowledge" not in result.requests.column("request").to_pylist()
        return
    assert (row["acknowledged"], row["rejected"]) == (9, 1)
    between = at(result, 700)
    # 0-3 accepted, 4 rejected.
    assert (between["start_offset"], between["in_flight"], between["lag"]) == (5, 5, 5)
    assert at(result, 400)["in_flight"] == 10


@pytest.mark.row("ACK-09", "ACK-14")
def test_what_the_member_has_said_of_its_records_the_leader_knows_after_the_commit() -> None:
    """Of ten records one is bad: all are acquired until the member commits, whatever it chose."""
    scenario = ten(poison=(Poison("t", 0, 6, "reject"),))
    result = simulate(scenario)
    (held,) = result.in_flight(900).to_pylist()
    assert (held["first_offset"], held["last_offset"], held["delivery_state"]) == (0, 9, "acquired")
    assert result.finished().column("time_ms").to_pylist()[0] > 900
    (write,) = history_arrow(decode_arrow(result.records()).records).slice(1).to_pylist()
    assert (write["finished"], write["archived"]) == (10, 1)
    row = only(result.deliveries)
    assert (row["acknowledged"], row["rejected"]) == (9, 1)


# ---- share sessions ----
@pytest.mark.row("FET-01")
def test_a_fetch_names_partitions_and_no_offsets() -> None:
    requested = simulate(named("one-session"), requests=True).requests
    assert not [name for name in requested.column_names if "offset" in name]
    share = Simulated(100)
    assert share.acquire("c", 0, log_of(100, 109, 10), 5) == [(100, 109, 1)]  # the leader chooses


@pytest.mark.row("FET-02")
def test_a_session_holds_the_partitions_that_were_added_and_not_forgotten() -> None:
    """It has both partitions until another member takes one over."""
    topic, producer = Topic("t", 2), Producer("t", 50, "steady")
    members = (Member("a"), Member("b", join_ms=1000))
    settings = Settings(assignment_interval_ms=0, heartbeat_interval_ms=500)
    scenario = Scenario((topic,), members, (producer,), settings, duration_ms=5000, step_ms=100)
    result = simulate(scenario, requests=True)
    assert {at(result, time, p)["members"] for time in (900, 4000) for p in (0, 1)} == {1}
    # One partition stays with a, which goes on in its session; b has the other one.
    assert result.deliveries.num_rows == 3
    assert min(result.deliveries.column("deliveries").to_pylist()) > 20
    epochs = [row["session_epoch"] for row in result.requests.to_pylist() if row["member"] == "a"]
    assert epochs == list(range(len(epochs)))


# ---- windows ----
@pytest.mark.row("FUT-07")
def test_a_sparse_window_costs_by_its_runs() -> None:
    billion = 10**9
    state = row(0, [(0, 0, 0, 1), (billion, billion, 2, 1)])
    table = replay_arrow(decode_arrow(raw([encode_record(SHARE_SNAPSHOT, state)])).records)
    (runs,) = table.column("runs").to_pylist()
    assert [tuple(run.values())[:2] for run in runs] == [(0, 0), (billion, billion)]
    assert table.nbytes < 1000
    line = lag_arrow(table, offsets(billion + 1)).to_pylist()[0]
    assert (line["window_unknown"], line["window_complete"]) == (billion - 1, 1)


def test_a_simulation_of_a_window_that_no_memory_holds_is_refused() -> None:
    batches = (StateBatch(0, 0, 0, 1), StateBatch(10**9, 10**9, 2, 1))
    wide = Window(0, 0, 0, 0, 1, 0, 0, batches=batches)
    start = PartitionStart(end_offset=10**9 + 1, batch_records=10**6, window=wide)
    scenario = Scenario((Topic("t", 1, starts=(start,)),), (Member(),), duration_ms=1_000)
    with pytest.raises(InputError, match="up to 1,000,000,001 offsets from its start"):
        simulate(scenario)


@pytest.mark.row("FUT-01")
def test_what_failed_at_every_delivery_would_be_a_dead_letter() -> None:
    """Released five times, it is archived: one record for a queue of dead letters."""
    result = simulate(named("delivery-limit"))
    assert only(result.summary)["archived"] == 1
    history = history_arrow(decode_arrow(result.records(), STATE_TOPIC).records).to_pylist()
    assert sum(row["archived"] or 0 for row in history) == 1
    batches = [(100, 100, 0, 1), (101, 149, 2, 1), (150, 150, 4, 5)]
    stuck = Wrote(90, 100, 0), Wrote(80, 100, 50, batches)
    line = only_cause("poison_records", *stuck, end=200)
    assert line["evidence"]["archived at the limit"] == "1"
    assert line["evidence"]["limit"] == "5"


# ---- writes ----
@pytest.mark.row("PRS-03")
def test_a_batch_is_one_write_and_a_messy_one_is_six() -> None:
    """Of the KIP's walk: ten records for one write, ten for six, and the one of the new state."""
    records = decode_arrow(raw([record[1:] for record in walk_records(11)])).records
    history = history_arrow(records).to_pylist()
    assert len(history) == 8
    ends = [line["effective_start_offset"] for line in history]
    batched = [n for n, end in enumerate(ends) if 100 < end <= 110][:1]
    assert batched == [1]
    assert (history[1]["finished"], sum(line["finished"] for line in history[2:])) == (10, 10)
    assert len(history[2:]) == 6


@pytest.mark.row("MET-05", "MET-06")
def test_what_members_said_and_what_only_ran_out() -> None:
    """Ten accepted in the end; one was released before, and one lock ran out unanswered."""
    poison = (Poison("t", 0, 3, "release", 1), Poison("t", 0, 7, "silent", 1))
    result = simulate(ten(poison=poison, duration_ms=60_000))
    received = only(result.deliveries)
    assert (received["acknowledged"], received["released"], received["rejected"]) == (10, 1, 0)
    row = only(result.summary)
    assert (row["expired"], row["archived"]) == (1, 0)


@pytest.mark.row("PRS-05")
def test_fillers_leave_no_holes() -> None:
    """Kafka's final version leaves them out; older writers are read, and holes are counted."""

    def window(*batches: tuple[int, int, int, int]) -> dict[str, Any]:
        rows = [encode_record(SHARE_SNAPSHOT, row(110, [(110, 110, 0, 1)]))]
        rows.append(encode_record(SHARE_UPDATE, row(-1, list(batches))))
        return only(lag_arrow(replay_arrow(decode_arrow(raw(rows)).records), offsets(121)))

    filled = window((111, 118, 0, 0), (119, 119, 2, 1))
    assert filled | {"window_end_offset": 120, "window_unknown": 0, "window_available": 9} == filled
    holes = window((119, 119, 2, 1))
    assert holes | {"window_end_offset": 120, "window_unknown": 8, "window_available": 1} == holes
    assert filled["effective_lag"] == holes["effective_lag"] == 10


@pytest.mark.row("WIN-23", "ACK-12")
def test_offsets_without_a_record_are_in_flight_until_they_are_acknowledged() -> None:
    """Two of ten are gone from the log: acquired as the others, then acknowledged as gaps."""
    share = Simulated(0)
    assert share.acquire("c", 0, log_of(0, 9, 10), 10) == [(0, 9, 1)]
    assert (share.in_flight_span, share.delivery_complete_count) == (10, 0)
    say(share, "c", 1, (3, 4, GAP_TYPE))
    assert (share.state_of(3), share.delivery_complete_count) == (ARCHIVED, 2)
    held = [one for one in share.in_flight() if one.member]
    assert sum(one.last_offset - one.first_offset + 1 for one in held) == 8
    say(share, "c", 2, (0, 2, ACCEPT), (5, 9, ACCEPT))
    assert (share.start_offset, share.delivery_complete_count) == (10, 0)
