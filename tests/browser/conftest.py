"""One Chromium for all tests of this folder, in which a test's pages end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browser.chromium import running_browser
from tests.support.browser.jupyter import Lab, jupyter_lab


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for as long as tests of this folder follow each other."""
    with running_browser() as running:
        yield running


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One JupyterLab over an empty folder; each module writes its notebook into it."""
    with jupyter_lab(tmp_path_factory.mktemp("notebooks")) as running:
        yield running


@pytest.fixture(autouse=True)
def _pages_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close what a test has opened: pages that live on take a processor from the next ones."""
    if "browser" not in request.fixturenames:
        yield
        return
    running: Browser = request.getfixturevalue("browser")
    before = set(running.contexts)
    yield
    for context in running.contexts:
        if context not in before:
            context.close()
