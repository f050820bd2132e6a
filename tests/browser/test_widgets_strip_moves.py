"""The strip is zoomed, dragged and played without taking the browser's own keys."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from sharelag_widgets import WindowStrip
from tests.support.browser.desk import Button, OpenDesk
from tests.support.browser.strip_page import PICTURE
from tests.support.cases import few_of
from tests.support.widgets.samples import moving, window, windows


@pytest.mark.parametrize("button", few_of(["left", "middle"], ["left"]))
def test_zoomed_in_the_mouse_moves_the_picture_along(button: Button, open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(windows(window(window_end_offset=10_100, end_offset=10_100)))
    desk = open_desk(strip)
    box = desk.page.locator(PICTURE).bounding_box()
    assert box

    def drag(by: float, *keys: str) -> None:
        x, y = box["x"] + 400, box["y"] + 40
        desk.drag((x, y), (x + by, y), *keys, button=button)

    held = ["Shift"] if button == "left" else []
    drag(-200, *held)
    assert (strip.fit, desk.data("span")) == ("window", [100, 10_100])  # all is in sight
    desk.page.focus(PICTURE)
    strip.cursor = 5_100.0
    desk.settle()
    desk.press("+", "+")
    assert desk.data("span") == [3_850, 6_350]
    drag(-200, *held)
    each = 2_500 / box["width"]
    assert strip.span == pytest.approx([3_850 + 200 * each, 6_350 + 200 * each])
    assert desk.data("span") == strip.span
    drag(5_000, *held)
    drag(5_000, *held)
    assert strip.span == pytest.approx([100, 2_600])  # no further than there is something
    assert (strip.selection.offsets, strip.cursor) == (None, pytest.approx(100 + 400 * each, abs=1))
    if button == "left":
        drag(100)  # without shift it picks, as ever
        picked = (100 + int(400 * each), 100 + int(500 * each))
        assert strip.selection.offsets == picked
        assert strip.span == pytest.approx([100, 2_600])


def test_what_is_held_stays_under_the_mouse_where_the_tail_gives_way(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = open_desk(strip)
    box = desk.page.locator(PICTURE).bounding_box()
    assert box
    assert desk.data("tail") == 1000
    at = (box["width"] - 96) / 2  # offset 110, of 100 to 120
    x, y = box["x"] + at, box["y"] + 40
    desk.drag((x, y), (x - 300, y), "Shift")
    assert (strip.fit, desk.data("tail")) == ("fixed", 0)
    low, high = strip.span
    assert low + (at - 300) / box["width"] * (high - low) == pytest.approx(110)


@pytest.mark.exhaustive
def test_playing_has_a_speed(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(200, 1))
    desk = open_desk(strip)
    page, model = desk.page, "Object.values(window.models)[0]"
    speeds = page.get_by_role("group", name="Speed of playing").get_by_role("button")
    assert speeds.all_inner_texts() == [f"{times}\u00d7" for times in (1, 2, 5, 10)]
    page.focus(PICTURE)
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(minutes=1))
    found = {}
    for key in ("<", ">", ">", ">"):  # there is none below
        page.keyboard.press(key)
        page.evaluate(f"{model}.set('moment', 0)")
        page.keyboard.press("p")
        page.clock.run_for(1_200)
        page.keyboard.press("p")
        found[page.evaluate(f"{model}.get('speed')")] = page.evaluate(f"{model}.get('moment')")
    assert found == {1: 10, 2: 20, 5: 50, 10: 100}
    page.clock.run_for(1_000)
    assert [one.get_attribute("aria-pressed") for one in speeds.all()] == [
        "false",
        "false",
        "false",
        "true",
    ]
    page.keyboard.press("<")
    page.clock.run_for(1_000)
    expect(page.locator(".sl-strip [aria-live=polite]")).to_have_text("Speed of playing: 5 times")
    speeds.nth(1).click()
    page.clock.resume()
    desk.settle()
    assert strip.speed == 2
    expect(speeds.nth(1)).to_have_attribute("aria-pressed", "true")
