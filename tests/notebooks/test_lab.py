"""Every notebook runs in JupyterLab unchanged and without errors; its outputs stay small."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.browser.jupyter import IDLE, Lab, jupyter_lab
from tests.support.notebooks.running import SAVE, Ran, Running, assert_whole
from tests.support.notebooks.shipped import NAMES, copy_of, read

# In a usual run test_opening.py looks at the first notebook, tests/browser at names that would like
# to be more than text, and tests/spark/test_notebooks.py runs the code of all, without a page.
pytestmark = pytest.mark.exhaustive
#: It stays open after its run, to be saved, closed and opened again.
OPENED_AGAIN = "02_inside_a_window"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, remote: str) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("nb")
    for name in NAMES:
        copy_of(name, folder)
    with jupyter_lab(folder, remote) as running:
        yield running


@pytest.fixture(scope="module")
def running(lab: Lab, browser: Browser, request: pytest.FixtureRequest) -> Running:
    notebooks = {notebook: None for item in request.session.items if (notebook := _notebook(item))}
    return Running(lab, browser, list(notebooks))


@pytest.fixture
def ran(running: Running, name: str) -> Iterator[Ran]:
    yield running.finished(name)
    if name != OPENED_AGAIN:
        running.close(name)


def _notebook(item: pytest.Item) -> str | None:
    """Which notebook a test needs to have been run, if it needs one that stays as it is."""
    function = getattr(item, "originalname", "")
    if isinstance(item, pytest.Function) and function == test_it_runs_as_it_is.__name__:
        return str(item.callspec.params["name"])
    again = test_what_was_looked_at_is_there_again_after_a_reload.__name__
    return OPENED_AGAIN if function == again else None


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_as_it_is(ran: Ran) -> None:
    print(f"{ran.name}: {ran.seconds:.1f} s, {ran.size / 1000:,.0f} kB")
    assert assert_whole(ran.page, ran.saved) or ran.name[:2] in ("08", "11")
    found = [cell.source for cell in ran.saved.cells]
    assert found == [cell.source for cell in read(ran.name).cells]
    assert ran.size < 1_000_000
    ran.watched.assert_quiet()


def test_what_was_looked_at_is_there_again_after_a_reload(lab: Lab, running: Running) -> None:
    ran = running.finished(OPENED_AGAIN)
    page, strip = ran.page, ran.page.locator(".jp-Cell .sl-strip").first
    moment = str(int(strip.get_attribute("data-moment") or 0) - 3)
    strip.locator("input[type=range]").focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(strip).to_have_attribute("data-moment", moment)
    counts = strip.get_attribute("data-counts") or ""
    strip.locator("canvas[role=slider]").focus()
    for key in ("Home", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    picked = strip.locator(".sl-spot")
    expect(picked).to_contain_text(re.compile(r"picked \d[\d\s]*? to \d"))
    words = picked.inner_text()
    page.wait_for_function(IDLE)
    page.evaluate(SAVE)
    ran.watched.complaints.clear()
    lab.open(ran.watched, f"{OPENED_AGAIN}.ipynb")
    page.wait_for_function("document.querySelectorAll('.sl-strip[data-loaded]').length >= 2")
    expect(strip).to_have_attribute("data-moment", moment)
    expect(strip).to_have_attribute("data-counts", counts)
    expect(picked).to_have_text(words)
    ran.watched.assert_quiet()
    running.close(OPENED_AGAIN)
