"""The views are readable in every theme, without colour or sight, on paper, with any name."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser, Page

from sharelag_widgets import LagTable, PartitionGrid, PlotView, WindowStrip
from tests.support.browser.desk import CONTRAST, Desk, OpenDesk, axe_violations, faint_texts
from tests.support.widgets.samples import HOSTILE, lag, window, windows

DARK = "background: #111; color: #eee"


def everything(name: str = "payments") -> list[Any]:
    figure = go.Figure(go.Scatter(x=[1, 2, 3], y=[3, 1, 2], name=name))
    strip = WindowStrip.of(windows(window(group_id=name)), title=name)
    grid = PartitionGrid.of(lag(), title="Share partitions")
    return [strip, grid, LagTable.of(lag()), PlotView(figure, alt="Lag over time")]


def ready(open_desk: OpenDesk, name: str = "payments", **settings: Any) -> Desk:
    """One view of each kind in a page, drawn."""
    desk = open_desk(*everything(name), **settings)
    desk.page.locator(".sl-chart[data-drawn]").wait_for()
    desk.settle()
    return desk


@pytest.fixture(scope="module")
def light(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A light page for all that begins there; each test leaves it light."""
    desk = ready(partial(Desk, browser, tmp_path_factory.mktemp("light")))
    yield desk
    desk.page.close()


def themes(page: Page) -> list[str]:
    found: Any = page.eval_on_selector_all(".sl", "views => views.map(view => view.dataset.theme)")
    return found


SWATCHES = """[...document.querySelectorAll('.sl-strip .sl-swatch')]
    .map(one => [one.dataset.fill, one.dataset.pattern, one.toDataURL()])"""


def test_what_a_screen_reader_gets(light: Desk) -> None:
    strip, grid, table, chart = (light.root(number).aria_snapshot() for number in range(4))
    assert 'slider "Offsets"' in strip
    assert 'heading "payments"' in strip
    assert "SPSO 100, SPEO 120, log end 1120" in strip
    assert 'list "Offsets by state"' in strip
    assert 'slider "Share partitions"' in grid
    assert "400 share partitions" in grid
    assert 'grid "Lag"' in table
    assert 'columnheader "Lag' in table
    assert 'group "Lag over time: 3 points"' in chart


def test_axe_finds_nothing_and_text_has_contrast(light: Desk) -> None:
    for button in light.page.get_by_role("button", name="Show as table").all():
        button.click()
    for keys in light.page.locator("summary").all():
        keys.click()
    light.settle()
    assert (themes(light.page), axe_violations(light.page)) == (["light"] * 4, [])
    assert len(light.page.evaluate(CONTRAST)) > 100
    assert faint_texts(light.page) == []
    light.assert_quiet()


@pytest.mark.exhaustive  # a change to dark in each run: `test_now.py`
def test_the_theme_follows_while_the_page_is_open(light: Desk) -> None:
    page, before = light.page, light.page.evaluate(SWATCHES)
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    page.wait_for_function(
        "[...document.querySelectorAll('.sl')].every(view => view.dataset.theme === 'dark')"
    )
    light.settle()
    page.wait_for_function(
        "document.querySelector('.gtitle, .xtick text').style.fill.replaceAll(' ', '') === 'rgb(230,233,239)'"
    )
    after = page.evaluate(SWATCHES)
    for drawn in (before, after):  # no two states look the same
        assert [len(set(part)) for part in zip(*drawn, strict=True)] == [len(before)] * 3
    assert after != before
    assert (axe_violations(page), faint_texts(page)) == ([], [])
    page.evaluate("document.body.dataset.jpThemeName = 'JupyterLab Dark High Contrast'")
    page.wait_for_function("document.querySelector('.sl').dataset.contrast === 'more'")
    assert faint_texts(page, 7) == []
    page.evaluate("""() => { document.body.dataset.jpThemeLight = 'true';
        delete document.body.dataset.jpThemeName; }""")
    page.wait_for_function("document.querySelector('.sl').dataset.theme === 'light'")
    light.assert_quiet()


