"""A share partition plays the walk of the KIPs, and keeps its rules, one at a time."""

from unittest.mock import Mock

import pytest

from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch, Window
from sharelag.replay import replay_arrow
from sharelag.whatif import Limits
from sharelag.whatif.records import StateTopic, Write
from sharelag.wire import decode_arrow
from tests.support.records import offsets
from tests.support.share_partition import (
    InvalidRecordStateError,
    LogBatch,
    SharePartition,
    persist,
    state_batches,
)
from tests.support.share_partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    LOCK,
    REJECT,
    RELEASE,
    RENEW,
    Walk,
    log,
    replay_topic,
    runs,
    say,
)
from tests.support.share_schedules import KEY
from tests.support.walk import LIVE, LOG_END, by_offset


# ---- other worked examples -----------------------------------------------------------------------
def played(last: int) -> tuple[SharePartition, StateTopic]:
    """Offsets 2 to ``last`` as in KIP-932: 2, 4 acquired, 3 failed twice, 5 and 6 finished."""
    topic = StateTopic(partitions=1)
    topic.initialize(KEY, 1, 0, 2)
    share = SharePartition(2, persist=persist(topic, KEY))
    batch = [LogBatch(2, last)]
    assert share.acquire("c", 1, batch, 5, mode="record_limit") == [(2, 6, 1)]
    say(share, "c", 2, (3, 3, RELEASE))
    assert share.acquire("c", 3, batch, 1, mode="record_limit") == [(3, 3, 2)]
    say(share, "c", 4, (3, 3, RELEASE), (5, 5, ACCEPT), (6, 6, REJECT))
    return share, topic


@pytest.mark.row("RST-01", "LAG-04", "RST-02", "RST-08", "WIN-18")
def test_the_states_in_flight_and_the_lag_that_is_written() -> None:
    share, topic = played(9)
    finished = [ACQUIRED, AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED]
    states = [share.state_of(offset) for offset in range(11)]
    assert states == [ARCHIVED] * 2 + finished + [AVAILABLE] * 4
    single = [(2, 2, 1, 1), (3, 3, 0, 2), (4, 4, 1, 1), (5, 5, 2, 1), (6, 6, 4, 1)]
    assert runs(share) == [*single, (7, 9, 0, 0)]
    assert (share.start_offset, share.end_offset, share.delivery_complete_count) == (2, 10, 2)
    written = replay_arrow(decode_arrow(topic.records()).records)
    (line,) = lag_arrow(written, offsets(11)).to_pylist()
    assert (line["lag"], line["effective_lag"]) == (7, 7)


@pytest.mark.row("WIN-19")
def test_what_of_it_is_durable() -> None:
    window = played(8)[1].window(KEY)
    assert window is not None
    assert window.start_offset == 2
    assert list(window.batches) == [(3, 3, 0, 2), (5, 5, 2, 1), (6, 6, 4, 1)]


@pytest.mark.row("RST-15", "LCK-01", "LCK-02", "RST-14")
def test_what_a_crashed_consumer_held_comes_after_newer_records() -> None:
    share, batches = SharePartition(100), log(100, 119, 10)
    assert share.acquire("c1", 0, batches, 10) == [(100, 109, 1)]
    assert share.acquire("c2", 100, batches[1:], 10) == [(110, 119, 1)]
    say(share, "c2", 200, (110, 119, ACCEPT))
    assert (share.start_offset, share.delivery_complete_count) == (100, 10)
    assert 120 - share.start_offset - share.delivery_complete_count == 10
    assert share.expire_locks(LOCK - 1) == LOCK
    assert share.state_of(100) == ACQUIRED
    assert share.next_fetch_offset() == 120
    assert share.expire_locks(LOCK) is None
    assert share.state_of(100) == AVAILABLE
    assert share.next_fetch_offset() == 100
    assert share.acquire("c2", LOCK, batches, 10) == [(100, 109, 2)]
    say(share, "c2", LOCK + 1, (100, 109, ACCEPT))
    assert (share.start_offset, share.delivery_complete_count) == (120, 0)


