"""The notebooks are live pages under Voila: without code, and without foreign requests."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.desk import Watched, axe_violations
from tests.support.browser.jupyter import NOW_AND_THEN, free_port, jupyter_server, on_spark
from tests.support.notebooks.running import DRAWN, empty_views
from tests.support.notebooks.shipped import NAMES, ROOT, copy_of

ALIVE = "02_inside_a_window"
FAILS = "00_start_here"
#: The others, but for those that simulate for half a minute, or show next to no view.
OTHERS = [name for name in NAMES if name[:2] not in ("00", "02", "07", "08", "11")]
#: A kernel starts and a notebook runs, which takes minutes where the machine is busy.
PATIENCE = 480_000
#: A place that waits for its answer; none is left when all cells have run.
WAITS = ".voila-skeleton-container"
SHOWN = "document.querySelectorAll('.sl[data-loaded]').length >= 3"


@pytest.fixture(scope="module")
def voila(tmp_path_factory: pytest.TempPathFactory, remote: str) -> Iterator[str]:
    """Address of a Voila over the notebooks, started as `make pages` does."""
    folder, apart, port = (
        tmp_path_factory.mktemp("pages"),
        tmp_path_factory.mktemp("voila"),
        free_port(),
    )
    for name in (ALIVE, *OTHERS):
        copy_of(name, folder)
    copy_of(FAILS, folder, where="no/such/place")
    command = [
        "voila",
        str(folder),
        "--no-browser",
        f"--port={port}",
        "--Voila.ip=127.0.0.1",
        "--template=sharelag",
    ]
    # Our errors are a sentence, and a page is there before its answers are.
    command += ["--show_tracebacks=True", "--progressive_rendering=True"]
    url = f"http://127.0.0.1:{port}"
    with jupyter_server(
        command, {"JUPYTER_PATH": str(ROOT / "widgets")} | on_spark(remote), apart, apart, url
    ):
        yield url


def test_a_notebook_is_a_page_that_lives(voila: str, browser: Browser) -> None:
    watched = Watched(browser)
    page = watched.page
    page.set_default_timeout(PATIENCE)
    page.goto(f"{voila}/voila/render/{ALIVE}.ipynb?theme=dark")
    # The page is there, and says where answers will be, before a kernel has answered.
    page.wait_for_function(
        f"document.querySelector('h1')?.checkVisibility() && document.querySelector('{WAITS}')"
    )
    assert page.locator(".sl").count() == 0
    page.wait_for_function(SHOWN, polling=NOW_AND_THEN)
    expect(page.locator(WAITS)).to_have_count(0, timeout=PATIENCE)
    expect(page.locator("h1")).to_have_text("Inside a window¶")
    assert page.locator(".jp-InputArea-editor").count() == 0
    assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
    strip = page.locator(".sl-strip").first
    expect(strip).to_have_attribute("data-theme", "dark")
    before = strip.get_attribute("data-moment")
    strip.locator("input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    expect(strip).not_to_have_attribute("data-moment", before or "")
    page.locator(".sharelag-dashboard .sl-level-2[data-loaded]").wait_for()
    page.wait_for_function(DRAWN)
    assert empty_views(page) == []
    assert axe_violations(page, ".sl-strip") == []
    watched.assert_quiet()
    watched.context.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", OTHERS)
def test_every_notebook_is_a_page(name: str, voila: str, browser: Browser) -> None:
    watched = Watched(browser)
    page = watched.page
    page.set_default_timeout(PATIENCE)
    page.goto(f"{voila}/voila/render/{name}.ipynb")
    page.wait_for_function(SHOWN, polling=NOW_AND_THEN)
    expect(page.locator(WAITS)).to_have_count(0, timeout=PATIENCE)
    page.wait_for_function(
        "[...document.querySelectorAll('.sl')].every(view => view.dataset.loaded)"
    )
    page.wait_for_function(DRAWN)
    assert page.locator(".jp-InputArea-editor").count() == 0
    assert (
        page.locator(
            "[data-mime-type*='error'], [data-mime-type='application/vnd.jupyter.stderr']"
        ).count()
        == 0
    )
    assert page.locator(".sl-failure:visible").count() == 0
    assert empty_views(page) == []
    watched.assert_quiet()
    watched.context.close()


def test_a_failure_is_a_sentence_and_dark_where_the_system_is(voila: str, browser: Browser) -> None:
    watched = Watched(browser, color_scheme="dark")
    page = watched.page
    page.set_default_timeout(PATIENCE)
    page.goto(f"{voila}/voila/render/{FAILS}.ipynb")
    result = page.locator(
        "[data-mime-type='application/vnd.jupyter.stderr'], .jp-RenderedText[data-mime-type*='error']"
    )
    expect(result.first).to_have_text(
        re.compile(r"^\s*InputError: there is nothing at .no/such/place.: give a cluster"),
        timeout=PATIENCE,
    )
    # What follows fails for want of it, and is not shown.
    expect(page.locator(WAITS)).to_have_count(0, timeout=PATIENCE)
    expect(result.filter(visible=True)).to_have_count(1)
    body = page.locator("body")
    expect(body).to_have_attribute("data-jp-theme-light", "false")
    page.emulate_media(color_scheme="light")
    expect(body).to_have_attribute("data-jp-theme-light", "true")
    watched.context.close()
