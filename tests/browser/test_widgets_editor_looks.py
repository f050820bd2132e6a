"""An assignment to edit is readable in every mode; its what-if runs, ends and fails with words."""

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
    status,
    twin,
    walk_to,
)
from tests.support.widgets.editors import BASE, Gate, editor, partitions
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


def test_nothing_is_edited_while_it_runs_then_the_difference_shows(open_desk: OpenDesk) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = open_desk(view)
    root, go = desk.root(), desk.page.get_by_role("button", name="Run the what-if")
    assert (root.get_attribute("aria-busy"), status(desk)) == ("false", "Not run yet.")
    go.click()
    desk.settle()
    assert (root.get_attribute("aria-busy"), status(desk)) == ("true", "Running…")
    assert desk.page.locator(".sl-editor progress").get_attribute("value") is None
    gate.let_go()
    assert status(desk) == "Running: 1 of 4"
    assert desk.page.eval_on_selector(".sl-editor progress", "one => one.value / one.max") == 0.25
    names = ["Run the what-if", "Load", "Undo", "Redo", "Move there", "Add there too"]
    names += ["Take away", "Add a member"]
    assert [name for name in names if desk.page.get_by_role("button", name=name).is_enabled()] == []
    assert desk.page.get_by_label("Name of a new member").is_disabled()
    assert [one for one in desk.page.locator(".sl-remove").all() if one.is_enabled()] == []
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-3"))
    walk_to(desk, "member-0", "orders-1")
    desk.press("Delete", "Enter")
    assert (view.edits, desk.page.locator(".sl-lifted").count()) == ([], 0)
    gate.let_go(3)
    assert view.wait(20)
    assert (status(desk), root.get_attribute("aria-busy")) == ("Done.", "false")
    assert announced(desk, "Done.") == "Done."
    assert results(desk) == [
        ["Time until drained", "not drained", "1m 15s", "not drained before", "-", "✔ better"],
        [
            *("Age of the oldest record, p95", "1m 1s", "8 s"),
            *("-53 s (-87 %)", "-55 s to -52 s", "✔ better"),
        ],
        ["Lag, largest", "41,234 offsets", "41,234 offsets", "0", "-4 to +9", "? unclear"],
        ["Members without a delivery", "1 member", "1 member", "0", "0 to 0", "= same"],
    ]
    outcome = desk.page.inner_text(".sl-found")
    assert "seeds 0-2, 7: both sides saw the same random events" in outcome
    assert "4.2 ms of work per record" in outcome
    assert desk.page.locator(".sl-found img").count() == 0
    assert go.is_enabled()


def test_another_assignment_has_another_result_and_the_baseline_stays(open_desk: OpenDesk) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = open_desk(view)
    run_through(desk, view, gate)
    first, text = results(desk), desk.page.inner_text(".sl-found")
    run_through(desk, view, gate)
    assert desk.page.inner_text(".sl-found") == text  # the same twice
    drag(desk, chip(desk, ALONE, "orders-4"), line(desk, "member-3"))
    assert "of another one. Run it again." in status(desk)
    assert desk.page.inner_text(".sl-found") == text
    run_through(desk, view, gate)
    second = results(desk)
    assert second != first
    assert [row[1] for row in second] == [row[1] for row in first]
    assert gate.given[-1] == BASE | {"member-3": {"orders": [4]}}
    view.undo()
    assert "of another one. Run it again." in status(desk)
    view.redo()
    assert status(desk) == "Done."


def test_without_a_kernel_it_edits_on_and_says_that_nobody_runs_it(open_desk: OpenDesk) -> None:
    view = editor(on_run=Gate())
    desk = open_desk(view)
    desk.silence()
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-3"))
    assert chip(desk, "member-3", "orders-1").count() == 1
    desk.page.get_by_role("button", name="Run the what-if").click()
    assert (status(desk), desk.root().get_attribute("aria-busy")) == ("Waiting for Python…", "true")
    desk.page.locator(".sl-kernel").wait_for()
    assert "Python does not answer" in desk.page.inner_text(".sl-kernel")
    desk.page.get_by_role("button", name="Cancel").click()
    desk.settle()
    assert desk.root().get_attribute("aria-busy") == "false"
    desk.page.get_by_role("button", name="Undo").click()
    desk.settle()
    assert (chip(desk, "member-0", "orders-1").count(), view.edits, view.state) == (1, [], "idle")
