"""One Chromium for all tests of this folder, in which a test's pages end with the test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

# pytest finds fixtures here, and passes them by name.
from tests.support.browser.chromium import browser, pages_end  # noqa: F401
from tests.support.browser.desk import Desk, OpenDesk
from tests.support.browser.jupyter import Lab, jupyter_lab


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab over an empty folder; each module writes its notebook into it."""
    with jupyter_lab(tmp_path_factory.mktemp("notebooks")) as running:
        yield running


@pytest.fixture(autouse=True)
def _pages_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close the pages that a test has opened."""
    if "browser" not in request.fixturenames:
        yield
        return
    with pages_end(request.getfixturevalue("browser")):
        yield


@pytest.fixture
def open_desk(browser: Browser, tmp_path: Path) -> Iterator[OpenDesk]:  # noqa: F811
    """Open views in plain pages, from which nothing leaves the machine and nothing complains."""
    opened: list[Desk] = []

    def open_one(*views: Any, **settings: Any) -> Desk:
        opened.append(Desk(browser, tmp_path, *views, **settings))
        return opened[-1]

    yield open_one
    for one in opened:
        one.assert_quiet()
