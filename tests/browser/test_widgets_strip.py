"""The strip in a browser says what the windows say, to eyes, keyboard and screen readers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from sharelag_widgets import WindowStrip
from sharelag_widgets.window_strip import KINDS
from tests.support.browser.desk import Desk, axe_violations
from tests.support.widgets.samples import TOPIC_ID, moving, run, window, windows

THIN = "\u202f"
PICTURE = ".sl-strip canvas[role=slider]"


def counted(desk: Desk) -> dict[str, int]:
    return {name: count for name, count in zip(KINDS, desk.data("counts"), strict=True) if count}


def legend(desk: Desk) -> dict[str, int]:
    items = desk.page.eval_on_selector_all(
        ".sl-legend li",
        "items => items.map(item => [item.dataset.kind, item.querySelector('strong').innerText])",
    )
    return {name: int(text.replace(THIN, "")) for name, text in items if text != "0"}


def table(desk: Desk) -> list[list[str]]:
    rows: list[list[str]] = desk.page.eval_on_selector_all(
        ".sl-strip tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    return [[cell.replace(THIN, "") for cell in row] for row in rows]


def test_every_moment_shows_what_was(browser: Browser, tmp_path: Path) -> None:
    rows = moving(40, 1)
    strip = WindowStrip.of(rows)
    desk = Desk(browser, tmp_path, strip)
    for moment in (39, 0, 17, 5, 33):
        strip.moment = moment
        desk.settle()
        row = rows.slice(moment, 1).to_pylist()[0]
        assert desk.data("moment") == moment
        assert counted(desk) == legend(desk) == strip.counts(moment)
        result = desk.page.inner_text(".sl-told").replace(THIN, "")
        assert (
            f"SPSO {row['start_offset']}, SPEO {row['window_end_offset']}, log end {row['end_offset']}"
            in result
        )
        assert result.startswith(f"{row['record_timestamp']:%Y-%m-%d %H:%M:%S}.000 UTC")
    desk.assert_quiet()


def test_the_table_has_the_same_numbers_as_the_picture(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, WindowStrip.of(windows(window())))
    desk.page.get_by_role("button", name="Show as table").click()
    desk.settle()
    assert table(desk) == [
        ["100", "102", "3", "Finished", "-"],
        ["103", "104", "2", "Available", "3"],
        ["105", "106", "2", "No state persisted", "-"],
        ["107", "112", "6", "Acknowledged", "1"],
        ["113", "113", "1", "Archived", "5"],
        ["114", "117", "4", "No state persisted", "-"],
        ["118", "119", "2", "Available", "1"],
        ["120", "1119", "1000", "Unread", "-"],
    ]
    desk.assert_quiet()


def test_the_keyboard_reaches_everything_and_is_let_go_again(
    browser: Browser, tmp_path: Path
) -> None:
    strip = WindowStrip.of(moving(40, 1))
    desk = Desk(browser, tmp_path, strip)
    first = strip.rows.column("start_offset")[39].as_py()
    desk.page.focus(PICTURE)
    outline = desk.page.eval_on_selector(
        PICTURE, "picture => getComputedStyle(picture).outlineWidth"
    )
    assert float(outline.removesuffix("px")) >= 2
    desk.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert strip.cursor == first + 1
    desk.press("PageDown")
    assert strip.cursor > first + 10
    desk.press("Home")
    assert strip.cursor == first
    desk.press("End")
    assert strip.cursor == strip.rows.column("end_offset")[39].as_py() - 1
    assert desk.data("span")[1] > strip.cursor  # the picture followed
    desk.press("0", "[", "[")
    assert (strip.moment, strip.fit) == (37, "window")
    desk.press("]")
    assert strip.moment == 38
    span = desk.data("span")
    desk.press("+", "+")
    assert strip.span[1] - strip.span[0] == (span[1] - span[0]) / 4
    seen = []
    for _ in range(12):
        desk.press("Tab")
        seen.append(
            desk.page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.tagName")
        )
    assert "Moment" in seen
    assert "BODY" in seen  # no trap
    desk.assert_quiet()


def test_keys_that_are_not_ours_go_on(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, WindowStrip.of(moving(3, 1)))
    desk.page.evaluate(
        "window.seen = []; document.addEventListener('keydown', event => seen.push(event.key))"
    )
    desk.page.focus(PICTURE)
    desk.press("ArrowRight", "[", "q", "Escape", "F2")
    assert desk.page.evaluate("seen") == ["q", "F2"]
    unprotected = desk.page.eval_on_selector_all(
        ".sl button, .sl input, .sl select, .sl [tabindex]",
        "found => found.filter(one => !('lmSuppressShortcuts' in one.dataset)).map(one => one.outerHTML)",
    )
    assert unprotected == []


def test_picks_by_key_and_mouse_come_back_to_python(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(windows(window(end_offset=120)))
    desk = Desk(browser, tmp_path, strip)
    desk.page.focus(PICTURE)
    desk.press("ArrowRight", *["ArrowRight"] * 8, "Enter")
    assert strip.cursor == 108
    assert strip.selection.offsets == (107, 112)
    assert strip.selection.keys == (("payments", TOPIC_ID, 0),)
    assert "picked 107 to 112" in desk.page.inner_text(".sl-spot")
    desk.press("Escape")
    assert strip.selection.offsets is None
    desk.press("Home", "Shift+ArrowRight", "Shift+ArrowRight")
    assert strip.selection.offsets == (100, 102)
    desk.press("Shift+ArrowLeft")
    assert strip.selection.offsets == (100, 101)
    desk.press("Control+ArrowRight", "Control+ArrowRight")
    assert strip.cursor == 105
    box = desk.page.locator(PICTURE).bounding_box()
    assert box
    each = box["width"] / 20
    desk.page.mouse.move(box["x"] + 3.5 * each, box["y"] + 40)
    desk.settle()
    spot = "Offset 103: Available, delivery count 3; run 103 to 104"
    assert desk.page.inner_text(".sl-spot").startswith(spot)
    assert desk.page.get_attribute(PICTURE, "aria-valuetext", strict=True)
    desk.page.mouse.down()
    desk.page.mouse.move(box["x"] + 9.5 * each, box["y"] + 40, steps=4)
    desk.page.mouse.up()
    desk.settle()
    assert strip.selection.offsets == (103, 109)
    assert "offsets=(103, 109)" in strip.to_code()
    desk.assert_quiet()


def test_time_travel_needs_no_kernel_and_says_that_it_is_gone(
    browser: Browser, tmp_path: Path
) -> None:
    strip = WindowStrip.of(moving(40, 1))
    desk = Desk(browser, tmp_path, strip)
    desk.page.focus(".sl-strip input[type=range]")
    desk.press("ArrowLeft")
    assert strip.moment == 38
    assert desk.page.locator(".sl-kernel").is_hidden()
    desk.silence()
    before = desk.data("counts")
    desk.press(*["ArrowLeft"] * 10)
    assert desk.data("moment") == 28
    assert desk.data("counts") != before
    assert counted(desk) == strip.counts(28)
    assert strip.moment == 38
    desk.page.locator(".sl-kernel").wait_for()
    assert "Python does not answer" in desk.page.inner_text(".sl-kernel")
    desk.page.evaluate("window.kernelGone = false")
    desk.press("ArrowLeft")
    desk.page.locator(".sl-kernel").wait_for(state="hidden")
    assert strip.moment == 27
    desk.assert_quiet()


def test_a_scrub_is_announced_once(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, WindowStrip.of(moving(40, 1)))
    result = desk.page.locator(".sl-strip [aria-live]")
    desk.page.wait_for_function(
        "document.querySelector('.sl-strip [aria-live]').dataset.told === '1'"
    )
    desk.page.focus(".sl-strip input[type=range]")
    desk.press(*["ArrowLeft"] * 15)
    desk.page.wait_for_function(
        "document.querySelector('.sl-strip [aria-live]').dataset.told === '2'"
    )
    assert "03:02:48.000 UTC: Available" in result.inner_text()


def test_playing_goes_to_the_end_and_stops(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(moving(5, 1))
    desk = Desk(browser, tmp_path, strip)
    desk.page.get_by_role("button", name="Play").click()
    desk.page.wait_for_function("document.querySelector('.sl-strip').dataset.moment === '4'")
    desk.page.get_by_role("button", name="Play").wait_for()
    assert strip.moment == 4


def test_from_ten_offsets_to_ten_million(browser: Browser, tmp_path: Path) -> None:
    far = window(
        window_end_offset=10_000_100, end_offset=10_000_100, runs=[run(5_000_000, 5_000_000, 0, 9)]
    )
    strip = WindowStrip.of(windows(far))
    desk = Desk(browser, tmp_path, strip)
    assert desk.data("span") == [100, 10_000_100]
    strip.cursor = 5_000_000.0
    desk.settle()
    desk.page.focus(PICTURE)
    desk.press(*["+"] * 22)
    low, high = desk.data("span")
    assert low <= 5_000_000 < high <= low + 10
    assert "Available, delivery count 9" in desk.page.inner_text(".sl-spot")
    desk.page.get_by_role("button", name="Whole log").click()
    assert desk.data("span") == [100, 10_000_100]
    assert desk.page.get_by_role("button", name="Whole log").get_attribute("aria-pressed") == "true"


def test_what_is_unread_is_a_stub_until_all_of_the_log_is_asked_for(
    browser: Browser, tmp_path: Path
) -> None:
    desk = Desk(browser, tmp_path, WindowStrip.of(windows(window())))
    assert (desk.data("span"), desk.data("tail")) == ([100, 120], 1000)
    desk.page.get_by_role("button", name="Whole log").click()
    assert (desk.data("span"), desk.data("tail")) == ([100, 1120], 0)


def test_two_views_of_one_strip_stay_in_step_and_leave_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    desk = Desk(browser, tmp_path, WindowStrip.of(moving(10, 1)))
    listeners = """() => Object.values(window.models).flatMap(model => Object.values(model.listeners))
        .reduce((sum, set) => sum + set.size, 0)"""
    alone = desk.page.evaluate(listeners)
    again = "async () => { const el = document.createElement('div'); document.querySelector('main').append(el);"
    desk.page.evaluate(again + " await window.show(window.sent[0], el); }")
    desk.page.locator(".sl-strip").nth(1).locator("input[type=range]").focus()
    desk.page.wait_for_function("document.querySelectorAll('.sl-strip[data-moment]').length === 2")
    desk.press("Home")
    assert (desk.data("moment", 0), desk.data("moment", 1)) == (0, 0)
    assert desk.page.evaluate(listeners) == 2 * alone
    desk.page.evaluate("window.stops.at(-1)()")
    assert desk.page.evaluate(listeners) == alone
    assert desk.page.locator(".sl-strip").count() == 1
    for _ in range(20):
        desk.page.evaluate(
            again + " await window.show(window.sent[0], el); window.stops.at(-1)(); el.remove(); }"
        )
    assert desk.page.evaluate(listeners) == alone
    desk.assert_quiet()


def test_a_view_that_was_hidden_paints_when_it_is_seen(browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, WindowStrip.of(moving(10, 1)))
    desk.page.evaluate("""() => { window.kept = document.querySelector('main > div'); window.kept.remove();
        window.kept.style.display = 'none'; document.querySelector('main').append(window.kept); }""")
    desk.settle()
    desk.page.evaluate("window.kept.style.display = ''")
    desk.page.wait_for_function(f"document.querySelector('{PICTURE}').width > 500")
    assert counted(desk)
    desk.assert_quiet()


def test_empty_and_unknown_are_words(browser: Browser, tmp_path: Path) -> None:
    unset: dict[str, Any] = {
        "start_offset": None,
        "effective_start_offset": None,
        "window_end_offset": 0,
        "runs": [],
    }
    desk = Desk(
        browser, tmp_path, WindowStrip.of(windows()), WindowStrip.of(windows(window(**unset)))
    )
    assert "the table has no rows" in desk.root(0).inner_text()
    assert desk.root(0).locator("canvas:visible").count() == 0
    assert (
        "The start offset is not known yet: the group has not fetched" in desk.root(1).inner_text()
    )
    desk.assert_quiet()


def test_what_is_picked_is_said_with_and_without_a_cursor(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = Desk(browser, tmp_path, strip)
    spot = desk.page.locator(".sl-spot")
    expect(spot).to_have_text("No offset chosen: use the arrow keys, or point at one.")
    for offsets, words in (((104, 104), "You picked 104."), ((104, 109), "You picked 104 to 109.")):
        strip.selection.offsets = offsets
        desk.settle()
        expect(spot).to_have_text(words)
        expect(desk.page.locator(PICTURE)).to_have_attribute("aria-valuetext", words)
    strip.cursor, strip.selection.offsets = 113.0, (104, 104)
    desk.settle()
    expect(spot).to_have_text(
        "Offset 113: Archived, delivery count 5; run 113 to 113 \u2014 picked 104"
    )
    desk.assert_quiet()


def go_to(desk: Desk, *typed: str) -> Locator:
    """Type into the field for an offset, and press Enter each time; what it says is beside it."""
    field = desk.page.get_by_role("textbox", name="Go to offset")
    for text in typed:
        field.fill(text)
        field.press("Enter")
        desk.settle()
    return desk.page.locator(".sl-why")


def test_an_offset_that_is_typed_is_gone_to(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(moving(40, 2))
    desk = Desk(browser, tmp_path, strip)
    end = strip.rows.column("end_offset")[39].as_py()
    desk.page.evaluate(
        "window.seen = []; document.addEventListener('keydown', event => seen.push(event.key))"
    )
    desk.page.focus(PICTURE)
    desk.press("+", "+", "g")
    assert desk.page.evaluate("document.activeElement.labels[0].innerText") == "Go to offset"
    low, high = desk.data("span")
    why = go_to(desk, f"{end - 1:,}")  # far beyond what is in sight
    expect(why).to_have_text("")
    assert strip.cursor == end - 1
    assert desk.data("span") == [end - (high - low), end]
    assert f"Offset {end - 1}: Unread".replace(" ", "") in desk.page.inner_text(".sl-spot").replace(
        THIN, ""
    ).replace(" ", "")
    expect(desk.page.locator(".sl-strip [aria-live]")).to_contain_text(
        f"{(end - 1) % 1000:03}: Unread; run "
    )
    first = strip.rows.column("start_offset")[39].as_py()
    for typed, words in (
        (str(end), f"Offset {end} is out of range: at this moment there are {first} to {end - 1}."),
        ("soon", f"Type an offset as a whole number, from {first} to {end - 1}."),
    ):
        why = go_to(desk, typed)
        assert why.inner_text().replace(THIN, "") == words
        assert strip.cursor == end - 1
        field = desk.page.get_by_role("textbox", name="Go to offset")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(why.inner_text())
    assert axe_violations(desk.page) == []
    desk.press("Escape")
    expect(why).to_have_text("")
    expect(desk.page.get_by_role("textbox", name="Go to offset")).to_have_value("")
    assert not {"g", "+", "Enter", "Escape"} & set(desk.page.evaluate("seen"))
    desk.assert_quiet()


def test_without_a_known_offset_there_is_nowhere_to_go(browser: Browser, tmp_path: Path) -> None:
    unset: dict[str, Any] = {
        "start_offset": None,
        "effective_start_offset": None,
        "window_end_offset": 0,
        "runs": [],
    }
    strip = WindowStrip.of(windows(window(**unset)))
    desk = Desk(browser, tmp_path, strip)
    expect(go_to(desk, "5")).to_have_text(
        "The start offset is not known yet, so there is no offset to go to."
    )
    assert strip.cursor is None
    desk.page.emulate_media(media="print")
    expect(desk.page.get_by_text("Go to offset")).to_be_hidden()
    desk.assert_quiet()


def test_the_key_that_led_to_the_field_leads_back(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = Desk(browser, tmp_path, strip)
    focused = "() => document.activeElement.getAttribute('role') ?? document.activeElement.type"
    desk.page.focus(PICTURE)
    seen = []
    for typed in ("110", "7", "112"):
        desk.press("g")
        desk.page.keyboard.press("Control+a")
        desk.page.keyboard.type(typed)
        desk.press("Enter")
        seen.append(desk.page.evaluate(focused))
    assert (seen, strip.cursor) == (["slider", "text", "slider"], 112)
    desk.press("g", "Escape")
    assert desk.page.evaluate(focused) == "slider"
    go_to(desk, "113")  # come to by itself
    assert (desk.page.evaluate(focused), strip.cursor) == ("text", 113)
    desk.assert_quiet()


def looked_at(desk: Desk, number: int = 0) -> tuple[str, str, str, bool]:
    """Return what a strip says of its cursor, in and beside its field, and the slider's value."""
    root = desk.root(number)
    low, now, high = (
        float(str(root.locator("canvas[role=slider]").get_attribute(f"aria-value{name}")))
        for name in ("min", "now", "max")
    )
    said, why = (
        root.locator(one).inner_text().replace(THIN, "") for one in (".sl-spot", ".sl-why")
    )
    return (
        said,
        root.get_by_role("textbox", name="Go to offset").input_value(),
        why,
        low <= now <= high,
    )


