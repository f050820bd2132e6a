"""The dashboard of now in a real JupyterLab: one page from the verdict to what would help."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browser.desk import Watched, axe_violations, let_paint
from tests.support.browser.jupyter import IDLE, Lab, change_theme
from tests.support.notebooks.running import go_to, settle

CELLS = [
    "import sharelag",
    "shop = sharelag.open('demo', engine='local').dashboard()\nshop",
    "'the end'",
]


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
    page.wait_for_function(IDLE)
    yield watched
    watched.page.close()


def board_of(page: Page) -> Locator:
    return page.locator(".sharelag-now")


def pick(page: Page, group: str) -> None:
    """Pick a group in the bar."""
    field = board_of(page).get_by_label("Group", exact=True)
    field.fill(group)
    field.press("Enter")
    expect(board_of(page).locator(".sl-cards .sl-state")).to_contain_text(group)
    story = board_of(page).locator(".sharelag-columns > :last-child .sl-finding").first
    expect(story).to_contain_text(group)
    settle(page)  # a chart that is drawn again while somebody drags over it ends that


def test_one_minute_from_the_verdict_to_what_would_help_by_keys_alone(opened: Watched) -> None:
    """The focus begins in the bar of the dashboard, and only keys move it from there."""
    page = opened.page
    board = board_of(page)
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
    expect(what_if.locator("summary")).to_contain_text("Simulated; assumes")
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
    box = chart.bounding_box()
    assert box is not None
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
    said.get_by_role("button", name="Back to the last moment").click()
    expect(earlier).to_have_text("Recorded")
    expect(said).to_contain_text("7 of 8 share groups need attention")
    page.wait_for_function(IDLE)
    opened.assert_quiet()


@pytest.mark.exhaustive
def test_pointing_anywhere_above_a_moment_says_what_was_then(opened: Watched) -> None:
    """Of lag and of age, with one line through both; however far from them one points."""
    page = opened.page
    board = board_of(page)
    pick(page, "fulfilment")
    chart = board.locator(".sharelag-columns > :last-child .sl-chart")
    plot = chart.locator(".nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 4, steps=3)
    said = chart.locator(".hoverlayer .hovertext")
    expect(said.filter(has_text="lag ").first).to_be_visible()
    expect(chart.locator(".hoverlayer .spikeline").first).to_be_attached()
    page.mouse.move(0, 0)
    opened.assert_quiet()


@pytest.mark.parametrize("width", [768, 1440, pytest.param(1920, marks=pytest.mark.exhaustive)])
def test_every_column_can_be_read_and_what_belongs_together_stays_together(
    opened: Watched, width: int
) -> None:
    """Nothing is cut where there is room, and what there is no room for is said."""
    page = opened.page
    board = board_of(page)
    page.evaluate("window.jupyterapp.shell.collapseLeft()")
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
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("window.jupyterapp.shell.expandLeft()")
    opened.assert_quiet()


@pytest.mark.exhaustive
def test_the_bar_stays_in_sight_and_the_theme_can_be_chosen(opened: Watched) -> None:
    page = opened.page
    board = board_of(page)
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


def test_what_is_clicked_gives_its_python_in_a_new_cell(opened: Watched) -> None:
    page = opened.page
    count = "window.jupyterapp.shell.currentWidget.content.widgets.length"
    before = page.evaluate(count)
    said = board_of(page).locator(".sl-verdict").first
    said.get_by_role("button", name="More").click()
    said.get_by_role("button", name="Python into a new cell").click()
    page.wait_for_function(f"{count} === {before + 1}")
    source = page.evaluate(
        "window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.getSource()"
    )
    assert source.splitlines()[0] == "bench.overview()"
    place = page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex")
    assert place == 2  # right below the dashboard
    opened.assert_quiet()


def test_groups_and_chart_are_in_the_first_screen_and_below_each_other_on_a_narrow_page(
    opened: Watched,
) -> None:
    page = opened.page
    board = board_of(page)
    table, chart = board.locator(".sl-table").first, board.locator(".sl-chart .sl-stage:visible")
    causes = board.locator(".sl-cards")

    def place(one: Locator) -> dict[str, float]:
        box = one.bounding_box()
        assert box is not None
        return {"x": box["x"], "y": box["y"], "end": box["y"] + box["height"]}

    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("window.jupyterapp.shell.collapseLeft()")
    bar = board.locator(".sharelag-bar")
    page.wait_for_function(
        "() => document.querySelector('.sharelag-bar').getBoundingClientRect().height <= 44"
    )
    # The moment is not cut.
    moment = bar.locator(".sl-when bdi").first
    expect(moment).to_contain_text("ago")
    assert moment.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    top = place(board)["y"]
    assert table.locator("tbody tr").count() == 8
    story = chart.nth(2)  # after those of the left column
    assert place(table)["end"] - top < 800
    assert place(story)["x"] > place(table)["x"] + 300
    assert place(story)["end"] - top < 800
    assert place(causes)["y"] > place(story)["end"]
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
    opened.assert_quiet()


# Titles of a chart's axes that are cut by its frame, or lie on a number of an axis.
COVERED = """stage => { const box = one => one.getBoundingClientRect(), frame = box(stage);
    const all = find => [...stage.querySelectorAll(find)].filter(one => one.textContent.trim());
    const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const ticks = all('.xtick text, .ytick text, .y2tick text').map(box), titles = all('.g-gtitle text, [class*="title"] text, text[class*="title"]');
    return titles.filter(one => { const at = box(one); return at.left < frame.left - 1 || at.right > frame.right + 1
        || at.top < frame.top - 1 || at.bottom > frame.bottom + 1 || ticks.some(tick => meets(at, tick)); }).map(one => one.textContent); }"""
TITLES = """stages => stages.flatMap(stage => [...stage.querySelectorAll('text[class*="title"]')].map(one => one.textContent))"""


@pytest.mark.parametrize("width", [768, 1010, 1440, 1920])
def test_moment_and_titles_are_whole_at_any_width(opened: Watched, width: int) -> None:
    page = opened.page
    board = board_of(page)
    page.evaluate("window.jupyterapp.shell.collapseLeft()")
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
    bar, said = (one.bounding_box() for one in (board.locator(".sharelag-bar"), moment))
    assert bar is not None
    assert said is not None
    assert bar["x"] <= said["x"]
    assert said["x"] + said["width"] <= bar["x"] + bar["width"]
    assert moment.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("window.jupyterapp.shell.expandLeft()")
    opened.assert_quiet()


def test_enlarged_to_200_percent_the_page_is_not_wider_and_the_bar_leaves_room(
    opened: Watched,
) -> None:
    """As a browser does it: twice as many pixels for half as many lines and columns."""
    page = opened.page
    board = board_of(page)
    page.evaluate("window.jupyterapp.shell.collapseLeft()")
    enlarged = {"width": 720, "height": 450, "deviceScaleFactor": 2, "mobile": False}
    session = opened.context.new_cdp_session(page)
    session.send("Emulation.setDeviceMetricsOverride", enlarged)
    page.wait_for_function("() => devicePixelRatio === 2 && innerWidth === 720")
    settle(page)
    board.locator(".sl-table").last.scroll_into_view_if_needed()
    covered = board.locator(".sharelag-bar").evaluate(
        "bar => { const { top, bottom } = bar.getBoundingClientRect(); return Math.max(0, bottom - Math.max(top, 0)); }"
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
    page.set_viewport_size({"width": 1440, "height": 900})
    page.evaluate("window.jupyterapp.shell.expandLeft()")
    opened.assert_quiet()


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
