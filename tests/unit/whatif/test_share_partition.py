"""A share partition plays the walk of the KIPs from 100 to 120."""

import pytest

from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch
from sharelag.replay import replay_arrow
from sharelag.wire import decode_arrow
from tests.support.records import offsets
from tests.support.share_partition import SharePartition
from tests.support.share_partitions import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, Walk, runs
from tests.support.share_schedules import KEY
from tests.support.walk import LIVE, LOG_END, by_offset


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
