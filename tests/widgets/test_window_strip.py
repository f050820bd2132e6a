"""Strip, grid and table have what windows and rows say, for any form of table."""

import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.whatif import compared
from sharelag_widgets import LagTable, PartitionGrid, WindowStrip
from sharelag_widgets.columns import Column, column_of, pack, smallest, table_of
from sharelag_widgets.dashboards.trials import DIFFERENCES, difference_rows
from sharelag_widgets.window_strip import KINDS
from tests.support.drawn_comparisons import runs
from tests.support.records import assert_fields
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

MOMENT = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)


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
    beyond = window(partition=1, end_offset=2**60)
    some = WindowStrip.of(windows(window(), beyond))
    assert len(unpacked(some.data)["label"]) == 1
    assert some.note.startswith("1 of 2 rows have offsets beyond 2^53")


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


def test_a_lag_table_is_coloured_by_lag_first_and_by_other_numbers_or_a_verdict() -> None:
    grid = PartitionGrid.of(lag())
    assert grid.measure == "lag"
    assert grid.measures == ["lag", "unread", "window_available", "age_ms", "verdict"]
    assert grid.summary().startswith("Share partitions: 400 by lag, from 0 to ")
    assert unpacked(grid.data)["lag"] == lag().column("lag").to_pylist()


def test_cells_are_called_by_topic_or_topic_id_and_banded_by_group() -> None:
    columns = unpacked(PartitionGrid.of(lag()).data)
    assert columns["_label"][:2] == ["orders-0-0", "orders-0-1"]
    assert columns["_label"][7] == f"{TOPIC_ID}-7"
    assert set(columns["_band"]) == {"payments", HOSTILE, "group-2", "group-3", "group-4"}


def test_arrays_and_labels_do_without_kafka() -> None:
    rows = {"shard": [3, 4], "age_ms": [5, None]}
    grid = PartitionGrid.of(rows, keys=["shard"], labels={(3,): "three"})
    assert (grid.selection.columns, unpacked(grid.data)["_label"]) == (("shard",), ["three", "4"])
    assert unpacked(grid.data)["age_ms"] == [5, None]


def test_verdicts_are_counted() -> None:
    grid = PartitionGrid.of(
        pa.table({"partition": [0, 1, 2], "verdict": ["a", "b", "a"]}), measure="verdict"
    )
    assert grid.summary() == "Share partitions: 3 by verdict: a 2, b 1"


def test_verdicts_look_the_same_in_any_order_and_rare_ones_share_a_look() -> None:
    causes = ["slow", None, "held"]
    few = pa.table({"partition": [0, 1, 2], "cause": causes})
    for order in ([0, 1, 2], [2, 0, 1]):
        grid = PartitionGrid.of(few.take(order), measures=["cause"])
        found = (_texts(grid), unpacked(grid.data)["cause"])
        assert found == (["held", "slow"], [causes[n] for n in order])
    many = [f"cause {n}" for n in range(9) for _ in range(20 - n)]
    grid = PartitionGrid.of(
        {"partition": list(range(len(many))), "cause": many}, measures=["cause"]
    )
    assert _texts(grid) == [f"cause {n}" for n in range(6)] + ["one of 3 others"]
    shown = unpacked(grid.data)["cause"]
    assert (shown.count("one of 3 others"), shown[0]) == (14 + 13 + 12, "cause 0")


def test_what_was_finished_is_called_as_in_a_terminal() -> None:
    rows = pa.table({"group_id": ["a", "b", "c"], "measure": ["arrived", "finished", None]})
    table = LagTable.of(rows, keys=["group_id"])
    assert unpacked(table.data)["measure"] == ["arrived", "finished/hour", None]


def _texts(grid: PartitionGrid) -> list[str]:
    return list(grid._columns()["cause"].texts or ())


def test_a_table_shows_the_most_telling_columns_first_and_leaves_out_empty_ones() -> None:
    table = LagTable.of(lag())
    telling = ["group_id", "topic", "partition", "lag", "start_offset", "end_offset"]
    assert table.names[:6] == telling
    assert "lag_reason" not in table.names
    assert (table.sort, table.descending) == ("lag", True)
    assert LagTable.of(lag(), columns=["partition"]).names == ["partition"]


