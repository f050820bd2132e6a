"""What the KIPs say of deliveries, acknowledgements, windows and writes, in the simulator."""

from dataclasses import replace
from typing import Any

import pytest

from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch, Window
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.whatif import (
    Behaviour,
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
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, decode_arrow, encode_record
from tests.support.records import offsets, raw, row
from tests.support.share_evidence import Wrote
from tests.support.share_evidence import only as only_cause
from tests.support.share_partition import SharePartition
from tests.support.share_partitions import ACCEPT, log, say
from tests.support.share_partitions import GAP as GAP_TYPE
from tests.support.simulations import at, only
from tests.support.walk import walk_records

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
    share = SharePartition(100)
    assert share.acquire("c", 0, log(100, 109, 10), 5) == [(100, 109, 1)]  # the leader chooses


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
    share = SharePartition(0)
    assert share.acquire("c", 0, log(0, 9, 10), 10) == [(0, 9, 1)]
    assert (share.in_flight_span, share.delivery_complete_count) == (10, 0)
    say(share, "c", 1, (3, 4, GAP_TYPE))
    assert (share.state_of(3), share.delivery_complete_count) == (ARCHIVED, 2)
    held = [one for one in share.in_flight() if one.member]
    assert sum(one.last_offset - one.first_offset + 1 for one in held) == 8
    say(share, "c", 2, (0, 2, ACCEPT), (5, 9, ACCEPT))
    assert (share.start_offset, share.delivery_complete_count) == (10, 0)
