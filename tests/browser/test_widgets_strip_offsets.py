"""An offset is gone to and picked; a strip that is read again stays where somebody looks."""

import pyarrow as pa
import pytest
from playwright.sync_api import expect

from sharelag_widgets import WindowStrip
from tests.support.browser.desk import OpenDesk, axe_violations, box_of
from tests.support.browser.strip_page import NOWHERE, PICTURE, go_to, looked_at
from tests.support.records import with_column
from tests.support.widgets.samples import BEGIN, TOPIC_ID, lag, moving, window, windows


def test_an_offset_that_is_typed_is_gone_to(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(40, 2))
    desk = open_desk(strip)
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
    assert (strip.cursor, desk.data("span")) == (end - 1, [end - (high - low), end])
    spot = desk.page.inner_text(".sl-spot").replace(" ", "")
    assert f"Offset{end - 1}:Unread" in spot
    expect(desk.page.locator(".sl-strip [aria-live]")).to_contain_text(
        f"{(end - 1) % 1000:03}: Unread; run "
    )
    first = strip.rows.column("start_offset")[39].as_py()
    for typed, words in (
        (str(end), f"Offset {end} is out of range: at this moment there are {first} to {end - 1}."),
        ("soon", f"Type an offset as a whole number, from {first} to {end - 1}."),
    ):
        why = go_to(desk, typed)
        assert (why.inner_text(), strip.cursor) == (words, end - 1)
        field = desk.page.get_by_role("textbox", name="Go to offset")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(why.inner_text())
    assert axe_violations(desk.page) == []
    desk.press("Escape")
    expect(why).to_have_text("")
    expect(desk.page.get_by_role("textbox", name="Go to offset")).to_have_value("")
    assert not {"g", "+", "Enter", "Escape"} & set(desk.page.evaluate("seen"))


