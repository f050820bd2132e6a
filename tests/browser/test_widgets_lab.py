"""The views in a real JupyterLab: keys, themes, selections in Python, and a dead kernel."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator

from tests.support.browser.desk import Watched, let_paint
from tests.support.browser.jupyter import IDLE, Lab
from tests.support.cases import Cases

#: Views in a lab are also those of `test_now.py` and `test_dashboards.py`, in each run.
pytestmark = pytest.mark.exhaustive
CELLS = [
    """from tests.support.widgets.samples import lag, moving
import plotly.graph_objects as go
from sharelag_widgets import LagTable, PartitionGrid, PlotView, Selection, WindowStrip
rows, selection = lag(), Selection()
strip = WindowStrip.of(moving(), selection=selection)
strip""",
    "grid = PartitionGrid.of(rows, selection=selection)\ngrid",
    "table = LagTable.of(rows, selection=selection)\ntable",
    "PlotView(go.Figure(go.Scatter(x=[1, 2, 3], y=[3, 1, 2], name='lag')), alt='Lag')",
]
RUN = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"
# Run all cells so many times, each time until its four views are there.
RUN_AGAIN = """async times => { for (let n = 0; n < times; n++) {
    for (const view of document.querySelectorAll('.sl')) view.dataset.old = '';
    await window.jupyterapp.commands.execute('notebook:run-all-cells');
    const [fresh, end] = ['.sl[data-loaded]:not([data-old])', performance.now() + 60_000];
    while (document.querySelectorAll(fresh).length !== 4 || !document.querySelector(`.sl-chart[data-drawn]${fresh}`)) {
        if (performance.now() > end) throw new Error(`run ${n}: ${document.querySelectorAll(fresh).length} views`);
        await new Promise(done => setTimeout(done, 20)); } } }"""
OBSERVERS = ("ResizeObserver", "MutationObserver", "IntersectionObserver")
# Among the elements that are still in memory, views that are no longer in the page. Prototypes are
# no elements.
GONE = """function () { return this.filter(one => Object.hasOwn(one, 'constructor') ? false :
    one.classList.contains('sl') && !one.isConnected).length; }"""


@pytest.fixture(scope="module")
def opened(lab: Lab, browser: Browser) -> Iterator[Watched]:
    """The notebook after a full run."""
    lab.write("views", CELLS)
    watched = lab.page(browser)
    page = lab.open(watched, "views.ipynb")
    page.evaluate(RUN)
    page.locator(".sl-chart .main-svg").first.wait_for()
    page.wait_for_function("document.querySelectorAll('.sl[data-loaded]').length === 4")
    page.wait_for_function(IDLE)
    yield watched
    watched.page.close()


def moment(strip: Locator) -> int:
    let_paint(strip.page)
    return int(strip.get_attribute("data-moment") or -1)


def test_keys_stay_in_the_view_and_cells_stay_where_they_are(opened: Watched) -> None:
    page, strip = opened.page, opened.page.locator(".sl-strip")
    active = "window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    strip.locator("input[type=range]").focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    assert moment(strip) == 34
    strip.locator("canvas[role=slider]").focus()
    for key in ("ArrowRight", "ArrowRight", "PageDown", "[", "]", "Enter"):
        page.keyboard.press(key)
    assert moment(strip) == 34
    assert "Offset" in strip.locator(".sl-spot").inner_text()
    page.locator(".sl-grid canvas[role=slider]").focus()
    before = page.evaluate(active)  # the cell that the focus is in
    # The last are the lab's own keys, which change notebooks.
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "a", "b", "x"):
        page.keyboard.press(key)
    assert page.evaluate(active) == before == 1
    found = page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.length")
    assert found == len(CELLS)
    # But the one that saves is.
    dirty = "window.jupyterapp.shell.currentWidget.context.model.dirty"
    page.evaluate(f"{dirty} = true")
    page.keyboard.press("Control+s")
    page.wait_for_function(f"!{dirty}")
    page.wait_for_function(IDLE)
    opened.assert_quiet()


@pytest.fixture(scope="module")
def again(lab: Lab, browser: Browser) -> Iterator[Watched]:
    """The same notebook with another kernel, in a page and process whose memory is measured."""
    lab.write("again", CELLS)
    watched = Watched(browser)
    lab.open(watched, "again.ipynb").evaluate(RUN_AGAIN, 1)
    yield watched
    watched.page.close()


def held(watched: Watched) -> dict[str, float]:
    """Measure the page after garbage collection: listeners, nodes, bytes, observers, lost views."""
    session = watched.context.new_cdp_session(watched.page)

    def all_of(kind: str, act: str) -> Any:
        prototype = session.send("Runtime.evaluate", {"expression": f"{kind}.prototype"})["result"][
            "objectId"
        ]
        found = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"][
            "objectId"
        ]
        requested = {"objectId": found, "functionDeclaration": act, "returnByValue": True}
        return session.send("Runtime.callFunctionOn", requested)["result"]["value"]

    session.send("Performance.enable")
    for _ in range(3):  # what one collection lets go of can hold more
        let_paint(watched.page)
        session.send("HeapProfiler.collectGarbage")
    told = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    known = {name: told[name] for name in ("JSEventListeners", "Nodes", "JSHeapUsedSize")}
    known |= {kind: all_of(kind, "function () { return this.length; }") for kind in OBSERVERS}
    known["gone"] = all_of("HTMLElement", GONE)
    session.detach()
    return known


@pytest.mark.exhaustive
def test_cells_that_run_many_times_leave_nothing_in_the_page(again: Watched, cases: Cases) -> None:
    """Each run makes four new views, and the kernel closes the earlier ones."""
    times = cases(5, 15)
    again.page.evaluate(RUN_AGAIN, 4)
    before = held(again)
    again.page.evaluate(RUN_AGAIN, times)
    after = held(again)
    more = {name: (after[name] - before[name]) / times for name in after}
    print({name: round(value, 1) for name, value in more.items()})
    found = {name: more[name] for name in (*OBSERVERS, "gone")}
    assert found == dict.fromkeys((*OBSERVERS, "gone"), 0)
    # Listeners go with the closed models; a browser keeps the texts of their modules.
    assert more["JSEventListeners"] <= 4
    assert more["Nodes"] <= 15
    assert more["JSHeapUsedSize"] <= 450_000
    again.forget_of_the_lab()
    again.assert_quiet()


def test_a_saved_notebook_is_light_with_all_that_its_views_hold(opened: Watched, lab: Lab) -> None:
    opened.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    opened.page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    path = lab.folder / "views.ipynb"
    saved = json.loads(path.read_text())
    (states,) = saved["metadata"]["widgets"].values()
    names = {state["state"].get("_anywidget_id", "") for state in states["state"].values()}
    assert "sharelag_widgets.plot_view.PlotView" in names
    assert path.stat().st_size < 1_000_000
