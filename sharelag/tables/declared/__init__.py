"""Declarations of all tables and columns: type, unit, heading, meaning, and default views.

They define Arrow's and Spark's schemas, ``docs/frames.md``, the JSON Schemas, and the texts of
tables on terminals and pages. A column means the same in every table, unless a table has its `Own`.
Nulls mean *unknown* (or *not part of this kind of record*), never zero. Offsets called ``end`` are
exclusive. All timestamps are UTC milliseconds, as Kafka's are. Values of undeclared names are
formatted by their types, under the name in capitals.
"""

from __future__ import annotations

from collections.abc import Iterable

# Import order matters: modules declare columns on import, and refer to earlier ones.
# isort: off
from sharelag.tables.declared import lag, windows, records, groups, answers  # noqa: F401
from sharelag.tables.declared import requests, dead_letters, trials  # noqa: F401

# isort: on
from sharelag.tables.table import COLUMNS, Format

#: Units of the columns of a table in words, by the first column with such a unit.
_UNITS = {
    "lag": "lag and its parts in offsets",
    "arrival_rate": "rates in records per second",
    "records": "sizes in records and in bytes",
    "finished": "progress in offsets",
}


def format_of(name: str) -> Format | None:
    """Return the format of a column's values; None if it is not declared."""
    column = COLUMNS.get(name)
    if column is None:
        return Format.DURATION if name.endswith("_ms") else None
    return column.format


def heading_of(name: str) -> str:
    """Return the heading of a column on a terminal."""
    column = COLUMNS.get(name)
    return column.title if column else name.upper().replace("_", "-")


def unit_of(name: str) -> str:
    """Return the unit of a column's numbers; empty for names, flags and ratios."""
    known = format_of(name)
    return known.unit if known else ""


def units_in_words(names: Iterable[str]) -> str:
    """Name the units of a table's columns; times have theirs in every cell."""
    shown = set(names)
    return ", ".join(words for name, words in _UNITS.items() if name in shown)


def meaning_of(name: str, null: str = "null") -> str:
    """Return what a column means in most tables; empty if it is not declared.

    ``null`` is the text that stands for an unknown value.
    """
    column = COLUMNS.get(name)
    return column.means(null) if column else ""


def meanings_of(names: Iterable[str]) -> dict[str, str]:
    """Return the meanings of declared columns for people, in their order."""
    return {name: meaning_of(name, "-") for name in names if name in COLUMNS}
