"""A table with what people need beside it: its moment, meanings, notes, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa


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


@dataclass(frozen=True)
class GroupSummary:
    """One group in words: how it is, and why."""

    group: str
    state: str
    causes: tuple[CauseSummary, ...]


@dataclass(frozen=True, eq=False)
class Presentation:
    """What `sharelag.tables.render` makes text and HTML of.

    Attributes
    ----------
    title
        The question.
    when
        The moment that it is of, in words.
    table
        All rows.
    columns
        Heading to column, as shown.
    source
        Where it comes from, which stands below it.
    unknown
        What is not known, and why: sentences.
    notes
        What else to know: sentences.
    order
        The column whose largest values are shown when not all rows are.
    summaries
        Groups and causes in words, which are shown in place of the table.
    means
        What columns mean, where that is other than in `sharelag.tables.declared`.
    charts
        Names of its charts.
    best
        Cells in bold: the row's number and the column.
    spans
        Low, mean and high of each row, drawn as a small bar in a column; None: not known.
    more
        A longer table of the same, folded away below.
    """

    title: str
    when: str
    table: pa.Table
    columns: Mapping[str, str]
    source: str
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    order: str = ""
    summaries: tuple[GroupSummary, ...] = ()
    means: Mapping[str, str] = field(default_factory=dict)
    charts: tuple[str, ...] = ()
    best: frozenset[tuple[int, str]] = frozenset()
    spans: Mapping[str, Sequence[tuple[float, float, float] | None]] = field(default_factory=dict)
    more: Presentation | None = None
