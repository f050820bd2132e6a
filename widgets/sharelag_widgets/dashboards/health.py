"""The state topic itself: size, snapshots, what holds pruning back, record generations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa

from sharelag import schemas
from sharelag.metrics.health import KINDS, OLDER, UNKNOWN_TAGS, in_words
from sharelag.tables.declared import meanings_of
from sharelag.workbench import Workbench
from sharelag.workbench.result import chart

from ..assignment_editor import as_ranges
from ..partition_grid import PartitionGrid
from ..selection import Selection
from .dashboard import Dashboard
from .parts import ChartPart, Part, TablePart, show_known

_KEY = ("topic", "partition")
_MEASURES = (
    *("records", "bytes", "prunable", "updates_per_snapshot"),
    *("share_partitions", "missing", "rejects", "misplaced"),
)
_KINDS = ("snapshots", "updates", "tombstones", "rejects", "prunable")
_GENERATIONS = {
    "generation": "kind and version of a record; with count: it holds the delivery complete "
    "count (KIP-1226), which older brokers do not write",
    "partitions": "partitions of the state topic that have such records",
    "in": "which ones",
}


class StateTopicHealth(Dashboard):
    """Every partition of ``__share_group_state``."""

    TITLE = "State topic"
    IS_GRID = False
    HELP = {
        "What it shows": "every partition of __share_group_state, by the records that are there",
        "Findings": "what should not be so: records in wrong places, gaps, state that holds "
        "pruning back",
    } | meanings_of(_MEASURES)

    def __init__(self, bench: Workbench, **options: Any) -> None:
        super().__init__(bench, **{"selection": Selection(columns=_KEY), **options})

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.grid = PartitionGrid.of(
            schemas.HEALTH.empty_table(),
            measures=[],
            keys=_KEY,
            band=None,
            selection=self.selection,
            title="",
            noun="partition",
        )
        self.cells = Part("Partitions of the state topic", meanings_of(_MEASURES), self.grid)
        self.kinds = ChartPart("What the records hold", meanings_of(_KINDS))
        self.table = TablePart("Figures", self.selection)
        self.generations = TablePart(
            "Record generations", Selection(columns=["generation"]), _GENERATIONS
        )
        self.snapshots = TablePart("Last snapshots", Selection())
        return [], [self.cells, self.kinds, self.table, self.generations, self.snapshots]

    def _show(self) -> None:
        health, wrong = self.bench.health(), self.bench.ask("health", findings=True)
        found = [*in_words(wrong.table), *wrong.notes] or ["Nothing is wrong with the state topic."]
        self.header.tell(health.as_of, health.unknown, found)
        rows = health.table
        show_known(self.grid, rows, _MEASURES)
        self.cells.header.tell(health.as_of, health.unknown)
        self.table.fill(health)
        kinds = replace(health, means=_GENERATIONS, notes=())
        self.generations.fill(kinds, generations(rows), list(_GENERATIONS))
        self.snapshots.fill(self.bench.snapshots())

    def _draw(self) -> None:
        chosen = self.chosen(self.bench.health().table)
        self.kinds.draw(chart("state_record", chosen)(self.theme))


def generations(health: pa.Table) -> pa.Table:
    """Return one row per kind of record, with the partitions it is in."""
    rows = health.select(["partition", "generations"]).to_pylist()
    found = {
        kind: [row["partition"] for row in rows if kind in (row["generations"] or ())]
        for kind in (*KINDS.values(), UNKNOWN_TAGS, *OLDER.values())
    }
    records = [
        {"generation": kind, "partitions": len(where), "in": as_ranges(where).replace(",", ", ")}
        for kind, where in found.items()
        if where
    ]
    schema = pa.schema(
        [("generation", pa.string()), ("partitions", pa.int32()), ("in", pa.string())]
    )
    return pa.Table.from_pylist(records, schema=schema)
