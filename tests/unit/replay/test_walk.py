"""The walk of KIP-932 from 100 to 120: what is live, what is written, and what that means."""

from __future__ import annotations

import pytest

from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch
from sharelag.replay import replay, replay_arrow
from sharelag.wire import decode_arrow
from tests.support.records import KEY, offsets, raw
from tests.support.walk import (
    ACKNOWLEDGED,
    ACQUIRED,
    AVAILABLE,
    LIVE,
    LOG_END,
    by_offset,
    walk_records,
)


@pytest.mark.row("WIN-01")
@pytest.mark.parametrize("step", LIVE)
def test_what_is_persisted_of_each_live_window(step: int) -> None:
    start, end, runs = LIVE[step]
    window = replay(walk_records(step))[KEY]
    persisted, live = by_offset(list(window.runs)), by_offset([StateBatch(*run) for run in runs])
    assert window.effective_start_offset == start
    assert {state for state, _ in persisted.values()} <= {AVAILABLE, ACKNOWLEDGED}
    for offset in range(start, end):
        state, count = live[offset]
        if offset in persisted:
            expected = (AVAILABLE, count - 1) if state == ACQUIRED else (state, count)
            assert persisted[offset] == expected
        else:  # never persisted: a first delivery under way
            assert (state, count) == (ACQUIRED, 1)


@pytest.mark.row("ADM-06")
def test_the_start_offset_after_step_8_is_that_of_kafkas_command() -> None:
    records = [record[1:] for record in walk_records(8)]
    (line,) = lag_arrow(
        replay_arrow(decode_arrow(raw(records)).records), offsets(LOG_END)
    ).to_pylist()
    assert line["start_offset"] == 110


@pytest.mark.row("LAG-01")
@pytest.mark.parametrize("step", LIVE)
def test_the_lag_is_what_is_not_finished(step: int) -> None:
    start, end, runs = LIVE[step]
    live = by_offset([StateBatch(*run) for run in runs])
    records = [record[1:] for record in walk_records(step)]
    line = lag_arrow(
        replay_arrow(decode_arrow(raw(records)).records), offsets(LOG_END)
    ).to_pylist()[0]
    unfinished = (
        sum(live[offset][0] != ACKNOWLEDGED for offset in range(start, end)) + LOG_END - end
    )
    assert line["effective_lag"] == unfinished
    assert line["unread"] + line["window_available"] + line["window_unknown"] == unfinished
