"""Are the same notebooks pages under Voila: without code, alive, and without a request to anybody else?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import Watched, axe_violations, browser, free_port, jupyter_server  # noqa: F401
from tests.notebooks.running import empty_views
from tests.notebooks.shipped import FOLDER, ROOT

SHOWN = "document.querySelectorAll('.sl[data-loaded]').length >= 3"


@pytest.fixture(scope="module")
def voila(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Voila over the notebooks, started as `make pages` does."""
    apart, port = tmp_path_factory.mktemp("voila"), free_port()
    command = ["voila", str(FOLDER), "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1", "--template=sharelag"]
    url = f"http://127.0.0.1:{port}"
    with jupyter_server(command, {"JUPYTER_PATH": str(ROOT / "widgets")}, apart, apart, url):
        yield url


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
