"""One Chromium for all tests of this folder; each test closes the pages that it opens."""

from tests.support.browser.chromium import browser  # noqa: F401
