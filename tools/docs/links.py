"""Links between files of the repository, rewritten to links between pages of the site."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_PICTURE = re.compile(r'<picture>.*?srcset="([^"]+)".*?src="([^"]+)" alt="([^"]+)".*?</picture>')
_CODE = re.compile(r"(^```.*?^```$|^(?:(?: {4}|\t).*\n)+)", re.MULTILINE | re.DOTALL)


class BrokenLinkError(Exception):
    """A page links to a file that is not in the repository."""


def rewrite(text: str, source: PurePosixPath, target: str, pages: Mapping[str, str]) -> str:
    """Rewrite a page's links for its place on the site.

    Parameters
    ----------
    text : str
        Markdown.
    source : pathlib.PurePosixPath
        Path of the page in the repository.
    target : str
        Path of the page on the site.
    pages : mapping of str to str
        Paths on the site by paths in the repository. Links to other files of the repository become
        text.
    """

    def place(link: str) -> str | None:
        path, _, anchor = link.partition("#")
        wanted = os.path.normpath(source.parent / path)
        if wanted in pages:
            found = os.path.relpath(pages[wanted], PurePosixPath(target).parent)
            return found + (f"#{anchor}" if anchor else "")
        if not Path(wanted).exists():
            raise BrokenLinkError(f"{source} links to {link}, which does not exist")
        return None

    def link(found: re.Match[str]) -> str:
        mark, words, address = found.groups()
        if "://" in address or address.startswith(("#", "mailto:")):
            return found[0]
        there = place(address)
        if there is None:
            return f"{words} (`{os.path.normpath(source.parent / address)}`)"
        return f"{mark}[{words}]({there})"

    def picture(found: re.Match[str]) -> str:
        dark, light, about = found.groups()
        return f"![{about}]({light}#only-light)\n![{about}]({dark}#only-dark)"

    parts = _CODE.split(_PICTURE.sub(picture, text))
    return "".join(part if i % 2 else _LINK.sub(link, part) for i, part in enumerate(parts))
