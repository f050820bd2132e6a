"""The list of pages that Voila shows first, as `make pages` does."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.support.browser.desk import Watched, axe_violations
from tests.support.browser.jupyter import voila_over
from tests.support.notebooks.shipped import copy_of

_PAPER = "getComputedStyle(document.body).getPropertyValue('--jp-layout-color1').trim()"


def test_the_list_of_pages_is_as_dark_as_the_system(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    copy_of("00_start_here", folder)
    with voila_over(folder, tmp_path / "voila") as url:
        watched = Watched(browser)
        asked: list[str] = []
        watched.page.on("request", lambda request: asked.append(request.url))
        watched.page.goto(url)
        expect(watched.page.get_by_text("00_start_here.ipynb")).to_be_visible()
        assert (watched.outside, watched.page.evaluate(_PAPER)) == ([], "white")
        assert axe_violations(watched.page) == []
        watched.page.emulate_media(color_scheme="dark")  # it is as dark as the system
        assert watched.page.evaluate(_PAPER) != "white"
        assert axe_violations(watched.page) == []
        missing = watched.page.goto(f"{url}/voila/render/no-such-page.ipynb")
        assert missing is not None
        assert not missing.ok
        assert len(asked) > 2
        assert watched.outside == []
        watched.page.close()
