"""Time to paint widgets: a window scrubbed without a kernel, 10,000 cells, 200 members."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

import numpy as np
import pyarrow as pa
from playwright.sync_api import Browser, Page

from sharelag_widgets import AssignmentEditor, LagTable, PartitionGrid, WindowStrip
from tests.support.browser.chromium import running_browser
from tests.support.browser.desk import Desk

OFFSETS, MOMENTS, PARTITIONS = 10_000, 1_000, 10_000
EDITORS, EDITED = 200, 1_000  # members and partitions of an assignment
#: The time of the same browser to fill as many rectangles as the strip has offsets: the machine's
#: own measure.
_BASELINE = """() => { const context = document.createElement('canvas').getContext('2d');
    context.canvas.width = 1000; const spent = [];
    for (let round = 0; round < 30; round++) { const begun = performance.now();
        for (let n = 0; n < 10000; n++) {
            context.fillStyle = n % 2 ? '#000' : '#fff'; context.fillRect(n / 10, 0, 1, 99); }
        context.getImageData(0, 0, 1, 1); spent.push(performance.now() - begun); }
    return spent; }"""

_TO_THE_NEXT_FRAME = """async move => {
    const slider = document.querySelector('.sl-strip input[type=range]'), spent = [];
    const frame = () => new Promise(requestAnimationFrame);
    for (let n = 0; n < 200; n++) { await frame(); const begun = performance.now();
        if (move) { slider.value = (n * 37) % 1000; slider.dispatchEvent(new Event('input')); }
        await frame(); await new Promise(done => setTimeout(done));
        spent.push(performance.now() - begun); }
    return spent; }"""

#: Another view of the same model, until it reports that it is painted.
_ONCE_MORE = """async painted => {
    const el = document.createElement('div'); document.querySelector('main').append(el);
    const begun = performance.now(); await window.show(window.sent[0], el);
    while (!el.querySelector('.sl').dataset[painted]) await new Promise(requestAnimationFrame);
    const spent = performance.now() - begun; window.stops.pop()(); el.remove(); return spent; }"""


def run() -> None:
    with running_browser() as chromium, tempfile.TemporaryDirectory() as scratch:
        _tell("baseline: 10,000 rectangles on a canvas", chromium.new_page().evaluate(_BASELINE))
        for runs in (500, OFFSETS):
            _scrub(chromium, Path(scratch), runs)
        _grid(chromium, Path(scratch))
        _table(chromium, Path(scratch))
        for each in (10, EDITED):
            _editor(chromium, Path(scratch), each)


def _scrub(browser: Browser, scratch: Path, runs: int) -> None:
    strip = WindowStrip.of(_windows(runs))
    desk = Desk(browser, scratch, strip)
    about = f"{OFFSETS:,} offsets x {MOMENTS:,} moments, {runs:,} runs each"
    print(f"{about}: {len(strip.data) / 1e6:.1f} MB cross once")
    for kernel in (True, False):
        if not kernel:
            desk.silence()
        desk.page.focus(".sl-strip input[type=range]")
        desk.page.evaluate("performance.clearMeasures()")
        before = desk.data("moment")
        for n in range(200):
            desk.page.keyboard.press("ArrowLeft" if n < 150 else "ArrowRight")
            _frame(desk.page)
        moved = before - desk.data("moment")
        if moved != 100:
            raise SystemExit(
                f"the strip went {moved} moments back instead of 100, so the times mean nothing"
            )
        state = "alive" if kernel else "dead"
        _tell(f"  painting a moment, kernel {state}", _measured(desk.page, "sharelag-strip"))
        _tell(
            f"  from a move of the slider to the next frame, {state}",
            desk.page.evaluate(_TO_THE_NEXT_FRAME, True),
        )
        _tell("  the same without moving it", desk.page.evaluate(_TO_THE_NEXT_FRAME, False))
    desk.context.close()


def _grid(browser: Browser, scratch: Path) -> None:
    desk = Desk(browser, scratch, PartitionGrid.of(_lag()))
    about = f"grid of {PARTITIONS:,} cells: from data to painted"
    _tell(about, [desk.page.evaluate(_ONCE_MORE, "cells") for _ in range(10)])
    desk.page.evaluate("performance.clearMeasures()")
    for text in ("g", "group-1", "group-17", "no such thing", "", "orders-3", "") * 4:
        desk.page.get_by_label("Filter").fill(text)
        _frame(desk.page)
    if desk.data("cells") != PARTITIONS:
        raise SystemExit("the filter did not let go of all cells, so the times mean nothing")
    _tell("  filter", _measured(desk.page, "sharelag-grid"))
    desk.context.close()


def _table(browser: Browser, scratch: Path) -> None:
    desk = Desk(browser, scratch, LagTable.of(_lag()))
    desk.page.evaluate("performance.clearMeasures()")
    for name in ("Lag", "Group id", "Partition") * 6:
        desk.page.get_by_role("button", name=name, exact=False).first.click()
        _frame(desk.page)
    _tell(f"table of {PARTITIONS:,} rows: sort", _measured(desk.page, "sharelag-table"))
    desk.context.close()


def _editor(browser: Browser, scratch: Path, each: int) -> None:
    """Measure members with several partitions each: a share partition may have many members."""
    lag = pa.array(np.random.default_rng(1).integers(0, 10**6, EDITED))
    rows = pa.table({"topic": ["orders"] * EDITED, "partition": list(range(EDITED)), "lag": lag})
    held = {
        f"member-{n}": {"orders": [(n * each + k) % EDITED for k in range(each)]}
        for n in range(EDITORS)
    }
    view = AssignmentEditor.of(rows, held, keys=["topic", "partition"])
    desk = Desk(browser, scratch, view)
    about = f"editor of {EDITORS} members x {EDITED:,} partitions, {EDITORS * each:,} pairs"
    _tell(
        f"{about}: from data to painted",
        [desk.page.evaluate(_ONCE_MORE, "lines") for _ in range(10)],
    )
    desk.page.evaluate("performance.clearMeasures()")
    desk.page.focus(".sl-editor [role=grid]")
    for key in ("ArrowDown", "ArrowRight", "Delete", "Control+z", "End", "Home") * 8:
        desk.page.keyboard.press(key)
        _frame(desk.page)
    if view.at or len(view.edits) != 1:
        raise SystemExit("the keys did not take away and undo, so the times mean nothing")
    _tell("  a key: go, take away, undo", _measured(desk.page, "sharelag-editor"))
    desk.context.close()


def _frame(page: Page) -> None:
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


def _measured(page: Page, name: str) -> list[float]:
    said = page.evaluate(
        "name => JSON.stringify(performance.getEntriesByName(name).map(one => one.duration))", name
    )
    found: list[float] = json.loads(said)
    return found


def _tell(what: str, times: list[float]) -> None:
    p95 = quantiles(times, n=20, method="inclusive")[-1]
    print(
        f"{what:<90} median {median(times):7.1f} ms   p95 {p95:7.1f} ms   "
        f"max {max(times):7.1f} ms   of {len(times)}"
    )


def _windows(runs: int) -> pa.Table:
    """Return a window of 10,000 offsets that moves by ten per moment, cut into equal runs."""
    begin, length = datetime(2026, 11, 21, 3, tzinfo=UTC), OFFSETS // runs
    random = np.random.default_rng(1)
    first = np.arange(MOMENTS)[:, None] * 10 + np.arange(runs)[None, :] * length + 1_000_000
    states = random.choice(np.array([0, 2, 4], np.int8), first.size)
    fields: list[Any] = [
        first.ravel(),
        first.ravel() + length - 1,
        states,
        random.integers(1, 6, first.size),
    ]
    kinds = [pa.int64(), pa.int64(), pa.int8(), pa.int16()]
    names = ["first_offset", "last_offset", "delivery_state", "delivery_count"]
    batches = pa.StructArray.from_arrays(
        [pa.array(f, k) for f, k in zip(fields, kinds, strict=True)], names
    )
    start = first[:, 0]
    return pa.table(
        {
            "group_id": ["payments"] * MOMENTS,
            "topic_id": ["A" * 22] * MOMENTS,
            "partition": [0] * MOMENTS,
            "start_offset": start,
            "effective_start_offset": start,
            "window_end_offset": start + OFFSETS,
            "end_offset": start + 2 * OFFSETS,
            "runs": pa.ListArray.from_arrays(
                pa.array(np.arange(MOMENTS + 1, dtype=np.int32) * runs), batches
            ),
            "record_timestamp": [begin + timedelta(seconds=n) for n in range(MOMENTS)],
        }
    )


def _lag() -> pa.Table:
    random = Random(1)
    return pa.table(
        {
            "group_id": [f"group-{n // 200}" for n in range(PARTITIONS)],
            "topic": [f"orders-{n % 7}" for n in range(PARTITIONS)],
            "topic_id": [f"{n % 7:022d}" for n in range(PARTITIONS)],
            "partition": list(range(PARTITIONS)),
            "lag": [int(10 ** random.uniform(0, 7)) if n % 5 else 0 for n in range(PARTITIONS)],
            "unread": [random.randrange(1000) for _ in range(PARTITIONS)],
        }
    )


if __name__ == "__main__":
    run()
