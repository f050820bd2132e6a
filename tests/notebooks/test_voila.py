"""Are the same notebooks pages under Voila: without code, alive, and without a request to anybody else?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import Watched, _free_port, _wait_for, axe_violations, browser  # noqa: F401
from tests.notebooks.running import empty_views
from tests.notebooks.shipped import FOLDER, ROOT

SHOWN = "document.querySelectorAll('.sl[data-loaded]').length >= 3"


@pytest.fixture(scope="module")
def voila(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Voila over the notebooks, started as `make pages` does."""
    apart = tmp_path_factory.mktemp("v")  # short: a kernel's sockets lie below
    env = os.environ | {f"JUPYTER_{name}_DIR": str(apart / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    env |= {"IPYTHONDIR": str(apart / "ipython"), "JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    env |= {"JUPYTER_PATH": str(ROOT / "widgets"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    port, log = _free_port(), apart / "voila.log"
    command = [str(Path(sys.executable).parent / "voila"), str(FOLDER), "--no-browser", f"--port={port}"]
    command += ["--Voila.ip=127.0.0.1", "--template=sharelag"]
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, env=env, cwd=apart, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_notebook_is_a_page_that_lives(theme: str, voila: str, browser: Browser) -> None:  # noqa: F811
    watched = Watched(browser)
    page = watched.page
    page.set_default_timeout(120_000)
    page.goto(f"{voila}/voila/render/02_inside_a_window.ipynb?theme={theme}")
    page.wait_for_function(SHOWN)
    expect(page.locator("h1")).to_have_text("Inside a window¶")
    assert page.locator(".jp-InputArea-editor").count() == 0
    assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    strip = page.locator(".sl-strip").first
    expect(strip).to_have_attribute("data-theme", theme)
    before = strip.get_attribute("data-moment")
    strip.locator("input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(strip).not_to_have_attribute("data-moment", before or "")
    page.locator(".sharelag-dashboard .sl-level-2[data-loaded]").wait_for()
    page.wait_for_function("[...document.querySelectorAll('.sl-chart')].every(view => view.dataset.drawn)")
    assert empty_views(page) == []
    assert axe_violations(page, ".sl-strip") == []
    watched.assert_quiet()
    watched.context.close()
