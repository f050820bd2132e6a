"""Answers of simulations as the tables that people are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sharelag.schemas import AMOUNT
from sharelag.tables import report_views, views
from sharelag.tables.presentation import Presentation
from sharelag.tables.views import View
from sharelag.tables.words import counted
from sharelag.whatif.comparison import rows as words

if TYPE_CHECKING:
    from sharelag.whatif.compare import Comparison

#: Columns of words that are amounts.
_AMOUNTS = frozenset(
    {
        *("mean", "low", "high", "median", "difference", "difference_low", "difference_high"),
        *("value", "consumer_group", "share_group", "drain_ms", "age_p95_ms", "age_p95_difference"),
        *("lag_p95", "redeliveries", "member_hours"),
    }
)


def run(summary: pa.Table, seed: int) -> Presentation:
    """Return the summary of one run."""
    (row,) = summary.to_pylist()
    values = {name: None if value is None else str(value) for name, value in row.items()}
    return presented(f"One run, with seed {seed}", pairs(values), views.RUN)


def pairs(values: Mapping[str, str | None]) -> list[dict[str, str | None]]:
    """Names and values as rows of two columns."""
    return [{"by": name, "value": value} for name, value in values.items()]


def differing(given: Any) -> list[str]:
    """Return settings that are not at their default."""
    usual = type(given)()
    return [
        f"{one.name} {getattr(given, one.name)}"
        for one in fields(given)
        if one.name != "limits" and getattr(given, one.name) != getattr(usual, one.name)
    ]


def decision_table(found: Comparison) -> Presentation:
    """Return what decides, the baseline first, what is best in bold, and all measures below."""
    rows = found.decision()
    names = [name for name in words.DECIDING if (found.baseline, name) in found.cells]
    best = {name: found.best(name).names for name in names}
    shown = presented(
        f"Compared to {found.baseline}",
        [words.decision_for_people(row) for row in rows],
        report_views.DECISION,
        (found.verdict(), *found.sentences()),
    )
    every = [words.for_people(row) for row in found.rows()]
    return replace(
        shown,
        when=f"simulated, means of {counted(found.seeds, 'run')}",
        best=frozenset(
            (number, name)
            for number, row in enumerate(rows)
            for name in names
            if row["variant"] in best[name]
        ),
        spans={"age_p95_difference": [row["age_p95_span"] for row in rows]},
        more=presented("All measures", every, report_views.COMPARED),
    )


def presented(
    title: str, found: Sequence[Mapping[str, Any]], view: View, notes: tuple[str, ...] = ()
) -> Presentation:
    """Cells are words already, but for numbers that were counted."""
    cells = [pa.array([row.get(name) for row in found]) for name in view.names]
    cells = [one.cast(pa.string()) if pa.types.is_null(one.type) else one for one in cells]
    schema = pa.schema(
        [
            pa.field(name, values.type, metadata=AMOUNT if name in _AMOUNTS else None)
            for name, values in zip(view.names, cells, strict=True)
        ]
    )
    return Presentation(
        title=title,
        when="simulated",
        table=pa.table(cells, schema=schema),
        columns=view.columns,
        source="simulated",
        notes=notes,
        means=view.means,
    )
