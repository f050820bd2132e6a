"""The views in a real JupyterLab: keys, themes, selections in Python, and a dead kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.support.browser.desk import Watched, axe_violations
from tests.support.browser.jupyter import IDLE, Lab, change_theme
from tests.support.cases import Cases
from tests.support.kafka.workload import wait_until

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


def ask(page: Page, code: str) -> str:
    """What the notebook's own kernel answers, in a new cell at its end."""
    page.evaluate(
        """async code => { const app = window.jupyterapp, panel = app.shell.currentWidget, notebook = panel.content;
        notebook.activeCellIndex = notebook.widgets.length - 1;
        await app.commands.execute('notebook:insert-cell-below');
        notebook.activeCell.model.sharedModel.setSource(code);
        await app.commands.execute('notebook:run-cell'); }""",
        code,
    )
    page.wait_for_function(IDLE)
    output = page.locator(".jp-Notebook .jp-Cell").last.locator(".jp-OutputArea-output")
    output.first.wait_for()
    return output.first.inner_text().strip()


def moment(strip: Locator) -> int:
    strip.page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    return int(strip.get_attribute("data-moment") or -1)


def test_every_view_is_there_and_nothing_leaves_the_machine(opened: Watched) -> None:
    page = opened.page
    assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    for box in [view.bounding_box() for view in page.locator(".sl").all()]:
        assert box
        assert box["height"] > 150
    assert axe_violations(page, ".sl") == []
    opened.assert_quiet()


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
    for key in (
        "ArrowRight",
        "ArrowDown",
        "ArrowDown",
        "a",
        "b",
        "x",
    ):  # the lab's own keys, which change notebooks
        page.keyboard.press(key)
    assert page.evaluate(active) == before == 1
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.length") == len(
        CELLS
    )
    page.wait_for_function(IDLE)
    opened.assert_quiet()


def test_what_is_picked_by_hand_is_read_by_code(opened: Watched) -> None:
    page = opened.page
    page.locator(".sl-grid canvas[role=slider]").focus()
    page.keyboard.press("Home")
    page.wait_for_function("""() => { const grid = document.querySelector('.sl-grid');
        return grid.dataset.active && grid.querySelector('[role=slider]').ariaValueNow === '0'; }""")
    row = page.locator(".sl-grid").get_attribute("data-active")
    for key in ("Escape", "Enter"):
        page.keyboard.press(key)
    # The share partition that was picked in the strip is one row, too.
    page.wait_for_function(
        """row => document.querySelector('.sl-grid').dataset.picked === `[${row}]`
        && document.querySelector('.sl-table').dataset.rows === '1'""",
        arg=row,
    )
    # A view waits with what was picked while an earlier pick is on its way.
    picked = "print(len(selection.keys), grid.picked_rows.column('partition').to_pylist())"
    wait_until(lambda: ask(page, picked) == f"1 [{row}]", "what was picked is in the kernel")
    code = "found = eval(table.to_code('rows').split('\\n', 2)[2]); print(found.equals(grid.picked_rows), len(found))"
    assert ask(page, code) == "True 1"
    opened.assert_quiet()


def test_the_theme_of_the_lab_is_followed(opened: Watched) -> None:
    page = opened.page
    shown = """wanted => [...document.querySelectorAll('.sl')].every(view =>
        view.dataset.theme === wanted[0] && view.dataset.contrast === wanted[1])"""
    for theme, wanted in (
        ("JupyterLab Dark", ["dark", "normal"]),
        ("JupyterLab Dark High Contrast", ["dark", "more"]),
        ("JupyterLab Light", ["light", "normal"]),
    ):
        change_theme(page, theme, shown, wanted)
    opened.assert_quiet()


