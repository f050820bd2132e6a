"""A table with its context for people: moment, meanings, notes, and unknown values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sharelag.tables.words import spell_out


@dataclass(frozen=True)
class CauseSummary:
    """One cause as text, without terminal control characters."""

    rank: int
    cause: str
    severity: str
    where: str  # topic and partitions, offsets held, since when
    summary: str
    evidence: str  # the numbers that show it
    advice: str

    @property
    def title(self) -> str:
        """The cause in words; rules and tables use its name."""
        return spell_out(self.cause)


@dataclass(frozen=True)
class GroupSummary:
    """One group as text: its state, and why."""

    group: str
    state: str
    causes: tuple[CauseSummary, ...]


@dataclass(frozen=True, eq=False)
class Presentation:
    """A result as text, which `sharelag.tables.render` turns into text and HTML."""

    title: str  # the question
    when: str  # its moment, in words
    table: pa.Table  # all rows
    columns: Mapping[str, str]  # heading to column, as shown
    source: str  # shown below the table
    unknown: tuple[str, ...] = ()  # sentences on unknown values and their reasons
    notes: tuple[str, ...] = ()  # other sentences
    order: str = ""  # the column whose largest values are shown if there are too many rows
    summaries: tuple[GroupSummary, ...] = ()  # shown instead of the table
    #: Meanings of columns that differ from `sharelag.tables.declared`.
    means: Mapping[str, str] = field(default_factory=dict)
    charts: tuple[str, ...] = ()  # their names
    best: frozenset[tuple[int, str]] = frozenset()  # cells in bold: row number and column
    #: Low, mean and high of each row, drawn as a small bar in a column; None if unknown.
    spans: Mapping[str, Sequence[tuple[float, float, float] | None]] = field(default_factory=dict)
    #: A longer table of the same data, folded away below.
    more: Presentation | None = None
