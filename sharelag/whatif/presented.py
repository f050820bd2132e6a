"""Answers of simulations as the tables that people are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from sharelag.schemas import AMOUNT
from sharelag.tables import report_views, views
from sharelag.tables.presentation import Presentation
from sharelag.tables.views import View

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


def decision_table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    best: Mapping[str, tuple[str, ...]],
    every: Sequence[Mapping[str, Any]],
    notes: tuple[str, ...],
) -> Presentation:
    """Return what decides, rows in words, and all measures below.

    ``best`` has the variants that are best by each measure, which are shown in bold.
    """
    return replace(
        presented(title, rows, report_views.DECISION, notes),
        best=frozenset(
            (number, name)
            for number, row in enumerate(rows)
            for name, names in best.items()
            if row["variant"] in names
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
