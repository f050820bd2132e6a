"""Grid and table show every row, sorted, filtered and selected by mouse and keyboard."""

import csv
import io
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from playwright.sync_api import Browser, expect

import sharelag
from sharelag.schemas import AMOUNT
from sharelag_widgets import LagTable, PartitionGrid
from tests.support.browser.chromium import open_page
from tests.support.browser.desk import Desk, OpenDesk, box_of
from tests.support.widgets.samples import BEGIN, TOPIC_ID, lag

CELLS = ".sl-grid canvas[role=slider]"


def picked(view: PartitionGrid | LagTable) -> list[int]:
    return [int(row) for row in np.frombuffer(view.picked, np.uint32)]


def body(desk: Desk) -> list[list[str]]:
    rows: list[list[str]] = desk.page.eval_on_selector_all(
        ".sl-table tr[data-place]",
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))",
    )
    return [[cell.replace(",", "") for cell in row] for row in rows]


def test_every_share_partition_is_a_cell_of_the_right_step(open_desk: OpenDesk) -> None:
    rows = lag(2000)
    desk = open_desk(PartitionGrid.of(rows))
    known = rows.column("lag").drop_null().to_numpy()
    assert desk.data("cells") == 2000
    items = desk.page.eval_on_selector_all(
        ".sl-legend li",
        "items => items.map(item => [item.dataset.step, item.innerText.split('\\n').at(-1)])",
    )
    counts = {step: int(text.replace(",", "").split(" ")[-1]) for step, text in items}
    assert (counts["-1"], counts["0"]) == (rows.column("lag").null_count, int((known == 0).sum()))
    assert sum(counts.values()) == 2000
    assert desk.data("steps") == {step: count for step, count in counts.items() if count}


def test_filters_and_order(open_desk: OpenDesk) -> None:
    rows = lag()
    grid = PartitionGrid.of(rows)
    desk = open_desk(grid)
    desk.page.get_by_label("Filter").fill("GROUP-2")
    assert desk.data("cells") == pc.sum(pc.equal(rows.column("group_id"), "group-2")).as_py() == 80
    assert grid.filter == "GROUP-2"
    desk.page.get_by_label("Filter").fill("no such thing")
    assert desk.data("cells") == 0
    assert "The filter leaves none: shorten it." in desk.root().inner_text()
    desk.page.get_by_label("Filter").fill("")
    desk.page.get_by_label("At least").fill("1000")
    assert desk.data("cells") == pc.sum(pc.greater_equal(rows.column("lag"), 1000)).as_py()
    desk.page.get_by_label("At least").fill("")
    desk.page.get_by_label("Order").select_option("most")
    desk.page.focus(CELLS)
    desk.press("ArrowRight")
    most = int(np.argmax(rows.column("lag").fill_null(-1).to_numpy()))
    assert desk.data("active") == most
    spoken = desk.page.get_attribute(CELLS, "aria-valuetext")
    assert spoken
    assert spoken.replace(",", "").endswith(f"Lag {rows.column('lag')[most].as_py()}")
    desk.page.get_by_label("Colour").select_option("verdict")
    expect(desk.page.get_by_label("At least")).to_be_hidden()
    verdicts = pc.value_counts(rows.column("verdict")).to_pylist()
    assert sorted(desk.data("steps").values()) == sorted(row["counts"] for row in verdicts)


def test_cells_are_picked_by_keys(open_desk: OpenDesk) -> None:
    grid = PartitionGrid.of(lag(), band=None)
    desk = open_desk(grid)
    desk.page.focus(CELLS)
    desk.press("ArrowRight", "ArrowRight", "Enter")
    first = picked(grid)
    assert len(first) == 1
    desk.press("ArrowRight", "Shift+Enter")
    assert set(picked(grid)) > set(first)
    assert len(picked(grid)) == 2
    desk.press("ArrowDown", "Space")
    assert (len(picked(grid)), desk.data("picked")) == (1, picked(grid))
    desk.press("Control+a")
    assert picked(grid) == list(range(400))
    assert "400 share partitions, 400 picked." in desk.root().inner_text()
    desk.press("Escape")
    assert (picked(grid), grid.selection.keys) == ([], ())
    desk.press("End")
    end = desk.data("active")
    desk.press("Home", "ArrowLeft")
    assert desk.data("active") != end


