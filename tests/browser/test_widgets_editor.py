"""Assignments are edited by mouse and keyboard, readable in every mode, with words for each end."""

import pyarrow as pa
import pytest

from sharelag_widgets import AssignmentEditor, LagTable, Selection
from sharelag_widgets.assignment_editor import as_ranges
from tests.support.browser.desk import CONTRAST, Desk, OpenDesk, axe_violations, box_of, faint_texts
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
    without,
)
from tests.support.widgets.editors import BASE, Gate, editor, partitions, random_edits
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


def test_two_hundred_members_and_a_thousand_partitions(open_desk: OpenDesk) -> None:
    topics = tuple(f"topic-{n}" for n in range(10))
    members = {
        f"member-{n}": {topics[t]: list(range(n % 100, 100, 50)) for t in range(10)}
        for n in range(200)
    }
    view = editor(partitions=partitions(topics, 100), assignment=members)
    desk = open_desk(view)
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
    assert (desk.data("groups"), line(desk, "member-77").locator(".sl-chip").count()) == (2, 1)
    assert line(desk, "member-77").locator(".sl-count").inner_text() == "1 of 10"


@pytest.mark.exhaustive
def test_a_drag_to_the_edge_scrolls(open_desk: OpenDesk) -> None:
    members = {f"member-{n}": {"orders": [n % 5]} for n in range(60)}
    view = editor(assignment=members)
    desk = open_desk(view)
    box = box_of(desk.page.locator(LIST))
    start = box_of(chip(desk, "member-0", "orders-0"))
    edge = (start["x"] + 30, box["y"] + box["height"] - 8)
    desk.drag((start["x"] + 9, start["y"] + 9), edge, let_go=False)
    desk.page.wait_for_function(
        f"(list => list.scrollTop + list.clientHeight >= list.scrollHeight - "
        f"2)(document.querySelector('{LIST}'))"
    )
    desk.settle()
    desk.page.mouse.move(start["x"] + 31, box["y"] + box["height"] - 9)
    desk.settle()
    desk.page.mouse.up()
    desk.settle()
    assert 0 in view.assignment["member-59"]["orders"]
    assert view.assignment["member-0"] == {}


def test_what_is_picked_here_is_picked_in_linked_views(open_desk: OpenDesk) -> None:
    selection = Selection()
    view, table = editor(selection=selection), LagTable.of(partitions(), selection=selection)
    desk = open_desk(view, table)
    chip(desk, "member-1", "refunds-1").click()
    desk.settle()
    assert (desk.data("rows", 1), selection.keys) == (1, (("payments", f"{1:022d}", 1),))
    desk.page.get_by_label("Only what is picked elsewhere").uncheck()
    desk.page.get_by_label("Filter").last.fill("orders")
    desk.settle()
    desk.page.locator(".sl-table tr[data-place]").first.click()
    desk.settle()
    assert desk.page.locator(".sl-chip[aria-selected=true]").count() == 1


def test_two_views_of_one_editor_stay_in_step_and_leave_nothing(open_desk: OpenDesk) -> None:
    desk = open_desk(editor())
    alone = desk.listeners()
    desk.show_again()
    desk.page.wait_for_function("document.querySelectorAll('.sl-editor[data-lines]').length === 2")
    desk.root(1).get_by_role("button", name="Add a member").click()
    desk.settle()
    assert (desk.data("members", 0), desk.data("members", 1)) == (5, 5)
    desk.root(0).get_by_role("button", name="Undo").click()
    desk.settle()
    assert (desk.data("members", 0), desk.data("members", 1)) == (4, 4)
    desk.stop_last()
    assert desk.listeners() == alone


def test_nothing_to_assign_and_no_measure_are_words(open_desk: OpenDesk) -> None:
    none = editor(partitions=partitions().slice(0, 0), assignment={"a": {}})
    nobody = editor(assignment={})
    desk = open_desk(none, nobody)
    assert "There is no partition to assign" in desk.root(0).inner_text()
    assert "0 members, 10 partitions; 10 without a member." in desk.root(1).inner_text()
    desk.root(1).get_by_role("button", name="Add a member").click()
    desk.settle()
    assert nobody.assignment == {"member-0": {}}
    broken = editor()
    broken.data = b"not ours, whatever it is"
    failed = open_desk(broken)
    said = failed.page.get_by_role("alert").inner_text()
    assert "of another version of sharelag: restart the kernel" in said
    table: pa.Table = partitions().drop_columns(["lag"])
    unmeasured = open_desk(editor(partitions=table, on_run=None))
    assert unmeasured.page.locator(".sl-run").is_hidden()
    assert unmeasured.page.locator(".sl-load, .sl-track").count() == 0
