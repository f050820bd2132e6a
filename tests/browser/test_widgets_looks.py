"""The views are readable in every theme, without colour or sight, on paper, with any name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from playwright.sync_api import Browser, Page

from sharelag_widgets import LagTable, PartitionGrid, PlotView, WindowStrip
from tests.support.browser.desk import ROOT, Desk, axe_violations
from tests.support.widgets.samples import HOSTILE, lag, moving, window, windows

NAMES = ["strip", "grid", "table", "chart"]
PAPERS = {"light": "background: #fff", "dark": "background: #111; color: #eee"}
CONTRAST = (ROOT / "widgets/tests/contrast.js").read_text("utf-8")


def everything(name: str = "payments") -> list[Any]:
    figure = go.Figure(go.Scatter(x=[1, 2, 3], y=[3, 1, 2], name=name))
    strip = WindowStrip.of(windows(window(group_id=name)), title=name)
    return [
        strip,
        PartitionGrid.of(lag(), title="Share partitions"),
        LagTable.of(lag()),
        PlotView(figure, alt="Lag over time"),
    ]


def ready(desk: Desk) -> None:
    desk.page.locator(".sl-chart[data-drawn]").wait_for()
    desk.settle()


def themes(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        ".sl", "views => views.map(view => view.dataset.theme)"
    )
    return found


@pytest.mark.parametrize("theme", PAPERS)
def test_axe_finds_nothing_and_text_has_contrast(
    theme: str, browser: Browser, tmp_path: Path
) -> None:
    desk = Desk(browser, tmp_path, *everything(), paper=PAPERS[theme])
    ready(desk)
    for button in desk.page.get_by_role("button", name="Show as table").all():
        button.click()
    for keys in desk.page.locator("summary").all():
        keys.click()
    desk.settle()
    assert themes(desk.page) == [theme] * 4
    assert axe_violations(desk.page) == []
    ratios = desk.page.evaluate(CONTRAST)
    assert len(ratios) > 100
    assert [one for one in ratios if one[0] < 4.5] == []
    desk.assert_quiet()


def test_the_theme_follows_while_the_page_is_open(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, *everything())
    ready(desk)
    fills = "[...document.querySelectorAll('.sl-strip .sl-swatch')].map(one => one.dataset.fill)"
    before = desk.page.evaluate(fills)
    desk.page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    desk.page.wait_for_function(
        "[...document.querySelectorAll('.sl')].every(view => view.dataset.theme === 'dark')"
    )
    desk.settle()
    assert desk.page.evaluate(fills) != before
    desk.page.wait_for_function(
        "document.querySelector('.gtitle, .xtick text').style.fill.replaceAll(' ', '') === 'rgb(230,233,239)'"
    )
    assert [one for one in desk.page.evaluate(CONTRAST) if one[0] < 4.5] == []
    desk.page.evaluate("document.body.dataset.jpThemeName = 'JupyterLab Dark High Contrast'")
    desk.page.wait_for_function("document.querySelector('.sl').dataset.contrast === 'more'")
    ratios = desk.page.evaluate(CONTRAST)
    assert [one for one in ratios if one[0] < 7] == []
    desk.page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    desk.page.wait_for_function("document.querySelector('.sl').dataset.theme === 'light'")
    desk.assert_quiet()


def test_hidden_for_a_moment_it_is_painted_again(browser: Browser, tmp_path: Path) -> None:
    """As when JupyterLab changes its theme: hidden, and shown before the browser measures."""
    desk = Desk(browser, tmp_path, *everything())
    ready(desk)
    canvases = "() => [...document.querySelectorAll('canvas[role=slider]')].map(one => [one.width, one.clientWidth])"
    before = desk.page.evaluate(canvases)
    assert len(before) == 2
    assert all(width == shown > 300 for width, shown in before)
    desk.page.evaluate(
        """async () => { const main = document.querySelector('main');
        requestAnimationFrame(() => { main.style.display = 'none'; });
        document.body.dataset.jpThemeLight = 'false';
        await null; await null; // the views ask for their paint between these two
        requestAnimationFrame(() => { main.style.display = ''; }); }"""
    )
    swatches = "[...document.querySelectorAll('.sl-strip .sl-swatch')]"
    desk.page.wait_for_function(f"{swatches}.some(one => one.dataset.fill === '#56B4E9')")
    assert desk.page.evaluate(canvases) == before
    desk.assert_quiet()


def test_the_system_decides_where_the_page_lets_it(browser: Browser, tmp_path: Path) -> None:
    paper = "} :root { color-scheme: light dark"
    desk = Desk(browser, tmp_path, *everything(), paper=paper, color_scheme="dark")
    ready(desk)
    assert themes(desk.page) == ["dark"] * 4
    desk.page.emulate_media(color_scheme="light")
    desk.page.wait_for_function("document.querySelector('.sl').dataset.theme === 'light'")
    # A page that is light whatever the system is stays so, and so do its views.
    fixed = Desk(browser, tmp_path, *everything(), color_scheme="dark")
    assert set(themes(fixed.page)) == {"light"}


def test_on_paper_it_is_light_and_without_controls(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, *everything(), paper=PAPERS["dark"])
    ready(desk)
    desk.page.emulate_media(media="print")
    desk.page.wait_for_function(
        "[...document.querySelectorAll('.sl')].every(view => view.dataset.theme === 'light')"
    )
    assert desk.page.locator(".sl button:visible").count() == 0
    assert len(desk.page.pdf()) > 10_000
    desk.assert_quiet()


def test_forced_colours_leave_patterns(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, *everything(), forced_colors="active")
    ready(desk)
    assert themes(desk.page) == ["forced"] * 4
    swatches = desk.page.eval_on_selector_all(
        ".sl-strip .sl-swatch", "all => all.map(one => [one.dataset.fill, one.dataset.pattern])"
    )
    assert {fill for fill, _ in swatches} == {"Canvas"}
    assert len({pattern for _, pattern in swatches}) == len(swatches) == 6
    steps = desk.page.eval_on_selector_all(
        ".sl-grid .sl-swatch", "all => all.map(one => one.toDataURL())"
    )
    assert len(set(steps)) == len(steps) == 8
    desk.assert_quiet()


@pytest.mark.parametrize("theme", PAPERS)
def test_no_two_states_look_the_same_in_the_legend(
    theme: str, browser: Browser, tmp_path: Path
) -> None:
    desk = Desk(browser, tmp_path, WindowStrip.of(moving()), paper=PAPERS[theme])
    drawn = desk.page.eval_on_selector_all(
        ".sl-strip .sl-swatch",
        "all => all.map(one => [one.dataset.fill, one.dataset.pattern, one.toDataURL()])",
    )
    for part in zip(*drawn, strict=True):
        assert len(set(part)) == len(drawn)


def test_names_are_text_everywhere(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, *everything(HOSTILE))
    ready(desk)
    assert desk.page.locator(".sl-strip h3").inner_text() == HOSTILE
    desk.page.get_by_label("Filter").last.fill("onerror")
    desk.page.get_by_label("Filter").first.fill("onerror")
    desk.settle()
    assert desk.page.locator(".sl-table td").first.inner_text() == HOSTILE
    desk.page.focus(".sl-grid canvas[role=slider]")
    desk.press("ArrowRight")
    assert f"in \u2068{HOSTILE}\u2069: Lag" in (
        desk.page.get_attribute(".sl-grid canvas", "aria-valuetext") or ""
    )
    for button in desk.page.get_by_role("button", name="Show as table").all():
        button.click()
    desk.settle()
    assert desk.page.locator(".sl-grid tbody td").first.inner_text() == HOSTILE
    assert desk.page.locator(".sl img").count() == 0
    assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    desk.assert_quiet()


def test_what_a_screen_reader_gets(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, *everything())
    ready(desk)
    strip, grid, table, chart = (
        desk.root(number).aria_snapshot().replace("\u202f", " ") for number in range(4)
    )
    assert 'slider "Offsets"' in strip
    assert 'heading "payments"' in strip
    assert "SPSO 100, SPEO 120, log end 1 120" in strip
    assert 'list "Offsets by state"' in strip
    assert 'slider "Share partitions"' in grid
    assert "400 share partitions" in grid
    assert 'grid "Lag"' in table
    assert 'columnheader "Lag' in table
    assert 'group "Lag over time: 3 points"' in chart


def test_magnified_twice_nothing_is_lost(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, *everything(), device_scale_factor=2)
    ready(desk)
    for picture in (".sl-strip canvas[role=slider]", ".sl-grid canvas[role=slider]"):
        assert desk.page.eval_on_selector(
            picture, "one => Math.abs(one.width - 2 * one.clientWidth) <= 2"
        )
    desk.assert_quiet()
