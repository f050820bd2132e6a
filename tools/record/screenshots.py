"""Pictures of every notebook, dashboard, widget and report, light and dark: ``make screenshots``.

All are taken in a real JupyterLab after a real run on recorded data. They are reduced to a small
palette, since they show text and plain shapes, and are committed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from PIL import Image
from playwright.sync_api import Browser, Locator, Page

from sharelag.inputs.recorded import folder_of
from sharelag.reports import report
from tests.support.browser.chromium import running_browser
from tests.support.browser.jupyter import IDLE, Lab, change_theme, jupyter_lab
from tests.support.connect import QUICK, connect_server
from tests.support.notebooks.running import DRAWN, Running
from tests.support.notebooks.shipped import NAMES, ROOT, complaints, copy_of, read
from tools.record.gallery import CELLS, REPORT, WORDS, setup

DOCS = ROOT / "docs"
OUT = DOCS / "screenshots"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
GALLERY = "gallery"
WIDTH = 1180
#: The first picture of the README: the top of this dashboard on a wide page.
HERO, HERO_SIZE = "dashboard-now", {"width": 1700, "height": 1000}
#: Maximum height of Chromium's pictures.
HIGHEST = 16_000
COLOURS = 256
_ALONE = """() => { const { shell } = window.jupyterapp;
    shell.mode = 'single-document';
    shell.collapseLeft();
    const [style, hidden] = [document.createElement('style'), '{ visibility: hidden }'];
    style.textContent = `.jp-Toolbar-spacer, .jp-Cell .jp-Collapser, .jp-cell-toolbar ${hidden}`;
    document.head.append(style); }"""
_SETTLED = f"""dark => [...document.querySelectorAll('.sl')].every(
    view => (view.dataset.theme === 'dark') === dark) && {DRAWN}"""
_PAINTED = """() => new Promise(done => requestAnimationFrame(() =>
    requestAnimationFrame(() => setTimeout(done, 300))))"""
# A chart that is being redrawn is much taller than its frame.
_WHOLE = """() => [...document.querySelectorAll('.sl-chart .sl-stage')].every(
    stage => !stage.clientHeight || stage.scrollHeight <= 2 * stage.clientHeight)"""
# The notebook scrolls in a panel; the rest of the window has a constant height.
_HEIGHT = """() => { const panel = document.querySelector('.jp-WindowedPanel-outer');
    panel.scrollTop = 0;
    const cells = [...panel.querySelectorAll(".jp-Cell")];
    const lowest = Math.max(...cells.map(cell => cell.getBoundingClientRect().bottom));
    const top = panel.getBoundingClientRect().top;
    return Math.ceil(innerHeight - panel.clientHeight + lowest - top + 16); }"""
# Hide the frame of the active cell.
_UNPICKED = """() => document.querySelectorAll('.jp-mod-active, .jp-mod-selected').forEach(
    cell => cell.classList.remove('jp-mod-active', 'jp-mod-selected'))"""
_ONLY = """number => document.querySelectorAll('.jp-Notebook .jp-Cell').forEach((cell, n) => {
    cell.style.display = n === number ? '' : 'none'; })"""


def main(chosen: list[str]) -> int:
    """Take the pictures whose names contain one of the given words; all without any."""
    wanted = [
        name
        for name in (*NAMES, *CELLS, REPORT)
        if not chosen or any(word in name for word in chosen)
    ]
    OUT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="shots-") as scratch, running_browser() as browser:
        folder = Path(scratch) / "nb"
        folder.mkdir()
        names = [name for name in NAMES if name in wanted]
        for name in names:
            copy_of(name, folder)
        cells = [name for name in CELLS if name in wanted]
        _write_gallery(folder / f"{GALLERY}.ipynb", cells)
        with connect_server(settings=QUICK) as remote, jupyter_lab(folder, remote) as lab:
            _of_notebooks(lab, browser, names)
            if cells:
                _of_cells(lab, browser, cells)
        if REPORT in wanted:
            _of_report(browser, Path(scratch))
    (DOCS / "gallery.md").write_text(_gallery(), "utf-8")
    total = sum(path.stat().st_size for path in OUT.glob("*.png"))
    print(
        f"{len(list(OUT.glob('*.png')))} pictures in {OUT.relative_to(ROOT)}, {total / 1e6:.1f} MB"
    )
    return 0


def _of_notebooks(lab: Lab, browser: Browser, names: list[str]) -> None:
    running = Running(lab, browser, names)
    for name in names:
        page = _sound(running, name)
        for theme in _themes(page):
            _keep(page.locator(".jp-NotebookPanel-notebook"), f"{name}-{theme}")
        running.close(name)


def _of_cells(lab: Lab, browser: Browser, names: list[str]) -> None:
    running = Running(lab, browser, [GALLERY])
    page = _sound(running, GALLERY)
    for theme in _themes(page):
        for number, name in enumerate(names, start=1):
            page.evaluate(_ONLY, number)
            _fit(page)
            shown = (
                page.locator(".jp-Notebook .jp-Cell").nth(number).locator(".jp-OutputArea-output")
            )
            view = shown.locator(".sharelag-dashboard, .sl").first
            _keep(view, f"{name}-{theme}")
            if name == HERO:
                _keep_top(page, view, f"readme-{theme}")
    running.close(GALLERY)


def _sound(running: Running, name: str) -> Page:
    """Return the page of a notebook that ran without errors."""
    ran = running.finished(name)
    if said := [*complaints(ran.saved), *ran.watched.complaints]:
        raise RuntimeError(f"{name} does not run: {said}")
    ran.page.set_default_timeout(60_000)
    return ran.page


def _of_report(browser: Browser, folder: Path) -> None:
    made = report("daily", {"capture": str(folder_of("demo"))}, folder / "reports")
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme, viewport={"width": WIDTH, "height": 900})
        page.goto(made.html.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.set_viewport_size(
            {"width": WIDTH, "height": min(page.evaluate("document.body.scrollHeight"), HIGHEST)}
        )
        page.evaluate(_PAINTED)
        _keep(page.locator("body"), f"{REPORT}-{scheme}")
        page.close()


def _themes(page: Page) -> Iterator[str]:
    """Show a notebook alone and completely, in one theme after the other."""
    page.evaluate(_ALONE)
    for theme, title in THEMES.items():
        change_theme(page, title, _SETTLED, theme == "dark")
        page.wait_for_function(IDLE)
        page.mouse.move(0, 0)
        page.evaluate(_UNPICKED)
        _fit(page)
        yield theme


def _fit(page: Page) -> None:
    """Make the window as high as its contents, which grow when they become visible."""
    height = 0
    while height != (height := min(page.evaluate(_HEIGHT), HIGHEST)):
        page.set_viewport_size({"width": WIDTH, "height": height})
        page.evaluate(_PAINTED)
        page.wait_for_function(_WHOLE)


def _keep_top(page: Page, shown: Locator, name: str) -> None:
    """Keep the top of a picture, in which everything fits side by side."""
    page.set_viewport_size({"width": HERO_SIZE["width"], "height": 3000})
    page.evaluate(_PAINTED)
    page.wait_for_function(_WHOLE)
    _keep(shown, name, HERO_SIZE["height"])


def _keep(shown: Locator, name: str, highest: int = HIGHEST) -> None:
    taken = Image.open(io.BytesIO(shown.screenshot(animations="disabled"))).convert("RGB")
    taken = taken.crop((0, 0, taken.width, min(taken.height, highest)))
    path = OUT / f"{name}.png"
    taken.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(
        f"{path.relative_to(ROOT)}: {taken.width} x {taken.height}, "
        f"{path.stat().st_size / 1000:,.0f} kB",
        flush=True,
    )


def _write_gallery(path: Path, names: list[str]) -> None:
    code = [setup(), *(CELLS[name].strip() for name in names)]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in code]
    )
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(notebook, path)


def _gallery() -> str:
    """Return ``docs/gallery.md``: every picture with a caption."""
    parts = [
        "# What it looks like\n",
        "Made by `make screenshots`, of recorded data. In a dark theme you see dark ones.\n",
    ]
    for title, names in (
        ("Dashboards", [name for name in CELLS if name.startswith("dashboard")]),
        ("Widgets", [name for name in CELLS if name.startswith("widget")]),
        ("Reports", [REPORT]),
        ("Notebooks", NAMES),
    ):
        parts.append(f"## {title}\n")
        parts += [_entry(name) for name in names]
    return "\n".join(parts)


def _entry(name: str) -> str:
    words = WORDS.get(name) or _question(name)
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="screenshots/{name}-dark.png">'
    light = f'<img src="screenshots/{name}-light.png" alt="{name}" width="100%">'
    picture = f"<picture>{dark}{light}</picture>"
    if name not in NAMES:
        return f"{words}\n\n{picture}\n"
    link = f"[{name}](../notebooks/{name}.ipynb)"
    return f"{link}: {words}\n\n<details><summary>show</summary>\n\n{picture}\n\n</details>\n"


def _question(name: str) -> str:
    """Return the question of a notebook."""
    lines = read(name).cells[0].source.splitlines()
    return next(
        (line.strip("*") for line in lines if line.startswith("**") and line.endswith("**")),
        "begin here",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
