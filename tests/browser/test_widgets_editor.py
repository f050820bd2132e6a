"""A what-if in the browser is honest and works by mouse, by keyboard and without sight."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Locator

from sharelag_widgets import AssignmentEditor, LagTable, Selection
from sharelag_widgets.edits import as_ranges
from tests.support.browser.desk import ROOT, Desk, Watched, axe_violations
from tests.support.browser.jupyter import IDLE, Lab
from tests.support.widgets.editors import BASE, Gate, editor, fails, partitions, random_edits
from tests.support.widgets.samples import HOSTILE

LIST = ".sl-editor [role=grid]"
ALONE = "Without a member"
PAPERS = {"light": "background: #fff", "dark": "background: #111; color: #eee"}
CONTRAST = (ROOT / "widgets/tests/contrast.js").read_text("utf-8")
Assignment = dict[str, dict[str, list[int]]]


def line(desk: Desk, member: str) -> Locator:
    return desk.page.locator(
        ".sl-line", has=desk.page.locator(".sl-member .sl-name").get_by_text(member, exact=True)
    )


def chip(desk: Desk, member: str, label: str) -> Locator:
    return line(desk, member).locator(".sl-chip", has=desk.page.get_by_text(label, exact=True))


def drag(desk: Desk, what: Locator, to: Locator | None, *held: str, let_go: bool = True) -> None:
    desk.settle()
    start = what.bounding_box()
    end = desk.page.locator("h1").bounding_box() if to is None else to.bounding_box()
    assert start
    assert end
    mouse = desk.page.mouse
    for key in held:
        desk.page.keyboard.down(key)
    mouse.move(start["x"] + 20, start["y"] + start["height"] / 2)
    mouse.down()
    mouse.move(end["x"] + 30, end["y"] + end["height"] / 2, steps=6)
    desk.settle()
    if let_go:
        mouse.up()
    for key in held:
        desk.page.keyboard.up(key)
    desk.settle()


def without(assignment: Assignment, member: str, topic: str, number: int) -> Assignment:
    left = [one for one in assignment[member][topic] if one != number]
    return assignment | {member: assignment[member] | {topic: left}}


def walk_to(desk: Desk, member: str, label: str) -> None:
    """By keys, from wherever the cursor is."""
    desk.page.focus(LIST)
    desk.press("Home")
    for _ in range(40):
        if desk.page.inner_text(".sl-editor .sl-spot").startswith(f"{label} of {member}"):
            return
        desk.press("ArrowRight")
    raise AssertionError(f"the keys do not lead to {label} of {member}")


def announced(desk: Desk, begin: str) -> str:
    """What a screen reader says, once that begins so: it speaks after a pause."""
    desk.page.wait_for_function(
        "begin => document.querySelector('.sl-editor [aria-live]').textContent.startsWith(begin)",
        arg=begin,
    )
    return desk.page.locator(".sl-editor [aria-live]").inner_text()


def status(desk: Desk) -> str:
    desk.settle()
    return desk.page.inner_text(".sl-editor .sl-status")


def results(desk: Desk) -> list[list[str]]:
    rows: list[list[str]] = desk.page.eval_on_selector_all(
        ".sl-found tbody tr",
        """rows => rows.map(row => [...row.cells].filter(cell => !cell.matches('.sl-pair'))
        .map(cell => cell.innerText.trim()))""",
    )
    return rows


def twin(desk: Desk) -> dict[str, list[str]]:
    """The text twin: for each name, how many, and which."""
    shown = desk.page.get_by_role("button", name="Show as table")
    if shown.get_attribute("aria-expanded") == "false":
        shown.click()
    desk.settle()
    rows: list[list[str]] = desk.page.eval_on_selector_all(
        ".sl-editor .sl-scroll tbody tr",
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))",
    )
    return {row[0]: row[1:] for row in rows}


def run_through(desk: Desk, view: AssignmentEditor, gate: Gate) -> None:
    desk.page.get_by_role("button", name="Run the what-if").click()
    gate.let_go(4)
    assert view.wait(20)
    desk.settle()


# ---- by mouse ----


def test_dragged_onto_a_member_it_moves_there(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-3"))
    assert view.assignment == without(BASE, "member-0", "orders", 1) | {"member-3": {"orders": [1]}}
    drag(desk, chip(desk, ALONE, "refunds-4"), line(desk, "member-3"))
    assert view.assignment["member-3"] == {"orders": [1], "refunds": [4]}
    assert chip(desk, "member-3", "refunds-4").count() == 1
    assert chip(desk, ALONE, "refunds-4").count() == 0
    desk.assert_quiet()


def test_with_ctrl_it_has_both_members(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-3"), "Control")
    assert view.assignment == BASE | {"member-3": {"orders": [1]}}
    assert "\u00d72" in chip(desk, "member-3", "orders-1").inner_text()


@pytest.mark.parametrize("target", [None, ALONE])
def test_dragged_off_it_is_taken_away(target: str | None, browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    onto = None if target is None else line(desk, target)
    drag(desk, chip(desk, "member-1", "refunds-2"), onto, let_go=False)
    assert desk.page.inner_text(".sl-ghost") == "refunds-2 take away from member-1"
    desk.page.mouse.up()
    desk.settle()
    assert view.assignment == without(BASE, "member-1", "refunds", 2)
    assert view.assignment["member-2"] == {"refunds": [2]}  # another's is another's
    assert desk.page.locator(".sl-ghost").is_hidden()


def test_all_that_is_picked_of_a_member_goes_along(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    chip(desk, "member-0", "orders-0").click()
    chip(desk, "member-0", "orders-2").click(modifiers=["Shift"])
    chip(desk, "member-1", "orders-3").click(modifiers=["Shift"])
    assert sorted(view.picked_rows.column("partition").to_pylist()) == [0, 2, 3]
    drag(desk, chip(desk, "member-0", "orders-2"), line(desk, "member-3"))
    assert view.assignment["member-3"] == {"orders": [0, 2]}
    assert view.assignment["member-1"] == BASE["member-1"]


def test_a_slow_click_on_what_is_painted_meanwhile_counts(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    box = chip(desk, "member-0", "orders-1").bounding_box()
    assert box
    desk.page.mouse.move(box["x"] + 9, box["y"] + 9)
    desk.page.mouse.down()
    desk.page.set_viewport_size({"width": 990, "height": 900})
    desk.settle()
    desk.page.mouse.up()
    desk.settle()
    assert view.picked_rows.column("partition").to_pylist() == [1]
    line(desk, "member-1").get_by_role("button", name="Remove member-1").evaluate(
        "one => one.click()"
    )
    desk.settle()  # else the chip may be replaced between being found and being clicked
    chip(desk, "member-2", "refunds-2").evaluate("one => one.click()")  # as a screen reader does
    desk.settle()
    assert "member-1" not in view.assignment
    assert view.picked_rows.column("topic").to_pylist() == ["refunds"]
    desk.assert_quiet()


def test_a_drag_can_be_given_up(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    desk.page.focus(LIST)
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-2"), let_go=False)
    assert line(desk, "member-2").evaluate("line => line.classList.contains('sl-target')")
    desk.press("Escape")
    desk.page.mouse.up()
    desk.settle()
    assert view.edits == []
    assert desk.page.locator(".sl-target").count() == 0
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-0"))
    assert view.edits == []


# ---- by keys ----


def test_lifted_by_keys_it_moves_and_all_of_it_is_said(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    walk_to(desk, "member-0", "orders-1")
    outline = desk.page.eval_on_selector(LIST, "list => getComputedStyle(list).outlineWidth")
    assert float(outline.removesuffix("px")) >= 2
    desk.press("Enter")
    assert announced(desk, "orders-1 lifted. Up and down: choose a member.")
    desk.press("ArrowDown", "ArrowDown", "ArrowDown")
    assert announced(desk, "Over member-3") == "Over member-3: 0 partitions, lag 0"
    assert line(desk, "member-3").evaluate("line => line.classList.contains('sl-target')")
    desk.press("Enter")
    assert view.assignment == without(BASE, "member-0", "orders", 1) | {"member-3": {"orders": [1]}}
    said = announced(desk, "orders-1 moved from member-0 to member-3. 4 members, 10 partitions;")
    assert said.endswith("Edited: 1 added, 1 taken away.")
    # The cursor went along.
    assert desk.page.inner_text(".sl-spot").startswith("orders-1 of member-3, lag 1\u202f000")
    active = desk.page.get_attribute(LIST, "aria-activedescendant")
    assert desk.page.locator(f"[id='{active}']").inner_text().strip().endswith("orders-1")
    desk.press("Enter", "ArrowUp", "Shift+Enter")
    assert view.assignment["member-2"] == {"orders": [1], "refunds": [2]}
    assert view.assignment["member-3"] == {"orders": [1]}
    desk.press("Enter", "ArrowUp", "Escape")
    assert len(view.edits) == 2
    desk.assert_quiet()


def test_what_is_lifted_stays_so_while_numbers_are_renewed(
    browser: Browser, tmp_path: Path
) -> None:
    view = editor(member_labels={"member-1": HOSTILE})
    desk = Desk(browser, tmp_path, view)
    walk_to(desk, "member-0", "orders-1")
    desk.press("Enter", "ArrowDown")
    assert desk.page.inner_text(".sl-spot").startswith("Lifted: orders-1; over member-1 (")
    assert HOSTILE[:20] in desk.page.inner_text(".sl-spot")
    assert desk.page.locator(".sl-editor img").count() == 0
    more = partitions().set_column(4, "lag", pa.array(range(10), pa.int64()))
    view.renew(more, BASE, member_labels={"member-1": "on host-7"})
    desk.settle()
    desk.page.wait_for_function("document.querySelector('.sl-editor').dataset.loaded === '2'")
    desk.settle()
    assert (
        desk.page.inner_text(".sl-spot")
        == "Lifted: orders-1; over member-1 (on host-7): 3 partitions, lag 13"
    )
    desk.press("Enter")
    assert view.assignment == without(BASE, "member-0", "orders", 1) | {
        "member-1": {"orders": [1, 3], "refunds": [1, 2]}
    }
    # Nobody can be sure of a member's number once others are there.
    desk.press("Enter")
    view.renew(more, {name: topics for name, topics in BASE.items() if name != "member-0"})
    desk.settle()
    desk.page.wait_for_function("document.querySelector('.sl-editor').dataset.loaded === '3'")
    desk.settle()
    assert not desk.page.inner_text(".sl-spot").startswith("Lifted")
    desk.assert_quiet()


def test_delete_takes_away_and_keys_undo(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    walk_to(desk, "member-1", "refunds-2")
    desk.press("Delete")
    assert view.assignment == without(BASE, "member-1", "refunds", 2)
    desk.press("ArrowUp", "Home", "ArrowDown", "Delete")  # on the name of member-0
    assert list(view.assignment) == ["member-1", "member-2", "member-3"]
    assert announced(desk, "member-0 removed, with 4 partitions")
    desk.press("Control+z")
    assert list(view.assignment) == list(BASE)
    desk.press("Control+z", "Control+z")
    assert (view.assignment, view.at) == (BASE, 0)
    desk.press("Control+Shift+Z", "Control+y")
    assert (list(view.assignment), view.at) == (["member-1", "member-2", "member-3"], 2)
    desk.assert_quiet()


def test_a_member_is_chosen_by_its_name(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    walk_to(desk, "member-2", "refunds-2")
    desk.press("m")
    desk.page.wait_for_function("document.activeElement.ariaLabel === 'Member'")
    desk.page.keyboard.type("member-3")
    desk.press("Tab", "Enter")
    assert view.assignment["member-3"] == {"refunds": [2]}
    assert (view.assignment["member-1"], view.assignment["member-2"]) == (
        {"orders": [3], "refunds": [1]},
        {},
    )
    desk.page.get_by_label("Member", exact=True).select_option("member-0")
    desk.page.get_by_role("button", name="Add there too").click()
    assert view.assignment["member-0"]["refunds"] == [0, 2]
    desk.page.get_by_role("button", name="Take away").click()
    assert view.assignment["member-0"] == BASE["member-0"]
    assert view.assignment["member-3"] == {}
    desk.assert_quiet()


def test_no_key_is_stolen_and_none_is_trapped(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, editor())
    desk.page.evaluate(
        "window.seen = []; document.addEventListener('keydown', event => seen.push(event.key))"
    )
    desk.page.focus(LIST)
    desk.press("ArrowRight", "PageDown", "q", " ", "F2", "Control+a")
    assert desk.page.evaluate("seen") == ["q", "F2", "Control"]
    unprotected = desk.page.eval_on_selector_all(
        ".sl button, .sl input, .sl select, .sl [tabindex]",
        "found => found.filter(one => !('lmSuppressShortcuts' in one.dataset)).map(one => one.outerHTML)",
    )
    assert unprotected == []
    reached = []
    for _ in range(16):
        desk.press("Tab")
        reached.append(desk.page.evaluate("document.activeElement.tagName"))
    assert "BODY" in reached


# ---- members, undo, loading ----


def test_members_come_and_go(browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    add = desk.page.get_by_role("button", name="Add a member")
    add.click()
    assert view.assignment["member-4"] == {}
    desk.page.get_by_label("Name of a new member").fill("fast one")
    add.click()
    assert list(view.assignment)[-2:] == ["member-4", "fast one"]
    assert line(desk, "fast one").inner_text().split() == ["fast", "one", "new", "idle", "\u00d7"]
    desk.page.get_by_label("Name of a new member").fill("member-1")
    add.click()
    assert len(view.edits) == 2
    assert announced(desk, "There is a member member-1 already")
    line(desk, "member-1").get_by_role("button", name="Remove member-1").click()
    desk.settle()
    assert "member-1" not in view.assignment
    assert chip(desk, ALONE, "orders-3").count() == 1
    assert chip(desk, "member-2", "refunds-2").count() == 1
    undo, redo = (
        desk.page.get_by_role("button", name="Undo"),
        desk.page.get_by_role("button", name="Redo"),
    )
    for _ in range(3):
        undo.click()
        desk.settle()
    assert (view.assignment, undo.is_disabled(), redo.is_disabled()) == (BASE, True, False)
    assert (line(desk, "fast one").count(), chip(desk, "member-1", "orders-3").count()) == (0, 1)
    redo.click()
    desk.settle()
    assert list(view.assignment) == [*BASE, "member-4"]
    desk.page.focus(LIST)
    walk_to(desk, "member-0", "orders-0")
    desk.press("Delete")  # another edit: what could be done again is gone
    assert (len(view.edits), redo.is_disabled()) == (2, True)
    desk.assert_quiet()


def test_an_assignors_answer_is_loaded_or_refused_with_words(
    browser: Browser, tmp_path: Path
) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    choice, load = (
        desk.page.get_by_label("Assignment to load"),
        desk.page.get_by_role("button", name="Load"),
    )
    choice.select_option("to-the-first")
    load.click()
    desk.settle()
    first = {"orders": list(range(5)), "refunds": list(range(5))}
    assert view.assignment == {member: {} for member in BASE} | {"member-0": first}
    assert line(desk, "member-0").locator(".sl-count").inner_text() == "10"
    choice.select_option("broken")
    load.click()
    desk.settle()
    assert (
        desk.page.get_by_role("alert").inner_text()
        == "broken cannot be loaded: ValueError: no answer of broken"
    )
    assert load.is_enabled()
    choice.select_option("As it was at first")
    load.click()
    desk.settle()
    assert view.assignment == BASE
    assert (desk.page.get_by_role("alert").count(), view.failure) == (0, "")
    desk.assert_quiet()


@pytest.mark.parametrize("seed", [1, 2])
def test_browser_and_python_come_to_the_same(seed: int, browser: Browser, tmp_path: Path) -> None:
    view = editor()
    desk = Desk(browser, tmp_path, view)
    edits = random_edits(seed)
    for at in (60, 37, 12):
        with view.hold_sync():
            view.edits, view.at = edits, at
        desk.settle()
        shown = twin(desk)
        for member, topics in view.assignment.items():
            outcome = "; ".join(
                f"{topic}: {as_ranges(numbers).replace(',', ', ')}"
                for topic, numbers in topics.items()
            )
            assert shown[member][1] == (outcome or "-")
            assert shown[member][0] == str(sum(map(len, topics.values())))
        here = [name for name, cells in shown.items() if cells[0] != "removed" and name != ALONE]
        assert here == list(view.assignment)


# ---- the what-if ----


def test_while_it_runs_nothing_can_be_edited_and_then_the_difference_stands_there(
    browser: Browser,
    tmp_path: Path,
) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = Desk(browser, tmp_path, view)
    root, go = desk.root(), desk.page.get_by_role("button", name="Run the what-if")
    assert (root.get_attribute("aria-busy"), status(desk)) == ("false", "Not run yet.")
    go.click()
    desk.settle()
    assert (root.get_attribute("aria-busy"), status(desk)) == ("true", "Running…")
    assert desk.page.locator(".sl-editor progress").get_attribute("value") is None
    gate.let_go()
    assert status(desk) == "Running: 1 of 4"
    assert desk.page.eval_on_selector(".sl-editor progress", "one => one.value / one.max") == 0.25
    names = [
        "Run the what-if",
        "Load",
        "Undo",
        "Redo",
        "Move there",
        "Add there too",
        "Take away",
        "Add a member",
    ]
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
            "Age of the oldest record, p95",
            "1m 1s",
            "8 s",
            "\u221253 s (\u221287 %)",
            "\u221255 s to \u221252 s",
            "✔ better",
        ],
        [
            "Lag, largest",
            "41\u202f234 offsets",
            "41\u202f234 offsets",
            "0",
            "\u22124 to +9",
            "? unclear",
        ],
        ["Members without a delivery", "1 member", "1 member", "0", "0 to 0", "= same"],
    ]
    outcome = desk.page.inner_text(".sl-found")
    assert "seeds 0-2, 7: both sides had the same luck" in outcome
    assert "4.2 ms of work for each record" in outcome
    assert desk.page.locator(".sl-found img").count() == 0
    assert go.is_enabled()
    desk.assert_quiet()


def test_another_assignment_has_another_result_and_the_baseline_stays(
    browser: Browser, tmp_path: Path
) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = Desk(browser, tmp_path, view)
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
    desk.assert_quiet()


def test_cancelled_the_result_before_stays(browser: Browser, tmp_path: Path) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = Desk(browser, tmp_path, view)
    cancel = desk.page.get_by_role("button", name="Cancel")
    assert cancel.is_hidden()
    run_through(desk, view, gate)
    before = desk.page.inner_text(".sl-found")
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-3"))
    desk.page.get_by_role("button", name="Run the what-if").click()
    gate.let_go(2)
    desk.settle()
    cancel.click()
    desk.settle()
    assert view.state == "cancelled"
    assert status(desk) == "Cancelled. What stands below is the result before."
    assert (desk.page.inner_text(".sl-found"), cancel.is_hidden()) == (before, True)
    gate.release()
    assert view.wait(20)
    assert gate.saw_cancelled.is_set()
    desk.settle()
    assert status(desk) == "Cancelled. What stands below is the result before."
    run_through(desk, view, gate)
    assert (status(desk), desk.page.inner_text(".sl-found") != before) == ("Done.", True)
    desk.assert_quiet()


def test_a_failure_is_reported_and_the_previous_result_stays(
    browser: Browser, tmp_path: Path
) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = Desk(browser, tmp_path, view)
    run_through(desk, view, gate)
    before = desk.page.inner_text(".sl-found")
    view._on_run = lambda *requested: (gate._go.acquire(), fails(*requested))[1]
    desk.page.get_by_role("button", name="Run the what-if").click()
    gate.release()
    assert view.wait(20)
    assert status(desk) == "Failed. What stands below is the result before."
    assert desk.page.get_by_role("alert").inner_text() == "there is no such topic: <b>add</b> it"
    assert desk.page.locator(".sl b").count() == 0
    assert desk.page.inner_text(".sl-found") == before
    assert desk.page.get_by_role("button", name="Run the what-if").is_enabled()
    view._on_run = gate
    run_through(desk, view, gate)
    assert desk.page.get_by_role("alert").count() == 0
    desk.assert_quiet()


def test_without_a_kernel_it_edits_on_and_says_that_nobody_runs_it(
    browser: Browser, tmp_path: Path
) -> None:
    view = editor(on_run=Gate())
    desk = Desk(browser, tmp_path, view)
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
    assert chip(desk, "member-0", "orders-1").count() == 1
    assert (view.edits, view.state) == ([], "idle")
    desk.assert_quiet()


# ---- how it looks ----


def everything(desk: Desk, view: AssignmentEditor, gate: Gate) -> None:
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-3"))
    chip(desk, "member-1", "orders-3").click()
    desk.page.get_by_role("button", name="Add a member").click()
    run_through(desk, view, gate)
    desk.page.get_by_role("button", name="Show as table").click()
    desk.page.locator("summary").click()
    desk.settle()


@pytest.mark.parametrize("theme", PAPERS)
def test_axe_finds_nothing_and_text_has_contrast(
    theme: str, browser: Browser, tmp_path: Path
) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = Desk(browser, tmp_path, view, paper=PAPERS[theme])
    everything(desk, view, gate)
    view.failure = "It failed"
    desk.settle()
    assert desk.root().get_attribute("data-theme") == theme
    assert axe_violations(desk.page) == []
    ratios = desk.page.evaluate(CONTRAST)
    assert len(ratios) > 80
    assert [one for one in ratios if one[0] < 4.5] == []
    desk.page.evaluate(f"document.body.dataset.jpThemeLight = '{str(theme == 'light').lower()}'")
    desk.page.evaluate("document.body.dataset.jpThemeName = 'JupyterLab High Contrast'")
    desk.page.wait_for_function("document.querySelector('.sl').dataset.contrast === 'more'")
    desk.settle()
    assert [one for one in desk.page.evaluate(CONTRAST) if one[0] < 7] == []
    desk.assert_quiet()


@pytest.mark.parametrize("width", [320, 700, 1600])
def test_it_fits_any_width_and_axe_agrees(width: int, browser: Browser, tmp_path: Path) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = Desk(browser, tmp_path, view)
    everything(desk, view, gate)
    desk.page.set_viewport_size({"width": width, "height": 800})
    desk.settle()
    assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe_violations(desk.page) == []
    beyond = """list => [...list.querySelectorAll('.sl-chip')]
        .filter(one => one.getBoundingClientRect().right > list.getBoundingClientRect().right).length"""
    assert desk.page.eval_on_selector(LIST, beyond) == 0


def test_names_are_text_everywhere(browser: Browser, tmp_path: Path) -> None:
    gate = Gate()
    names = {HOSTILE: {HOSTILE: [0, 1]}, "b": {}}
    view = editor(
        partitions=partitions((HOSTILE, "orders")),
        assignment=names,
        on_run=gate,
        title=HOSTILE,
        choices=[HOSTILE],
    )
    desk = Desk(browser, tmp_path, view)
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
    desk.assert_quiet()


def test_forced_colours_and_paper(browser: Browser, tmp_path: Path) -> None:
    gate = Gate()
    view = editor(on_run=gate)
    desk = Desk(browser, tmp_path, view, forced_colors="active")
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
    paper = Desk(browser, tmp_path, editor(), paper=PAPERS["dark"])
    paper.page.emulate_media(media="print")
    paper.page.wait_for_function("document.querySelector('.sl').dataset.theme === 'light'")
    assert paper.page.locator(".sl button:visible").count() == 0
    desk.assert_quiet()


def test_what_a_screen_reader_gets(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, editor())
    tree = desk.root().aria_snapshot().replace("\u202f", " ")
    assert 'grid "Members and their partitions"' in tree
    assert 'rowheader "member-1: 3 partitions, lag 9 500"' in tree
    assert 'gridcell "refunds-2' in tree
    title = chip(desk, "member-2", "refunds-2").get_attribute("title")
    assert title == "refunds-2 of member-2, lag 7\u202f000, also of member-1"
    assert desk.page.get_attribute(LIST, "aria-rowcount") == "5"
    shown = twin(desk)
    assert shown["member-0"] == ["4", "orders: 0-2; refunds: 0", "-", "-"]
    assert shown[ALONE] == ["3", "orders: 4; refunds: 3-4", "-", "-"]
    desk.assert_quiet()


# ---- many, linked, twice ----


def test_two_hundred_members_and_a_thousand_partitions(browser: Browser, tmp_path: Path) -> None:
    topics = tuple(f"topic-{n}" for n in range(10))
    members = {
        f"member-{n}": {topics[t]: list(range(n % 100, 100, 50)) for t in range(10)}
        for n in range(200)
    }
    view = editor(partitions=partitions(topics, 100), assignment=members)
    desk = Desk(browser, tmp_path, view)
    assert desk.data("members") == 200
    assert desk.data("lines") > 400
    assert desk.data("made") < 30
    desk.page.focus(LIST)
    desk.press("End")
    assert "of member-199" in desk.page.inner_text(".sl-spot")
    assert desk.page.locator(".sl-active").count() == 1
    assert desk.page.get_attribute(LIST, "aria-activedescendant")
    desk.press("Delete")
    assert view.at == 1
    desk.page.get_by_label("Filter").fill("member-77 topic-3")
    assert desk.data("groups") == 2
    assert line(desk, "member-77").locator(".sl-chip").count() == 1
    assert line(desk, "member-77").locator(".sl-count").inner_text() == "1 of 10"
    desk.assert_quiet()


def test_a_drag_to_the_edge_scrolls(browser: Browser, tmp_path: Path) -> None:
    members = {f"member-{n}": {"orders": [n % 5]} for n in range(60)}
    view = editor(assignment=members)
    desk = Desk(browser, tmp_path, view)
    box = desk.page.locator(LIST).bounding_box()
    assert box
    start = chip(desk, "member-0", "orders-0").bounding_box()
    assert start
    desk.page.mouse.move(start["x"] + 9, start["y"] + 9)
    desk.page.mouse.down()
    desk.page.mouse.move(start["x"] + 30, box["y"] + box["height"] - 8, steps=5)
    desk.page.wait_for_function(
        f"(list => list.scrollTop + list.clientHeight >= list.scrollHeight - 2)(document.querySelector('{LIST}'))"
    )
    desk.settle()
    desk.page.mouse.move(start["x"] + 31, box["y"] + box["height"] - 9)
    desk.settle()
    desk.page.mouse.up()
    desk.settle()
    assert 0 in view.assignment["member-59"]["orders"]
    assert view.assignment["member-0"] == {}


def test_what_is_picked_here_is_picked_in_linked_views(browser: Browser, tmp_path: Path) -> None:
    selection = Selection()
    view, table = editor(selection=selection), LagTable.of(partitions(), selection=selection)
    desk = Desk(browser, tmp_path, view, table)
    chip(desk, "member-1", "refunds-1").click()
    desk.settle()
    assert desk.data("rows", 1) == 1
    assert selection.keys == (("payments", f"{1:022d}", 1),)
    desk.page.get_by_label("Only what is picked elsewhere").uncheck()
    desk.page.get_by_label("Filter").last.fill("orders")
    desk.settle()
    desk.page.locator(".sl-table tr[data-place]").first.click()
    desk.settle()
    assert desk.page.locator(".sl-chip[aria-selected=true]").count() == 1
    desk.assert_quiet()


def test_two_views_of_one_editor_stay_in_step_and_leave_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    desk = Desk(browser, tmp_path, editor())
    listeners = """() => Object.values(window.models).flatMap(model => Object.values(model.listeners))
        .reduce((sum, set) => sum + set.size, 0)"""
    alone = desk.page.evaluate(listeners)
    again = "async () => { const el = document.createElement('div'); document.querySelector('main').append(el);"
    desk.page.evaluate(again + " await window.show(window.sent[0], el); }")
    desk.page.wait_for_function("document.querySelectorAll('.sl-editor[data-lines]').length === 2")
    desk.root(1).get_by_role("button", name="Add a member").click()
    desk.settle()
    assert (desk.data("members", 0), desk.data("members", 1)) == (5, 5)
    desk.root(0).get_by_role("button", name="Undo").click()
    desk.settle()
    assert (desk.data("members", 0), desk.data("members", 1)) == (4, 4)
    desk.page.evaluate("window.stops.at(-1)()")
    assert desk.page.evaluate(listeners) == alone
    desk.assert_quiet()


def test_nothing_to_assign_is_words(browser: Browser, tmp_path: Path) -> None:
    none, nobody = (
        editor(partitions=partitions().slice(0, 0), assignment={"a": {}}),
        editor(assignment={}),
    )
    desk = Desk(browser, tmp_path, none, nobody)
    assert "There is no partition to assign" in desk.root(0).inner_text()
    assert "0 members, 10 partitions; 10 without a member." in desk.root(1).inner_text()
    desk.root(1).get_by_role("button", name="Add a member").click()
    desk.settle()
    assert nobody.assignment == {"member-0": {}}
    broken = editor()
    broken.data = b"not ours, whatever it is"
    failed = Desk(browser, tmp_path, broken)
    assert (
        "of another version of sharelag: restart the kernel"
        in failed.page.get_by_role("alert").inner_text()
    )
    desk.assert_quiet()


def test_partitions_without_a_measure(browser: Browser, tmp_path: Path) -> None:
    table: pa.Table = partitions().drop_columns(["lag"])
    desk = Desk(browser, tmp_path, editor(partitions=table, on_run=None))
    assert desk.page.locator(".sl-run").is_hidden()
    assert desk.page.locator(".sl-load, .sl-track").count() == 0
    desk.assert_quiet()


# ---- in a real JupyterLab, over the simulator ----

CELLS = [
    """import time
