"""A real browser draws every chart, offline, without complaint, and with every name as text."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page

from sharelag import charts
from sharelag.charts import palette
from tests.support.browser.desk import box_of
from tests.support.browser.offline import OfflinePage
from tests.support.charts import FIGURES, HOSTILE, LONG, records, renamed
from tests.support.readings import open_once

#: The text of an element, a line after the other; plotly has no text between its lines.
TEXT = """element => [...element.querySelectorAll('text')].map(text => {
    const lines = [...text.querySelectorAll('.line')];
    return lines.length ? lines.map(line => line.textContent).join(' ') : text.textContent; })"""
BOX = """(chart, selector) => { const found = chart.querySelector(selector); if (!found) return null;
    const box = found.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; }"""
#: Hover over each point of each trace, and collect what appears.
HOVERED = """async chart => { const told = [];
    for (let curve = 0; curve < chart.data.length; curve++) {
        const trace = chart._fullData[curve];
        if (trace.hoverinfo === 'skip' || !['bar', 'scatter'].includes(trace.type)) continue;
        for (let point = 0; point < trace._length; point++) {
            Plotly.Fx.hover(chart, [{ curveNumber: curve, pointNumber: point }]);
            for (const label of chart.querySelectorAll('.hoverlayer .hovertext')) told.push(label.textContent);
        }
    }
    return told; }"""


class Drawn(NamedTuple):
    """All charts of a recorded story, and one of larger numbers, on one page."""

    theme: palette.Theme
    figures: list[Any]
    seen: OfflinePage

    @property
    def page(self) -> Page:
        return self.seen.page


#: Whether every chart is drawn in the width that it has.
FITTED = """() => [...document.querySelectorAll('.js-plotly-plot')].every(
    chart => chart.querySelector('.main-svg').clientWidth === chart.clientWidth)"""
#: Markup, letters that turn the line, and more of them than there is room for.
NAME = HOSTILE + LONG


@pytest.fixture(
    scope="module", params=["light", pytest.param("dark", marks=pytest.mark.exhaustive)]
)
def drawn(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Drawn]:
    """The page that tests look at without changing it: drawing it takes seconds.

    What is drawn light has a hostile name.
    """
    theme, name = request.param, NAME if request.param == "light" else None
    figures = figures_of("hot_partition", theme, name)
    figures.append(open_once("demo").lag(by="topic").figure("decomposition", theme))
    page = tmp_path_factory.mktemp("charts") / "charts.html"
    page.write_text(charts.to_html(figures, name or "Charts", theme), encoding="utf-8")
    seen = OfflinePage(browser, page, viewport={"width": 960, "height": 800})
    seen.page.wait_for_function(
        "wanted => document.querySelectorAll('.js-plotly-plot .main-svg').length >= wanted",
        arg=len(figures),
    )
    assert (seen.requests, seen.complaints) == ([page.as_uri()], [])
    yield Drawn(theme, figures, seen)
    seen.page.close()


def figures_of(name: str, theme: palette.Theme, rename: str | None = None) -> list[Any]:
    tables = records(name)
    return [
        make(tables[chart] if rename is None else renamed(tables[chart], rename), theme)
        for chart, make in FIGURES.items()
    ]


def test_every_chart_is_drawn_offline_and_says_what_it_shows(drawn: Drawn) -> None:
    page = drawn.page
    for number, figure in enumerate(drawn.figures):
        chart = page.locator(f"#chart-{number}")
        names = ("g-gtitle .gtitle", "g-gtitle .gtitle-subtitle")
        title, subtitle = (chart.locator(f".infolayer .{name}") for name in names)
        result = [
            " ".join(part.locator(".line").all_text_contents() or part.all_text_contents())
            for part in (title, subtitle)
        ]
        assert result == [figure.layout.meta["title"], " ".join(figure.layout.meta["facts"])]
        label = page.locator("figure").nth(number).get_attribute("aria-label")
        assert label == " ".join([figure.layout.meta["title"], *figure.layout.meta["facts"]])


@pytest.mark.parametrize("width", [400, 960])
def test_nothing_overlaps_or_is_cut_off(drawn: Drawn, width: int) -> None:
    page = drawn.page
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_function(FITTED)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for number, figure in enumerate(drawn.figures):
        chart = page.query_selector(f"#chart-{number}")
        assert chart is not None
        whole = box_of(chart)
        places = (".gtitle", ".gtitle-subtitle", ".legend .bg", ".plot .gridlayer")
        boxes = [chart.evaluate(BOX, part) for part in places]
        shown = [box for box in boxes if box]
        title = figure.layout.meta["title"]
        for above, below in pairwise(shown[:3]):
            assert above[3] <= below[1] + 2, title
        for left, top, right, bottom in shown:
            assert left >= whole["x"] - 1, title
            assert right <= whole["x"] + whole["width"] + 1, title
            assert top >= whole["y"] - 1, title
            assert bottom <= whole["y"] + whole["height"] + 1, title


def test_text_stands_out_from_the_paper(drawn: Drawn) -> None:
    inks = drawn.page.evaluate(
        "() => [...new Set([...document.querySelectorAll('.main-svg text')].map(text => "
        "getComputedStyle(text).fill))]"
    )
    paper = palette.luminance(palette.PAPER[drawn.theme]["paper"])
    for ink in inks:
        red, green, blue = (int(p) for p in ink.removeprefix("rgb(").removesuffix(")").split(","))
        other = palette.luminance(f"#{red:02x}{green:02x}{blue:02x}")
        assert (max(paper, other) + 0.05) / (min(paper, other) + 0.05) >= 4.5, ink


@pytest.mark.parametrize("drawn", ["light"], indirect=True)
def test_every_name_is_text(drawn: Drawn) -> None:
    """A name of markup, of letters that turn the line, and longer than there is room for."""
    page, name = drawn.page, NAME
    visible = name.replace("\u202e", "\\u202e")
    assert (page.title(), page.inner_text("h1")) == (" ".join(name.split()), name)
    assert page.locator("img, .main-svg a").count() == 0
    short = f"{visible[:17]}…{visible[-16:]}" if len(visible) > 34 else visible
    for number, figure in enumerate(FIGURES):
        if figure.startswith("state_"):  # of partitions of the state topic, which have no names
            continue
        chart = page.query_selector(f"#chart-{number}")
        assert chart is not None
        texts = " ".join(chart.evaluate(TEXT)).replace("\u2068", "").replace("\u2069", "")
        assert short.replace(" ", "") in texts.replace(" ", "").replace("\u00a0", ""), figure
    whole = "".join(page.locator("#chart-1").evaluate(HOVERED))
    said = whole.replace(" ", "").replace("\u2068", "").replace("\u2069", "")
    assert visible.replace(" ", "") in said
    assert drawn.seen.complaints == []


def test_numbers_of_an_axis_have_the_thousands_of_tables(drawn: Drawn) -> None:
    ticks = drawn.page.locator(f"#chart-{len(FIGURES)} .xtick").all_text_contents()
    assert "10,000" in ticks
    assert not [tick for tick in ticks if "k" in tick]