def test_a_new_view_of_an_output_is_in_step_with_the_first(opened: Watched) -> None:
    page = opened.page
    page.evaluate("""async () => { const app = window.jupyterapp; app.shell.currentWidget.content.activeCellIndex = 0;
        await app.commands.execute('notebook:create-output-view'); }""")
    page.wait_for_function("document.querySelectorAll('.sl-strip[data-moment]').length === 2")
    first = page.locator(".jp-Notebook .sl-strip")
    second = page.locator(".jp-LinkedOutputView .sl-strip")
    second.locator("input[type=range]").focus()
    for key in ("End", *["ArrowLeft"] * 3):
        page.keyboard.press(key)
    assert moment(first) == moment(second) == 36
    first.locator("canvas[role=slider]").focus()
    for key in ("Home", "Shift+ArrowRight", "["):
        page.keyboard.press(key)
    assert moment(first) == moment(second) == 35
    for part in (".sl-spot", ".sl-told"):
        assert first.locator(part).inner_text() == second.locator(part).inner_text()
    assert "picked" in second.locator(".sl-spot").inner_text()
    assert first.get_attribute("data-counts") == second.get_attribute("data-counts")
    page.evaluate("""() => [...window.jupyterapp.shell.widgets('main')]
        .find(one => one.node.querySelector('.jp-LinkedOutputView')).close()""")
    page.wait_for_function("document.querySelectorAll('.sl-strip').length === 1")
    first.locator("input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    assert moment(first) == 34
    page.wait_for_function(IDLE)
    opened.assert_quiet()


def test_views_survive_a_second_run_and_a_second_place(opened: Watched) -> None:
    page = opened.page
    for _ in range(3):
        page.evaluate("""async () => { const app = window.jupyterapp, notebook = app.shell.currentWidget.content;
            document.querySelector('.sl-grid').dataset.old = ''; notebook.activeCellIndex = 1;
            await app.commands.execute('notebook:run-cell'); }""")
        page.wait_for_function(IDLE)
        page.wait_for_function(
            "document.querySelectorAll('.sl-grid[data-cells]:not([data-old])').length === 1"
        )
        assert page.locator(".sl-grid").count() == 1
    assert ask(page, "display(strip)") is not None
    page.wait_for_function("document.querySelectorAll('.sl-strip[data-moment]').length === 2")
    first, second = page.locator(".sl-strip").nth(0), page.locator(".sl-strip").nth(1)
    second.locator("input[type=range]").focus()
    page.keyboard.press("Home")
    assert (moment(first), moment(second)) == (0, 0)
    opened.forget_of_the_lab()
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
        watched.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        session.send("HeapProfiler.collectGarbage")
    metrics = {
        one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]
    }
    known = {name: metrics[name] for name in ("JSEventListeners", "Nodes", "JSHeapUsedSize")}
    known |= {kind: all_of(kind, "function () { return this.length; }") for kind in OBSERVERS}
    known["gone"] = all_of("HTMLElement", GONE)
    session.detach()
    return known


@pytest.mark.exhaustive
def test_cells_that_run_many_times_leave_nothing_in_the_page(again: Watched, cases: Cases) -> None:
    """Each run makes four new views; kernel and page keep the earlier ones as models."""
    times = cases(5, 15)
    again.page.evaluate(RUN_AGAIN, 4)
    before = held(again)
    again.page.evaluate(RUN_AGAIN, times)
    after = held(again)
    more = {name: (after[name] - before[name]) / times for name in after}
    print({name: round(value, 1) for name, value in more.items()})
    assert {name: more[name] for name in (*OBSERVERS, "gone")} == dict.fromkeys(
        (*OBSERVERS, "gone"), 0
    )
    # For each run: what Jupyter itself has for four models, and their state, which is half of it
    # text.
    assert more["JSEventListeners"] <= 40
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


def test_time_travel_goes_on_when_the_kernel_is_dead(opened: Watched) -> None:
    page, strip = opened.page, opened.page.locator(".sl-strip").first
    page.wait_for_function(IDLE)
    page.evaluate(
        "async () => { await window.jupyterapp.shell.currentWidget.sessionContext.shutdown(); }"
    )
    strip.locator("input[type=range]").focus()
    before = moment(strip)
    counts = strip.get_attribute("data-counts")
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    assert moment(strip) == before + 7
    assert strip.get_attribute("data-counts") != counts
    strip.locator(".sl-kernel").wait_for()
    assert "Python does not answer" in strip.locator(".sl-kernel").inner_text()
    assert opened.outside == []
