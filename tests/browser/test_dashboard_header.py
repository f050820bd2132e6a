"""Does a dashboard's header say how old all is, and ask for more while somebody looks? Alone, in a plain page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from sharelag_widgets.dashboards.header import Header
from tests.browser.desk import ROOT, Desk, axe_violations, browser  # noqa: F401
from tests.widgets.samples import HOSTILE

CONTRAST = (ROOT / "widgets/tests/contrast.js").read_text("utf-8")


def header(**changes: object) -> tuple[Header, list[str]]:
    """A header as of now, and what it asked for."""
    asked: list[str] = []
    given: dict[str, object] = {"title": "Fleet", "level": 2, "live": True, "source": "cluster at broker:9092"}
    given |= {"help": [["lag", "end offset - start offset - delivery complete count"]], "every": 30.0}
    given |= {"as_of": datetime.now(UTC).timestamp() * 1000} | changes
    return Header(lambda: asked.append("refresh"), **given), asked


def test_it_turns_stale_before_ones_eyes(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    view, asked = header(paused=True, stale_after=120.0)
    desk = Desk(browser, tmp_path, view)
    badge = desk.page.locator(".sl-badge")
    expect(badge).to_be_hidden()
    desk.page.clock.set_fixed_time(datetime.now(UTC) + timedelta(minutes=10))
    expect(badge).to_have_text(re.compile(r"Stale: 10\S* min old"))
    expect(desk.page.locator(".sl-when")).to_contain_text(re.compile(r"10\S* min ago"))
    assert asked == []  # it is paused
    view.as_of = (datetime.now(UTC) + timedelta(minutes=10)).timestamp() * 1000
    desk.settle()
    expect(badge).to_be_hidden()
    desk.assert_quiet()


def test_it_asks_again_while_it_is_looked_at_and_not_paused(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    view, asked = header()
    desk = Desk(browser, tmp_path, view)
    desk.page.clock.set_fixed_time(datetime.now(UTC) + timedelta(seconds=31))
    desk.page.wait_for_function("() => document.querySelector('.sl-when').innerText.includes('3')")
    deadline = datetime.now(UTC) + timedelta(seconds=20)
    while not asked and datetime.now(UTC) < deadline:
        desk.page.wait_for_timeout(100)
    assert asked == ["refresh"]
    desk.page.get_by_role("button", name="Pause").press("Enter")
    desk.settle()
    assert view.paused
    desk.page.clock.set_fixed_time(datetime.now(UTC) + timedelta(minutes=5))
    expect(desk.page.locator(".sl-when")).to_contain_text(re.compile(r"5\S* min ago"))
    assert asked == ["refresh"]
    desk.page.get_by_role("button", name="Go on").press("Enter")
    desk.page.get_by_role("button", name="Refresh").press("Enter")
    desk.settle()
    assert not view.paused
    assert len(asked) >= 2
    desk.assert_quiet()


@pytest.mark.parametrize("paper", ["background: #fff", "background: #111; color: #eee"])
def test_all_it_says_is_text_with_contrast(paper: str, browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    view, _ = header(
        title=HOSTILE, unknown=[HOSTILE], notes=[HOSTILE], failure=f"no state of {HOSTILE}", source=HOSTILE
    )
    desk = Desk(browser, tmp_path, view, paper=paper)
    desk.page.get_by_role("button", name="What does").press("Enter")
    desk.settle()
    assert desk.page.locator("img").count() == 0
    assert desk.page.inner_text("main").count("<img src=x") == 5
    assert view.theme == ("light" if "fff" in paper else "dark")
    assert axe_violations(desk.page) == []
    assert [one for one in desk.page.evaluate(CONTRAST) if one[0] < 4.5] == []
    assert json.loads(str(desk.root().get_attribute("data-loaded"))) >= 1
    desk.assert_quiet()


def test_a_header_that_is_gone_asks_for_nothing(browser: Browser, tmp_path: Path) -> None:  # noqa: F811
    view, asked = header()
    desk = Desk(browser, tmp_path, view)
    desk.page.evaluate("() => window.stops.forEach(stop => stop())")
    desk.page.clock.set_fixed_time(datetime.now(UTC) + timedelta(minutes=5))
    desk.page.evaluate("() => new Promise(done => setTimeout(done, 2500))")
    assert asked == []
    assert desk.page.locator(".sl").count() == 0
    desk.assert_quiet()
