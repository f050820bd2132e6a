"""Find Chromium, which ``python -m tests.support.browser.chromium`` installs if it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

#: Headless, and silent towards the network: a test fails on any request that leaves the machine.
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-quic", "--no-first-run"),
    *("--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
]
#: Pages of a context share a process where they are of one site: what it has compiled of plotly or
#: of JupyterLab serves the next one, too. A page with a chart takes 0.8 CPU seconds instead of 1.8.
_SHARING = "--process-per-site"
#: The site of pages from files: any of them.
_A_FILE = Path(__file__).as_uri()
_COLOURS = ("color_scheme", "forced_colors")
#: Contexts by their settings, which pages of a browser share.
_SHARED: dict[Browser, dict[str, BrowserContext]] = {}
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def find_chromium() -> str:
    """Path of the browser: ``$CHROMIUM``, or the first of the usual names on the PATH."""
    found = os.environ.get("CHROMIUM") or next(
        (path for name in _NAMES if (path := shutil.which(name))), None
    )
    if not found:
        raise FileNotFoundError(
            "no Chromium on this machine: run `make test`, or set CHROMIUM to its path"
        )
    return found


@contextmanager
def running_browser(sharing: bool = False) -> Iterator[Browser]:
    """Run one Chromium, which waits long for what is expected: a busy machine takes its time.

    ``sharing``: pages of one context and site share a process; by default each has its own, as for
    people and in what is measured.
    """
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=find_chromium(), args=[*FLAGS, *([_SHARING] if sharing else [])]
        )
        yield running
        _SHARED.pop(running, None)
        running.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for as long as tests of this folder follow each other."""
    with running_browser(sharing=True) as running:
        yield running


def open_page(browser: Browser, alone: bool = False, site: str = _A_FILE, **settings: Any) -> Page:
    """Open a page in the context of these settings and this site, which is made once.

    A page whose clock a test sets must be ``alone``: Playwright's clock is that of the context. Its
    size and colours each page is told by itself, so they need no context of their own.

    A small page takes 0.4 CPU seconds in a context that is there, and 1.1 in one of its own. The
    first page of a context stays, so that the context and the site's process last until the browser
    ends.
    """
    size = settings.pop("viewport", None)
    colours = {name: settings.pop(name) for name in _COLOURS if name in settings}
    page = (_context(browser, settings) if alone else _shared(browser, site, settings)).new_page()
    if size:
        page.set_viewport_size(size)
    if colours:
        page.emulate_media(**colours)
    return page


def _shared(browser: Browser, site: str, settings: dict[str, Any]) -> BrowserContext:
    """Return the context of these settings, with a page of the site."""
    key, contexts = repr((site, sorted(settings.items()))), _SHARED.setdefault(browser, {})

    def forget(_: BrowserContext) -> None:
        contexts.pop(key, None)

    if key not in contexts:
        made = contexts[key] = _context(browser, settings)
        made.on("close", forget)
        made.new_page().goto(site)
    return contexts[key]


def _context(browser: Browser, settings: dict[str, Any]) -> BrowserContext:
    """Make a context whose pages may be slow: they share the processors with brokers and Spark."""
    made = browser.new_context(**settings)
    made.set_default_timeout(120_000)
    return made


@contextmanager
def pages_end(browser: Browser) -> Iterator[None]:
    """Close what is opened meanwhile: pages that live on take a processor from the next ones."""
    before = {page for context in browser.contexts for page in context.pages}
    yield
    shared = list(_SHARED.get(browser, {}).values())
    for context in browser.contexts:
        for page in context.pages[1 if context in shared else 0 :]:
            if page not in before:
                page.close()
        if not context.pages:
            context.close()


def main() -> int:
    try:
        find_chromium()
    except FileNotFoundError:
        if not shutil.which("apt-get") or os.geteuid() != 0:
            print(
                "the browser tests need Chromium, which only root can install here (Debian): "
                "install it "
                "(apt install chromium), or set CHROMIUM to the path of one",
                file=sys.stderr,
            )
            return 1
        print("installing chromium ...", flush=True)
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "chromium"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
