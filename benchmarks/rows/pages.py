"""When parts of a page by Voila are shown after its request, with a cold kernel and Spark."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser

from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side, limit
from tests.support.browser.chromium import running_browser
from tests.support.browser.desk import Watched
from tests.support.browser.jupyter import NOW_AND_THEN, voila_over
from tests.support.notebooks.shipped import copy_of

_NOTEBOOK = "00_start_here"
#: Since the request of the page, in milliseconds.
_SEEN = """(() => {
    const seen = window.seen = {};
    const note = (what, is) => { if (is && !(what in seen)) seen[what] = performance.now(); };
    function look() {
        const verdict = document.querySelector('.sharelag-now .sl-verdict');
        note('heading', document.querySelector('h1')?.checkVisibility());
        note('lag', verdict?.querySelector('.sl-sentence').textContent);
        note('verdict', verdict?.dataset.level === 'critical');
        if (!('verdict' in seen)) requestAnimationFrame(look);
    }
    look(); })()"""
#: On a busy machine, a kernel takes minutes to start.
_PATIENCE = 300_000


class Shown(NamedTuple):
    """Times at which parts of a page were shown, in seconds since its request."""

    heading: float
    lag: float
    verdict: float


class Pages:
    """A page that is requested repeatedly, each time with a new kernel."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self._shown: list[Shown] = []

    def shown(self, turn: int) -> Shown:
        """Return the times of a turn; rows that use the same turn share a request."""
        while len(self._shown) <= turn:
            self._shown.append(self._request())
        return self._shown[turn]

    def _request(self) -> Shown:
        watched = Watched(self._browser)
        page = watched.page
        page.add_init_script(_SEEN)
        page.goto(f"{self._url}/voila/render/{_NOTEBOOK}.ipynb", timeout=_PATIENCE)
        page.wait_for_function("'verdict' in window.seen", timeout=_PATIENCE, polling=NOW_AND_THEN)
        seen: dict[str, float] = page.evaluate("window.seen")
        # Voila ends the kernel and Spark of a page that is left, but not of one that is closed.
        page.goto("about:blank")
        watched.context.close()
        return Shown(*(seen[name] / 1000 for name in Shown._fields))


@contextmanager
def _pages() -> Iterator[Pages]:
    with tempfile.TemporaryDirectory() as scratch, running_browser() as chromium:
        folder = Path(scratch) / "notebooks"
        folder.mkdir()
        copy_of(_NOTEBOOK, folder)
        with voila_over(folder, Path(scratch) / "voila") as url:
            yield Pages(chromium, url)


@contextmanager
def seen(bench: Bench, what: str, goal: float) -> Iterator[Contest]:
    """Request the page until a part of its dashboard is shown."""
    pages, turns = bench.keep("pages", _pages), itertools.count()

    def ours() -> Measured:
        shown = pages.shown(next(turns))
        return Measured(shown, wall=getattr(shown, what), cpu=0)

    def check(shown: Shown, _: Any) -> None:
        if not shown.heading < shown.lag < shown.verdict:
            raise GateError(f"the page is filled in another order: {shown}")

    yield Contest(Side(f"until {what}", ours, unit="times"), limit(goal), check)


ROWS = (
    Row("I12", "Voila: from the request of a page to the lag of all groups, cold kernel", "10 s",
        1, 0.67, partial(seen, what="lag", goal=10.0), by=("wall",), within=True),
    Row("I13", "Voila: from the request of a page, with the start of Spark, to the verdict", "30 s",
        1, 0.67, partial(seen, what="verdict", goal=30.0), by=("wall",), within=True),
)  # fmt: skip