@pytest.mark.exhaustive
def test_hidden_for_a_moment_it_is_painted_again(light: Desk) -> None:
    """As when JupyterLab changes its theme: hidden, and shown before the browser measures."""
    light.settle()
    canvases = "() => [...document.querySelectorAll('canvas[role=slider]')].map(one => [one.width, one.clientWidth])"
    before = light.page.evaluate(canvases)
    assert len(before) == 2
    assert all(width == shown > 300 for width, shown in before)
    light.page.evaluate(
        """async () => { const main = document.querySelector('main');
        requestAnimationFrame(() => { main.style.display = 'none'; });
        document.body.dataset.jpThemeLight = 'false';
        await null; await null; // the views ask for their paint between these two
        requestAnimationFrame(() => { main.style.display = ''; }); }"""
    )
    light.page.wait_for_function(f"{SWATCHES}.some(([fill]) => fill === '#56B4E9')")
    assert light.page.evaluate(canvases) == before
    light.page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    light.page.wait_for_function("document.querySelector('.sl').dataset.theme === 'light'")
    light.assert_quiet()


@pytest.mark.exhaustive
def test_the_system_decides_where_the_page_lets_it(open_desk: OpenDesk) -> None:
    paper = "} :root { color-scheme: light dark"
    desk = ready(open_desk, paper=paper, color_scheme="dark")
    assert themes(desk.page) == ["dark"] * 4
    desk.page.emulate_media(color_scheme="light")
    desk.page.wait_for_function("document.querySelector('.sl').dataset.theme === 'light'")
    # A page that is light whatever the system is stays so, and so do its views.
    fixed = open_desk(*everything(), color_scheme="dark")
    assert set(themes(fixed.page)) == {"light"}


@pytest.mark.exhaustive
def test_on_paper_it_is_light_and_without_controls(open_desk: OpenDesk) -> None:
    desk = ready(open_desk, paper=DARK)
    assert themes(desk.page) == ["dark"] * 4
    desk.page.emulate_media(media="print")
    desk.page.wait_for_function(
        "[...document.querySelectorAll('.sl')].every(view => view.dataset.theme === 'light')"
    )
    assert desk.page.locator(".sl button:visible").count() == 0
    assert len(desk.page.pdf()) > 10_000


@pytest.mark.exhaustive
def test_forced_colours_leave_patterns(light: Desk) -> None:
    light.page.emulate_media(forced_colors="active")
    light.page.wait_for_function(
        "[...document.querySelectorAll('.sl')].every(view => view.dataset.theme === 'forced')"
    )
    light.settle()
    fills, patterns, _ = zip(*light.page.evaluate(SWATCHES), strict=True)
    assert set(fills) == {"Canvas"}
    assert len(set(patterns)) == len(patterns) == 6
    steps = light.page.eval_on_selector_all(
        ".sl-grid .sl-swatch", "all => all.map(one => one.toDataURL())"
    )
    assert len(set(steps)) == len(steps) == 8
    light.page.emulate_media(forced_colors="none")
    light.page.wait_for_function("document.querySelector('.sl').dataset.theme === 'light'")
    light.assert_quiet()


def test_names_are_text_everywhere_and_magnified_twice_nothing_is_lost(open_desk: OpenDesk) -> None:
    desk = ready(open_desk, HOSTILE, device_scale_factor=2)
    for picture in (".sl-strip canvas[role=slider]", ".sl-grid canvas[role=slider]"):
        assert desk.page.eval_on_selector(
            picture, "one => Math.abs(one.width - 2 * one.clientWidth) <= 2"
        )
    assert desk.page.locator(".sl-strip h3").inner_text() == HOSTILE
    desk.page.get_by_label("Filter").last.fill("onerror")
    desk.page.get_by_label("Filter").first.fill("onerror")
    desk.settle()
    assert desk.page.locator(".sl-table td").first.inner_text() == HOSTILE
    desk.page.focus(".sl-grid canvas[role=slider]")
    desk.press("ArrowRight")
    said = desk.page.get_attribute(".sl-grid canvas", "aria-valuetext") or ""
    assert f"in \u2068{HOSTILE}\u2069: Lag" in said
    for button in desk.page.get_by_role("button", name="Show as table").all():
        button.click()
    desk.settle()
    assert desk.page.locator(".sl-grid tbody td").first.inner_text() == HOSTILE
    assert desk.page.locator(".sl img:not(.sl-drawing)").count() == 0
    assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
