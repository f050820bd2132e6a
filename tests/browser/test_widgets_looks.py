"""The views are readable in every theme, without colour or sight, on paper; linked ones follow."""

import io
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms
from playwright.sync_api import Browser, Page, expect

from sharelag_widgets import LagTable, PartitionGrid, PlotView, Selection, WindowStrip
from tests.support.browser.desk import CONTRAST, Desk, OpenDesk, axe_violations, faint_texts
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

DARK = "background: #111; color: #eee"
PAPERS = {"light": "background: #fff", "dark": "background: #111; color: #eee"}
DEFICIENCIES = ("none", "protanopia", "deuteranopia", "tritanopia", "achromatopsia")
#: Difference of two colours (CIE76) from which on they differ at a glance.
APART = 20
#: How much of a swatch is ink in one of two patterns, and not in the other.
OTHER_PATTERN = 0.05
DELIVERY_STATES = ("available", "acquired", "acknowledged", "archived")
_TO_LAB = ImageCms.buildTransform(
    ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB"
)
# Swatches without their borders: the view, the name in the legend, left, top, right, bottom.
SWATCH_BOXES = """() => [...document.querySelectorAll('.sl-swatch')].map(one => { const box = one.getBoundingClientRect();
    const [item, views] = [one.closest('li'), [...document.querySelectorAll('.sl')]];
    const edges = [box.left + scrollX + 1, box.top + scrollY + 1, box.right + scrollX - 1, box.bottom + scrollY - 1];
    return [views.indexOf(one.closest('.sl')), item.dataset.kind ?? item.innerText, ...edges.map(Math.round)]; })"""
ONE, OTHER = ("payments", TOPIC_ID, 0), ("payments", TOPIC_ID, 1)
STRIP, GRID, TABLE, CHART = range(4)


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
        "document.querySelector('.gtitle, .xtick text').style.fill.replaceAll(' ', '') === "
        "'rgb(230,233,239)'"
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
    light.root(TABLE).locator("tr[data-place]").first.click()
    picked = light.root(TABLE).locator("[aria-selected=true] td").first
    expect(picked).to_have_css("border-left-width", "4px")
    light.root(TABLE).locator("table").press("Escape")
    text = light.page.locator(".xtick text").first
    inks: dict[Any, str] = {"dark": "rgb(255, 255, 255)", "light": "rgb(0, 0, 0)"}
    for scheme, ink in inks.items():
        light.page.emulate_media(forced_colors="active", color_scheme=scheme)
        expect(text).to_have_css("fill", ink)
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


class Seen(NamedTuple):
    """A swatch as seen: the ground's colour as L*, a*, b*, and each pixel's ink from 0 to 1."""

    ground: NDArray[np.float64]
    ink: NDArray[np.float64]


def views() -> list[Any]:
    """Every kind of offsets, steps of a number with some unknown, and verdicts."""
    runs = [run(103 + n, 103 + n, state) for n, state in enumerate((0, 1, 2, 3, 4, 5, 99))]
    history = moving(2, 1).drop_columns(["runs"])
    table = lag(60)
    return [
        WindowStrip.of(windows(window(runs=runs)), limit=2),
        WindowStrip.of(history),
        PartitionGrid.of(table, title="Lag"),
        PartitionGrid.of(table, measures=["verdict"], title="Verdicts"),
    ]


def seen(desk: Desk, deficiency: str) -> list[dict[str, Seen]]:
    """The swatches of every view's legend with that colour vision, by what stands beside them."""
    session = desk.context.new_cdp_session(desk.page)
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": deficiency})
    desk.settle()
    picture = Image.open(io.BytesIO(desk.page.screenshot(full_page=True))).convert("RGB")
    found: list[dict[str, Seen]] = [{} for _ in desk.views]
    for number, name, *box in desk.page.evaluate(SWATCH_BOXES):
        part = ImageCms.applyTransform(picture.crop(box), _TO_LAB)
        stored = np.asarray(part, np.uint8).reshape(-1, 3)
        colours, counts = np.unique(stored, axis=0, return_counts=True)
        ground = lab_of(colours[counts.argmax()])
        away = np.linalg.norm(lab_of(stored) - ground, axis=-1)
        found[number][name] = Seen(ground, away / max(away.max(), APART))
    return found


def lab_of(stored: NDArray[np.uint8]) -> NDArray[np.float64]:
    """L* lies in a byte from 0 to 255 for 0 to 100, the others with a sign."""
    ground, ink = stored[..., :1] * (100 / 255), stored[..., 1:].astype(np.uint8).view(np.int8)
    return np.concatenate([ground, ink], axis=-1, dtype=np.float64)


def difference(one: Seen, other: Seen) -> float:
    return float(np.linalg.norm(one.ground - other.ground))


def alike(one: Seen, other: Seen) -> bool:
    """Neither colour nor pattern distinguishes them."""
    return (
        difference(one, other) < APART and float(np.abs(one.ink - other.ink).mean()) < OTHER_PATTERN
    )


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.exhaustive)])
def test_no_two_colours_of_a_legend_look_the_same(theme: str, open_desk: OpenDesk) -> None:
    desk = open_desk(*views(), paper=PAPERS[theme])
    for deficiency in DEFICIENCIES:
        legends = seen(desk, deficiency)
        assert [len(legend) for legend in legends] == [11, 6, 8, 3]
        grounds = np.array([swatch.ground for legend in legends for swatch in legend.values()])
        is_grey = np.abs(grounds[:, 1:]).max() < 4
        assert is_grey == (deficiency == "achromatopsia")  # it is in force
        pairs = [pair for legend in legends for pair in combinations(legend.items(), 2)]
        assert [(one, other, deficiency) for (one, a), (other, b) in pairs if alike(a, b)] == []
        if deficiency != "achromatopsia":  # these differ by colour alone
            states = combinations([legends[0][name] for name in DELIVERY_STATES], 2)
            assert min(difference(one, other) for one, other in states) >= APART


def link_views(selection: Selection) -> list[WindowStrip | PartitionGrid | LagTable | PlotView]:
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
    desk = open_desk(*link_views(selection))
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
    desk = open_desk(*link_views(selection))
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
    desk = open_desk(*link_views(selection))
    selection.keys, selection.offsets = (OTHER,), (2_000_050, 2_000_060)
    selection.moment = BEGIN
    desk.settle()
    seen = desk.data("picked", GRID), desk.data("rows", TABLE), desk.data("moment", STRIP)
    assert seen == ([1], 1, 0)
    assert "picked 2000050 to 2000060" in desk.page.inner_text(".sl-strip .sl-spot")
    selection.clear()
    desk.settle()
    assert (desk.data("picked", GRID), desk.data("rows", TABLE)) == ([], 400)
