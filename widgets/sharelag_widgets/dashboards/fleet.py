"""The backlog of a cluster, and the share partitions it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.schemas.arrow import beside, keys
from sharelag.tables.columns import meanings_of
from sharelag.workbench import Workbench, charts

from ..partition_grid import PartitionGrid
from ..selection import SHARE_PARTITION, Selection, keys_of
from .dashboard import Dashboard
from .parts import ChartPart, Part, TablePart, choice

#: What the grid can show.
MEASURES = ("lag", "age_ms", "unread", "window_available", "window_unknown", "drain", "cause")


class FleetView(Dashboard):
    """The share partitions of all groups together: sums, a cell each, and the parts of the lag.

    `Now` leads from the worst group to what would help; here, share partitions of many groups are
    picked and compared.
    """

    TITLE = "Fleet"
    HELP = {
        "What it shows": "every share group of the cluster, and every share partition as a cell",
        "Picking": "a group in the table, cells in the grid or bars of share partitions: "
        "everything else shows those; "
        "a bar that is picked, picked again: all",
    } | meanings_of(
        ["lag", "age_ms", "unread", "window_available", "window_unknown", "window_complete"]
    )

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.by = choice("Bars by", ["partition", "topic", "group"], self.redraw)
        self._groups = Selection(columns=["group_id"])
        self.groups = TablePart("Share groups", self._groups)
        self.grid = PartitionGrid.of(
            schemas.LAG.empty_table(), measures=[], selection=self.selection, title=""
        )
        cells = Part(
            "Share partitions",
            meanings_of(MEASURES) | {"cause": "the first cause of lag that was found"},
        )
        self.cells, cells.children = cells, [cells.header, self.grid]
        self.parts = ChartPart("What the lag consists of", charts_help(), self.selection)
        self.table = TablePart("Lag", self.selection, without=["leader_epoch"])
        self._groups.observe(self._picked_groups, names=["keys"])
        return [self.by], [self.groups, self.cells, self.parts, self.table]

    def _show(self) -> None:
        sums = self.bench.lag(by="group")
        self.groups.fill(sums)
        lag = self.bench.lag()
        self.header.tell(lag.as_of, lag.unknown)
        self.rows = measured(self.bench)
        measures = [name for name in MEASURES if self.rows.column(name).null_count < len(self.rows)]
        self.grid.measures = measures
        if self.grid.measure not in measures:
            self.grid.measure = measures[0] if measures else ""
        self.grid.rows = self.rows
        self.cells.header.tell(lag.as_of, lag.unknown, units="lag and its parts in offsets")
        self.table.fill(lag)

    def _draw(self) -> None:
        chosen = self.chosen(self.bench.lag().table).drop_columns("age_ms")
        records = charts.decomposition_records(chosen, self.by.value)
        self.parts.draw(charts.decomposition_figure(records, self.theme))
        self._follow()

    def _follow(self) -> None:
        """Groups are picked while all their share partitions are, here or in a linked view."""
        groups, picked = self.rows.column("group_id").to_pylist(), set(self.selection.keys)
        partly = (
            {key[0] for key in keys_of(self.rows, SHARE_PARTITION) if key not in picked}
            if picked
            else {*groups}
        )
        with self._deaf():
            self._groups.keys = tuple(
                (group,) for group in dict.fromkeys(groups) if group not in partly
            )

    def _picked_groups(self, change: Any) -> None:
        if self._hearing:
            return
        groups = pa.array([group for (group,) in change["new"]], pa.string())
        mine = self.rows.filter(pc.is_in(self.rows.column("group_id"), groups)).select(
            SHARE_PARTITION
        )
        self.selection.keys = tuple(tuple(row.values()) for row in mine.to_pylist())


def charts_help() -> dict[str, str]:
    """What the parts of lag mean."""
    return meanings_of(["unread", "window_available", "window_unknown", "window_complete"])


def measured(bench: Workbench) -> pa.Table:
    """`sharelag.schemas.LAG` with the age, whether it drains, and the first cause beside it."""
    lag = bench.lag().table
    progress = beside(keys(lag, SHARE_PARTITION), bench.evidence().progress, SHARE_PARTITION)
    causes = _first_causes(bench.explain().table, lag)
    return lag.append_column("drain", progress.column("drain")).append_column("cause", causes)


def _first_causes(causes: pa.Table, lag: pa.Table) -> pa.Array:
    """Of each share partition the first cause that names it, its topic, or its whole group."""
    rows = causes.sort_by([("rank", "ascending")])
    found = pa.nulls(len(lag), pa.string())
    for names in (SHARE_PARTITION, ("group_id", "topic_id"), ("group_id",)):
        others = [name for name in SHARE_PARTITION if name not in names]
        mine = rows
        for name in others:
            mine = mine.filter(pc.is_null(mine.column(name)))
        for name in names:
            mine = mine.filter(pc.is_valid(mine.column(name)))
        partner = beside(keys(lag, names), mine, names).column("cause")
        found = pc.coalesce(found, partner.combine_chunks())
    return found
