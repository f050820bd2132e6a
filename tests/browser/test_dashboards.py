"""Dashboards in a real JupyterLab: linked, honest about what-ifs, readable on failure."""

from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import sharelag
from tests.support.browser.desk import Watched, axe_violations, box_of, faint_texts
from tests.support.browser.jupyter import IDLE, NOW_AND_THEN, Lab, change_theme

# In each run: the dashboard that has these parts in a lab (`test_now.py`), the parts with hostile
# names in plain pages (`test_dashboard_header.py`, `test_widgets_looks.py`), and what is linked and
# fails in Python (`tests/widgets/test_dashboards.py`).
pytestmark = pytest.mark.exhaustive
SETUP = """import ipywidgets, sharelag
from sharelag.workbench import Workbench
from sharelag_widgets import Selection
from sharelag_widgets.dashboards import *
from tests.support.written_input import WrittenInput, Write
from tests.support.widgets.samples import HOSTILE
demo, picked = sharelag.open('chapters', engine='local'), Selection()
writes = [Write(50, 10, group=HOSTILE), Write(3, 12, ((20, 24, 0, 3),), group=HOSTILE)]
hostile = Workbench(WrittenInput(writes), engine="local")
demo"""
KINDS = ["PoisonHunt", "FleetView", "WindowExplorer", "ImbalanceView", "GroupView"]
KINDS += ["StateTopicHealth", "WhatIfLab", "Now"]
CELLS = [
    SETUP,
    "fleet = FleetView(demo, selection=picked)\nfleet",
    "group = GroupView(demo, selection=picked)\ngroup",
    "hunt = PoisonHunt(sharelag.open('poison', engine='local'))\nhunt",
    (
        "lab = WhatIfLab(sharelag.open('hot_partition', engine='local'))\nlab.seconds.value, "
        "lab.runs.value = 5, 2\nlab"
    ),
    "unknown = GroupView(demo, 'biling')\nunknown",
    "unreachable = FleetView(sharelag.open('127.0.0.1:1', timeout=1, engine='local'))\nunreachable",
    f"names = ipywidgets.VBox([kind(hostile) for kind in ({', '.join(KINDS)})])\nnames",
    "state = StateTopicHealth(demo)\nstate",
]
FLEET, GROUP, HUNT, LAB, UNKNOWN, UNREACHABLE, NAMES, STATE = range(1, 9)


@pytest.fixture(scope="module")
def opened(lab: Lab, browser: Browser) -> Iterator[Watched]:
    """The notebook after a full run."""
    lab.write("dashboards", CELLS)
    watched = lab.page(browser)
    page = lab.open(watched, "dashboards.ipynb")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_function(
        "count => document.querySelectorAll('.sl-level-2[data-loaded]').length === count",
        arg=len(CELLS) - 2 + len(KINDS),
        polling=NOW_AND_THEN,
    )
    page.wait_for_function(IDLE, polling=NOW_AND_THEN)
    yield watched
    watched.page.close()


def cell(page: Page, number: int) -> Locator:
    return page.locator(".jp-Notebook .jp-Cell").nth(number)


def head(page: Page, number: int) -> Locator:
    return cell(page, number).locator(".sl-level-2")


def test_every_dashboard_is_there_and_nothing_leaves_the_machine(opened: Watched) -> None:
    page = opened.page
    assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    for number in (FLEET, GROUP, HUNT, LAB, STATE):
        box = box_of(cell(page, number).locator(".sharelag-dashboard"))
        assert box["height"] > 600
        assert cell(page, number).locator(".sl-failure:visible").count() == 0
    cell(page, NAMES).locator(".jp-OutputArea").first.evaluate(
        "output => { output.dataset.axe = ''; }"
    )
    assert axe_violations(page, "[data-axe], .jp-Cell:first-child .sharelag-result") == []
    opened.assert_quiet()


@pytest.mark.parametrize(("width", "columns"), [(1000, 1), (1920, 2)])
def test_wide_pages_have_parts_side_by_side(opened: Watched, width: int, columns: int) -> None:
    page = opened.page
    before = page.viewport_size or {"width": 1280, "height": 720}
    page.set_viewport_size({"width": width, "height": 900})
    groups, cells = (cell(page, FLEET).locator(".sl-level-3").nth(n) for n in (0, 1))
    expect(groups).to_be_visible()
    page.wait_for_function(IDLE)
    first, second = box_of(groups), box_of(cells)
    assert (first["y"] == second["y"], first["x"] == second["x"]) == (columns == 2, columns == 1)
    if columns == 2:  # tables of half a page show all of their columns
        page.evaluate("window.jupyterapp.shell.collapseLeft()")
        for number in (FLEET, HUNT):
            scroll = cell(page, number).locator(".sl-table .sl-scroll").first
            expect(scroll).to_be_visible()
            page.wait_for_function(
                "one => one.clientWidth > 0 && one.scrollWidth <= one.clientWidth",
                arg=scroll.element_handle(),
            )
        page.evaluate("window.jupyterapp.shell.expandLeft()")
    page.set_viewport_size({"width": before["width"], "height": before["height"]})


