"""An assignment to edit is readable in every colour, width and mode, and without sight."""

import pytest

from sharelag_widgets import AssignmentEditor
from tests.support.browser.desk import CONTRAST, Desk, OpenDesk, axe_violations, faint_texts
from tests.support.browser.editor_page import (
    ALONE,
    LIST,
    PAPERS,
    announced,
    chip,
    drag,
    line,
    results,
    run_through,
    twin,
)
from tests.support.widgets.editors import Gate, editor, partitions
from tests.support.widgets.samples import HOSTILE


def everything(desk: Desk, view: AssignmentEditor, gate: Gate) -> None:
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-3"))
    chip(desk, "member-1", "orders-3").click()
    desk.page.get_by_role("button", name="Add a member").click()
    run_through(desk, view, gate)
    desk.page.get_by_role("button", name="Show as table").click()
    desk.page.locator("summary").click()
    desk.settle()


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.exhaustive)])
def test_axe_finds_nothing_and_text_has_contrast(theme: str, open_desk: OpenDesk) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = open_desk(view, paper=PAPERS[theme])
    everything(desk, view, gate)
    view.failure = "It failed"
    desk.settle()
    assert (desk.root().get_attribute("data-theme"), axe_violations(desk.page)) == (theme, [])
    assert len(desk.page.evaluate(CONTRAST)) > 80
    assert faint_texts(desk.page) == []
    desk.page.evaluate(f"document.body.dataset.jpThemeLight = '{str(theme == 'light').lower()}'")
    desk.page.evaluate("document.body.dataset.jpThemeName = 'JupyterLab High Contrast'")
    desk.page.wait_for_function("document.querySelector('.sl').dataset.contrast === 'more'")
    desk.settle()
    assert faint_texts(desk.page, 7) == []


@pytest.mark.exhaustive  # at one width: `test_names_are_text_everywhere`
def test_it_fits_any_width(open_desk: OpenDesk) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = open_desk(view)
    everything(desk, view, gate)
    beyond = """list => [...list.querySelectorAll('.sl-chip')]
        .filter(one => one.getBoundingClientRect().right > list.getBoundingClientRect().right).length"""
    for width in (1600, 700, 320):
        desk.page.set_viewport_size({"width": width, "height": 800})
        desk.settle()
        assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        assert desk.page.eval_on_selector(LIST, beyond) == 0, width
    assert axe_violations(desk.page) == []  # where it is narrowest


def test_names_are_text_everywhere(open_desk: OpenDesk) -> None:
    gate = Gate()
    names = {HOSTILE: {HOSTILE: [0, 1]}, "b": {}}
    view = editor(
        partitions=partitions((HOSTILE, "orders")),
        assignment=names,
        on_run=gate,
        title=HOSTILE,
        choices=[HOSTILE],
    )
    desk = open_desk(view)
    assert desk.page.locator(".sl-editor h3").inner_text() == HOSTILE
    desk.page.focus(LIST)
    desk.press("ArrowDown", "ArrowRight", "Enter", "ArrowDown", "Enter")
    assert view.assignment == {HOSTILE: {HOSTILE: [1]}, "b": {HOSTILE: [0]}}
    assert announced(desk, f"\u2068{HOSTILE}\u2069-0 moved from \u2068{HOSTILE}\u2069 to b.")
    desk.page.get_by_label("Name of a new member").fill("<img src=x onerror=alert(2)>")
    desk.page.get_by_role("button", name="Add a member").click()
    run_through(desk, view, gate)
    assert twin(desk)[HOSTILE][0] == "1"
    assert desk.page.locator(".sl-found li").last.inner_text() == f"of {HOSTILE}: nothing"
    assert desk.page.locator(".sl img, .sl b").count() == 0
    assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.exhaustive
def test_forced_colours_and_paper(open_desk: OpenDesk) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = open_desk(view, forced_colors="active")
    everything(desk, view, gate)
    assert desk.root().get_attribute("data-theme") == "forced"
    chosen = chip(desk, "member-1", "orders-3")
    other = chip(desk, "member-1", "refunds-1")
    edge = """one => {
        const style = getComputedStyle(one);
        return [style.borderWidth, style.borderColor, style.outlineStyle].join(' ');
    }"""
    assert chosen.evaluate(edge) != other.evaluate(edge)
    assert [row[-1] for row in results(desk)][:3] == ["✔ better", "✔ better", "? unclear"]
    paper = open_desk(editor(), paper=PAPERS["dark"])
    paper.page.emulate_media(media="print")
    paper.page.wait_for_function("document.querySelector('.sl').dataset.theme === 'light'")
    assert paper.page.locator(".sl button:visible").count() == 0


def test_what_a_screen_reader_gets(open_desk: OpenDesk) -> None:
    desk = open_desk(editor())
    tree = desk.root().aria_snapshot()
    assert 'grid "Members and their partitions"' in tree
    assert 'rowheader "member-1: 3 partitions, lag 9,500"' in tree
    assert 'gridcell "refunds-2' in tree
    title = chip(desk, "member-2", "refunds-2").get_attribute("title")
    assert title == "refunds-2 of member-2, lag 7,000, also of member-1"
    assert desk.page.get_attribute(LIST, "aria-rowcount") == "5"
    shown = twin(desk)
    assert shown["member-0"] == ["4", "orders: 0-2; refunds: 0", "-", "-"]
    assert shown[ALONE] == ["3", "orders: 4; refunds: 3-4", "-", "-"]
