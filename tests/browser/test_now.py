"""The dashboard of now in a real JupyterLab: one page from the verdict to what would help."""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browser.desk import Watched, axe_violations, box_of, let_paint
from tests.support.browser.jupyter import IDLE, NOW_AND_THEN, Lab, change_theme
from tests.support.cases import few_of
from tests.support.notebooks.running import Running, go_to, settle
from tests.support.notebooks.shipped import copy_of

CELLS = ["import os\nimport sharelag\nprint('process', os.getpid())"]
CELLS += ["shop = sharelag.open('demo', engine='local').dashboard()\nshop", "'the end'"]

#: What it took to open the dashboard, in seconds of the machine.
OPENING: list[float] = []


@pytest.fixture(scope="module")
def opened(lab: Lab, browser: Browser) -> Iterator[Watched]:
    """The notebook after a full run."""
    lab.write("now", CELLS)
    watched = lab.page(browser)
    page = lab.open(watched, "now.ipynb")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_selector(".sl-strip[data-moment]")
    page.wait_for_selector(".sl-chart[data-drawn]")
    page.wait_for_function(IDLE, polling=NOW_AND_THEN)
    OPENING.append(machine_time(page))
    yield watched
    watched.page.close()


@pytest.fixture
def wide(opened: Watched) -> Iterator[Watched]:
    """The page without the list of files; afterwards with it, and as wide as a screen."""
    opened.page.evaluate("window.jupyterapp.shell.collapseLeft()")
    yield opened
    opened.page.set_viewport_size({"width": 1440, "height": 900})
    opened.page.evaluate("window.jupyterapp.shell.expandLeft()")


def machine_time(page: Page) -> float:
    """Seconds that the kernel has used a processor: others may use the machine, too."""
    printed = page.get_by_text(re.compile(r"process \d+")).first.inner_text().strip()
    told = Path(f"/proc/{printed.split()[1]}/stat").read_text()
    ticks = told.rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def board_of(page: Page) -> Locator:
    return page.locator(".sharelag-now")


def pick(page: Page, group: str) -> None:
    field = board_of(page).locator(".sharelag-bar").get_by_label("Group", exact=True)
    field.fill(group)
    field.press("Enter")
    expect(board_of(page).locator(".sl-cards .sl-state")).to_contain_text(group)
    story = board_of(page).locator(".sharelag-columns > :last-child .sl-finding").first
    expect(story).to_contain_text(group)
    settle(page)  # a chart that is drawn again while somebody drags over it ends that


