"""The assignment editor in a page: its lines and chips, and what is done with them."""

from playwright.sync_api import Locator

from sharelag_widgets import AssignmentEditor
from tests.support.browser.desk import Desk, box_of
from tests.support.widgets.editors import Gate

LIST = ".sl-editor [role=grid]"
ALONE = "Without a member"
PAPERS = {"light": "background: #fff", "dark": "background: #111; color: #eee"}
Assignment = dict[str, dict[str, list[int]]]


def line(desk: Desk, member: str) -> Locator:
    return desk.page.locator(
        ".sl-line", has=desk.page.locator(".sl-member .sl-name").get_by_text(member, exact=True)
    )


def chip(desk: Desk, member: str, label: str) -> Locator:
    return line(desk, member).locator(".sl-chip", has=desk.page.get_by_text(label, exact=True))


def drag(desk: Desk, what: Locator, to: Locator | None, *held: str, let_go: bool = True) -> None:
    desk.settle()
    start, end = box_of(what), box_of(to or desk.page.locator("h1"))
    begin = (start["x"] + 20, start["y"] + start["height"] / 2)
    desk.drag(begin, (end["x"] + 30, end["y"] + end["height"] / 2), *held, let_go=let_go)


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
    assert view.wait(120)
    desk.settle()
