"""Results of simulations as tables to display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sharelag.schemas import AMOUNT
from sharelag.tables.presentation import Presentation
from sharelag.tables.views import View

#: Columns of text that contain amounts.
_AMOUNTS = frozenset(
    {
        *("mean", "low", "high", "median", "difference", "difference_low", "difference_high"),
        *("value", "consumer_group", "share_group", "drain_ms", "age_p95_ms", "age_p95_difference"),
        *("lag_p95", "redeliveries", "member_hours"),
    }
)


def pairs(values: Mapping[str, str | None]) -> list[dict[str, str | None]]:
    """Return names and values as rows of two columns."""
    return [{"by": name, "value": value} for name, value in values.items()]


def present(
    title: str, found: Sequence[Mapping[str, Any]], view: View, notes: tuple[str, ...] = ()
) -> Presentation:
    """Return a presentation of rows, whose cells are text except for counts."""
    cells = [pa.array([row.get(name) for row in found]) for name in view.names]
    cells = [one.cast(pa.string()) if pa.types.is_null(one.type) else one for one in cells]
    schema = pa.schema(
        [
            pa.field(name, values.type, metadata=AMOUNT if name in _AMOUNTS else None)
            for name, values in zip(view.names, cells, strict=True)
        ]
    )
    table, when = pa.table(cells, schema=schema), "simulated"
    return Presentation(title, when, table, view.columns, when, notes=notes, means=view.means)
