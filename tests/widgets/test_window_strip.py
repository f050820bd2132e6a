"""A strip has what the windows say, at every moment, for any form of table."""

import re
from base64 import b64decode
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag_widgets import WindowStrip
from sharelag_widgets.window_strip import KINDS
from tests.support.fields import assert_fields
from tests.support.widgets.samples import (
    BEGIN,
    HOSTILE,
    TOPIC_ID,
    lag,
    moving,
    run,
    window,
    windows,
)
from tests.support.widgets.unpacked import unpacked


def by_offset(row: dict[str, Any]) -> dict[str, int]:
    """The same counts, one offset after the other."""
    state = {
        offset: KINDS[run["delivery_state"]] if run["delivery_state"] < 6 else "other"
        for run in row["runs"]
        for offset in range(run["first_offset"], run["last_offset"] + 1)
    }
    names = ["finished"] * (row["effective_start_offset"] - row["start_offset"])
    names += [
        state.get(o, "unknown")
        for o in range(row["effective_start_offset"], row["window_end_offset"])
    ]
    names += ["unread"] * (row["end_offset"] - row["window_end_offset"])
    return {name: names.count(name) for name in KINDS if name in names}


def test_counts_equal_a_count_offset_by_offset_at_every_moment() -> None:
    rows = moving(20, 1)
    strip = WindowStrip.of(rows)
    for moment, row in enumerate(rows.to_pylist()):
        assert strip.counts(moment) == by_offset(row)


def test_the_worked_example() -> None:
    strip = WindowStrip.of(windows(window()))
    counts = {"available": 4, "acknowledged": 6, "archived": 1, "unknown": 6}
    assert strip.counts() == counts | {"unread": 1000, "finished": 3}
    assert strip.summary() == (
        f"{TOPIC_ID}-0 in payments: window 100 to 120 as of 2026-11-21 03:00:00 UTC: "
        "available 4, acknowledged 6, archived 1, unknown 6, unread 1,000, finished 3"
    )


def test_offsets_whose_next_delivery_is_the_last_are_counted_where_the_limit_is_known() -> None:
    rows = windows(window(runs=[run(103, 104, 0, 3), run(105, 108, 0, 4), run(109, 109, 4, 5)]))
    strip = WindowStrip.of(rows, limit=5)
    assert strip.last_deliveries() == 4
    assert strip.summary().endswith("; the next delivery is the last of 4")
    strip.limit = 4
    assert strip.last_deliveries() == 6
    assert WindowStrip.of(rows).last_deliveries() is None
    assert "the last" not in WindowStrip.of(rows).summary()


def test_runs_cross_beside_their_start_offset() -> None:
    columns = unpacked(WindowStrip.of(windows(window())).data)
    assert_fields(columns, run_first=[3, 7, 13, 18], run_length=[2, 6, 1, 2])
    assert_fields(columns, run_state=[0, 2, 4, 0], run_count=[3, 1, 5, 1], start=[100])
    assert_fields(columns, head=[103], window_end=[120], end=[1120])


def test_moments_are_sorted_by_time_within_their_share_partition() -> None:
    late, early = (
        window(record_timestamp=BEGIN + timedelta(seconds=s), start_offset=100 + s) for s in (9, 3)
    )
    other = window(partition=7, record_timestamp=BEGIN)
    strip = WindowStrip.of(windows(late, other, early))
    columns = unpacked(strip.data)
    assert (columns["start"], columns["at"]) == ([103, 109, 100], [0, 2, 3])
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
    row = {"group_id": "g", "topic_id": TOPIC_ID, "partition": 0, "start_offset": 10}
    row |= {"record_timestamp": BEGIN, "effective_start_offset": 12, "window_end_offset": 40}
    row |= {"window_available": 5, "window_complete": 9, "runs": 4}
    strip = WindowStrip.of(
        pa.Table.from_pylist([dict.fromkeys(schemas.HISTORY.names) | row], schema=schemas.HISTORY)
    )
    assert strip.counts() == {"finished": 2, "window": 28}
    columns = unpacked(strip.data)
    assert (columns["itemised"], columns["available"], columns["complete"]) == ([0], [5], [9])


def ends(seconds: float, *offsets: int | None) -> pa.Table:
    """Log ends of the first share partitions, so long after the first moment."""
    at = [BEGIN + timedelta(seconds=seconds)] * len(offsets)
    return (
        lag()
        .slice(0, len(offsets))
        .select(["group_id", "topic_id", "partition"])
        .append_column("end_offset", pa.array(offsets, pa.int64()))
        .append_column("as_of", pa.array(at, schemas.TIMESTAMP))
    )