def test_numbers_are_readable_with_time_units_and_definitions(opened: Watched) -> None:
    page = opened.page
    said = head(page, GROUP).inner_text()
    demo = sharelag.open("chapters", engine="local")
    at = demo.lag().as_of
    assert at is not None
    berlin = at.astimezone(ZoneInfo("Europe/Berlin"))
    assert f"As of {at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} UTC\n" in said
    assert f"{berlin:%H:%M:%S} local time" in said
    assert "ago" in said
    assert "Recorded" in said
    rows = cell(page, FLEET).locator(".sl-table").first.inner_text()
    most = max(lag or 0 for lag in demo.lag(by="group").table.column("lag").to_pylist())
    assert f"{most:,}" in rows
    help_ = head(page, GROUP).get_by_role("button", name="What does Share group")
    help_.focus()
    page.keyboard.press("Enter")
    region = head(page, GROUP).get_by_role("region", name="Help: Share group")
    expect(region).to_contain_text(
        "end offset - start offset - delivery complete count (KIP-1226), in offsets"
    )
    page.keyboard.press("Escape")
    expect(region).to_be_hidden()
    assert help_.evaluate("button => button === document.activeElement")
    helps = page.locator(".sl-head .sl-ask:visible")
    assert helps.count() > 20
    opened.assert_quiet()


def test_a_group_picked_in_one_dashboard_is_shown_in_the_other(opened: Watched, lab: Lab) -> None:
    page = opened.page
    expect(head(page, GROUP).locator("h2")).to_have_text("Share group: notifications")
    cell(page, FLEET).locator(".sl-table").first.locator("tr", has_text="billing").click()
    expect(head(page, GROUP).locator("h2")).to_have_text("Share group: billing")
    expect(cell(page, FLEET).locator(".sl-table").last).to_have_attribute("data-rows", "10")
    expect(cell(page, FLEET).locator(".sl-finding")).to_contain_text("billing: 2")
    page.wait_for_function(IDLE)
    said = ask(page, "print(len(picked.keys), group.group, len(picked.of(demo.lag().table)))")
    assert said == "10 billing 10"
    code = "exec(picked.to_code('demo.lag().table').rsplit('\\n', 2)[0]); "
    code += "print(eval(picked.to_code('demo.lag().table').split('\\n', 2)[2]).equals(picked.of(demo.lag().table)))"
    assert ask(page, code) == "True"
    opened.assert_quiet()


def test_failures_are_sentences_with_what_to_do(opened: Watched) -> None:
    page = opened.page
    said = head(page, UNKNOWN).locator(".sl-failure").inner_text()
    assert "no state of share group 'biling'" in said
    assert "its groups are analytics, billing" in said
    assert "127.0.0.1:1" in head(page, UNREACHABLE).locator(".sl-failure").inner_text()
    for number in (UNKNOWN, UNREACHABLE):
        assert "Traceback" not in cell(page, number).locator(".jp-OutputArea").inner_text()
    # The controls go on: another group can be chosen.
    cell(page, UNKNOWN).get_by_label("Group", exact=True).fill("billing")
    page.keyboard.press("Enter")
    expect(head(page, UNKNOWN).locator(".sl-failure")).to_be_hidden()
    expect(head(page, UNKNOWN).locator("h2")).to_have_text("Share group: billing")
    opened.assert_quiet()


def test_hostile_names_are_text(opened: Watched) -> None:
    page, boards = opened.page, cell(opened.page, NAMES).locator(".sharelag-dashboard")
    assert boards.count() == len(KINDS)
    assert cell(page, NAMES).locator(".jp-OutputArea img:not(.sl-drawing)").count() == 0
    for board in boards.all():
        said = board.inner_text()
        title = board.locator("h2").inner_text()
        assert "<img src=x onerror=alert(1)>" in said or title == "State topic", title
        wide = board.evaluate("board => board.scrollWidth - board.clientWidth")
        assert wide <= 0, title
        # A name does not take a table for itself, also where views with rules of their own came
        # later.
        cells = board.locator(".sl-table th").evaluate_all("all => all.map(one => one.offsetWidth)")
        assert max(cells, default=0) < 500 or len(cells) < 4, (title, cells)
    assert "<img src=x onerror" in boards.first.locator(".sl-cards").inner_text()
    opened.assert_quiet()


def test_results_show_themselves_in_the_theme_of_the_lab(opened: Watched) -> None:
    page, result = opened.page, cell(opened.page, 0).locator(".sharelag-result")
    shown = "dark => [...document.querySelectorAll('.sl-head')].every(one => (one.dataset.theme === 'dark') === dark)"
    expect(result).to_contain_text("Two minutes of a small shop")
    for dark in (False, True):  # it was opened light
        if dark:
            change_theme(page, "JupyterLab Dark", shown, dark)
        else:
            assert page.evaluate(f"({shown})(false)")
        page.wait_for_function(IDLE)
        ink = result.evaluate(
            "one => getComputedStyle(one).color.match(/[0-9.]+/g).slice(0, 3).map(Number)"
        )
        assert (sum(ink) > 384, faint_texts(page)) == (dark, [])
    opened.assert_quiet()


def ask(page: Page, code: str) -> str:
    """What the notebook's own kernel answers, in a new cell at its end."""
    page.evaluate(
        """async code => { const app = window.jupyterapp, panel = app.shell.currentWidget, notebook = panel.content;
        notebook.activeCellIndex = notebook.widgets.length - 1;
        await app.commands.execute('notebook:insert-cell-below');
        notebook.activeCell.model.sharedModel.setSource(code);
        await app.commands.execute('notebook:run-cell'); }""",
        code,
    )
    page.wait_for_function(IDLE)
    output = page.locator(".jp-Notebook .jp-Cell").last.locator(".jp-OutputArea-output")
    output.first.wait_for()
    return output.first.inner_text().strip()
