"""One Chromium for all tests of this folder; each test closes the pages that it opens."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browser.chromium import running_browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for as long as tests of this folder follow each other."""
    with running_browser(sharing=True) as running:
        yield running