@pytest.mark.row("RST-07")
@pytest.mark.parametrize("limit", [2, 5])
@pytest.mark.parametrize("how", ["release", "lock", "session"])
def test_an_attempt_too_many_archives(limit: int, how: str) -> None:
    share = SharePartition(0, Limits(delivery_count_limit=limit))
    for attempt in range(1, limit + 1):
        now = attempt * LOCK
        assert share.acquire("c", now, [LogBatch(0, 0)], 1) == [(0, 0, attempt)]
        if how == "release":
            say(share, "c", now, (0, 0, RELEASE))
        elif how == "lock":
            share.expire_locks(now + LOCK)
        else:
            share.release_session("c", now)
        assert share.state_of(0) == (AVAILABLE if attempt < limit else ARCHIVED)
    assert share.start_offset == 1


@pytest.mark.row("ACK-08")
def test_a_whole_batch_is_one_write() -> None:
    noted = Mock(return_value=True)  # a coordinator that takes all writes
    share = SharePartition(0, persist=noted)
    share.acquire("c", 0, [LogBatch(0, 9)], 10)
    say(share, "c", 1, (0, 9, ACCEPT))
    assert [state_batches(write.args[0]) for write in noted.call_args_list] == [[(0, 9, 2, 1)]]
    assert share.start_offset == 10


# ---- locks ---------------------------------------------------------------------------------------
@pytest.mark.row("LCK-05", "SEC-04")
def test_a_late_or_foreign_acknowledgement_is_refused() -> None:
    walk = Walk(7)
    with pytest.raises(InvalidRecordStateError, match="not acquired by c1 any more"):
        say(walk.share, "c1", 31_400, (111, 111, ACCEPT))
    walk = Walk(9)
    with pytest.raises(InvalidRecordStateError):
        say(walk.share, "c1", 31_650, (111, 111, ACCEPT))
    say(walk.share, "c3", 31_660, (111, 111, ACCEPT))
    assert walk.share.state_of(111) == ACKNOWLEDGED


@pytest.mark.row("LCK-06")
def test_an_acknowledgement_fails_as_a_whole() -> None:
    share = SharePartition(110)
    share.acquire("c", 0, [LogBatch(110, 112)], 3)
    say(share, "c", 1, (110, 110, RENEW), (112, 112, RENEW))  # the lock of 111 alone ends at 30 s
    share.expire_locks(LOCK)
    before, count = share.in_flight(), share.delivery_complete_count
    with pytest.raises(InvalidRecordStateError):
        say(share, "c", LOCK, (110, 112, ACCEPT))
    assert (share.in_flight(), share.delivery_complete_count) == (before, count)
    say(share, "c", LOCK, (110, 110, ACCEPT), (112, 112, ACCEPT))
    assert share.start_offset == 111


@pytest.mark.row("LCK-07")
def test_a_batch_has_one_lock_until_it_is_split() -> None:
    share = SharePartition(110)
    share.acquire("c", 5, [LogBatch(110, 112)], 3)
    assert [(run[:2], run.lock_ends_ms) for run in share.in_flight()] == [((110, 112), 5 + LOCK)]
    say(share, "c", 6, (110, 110, RELEASE))
    locks = [(run[:2], run.lock_ends_ms) for run in share.in_flight()]
    assert locks == [((110, 110), None), ((111, 112), 5 + LOCK)]


@pytest.mark.row("ACK-06")
def test_the_end_of_a_session_gives_back_at_once() -> None:
    share = SharePartition(0)
    share.acquire("c", 0, [LogBatch(0, 9)], 10)
    share.release_session("other", 1)
    assert runs(share) == [(0, 9, ACQUIRED, 1)]
    share.release_session("c", 2)
    assert runs(share) == [(0, 9, AVAILABLE, 1)]
    assert share.next_lock_ends_ms is None


# ---- fetching ------------------------------------------------------------------------------------
@pytest.mark.row("FET-05")
def test_whole_record_batches_are_preferred() -> None:
    batches = log(0, 99, 10)
    assert SharePartition(0).acquire("c", 0, batches, 15) == [(0, 19, 1)]
    share = SharePartition(0)
    assert share.acquire("c", 0, batches, 15, mode="record_limit") == [(0, 14, 1)]
    assert share.next_fetch_offset() == 15
    assert share.acquire("d", 0, batches[1:], 15, mode="record_limit") == [(15, 19, 1), (20, 29, 1)]


