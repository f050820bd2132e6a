"""Every column once: its heading, format and meaning; what tables, pages and docs say of it.

A column means the same in every table, but for what `in_tables` says of some. Names that are not
here are read by their values, under their name in capitals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sharelag.tables.columns import (
    answers,
    brokers,
    changes,
    dead_letters,
    groups,
    lag,
    measured,
    outcomes,
    records,
    requests,
    rights,
    trials,
)
from sharelag.tables.columns.column import Column, Format
from sharelag.tables.columns.in_tables import IN_TABLES

__all__ = [
    "COLUMNS",
    "Column",
    "Format",
    "format_of",
    "heading_of",
    "meaning_of",
    "meanings_of",
    "unit_of",
    "units_in_words",
]


def _merged(*parts: Mapping[str, Column]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for part in parts:
        if twice := found.keys() & part.keys():
            raise ValueError(f"columns that are defined twice: {', '.join(sorted(twice))}")
        found |= part
    return found


#: By name.
COLUMNS = _merged(
    *(
        one.COLUMNS
        for one in (
            lag,
            measured,
            changes,
            records,
            groups,
            brokers,
            answers,
            trials,
            outcomes,
            requests,
            rights,
            dead_letters,
        )
    )
)

#: In which unit the columns of a table are, by the first of them.
_UNITS = {
    "lag": "lag and its parts in offsets",
    "arrival_rate": "rates in records a second",
    "records": "sizes in records and in bytes",
    "finished": "progress in offsets",
}


def format_of(name: str) -> Format | None:
    """How the values of a column read; None where only they themselves tell."""
    column = COLUMNS.get(name)
    if column is None:
        return Format.DURATION if name.endswith("_ms") else None
    return column.format


def heading_of(name: str) -> str:
    """The heading of a column on a terminal."""
    column = COLUMNS.get(name)
    return (column.heading if column else "") or name.upper().replace("_", "-")


def unit_of(name: str) -> str:
    """The unit of a column's numbers; empty for names, flags and ratios."""
    known = format_of(name)
    return known.unit if known else ""


def units_in_words(names: Iterable[str]) -> str:
    """In which units the columns of a table are; times have theirs in every cell."""
    shown = set(names)
    return ", ".join(words for name, words in _UNITS.items() if name in shown)


def meaning_of(name: str, table: str = "", null: str = "null") -> str:
    """What a column means.

    Parameters
    ----------
    name : str
    table : str, optional
        One of `sharelag.pipeline.tables.TABLES`, where some columns have a special meaning.
    null : str
        What stands there where a value is not known.

    Returns
    -------
    str
        Empty where the column is not known.
    """
    column = COLUMNS.get(name)
    said = IN_TABLES.get(table, {}).get(name) or (column.meaning if column else "")
    return said.replace("null", null)


def meanings_of(names: Iterable[str], table: str = "") -> dict[str, str]:
    """The meanings of some columns for people, in their order; without those that have none."""
    found = {name: meaning_of(name, table, null="-") for name in names}
    return {name: meaning for name, meaning in found.items() if meaning}