from sharelag_widgets import AssignmentEditor, Difference
from sharelag.whatif.edited import what_if
from sharelag.whatif.scenario import Member, Producer, Scenario, Service, Settings, Topic
members = tuple(Member(name, service=Service(2.0)) for name in ("a", "b"))
scenario = Scenario((Topic("orders", 3),), members, (Producer("orders", 450.0, weights=(0.9, 0.05, 0.05)),),
    Settings(heartbeat_interval_ms=200, assignment_interval_ms=0), duration_ms=3000, assumed=("2 ms of work",))
hold = False
def on_run(assignment, cancelled, progress):
    progress(0, 6)
    while hold and not cancelled():
        time.sleep(0.01)
    rows = what_if(scenario, assignment, seeds=range(3), cancelled=cancelled, progress=progress)
    return None if rows is None else Difference(rows, range(3), scenario.assumed, "95 % interval")
rows = {"topic": ["orders"] * 3, "partition": [0, 1, 2], "lag": [1, 2, 3]}
editor = AssignmentEditor.of(rows, {"a": {"orders": [0, 2]}, "b": {"orders": [1]}}, on_run=on_run,
    keys=["topic", "partition"])
editor""",
    "hold = True",
    "print(editor.assignment, editor.state, sorted(editor.difference.rows.column('measure').to_pylist())[0])",
]
RUN_CELL = """async n => { const app = window.jupyterapp; app.shell.currentWidget.content.activeCellIndex = n;
    await app.commands.execute('notebook:run-cell'); }"""
BASELINE = "rows => rows.map(row => row.cells[2].innerText)"
DONE = "() => document.querySelector('.sl-status')?.textContent === 'Done.'"


def test_in_a_lab_the_simulator_answers_from_its_thread(lab: Lab, browser: Browser) -> None:
    lab.write("what_if", CELLS)
    watched = Watched(browser)
    page = lab.open(watched, "what_if.ipynb")
    page.evaluate(RUN_CELL, 0)
    go = page.get_by_role("button", name="Run the what-if")
    go.click()
    page.wait_for_function(DONE)
    first, before = (
        page.inner_text(".sl-found"),
        page.eval_on_selector_all(".sl-found tbody tr", BASELINE),
    )
    assert "seeds 0-2: both sides had the same luck" in first
    assert "2 ms of work" in first
    go.click()
    page.wait_for_function("document.querySelector('.sl-editor').ariaBusy === 'true'")
    page.wait_for_function(DONE)
    assert page.inner_text(".sl-found") == first  # the same seeds, the same text
    page.focus(LIST)
    for key in (
        "ArrowDown",
        "ArrowDown",
        "ArrowUp",
        "ArrowRight",
        "Enter",
        "ArrowDown",
        "Shift+Enter",
    ):
        page.keyboard.press(key)
    page.wait_for_function(
        "document.querySelector('.sl-status').textContent.startsWith('The assignment has changed')"
    )
    go.click()
    page.wait_for_function(DONE)
    second = page.inner_text(".sl-found")
    assert second != first
    assert page.eval_on_selector_all(".sl-found tbody tr", BASELINE) == before
    page.wait_for_function(IDLE)
    page.evaluate(RUN_CELL, 1)
    page.wait_for_function(IDLE)
    go.click()
    page.wait_for_function("document.querySelector('.sl-status').textContent === 'Running: 0 of 6'")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_function(
        "document.querySelector('.sl-status').textContent.startsWith('Cancelled.')"
    )
    assert page.inner_text(".sl-found") == second
    page.evaluate(RUN_CELL, 2)
    printed = page.locator(".jp-Notebook .jp-Cell").nth(2).locator(".jp-OutputArea-output")
    printed.first.wait_for()
    assert printed.first.inner_text().strip() == (
        "{'a': {'orders': [0, 2]}, 'b': {'orders': [0, 1]}} cancelled Age of the oldest record, p95"
    )
    assert axe_violations(page, ".sl") == []
    watched.forget_of_the_lab()
    watched.assert_quiet()
