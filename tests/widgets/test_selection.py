"""What people pick is the same everywhere, and code can make the same selection."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import traitlets

from sharelag.errors import InputError
from sharelag_widgets import LagTable, PartitionGrid, PlotView, Selection, WindowStrip
from sharelag_widgets.dashboards.pieces import Finder
from tests.support.widgets.samples import BEGIN, HOSTILE, TOPIC_ID, lag, moving

ONE, OTHER = ("payments", TOPIC_ID, 0), ("payments", TOPIC_ID, 1)


def rows_of(*rows: int) -> bytes:
    return np.array(rows, np.uint32).tobytes()


def run_code(code: str, **names: Any) -> Any:
    *before, last = code.strip().splitlines()
    exec("\n".join(before), names)
    return eval(last, names)


def test_code_makes_the_selection_again() -> None:
    chosen = Selection([(HOSTILE, TOPIC_ID, 3)], (5, 9), BEGIN)
    assert "\u202e" not in chosen.to_code()
    again = run_code(chosen.to_code())
    assert (again.keys, again.offsets, again.moment) == (chosen.keys, (5, 9), BEGIN)
    assert again.id != chosen.id


def test_code_of_a_table_gives_the_rows_that_are_picked() -> None:
    rows = lag()
    table = LagTable.of(rows)
    table.picked = rows_of(3, 81, 399)
    chosen = run_code(table.to_code("lag"), lag=rows)
    assert chosen.equals(table.picked_rows)
    assert chosen.column("partition").to_pylist() == [3, 81, 399]


def test_nothing_picked_means_every_row() -> None:
    rows = lag()
    assert Selection().of(rows).equals(rows)
    assert Selection([("no such group", TOPIC_ID, 0)]).of(rows).num_rows == 0


def test_what_is_picked_in_one_view_is_picked_in_all() -> None:
    selection = Selection()
    grid, table = (kind.of(lag(), selection=selection) for kind in (PartitionGrid, LagTable))
    strip = WindowStrip.of(moving(), selection=selection)
    assert (selection.keys, strip.shown) == ((), 0)
    grid.picked = rows_of(1)
    assert selection.keys == (OTHER,)
    assert (table.picked, strip.shown, strip.moment) == (rows_of(1), 1, 39)
    strip.shown = 0
    assert (selection.keys, grid.picked, table.picked) == ((ONE,), rows_of(0), rows_of(0))


def test_a_strip_that_can_show_one_leaves_two_picked() -> None:
    selection = Selection()
    grid = PartitionGrid.of(lag(), selection=selection)
    strip = WindowStrip.of(moving(), selection=selection)
    grid.picked = rows_of(1, 0)
    assert set(selection.keys) == {ONE, OTHER}
    assert strip.shown in (0, 1)
    assert grid.picked == rows_of(1, 0)


def test_offsets_and_moments_come_back() -> None:
    strip = WindowStrip.of(moving())
    strip.offsets = [1_000_100.0, 1_000_120.0]
    assert (strip.selection.offsets, strip.selection.keys) == ((1_000_100, 1_000_120), (ONE,))
    strip.moment = 3
    assert strip.selection.moment == BEGIN + timedelta(seconds=21)


def test_a_moment_from_elsewhere_shows_the_last_window_before_it() -> None:
    selection = Selection()
    strip = WindowStrip.of(moving(), selection=selection)
    chart = PlotView(figure(), times=True, selection=selection)
    for seconds, wanted in ((0, 0), (6, 0), (7, 1), (20, 2), (10_000, 39), (-5, 0)):
        selection.moment = BEGIN + timedelta(seconds=seconds)
        assert (strip.moment, chart.picked_moment) == (wanted, selection.moment.timestamp() * 1000)
    # A strip that shows the nearest does not change it.
    assert selection.moment == BEGIN - timedelta(seconds=5)


def test_points_of_a_chart_pick_share_partitions() -> None:
    selection = Selection()
    chart, table = PlotView(figure(), selection=selection), LagTable.of(lag(), selection=selection)
    chart.picked_keys = [f'["payments","{TOPIC_ID}",1]']
    assert (selection.keys, table.picked) == ((OTHER,), rows_of(1))
    table.picked = b""
    assert chart.picked_keys == []


def test_a_view_can_join_and_leave_a_selection() -> None:
    table, shared = LagTable.of(lag()), Selection([ONE])
    before = table.selection
    table.selection = shared
    assert (table.picked, table.link) == (rows_of(0), shared.id)
    before.keys = (OTHER,)
    assert table.picked == rows_of(0)
    table.close()
    shared.keys = (OTHER,)
    assert table.picked == rows_of(0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: Selection([("payments", 0)]),
            r"is not a key: a key has the values of group_id, topic_id, partition",
        ),
        (lambda: Selection(offsets=(9, 5)), "give the first and the last"),
        (lambda: Selection(offsets=(None, None)), "give the first and the last"),  # type: ignore[arg-type]
        (lambda: Selection(moment=datetime(2026, 11, 21)), "has no time zone"),
        (lambda: Selection(moment="yesterday"), "invalid time 'yesterday': give one such as"),
        (
            lambda: Selection([ONE]).of(pa.table({"partition": [0]})),
            "has no column group_id, topic_id; it has partition",
        ),
        (
            lambda: LagTable.of(lag(), selection=Selection(columns=["member_id"])),
            "the selection has keys member_id",
        ),
    ],
)
def test_what_cannot_be_picked_is_said(make: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()


def test_clear_picks_nothing_in_one_go() -> None:
    selection = Selection([ONE], (1, 2), BEGIN.astimezone(UTC))
    received: list[Any] = []
    selection.observe(received.append)
    selection.clear()
    assert {change["name"] for change in received} == {"keys", "offsets", "moment"}
    assert repr(selection) == "Selection()"


def figure() -> dict[str, Any]:
    bar = {"type": "bar", "x": ["a"], "y": [1], "customdata": [[*ONE]]}
    return {"data": [bar], "layout": {"title": {"text": "T"}}}


def test_the_choice_of_a_finder_is_that_of_the_place_in_its_list() -> None:
    finder = Finder(label="Group")
    finder.options = ["billing", "checkout"]
    assert (finder.labels, finder.index, finder.value) == (["billing", "checkout"], -1, None)
    heard = []
    finder.observe(lambda change: heard.append(change["new"]), names=["value"])
    finder.index = 1  # as the browser sets it
    assert finder.value == "checkout"
    finder.options = ["analytics", "billing", "checkout"]
    assert (finder.index, finder.value, heard) == (2, "checkout", ["checkout"])
    finder.value = "analytics"
    assert finder.index == 0
    finder.value = None
    assert (finder.index, heard) == (-1, ["checkout", "analytics", None])
    finder.index = 99
    assert finder.value is None
    with pytest.raises(traitlets.TraitError, match="unknown choice 'nobody'"):
        finder.value = "nobody"


def test_names_that_are_shortened_to_the_same_stay_apart() -> None:
    names = [f"{'a' * 200}{n}{'z' * 200}" for n in range(3)] + ["a\u202eb"]
    finder = Finder(label="Group")
    finder.options = names
    assert len(set(finder.labels)) == 4
    assert all(len(label) < 80 and "\u202e" not in label for label in finder.labels)
    finder.index = 2
    assert finder.value == names[2]