def test_the_grid_as_a_table(open_desk: OpenDesk) -> None:
    rows = lag(30, 2)
    desk = open_desk(PartitionGrid.of(rows))
    desk.page.get_by_label("Order").select_option("most")
    desk.page.get_by_role("button", name="Show as table").click()
    desk.settle()
    shown = desk.page.eval_on_selector_all(
        ".sl-grid tbody td:last-child", "cells => cells.map(one => one.innerText)"
    )
    wanted = sorted((v for v in rows.column("lag").to_pylist() if v is not None), reverse=True)
    found = [text.replace(",", "") for text in shown]
    assert found == [*map(str, wanted), *["-"] * rows.column("lag").null_count]


def test_rows_are_picked_and_copied_as_csv(browser: Browser, open_desk: OpenDesk) -> None:
    rows = lag(20, 2)
    table = LagTable.of(rows, columns=["group_id", "topic", "partition", "lag", "as_of"])
    desk = open_desk(table)
    desk.page.evaluate(
        "() => { navigator.clipboard.writeText = async text => { window.copied = text; }; }"
    )
    desk.page.get_by_role("button", name="Copy as CSV").click()
    desk.page.get_by_text("20 rows copied.").wait_for()
    copied = list(csv.DictReader(io.StringIO(desk.page.evaluate("window.copied"))))
    assert len(copied) == 20
    by_partition = {row["partition"]: row for row in copied}
    for row in rows.to_pylist():
        mine = by_partition[str(row["partition"])]
        group = row["group_id"].replace("\u202e", r"\u202e")
        assert (mine["group_id"], mine["topic"]) == (group, row["topic"] or "")
        assert mine["lag"] == ("" if row["lag"] is None else str(row["lag"]))
        assert mine["as_of"] == "2026-11-21T03:00:00.000Z"
    desk.page.focus(".sl-table table")
    desk.press("Home", "Enter", "ArrowDown", "Shift+Enter")
    assert len(picked(table)) == 2
    assert desk.page.locator(".sl-table tr[aria-selected=true]").count() == 2
    desk.page.evaluate(
        "() => { navigator.clipboard.writeText = async () => { throw new Error('no'); }; }"
    )
    desk.press("Control+c")
    # People take it themselves where the browser does not let a page copy.
    field = desk.page.get_by_label("The rows as CSV")
    field.wait_for()
    assert len(field.input_value().splitlines()) == 3
    desk.page.locator(".sl-table tr[data-place='4']").click()
    desk.settle()
    assert (len(picked(table)), table.selection.keys[0][1]) == (1, TOPIC_ID)


@pytest.mark.parametrize("width", [1000, 1600])
def test_a_result_wraps_its_sentences_and_nothing_else(width: int, browser: Browser) -> None:
    page = open_page(browser, viewport={"width": 1000, "height": 900})
    page.set_viewport_size({"width": width, "height": 800})
    page.set_content(sharelag.open("demo", engine="local").overview()._repr_html_())
    table = page.locator(".sharelag-result .scroll")
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    sizes = "ones => ones.map(one => [one.offsetWidth, one.offsetHeight])"
    tall = table.locator("td:not(.s)").locator("bdi").evaluate_all(sizes)
    line = min(height for _, height in tall)
    assert {height for _, height in tall} == {line}
    sentences = table.locator("td.s bdi").evaluate_all(sizes)
    assert len(sentences) == 6  # one cause is short, and one group has none
    assert all(wide >= 220 for wide, _ in sentences)
    assert any(height > line for _, height in sentences) == (width == 1000)


def test_empty_tables_are_words(open_desk: OpenDesk) -> None:
    none = lag().slice(0, 0)
    grid = PartitionGrid.of(none, measures=["lag"])
    desk = open_desk(grid, LagTable.of(none))
    assert "There is no share partition to show" in desk.root(0).inner_text()
    assert "There are no rows to show." in desk.root(1).inner_text()
    grid.rows = lag()
    desk.settle()
    desk.page.wait_for_function("document.querySelector('.sl-grid').dataset.cells === '400'")


