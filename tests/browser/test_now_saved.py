"""What a saved notebook shows of views where no kernel is: tables and pictures in their outputs."""

import base64
import html
import io
import re
from copy import deepcopy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import plotly.graph_objects as go
import pyarrow as pa
import pytest
from nbformat import NotebookNode
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import sharelag
from sharelag.charts import palette
from sharelag_widgets import LagTable, PartitionGrid, PlotView
from sharelag_widgets.dashboards import Now
from tests.support.browser.desk import axe_violations, box_of
from tests.support.browser.jupyter import Lab, change_theme
from tests.support.browser.offline import OfflinePage
from tests.support.notebooks.shipped import complaints, papermill
from tests.support.widgets.samples import HOSTILE

_IMAGE = re.compile(r'src="data:image/svg\+xml;base64,([^"]+)"')


def html_of(view: Any) -> str:
    made = view._repr_mimebundle_()
    data = made[0] if isinstance(made, tuple) else made
    assert "application/vnd.jupyter.widget-view+json" in data
    return str(data["text/html"])


def drawings(found: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(base64.b64decode(one)) for one in _IMAGE.findall(found)]


@pytest.fixture(scope="module")
def board() -> Now:
    return Now(sharelag.open("demo", engine="local"), "returns-desk")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    """The first notebook as papermill has run it: with the state of its widgets."""
    folder = tmp_path_factory.mktemp("saved")
    ran = papermill("00_start_here", folder, "", engine="local")
    assert complaints(ran) == []
    return ran


def with_state(saved: NotebookNode, state: str) -> NotebookNode:
    """A copy with the state of its widgets, or without."""
    notebook = deepcopy(saved)
    states = notebook.metadata.pop("widgets")
    assert states
    if state == "with state":
        notebook.metadata["widgets"] = states
    return notebook


def assert_shown(page: Page, board: Now) -> None:
    """Verdict, table and charts are there, once and in sight, and no view is left blank."""
    body = page.locator("body")
    expect(body.get_by_text(f"{board.verdict.level}: {board.verdict.sentence}")).to_be_visible()
    (cause,) = board.cards.cards
    expect(page.locator("p", has_text=cause["advice"])).to_be_visible()
    groups = page.locator("table:visible").first
    for group in board.bench.groups:
        expect(groups).to_contain_text(group)
    for words in (
        *("returns-desk: 915 offsets of lag", "returns-desk: lag 915 offsets"),  # of the dashboard
        *("analytics, billing, checkout and 5 more: ", "orders-0 in billing: window 4142 to 4774"),
    ):
        picture = page.get_by_role("img", name=re.compile(words))
        expect(picture).to_have_count(1)  # nothing is said twice
        expect(picture).to_be_visible()
        page.wait_for_function("image => image.naturalWidth", arg=picture.element_handle())
        box = box_of(picture)
        assert box["width"] > 400, words
        assert box["height"] > (200 if "lag 915" in words else 60), words
    assert page.locator(".sl:visible").count() == 0
    waiting = page.get_by_text(re.compile("model not found|Loading widget"))
    expect(waiting.locator("visible=true")).to_have_count(0)


