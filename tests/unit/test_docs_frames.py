"""The page of the tables has every column with its type and meaning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sharelag.engine.spark.tables import TABLES
from sharelag.schemas import spark_schema
from tools import frames_page

PAGE = frames_page.PAGE.read_text("utf-8")
ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]*) \| ([^|]+) \|$", re.MULTILINE)


def result(table: str) -> list[tuple[str, str]]:
    """Columns and types of one table, as the page has them, each with a meaning."""
    section = PAGE.partition(f"\n### {table}\n")[2].partition("\n### ")[0]
    return [(name, kind) for name, kind, _, meaning in _ROW.findall(section) if meaning.strip()]


@pytest.mark.parametrize("table", TABLES)
def test_the_page_has_every_column(table: str) -> None:
    fields = spark_schema(TABLES[table].schema).fields
    assert result(table) == [(field.name, field.dataType.simpleString()) for field in fields]
    assert f"One row is {TABLES[table].row}." in PAGE


def test_the_page_is_up_to_date() -> None:
    assert frames_page.page(PAGE) == PAGE, "run `python tools/frames_page.py`"


@pytest.mark.parametrize("place", ["README.md", "docs/README.md"])
def test_it_is_found(place: str) -> None:
    assert "frames.md" in (ROOT / place).read_text("utf-8")