NOWHERE = "No offset chosen: use the arrow keys, or point at one."


def test_of_another_share_partition_nothing_is_kept(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(moving(5, 2))
    desk = Desk(browser, tmp_path, strip)
    keys = [("payments", TOPIC_ID, partition) for partition in (0, 1)]
    desk.page.focus(PICTURE)
    desk.press("Home", "ArrowRight")
    go_to(desk, "7")
    cursor = strip.cursor
    strip.selection.keys = (keys[0],)
    desk.settle()
    said, typed, why, is_value = looked_at(desk)
    assert said.startswith(f"Offset {cursor:.0f}: ")
    assert (typed, is_value) == ("7", True)
    assert why.startswith("Offset 7 is out of range: at this moment there are 1")
    strip.selection.keys = (keys[1],)
    desk.settle()
    assert (strip.shown, strip.cursor) == (1, None)
    assert looked_at(desk) == (NOWHERE, "", "", True)
    # A place that the mouse only points at is not known to Python.
    desk.page.locator(PICTURE).hover()
    desk.settle()
    assert looked_at(desk)[0].startswith("Offset 2")
    assert strip.cursor is None
    strip.selection.keys = (keys[0],)
    desk.settle()
    assert looked_at(desk) == (NOWHERE, "", "", True)
    desk.assert_quiet()


def test_nor_is_it_where_a_linked_view_changes_it_and_no_kernel_answers(
    browser: Browser, tmp_path: Path
) -> None:
    strip = WindowStrip.of(moving(5, 2))
    desk = Desk(browser, tmp_path, strip, WindowStrip.of(moving(5, 2), selection=strip.selection))
    desk.silence()
    desk.root(0).locator("canvas[role=slider]").focus()
    desk.press("Home", "ArrowRight", "g")
    desk.page.keyboard.type("7")
    desk.press("Enter")
    assert looked_at(desk)[1] == "7"
    desk.root(1).get_by_role("combobox", name="Share partition").select_option(index=1)
    desk.settle()
    assert desk.page.evaluate("Object.values(window.models).map(model => model.get('shown'))") == [
        1,
        1,
    ]
    assert looked_at(desk) == looked_at(desk, 1) == (NOWHERE, "", "", True)
    desk.assert_quiet()


def test_at_another_moment_only_the_complaint_goes(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(moving(40, 1))
    desk = Desk(browser, tmp_path, strip)
    last = strip.rows.column("end_offset")[39].as_py() - 1
    go_to(desk, str(last), "7")
    strip.moment = 0  # its log ended before
    desk.settle()
    assert looked_at(desk) == (f"Offset {last}: outside of the window and the log", "7", "", True)
    assert strip.cursor == last
    expect(desk.page.get_by_role("textbox", name="Go to offset")).to_have_attribute(
        "aria-invalid", "false"
    )
    desk.assert_quiet()


def test_what_is_typed_stays_while_another_order_is_on_its_way(
    browser: Browser, tmp_path: Path
) -> None:
    both = moving(80, 2)
    strip = WindowStrip.of(both.slice(80))
    desk = Desk(browser, tmp_path, strip)
    desk.page.focus(PICTURE)
    desk.press("Home", "ArrowRight")
    cursor = strip.cursor
    desk.page.get_by_role("textbox", name="Go to offset").fill("2000")
    strip.rows = both  # the same one is now the second
    desk.settle()
    desk.page.wait_for_function("document.querySelector('.sl-strip').dataset.loaded === '2'")
    assert strip.shown == 1
    said, typed, _, _ = looked_at(desk)
    assert (said.startswith(f"Offset {cursor:.0f}: "), typed) == (True, "2000")
    # And the other way round, where for a while there is a number that the old data has too.
    assert strip.data[4] == 1  # to be unpacked, which takes its time
    desk.page.evaluate("""() => { const { arrayBuffer } = Response.prototype;
        Response.prototype.arrayBuffer = async function () { await new Promise(go => { window.go = go; });
            return arrayBuffer.call(this); }; }""")
    strip.rows = both.slice(80)
    desk.settle()
    desk.settle()
    desk.page.wait_for_function("window.go !== undefined")
    desk.page.evaluate("window.go()")
    desk.page.wait_for_function("document.querySelector('.sl-strip').dataset.loaded === '3'")
    said, typed, _, _ = looked_at(desk)
    assert (said.startswith(f"Offset {cursor:.0f}: "), typed, strip.cursor) == (
        True,
        "2000",
        cursor,
    )
    desk.assert_quiet()


def test_a_pick_that_the_system_takes_away_was_none(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = Desk(browser, tmp_path, strip)
    strip.selection.offsets = (104, 104)
    desk.settle()
    box = desk.page.locator(PICTURE).bounding_box()
    assert box
    for _ in range(2):
        desk.page.mouse.move(box["x"] + 100, box["y"] + 40)
        desk.page.mouse.down()
        desk.page.mouse.move(box["x"] + 400, box["y"] + 40, steps=4)
        desk.settle()
        assert "picked 102 to 109" in desk.page.inner_text(".sl-spot")
        desk.page.eval_on_selector(
            PICTURE, "picture => picture.dispatchEvent(new PointerEvent('pointercancel'))"
        )
        desk.page.mouse.up()
        desk.settle()
        assert desk.page.inner_text(".sl-spot").endswith("\u2014 picked 104")
        assert strip.selection.offsets == (104, 104)
    desk.page.mouse.move(box["x"] + 100, box["y"] + 40)
    desk.page.mouse.down()
    desk.page.mouse.move(box["x"] + 200, box["y"] + 40, steps=4)
    desk.page.mouse.up()
    desk.settle()
    picked = strip.selection.offsets
    assert picked == (102, 104)
    desk.page.mouse.down()
    desk.page.mouse.move(box["x"] + 400, box["y"] + 40, steps=4)
    desk.page.eval_on_selector(
        PICTURE, "picture => picture.dispatchEvent(new PointerEvent('pointercancel'))"
    )
    desk.page.mouse.up()
    desk.settle()
    assert desk.page.inner_text(".sl-spot").endswith("\u2014 picked 102 to 104")
    desk.assert_quiet()


@pytest.mark.parametrize("button", ["left", "middle"])
def test_zoomed_in_the_mouse_moves_the_picture_along(
    button: str, browser: Browser, tmp_path: Path
) -> None:
    strip = WindowStrip.of(windows(window(window_end_offset=10_100, end_offset=10_100)))
    desk = Desk(browser, tmp_path, strip)
    box = desk.page.locator(PICTURE).bounding_box()
    assert box

    def drag(by: float, *keys: str) -> None:
        for key in keys:
            desk.page.keyboard.down(key)
        desk.page.mouse.move(box["x"] + 400, box["y"] + 40)
        desk.page.mouse.down(button=button)  # type: ignore[arg-type]
        desk.page.mouse.move(box["x"] + 400 + by, box["y"] + 40, steps=5)
        desk.page.mouse.up(button=button)  # type: ignore[arg-type]
        for key in keys:
            desk.page.keyboard.up(key)
        desk.settle()

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
    desk.assert_quiet()


def test_what_is_held_stays_under_the_mouse_where_the_tail_gives_way(
    browser: Browser, tmp_path: Path
) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = Desk(browser, tmp_path, strip)
    box = desk.page.locator(PICTURE).bounding_box()
    assert box
    assert desk.data("tail") == 1000
    at = (box["width"] - 96) / 2  # offset 110, of 100 to 120
    desk.page.keyboard.down("Shift")
    desk.page.mouse.move(box["x"] + at, box["y"] + 40)
    desk.page.mouse.down()
    desk.page.mouse.move(box["x"] + at - 300, box["y"] + 40, steps=5)
    desk.page.mouse.up()
    desk.page.keyboard.up("Shift")
    desk.settle()
    assert (strip.fit, desk.data("tail")) == ("fixed", 0)
    low, high = strip.span
    assert low + (at - 300) / box["width"] * (high - low) == pytest.approx(110)
    desk.assert_quiet()


def test_playing_has_a_speed(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(moving(200, 1))
    desk = Desk(browser, tmp_path, strip)
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
    desk.assert_quiet()


def test_the_browsers_own_keys_stay_the_browsers(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(moving(3, 1))
    desk = Desk(browser, tmp_path, strip)
    desk.page.evaluate("""window.seen = [];
        document.addEventListener('keydown', event => { seen.push(event.key); event.preventDefault(); })""")
    desk.page.focus(PICTURE)
    desk.press("Control+p", "Control+g", "Control++", "Control+0", "Control+ArrowRight")
    assert [key for key in desk.page.evaluate("seen") if key != "Control"] == ["p", "g", "+", "0"]
    assert strip.fit == "window"


def test_a_failure_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    strip = WindowStrip.of(moving(3, 1))
    strip.data = b"not ours, whatever it is"
    desk = Desk(browser, tmp_path, strip)
    failure = desk.page.get_by_role("alert").inner_text()
    assert "of another version of sharelag: restart the kernel and run the cell again" in failure
    assert "Run the cell again" in desk.root().inner_text()
    desk.assert_quiet()


def test_after_a_failure_the_next_good_data_is_shown(browser: Browser, tmp_path: Path) -> None:
    strip, other = WindowStrip.of(moving(3, 1)), WindowStrip.of(windows(window()))
    desk = Desk(browser, tmp_path, strip)
    strip.data = b"not ours, whatever it is"
    desk.settle()
    expect(desk.page.get_by_role("alert")).to_contain_text("of another version of sharelag")
    expect(desk.page.locator(PICTURE)).to_be_hidden()
    strip.moment = 1  # nothing to show it in
    desk.settle()
    expect(desk.page.get_by_role("alert")).to_be_visible()
    strip.data = other.data
    desk.settle()
    expect(desk.page.get_by_role("alert")).to_have_count(0)
    expect(desk.page.locator(PICTURE)).to_be_visible()
    assert (counted(desk), desk.root().get_attribute("data-failed")) == (other.counts(), None)
    desk.assert_quiet()


def test_after_a_message_that_cannot_be_painted_the_next_is(
    browser: Browser, tmp_path: Path
) -> None:
    strip = WindowStrip.of(moving(3, 1))
    desk = Desk(browser, tmp_path, strip)
    broken = (
        "value => { const model = Object.values(window.models)[0]; model.set('offsets', value); }"
    )
    desk.page.evaluate(broken, None)
    desk.settle()
    alert = desk.page.get_by_role("alert")
    expect(alert).to_contain_text("This view cannot be drawn")
    desk.page.evaluate(
        """() => { window.paints = 0; const all = CanvasRenderingContext2D.prototype, { clearRect } = all;
        all.clearRect = function (...box) { window.paints += 1; return clearRect.apply(this, box); }; }"""
    )
    desk.page.set_viewport_size({"width": 800, "height": 700})  # no reason to try again and again
    desk.settle()
    desk.settle()
    assert desk.page.evaluate("paints") == 0
    desk.page.evaluate(broken, [])
    desk.settle()
    expect(alert).to_have_count(0)
    assert counted(desk) == strip.counts()
    assert 300 < desk.page.eval_on_selector(PICTURE, "picture => picture.clientWidth") < 800
    desk.assert_quiet()


def test_new_data_replaces_the_old(browser: Browser, tmp_path: Path) -> None:
    strip, other = WindowStrip.of(moving(3, 1)), WindowStrip.of(windows(window()))
    desk = Desk(browser, tmp_path, strip)
    strip.data = other.data
    desk.settle()
    desk.page.wait_for_function("document.querySelector('.sl-strip').dataset.loaded === '2'")
    assert counted(desk) == other.counts()


def test_a_history_is_numbers(browser: Browser, tmp_path: Path) -> None:
    rows = (
        moving(2, 1)
        .drop_columns(["runs"])
        .to_pandas()
        .assign(window_available=5, window_complete=9)
    )
    desk = Desk(browser, tmp_path, WindowStrip.of(rows))
    assert "In the window: available 5, complete 9" in desk.page.inner_text(".sl-told")
    assert "window" in counted(desk)
    assert json.dumps(desk.data("counts"))


@pytest.mark.parametrize("width", [320, 700, 1600])
def test_it_fits_any_width(width: int, browser: Browser, tmp_path: Path) -> None:
    desk = Desk(browser, tmp_path, WindowStrip.of(moving(10, 2)))
    desk.page.set_viewport_size({"width": width, "height": 800})
    desk.settle()
    assert desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert desk.page.eval_on_selector(
        PICTURE, "picture => Math.abs(picture.width - picture.clientWidth) <= 1"
    )
