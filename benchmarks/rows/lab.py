"""Waiting times in a real JupyterLab: for lag, the verdict, and the window during a drag."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nbformat import NotebookNode
from playwright.sync_api import Page

from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side, limit
from tests.support.browser.chromium import running_browser
from tests.support.browser.desk import Watched
from tests.support.browser.jupyter import IDLE, Lab, jupyter_lab
from tests.support.notebooks.running import Running, settle
from tests.support.notebooks.shipped import copy_of

_CELL = "import sharelag\nboard = sharelag.open('demo').dashboard()\nboard"
#: From the key press that runs a cell to parts of its dashboard, in milliseconds.
_SEEN = """n => new Promise(async done => {
    const { commands, shell } = window.jupyterapp, cells = shell.currentWidget.content;
    cells.activeCellIndex = n;
    await commands.execute('notebook:clear-cell-output');
    const begun = performance.now(), seen = {};
    const note = (what, is) => {
        if (is && !(what in seen)) seen[what] = performance.now() - begun; };
    function look() {
        const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[n];
        const verdict = cell.querySelector('.sl-verdict');
        note('first', verdict?.querySelector('.sl-sentence').textContent);
        note('verdict', verdict?.dataset.level === 'critical');
        const parts = ['.sl-strip[data-moment]', '.sl-chart[data-drawn]'];
        note('all', parts.every(part => cell.querySelector(part)));
        if ('all' in seen) done(seen); else requestAnimationFrame(look);
    }
    commands.execute('notebook:run-cell'); look(); })"""
#: One drag over the chart, a move per frame: the time until the window below has followed.
_DRAGGED = """([share, n]) => new Promise(done => {
    const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[n];
    const area = cell.querySelector('.sl-chart:has(.scatterlayer) .nsewdrag');
    const plot = area.getBoundingClientRect(), strip = cell.querySelector('.sl-strip');
    const before = strip.dataset.moment, begun = performance.now();
    const at = { clientX: plot.left + plot.width * share, clientY: plot.top + 9, bubbles: true };
    dispatchEvent(new PointerEvent('pointermove', at));
    const look = () => strip.dataset.moment !== before || performance.now() - begun > 900
        ? done(performance.now() - begun) : requestAnimationFrame(look);
    look(); })"""

#: A click on a group of *Now*: the time until its causes and chart are shown and nothing is dim.
_PICKED = """([place, n]) => new Promise(done => {
    const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[n];
    const board = cell.querySelector('.sharelag-now');
    const row = board.querySelectorAll('.sl-table tbody tr')[place];
    const [group, begun] = [row.cells[1].innerText.trim(), performance.now()];
    const parts = ['.sl-cards .sl-state', '.sharelag-columns > :last-child .sl-finding'];
    const look = () => !board.matches('.sharelag-waits')
            && parts.every(part => board.querySelector(part)?.innerText.includes(group))
        ? done(performance.now() - begun) : requestAnimationFrame(look);
    row.click(); look(); })"""


class Shown(NamedTuple):
    """Times at which parts of a cell's dashboard were shown, in seconds."""

    first: float
    verdict: float
    all: float


class Open:
    """A notebook in a JupyterLab: its first cell is run once, its second repeatedly."""

    def __init__(self, page: Page, lab: Lab, folder: Path) -> None:
        self.page, self.lab, self.folder = page, lab, folder
        self.cold = self._run(0)
        self._run(1)  # includes compiling on first use

    def run(self) -> Shown:
        """Run the second cell until its dashboard is whole."""
        return self._run(1)

    def _run(self, cell: int) -> Shown:
        seen: dict[str, float] = self.page.evaluate(_SEEN, cell)
        self.page.wait_for_function(IDLE)
        return Shown(*(seen[name] / 1000 for name in Shown._fields))

    def drag(self) -> list[float]:
        """Drag over the chart of the last cell; return seconds until the window has followed."""
        cell = self.page.locator(".jp-Notebook .jp-Cell").nth(1)
        plot = cell.locator(".sl-chart:has(.scatterlayer) .nsewdrag").first
        plot.scroll_into_view_if_needed()
        plot.dispatch_event("pointerdown", {"button": 0, "clientX": 0, "clientY": 0})
        shares = [0.05 + 0.9 * (n * 37 % 100) / 100 for n in range(60)]
        spent = [self.page.evaluate(_DRAGGED, [share, 1]) for share in shares]
        self.page.evaluate("dispatchEvent(new PointerEvent('pointercancel'))")
        return [one / 1000 for one in spent]

    def pick(self) -> list[float]:
        """Click each group three times in turn; return seconds until it is shown completely."""
        spent = []
        for place in 3 * [*range(1, 8), 0]:  # the first one is selected initially
            spent.append(self.page.evaluate(_PICKED, [place, 1]) / 1000)
            settle(self.page)
        return spent