@pytest.mark.exhaustive
def test_from_the_verdict_to_what_would_help_by_keys_alone(opened: Watched) -> None:
    """The focus begins in the bar of the dashboard, and only keys move it from there."""
    page, board = opened.page, board_of(opened.page)
    said = board.locator(".sl-verdict").first
    expect(said).to_contain_text("critical")
    # What stands in for it where it cannot be shown is not shown beside it.
    expect(page.locator("[class^=sharelag-still]")).to_be_hidden()
    expect(said).to_contain_text("returns-desk: the group has no members.")
    board.locator(".sharelag-bar").get_by_label("Theme").focus()
    go_to(page, said.get_by_role("button", name="More"))
    page.keyboard.press("Enter")
    copy = said.get_by_role("button", name="Copy for the incident channel")
    go_to(page, copy)
    page.keyboard.press("Enter")
    expect(said).to_have_attribute("data-copied", re.compile(r"\d+"))
    expect(said.get_by_role("button", name="\u2713 Copied")).to_be_visible()
    page.keyboard.press("Escape")
    expect(copy).to_be_hidden()
    table = board.get_by_role("grid").first
    go_to(page, table)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(table.locator("[aria-selected=true]")).to_contain_text("search-index")
    expect(board).to_contain_text("finish or reject the record at that offset")
    go_to(page, said.get_by_role("button", name="Show the worst"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(table.locator("[aria-selected=true]")).to_contain_text("returns-desk")
    expect(board.locator(".sl-cards")).to_contain_text("start consumers")
    go_to(page, table)
    page.keyboard.press("/")
    page.keyboard.type("billing")
    page.keyboard.press("Enter")
    expect(table.locator("[aria-selected=true]")).to_contain_text("billing")
    expect(board).to_contain_text("check the record at that offset and its consumer")
    go_to(page, board.get_by_role("button", name="More on this cause").first)
    page.keyboard.press("Enter")
    command = board.locator(".sl-cards .sl-command").first
    expect(command).to_have_text(
        "sharelag windows --picture --capture demo --group billing --topic orders:0"
    )
    go_to(page, board.get_by_role("button", name="Copy the command").first)
    page.keyboard.press("Enter")
    expect(board.locator(".sl-cards")).to_have_attribute("data-copied", re.compile(r"\d+"))
    what_if = board.locator(".sl-tries")
    go_to(page, what_if.get_by_role("button", name="lag-aware assignor"))
    page.keyboard.press("Enter")
    row = what_if.locator("[data-name=lag-aware]")
    expect(row.locator("svg")).to_be_visible()
    expect(row).to_contain_text(re.compile("better|worse|not clear|the same"))
    expect(what_if).to_contain_text("the group as it is")
    expect(what_if.locator("summary")).to_contain_text(
        re.compile(r"^Simulated from the state of .* UTC\. It assumes \d")
    )
    # The curves go on from now in the same chart.
    expect(board.locator(".sl-chart .legendtext", has_text="lag-aware assignor")).to_be_attached()
    settle(page)
    strip = board.locator(".sl-strip")
    moment = strip.get_attribute("data-moment")
    go_to(page, strip.locator("input[type=range]"))
    page.keyboard.press("Home")
    expect(strip).not_to_have_attribute("data-moment", str(moment))
    opened.assert_quiet()


def test_dragging_over_the_chart_goes_through_time_in_the_window_below(opened: Watched) -> None:
    page = opened.page
    board, strip = board_of(page), page.locator(".sl-strip")
    pick(page, "search-index")
    earlier = board.locator(".sl-level-2 .sl-badge")
    expect(earlier).to_have_text("Recorded")
    chart = board.locator(".sharelag-columns > :last-child .sl-chart .nsewdrag").first
    chart.scroll_into_view_if_needed()
    box = box_of(chart)
    seen = [int(strip.get_attribute("data-moment") or -1)]
    y = box["y"] + box["height"] / 3
    page.mouse.move(box["x"] + box["width"] * 0.9, y)
    page.mouse.down()
    for part in (0.8, 0.6, 0.4):
        page.mouse.move(box["x"] + box["width"] * part, y, steps=4)
        page.wait_for_function(
            "before => Number(document.querySelector('.sl-strip').dataset.moment) < before",
            arg=seen[-1],
        )
        let_paint(page)  # what the last of these moves asked for
        seen.append(int(strip.get_attribute("data-moment") or -1))
    page.mouse.up()
    assert seen[0] > seen[1] > seen[2] > seen[3] > 0
    # All panels follow: header, verdict, table, causes and cells are of that moment.
    expect(earlier).to_have_text("Earlier moment")
    said = board.locator(".sl-verdict")
    expect(said).not_to_contain_text("7 of 8")
    settle(page)
    # Until they do, charts of the moment before are dim, too; but not the one of all moments.
    board.evaluate("board => board.classList.add('sharelag-moves')")
    mine = board.locator(".sharelag-columns .sharelag-mine")
    looks = mine.evaluate_all("all => all.map(one => getComputedStyle(one).opacity)")
    board.evaluate("board => board.classList.remove('sharelag-moves')")
    assert looks == ["0.35", "0.35", "1", "1"]
    said.get_by_role("button", name="Back to the last moment").click()
    expect(earlier).to_have_text("Recorded")
    expect(said).to_contain_text("7 of 8 share groups need attention")
    page.wait_for_function(IDLE)
    opened.assert_quiet()


@pytest.mark.exhaustive
def test_pointing_anywhere_above_a_moment_says_what_was_then(opened: Watched) -> None:
    """Lag and age in one label, with one line through both; however far from them one points."""
    page, board = opened.page, board_of(opened.page)
    pick(page, "fulfilment")
    chart = board.locator(".sharelag-columns > :last-child .sl-chart")
    plot = chart.locator(".nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = box_of(plot)
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 4, steps=3)
    said = chart.locator(".hoverlayer .hovertext")
    expect(said).to_have_count(1)
    expect(said).to_have_text(re.compile("UTC.*lag .*oldest "))
    expect(chart.locator(".hoverlayer .spikeline").first).to_be_attached()
    page.mouse.move(0, 0)
    opened.assert_quiet()


@pytest.mark.parametrize("width", [768, 1440, pytest.param(1920, marks=pytest.mark.exhaustive)])
def test_every_column_is_read_and_what_belongs_together_stays(wide: Watched, width: int) -> None:
    """Nothing is cut where there is room, and what there is no room for is said."""
    page, board = wide.page, board_of(wide.page)
    page.set_viewport_size({"width": width, "height": 900})
    table = board.locator(".sl-table").first
    said = table.locator("p.sl-soft").first
    if width == 768:
        expect(said).to_contain_text("No room for")
    else:
        expect(said).to_contain_text(re.compile(r"\.$"))
        expect(said).not_to_contain_text("No room")
    scroll = table.locator(".sl-scroll")
    expect(scroll).to_have_js_property("scrollWidth", scroll.evaluate("one => one.clientWidth"))
    cut = """table => [...table.querySelectorAll('td, th button')].filter(
        one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"""
    assert table.evaluate(cut) == []
    strip = board.locator(".sl-strip")
    expect(strip.locator("canvas").first).to_be_visible()
    tops = "ones => new Set(ones.map(one => Math.round(one.getBoundingClientRect().top))).size"
    assert strip.locator(".sl-fits button").evaluate_all(tops) == 1
    assert strip.locator(".sl-zoom button").evaluate_all(tops) == 1
    # The help of a part is in its corner, whatever stands beside its title.
    away = """heads => heads.filter(head => head.offsetParent).map(head => {
        const [all, ask] = [head, head.querySelector('.sl-ask')].map(one => one.getBoundingClientRect());
        return [Math.round(all.right - ask.right), Math.round(ask.top - all.top)]; })"""
    corners = board.locator(".sl-level-3:has(.sl-ask:not([hidden]))").evaluate_all(away)
    assert len(corners) >= 7
    assert len({tuple(one) for one in corners}) == 1
    wide.assert_quiet()


# The place of what has the focus, and itself if its ring is not seen or the bar covers it. A ring at
# -1 pixel lies on a button's border, which may have its colour.
FOCUS = """() => { const one = document.activeElement, board = one.closest('.sharelag-now');
    if (!board) return null;
    const bar = board.querySelector('.sharelag-bar'), box = one.getBoundingClientRect();
    const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(one);
    const isSeen = outlineStyle === 'solid' && outlineWidth === '2px'
        && (one.tagName !== 'BUTTON' || outlineOffset !== '-1px');
    const inBar = bar.contains(one), below = bar.getBoundingClientRect().bottom;
    const isCovered = !inBar && box.top < below;
    return { left: box.left, inBar, bad: !isSeen || isCovered ? one.outerHTML : '' }; }"""


def test_the_focus_goes_as_one_reads_and_is_seen_everywhere(opened: Watched) -> None:
    page, board = opened.page, board_of(opened.page)
    settle(page)
    board.locator("summary").last.focus()
    page.keyboard.press("Shift+Tab")  # a ring is for people who use keys
    found: list[dict[str, Any]] = []
    while one := page.evaluate(FOCUS):
        found.append(one)
        page.keyboard.press("Shift+Tab")
    assert len(found) > 60
    assert [one["bad"] for one in found if one["bad"]] == []
    places = [one["left"] for one in found if one["inBar"]]
    assert places == sorted(places, reverse=True)
    opened.assert_quiet()


@pytest.mark.exhaustive
def test_the_bar_stays_in_sight_and_the_theme_can_be_chosen(opened: Watched) -> None:
    page, board = opened.page, board_of(opened.page)
    bar = board.locator(".sharelag-bar")
    board.locator(".sl-table").last.scroll_into_view_if_needed()
    expect(bar.get_by_role("heading")).to_be_in_viewport()
    # Nothing that scrolls by shines through, in the theme of the page or in one that is chosen.
    expect(bar).to_have_css("background-color", "rgb(255, 255, 255)")
    bar.get_by_label("Theme").select_option("dark")
    expect(board.locator(".sl-table").first).to_have_attribute("data-theme", "dark")
    expect(board.locator(".sl-cards")).to_have_attribute("data-theme", "dark")
    expect(bar).to_have_css("background-color", "rgb(21, 24, 29)")
    for words in ("Range", "Group"):
        expect(bar.get_by_text(words, exact=True)).to_have_css("color", "rgb(230, 233, 239)")
    page.wait_for_function(IDLE)
    bar.get_by_label("Theme").select_option("")
    expect(board.locator(".sl-table").first).to_have_attribute("data-theme", "light")
    page.wait_for_function(IDLE)
    opened.assert_quiet()


#: Runs the cell that was inserted; gives its place, its code and what it shows, and takes it away.
_RUN_NEW = """async () => { const { commands, shell } = window.jupyterapp, { content } = shell.currentWidget;
    const [place, { model, outputArea }] = [content.activeCellIndex, content.activeCell];
    await commands.execute('notebook:run-cell');
    const found = { place, source: model.sharedModel.getSource(), outputs: outputArea.model.toJSON() };
    await commands.execute('notebook:delete-cell');
    return found; }"""


def run_python_of(page: Page, piece: Locator, more: str) -> tuple[str, list[dict[str, Any]]]:
    """Take the Python of a piece into a new cell, and run that; return it, and what it shows."""
    count = "window.jupyterapp.shell.currentWidget.content.widgets.length"
    before = page.evaluate(count)
    piece.get_by_role("button", name=more, exact=True).click()
    piece.get_by_role("button", name="Python into a new cell").filter(visible=True).click()
    page.wait_for_function(f"{count} === {before + 1}")
    found = page.evaluate(_RUN_NEW)
    assert found["place"] == 2  # right below the dashboard
    failed = [one for one in found["outputs"] if one["output_type"] in ("error", "stream")]
    assert failed == [], found["source"]
    return found["source"], [one["data"] for one in found["outputs"]]


@pytest.mark.exhaustive
def test_what_is_clicked_gives_its_python_in_a_cell_that_shows_it(opened: Watched) -> None:
    """In a notebook that has no `bench`: code begins with what it is called there."""
    page, board = opened.page, board_of(opened.page)
    pick(page, "billing")
    source, shown = run_python_of(page, board.locator(".sl-verdict").first, "More")
    assert source.startswith("bench = shop.bench\n")
    texts = [one["text/html"] for one in shown if one.get("text/html")]
    overview, causes, parts, strip, lag = texts
    assert "returns-desk" in overview
    assert "head of line" in causes
    assert "billing: 8 offsets of lag" in parts
    assert "orders" in strip
    assert "orders" in lag
    (story,) = [one for one in shown if "application/vnd.plotly.v1+json" in one]
    assert "billing: lag 8 offsets" in str(story)
    lag_aware = board.locator(".sl-tries [data-name=lag-aware]")
    lag_aware.get_by_role("button", name="lag-aware assignor").first.click()
    expect(lag_aware.locator("svg")).to_be_visible()
    _, (table, curves) = run_python_of(page, lag_aware, "More on lag-aware assignor")
    assert "lag-aware assignor" in table["text/html"]
    assert "lag-aware assignor" in str(curves["application/vnd.plotly.v1+json"])
    board.locator(".sl-grid canvas").first.press("Home")
    page.keyboard.press("Enter")
    settle(page)
    # The first of these cells has called it so.
    source, (rows,) = run_python_of(page, board.locator(".sharelag-bar"), "More")
    assert source.startswith("from sharelag_widgets import Selection\n")
    assert "analytics" in str(rows["text/plain"])
    opened.assert_quiet()


def assert_in_sight(board: Locator) -> None:
    """Verdict, all eight groups, and the chart of lag and age are whole in the page."""
    rows = board.locator(".sl-table").first.locator("tbody tr")
    expect(rows).to_have_count(8)
    story = board.locator(".sharelag-columns > :last-child .sl-chart .sl-stage")
    for one in (board.locator(".sl-verdict"), *rows.all(), story):
        expect(one).to_be_in_viewport(ratio=1)


@pytest.mark.exhaustive
def test_the_first_notebook_shows_them_in_its_first_screen(lab: Lab, browser: Browser) -> None:
    """As JupyterLab opens it, beside the list of files."""
    copy_of("00_start_here", lab.folder, engine="local")
    running = Running(lab, browser, ["00_start_here"])
    page = running.finished("00_start_here").page
    page.set_viewport_size({"width": 1440, "height": 900})
    page.locator(".jp-WindowedPanel-outer").evaluate("one => one.scrollTo(0, 0)")
    expect(page.locator("h1").first).to_be_in_viewport(ratio=1)
    assert_in_sight(board_of(page))
    group = board_of(page).get_by_label("Group", exact=True)
    expect(group).to_have_value("returns-desk")
    assert group.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    running.close("00_start_here")


def test_groups_and_chart_are_in_the_first_screen_also_on_a_narrow_page(opened: Watched) -> None:
    page, board = opened.page, board_of(opened.page)
    table = board.locator(".sl-table").first
    story = board.locator(".sharelag-columns > :last-child .sl-chart .sl-stage")
    causes = board.locator(".sl-cards")

    def place(one: Locator) -> dict[str, float]:
        box = box_of(one)
        return {"x": box["x"], "y": box["y"], "end": box["y"] + box["height"]}

    page.set_viewport_size({"width": 1440, "height": 900})
    pick(page, "billing")
    # Beside the list of files, and without it.
    bar, moment = board.locator(".sharelag-bar"), board.locator(".sharelag-bar .sl-when bdi").first
    expect(moment).to_contain_text(" UTC")
    assert moment.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    page.evaluate("window.jupyterapp.shell.collapseLeft()")
    page.wait_for_function("document.querySelector('.sharelag-now').clientWidth > 1200")
    assert moment.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    expect(bar.get_by_text(" ago")).to_be_visible()
    for control in (
        bar.get_by_role("heading", name="Now: demo"),
        bar.get_by_text("Recorded"),
        bar.get_by_label("Range"),
        bar.get_by_label("Group", exact=True),
        bar.get_by_label("Theme"),
        bar.get_by_role("button", name="Refresh"),
        bar.get_by_role("button", name="More"),
    ):
        expect(control).to_be_visible()
    board.evaluate("one => one.scrollIntoView()")
    assert bar.evaluate("one => one.getBoundingClientRect().height") == 40
    assert_in_sight(board)
    assert place(story)["x"] > place(table)["x"] + 300
    assert place(causes)["y"] > place(story)["end"]
    cards = causes.locator("li")
    expect(cards.locator(".sl-primary")).to_have_count(cards.count())
    # Two rows need no filter.
    expect(board.locator(".sl-table").last.get_by_label("Filter")).to_be_hidden()
    # The controls of the grid and of the window are a row each; the scale has no words.
    tops = "bar => new Set([...bar.children].filter(one => one.checkVisibility())\
        .map(one => Math.round((one.getBoundingClientRect().top + one.getBoundingClientRect().bottom) / 20))).size"
    for controls in (".sl-grid .sl-bar", ".sl-strip .sl-bar"):
        assert board.locator(controls).first.evaluate(tops) == 1
    # Of the cells, nothing but the mark of the group is another when another one is picked.
    cells, picture = board.locator(".sl-grid canvas").first, "one => one.toDataURL()"
    before = cells.evaluate(picture)
    pick(page, "invoicing")
    assert cells.evaluate(picture) != before
    page.set_viewport_size({"width": 768, "height": 900})
    page.wait_for_function("() => document.querySelector('.sharelag-columns').clientWidth < 940")
    ends = [place(one)["y"] for one in (table, story, causes, board.locator(".sl-grid"))]
    assert ends == sorted(ends)
    assert board.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    # Enlarged to 200 %, the bar does not stay over what is read.
    page.set_viewport_size({"width": 720, "height": 450})
    expect(bar).to_have_css("position", "static")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(bar).to_have_css("position", "sticky")
    page.evaluate("window.jupyterapp.shell.expandLeft()")
    page.evaluate("window.jupyterapp.shell.expandLeft()")
    opened.assert_quiet()


# Titles of a chart's axes that are cut by its frame, or lie on a number of an axis.
COVERED = """stage => { const box = one => one.getBoundingClientRect(), frame = box(stage);
    const all = find => [...stage.querySelectorAll(find)].filter(one => one.textContent.trim());
    const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const ticks = all('.xtick text, .ytick text, .y2tick text').map(box), titles = all('.g-gtitle text, [class*="title"] text, text[class*="title"]');
    return titles.filter(one => { const at = box(one); return at.left < frame.left - 1 || at.right > frame.right + 1
        || at.top < frame.top - 1 || at.bottom > frame.bottom + 1 || ticks.some(tick => meets(at, tick)); }).map(one => one.textContent); }"""
TITLES = """stages => stages.flatMap(stage => [...stage.querySelectorAll('text[class*="title"]')].map(one => one.textContent))"""


@pytest.mark.parametrize("width", few_of([768, 1010, 1440, 1920], [768, 1440]))
def test_moment_and_titles_are_whole_at_any_width(wide: Watched, width: int) -> None:
    page, board = wide.page, board_of(wide.page)
    page.set_viewport_size({"width": width, "height": 900})
    settle(page)
    stages = board.locator(".sl-chart .sl-stage:visible")
    fits = "stage => { const svg = stage.querySelector('.main-svg'); return svg.clientWidth <= stage.clientWidth + 1; }"
    for stage in stages.all():
        page.wait_for_function(fits, arg=stage.element_handle())  # drawn anew at this width
        assert stage.evaluate(COVERED) == []
    assert {"lag (offsets)", "age (minutes)"} <= set(stages.evaluate_all(TITLES))
    moment = board.locator(".sharelag-bar .sl-when bdi").first
    expect(moment).to_contain_text("As of 2026-11-23 12:30:20.783 UTC")
    bar, said = map(box_of, (board.locator(".sharelag-bar"), moment))
    assert bar["x"] <= said["x"]
    assert said["x"] + said["width"] <= bar["x"] + bar["width"]
    assert moment.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    wide.assert_quiet()


def test_at_200_percent_the_page_is_not_wider_and_the_bar_leaves_room(wide: Watched) -> None:
    """As a browser does it: twice as many pixels for half as many lines and columns."""
    page, board = wide.page, board_of(wide.page)
    enlarged = {"width": 720, "height": 450, "deviceScaleFactor": 2, "mobile": False}
    session = wide.context.new_cdp_session(page)
    session.send("Emulation.setDeviceMetricsOverride", enlarged)
    page.wait_for_function("() => devicePixelRatio === 2 && innerWidth === 720")
    settle(page)
    board.locator(".sl-table").last.scroll_into_view_if_needed()
    covered = board.locator(".sharelag-bar").evaluate(
        "bar => { const { top, bottom } = bar.getBoundingClientRect(); return Math.max(0, bottom "
        "- Math.max(top, 0)); }"
    )
    assert covered < 450 / 5
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert board.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    # What is too wide for the page scrolls within its own frame.
    beyond = """(frames, board) => frames.filter(one => one.getBoundingClientRect().right > board.getBoundingClientRect().right + 1
        || (one.scrollWidth > one.clientWidth && getComputedStyle(one).overflowX !== 'auto')).length"""
    frames = board.locator(".sl-table .sl-scroll:visible, .sharelag-result .scroll:visible")
    assert frames.count() >= 2
    assert frames.evaluate_all(beyond, board.element_handle()) == 0
    assert axe_violations(page, ".sharelag-now") == []
    session.send("Emulation.clearDeviceMetricsOverride")
    session.detach()
    wide.assert_quiet()


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (768, "Dark"),
        *(
            pytest.param(width, theme, marks=pytest.mark.exhaustive)
            for width, theme in (
                *((768, "Light"), (1440, "Light"), (1440, "Dark")),
                *((1920, "Dark"), (1920, "Light")),
            )
        ),
    ],
)
def test_nothing_is_hidden_from_who_cannot_see_it(opened: Watched, width: int, theme: str) -> None:
    page = opened.page
    dark = "dark => [...document.querySelectorAll('.sl-head')].every(one => (one.dataset.theme === 'dark') === dark)"
    page.set_viewport_size({"width": width, "height": 900})
    change_theme(page, f"JupyterLab {theme}", dark, theme == "Dark")
    page.wait_for_function(IDLE)
    assert axe_violations(page, ".sharelag-now") == []
    opened.assert_quiet()


