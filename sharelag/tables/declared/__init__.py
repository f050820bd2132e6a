"""Every table with its columns, declared once: type, unit, heading, meaning, and who sees them.

Arrow's and Spark's schemas, ``docs/frames.md``, the JSON Schemas, and what tables on terminals and
pages say come from here. A column means the same in every table, but where a table has its
`Own`. Nulls mean *unknown* (or *not part of this kind of record*), never zero. Offsets called
``end`` are exclusive. All timestamps are UTC milliseconds, as Kafka's are. Names that are not here
are read by their values, under their name in capitals.
"""

from __future__ import annotations

from collections.abc import Iterable

# They declare when they are imported, in the order of what they refer to.
# isort: off
from sharelag.tables.declared import lag, windows, records, groups, answers  # noqa: F401
from sharelag.tables.declared import requests, dead_letters, trials  # noqa: F401

# isort: on
from sharelag.tables.table import COLUMNS, Format

#: In which unit the columns of a table are, by the first of them.
_UNITS = {
    "lag": "lag and its parts in offsets",
    "arrival_rate": "rates in records per second",
    "records": "sizes in records and in bytes",
    "finished": "progress in offsets",
}


def format_of(name: str) -> Format | None:
    """Return how the values of a column read; None where only they themselves tell."""
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
    """Say in which units the columns of a table are; times have theirs in every cell."""
    shown = set(names)
    return ", ".join(words for name, words in _UNITS.items() if name in shown)


def meaning_of(name: str, null: str = "null") -> str:
    """Return what a column means in most tables; empty where it is not declared.

    ``null`` is what stands there where a value is not known.
    """
    column = COLUMNS.get(name)
    return column.means(null) if column else ""


def meanings_of(names: Iterable[str]) -> dict[str, str]:
    """Return the meanings of those columns that are declared, for people, in their order."""
    return {name: meaning_of(name, "-") for name in names if name in COLUMNS}