@pytest.mark.exhaustive  # the key: `test_an_offset_that_is_typed_is_gone_to`
def test_the_key_that_led_to_the_field_leads_back(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = open_desk(strip)
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


def test_of_another_share_partition_nothing_is_kept(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(5, 2))
    desk = open_desk(strip)
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
    assert (strip.shown, strip.cursor, looked_at(desk)) == (1, None, (NOWHERE, "", "", True))
    # A place that the mouse only points at is not known to Python.
    desk.page.locator(PICTURE).hover()
    desk.settle()
    assert looked_at(desk)[0].startswith("Offset 2")
    assert strip.cursor is None
    strip.selection.keys = (keys[0],)
    desk.settle()
    assert looked_at(desk) == (NOWHERE, "", "", True)


@pytest.mark.exhaustive  # with a kernel: the test before
def test_nor_where_a_linked_view_changes_it_and_no_kernel_answers(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(5, 2))
    desk = open_desk(strip, WindowStrip.of(moving(5, 2), selection=strip.selection))
    desk.silence()
    desk.root(0).locator("canvas[role=slider]").focus()
    desk.press("Home", "ArrowRight", "g")
    desk.page.keyboard.type("7")
    desk.press("Enter")
    assert looked_at(desk)[1] == "7"
    desk.root(1).get_by_role("combobox", name="Share partition").select_option(index=1)
    desk.settle()
    shown = "Object.values(window.models).map(model => model.get('shown'))"
    assert desk.page.evaluate(shown) == [1, 1]
    assert looked_at(desk) == looked_at(desk, 1) == (NOWHERE, "", "", True)


@pytest.mark.exhaustive  # its words: `strip_math.test.js`
def test_at_another_moment_only_the_complaint_goes(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(moving(40, 1))
    desk = open_desk(strip)
    last = strip.rows.column("end_offset")[39].as_py() - 1
    go_to(desk, str(last), "7")
    strip.moment = 0  # its log ended before
    desk.settle()
    assert looked_at(desk) == (f"Offset {last}: outside of the window and the log", "7", "", True)
    assert strip.cursor == last
    expect(desk.page.get_by_role("textbox", name="Go to offset")).to_have_attribute(
        "aria-invalid", "false"
    )


@pytest.mark.exhaustive
def test_what_is_typed_stays_while_another_order_is_on_its_way(open_desk: OpenDesk) -> None:
    both = moving(80, 2)
    strip = WindowStrip.of(both.slice(80))
    desk = open_desk(strip)
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
    assert said.startswith(f"Offset {cursor:.0f}: ")
    assert (typed, strip.cursor) == ("2000", cursor)


@pytest.mark.exhaustive
def test_a_pick_that_the_system_takes_away_was_none(open_desk: OpenDesk) -> None:
    strip = WindowStrip.of(windows(window()))
    desk = open_desk(strip)
    strip.selection.offsets = (104, 104)
    desk.settle()
    box = box_of(desk.page.locator(PICTURE))
    at_100, at_200, at_400 = ((box["x"] + x, box["y"] + 40) for x in (100, 200, 400))

    def cancel() -> None:
        desk.page.eval_on_selector(
            PICTURE, "picture => picture.dispatchEvent(new PointerEvent('pointercancel'))"
        )
        desk.page.mouse.up()
        desk.settle()

    for _ in range(2):
        desk.drag(at_100, at_400, let_go=False)
        assert "picked 102 to 109" in desk.page.inner_text(".sl-spot")
        cancel()
        assert desk.page.inner_text(".sl-spot").endswith("\u2014 picked 104")
        assert strip.selection.offsets == (104, 104)
    desk.drag(at_100, at_200)
    assert strip.selection.offsets == (102, 104)
    desk.drag(at_200, at_400, let_go=False)
    cancel()
    assert desk.page.inner_text(".sl-spot").endswith("\u2014 picked 102 to 104")


def test_what_is_looked_at_stays_while_more_is_read(open_desk: OpenDesk) -> None:
    more = moving(60, 2)
    rows = pa.concat_tables([more.slice(0, 40), more.slice(60, 40)])
    strip = WindowStrip.of(rows)
    desk = open_desk(strip)
    desk.page.locator(".sl-strip select").first.select_option(index=1)
    desk.settle()
    desk.page.focus(".sl-strip input[type=range]")
    desk.press(*["ArrowLeft"] * 5)
    desk.page.focus(PICTURE)
    desk.press("+", "+", "ArrowRight", "ArrowRight")
    spot, span, counts = desk.page.inner_text(".sl-spot"), desk.data("span"), desk.data("counts")
    said = desk.page.inner_text("output.sl-when")
    assert (strip.shown, strip.moment, strip.fit) == (1, 34, "fixed")
    strip.rows = more
    desk.settle()
    desk.page.wait_for_function("document.querySelector('.sl-strip').dataset.loaded === '2'")
    expect(desk.page.locator("output.sl-when")).to_have_text(said.replace("of 40", "of 60"))
    assert (desk.data("moment"), desk.data("span"), desk.data("counts")) == (34, span, counts)
    assert desk.page.inner_text(".sl-spot") == spot
    assert desk.page.evaluate("document.activeElement.getAttribute('role')") == "slider"


def test_playing_goes_on_while_more_is_read(open_desk: OpenDesk) -> None:
    more = moving(400, 1)
    strip = WindowStrip.of(more.slice(0, 200))
    desk = open_desk(strip)
    desk.page.get_by_role("button", name="Play").click()
    desk.page.wait_for_function("document.querySelector('.sl-strip').dataset.moment === '2'")
    strip.rows = more
    desk.settle()
    desk.page.wait_for_function("document.querySelector('.sl-strip').dataset.loaded === '2'")
    at = int(desk.data("moment"))
    desk.page.wait_for_function(
        f"Number(document.querySelector('.sl-strip').dataset.moment) > {at}"
    )
    desk.page.get_by_role("button", name="Pause").click()


def test_the_log_end_stands_at_its_own_time(open_desk: OpenDesk) -> None:
    rows = moving(3, 1).drop_columns(["end_offset"])
    ends = with_column(lag().slice(0, 1), "as_of", [BEGIN.replace(minute=9)])
    desk = open_desk(WindowStrip.of(rows, ends=ends))
    desk.settle()
    end = ends.column("end_offset")[0].as_py()
    result = desk.page.inner_text(".sl-told")
    assert result.startswith("2026-11-21 03:09:00.000 UTC: ")
    assert f"log end {end}" in result
    desk.page.focus(PICTURE)
    desk.press("[")
    result = desk.page.inner_text(".sl-told")
    assert result.startswith("2026-11-21 03:00:14.000 UTC: ")
    assert str(end) not in result
