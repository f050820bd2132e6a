"""The walk of KIP-932 from 100 to 120, live: state records and a broker's log of requests beside."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag.model import StateBatch
from tests.support.command import sharelag
from tests.support.generations import raw_of
from tests.support.request_lines import TOPIC, acknowledge, fetch, log_of, state_call
from tests.support.walk import ACKNOWLEDGED, ACQUIRED, LIVE, WALK, by_offset

ACCEPT, RELEASE = [1], [2]
#: Step -> what members ask for, at milliseconds. Locks take five seconds.
ASKED = {
    1: [fetch(1_000, "c1", 0, [(100, 109, 1)])],
    2: [acknowledge(2_000, "c1", 1, [(100, 109, ACCEPT)])],
    3: [
        fetch(3_000, "c1", 2, [(110, 112, 1)]),
        fetch(4_500, "c2", 0, [(113, 118, 1)]),
        fetch(4_600, "c3", 0, [(119, 119, 1)]),
    ],
    4: [acknowledge(5_000, "c1", 3, [(110, 110, RELEASE)])],
    5: [acknowledge(5_500, "c3", 1, [(119, 119, ACCEPT)])],
    6: [fetch(6_000, "c1", 4, [(110, 110, 2), (120, 120, 1)])],
    8: [acknowledge(8_500, "c2", 1, [(113, 118, ACCEPT)])],
    9: [fetch(9_000, "c3", 2, [(111, 112, 2)])],
    10: [acknowledge(9_500, "c1", 5, [(110, 110, ACCEPT)])],
    11: [acknowledge(10_000, "c3", 3, [(111, 112, ACCEPT)])],
}
#: When the log of requests begins.
BEGIN = datetime(2026, 11, 23, tzinfo=UTC)
#: Step -> when its state is written. After step 7 the locks of 111 and 112 have expired: at 8,000.
WRITTEN = {0: 500, 2: 2_100, 4: 5_100, 5: 5_600, 7: 8_100, 8: 8_600, 10: 9_600, 11: 10_100}


def batches(runs: list[tuple[int, int, int, int]]) -> list[dict[str, int]]:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    return [dict(zip(names, run, strict=True)) for run in runs]


def up_to(step: int) -> list[str]:
    """The log of requests up to a step."""
    lines = []
    for one in range(step + 1):
        lines += ASKED.get(one, [])
        if one in WALK:
            start, runs = WALK[one]
            lines.append(
                state_call(
                    *("WriteShareGroupState", WRITTEN[one]),
                    stateEpoch=1,
                    leaderEpoch=0,
                    startOffset=start,
                    stateBatches=batches(runs),
                )
            )
    return lines


def shown(*arguments: str) -> list[dict[str, Any]]:
    done = sharelag(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def seen(folder: Path, step: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The window that the state records show, and what members hold."""
    found = raw_of([write for at, write in WALK.items() if at <= step], 4)
    pq.write_table(pa.Table.from_batches([found]), folder / "raw.parquet")
    log_of(folder, *up_to(step))
    (window,) = shown("windows", "--raw", str(folder / "raw.parquet"))
    return window, shown("requests", str(folder / "kafka-request.log"))


@pytest.mark.row("RST-04", "RST-05", "RST-06", "WIN-02", "WIN-03", "WIN-21")
@pytest.mark.parametrize("step", LIVE)
def test_the_live_window_after_each_step(tmp_path: Path, step: int) -> None:
    window, held = seen(tmp_path, step)
    start, end, expected = LIVE[step]
    assert window["effective_start_offset"] == start
    acquired = [(one["first_offset"], one["last_offset"], one["delivery_count"]) for one in held]
    runs = by_offset([StateBatch(*run) for run in window["runs"]])
    runs |= {o: (ACQUIRED, n) for first, last, n in acquired for o in range(first, last + 1)}
    # The walk prints no counts of finished records but those of its writes.
    live = by_offset([StateBatch(*run) for run in expected])
    live |= {o: (2, runs[o][1]) for o, (state, _) in live.items() if state == ACKNOWLEDGED}
    assert runs == live
    assert max([start, window["window_end_offset"], *(last + 1 for _, last, _ in acquired)]) == end


@pytest.mark.row("FET-07")
def test_a_partial_acknowledgement_leaves_fragments(tmp_path: Path) -> None:
    """GL-01: after step 8 the window of eleven offsets is in four runs."""
    window, _ = seen(tmp_path, 8)
    raw, log = tmp_path / "raw.parquet", tmp_path / "kafka-request.log"
    # Of the same share partition.
    mine = log.read_text().replace(TOPIC, window["topic_id"])
    log.write_text(re.sub(r'"groupId": ?"g"', '"groupId": "G1"', mine))
    records = pq.read_table(raw)
    written = [BEGIN + timedelta(milliseconds=at) for step, at in WRITTEN.items() if step <= 8]
    index = records.schema.get_field_index("timestamp")
    kind = records.schema.field(index).type
    pq.write_table(records.set_column(index, "timestamp", pa.array(written, kind)), raw)
    moment = ("--as-of", "2026-11-23T00:00:08.600Z")
    drawn = sharelag("windows", "--raw", str(raw), "--picture", "--requests", str(log), *moment)
    assert drawn.returncode == 0, drawn.stderr
    assert "  4 runs over 11 offsets with a known state\n" in drawn.stdout
    state = next(line for line in drawn.stdout.splitlines() if "state  " in line)
    assert state.split() == ["state", "Q", "A", "A", "K", "Q"]


def test_how_each_lock_of_the_walk_ended(tmp_path: Path) -> None:
    log_of(tmp_path, *up_to(11))
    ends = {
        (one["first_offset"], one["last_offset"], one["delivery_count"]): one["ended_by"]
        for one in shown("requests", str(tmp_path), "--show", "holds")
    }
    assert ends == {
        (100, 109, 1): "accept",
        (110, 110, 1): "release",
        (111, 112, 1): "lock expired",
        (113, 118, 1): "accept",
        (119, 119, 1): "accept",
        (110, 110, 2): "accept",
        (120, 120, 1): None,
        (111, 112, 2): "accept",
    }
    assert shown("requests", str(tmp_path), "--show", "findings") == []
