"""A view whose module came too late for anywidget shows what Python says: late, never stale."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.jupyter import IDLE, NOW_AND_THEN, Lab

#: A view of each kind: of rows, small ones, and those with a life of their own.
CELLS = [
    """import ipywidgets, pyarrow as pa
from sharelag_widgets import LagTable
from sharelag_widgets.dashboards.pieces import CauseCards
from sharelag_widgets.dashboards.pieces import Header
from sharelag_widgets.dashboards.pieces import Verdict
def rows(lag):
    return pa.table({"group_id": ["billing"], "topic": ["orders"], "topic_id": ["A" * 22],
                     "partition": [0], "lag": [lag]})
table, header = LagTable.of(rows(1)), Header(title="the first", level=2)
verdict, cards = Verdict({}, sentence="the first"), CauseCards(state="the first")
ipywidgets.VBox([table, header, verdict, cards])""",
    """table.rows = rows(22)
header.title = verdict.sentence = cards.state = 'the second'""",
    """table.rows = rows(33)
header.title = verdict.sentence = cards.state = 'the third'""",
]
#: Every module of a blob waits until the test lets it go on.
HOLD = """() => {
    const url = URL.createObjectURL.bind(URL);
    window.held = 0;
    window.released = new Promise((done) => { window.release = done; });
    URL.createObjectURL = (blob) => {
        if (blob.type !== "text/javascript") return url(blob);
        window.held += 1;
        return url(new Blob(["await window.released;\\n", blob], { type: blob.type }));
    }; }"""
#: anywidget's two seconds of each of them are over when this timer, which starts later, is.
TOO_LATE = """() => new Promise((done) => {
    AbortSignal.timeout(2500).addEventListener("abort", done); })"""


@pytest.fixture
def late(lab: Lab, browser: Browser) -> Iterator[Page]:
    """The notebook after its second cell; anywidget has given up each of the four modules."""
    lab.write("late", CELLS)
    watched = lab.page(browser)
    watched.page.add_init_script(f"({HOLD})()")
    page = lab.open(watched, "late.ipynb")
    run(page, 0)
    page.wait_for_function("window.held === 4")
    page.evaluate(TOO_LATE)
    run(page, 1)
    yield page
    watched.assert_quiet()


def run(page: Page, cell: int) -> None:
    page.evaluate(
        """async n => { const { commands, shell } = window.jupyterapp;
        shell.currentWidget.content.activeCellIndex = n;
        await commands.execute('notebook:run-cell'); }""",
        cell,
    )
    page.wait_for_function(IDLE, polling=NOW_AND_THEN)


@pytest.mark.exhaustive  # how a view asks for what it has missed is tested in `shared.test.js`
def test_it_shows_what_was_said_before_and_hears_what_is_said_from_then_on(late: Page) -> None:
    assert late.locator(".sl").count() == 0
    late.evaluate("window.release()")
    shown(late, "22", "the second")
    run(late, 2)
    shown(late, "33", "the third")


def shown(page: Page, lag: str, words: str) -> None:
    expect(page.get_by_role("grid")).to_contain_text(lag)
    expect(page.locator(".sl-head .sl-title")).to_have_text(words)
    expect(page.locator(".sl-verdict")).to_contain_text(words)
    expect(page.locator(".sl-cards")).to_contain_text(words)
