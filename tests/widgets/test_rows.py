"""Grid and table show the rows they were given, under names that people know."""

from typing import Any

import pyarrow as pa
import pytest

from sharelag.errors import InputError
from sharelag.whatif import compared
from sharelag_widgets import LagTable, PartitionGrid
from sharelag_widgets.dashboards.trials import DIFFERENCES, difference_rows
from tests.support.drawn_comparisons import runs
from tests.support.fields import assert_fields
from tests.support.widgets.samples import HOSTILE, TOPIC_ID, lag
from tests.support.widgets.unpacked import unpacked


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
