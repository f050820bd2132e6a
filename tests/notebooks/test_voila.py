"""The notebooks are live pages under Voila: without code, and without foreign requests."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.desk import Watched, axe_violations
from tests.support.browser.jupyter import NOW_AND_THEN, voila_over
from tests.support.notebooks.running import DRAWN, empty_views
from tests.support.notebooks.shipped import NAMES, copy_of, read

ALIVE = "02_inside_a_window"
FAILS = "00_start_here"
#: All on Spark, but for the one that fails, and those that simulate for half a minute, or show next
#: to no view.
OTHERS = [name for name in NAMES if name[:2] not in ("00", "07", "08", "11")]
#: A kernel starts and a notebook runs, which takes minutes where the machine is busy.
PATIENCE = 480_000
#: A place that waits for its answer; none is left when all cells have run.
WAITS = ".voila-skeleton-container"
SHOWN = "document.querySelectorAll('.sl[data-loaded]').length >= 3"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the notebooks."""
    folder = tmp_path_factory.mktemp("pages")
    for name in OTHERS:
        copy_of(name, folder)
    # What Voila makes of it is the same, and Spark would take ten seconds.
    (folder / "alive").mkdir()
    copy_of(ALIVE, folder / "alive", engine="local")
    copy_of(FAILS, folder, where="no/such/place")
    return folder


@pytest.fixture(scope="module")
def voila(tmp_path_factory: pytest.TempPathFactory, pages: Path, remote: str) -> Iterator[str]:
    """Address of a Voila over them."""
    with voila_over(pages, tmp_path_factory.mktemp("voila"), remote) as url:
        yield url


@pytest.mark.exhaustive
def test_a_notebook_is_a_page_that_lives(voila: str, browser: Browser) -> None:
    watched = Watched(browser)
    page = watched.page
    page.set_default_timeout(PATIENCE)
    page.goto(f"{voila}/voila/render/alive/{ALIVE}.ipynb?theme=dark")
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
    # Above a bar that stays in sight, nothing else is.
    expect(page.locator("#rendered_cells")).to_have_css("padding-top", "0px")
    page.set_viewport_size({"width": 768, "height": 900})
    # The charts still count as drawn: each follows the page's width some frames later.
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    page.wait_for_function(DRAWN)
    assert axe_violations(page) == []
    watched.assert_quiet()
    watched.page.close()


@pytest.mark.exhaustive
def test_a_page_waits_for_cells_of_minutes(voila: str, pages: Path, browser: Browser) -> None:
    """Voila reads no answer to its pings while it runs cells, and by itself gives up after 90 s."""
    cells = ["import time\ntime.sleep(130)\nprint('the first')", "print('the second')"]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    made.metadata = read(ALIVE).metadata
    nbformat.write(made, pages / "long.ipynb")
    watched = Watched(browser)
    watched.page.goto(f"{voila}/voila/render/long.ipynb")
    expect(watched.page.get_by_text("the second")).to_be_visible(timeout=PATIENCE)
    watched.assert_quiet()
    watched.page.close()


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
    watched.page.close()


@pytest.mark.exhaustive
def test_a_failure_is_a_sentence_and_dark_where_the_system_is(voila: str, browser: Browser) -> None:
    watched = Watched(browser, color_scheme="dark")
    page = watched.page
    page.set_default_timeout(PATIENCE)
    page.goto(f"{voila}/voila/render/{FAILS}.ipynb")
    result = page.locator(
        "[data-mime-type='application/vnd.jupyter.stderr'], "
        ".jp-RenderedText[data-mime-type*='error']"
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
    assert watched.outside == []
    watched.page.close()
