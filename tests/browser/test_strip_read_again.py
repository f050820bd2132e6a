"""A strip stays where somebody looks when its moments are read again."""

import pyarrow as pa
from playwright.sync_api import expect

from sharelag_widgets import WindowStrip
from tests.support.browser.desk import OpenDesk
from tests.support.columns import with_column
from tests.support.widgets.samples import BEGIN, lag, moving

PICTURE = ".sl-strip canvas[role=slider]"


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
