"""Write the tables of ``docs/errors.md``: Kafka's errors, their meanings, and what to do.

``python -m tools.errors_page`` writes them between the two marks of that page, from
`sharelag.model.kafka_errors`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sharelag.model.kafka_errors import ANSWERS, ERRORS, Kind
from tools.page import with_part

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
BEGIN, END = "<!-- tables: python -m tools.errors_page -->", "<!-- end of tables -->"


def tables() -> str:
    """Return the generated part of the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for kind in Kind:
        yield from (f"## {kind.value}", "", "| error | means | what to do |", "|---|---|---|")
        for error in ERRORS.values():
            if error.kind is kind:
                advice = error.what_to_do().replace("|", "\\|")
                yield f"| `{error.name}` ({error.code}) | {error.meaning} | {advice} |"
        yield ""
    yield from ("## Which request is answered with which", "", "| request | errors |", "|---|---|")
    for api, names in ANSWERS.items():
        yield f"| `{api}` | {', '.join(f'`{name}`' for name in sorted(names))} |"
    yield ""


def written(page: str) -> str:
    """Return the page with its current tables."""
    return with_part(page, BEGIN, END, tables())


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