@pytest.mark.exhaustive
def test_by_keys_alone_from_opening_it_to_a_decision_in_a_minute(opened: Watched) -> None:
    """The last one, as the lab that it opens has a verdict and charts, too."""
    page, board = opened.page, board_of(opened.page)
    page.set_viewport_size({"width": 1440, "height": 900})
    began = machine_time(page)
    board.locator(".sharelag-bar").get_by_label("Theme").focus()
    go_to(page, board.get_by_role("grid").first)
    page.keyboard.press("/")
    page.keyboard.type("fulfilment")
    page.keyboard.press("Enter")
    expect(board.locator(".sl-cards .sl-state")).to_contain_text("fulfilment")
    what_if = board.locator(".sl-tries")
    go_to(page, what_if.get_by_role("button", name="what clears the lag"))
    page.keyboard.press("Enter")
    decision = re.compile(  # both, as they differ by seconds
        r"all-to-all and lag-aware-sticky with 9 members clear the lag: drained in 7m 4\ds, p95 "
        r"age .*; the group as it is \(simple, 3 members\): not drained within 10m, lag grows to "
        r"1\d,\d+, p95 age 24m 5\ds; no assignor does with 7 members"
    )
    expect(what_if.locator("p[role=status]")).to_contain_text(decision, timeout=60_000)
    expect(what_if.locator("[data-name=search]")).to_contain_text(re.compile("7m 4\\ds"))
    assert OPENING[0] + machine_time(page) - began < 60
    lab = board.locator(".sharelag-lab")
    expect(lab.locator(".sl-verdict")).to_contain_text(decision)
    expect(lab.locator(".sl-chart:visible")).to_have_count(2)  # the grid, and the curves
    words = lab.locator(".sl-chart:visible").first.locator(".scatterlayer text")
    expect(words.first).to_be_visible()
    boxes = words.evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(at => [at.left, at.right, at.top])"
    )
    lines = sorted(boxes, key=lambda box: (box[2], box[0]))
    beside = [(one, other) for one, other in pairwise(lines) if one[2] == other[2]]
    assert beside
    assert all(one[1] <= other[0] for one, other in beside)
    go_to(page, lab.get_by_role("button", name="Find what clears the lag"))
    assert axe_violations(page, ".sharelag-now") == []
    opened.assert_quiet()
