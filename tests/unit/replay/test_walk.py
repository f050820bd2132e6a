"""The walk of KIP-932 from 100 to 120: what is live, what is written, and what that tells."""

from __future__ import annotations

import pytest

from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch
from sharelag.replay import replay, replay_arrow
from sharelag.wire import decode_arrow
from tests.support.records import KEY, offsets, raw
from tests.unit.replay.test_replay import walk_records

AVAILABLE, ACQUIRED, ACKNOWLEDGED = 0, 1, 2
LOG_END = 121
LAST_ACKNOWLEDGED, ALL_ACKNOWLEDGED = (119, 119, ACKNOWLEDGED, 1), (113, 119, ACKNOWLEDGED, 1)
TIMED_OUT, BEYOND = (111, 112, AVAILABLE, 1), (120, 120, ACQUIRED, 1)

#: Step -> SPSO, SPEO (exclusive), live runs (first, last, state, delivery count).
LIVE: dict[int, tuple[int, int, list[tuple[int, int, int, int]]]] = {
    0: (100, 100, []),
    1: (100, 110, [(100, 109, ACQUIRED, 1)]),
    2: (110, 110, []),
    3: (110, 120, [(110, 119, ACQUIRED, 1)]),
    4: (110, 120, [(110, 110, AVAILABLE, 1), (111, 119, ACQUIRED, 1)]),
    5: (110, 120, [(110, 110, AVAILABLE, 1), (111, 118, ACQUIRED, 1), LAST_ACKNOWLEDGED]),
    6: (110, 121, [(110, 110, ACQUIRED, 2), (111, 118, ACQUIRED, 1), LAST_ACKNOWLEDGED, BEYOND]),
    7: (
        110,
        121,
        [(110, 110, ACQUIRED, 2), TIMED_OUT, (113, 118, ACQUIRED, 1), LAST_ACKNOWLEDGED, BEYOND],
    ),
    8: (110, 121, [(110, 110, ACQUIRED, 2), TIMED_OUT, ALL_ACKNOWLEDGED, BEYOND]),
    9: (110, 121, [(110, 112, ACQUIRED, 2), ALL_ACKNOWLEDGED, BEYOND]),
    10: (111, 121, [(111, 112, ACQUIRED, 2), ALL_ACKNOWLEDGED, BEYOND]),
    11: (120, 121, [BEYOND]),
}


def by_offset(runs: list[StateBatch]) -> dict[int, tuple[int, int]]:
    return {o: (run[2], run[3]) for run in runs for o in range(run[0], run[1] + 1)}


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
