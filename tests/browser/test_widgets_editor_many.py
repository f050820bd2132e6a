"""Many members, linked views, nothing to assign, and a real JupyterLab."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser

from sharelag_widgets import LagTable, Selection
from tests.support.browser.desk import Desk, axe_violations
from tests.support.browser.editor_page import LIST, chip, line
from tests.support.browser.jupyter import IDLE, Lab
from tests.support.widgets.editors import editor, partitions


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


@pytest.mark.exhaustive
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
from sharelag.whatif.fixed import what_if
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


@pytest.mark.exhaustive
def test_in_a_lab_the_simulator_answers_from_its_thread(lab: Lab, browser: Browser) -> None:
    lab.write("what_if", CELLS)
    watched = lab.page(browser)
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
