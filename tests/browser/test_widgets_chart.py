"""A plotly figure is drawn once plotly is there, is accessible, and its points can be picked."""

from datetime import timedelta

import numpy as np
import plotly.graph_objects as go
import pyarrow.compute as pc
import pytest
from playwright.sync_api import expect

import sharelag
from sharelag import charts
from sharelag_widgets import LagTable, PlotView, Selection
from tests.support.browser.desk import Desk, OpenDesk, box_of
from tests.support.widgets.samples import BEGIN, HOSTILE, TOPIC_ID, lag

KEYS = [("payments", TOPIC_ID, partition) for partition in range(3)]


def over_time() -> go.Figure:
    times = [BEGIN + timedelta(minutes=minute) for minute in range(30)]
    figure = go.Figure(
        layout={"title": {"text": f"Lag of {HOSTILE}"}, "xaxis": {"title": {"text": "Time (UTC)"}}}
    )
    figure.add_scatter(x=times, y=np.arange(30), name="lag")
    figure.add_scatter(x=times, y=np.arange(30)[::-1], name=HOSTILE)
    return figure


def bars() -> go.Figure:
    return go.Figure(go.Bar(x=["0", "1", "2"], y=[5, 7, 6], customdata=KEYS, name="lag"))


def drawn(desk: Desk, number: int = 0) -> None:
    desk.page.locator(f".sl >> nth={number} >> css=.main-svg").first.wait_for()
    desk.settle()


def test_what_our_charts_say_wraps_on_a_narrow_page(open_desk: OpenDesk) -> None:
    view = PlotView.of(sharelag.open("demo", engine="local").lag(), "decomposition")
    desk = open_desk(view)
    desk.page.set_viewport_size({"width": 480, "height": 800})
    drawn(desk)
    said = desk.page.locator(".sl-words p")
    meta = view.figure.layout.meta
    assert said.all_inner_texts() == [meta["title"], *meta["facts"]]
    assert desk.page.locator(".gtitle").count() == 0
    cut = "lines => lines.filter(line => line.scrollWidth > line.clientWidth).length"
    assert said.evaluate_all(cut) == 0
    first, chart = box_of(said.first), box_of(desk.page.locator(".sl-plot"))
    assert first["height"] > 30
    assert first["y"] + first["height"] <= chart["y"]


def test_lines_over_the_same_time_have_one_label_and_keep_their_height(open_desk: OpenDesk) -> None:
    """However many lines there are, and however many lines of a legend on a narrow page."""
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1}  # as that of our own charts
    figure = go.Figure(layout={"margin": {"t": 60, "b": 60}, "height": 320, "legend": legend})
    times = [BEGIN + timedelta(minutes=minute) for minute in range(30)]
    for number in range(6):
        figure.add_scatter(x=times, y=np.arange(30) * number, name=f"line {number} " * 3)
    desk = open_desk(PlotView(figure, times=True))
    desk.page.locator(".sl[data-drawn]").wait_for()
    plot = desk.page.locator(".nsewdrag")
    for width in (900, 480):
        before = desk.data("drawn")
        desk.page.set_viewport_size({"width": width, "height": 900})
        desk.page.wait_for_function(  # drawing takes away what is hovered
            "before => Number(document.querySelector('.sl').dataset.drawn) > before", arg=before
        )
        desk.settle()
        expect(plot).to_have_js_property("height.baseVal.value", 200)
        names, lines = box_of(desk.page.locator(".legend")), box_of(plot)
        assert names["y"] + names["height"] <= lines["y"] + 1
        desk.page.mouse.move(lines["x"] + lines["width"] / 2, lines["y"] + 5, steps=3)
        expect(desk.page.locator(".hoverlayer .hovertext")).to_have_count(1)


@pytest.mark.parametrize(
    ("times", "words"),
    [(4, "40,000"), pytest.param(40, "400k", marks=pytest.mark.exhaustive), (400, "4M")],
)
def test_a_storys_numbers_are_by_its_title(times: int, words: str, open_desk: OpenDesk) -> None:
    bench = sharelag.open("demo", engine="local")
    records = charts.group_story_records(bench.timeline("fulfilment").table)
    lag = pc.multiply(records.column("lag"), times)
    records = records.set_column(records.schema.get_field_index("lag"), "lag", lag)
    none = bench.explain().table.slice(0, 0), bench.events("fulfilment").table.slice(0, 0)
    desk = open_desk(PlotView(charts.group_story_figure(records, *none)))
    drawn(desk)
    numbers = desk.page.locator(".ytick text")
    assert words in numbers.all_text_contents()
    title = box_of(desk.page.locator(".ytitle"))
    for number in numbers.all():
        place = box_of(number)
        assert place["x"] >= title["x"] + title["width"]