def test_new_rows_keep_what_is_picked_by_key() -> None:
    table = LagTable.of(lag())
    table.selection.keys = (("payments", TOPIC_ID, 2),)
    table.rows = lag().slice(1)
    assert table.picked_rows.column("partition").to_pylist() == [2]
    table.rows = lag().slice(0, 0)
    assert (table.data, table.note) == (b"", "There are no rows to show.")
    assert table.selection.keys == (("payments", TOPIC_ID, 2),)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PartitionGrid.of(lag(), measures=["lagg"]), "no column lagg; it has group_id"),
        (lambda: PartitionGrid.of(pa.table({"partition": [1]})), "nothing to colour cells by"),
        (lambda: LagTable.of(lag(), sort="lagg"), "no column lagg"),
        (
            lambda: LagTable.of({"a": [1]}),
            r"no column group_id, topic_id, partition; it has a. Say with keys",
        ),
    ],
)
def test_what_is_missing_is_named(make: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()


def test_empty_tables_say_so() -> None:
    assert "the table has no rows" in PartitionGrid.of(lag().slice(0, 0)).summary()
    assert LagTable.of(lag().slice(0, 0)).summary() == "There are no rows to show."


def difference() -> pa.Table:
    """A variant with less lag and later drained than the group as it is, in four runs."""
    now = {"lag_max": [1_234_567] * 4, "drain_ms": [90_000] * 4, "member_hours": [0.5] * 4}
    more = {
        "lag_max": [2_390 + n for n in range(4)],
        "drain_ms": [187_000 + 1000 * n for n in range(4)],
        "member_hours": [999.6] * 4,
    }
    return difference_rows(compared(runs(now=now, more=more)))


def test_amounts_have_separators_and_spans_of_time_their_units() -> None:
    found = {row["measure"].split(" (")[0]: row for row in difference().to_pylist()}
    lag, drain, hours = (found[name] for name in ("lag max", "drain", "member hours"))
    assert (lag["baseline"], lag["tried"]) == ("1,234,567", "2,392")
    assert lag["difference"] == "-1,232,176"
    assert all(len(e.split(",")) == 3 and e.startswith("-1") for e in lag["interval"].split(" to "))
    assert_fields(drain, baseline="1m 30s", tried="3m 8s", difference="+1m 38s")
    assert all(end.startswith("+1m ") for end in drain["interval"].split(" to "))
    assert (hours["baseline"], hours["tried"]) == ("0.5", "1,000")


def test_a_table_knows_which_of_its_words_are_amounts() -> None:
    columns = [name for name in DIFFERENCES.names if name != "verdict"]
    table = LagTable.of(difference(), columns=columns, keys=["measure", "variant"], sort="")
    assert table.amounts == ["baseline", "tried", "difference", "interval"]
    assert LagTable.of(pa.table({"baseline": ["1m 30s"]}), keys=["baseline"]).amounts == []


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([1, None, -3], pa.int32()), [1, None, -3]),
        (pa.array([2**53, None]), [2**53, None]),
        (pa.array([0.5, None]), [0.5, None]),
        (pa.array([MOMENT, None], pa.timestamp("ms", tz="UTC")), [MOMENT.timestamp() * 1000, None]),
        (pa.array([MOMENT], pa.timestamp("ns", tz="Europe/Berlin")), [MOMENT.timestamp() * 1000]),
        (pa.array([HOSTILE, None, "", HOSTILE]), [HOSTILE, None, "", HOSTILE]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([True, None, False]), ["yes", None, "no"]),
        (pa.array([["count_differs", "x"], [], None]), ["count_differs; x", "", None]),
        (pa.array([[{"a": 1}]]), ['[{"a": 1}]']),
        (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
        (pa.chunked_array([[1], [None]], pa.int64()), [1, None]),
    ],
)
def test_every_kind_of_column_crosses(values: pa.Array, wanted: list[object]) -> None:
    assert unpacked(pack({"it": column_of(values)})) == {"it": wanted}


def test_a_number_that_a_browser_cannot_hold_is_a_text() -> None:
    big = pa.array([2**60 + 1, 7, None])
    exact, rounded = column_of(big), column_of(big, is_exact=False)
    assert unpacked(pack({"it": exact})) == {"it": [str(2**60 + 1), "7", None]}
    assert unpacked(pack({"it": rounded})) == {"it": [2**60, 7, None]}


def test_long_columns_are_compressed_and_short_ones_are_not() -> None:
    short, long = (pack({"n": Column(np.arange(n, dtype=np.uint32) % 7)}) for n in (10, 100_000))
    assert (short[4], long[4]) == (0, 1)
    assert len(long) < 40_000
    assert unpacked(long)["n"] == [n % 7 for n in range(100_000)]


def test_columns_of_any_length_and_type_lie_where_typed_arrays_can() -> None:
    kinds = enumerate(["u1", "u2", "f8"])
    columns = {f"{HOSTILE}{n}": Column(np.arange(n).astype(kind)) for n, kind in kinds}
    assert list(unpacked(pack(columns)).values()) == [[], [0], [0, 1]]


def test_offsets_take_four_bytes_while_they_can() -> None:
    assert smallest(np.array([0, 2**32 - 1])).dtype == np.uint32
    assert smallest(np.array([2**32])).tolist() == [2.0**32]
    assert smallest(np.array([], np.int64)).dtype == np.uint32


def test_tables_of_every_library_are_taken() -> None:
    wanted = pa.table({"partition": [0, 1]})

    class OfSpark:
        def toArrow(self) -> pa.Table:
            return wanted

    for rows in (
        wanted,
        wanted.to_batches()[0],
        wanted.to_pandas(),
        {"partition": np.array([0, 1])},
        OfSpark(),
    ):
        assert table_of(rows).to_pydict() == wanted.to_pydict()
    with pytest.raises(InputError, match="list is not a table: give an Arrow table"):
        table_of([1])
