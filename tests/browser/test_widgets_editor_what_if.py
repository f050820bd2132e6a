"""The what-if of an edited assignment: it runs, is compared, cancelled, and fails with words."""

from tests.support.browser.desk import OpenDesk
from tests.support.browser.editor_page import (
    ALONE,
    announced,
    chip,
    drag,
    line,
    results,
    run_through,
    status,
    walk_to,
)
from tests.support.widgets.editors import BASE, Gate, editor


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
