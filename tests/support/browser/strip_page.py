"""A window strip in a page: what it shows, and what it says of its cursor."""

from playwright.sync_api import Locator

from sharelag_widgets.window_strip import KINDS
from tests.support.browser.desk import Desk

PICTURE = ".sl-strip canvas[role=slider]"


def counted(desk: Desk) -> dict[str, int]:
    return {name: count for name, count in zip(KINDS, desk.data("counts"), strict=True) if count}


def legend(desk: Desk) -> dict[str, int]:
    items = desk.page.eval_on_selector_all(
        ".sl-legend li",
        "items => items.map(item => [item.dataset.kind, item.querySelector('strong').innerText])",
    )
    return {name: int(text.replace(",", "")) for name, text in items if text != "0"}


def go_to(desk: Desk, *typed: str) -> Locator:
    """Type into the field for an offset, and press Enter each time; what it says is beside it."""
    field = desk.page.get_by_role("textbox", name="Go to offset")
    for text in typed:
        field.fill(text)
        field.press("Enter")
        desk.settle()
    return desk.page.locator(".sl-why")


def looked_at(desk: Desk, number: int = 0) -> tuple[str, str, str, bool]:
    """Return what a strip says of its cursor, in and beside its field, and the slider's value."""
    root = desk.root(number)
    low, now, high = (
        float(str(root.locator("canvas[role=slider]").get_attribute(f"aria-value{name}")))
        for name in ("min", "now", "max")
    )
    said, why = (root.locator(one).inner_text() for one in (".sl-spot", ".sl-why"))
    typed = root.get_by_role("textbox", name="Go to offset").input_value()
    return said, typed, why, low <= now <= high


NOWHERE = "No offset chosen: use the arrow keys, or point at one."
