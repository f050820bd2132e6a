"""Write the tables of ``docs/frames.md``: each frame's columns, types, units and meanings.

``python tools/frames_page.py`` writes them between the two marks of that page. Types come from the
schemas, what one row is from `sharelag.pipeline.tables`, units and meanings from
`sharelag.tables.columns`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from sharelag import schemas
from sharelag.pipeline.tables import TABLES
from sharelag.tables.columns import meaning_of, unit_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "frames.md"
BEGIN, END = "<!-- tables: python tools/frames_page.py -->", "<!-- end of tables -->"


def columns() -> Iterator[tuple[str, str, str, str, str]]:
    """Table, column, Spark's type, unit and meaning of each column of each frame."""
    for table, (schema, _) in TABLES.items():
        for field, spark in zip(schema, schemas.spark_schema(schema).fields, strict=True):
            yield (
                table,
                field.name,
                spark.dataType.simpleString(),
                unit_of(field.name),
                meaning_of(field.name, table),
            )


def tables() -> str:
    """The part of the page that is made."""
    parts: list[str] = []
    for name, (_, row) in TABLES.items():
        rows = [
            f"| `{column}` | {kind} | {unit} | {text} |"
            for table, column, kind, unit, text in columns()
            if table == name
        ]
        parts.append("\n".join([f"### {name}", "", f"One row is {row}.", "", _HEAD, *rows]))
    return "\n\n".join(parts)


_HEAD = "| column | type | unit | meaning |\n|---|---|---|---|"


def page(text: str) -> str:
    """The page with its tables as they have to be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main() -> int:
    """Bring the page up to date."""
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