@pytest.mark.parametrize(
    ("state", "template"),
    [
        ("without state", "basic"),
        pytest.param("without state", "lab", marks=pytest.mark.exhaustive),
        pytest.param("with state", "basic", marks=pytest.mark.exhaustive),
        pytest.param("with state", "lab", marks=pytest.mark.exhaustive),
    ],
)
def test_a_page_of_a_saved_notebook_shows_verdict_table_and_charts(
    board: Now, saved: NotebookNode, browser: Browser, tmp_path: Path, state: str, template: str
) -> None:
    """As nbconvert makes it, with its own settings, where no network brings the widgets' code."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_name=template)
    page_text, _ = exporter.from_notebook_node(with_state(saved, state))
    path = tmp_path / "saved.html"
    path.write_text(page_text, "utf-8")
    page = OfflinePage(browser, path).page
    assert_shown(page, board)
    assert axe_violations(page, ".sharelag-result") == []
    page.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("state", ["trusted", "with state", "without state"])
def test_a_saved_notebook_that_is_opened_without_a_kernel_shows_the_same(
    board: Now, saved: NotebookNode, lab: Lab, browser: Browser, state: str
) -> None:
    name = f"saved-{state.replace(' ', '-')}.ipynb"
    nbformat.write(with_state(saved, state), lab.folder / name)
    if state == "trusted":
        lab.trust(name)
    watched = lab.page(browser)
    page = lab.open_without_kernel(watched, name)
    for theme in ("Light", "Dark"):
        shown = "dark => (document.body.dataset.jpThemeLight === 'false') === dark"
        change_theme(page, f"JupyterLab {theme}", shown, theme == "Dark")
        assert_shown(page, board)
        assert axe_violations(page, ".sharelag-result") == []
        if state == "trusted":  # pictures have the paper of the page
            picture = page.get_by_role("img", name=re.compile("returns-desk: lag 915")).screenshot()
            corner = Image.open(io.BytesIO(picture)).convert("L").getpixel((2, 2))
            assert corner == pytest.approx(18 if theme == "Dark" else 255, abs=3)
    assert watched.outside == []
    page.close()


def test_the_chart_in_a_saved_notebook_is_the_figure(board: Now) -> None:
    """Its last point is the lag of now, at the top of its axis; its words are those of the axes."""
    (drawn,) = drawings(board.over_time.still())
    texts = ["".join(one.itertext()) for one in drawn.iter() if one.tag.endswith("text")]
    assert {"lag (offsets)", "age (minutes)", "915"} <= set(texts)
    assert any(text.endswith("12:30:20 UTC") for text in texts)
    first = next(one for one in drawn.iter() if one.tag.endswith("path"))
    heights = [float(one) for one in re.findall(r"V([\d.]+)", first.attrib["d"])]
    assert heights[-1] == min(heights) == 8  # the top of the picture


def test_bars_in_a_saved_notebook_have_whole_names_and_a_legend(board: Now) -> None:
    lag = board.bench.lag(by="topic")
    (drawn,) = drawings(html_of(PlotView.of(lag, "decomposition")))
    texts = ["".join(one.itertext()) for one in drawn.iter() if one.tag.endswith("text")]
    assert {"notifications: emails", "fulfilment: shipments", "10,512"} <= set(texts)
    assert {"Unread", "Available"} <= set(texts)
    (over_time,) = drawings(board.over_time.still())
    assert [one for one in over_time.iter() if one.tag.endswith("rect")][1:] == []  # one colour


def test_the_window_in_a_saved_notebook_is_drawn_to_scale(board: Now) -> None:
    """search-index, catalogue-1: one available, 199 acknowledged, and a tenth of that unread."""
    strip = board.bench.strip("search-index")  # noqa: B005  # not the strip of a str
    (drawn,) = drawings(html_of(strip))
    bars = [one.attrib for one in drawn.iter() if one.tag.endswith("rect")][1:]
    width = {one["fill"]: float(one["width"]) for one in bars if float(one["height"]) > 20}
    kinds = (palette.KINDS[name].fill["light"] for name in ("available", "acknowledged", "unread"))
    available, acknowledged, unread = (width[fill] for fill in kinds)
    assert acknowledged / available == pytest.approx(199, rel=0.1)
    assert unread / acknowledged == pytest.approx(21 / 199, rel=0.05)
    texts = ["".join(one.itertext()) for one in drawn.iter() if one.tag.endswith("text")]
    assert {"4994", "5215", "Available", "Acknowledged", "Unread"} <= set(texts)
    assert "window 4994 to 5194 as of 2026-11-23 12:30:20 UTC" in strip.summary()


def test_names_from_outside_are_text_in_what_is_saved() -> None:
    rows = pa.table({"group_id": [HOSTILE], "topic": [HOSTILE], "topic_id": ["A" * 22]})
    rows = rows.append_column("partition", pa.array([0], pa.int32()))
    rows = rows.append_column("lag", pa.array([5], pa.int64()))
    figure = go.Figure(go.Bar(x=[5], y=[0], orientation="h", name=HOSTILE))
    names = [html.escape(name) for name in (HOSTILE, "<" * 40, "a" * 32 + "<<<")]
    figure.update_layout(yaxis={"tickvals": [0, 1, 2], "ticktext": names})
    for view in (LagTable.of(rows), PartitionGrid.of(rows), PlotView(figure, alt=HOSTILE)):
        found = html_of(view)
        assert "<img src=x" not in found
        assert "<script" not in found
        for drawn in drawings(found):
            told = {one.tag.split("}")[-1] for one in drawn.iter()}
            assert told <= {*("svg", "rect", "line", "text", "path")}


def test_a_gap_is_a_gap_and_what_cannot_be_drawn_is_said() -> None:
    gap = go.Figure(go.Scatter(x=[1, 2, 3, 4], y=[1, None, 3, 4], mode="lines"))
    (drawn,) = drawings(html_of(PlotView(gap, alt="a gap")))
    (path,) = [one.attrib["d"] for one in drawn.iter() if one.tag.endswith("path")]
    assert path.count("M") == 2
    heat = go.Figure(go.Heatmap(z=[[1, 2]]))
    assert drawings(html_of(PlotView(heat, alt="a heat map"))) == []
    assert "a heat map" in html_of(PlotView(heat, alt="a heat map"))
