"""Notebooks in a real JupyterLab, two at a time: opened, run from top to bottom, and saved."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import nbformat
from nbformat import NotebookNode
from playwright.sync_api import Browser, Locator, Page

from tests.support.browser.desk import Watched, let_paint
from tests.support.browser.jupyter import NOW_AND_THEN, Lab
from tests.support.notebooks.shipped import complaints

_RUN = """() => { const begun = performance.now();
    window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => {
        window.ran = (performance.now() - begun) / 1000; }); }"""
#: Where every view has what it shows, or says why not.
SHOWN = "[...document.querySelectorAll('.sl')].every(view => view.dataset.loaded || view.dataset.failed)"
#: Where every chart is drawn; one without traces is a sentence, and its stage is hidden.
DRAWN = "[...document.querySelectorAll('.sl-chart .sl-stage')].every(stage => stage.closest('.sl-chart').dataset.drawn || !stage.checkVisibility())"
#: Where no dashboard shows a part of what it is about to show.
READ = "!document.querySelector('.sl-head[aria-busy=true]')"
#: Where none shows what is of another group, or of another moment than the one that was picked.
CURRENT = "!document.querySelector('.sharelag-waits, .sharelag-moves, .sharelag-follows')"
#: A question of our own is answered after all that was asked before, and what came with those answers
#: is in the views' models then. Twice: ipywidgets holds a change back while another one is on its way.
_ANSWERED = """async () => { const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
    await kernel.requestKernelInfo(); await kernel.requestKernelInfo(); }"""
SAVE = """async () => { await window.jupyterapp.commands.execute('docmanager:save'); }"""
_SESSION = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.id"
# On a busy machine, whose Spark has just started, it takes minutes.
_PATIENCE = 480_000


def settle(page: Page) -> None:
    """Wait until everything that was asked for is answered, shown and drawn.

    That the kernel is idle would not do: it still is right after a key was pressed, and what it does
    in a thread of its own goes on.
    """
    page.evaluate(_ANSWERED)
    page.wait_for_function(f"{READ} && {CURRENT}")
    let_paint(page)
    page.wait_for_function(DRAWN)


def go_to(page: Page, target: Locator, key: str = "Tab") -> None:
    """Press a key until the focus is on an element, from wherever it is, in a page that rests."""
    settle(page)
    for _ in range(80):
        if target.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press(key)
    at = page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
    raise AssertionError(f"{key} does not lead to {target}; the focus is on {at}")


@dataclass
class Ran:
    """A notebook after its run, still open."""

    name: str
    watched: Watched
    seconds: float
    saved: NotebookNode
    size: int

    @property
    def page(self) -> Page:
        return self.watched.page


@dataclass
class Running:
    """Runs a lab's notebooks in the order given: while one is checked, the next one runs."""

    lab: Lab
    browser: Browser
    names: Sequence[str]
    _open: dict[str, Watched] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)

    def finished(self, name: str) -> Ran:
        """A notebook after its run."""
        after = self.names[self.names.index(name) + 1 :]
        for one in (name, *after[:1]):
            if one not in self._begun:
                self._begun.add(one)
                self._open[one] = self._start(one)
        watched = self._open[name]
        page = watched.page
        page.set_default_timeout(_PATIENCE)
        page.wait_for_function("window.ran !== undefined", polling=NOW_AND_THEN)
        page.wait_for_function(f"{READ} && {SHOWN} && {DRAWN}", polling=NOW_AND_THEN)
        page.evaluate(SAVE)
        path = self.lab.folder / f"{name}.ipynb"
        return Ran(
            name, watched, page.evaluate("window.ran"), nbformat.read(path, 4), path.stat().st_size
        )

    def close(self, name: str) -> None:
        """End a notebook's kernel."""
        watched = self._open.pop(name)
        self.lab.end(watched.page.evaluate(_SESSION))
        watched.page.close()

    def _start(self, name: str) -> Watched:
        watched = Watched(self.browser)
        page = self.lab.open(watched, f"{name}.ipynb")
        page.evaluate(_RUN)
        return watched


def assert_whole(page: Page, notebook: NotebookNode) -> int:
    """Assert that a page shows all outputs of a notebook's cells, and that nothing failed.

    Returns: how many views of ours the notebook has.
    """
    assert complaints(notebook) == []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    # Ours say in HTML, too, what they show; a bar that shows how far Spark is does not.
    widgets = [
        output
        for cell in code
        for output in cell.outputs
        if {"application/vnd.jupyter.widget-view+json", "text/html"} <= set(output.get("data", {}))
    ]
    assert page.locator(".jp-OutputArea .sl").count() >= len(widgets)
    assert (empty_views(page), page.locator(".sl-failure:visible").count()) == ([], 0)
    return len(widgets)


def empty_views(page: Page) -> list[str]:
    """List views that take no space although visible, and widget outputs that did not show."""
    found: list[str] = page.eval_on_selector_all(
        ".sl",
        """views => views.filter(view => view.checkVisibility() && view.getBoundingClientRect().height < 20)
        .map(view => view.className)""",
    )
    broken = page.locator(".jp-OutputArea").get_by_text(
        re.compile("Error displaying widget|Loading widget")
    )
    return found + broken.all_inner_texts()