# ---- the log moves -------------------------------------------------------------------------------
@pytest.mark.row("RST-10")
@pytest.mark.parametrize("one", [ACCEPT, RELEASE, REJECT])
def test_deleted_records_that_are_acquired_may_still_be_acknowledged(one: int) -> None:
    share = SharePartition(100)
    share.acquire("c", 0, [LogBatch(100, 109)], 10)
    share.log_start_moved(105, 1)
    assert share.start_offset == 105
    say(share, "c", 2, (102, 102, one))
    assert share.state_of(102) == ARCHIVED
    assert share.start_offset == 105


@pytest.mark.row("WIN-13")
def test_retention_moves_each_group_that_is_behind() -> None:
    behind, ahead = SharePartition(40), SharePartition(120)
    for share in (behind, ahead):
        share.log_start_moved(100, 1)
    assert (behind.start_offset, ahead.start_offset) == (100, 120)


@pytest.mark.row("WIN-14")
def test_compacted_records_are_archived_when_the_next_fetch_misses_them() -> None:
    share = SharePartition(5)
    share.acquire("c", 0, log(5, 6, 1), 1)
    share.acquire("c", 0, [LogBatch(6, 6)], 1)
    say(share, "c", 1, (5, 5, ACCEPT))  # compacted meanwhile, which nobody noticed
    say(share, "c", 2, (6, 6, RELEASE))
    assert share.next_fetch_offset() == 6
    assert share.acquire("c", 3, [LogBatch(9, 9)], 1) == [(9, 9, 1)]
    assert share.state_of(6) == ARCHIVED


# ---- what is refused -----------------------------------------------------------------------------
def test_a_load_takes_only_what_kafka_could_load() -> None:
    with pytest.raises(InputError, match=r"3..4 in state 0 after offset 9"):
        SharePartition.load(Window(0, 0, 0, 10, 0, 1, 1, (StateBatch(3, 4, 0, 1),)))
    with pytest.raises(InputError, match="delivery_count_limit of Limits is 0"):
        Limits(delivery_count_limit=0)


def test_kafka_stands_still_when_the_last_of_a_full_window_is_acquired_twice_after_a_load() -> None:
    """All is finished, but the start does not move, and so there is no room for new records."""
    window = Window(0, 0, 0, 0, 10, 1, 1, (StateBatch(10, 19, 2, 1),))
    share = SharePartition.load(window, limits=Limits(max_record_locks=15))
    batches = log(0, 29, 10)
    assert share.acquire("c", 0, batches, 10) == [(0, 9, 1)]
    say(share, "c", 1, (0, 4, ACCEPT), (5, 5, RELEASE), (6, 9, ACCEPT))
    # And the hole to look for begins at 6 again.
    assert share.acquire("c", 2, batches, 10) == [(5, 5, 2)]
    say(share, "c", 3, (5, 5, ACCEPT))
    assert (share.start_offset, share.delivery_complete_count) == (5, 15)
    assert {run.delivery_state for run in share.in_flight()} == {ACKNOWLEDGED}
    assert not share.can_fetch()
    assert share.acquire("c", 4, batches[2:], 10) == []


# ---- the coordinator -----------------------------------------------------------------------------
def test_every_501st_write_is_a_snapshot() -> None:
    topic = StateTopic()
    topic.initialize(KEY, 1, 0, 0)
    for n in range(1002):
        topic.write(KEY, Write(n + 2, n, 0, 0, 0, ()))
    kinds = [int.from_bytes(key[:2], "big") for key in topic.records().column("key").to_pylist()]
    assert [n for n, kind in enumerate(kinds) if kind == 0] == [0, 501, 1002]


def test_a_simulation_may_begin_from_a_captured_window() -> None:
    first = StateTopic(partitions=1)
    first.initialize(KEY, 500, 2, 100)
    assert replay_topic(first) == Window(0, 2, 0, 100, 0, 500, 500)
    captured = Window(7, 2, 5, 100, 3, 11, 12, (StateBatch(101, 103, 2, 1),))
    topic = StateTopic(partitions=1)
    topic.adopt(KEY, captured, 500)
    assert replay_topic(topic) == Window(7, 2, 5, 100, 3, 11, 500, captured.batches)
    assert topic.window(KEY) == replay_topic(topic)