@pytest.mark.parametrize("seconds", [3, 14])
def test_end_offsets_that_are_no_later_hold_for_the_last_moment(seconds: float) -> None:
    rows = moving(3, 2).drop_columns(["end_offset"])
    for result in (ends(seconds, 2_000_000), ends(seconds, 2_000_000).drop_columns(["as_of"])):
        strip = WindowStrip.of(rows, ends=result)
        assert unpacked(strip.data)["end"] == [None, None, 2_000_000, None, None, None]
        assert (strip.moment, strip.time) == (2, BEGIN + timedelta(seconds=14))
        assert "unread" not in strip.counts(0)


def test_a_later_log_end_is_another_moment() -> None:
    rows = moving(3, 3).drop_columns(["end_offset"])
    strip = WindowStrip.of(rows, ends=ends(20.5, 1_000_500, 2_000_500))
    columns = unpacked(strip.data)
    assert columns["at"] == [0, 4, 8, 11]
    unknown = [None] * 3
    assert columns["end"] == [*unknown, 1_000_500, *unknown, 2_000_500, *unknown]
    assert (strip.moment, strip.time) == (3, BEGIN + timedelta(seconds=20.5))
    last, now = strip.counts(2), strip.counts(3)
    assert "unread" not in last
    assert {name: count for name, count in now.items() if name != "unread"} == last
    assert now["unread"] == 1_000_500 - rows.column("window_end_offset")[2].as_py()
    for name in ("start", "head", "window_end"):
        assert columns[name][3] == columns[name][2]
    assert strip.rows.equals(rows)
    unknown = WindowStrip.of(rows, ends=ends(20.5, None))
    assert unpacked(unknown.data)["at"] == [0, 3, 6, 9]


def test_ends_of_the_rows_themselves_are_of_their_moments() -> None:
    rows = moving(3, 1)
    assert WindowStrip.of(rows, ends=ends(99, 7_000_000)).data == WindowStrip.of(rows).data


def test_rows_read_again_are_shown_to_who_looks_at_the_same() -> None:
    rows, more = moving(20, 2), moving(40, 3)
    strip = WindowStrip.of(rows)

    def look() -> list[Any]:
        seen = [strip.fit, strip.span, strip.cursor, strip.offsets, strip.time]
        return [*seen, strip.selection.to_code()]

    strip.shown, strip.moment, strip.fit = 1, 7, "fixed"
    strip.span, strip.cursor = [2_000_010.0, 2_000_050.0], 2_000_020.0
    strip.offsets = [2_000_030.0, 2_000_031.0]
    looked = look()
    # The share partition may stand elsewhere, and of its moments others may be there.
    strip.rows = more.slice(80)
    assert (strip._moments.keys[strip.shown][2], strip.fit, strip.cursor) == (2, "window", None)
    strip.rows = rows
    strip.selection.keys = (("payments", TOPIC_ID, 1),)
    strip.fit, strip.span, strip.cursor = "fixed", [2_000_010.0, 2_000_050.0], 2_000_020.0
    assert look() == looked
    thinned = pa.concat_tables([more.slice(40).take(pa.array(range(0, 40, 2))), more.slice(0, 40)])
    strip.rows = thinned
    assert strip.rows.equals(thinned)
    assert (strip.shown, strip._moments.keys[0][2], strip.moment) == (0, 1, 3)
    assert [strip.fit, strip.span, strip.cursor, strip.offsets] == looked[:4]
    assert strip.time == BEGIN + timedelta(seconds=42)  # the moment of before is none of these
    assert strip.selection.to_code() == looked[-1]
    with pytest.raises(InputError):
        strip.rows = rows.drop_columns(["start_offset"])
    assert strip.rows.equals(thinned)


def test_a_pick_elsewhere_is_shown_where_it_is_and_keeps_the_zoom_where_it_can() -> None:
    strip = WindowStrip.of(moving(5, 2))
    near, far = ("payments", TOPIC_ID, 0), ("payments", TOPIC_ID, 1)
    for keys, offsets, fit in (
        ((near,), None, "fixed"),
        ((near,), (1_000_050, 1_000_050), "window"),
        ((near,), (1_000_049, 1_000_060), "fixed"),
        ((far,), None, "window"),
    ):
        strip.fit, strip.span = "fixed", [1_000_010.0, 1_000_050.0]
        with strip.selection.hold_trait_notifications():
            strip.selection.keys, strip.selection.offsets = keys, offsets
        assert (strip.fit, bool(strip.span)) == (fit, fit == "fixed")
        # Looked at something else since.
        strip.fit, strip.span = "fixed", [1_000_100.0, 1_000_150.0]
        strip.fill(strip.rows)
        assert strip.fit == "fixed"


