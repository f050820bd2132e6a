"""The what-if lab in JupyterLab: by keys alone, its errors, at any width and theme."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.desk import Watched, axe_violations, box_of, let_paint
from tests.support.browser.jupyter import IDLE, Lab, change_theme

#: What is found, a run and its cancellation: `tests/widgets/test_what_if.py`.
pytestmark = pytest.mark.exhaustive
CELL = """import sharelag
from sharelag_widgets.dashboards import WhatIfLab
lab = WhatIfLab(sharelag.open('hot_partition', engine='local'))
lab"""


@pytest.fixture(scope="module")
def opened(lab: Lab, browser: Browser) -> Iterator[Watched]:
    """The notebook after a full run."""
    lab.write("what-if", [CELL])
    watched = lab.page(browser)
    page = lab.open(watched, "what-if.ipynb")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.locator(".sl-verdict[data-loaded]").wait_for()
    page.wait_for_function(IDLE)
    yield watched
    watched.page.close()


def test_a_field_says_what_is_wrong_with_it(opened: Watched) -> None:
    page = opened.page
    members = page.get_by_label("Members", exact=True)
    for given, said in (
        ("many", "'many' cannot be read as members: type numbers above 0, such as 8, 16"),
        ("100000", "100,000 members are too many: give at most 1,000, the largest"),
    ):
        members.fill(given)
        members.press("Enter")
        expect(members).to_have_attribute("aria-invalid", "true")
        error = page.locator(".sl-field .sl-failure:visible")
        expect(error).to_contain_text(said)
        assert error.count() == 1
        own, other = box_of(members), box_of(error)
        assert 0 <= other["y"] - own["y"] - own["height"] < 12  # right below it
        expect(page.locator(".sharelag-dashboard")).to_contain_text("Not run")
    assert axe_violations(page, ".sharelag-dashboard") == []
    assert page.locator(".sl-head .sl-failure:visible").count() == 0
    members.fill("")
    members.press("Tab")
    expect(page.locator(".sl-field .sl-failure:visible")).to_have_count(0)
    expect(members).to_have_attribute("aria-invalid", "false")
    opened.assert_quiet()


def test_by_keys_alone_from_a_change_to_its_verdict_and_all_measures(opened: Watched) -> None:
    page, board = opened.page, opened.page.locator(".sharelag-dashboard")
    members = page.get_by_label("Members", exact=True)
    members.focus()
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    expect(members).to_have_value("8")  # from the three that there are
    chip = page.get_by_role("group", name="Assignors").get_by_role("button", name="lag-aware")
    expect(chip).to_have_attribute("aria-pressed", "true")
    balanced = page.get_by_role("button", name="balanced", exact=True)
    balanced.focus()
    page.keyboard.press("Space")
    expect(balanced).to_have_attribute("aria-pressed", "true")
    assert balanced.evaluate("chip => chip === document.activeElement")
    page.keyboard.press("Space")
    expect(balanced).to_have_attribute("aria-pressed", "false")
    members.focus()
    page.keyboard.press("Enter")
    verdict = board.locator(".sl-verdict")
    expect(verdict).to_contain_text("lag-aware-sticky · 8 members is better by ")
    expect(verdict).to_contain_text("; the group as it is: ")
    expect(board.locator(".sl-chart:visible")).to_have_count(1)
    decides = board.locator(".sharelag-result:visible")
    expect(decides).to_have_count(1)
    expect(decides).to_contain_text("lag-aware-sticky · 8 members")
    expect(decides).to_contain_text("best by ")
    fold = page.get_by_role("button", name="Advanced")
    fold.focus()
    page.keyboard.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(board.locator(".sl-table:visible").last).to_contain_text("24 rows")
    assert fold.evaluate("button => button === document.activeElement")
    opened.assert_quiet()


def test_what_is_clicked_right_after_changes_finds_them_all(opened: Watched) -> None:
    board = opened.page.locator(".sharelag-dashboard")
    board.evaluate(  # in one task of the page, so that no change has gone before the click on Run
        """board => ["balanced", "lag-aware-sticky", "Run"].forEach(name =>
            [...board.querySelectorAll("button")].find(one => one.textContent.startsWith(name)).click())"""
    )
    verdict = board.locator(".sl-verdict")
    expect(verdict).to_contain_text(re.compile("balanced.* 8 members is (better|worse|no better)"))
    expect(verdict).not_to_contain_text("ag-aware")
    opened.assert_quiet()


@pytest.mark.parametrize(
    ("width", "theme"),  # a notebook beside nothing, and a whole screen
    [*((768, "Dark"), (1440, "Light"), (768, "Light"), (1440, "Dark"))],
)
def test_it_is_readable_at_any_width_in_any_theme(opened: Watched, width: int, theme: str) -> None:
    page, board = opened.page, opened.page.locator(".sharelag-dashboard")
    shown = "dark => [...document.querySelectorAll('.sl')].every(one => (one.dataset.theme === 'dark') === dark)"
    change_theme(page, f"JupyterLab {theme}", shown, theme == "Dark")
    page.set_viewport_size({"width": width, "height": 1200})
    let_paint(page)
    assert axe_violations(page, ".sharelag-dashboard") == []
    assert board.evaluate("board => board.scrollWidth - board.clientWidth") <= 0
    opened.assert_quiet()
