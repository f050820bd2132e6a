"""The table that decides between variants, in a column of a page."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from sharelag.tables import render
from sharelag.whatif import compared
from tests.support.browser.desk import axe_violations
from tests.support.browser.offline import OfflinePage
from tests.support.drawn_comparisons import runs

VARIANTS = ("the group as it is", "lag-aware-sticky · 9 members", "all-to-all · 9 members")


@pytest.fixture(scope="module")
def decision() -> str:
    """Three variants of eight runs each, as HTML."""
    variants = {
        variant: {
            "age_p95_ms": [1_493_000.0 - 250_000 * number + 1_000 * seed for seed in range(8)],
            "drain_ms": [460_000 + 2_000 * seed if number else None for seed in range(8)],
            "duration_ms": [600_000] * 8,
            "member_hours": [0.5 + number] * 8,
        }
        for number, variant in enumerate(VARIANTS)
    }
    return render.as_html(compared(runs(**variants)).presentation())


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [830, 420])  # all of a notebook's column at 1,010 pixels, or half
def test_it_fits_or_scrolls_beside_the_names_of_its_variants(
    decision: str, browser: Browser, tmp_path: Path, width: int, theme: str
) -> None:
    path = tmp_path / "decision.html"
    paper = f"color-scheme: {theme}; background: Canvas; color: CanvasText"
    frame = f'<main style="width: {width}px"><h1>Decision</h1>{decision}</main>'
    head = f'<!doctype html><html lang="en" style="{paper}"><meta charset="utf-8">'
    path.write_text(f'{head}<title>Decision</title><body style="{paper}">{frame}', "utf-8")
    page = OfflinePage(browser, path, viewport={"width": 1010, "height": 600}).page
    table = page.locator(".scroll").first
    names, ends = (table.locator(f"tbody td:{which}-child") for which in ("first", "last"))
    for name, variant in zip(names.all(), VARIANTS, strict=True):
        expect(name).to_have_text(variant)
    before = names.evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
    if table.evaluate("one => one.scrollWidth > one.clientWidth"):
        table.hover()
        page.mouse.wheel(2_000, 0)
        page.wait_for_function(
            "one => one.scrollLeft + one.clientWidth >= one.scrollWidth - 1",
            arg=table.element_handle(),
        )
    else:
        assert width > 800
    expect(ends.first).to_be_in_viewport(ratio=0.98)  # frames end within a pixel
    assert names.evaluate_all("all => all.map(one => one.getBoundingClientRect().left)") == before
    # What scrolls goes below the names, and does not shine through.
    on_top = """all => all.every(one => { const { left, right, top, bottom } = one.getBoundingClientRect();
        return one.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2)); })"""
    assert names.evaluate_all(on_top)
    clear = "one => getComputedStyle(one).backgroundColor.includes(', 0)')"
    assert not names.first.evaluate(clear)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe_violations(page) == []
