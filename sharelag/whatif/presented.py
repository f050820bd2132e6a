"""Scenarios and runs as the tables that people are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sharelag.durations import duration
from sharelag.schemas import AMOUNT
from sharelag.tables import views
from sharelag.tables.presentation import Presentation
from sharelag.tables.views import View

if TYPE_CHECKING:
    from sharelag.whatif.scenario import Scenario

#: Columns of words that are amounts.
_AMOUNTS = frozenset(
    {
        *("mean", "low", "high", "median", "difference", "difference_low", "difference_high"),
        *("value", "consumer_group", "share_group"),
    }
)


def run(summary: pa.Table, seed: int) -> Presentation:
    """The summary of one run."""
    (row,) = summary.to_pylist()
    values = {name: None if value is None else str(value) for name, value in row.items()}
    return presented(f"One run, with seed {seed}", _pairs(values), views.RUN)


def scenario(shown: Scenario) -> Presentation:
    """What a scenario is of, and what was assumed for it."""
    members = shown.each_member()
    given = [*_unlike(shown.settings), *_unlike(shown.settings.limits)]
    kinds = Counter(fault.kind.replace("_", " ") for fault in shown.faults)
    producers = (f"{one.topic}: {one.rate:,.3g}/s" for one in shown.producers)
    scaler = "none" if shown.autoscaler is None else type(shown.autoscaler).__name__
    values = {
        "group": shown.group_id,
        "topics": ", ".join(f"{one.name} ({one.partitions})" for one in shown.topics),
        "members": f"{len(members):,}",
        "producers": ", ".join(producers) or "none",
        "assignor": shown.assignor,
        "settings that differ from Kafka's": ", ".join(given) or "none",
        "poison records": f"{len(shown.poison):,}",
        "faults": ", ".join(f"{kind} ({count})" for kind, count in kinds.items()) or "none",
        "autoscaler": scaler,
        "lasts": duration(shown.duration_ms),
    }
    notes: tuple[str, ...] = (shown.about,) if shown.about else ()
    notes += tuple(f"assumed: {one}" for one in shown.assumed)
    title = f"Scenario {shown.name}" if shown.name else f"Scenario of {shown.group_id}"
    return presented(title, _pairs(values), views.SCENARIO, notes)


def _pairs(values: Mapping[str, str | None]) -> list[dict[str, str | None]]:
    return [{"by": name, "value": value} for name, value in values.items()]


def _unlike(given: Any) -> list[str]:
    """Settings that are not at their default."""
    usual = type(given)()
    return [
        f"{one.name} {getattr(given, one.name)}"
        for one in fields(given)
        if one.name != "limits" and getattr(given, one.name) != getattr(usual, one.name)
    ]


def presented(
    title: str, found: Sequence[Mapping[str, Any]], view: View, notes: tuple[str, ...] = ()
) -> Presentation:
    """Cells are words already, but for numbers that were counted."""
    cells = [pa.array([row.get(name) for row in found]) for name in view.names]
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
