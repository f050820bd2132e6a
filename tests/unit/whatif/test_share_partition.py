"""A share partition plays the KIPs' worked examples, and keeps its promises in any schedule."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.whatif import Limits
from sharelag.wire import decode_arrow
from tests.support.records import offsets
from tests.support.share_partition import SharePartition
from tests.support.share_partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    Walk,
    replay_topic,
    runs,
    say,
)
from tests.support.share_schedules import KEY, World, lives
from tests.support.walk import LIVE, LOG_END, by_offset

# ---- the walk ------------------------------------------------------------------------------------


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
        step: [(one.start_offset, one.delivery_complete_count, one.batches) for one in writes[step]]
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


def test_the_whole_pipeline_runs_on_the_records_of_a_walk() -> None:
    topic = Walk().topic
    history = history_arrow(decode_arrow(topic.records()).records).to_pylist()
    # the initial snapshot, the new leader's epoch, eight writes: each offset that timed out has one
    # of its own
    assert [row["record_kind"] for row in history] == ["snapshot"] + ["update"] * 9
    assert sum(row["finished"] or 0 for row in history) == 20
    assert sum(row["released"] or 0 for row in history) == 3


# ---- promises ------------------------------------------------------------------------------------


@given(st.integers(0, 10**9))
def test_promises_in_any_schedule(seed: int) -> None:
    for world, life in lives(Random(seed), steps=30, steady=True):
        state = life.loaded
        for step in life.steps:
            before, state = state, step["answer"]["state"]
            _check_delivery(step, before, world.limits)
            start, end = before["startOffset"], state["startOffset"]
            assert all(run[0] >= start for run in step["answer"].get("acquired", []))
            assert end >= start
            assert state["dcc"] == sum(offset >= end for offset in _finished(_offsets(state)))
            assert set(range(start, end)) <= _finished(_offsets(before) | _written(step))
        share, live = world.share, _offsets(state)
        left = sum(
            live.get(o, (0, 0))[0] not in (2, 4) for o in range(share.start_offset, world.log_end)
        )
        assert world.log_end - share.start_offset - share.delivery_complete_count == left
        assert replay_topic(world.topic) == world.topic.window(KEY)
    _check_drained(world)


@given(st.integers(0, 10**9))
def test_promises_while_records_are_deleted_compacted_aborted_and_writes_refused(seed: int) -> None:
    for world, life in lives(Random(seed), steps=30):
        state = life.loaded
        for step in life.steps:
            before, state = state, step["answer"]["state"]
            _check_delivery(step, before, world.limits)
            # Only over what the log start had passed in flight.
            if state["startOffset"] < before["startOffset"]:
                assert before["inFlight"][0][0] < before["startOffset"]
        assert replay_topic(world.topic) == world.topic.window(KEY)


def _finished(states: dict[int, tuple[int, int]]) -> set[int]:
    return {offset for offset, (state, _) in states.items() if state in (2, 4)}


def _check_delivery(step: dict[str, Any], before: dict[str, Any], limits: Limits) -> None:
    """What is delivered was held by nobody, is counted once more, and never beyond the limit."""
    known = _offsets(before) | _written(step)  # locks may have run out just now
    for first, last, count in step["answer"].get("acquired", []):
        assert 1 <= count <= limits.delivery_count_limit
        for offset in range(first, last + 1):
            state, counted = known.get(offset, (0, 0))
            assert state == 0
            assert count == counted + 1


def _check_drained(world: World) -> None:
    """A lone member that accepts everything gets to the end of the log: nothing is lost."""
    world.refuses = False
    world.share.expire_locks(world.now + 2 * world.limits.lock_duration_ms)
    now = world.now + 2 * world.limits.lock_duration_ms
    for _ in range(10 * (world.log_end + 1)):
        if world.share.start_offset == world.log_end:
            break
        if not world.share.can_fetch():  # stands still, as shown above
            states = {run.delivery_state for run in world.share.in_flight()}
            assert states <= {ACKNOWLEDGED, ARCHIVED}
            world.now = now
            world.share = world.load()
        begin = world.share.next_fetch_offset()
        fetched = [batch for batch in world.log if batch.last_offset >= begin]
        for first, last, _ in world.share.acquire("last", now, fetched, 50):
            say(world.share, "last", now, (first, last, ACCEPT))
    assert world.share.start_offset == world.log_end
    assert world.share.delivery_complete_count == 0


def _offsets(state: dict[str, Any]) -> dict[int, tuple[int, int]]:
    return {
        offset: (run[2], run[3])
        for batch in state["inFlight"]
        for run in batch[3]
        for offset in range(run[0], run[1] + 1)
    }


def _written(step: dict[str, Any]) -> dict[int, tuple[int, int]]:
    writes = step["answer"]["writes"]
    return by_offset([StateBatch(*batch) for write in writes for batch in write[5]])
