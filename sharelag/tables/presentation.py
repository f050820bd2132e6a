"""A table with what people need beside it: its moment, meanings, notes, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sharelag.tables.words import spell_out


@dataclass(frozen=True)
class CauseSummary:
    """One cause in words; nothing in them acts on a terminal."""

    rank: int
    cause: str
    severity: str
    where: str  # topic and partitions, how much it holds, since when
    summary: str
    evidence: str  # what shows it
    advice: str

    @property
    def title(self) -> str:
        """The cause as people read it; rules and tables call it by its name."""
        return spell_out(self.cause)


@dataclass(frozen=True)
class GroupSummary:
    """One group in words: how it is, and why."""

    group: str
    state: str
    causes: tuple[CauseSummary, ...]


@dataclass(frozen=True, eq=False)
class Presentation:
    """A result in words, which `sharelag.tables.render` turns into text and HTML."""

    title: str  # the question
    when: str  # the moment that it is of, in words
    table: pa.Table  # all rows
    columns: Mapping[str, str]  # heading to column, as shown
    source: str  # where it comes from, which stands below it
    unknown: tuple[str, ...] = ()  # what is not known, and why: sentences
    notes: tuple[str, ...] = ()  # what else to know: sentences
    order: str = ""  # the column whose largest values are shown when not all rows are
    summaries: tuple[GroupSummary, ...] = ()  # are shown in place of the table
    #: What columns mean, where that differs from `sharelag.tables.declared`.
    means: Mapping[str, str] = field(default_factory=dict)
    charts: tuple[str, ...] = ()  # their names
    best: frozenset[tuple[int, str]] = frozenset()  # cells in bold: the row's number and the column
    #: Low, mean and high of each row, drawn as a small bar in a column; None: not known.
    spans: Mapping[str, Sequence[tuple[float, float, float] | None]] = field(default_factory=dict)
    #: A longer table of the same, folded away below.
    more: Presentation | None = None
