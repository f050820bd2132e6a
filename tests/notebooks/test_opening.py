"""`make lab`: one's own copies of the notebooks, of which the first has live answers already."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.desk import Watched
from tests.support.browser.jupyter import IDLE, NOW_AND_THEN, on_spark, show_all_cells
from tests.support.notebooks.running import DRAWN, READ, SHOWN, assert_whole
from tools import lab


def written(path: Path, *cells: str) -> None:
    path.parent.mkdir(exist_ok=True)
    markdown, *code = cells
    made = [nbformat.v4.new_markdown_cell(markdown), *map(nbformat.v4.new_code_cell, code)]
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)


def test_a_copy_follows_its_notebook_until_somebody_edits_it(tmp_path: Path) -> None:
    shipped, mine = tmp_path / "notebooks", tmp_path / "out" / "lab"
    for name in ("00_a.ipynb", "01_b.ipynb"):
        written(shipped / name, "See [b](01_b.ipynb) and [docs](../docs/x.md#y)", "1 + 1")
    assert lab.copies(mine, shipped) == set()
    first = nbformat.read(mine / "00_a.ipynb", as_version=4)
    assert first.cells[0].source == "See [b](01_b.ipynb) and [docs](../../docs/x.md#y)"
    first.cells[1].outputs = [nbformat.v4.new_output("stream", text="2")]  # it was run
    nbformat.write(first, mine / "00_a.ipynb")
    assert lab.copies(mine, shipped) == set()
    assert nbformat.read(mine / "00_a.ipynb", as_version=4).cells[1].outputs
    second = nbformat.read(mine / "01_b.ipynb", as_version=4)
    second.cells[1].source = "my_own()"
    nbformat.write(second, mine / "01_b.ipynb")
    for name in ("00_a.ipynb", "01_b.ipynb"):
        written(shipped / name, "A newer text", "2 + 2")
    assert lab.copies(mine, shipped) == {"01_b.ipynb"}
    texts = [nbformat.read(mine / name, 4).cells[1].source for name in ("00_a.ipynb", "01_b.ipynb")]
    assert texts == ["2 + 2", "my_own()"]


def test_a_server_that_does_not_end_is_killed() -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"\n"
        lab.end(server, grace=0.5)
        assert server.returncode == -signal.SIGKILL


def test_a_server_that_has_ended_is_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as server:
        server.wait()
        lab.end(server)
        assert server.returncode == 0


@pytest.mark.exhaustive
def test_the_first_notebook_opens_with_answers_and_its_dashboard_works(
    tmp_path: Path, remote: str, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path / "workspaces"))
    monkeypatch.setenv("PYTHONPATH", f"{lab.ROOT}:{lab.ROOT / 'widgets'}")
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    for name, value in on_spark(remote).items():
        monkeypatch.setenv(name, value)
    show_all_cells(tmp_path / "settings")
    monkeypatch.setenv("JUPYTERLAB_SETTINGS_DIR", str(tmp_path / "settings"))
    folder = tmp_path / "lab"
    assert lab.copies(folder) == set()
    with lab.started(tmp_path, "--allow-root", "--ServerApp.ip=127.0.0.1") as server:
        with ThreadPoolExecutor(1) as aside:  # the browser's client has this thread's event loop
            assert aside.submit(lab.run, server, folder / lab.FIRST).result() is None
        notebook = nbformat.read(folder / lab.FIRST, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
        assert all(cell.outputs for cell in code[1:])
        assert (folder / lab.FIRST).stat().st_size < 1_000_000
        watched = Watched(browser)
        page = watched.page
        url = server.url.replace("localhost", "127.0.0.1")
        page.goto(f"{url}lab/tree/{server.place(folder / lab.FIRST)}?token={server.token}")
        worst = page.get_by_role("button", name="Show the worst")
        worst.scroll_into_view_if_needed()
        page.wait_for_function(f"{READ} && {SHOWN} && {DRAWN}", polling=NOW_AND_THEN)
        page.wait_for_function(IDLE, polling=NOW_AND_THEN)
        assert assert_whole(page, notebook) == 3  # a dashboard, a chart, a strip
        picked = page.locator("tr[aria-selected=true]").first
        expect(picked).to_contain_text("returns-desk")  # what the verdict is about
        picked.locator("xpath=following-sibling::tr").first.click()
        expect(picked).to_contain_text("search-index")
        page.wait_for_function(IDLE, polling=NOW_AND_THEN)
        worst.click()  # the kernel that has run it answers
        expect(picked).to_contain_text("returns-desk")
        # No question of JupyterLab about its news lies over the first dashboard.
        settings = "/lab/api/settings/@jupyterlab/apputils-extension:notification"
        asked = page.evaluate("async url => (await fetch(url)).json()", settings)
        assert asked["schema"]["properties"]["fetchNews"]["default"] == "false"
        watched.assert_quiet()
        page.close()
