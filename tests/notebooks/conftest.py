"""One Chromium for all tests of this folder; each test closes the pages that it opens."""

# pytest finds fixtures here.
from tests.support.browser.chromium import browser  # noqa: F401
