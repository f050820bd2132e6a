"""A generated part of a documentation page, between two marks."""

from __future__ import annotations


def with_part(page: str, begin: str, end: str, made: str) -> str:
    """Return a page with the generated part between the marks."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{made.strip()}\n\n{end}{after}"