def test_names_are_text_in_a_chart(open_desk: OpenDesk) -> None:
    figure = over_time()
    # Plotly takes some tags for its own.
    figure.add_scatter(x=["<b>a</b>"], y=[1], name="<b>age</b> &amp;", xaxis="x2")
    desk = open_desk(PlotView(figure))
    drawn(desk)
    shown = desk.page.eval_on_selector_all(
        ".legendtext", "texts => texts.map(text => text.textContent)"
    )
    assert (shown[0], shown[2]) == ("lag", "<b>age</b> &amp;")
    assert "<img src=x onerror=alert(1)>" in shown[1]
    assert "<img src=x onerror=alert(1)>" in (desk.page.locator(".gtitle").text_content() or "")
    assert desk.page.locator(".sl img:not(.sl-drawing), .sl image").count() == 0
    desk.page.get_by_role("button", name="Show as table").click()
    desk.settle()
    cells = desk.page.eval_on_selector_all(
        ".sl-chart tbody td:first-child", "cells => cells.map(one => one.innerText)"
    )
    assert (len(cells), cells[59], cells[60]) == (61, HOSTILE, "<b>age</b> &amp;")


def test_the_keyboard_goes_from_point_to_point(open_desk: OpenDesk) -> None:
    chart = PlotView(over_time(), times=True)
    desk = open_desk(chart)
    drawn(desk)
    desk.page.focus(".sl-stage")
    assert desk.page.get_attribute(".sl-stage", "aria-label") == f"{chart.alt}: 60 points"
    desk.press("ArrowRight", "ArrowRight", "ArrowRight")
    assert desk.data("active") == 2
    assert desk.page.inner_text(".sl-spot").startswith("lag: 2026-11-21")
    desk.page.locator(".hoverlayer .hovertext").first.wait_for()
    desk.press("Enter")
    assert chart.selection.moment == BEGIN + timedelta(minutes=2)
    desk.press("ArrowDown")
    assert desk.data("active") == 30
    desk.press("End", "Escape")
    assert chart.selection.moment is None


def click_bar(desk: Desk, number: int, *, drawn_with: int) -> None:
    """Click a bar as people do: once the chart shows what was picked before, and the bar answers.

    Drawing takes away what is hovered, and plotly clicks what is hovered: so both are awaited.
    """
    desk.page.wait_for_function(
        "n => document.querySelector('.js-plotly-plot').data[0].selectedpoints?.[0] === n",
        arg=drawn_with,
    )
    desk.settle()
    desk.page.mouse.move(2, 2)
    bar = box_of(desk.page.locator(".bars path").nth(number))
    desk.page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    desk.page.wait_for_function(
        "n => document.querySelector('.js-plotly-plot')._hoverdata?.[0].pointNumber === n",
        arg=number,
    )
    desk.page.mouse.down()
    desk.page.mouse.up()


def test_a_point_picks_the_share_partition_it_is_of(open_desk: OpenDesk) -> None:
    selection = Selection()
    chart, table = PlotView(bars(), selection=selection), LagTable.of(lag(), selection=selection)
    desk = open_desk(chart, table)
    drawn(desk)
    desk.page.focus(".sl-stage")
    desk.press("ArrowRight", "ArrowRight", "Enter")
    assert (selection.keys, desk.data("rows", 1)) == ((KEYS[1],), 1)
    click_bar(desk, 2, drawn_with=1)
    desk.page.wait_for_function(
        "JSON.parse(document.querySelector('.sl-chart').dataset.keys)[0]?.endsWith('2]')"
    )
    assert selection.keys == (KEYS[2],)
    click_bar(desk, 2, drawn_with=2)
    desk.page.wait_for_function("document.querySelector('.sl-chart').dataset.keys === '[]'")
    assert selection.keys == ()
    assert desk.page.evaluate("document.activeElement.className") == "sl-stage"
    selection.keys = (KEYS[0],)
    desk.settle()
    desk.page.wait_for_function(
        "document.querySelector('.js-plotly-plot').data[0].selectedpoints?.[0] === 0"
    )


@pytest.mark.exhaustive
def test_after_a_figure_that_plotly_cannot_draw_the_next_is_drawn(open_desk: OpenDesk) -> None:
    chart = PlotView(over_time())
    desk = open_desk(chart)
    drawn(desk)
    page, alert = desk.page, desk.page.get_by_role("alert")
    page.evaluate(
        "() => { Plotly.kept = Plotly.react; Plotly.react = async () => { throw new Error('out of "
        "memory'); }; }"
    )
    chart.figure = bars()
    desk.settle()
    expect(alert).to_have_text("This view cannot be drawn: out of memory")
    expect(page.locator(".sl-stage")).to_be_hidden()
    page.evaluate("() => { Plotly.react = Plotly.kept; }")
    chart.alt = "Lag, once more"
    desk.settle()
    page.locator(".bars path").first.wait_for()
    expect(alert).to_have_count(0)
    expect(page.locator(".sl-stage")).to_be_visible()
    assert page.locator(".bars path").count() == 3
    chart.figure = go.Figure()
    desk.settle()
    page.get_by_text("There is nothing to draw: the figure has no traces.").wait_for()
