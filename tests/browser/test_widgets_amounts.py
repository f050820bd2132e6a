"""Amounts in words are aligned right, as numbers are."""

import pyarrow as pa

from sharelag.schemas import AMOUNT
from sharelag_widgets import LagTable
from tests.support.browser.desk import OpenDesk

ENDS = """() => Object.fromEntries([...document.querySelectorAll('.sl-table tr[data-place="0"] td')].map((cell, n) => {
    const text = document.createRange();
    text.selectNodeContents(cell);
    const [inside, outside] = [text.getBoundingClientRect(), cell.getBoundingClientRect()];
    const head = document.querySelectorAll('.sl-table th')[n];
    const side = outside.right - inside.right < inside.left - outside.left ? 'right' : 'left';
    return [head.innerText.trim(), [getComputedStyle(head).textAlign, side]]; }))"""


def test_amounts_stand_at_the_right(open_desk: OpenDesk) -> None:
    fields = [pa.field(name, pa.string()) for name in ("measure", "variant")]
    schema = pa.schema(
        [*fields, pa.field("tried", pa.string(), metadata=AMOUNT), pa.field("n", pa.int64())]
    )
    rows = [
        {"measure": "drain", "variant": "a long name of a variant", "tried": "1m 37s", "n": 5},
        {
            "measure": "a measure with a long name",
            "variant": "b",
            "tried": "unknown in 2 of 5 runs",
            "n": 12_345_678,
        },
    ]
    desk = open_desk(LagTable.of(pa.Table.from_pylist(rows, schema), keys=["measure"]))
    sides = {name: sides for name, sides in desk.page.evaluate(ENDS).items() if name != "Variant"}
    assert sides == {
        "Measure": ["left", "left"],
        "Tried": ["right", "right"],
        "N": ["right", "right"],
    }
