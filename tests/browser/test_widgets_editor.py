"""An assignment is edited by mouse and by keyboard, and the browser and Python agree on it."""

import pyarrow as pa
import pytest

from sharelag_widgets.assignment_editor import as_ranges
from tests.support.browser.desk import OpenDesk, box_of
from tests.support.browser.editor_page import (
    ALONE,
    LIST,
    announced,
    chip,
    drag,
    line,
    twin,
    walk_to,
    without,
)
from tests.support.widgets.editors import BASE, editor, partitions, random_edits
from tests.support.widgets.samples import HOSTILE


# ---- by mouse ----
def test_dragged_onto_a_member_it_moves_there(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-3"))
    assert view.assignment == without(BASE, "member-0", "orders", 1) | {"member-3": {"orders": [1]}}
    drag(desk, chip(desk, ALONE, "refunds-4"), line(desk, "member-3"))
    assert view.assignment["member-3"] == {"orders": [1], "refunds": [4]}
    assert chip(desk, "member-3", "refunds-4").count() == 1
    assert chip(desk, ALONE, "refunds-4").count() == 0


def test_dragged_off_it_is_taken_away(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
    for onto in (None, line(desk, ALONE)):
        drag(desk, chip(desk, "member-1", "refunds-2"), onto, let_go=False)
        assert desk.page.inner_text(".sl-ghost") == "refunds-2 take away from member-1"
        desk.page.mouse.up()
        desk.settle()
        assert view.assignment == without(BASE, "member-1", "refunds", 2)
        assert view.assignment["member-2"] == {"refunds": [2]}  # another's is another's
        assert desk.page.locator(".sl-ghost").is_hidden()
        view.undo()


@pytest.mark.exhaustive
def test_a_slow_click_on_what_is_painted_meanwhile_counts(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
    box = box_of(chip(desk, "member-0", "orders-1"))
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


@pytest.mark.exhaustive
def test_a_drag_can_be_given_up(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
    desk.page.focus(LIST)
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-2"), let_go=False)
    assert line(desk, "member-2").evaluate("line => line.classList.contains('sl-target')")
    desk.press("Escape")
    desk.page.mouse.up()
    desk.settle()
    assert (view.edits, desk.page.locator(".sl-target").count()) == ([], 0)
    drag(desk, chip(desk, "member-0", "orders-1"), line(desk, "member-0"))
    assert view.edits == []


# ---- by keys ----
def test_lifted_by_keys_it_moves_and_all_of_it_is_said(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
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
    assert said.endswith("Edited: 1 added, 1 removed.")
    # The cursor went along.
    assert desk.page.inner_text(".sl-spot").startswith("orders-1 of member-3, lag 1,000")
    active = desk.page.get_attribute(LIST, "aria-activedescendant")
    assert desk.page.locator(f"[id='{active}']").inner_text().strip().endswith("orders-1")
    desk.press("Enter", "ArrowUp", "Shift+Enter")
    assert view.assignment["member-2"] == {"orders": [1], "refunds": [2]}
    assert view.assignment["member-3"] == {"orders": [1]}
    desk.press("Enter", "ArrowUp", "Escape")
    assert len(view.edits) == 2


def test_what_is_lifted_stays_so_while_numbers_are_renewed(open_desk: OpenDesk) -> None:
    view = editor(member_labels={"member-1": HOSTILE})
    desk = open_desk(view)
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
    found = desk.page.inner_text(".sl-spot")
    assert found == "Lifted: orders-1; over member-1 (on host-7): 3 partitions, lag 13"
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


def test_delete_takes_away_and_keys_undo(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
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


def test_a_member_is_chosen_by_its_name(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
    walk_to(desk, "member-2", "refunds-2")
    desk.press("m")
    desk.page.wait_for_function("document.activeElement.ariaLabel === 'Member'")
    desk.page.keyboard.type("member-3")
    desk.press("Tab", "Enter")
    assert view.assignment["member-3"] == {"refunds": [2]}
    found = (view.assignment["member-1"], view.assignment["member-2"])
    assert found == ({"orders": [3], "refunds": [1]}, {})
    desk.page.get_by_label("Member", exact=True).select_option("member-0")
    desk.page.get_by_role("button", name="Add there too").click()
    assert view.assignment["member-0"]["refunds"] == [0, 2]
    desk.page.get_by_role("button", name="Take away").click()
    assert (view.assignment["member-0"], view.assignment["member-3"]) == (BASE["member-0"], {})


def test_no_key_is_stolen_and_none_is_trapped(open_desk: OpenDesk) -> None:
    desk = open_desk(editor())
    desk.page.evaluate(
        "window.seen = []; document.addEventListener('keydown', event => seen.push(event.key))"
    )
    desk.page.focus(LIST)
    desk.press("ArrowRight", "PageDown", "q", " ", "F2", "Control+a")
    assert (desk.page.evaluate("seen"), desk.find_unprotected()) == (["q", "F2", "Control"], [])
    reached = []
    for _ in range(16):
        desk.press("Tab")
        reached.append(desk.page.evaluate("document.activeElement.tagName"))
    assert "BODY" in reached


# ---- members, undo, loading ----
def test_members_come_and_go(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
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
    buttons = (desk.page.get_by_role("button", name=name) for name in ("Undo", "Redo"))
    undo, redo = buttons
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


def test_an_assignors_answer_is_loaded_or_refused_with_words(open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
    choice = desk.page.get_by_label("Assignment to load")
    load = desk.page.get_by_role("button", name="Load")
    choice.select_option("to-the-first")
    load.click()
    desk.settle()
    first = {"orders": list(range(5)), "refunds": list(range(5))}
    assert view.assignment == {member: {} for member in BASE} | {"member-0": first}
    assert line(desk, "member-0").locator(".sl-count").inner_text() == "10"
    choice.select_option("broken")
    load.click()
    desk.settle()
    found = desk.page.get_by_role("alert").inner_text()
    assert found == "broken cannot be loaded: ValueError: no answer of broken"
    assert load.is_enabled()
    choice.select_option("The original")
    load.click()
    desk.settle()
    assert (view.assignment, desk.page.get_by_role("alert").count(), view.failure) == (BASE, 0, "")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_browser_and_python_come_to_the_same(seed: int, open_desk: OpenDesk) -> None:
    view = editor()
    desk = open_desk(view)
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
