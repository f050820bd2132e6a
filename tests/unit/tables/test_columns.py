"""Each column is defined once; everything shown has a heading and a meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharelag.tables import report_views, views
from sharelag.tables.declared import format_of, heading_of, meaning_of, unit_of
from sharelag.tables.table import COLUMNS, Format, Table, View, declare
from tools.docs.reference import tables

ROOT = Path(__file__).parents[3]
VIEWS = {
    f"{room.__name__}.{name}": one
    for room in (views, report_views)
    for name, one in vars(room).items()
    if isinstance(one, View)
}
#: Kafka's own headings, which are read and not shown.
_OTHERS = {"sharelag/cli/grouped.py", "sharelag/inputs/kafka/described.py"}


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_shown_has_a_heading_and_a_meaning(name: str) -> None:
    shown = VIEWS[name]
    assert set(shown.names) <= set(COLUMNS)
    assert len(shown.columns) == len(shown.names), "two columns have the same heading"
    assert all(heading and shown.means[column] for heading, column in shown.columns.items())
    assert set(shown.headings) <= set(shown.names)
    assert set(shown.meanings) <= set(shown.names)


@pytest.mark.parametrize("table", tables().values(), ids=list(tables()))
def test_tables_say_only_what_is_their_own(table: Table) -> None:
    assert table.row
    for column in table.columns:
        common = COLUMNS[column.name]
        assert column.meaning
        assert (column.format, column.heading) == (common.format, common.heading)
    assert set(table.view.meanings) <= set(table.view.names)


def test_no_column_is_declared_twice() -> None:
    with pytest.raises(ValueError, match="column lag is declared twice"):
        declare(COLUMNS["lag"])


def _second_definitions(path: Path) -> Iterator[int]:
    """Lines of dictionaries from headings to columns, or from columns to meanings."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Dict):
            continue
        pairs = [
            (key.value, value.value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
        ]
        headings = [key for key, value in pairs if value in COLUMNS and _is_heading(key)]
        meanings = [key for key, value in pairs if key in COLUMNS and _is_sentence(str(value))]
        if len(headings) > 2 or len(meanings) > 2:
            yield node.lineno


def _is_sentence(text: str) -> bool:
    return len(text.split()) > 2 and "{" not in text


def _is_heading(text: object) -> bool:
    return isinstance(text, str) and text not in COLUMNS and text[:1].isupper()


def test_there_is_no_second_definition() -> None:
    files = [
        path
        for folder in ("sharelag", "widgets", "tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (ROOT / "sharelag" / "tables") not in path.parents
    ]
    found = {
        f"{name}:{line}"
        for path in files
        if (name := path.relative_to(ROOT).as_posix()) not in _OTHERS
        for line in _second_definitions(path)
    }
    assert not found


def test_the_first_columns_are_those_of_kafkas_command() -> None:
    headings = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
    assert list(views.LAG.columns)[:6] == headings


def test_units_follow_formats() -> None:
    assert (unit_of("age_ms"), unit_of("lag"), unit_of("end_offset")) == ("ms", "offsets", "offset")
    assert (unit_of("arrival_rate"), unit_of("as_of"), unit_of("bytes")) == ("1/s", "UTC", "bytes")
    assert unit_of("group_id") == ""


def test_columns_that_nobody_declared_are_read_by_their_names() -> None:
    assert heading_of("of_somebody_else") == "OF-SOMEBODY-ELSE"
    assert format_of("of_somebody_else") is None
    assert format_of("some_ms") is Format.DURATION
    assert meaning_of("of_somebody_else") == ""