@pytest.mark.row(
    "WIN-01", "WIN-02", "WIN-03", "WIN-04", "WIN-21", "RST-03", "RST-04", "RST-05", "RST-06"
)
@pytest.mark.parametrize("step", LIVE)
def test_what_is_live_after_each_step(step: int) -> None:
    start, end, expected = LIVE[step]
    share = Walk(step).share
    assert (share.start_offset, share.end_offset) == (start, end)
    live = by_offset([StateBatch(*run) for run in expected])
    # The walk prints no counts of finished records but those that its writes have.
    counts = {110: 2, 111: 2, 112: 2}
    live |= {o: (2, counts.get(o, 1)) for o, (state, _) in live.items() if state == ACKNOWLEDGED}
    assert by_offset([StateBatch(*run) for run in runs(share)]) == live


@pytest.mark.row("WIN-22", "RST-03", "FET-08")
def test_who_gets_what() -> None:
    acquired = Walk().acquired
    assert acquired[1] == [[(100, 109, 1)]]
    assert acquired[3] == [[(110, 112, 1)], [(113, 118, 1)], [(119, 119, 1)]]
    assert acquired[6] == [[(110, 110, 2), (120, 120, 1)]]
    assert acquired[9] == [[(111, 112, 2)]]
    every = [run for step in acquired.values() for given in step for run in given]
    assert sum(last - first + 1 for first, last, _ in every) == 24


@pytest.mark.row("RST-09")
def test_what_the_start_offset_passed_is_archived() -> None:
    assert Walk(10).share.state_of(119) == ACKNOWLEDGED
    assert Walk(11).share.state_of(119) == ARCHIVED


@pytest.mark.row("PRS-04")
def test_fetches_write_nothing_but_all_else_does() -> None:
    writes = Walk().writes
    assert sorted(writes) == [2, 4, 5, 7, 8, 10, 11]
    result = {
        step: [
            (one.start_offset, one.delivery_complete_count, state_batches(one))
            for one in writes[step]
        ]
        for step in writes
    }
    assert result == {
        2: [(100, 10, [(100, 109, 2, 1)])],  # the start offset moves after the write has returned
        4: [(110, 0, [(110, 110, 0, 1)])],
        5: [(110, 1, [(119, 119, 2, 1)])],
        # Offsets of a split batch time out one by one.
        7: [(110, 1, [(111, 111, 0, 1)]), (110, 1, [(112, 112, 0, 1)])],
        8: [(110, 7, [(113, 118, 2, 1)])],
        10: [(110, 8, [(110, 110, 2, 2)])],
        11: [(111, 9, [(111, 111, 2, 2), (112, 112, 2, 2)])],
    }
    every = [one for step in writes.values() for one in step]
    assert {(one.leader_epoch, one.state_epoch) for one in every} == {(2, 1)}


@pytest.mark.row("PRS-02")
@pytest.mark.parametrize("step", LIVE)
def test_what_a_new_leader_knows(step: int) -> None:
    walk = Walk(step)
    window = walk.topic.read(KEY, 3, 40_000)
    share = SharePartition.load(window, 40_000, leader_epoch=3)
    start, _, live = LIVE[step]
    assert share.start_offset == start
    for offset, (state, count) in by_offset([StateBatch(*run) for run in runs(share)]).items():
        before, counted = by_offset([StateBatch(*run) for run in live])[offset]
        assert state in (AVAILABLE, ACKNOWLEDGED)
        # What was acquired is available again, and this attempt is not counted.
        again = (AVAILABLE, counted - 1)
        assert (state, count) == (again if before == ACQUIRED else (before, count))
    assert {share.state_of(o) for o in range(start, 121)} <= {AVAILABLE, ACKNOWLEDGED}


@pytest.mark.row("LAG-02")
@pytest.mark.parametrize("step", LIVE)
def test_the_lag_of_the_records_is_what_is_left(step: int) -> None:
    walk = Walk(step)
    counts = [0, 0, 0, 0, 0, 1, 1, 1, 7, 7, 7, 0]
    lags = [21, 21, 11, 11, 11, 10, 10, 10, 4, 4, 3, 1]
    assert walk.share.delivery_complete_count == counts[step]
    assert LOG_END - walk.share.start_offset - walk.share.delivery_complete_count == lags[step]
    decoded = decode_arrow(walk.topic.records())
    assert decoded.rejects.num_rows == 0
    line = lag_arrow(replay_arrow(decoded.records), offsets(LOG_END)).to_pylist()[0]
    assert line["lag"] == line["effective_lag"] == lags[step]
