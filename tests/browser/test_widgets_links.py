"""Views of one selection follow each other at once, with and without Python."""

from datetime import timedelta

import plotly.graph_objects as go
import pytest

from sharelag_widgets import LagTable, PartitionGrid, PlotView, Selection, WindowStrip
from tests.support.browser.desk import OpenDesk
from tests.support.widgets.samples import BEGIN, TOPIC_ID, lag, moving

ONE, OTHER = ("payments", TOPIC_ID, 0), ("payments", TOPIC_ID, 1)
STRIP, GRID, TABLE, CHART = range(4)


def linked_views(selection: Selection) -> list[WindowStrip | PartitionGrid | LagTable | PlotView]:
    times = [BEGIN + timedelta(seconds=7 * moment) for moment in range(40)]
    figure = go.Figure(go.Scatter(x=times, y=list(range(40)), name="lag"))
    return [
        WindowStrip.of(moving(), selection=selection),
        PartitionGrid.of(lag(), selection=selection),
        LagTable.of(lag(), selection=selection),
        PlotView(figure, times=True, selection=selection),
    ]


@pytest.mark.parametrize("kernel", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_cell_changes_strip_and_table(kernel: bool, open_desk: OpenDesk) -> None:
    selection = Selection()
    desk = open_desk(*linked_views(selection))
    if not kernel:
        desk.silence()
    shown = desk.data("counts", STRIP)
    desk.page.get_by_label("Filter").first.fill("payments")
    desk.settle()
    desk.page.focus(".sl-grid canvas[role=slider]")
    desk.press("Home")
    while "orders-0-1 " not in (desk.page.get_attribute(".sl-grid canvas", "aria-valuetext") or ""):
        desk.press("ArrowRight")
    desk.press("Enter")
    assert desk.data("counts", STRIP) != shown
    assert desk.page.locator(".sl-strip select").input_value() == f"{TOPIC_ID}-1 in payments"
    assert desk.data("rows", TABLE) == 1
    row = desk.page.locator(".sl-table tr[data-place]").inner_text()
    assert row.split("\t")[:3] == ["payments", "orders-0", "1"]
    assert selection.keys == ((OTHER,) if kernel else ())
    desk.page.get_by_label("Only what is picked elsewhere").uncheck()
    assert desk.data("rows", TABLE) == 400
    assert "400 rows, 1 picked." in desk.root(TABLE).inner_text()


@pytest.mark.parametrize("kernel", [pytest.param(True, marks=pytest.mark.exhaustive), False])
def test_a_moment_goes_both_ways(kernel: bool, open_desk: OpenDesk) -> None:
    selection = Selection()
    desk = open_desk(*linked_views(selection))
    desk.page.locator(".sl-chart[data-drawn]").wait_for()
    if not kernel:
        desk.silence()
    desk.page.focus(".sl-strip input[type=range]")
    desk.press("Home", "ArrowRight", "ArrowRight")
    at = BEGIN + timedelta(seconds=14)
    assert desk.data("picked-moment", CHART) == at.timestamp() * 1000
    assert selection.moment == (at if kernel else None)
    desk.page.focus(".sl-stage")
    desk.press("Home", *["ArrowRight"] * 5, "Enter")
    assert desk.data("moment", STRIP) == 5


def test_python_picks_and_every_view_shows_it(open_desk: OpenDesk) -> None:
    selection = Selection()
    desk = open_desk(*linked_views(selection))
    selection.keys, selection.offsets = (OTHER,), (2_000_050, 2_000_060)
    selection.moment = BEGIN
    desk.settle()
    seen = desk.data("picked", GRID), desk.data("rows", TABLE), desk.data("moment", STRIP)
    assert seen == ([1], 1, 0)
    assert "picked 2000050 to 2000060" in desk.page.inner_text(".sl-strip .sl-spot")
    selection.clear()
    desk.settle()
    assert (desk.data("picked", GRID), desk.data("rows", TABLE)) == ([], 400)
