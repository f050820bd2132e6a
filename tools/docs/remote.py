"""Resources that a browser would load from a network when it shows a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_LOADS = {"script", "img", "iframe", "source", "audio", "video", "embed", "track", "input"}
_ELSEWHERE = re.compile(r"\s*(https?:)?//")
_IN_STYLES = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        loaded = [given.get("src", ""), given.get("srcset", "")] if tag in _LOADS else []
        if tag == "link" and given.get("rel") != "canonical":
            loaded.append(given.get("href", ""))
        self.found += [one for one in loaded if _ELSEWHERE.match(one)]
        self.found += _IN_STYLES.findall(given.get("style", ""))


def remote_resources(site: Path) -> Iterator[str]:
    """Yield pages and style sheets of a built site with the addresses that they load."""
    for path in sorted(site.glob("**/*.html")):
        page = _Page()
        text = path.read_text("utf-8")
        page.feed(text)
        found = page.found + _IN_STYLES.findall(
            "".join(re.findall(r"<style.*?</style>", text, re.S))
        )
        yield from (f"{path.relative_to(site)}: {one}" for one in found)
    for path in sorted(site.glob("**/*.css")):
        for one in _IN_STYLES.findall(path.read_text("utf-8")):
            yield f"{path.relative_to(site)}: {one}"