@contextmanager
def _lab() -> Iterator[Open]:
    with tempfile.TemporaryDirectory() as scratch, running_browser() as chromium:
        folder = Path(scratch) / "notebooks"
        folder.mkdir()
        with jupyter_lab(folder) as lab:
            lab.write("verdict", [_CELL, _CELL])
            page = lab.open(Watched(chromium), "verdict.ipynb")
            page.set_viewport_size({"width": 1440, "height": 900})
            yield Open(page, lab, folder)


@contextmanager
def seen(bench: Bench, what: str, goal: float) -> Iterator[Contest]:
    """Run the cell of a warm notebook until a part of its dashboard is shown."""
    opened = bench.keep("lab", _lab)

    def ours() -> Measured:
        shown = opened.run()
        return Measured(shown, wall=getattr(shown, what), cpu=0)

    def check(shown: Shown, _: Any) -> None:
        if not shown.first <= shown.verdict <= shown.all:
            raise GateError(f"the page is filled in another order: {shown}")

    yield Contest(Side(f"until {what}", ours, unit="times"), limit(goal), check)


@contextmanager
def cold(bench: Bench, goal: float) -> Iterator[Contest]:
    """Measure the first cell of the notebook, with imports and the start of Spark."""
    opened = bench.keep("lab", _lab)

    def ours() -> Measured:
        return Measured(opened.cold, wall=opened.cold.verdict, cpu=0)

    yield Contest(Side("until verdict, cold", ours, unit="times"), limit(goal), lambda *_: None)


@contextmanager
def many(bench: Bench, act: Callable[[Open], list[float]], goal: float) -> Iterator[Contest]:
    """Take the 95th percentile of a repeated action."""
    opened = bench.keep("lab", _lab)

    def ours() -> Measured:
        spent = act(opened)
        return Measured(len(spent), wall=float(np.percentile(spent, 95)), cpu=0)

    def check(count: int, _: Any) -> None:
        if count < 20:
            raise GateError(f"{count} only")

    yield Contest(Side("95th percentile", ours, unit="times"), limit(goal), check)


@contextmanager
def notebook(bench: Bench, name: str, goal: float) -> Iterator[Contest]:
    """Run a notebook, each time with a new kernel."""
    opened = bench.keep("lab", _lab)
    chromium = opened.page.context.browser
    assert chromium is not None
    copy_of(name, opened.folder)

    def ours() -> Measured:
        running = Running(opened.lab, chromium, [name])
        ran = running.finished(name)
        running.close(name)
        return Measured(ran.saved, wall=ran.seconds, cpu=0)

    def check(saved: NotebookNode, _: Any) -> None:
        outputs = [one for cell in saved.cells for one in cell.get("outputs", [])]
        failed = [one.evalue for one in outputs if one.output_type == "error"]
        if failed or not outputs:
            raise GateError(f"a cell failed: {failed}")

    yield Contest(Side(name, ours, unit="times"), limit(goal), check)


ROWS = (
    Row("I8", "JupyterLab: from a run cell to the lag of all groups, warm", "1 s", 1, 0.67,
        partial(seen, what="first", goal=1.0), by=("wall",), within=True),
    Row("I9", "JupyterLab: from a run cell to the verdict, warm", "3 s", 1, 0.67,
        partial(seen, what="verdict", goal=3.0), by=("wall",), within=True),
    Row("I10", "JupyterLab: from the first cell, with the start of Spark, to the verdict", "30 s",
        1, 0.67, partial(cold, goal=30.0), by=("wall",), within=True),
    Row("I11", "JupyterLab: dragging over the chart until the window follows, 95th percentile",
        "100 ms", 1, 0.5, partial(many, act=Open.drag, goal=0.1), by=("wall",), within=True),
    Row("I21", "JupyterLab: from a click on another group until causes and chart are there, 95th "
        "percentile", "300 ms", 1, 0.5, partial(many, act=Open.pick, goal=0.3), by=("wall",),
        within=True),
    Row("I22", "JupyterLab: notebook 11 from its first cell to its last, with the start of Spark",
        "40 s", 1, 0.67, partial(notebook, name="11_dataframes_and_sql", goal=40.0), by=("wall",),
        within=True),
)  # fmt: skip
