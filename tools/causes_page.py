"""Write the table of causes of ``docs/commands.md`` from their declarations.

``python tools/causes_page.py`` writes it between the two marks of that page.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sharelag.metrics import causes
from tools.page import with_part

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
BEGIN, END = "<!-- causes: python tools/causes_page.py -->", "<!-- end of causes -->"


def table() -> str:
    """Return one row per cause, most severe first."""
    rows = [
        f"| `{one.name}` | {one.severity} | {one.summary} | {one.advice} |" for one in causes.CAUSES
    ]
    head = "| cause | severity | what is wrong | what to do |\n|---|---|---|---|"
    return "\n".join([head, *rows])


def page(text: str) -> str:
    """Return the page with its current table."""
    return with_part(text, BEGIN, END, table())


def main() -> int:
    """Update the page."""
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
