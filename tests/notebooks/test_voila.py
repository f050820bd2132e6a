"""Are the same notebooks pages under Voila: without code, alive, and without a request to anybody else?"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.desk import Watched, axe_violations
from tests.browser.jupyter import free_port, jupyter_server
from tests.notebooks.running import empty_views
from tests.notebooks.shipped import ROOT, copy_of

SHOWN = "document.querySelectorAll('.sl[data-loaded]').length >= 3"


@pytest.fixture(scope="module")
def voila(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Voila over the notebooks, started as `make pages` does."""
    folder, apart, port = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("voila"), free_port()
    copy_of("02_inside_a_window", folder)
    copy_of("00_start_here", folder, where="no/such/place")
    command = ["voila", str(folder), "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1", "--template=sharelag"]
    command += ["--show_tracebacks=True"]  # our errors are a sentence
    url = f"http://127.0.0.1:{port}"
    with jupyter_server(command, {"JUPYTER_PATH": str(ROOT / "widgets")}, apart, apart, url):
        yield url


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_notebook_is_a_page_that_lives(theme: str, voila: str, browser: Browser) -> None:
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


def test_a_failure_is_a_sentence_with_what_to_do(voila: str, browser: Browser) -> None:
    watched = Watched(browser)
    page = watched.page
    page.set_default_timeout(120_000)
    page.goto(f"{voila}/voila/render/00_start_here.ipynb")
    told = page.locator("[data-mime-type='application/vnd.jupyter.stderr'], .jp-RenderedText[data-mime-type*='error']")
    expect(told.first).to_have_text(
        re.compile(r"^\s*InputError: there is nothing at .no/such/place.: give a cluster"), timeout=120_000
    )
    watched.context.close()
