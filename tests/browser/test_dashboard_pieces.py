"""Buttons of a dashboard's verdict and what-ifs, and what was found by them."""

from functools import partial
from typing import Any

from playwright.sync_api import expect

from sharelag_widgets.dashboards.pieces import Tries, Verdict
from tests.support.browser.desk import OpenDesk

STUCK = "nothing is stuck"
#: Where the text of a cell ends, in pixels.
_ENDS = """one => { const range = new Range(); range.selectNodeContents(one);
    return Math.round(range.getBoundingClientRect().right); }"""


def test_a_fix_that_cannot_help_is_off_and_says_why(open_desk: OpenDesk) -> None:
    actions = [["what if", "Simulate the fix", STUCK], ["worst", "Show the worst", ""]]
    pressed: list[str] = []
    acts = {name: partial(pressed.append, name) for name, *_ in actions}
    desk = open_desk(Verdict(acts, level="critical", sentence="a", actions=actions))
    page = desk.page
    expect(page.get_by_role("button", name="Simulate the fix")).to_be_disabled()
    expect(page.get_by_text(STUCK, exact=True)).to_be_visible()
    page.get_by_role("button", name="Show the worst").press("Enter")
    desk.settle()
    assert pressed == ["worst"]


def test_nothing_is_urged_where_nothing_is_wrong(open_desk: OpenDesk) -> None:
    verdict = Verdict({}, level="critical", actions=[["worst", "Show the worst", ""]])
    desk = open_desk(verdict)
    for level, urged in (("critical", 1), ("ok", 0), ("warning", 1), ("unknown", 0)):
        verdict.level = level
        desk.settle()
        expect(desk.page.locator(".sl-primary")).to_have_count(urged)


def row(name: str, **found: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("why", "age", "drains", "difference", "verdict"), "")
    return {"name": name, "words": f"try {name}", "span": []} | empty | found


def test_a_what_if_is_numbers_and_an_interval_and_can_be_cancelled(open_desk: OpenDesk) -> None:
    found = {"age": "15m 5s", "drains": "7m 42s", "difference": "-9m 39s", "verdict": "better"}
    tried = row("members", **found, span=[-600_000.0, -579_000.0, -540_000.0])
    rows = [tried, row("lag-aware"), row("heads", why=STUCK)]
    pressed: list[str] = []
    acts = {name: partial(pressed.append, name) for name in ("members", "lag-aware", "cancel")}
    view = Tries(acts, rows=rows)
    desk = open_desk(view)
    page = desk.page
    members, lag_aware, heads = (page.locator(f"[data-name={one['name']}]") for one in rows)
    expect(members.get_by_role("cell")).to_have_text(["15m 5s", "7m 42s", "-9m 39s better", ""])
    for place, name in enumerate(("P95 age", "Drains in")):  # numbers end where their headings do
        heading = page.get_by_role("columnheader", name=name, exact=True)
        assert heading.evaluate(_ENDS) == members.get_by_role("cell").nth(place).evaluate(_ENDS)
    low, mean, high = members.locator("svg").evaluate(
        """svg => { const [low, high] = svg.querySelector('.sl-range').getAttribute('d').match(/[\\d.]+/g)
            .filter((_, n) => n !== 1).map(Number);
            return [low, Number(svg.querySelector('circle').getAttribute('cx')), high]; }"""
    )
    zero = members.locator("svg").evaluate("svg => svg.viewBox.baseVal.width / 2")
    assert low < mean < high < zero
    expect(heads.get_by_role("button")).to_be_disabled()
    expect(heads).to_contain_text(STUCK)
    lag_aware.get_by_role("button").click()
    view.busy = "try lag-aware"
    desk.settle()
    expect(page.get_by_role("status").first).to_have_text("Simulating try lag-aware ...")
    expect(members.get_by_role("button")).to_be_disabled()
    lag_aware.get_by_role("button", name="Cancel").click()
    desk.settle()
    assert pressed == ["lag-aware", "cancel"]
