"""Does a strip hold what the windows say, at every moment, of any form of table?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag_widgets import WindowStrip
from sharelag_widgets.window_strip import KINDS
from tests.widgets.samples import BEGIN, HOSTILE, TOPIC_ID, lag, moving, run, window, windows
from tests.widgets.unpacked import unpacked


def by_offset(row: dict[str, Any]) -> dict[str, int]:
    """The same counts, one offset after the other."""
    state = {
        offset: KINDS[run["delivery_state"]] if run["delivery_state"] < 6 else "other"
        for run in row["runs"]
        for offset in range(run["first_offset"], run["last_offset"] + 1)
    }
    names = ["finished"] * (row["effective_start_offset"] - row["start_offset"])
    names += [state.get(o, "unknown") for o in range(row["effective_start_offset"], row["window_end_offset"])]
    names += ["unread"] * (row["end_offset"] - row["window_end_offset"])
    return {name: names.count(name) for name in KINDS if name in names}


def test_counts_equal_a_count_offset_by_offset_at_every_moment() -> None:
    rows = moving(20, 1)
    strip = WindowStrip.of(rows)
    for moment, row in enumerate(rows.to_pylist()):
        assert strip.counts(moment) == by_offset(row)


def test_the_worked_example() -> None:
    strip = WindowStrip.of(windows(window()))
    assert strip.counts() == {
        "available": 4,
        "acknowledged": 6,
        "archived": 1,
        "unknown": 6,
        "unread": 1000,
        "finished": 3,
    }
    assert strip.summary() == (
        f"{TOPIC_ID}-0 in payments: window 100 to 120 as of 2026-11-21T03:00:00+00:00: "
        "available 4, acknowledged 6, archived 1, unknown 6, unread 1,000, finished 3"
    )


def test_runs_cross_beside_their_start_offset() -> None:
    columns = unpacked(WindowStrip.of(windows(window())).data)
    assert columns["run_first"] == [3, 7, 13, 18]
    assert columns["run_length"] == [2, 6, 1, 2]
    assert columns["run_state"] == [0, 2, 4, 0]
    assert columns["run_count"] == [3, 1, 5, 1]
    assert (columns["start"], columns["head"], columns["window_end"], columns["end"]) == ([100], [103], [120], [1120])


def test_moments_are_sorted_by_time_within_their_share_partition() -> None:
    late, early = (window(record_timestamp=BEGIN + timedelta(seconds=s), start_offset=100 + s) for s in (9, 3))
    other = window(partition=7, record_timestamp=BEGIN)
    strip = WindowStrip.of(windows(late, other, early))
    columns = unpacked(strip.data)
    assert columns["start"] == [103, 109, 100]
    assert columns["at"] == [0, 2, 3]
    assert columns["label"] == [f"{TOPIC_ID}-0 in payments", f"{TOPIC_ID}-7 in payments"]
    assert (strip.shown, strip.moment, strip.time) == (0, 1, BEGIN + timedelta(seconds=9))


def test_a_state_of_a_newer_kafka_and_a_window_not_begun_yet() -> None:
    newer = WindowStrip.of(windows(window(runs=[run(103, 104, 9)])))
    assert newer.counts()["other"] == 2
    unset = dict.fromkeys(("start_offset", "effective_start_offset"))
    begun = WindowStrip.of(windows(window(**unset, window_end_offset=0, runs=[])))
    assert begun.counts() == {}
    assert begun.summary().endswith("the start offset is not known yet")


def test_a_history_shows_numbers_without_a_place() -> None:
    row = {"group_id": "g", "topic_id": TOPIC_ID, "partition": 0, "record_timestamp": BEGIN, "start_offset": 10}
    row |= {
        "effective_start_offset": 12,
        "window_end_offset": 40,
        "window_available": 5,
        "window_complete": 9,
        "runs": 4,
    }
    strip = WindowStrip.of(pa.Table.from_pylist([dict.fromkeys(schemas.HISTORY.names) | row], schema=schemas.HISTORY))
    assert strip.counts() == {"finished": 2, "window": 28}
    columns = unpacked(strip.data)
    assert (columns["itemised"], columns["available"], columns["complete"]) == ([0], [5], [9])


def test_end_offsets_from_a_lag_table_hold_for_the_last_moment() -> None:
    rows = moving(3, 2).drop_columns(["end_offset"])
    strip = WindowStrip.of(rows, ends=lag())
    ends = unpacked(strip.data)["end"]
    assert ends[:2] == [None, None]
    assert ends[2] == lag().column("end_offset")[0].as_py()
    assert "unread" not in strip.counts(0)


def test_pandas_without_times_and_names_that_turn_around() -> None:
    frame = windows(window(group_id=HOSTILE, record_timestamp=None)).to_pandas()
    strip = WindowStrip.of(frame)
    assert strip.counts()["available"] == 4
    assert strip.time is None
    assert unpacked(strip.data)["label"] == [f"{TOPIC_ID}-0 in \u2068{HOSTILE}\u2069"]


def test_offsets_as_far_as_javascript_counts_and_no_further() -> None:
    far = 2**53 - 1100
    moved = {"start_offset": far, "effective_start_offset": far, "window_end_offset": far + 9, "end_offset": far + 1000}
    strip = WindowStrip.of(windows(window(**moved, runs=[run(far + 2, far + 3, 0)])))
    assert strip.counts() == {"available": 2, "unknown": 7, "unread": 991}
    with pytest.raises(InputError, match="beyond 2"):
        WindowStrip.of(windows(window(end_offset=2**60)))


def test_an_empty_table_says_so_and_a_wrong_one_what_is_missing() -> None:
    empty = WindowStrip.of(windows())
    assert empty.data == b""
    assert "the table has no rows" in empty.note
    assert empty.summary() == empty.note
    with pytest.raises(InputError, match="no column start_offset, window_end_offset: give windows or a history"):
        WindowStrip.of(pa.table({"partition": [0]}))
    with pytest.raises(InputError, match="there is no moment 7: this share partition has 1, from 0"):
        WindowStrip.of(windows(window())).counts(7)


def test_ten_million_offsets_in_a_few_runs_stay_small() -> None:
    wide = window(window_end_offset=10_000_100, runs=[run(103, 5_000_000, 0), run(9_000_000, 9_999_999, 2)])
    strip = WindowStrip.of(windows(wide))
    assert len(strip.data) < 4100
    assert strip.counts()["acknowledged"] == 1_000_000


def test_text_stands_in_where_no_view_can_be() -> None:
    strip = WindowStrip.of(windows(window(group_id=HOSTILE)))
    shown, _ = strip._repr_mimebundle_()
    assert HOSTILE in shown["text/plain"]
    assert "<img" not in shown["text/html"]
    assert "&lt;img" in shown["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in shown


def test_what_stays_the_same_crosses_once() -> None:
    strip = WindowStrip.of(moving(1000, 1))
    assert len(strip.data) < 400_000
    assert np.diff(unpacked(strip.data)["runs_at"]).min() >= 0
