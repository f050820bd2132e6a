"""Write the tables of ``docs/frames.md``: each frame's columns, types, units and meanings.

``python tools/frames_page.py`` writes them between the two marks of that page, as
`sharelag.tables.declared` declares them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from sharelag.engine.spark.reading import TABLES
from sharelag.schemas import spark_schema
from sharelag.tables.table import Table
from tools.page import with_part

PAGE = Path(__file__).resolve().parent.parent / "docs" / "frames.md"
BEGIN, END = "<!-- tables: python tools/frames_page.py -->", "<!-- end of tables -->"
_HEAD = "| column | type | unit | meaning |\n|---|---|---|---|"


def section(table: Table) -> Iterator[str]:
    """Yield the lines of one table."""
    yield f"### {table.name}\n\nOne row is {table.row}.\n\n{_HEAD}"
    for column, spark in zip(table.columns, spark_schema(table.schema).fields, strict=True):
        kind = spark.dataType.simpleString()
        yield f"| `{column.name}` | {kind} | {column.format.unit} | {column.meaning} |"


def page(text: str) -> str:
    """Return the page with its current tables."""
    made = "\n\n".join("\n".join(section(table)) for table in TABLES.values())
    return with_part(text, BEGIN, END, made)


def main() -> int:
    """Update the page."""
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
