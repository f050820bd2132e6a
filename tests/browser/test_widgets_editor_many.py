"""Many members, linked views, nothing to assign, and a real JupyterLab."""

import pyarrow as pa
import pytest

from sharelag_widgets import LagTable, Selection
from tests.support.browser.desk import OpenDesk, box_of
from tests.support.browser.editor_page import LIST, chip, line
from tests.support.widgets.editors import editor, partitions


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
        f"(list => list.scrollTop + list.clientHeight >= list.scrollHeight - 2)(document.querySelector('{LIST}'))"
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
