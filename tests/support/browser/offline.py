"""A page of a file on disk, opened with the network off."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.support.browser.chromium import open_page


class OfflinePage:
    """A page with the network off that records foreign requests and complaints."""

    def __init__(self, browser: Browser, path: Path, **settings: Any) -> None:
        self.page: Page = open_page(browser, offline=True, **settings)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.goto(path.as_uri())