def test_who_looks_at_the_last_moment_goes_on_with_the_new_one() -> None:
    rows = moving(3, 1).drop_columns(["end_offset"])
    strip = WindowStrip.of(rows, ends=ends(20, 1_000_500))
    strip.fill(moving(5, 1).drop_columns(["end_offset"]), ends(40, 1_000_600))
    assert (strip.moment, strip.time) == (5, BEGIN + timedelta(seconds=40))
    strip.ends = ends(50, 1_000_700)
    found = (strip.time, unpacked(strip.data)["end"][-1])
    assert found == (BEGIN + timedelta(seconds=50), 1_000_700)
    assert strip.ends.column("end_offset").to_pylist() == [1_000_700]


def test_a_strip_of_nothing_can_be_filled_and_emptied() -> None:
    strip = WindowStrip.of(windows())
    assert strip.shown_key is None
    strip.rows = moving(3, 1)
    assert (strip.note, strip.moment, bool(strip.data)) == ("", 2, True)
    assert strip.shown_key == ("payments", TOPIC_ID, 0)
    strip.cursor = 5.0
    strip.rows = windows()
    assert (strip.data, strip.moment, strip.cursor, strip.time) == (b"", 0, None, None)
    assert "the table has no rows" in strip.summary()


def test_pandas_without_times_and_names_that_turn_around() -> None:
    frame = windows(window(group_id=HOSTILE, record_timestamp=None)).to_pandas()
    strip = WindowStrip.of(frame)
    assert strip.counts()["available"] == 4
    assert strip.time is None
    assert unpacked(strip.data)["label"] == [f"{TOPIC_ID}-0 in \u2068{HOSTILE}\u2069"]


def test_offsets_as_far_as_javascript_counts_and_no_further() -> None:
    far = 2**53 - 1100
    moved = dict.fromkeys(("start_offset", "effective_start_offset"), far)
    moved |= {"window_end_offset": far + 9, "end_offset": far + 1000}
    strip = WindowStrip.of(windows(window(**moved, runs=[run(far + 2, far + 3, 0)])))
    assert strip.counts() == {"available": 2, "unknown": 7, "unread": 991}
    with pytest.raises(InputError, match="beyond 2"):
        WindowStrip.of(windows(window(end_offset=2**60)))


def test_an_empty_table_says_so_and_a_wrong_one_what_is_missing() -> None:
    empty = WindowStrip.of(windows())
    assert empty.data == b""
    assert "the table has no rows" in empty.note
    assert empty.summary() == empty.note
    said = "no column start_offset, window_end_offset: give windows or a history"
    with pytest.raises(InputError, match=said):
        WindowStrip.of(pa.table({"partition": [0]}))
    words = "there is no moment 7: this share partition has 1, from 0"
    with pytest.raises(InputError, match=words):
        WindowStrip.of(windows(window())).counts(7)


def test_ten_million_offsets_in_a_few_runs_stay_small() -> None:
    wide = window(
        window_end_offset=10_000_100, runs=[run(103, 5_000_000, 0), run(9_000_000, 9_999_999, 2)]
    )
    strip = WindowStrip.of(windows(wide))
    assert len(strip.data) < 4100
    assert strip.counts()["acknowledged"] == 1_000_000


def test_text_stands_in_where_no_view_can_be() -> None:
    strip = WindowStrip.of(windows(window(group_id=HOSTILE)))
    shown, _ = strip._repr_mimebundle_()
    assert HOSTILE in shown["text/plain"]
    assert "<img src=x" not in shown["text/html"]
    assert "&lt;img" in shown["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in shown


def test_a_saved_window_has_its_offsets_and_the_kinds_that_are_in_it() -> None:
    strip = WindowStrip.of(moving(3, 1))
    image = strip.still().partition("base64,")[2].partition('"')[0]
    said = re.findall(r"<text [^>]+>([^<]+)</text>", b64decode(image).decode())
    kinds = ["Available", "Acknowledged", "Archived", "Unknown", "Unread"]
    assert [kind.lower() for kind in kinds] == [*strip.counts()]
    assert said == ["offsets", "1000009", "1000264", *kinds]  # numbers as Kafka's tools have them


def test_what_stays_the_same_crosses_once() -> None:
    strip = WindowStrip.of(moving(1000, 1))
    assert len(strip.data) < 400_000
    assert np.diff(unpacked(strip.data)["runs_at"]).min() >= 0