def test_folded_rows_come_when_they_are_asked_for_searched_or_picked(open_desk: OpenDesk) -> None:
    rows = pa.table({"name": ["a", "b", "c", "d"], "level": ["critical", "ok", "note", "ok"]})
    table = LagTable.of(rows, keys=["name"])
    table.folded = {"column": "level", "value": "ok", "words": "healthy"}
    table.narrows = False
    desk = open_desk(table)

    def names() -> list[str]:
        desk.settle()
        return [row[0] for row in body(desk)]

    assert names() == ["a", "c"]
    more = desk.page.get_by_label("Also 2 healthy")
    more.check()
    assert names() == ["a", "b", "c", "d"]
    more.uncheck()
    desk.page.get_by_role("grid").focus()
    desk.press("/", "d", "Enter", "Enter")
    assert (names(), table.picked_rows.column("name").to_pylist()) == (["d"], ["d"])
    desk.page.get_by_label("Filter").fill("")
    assert names() == ["a", "c", "d"]
    table.rows = rows.filter(pc.equal(rows.column("level"), "ok"))
    assert names() == ["b", "d"]
    expect(more).to_be_hidden()


ENDS = """() => Object.fromEntries([...document.querySelectorAll('.sl-table tr[data-place="0"] td')].map((cell, n) => {
    const text = document.createRange();
    text.selectNodeContents(cell);
    const [inside, outside] = [text.getBoundingClientRect(), cell.getBoundingClientRect()];
    const head = document.querySelectorAll('.sl-table th')[n];
    const side = outside.right - inside.right < inside.left - outside.left ? 'right' : 'left';
    return [head.innerText.trim(), [getComputedStyle(head).textAlign, side]]; }))"""


def test_amounts_stand_at_the_right(open_desk: OpenDesk) -> None:
    fields = [pa.field(name, pa.string()) for name in ("measure", "variant")]
    fields += [pa.field("tried", pa.string(), metadata=AMOUNT), pa.field("n", pa.int64())]
    schema = pa.schema([*fields, pa.field("at", pa.timestamp("ms", "UTC"))])
    cells = [
        ("drain", "a long name of a variant", "1m 37s", 5, BEGIN),
        ("a measure with a long name", "b", "unknown in 2 of 5 runs", 12_345_678, BEGIN),
    ]
    rows = [dict(zip(schema.names, row, strict=True)) for row in cells]
    desk = open_desk(LagTable.of(pa.Table.from_pylist(rows, schema), keys=["measure"]))
    sides = {name: sides for name, sides in desk.page.evaluate(ENDS).items() if name != "Variant"}
    assert {name for name, side in sides.items() if side == ["right"] * 2} == {"Tried", "N"}
    assert {name for name, side in sides.items() if side == ["left"] * 2} == {"Measure", "At"}


def test_on_paper_a_table_has_its_rows_and_covers_nothing(open_desk: OpenDesk) -> None:
    for count, printed in ((40, 40), (600, 500)):
        rows = pa.table({"topic_id": [TOPIC_ID] * count, "partition": range(count)})
        desk = open_desk(LagTable.of(rows, keys=["topic_id", "partition"]))
        media: dict[Literal["print", "screen"], int] = {"print": printed, "screen": 23}
        for medium, made in media.items():
            desk.page.emulate_media(media=medium)
            desk.settle()
            assert (len(body(desk)), desk.page.locator("th").first.is_visible()) == (made, True)
            parts = map(desk.page.locator, (".sl-table tbody", ".sl-table"))
            rows_high, high = (one.evaluate("one => one.scrollHeight") for one in parts)
            assert (rows_high < high) == (medium == "print")


def test_long_names_leave_numbers_in_sight(open_desk: OpenDesk) -> None:
    names = {"group_id": ["g" * 200], "topic": ["t" * 200], "topic_id": [TOPIC_ID]}
    rows = pa.table(names | {"partition": [0], "lag": [123_456_789_012]})
    desk = open_desk(LagTable.of(rows, columns=["group_id", "topic", "lag"]))
    for width in (700, 400, 320):
        desk.page.set_viewport_size({"width": width, "height": 900})
        desk.settle()
        lags, scroll = desk.page.locator("td.sl-number"), desk.page.locator(".sl-scroll")
        ends = [one["x"] + one["width"] for one in map(box_of, (lags, scroll))]
        assert lags.evaluate("one => one.scrollWidth <= one.clientWidth"), width
        assert ends[0] <= ends[1] or width == 320, width
