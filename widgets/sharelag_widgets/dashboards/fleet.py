"""All share partitions of a cluster, and the state topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import duration
from sharelag.metrics.explain import explain
from sharelag.metrics.health import KINDS, OLDER, UNKNOWN_TAGS
from sharelag.metrics.health import in_words as findings_in_words
from sharelag.tables.arrow import as_table, beside, keys, without_timestamps
from sharelag.tables.declared import meanings_of
from sharelag.tables.words import lag_sum, moment, terminal
from sharelag.workbench import Workbench
from sharelag.workbench.next_steps import input_name
from sharelag.workbench.result import chart

from ..assignment_editor import as_ranges
from ..partition_grid import PartitionGrid
from ..view import SHARE_PARTITION, Selection, keys_of
from .dashboard import Dashboard
from .pieces import ChartPart, Part, TablePart, choice, show_known

RATES = ("arrival_rate", "completion_rate")
#: Columns of groups, the most important first.
COLUMNS = ("level", "group_id", "lag", "trend", "age_ms", "cause", *RATES, "gone", "members")
#: Maximum number of groups in an incident text, worst first.
COPIED = 20


def groups_table(picked: Selection) -> TablePart:
    """Return a dense table of all groups, with healthy ones folded."""
    return TablePart(
        "Share groups",
        picked,
        narrows=False,
        folded={"column": "level", "value": "ok", "words": "healthy"},
        dense=True,
        # Columns to omit first without enough space.
        optional=("completion_rate", "arrival_rate", "members", "trend"),
    )


def with_trends(groups: pa.Table, sums: pa.Table) -> pa.Table:
    """Add lag over time to groups; null where that of a share partition is unknown."""
    sums = without_timestamps(sums)  # numbers are faster than timestamps
    group, at, lag = (sums.column(name).to_pylist() for name in ("group_id", "as_of", "lag"))
    known, moments = dict(zip(zip(group, at, strict=True), lag, strict=True)), sorted({*at})
    trends = [
        [known.get((group, moment)) for moment in moments]
        for group in groups.column("group_id").to_pylist()
    ]
    return groups.append_column("trend", pa.array(trends, pa.list_(pa.int64())))


def in_words(groups: pa.Table) -> pa.Table:
    """Return groups with causes in words and rounded rates."""
    columns = {"cause": pc.replace_substring(groups.column("cause"), "_", " ")}
    columns |= {name: pc.round(groups.column(name), 2) for name in RATES}
    for name, column in columns.items():
        groups = groups.set_column(groups.schema.get_field_index(name), name, column)
    return groups


def incident_text(bench: Workbench) -> str:
    """Return an incident text: one line per group with problem, place, time and advice."""
    overview = bench.overview()
    source = input_name(bench.source) or bench.describe()
    lines = [f"{overview.title} ({source}, as of {moment(bench.evidence().as_of)})"]
    causes = _causes(bench).sort_by([("rank", "descending")]).to_pylist()
    first = {row["group_id"]: row for row in causes}
    level = overview.table.column("level")
    bad = overview.table.filter(pc.is_in(level, pa.array(["critical", "warning"])))
    for row in bad.slice(0, COPIED).to_pylist():
        lag = lag_sum(row["lag"], row["unknown_lags"])
        old = "" if row["age_ms"] is None else f", oldest {duration(row['age_ms'])}"
        line = f"- {row['group_id']}: lag {lag}{old}: {row['why']}"
        if (cause := first.get(row["group_id"])) and cause["summary"] == row["why"]:
            since = f", since {moment(cause['since'])}" if cause["since"] else ""
            line += f"{_place_of(cause)}{since}. To do: {cause['advice']}"
        lines.append(line)
    if len(bad) > COPIED:
        lines.append(f"and {len(bad) - COPIED:,} more share groups need attention")
    return "\n".join(map(terminal, lines))


def _causes(bench: Workbench) -> pa.Table:
    """Return the causes of all groups, without words, most of which are never shown."""
    return as_table(explain(bench.evidence(), bench.patience))


def _place_of(cause: Mapping[str, Any]) -> str:
    """Return the share partition and record of a cause, if it has one."""
    if cause["partition"] is None:
        return ""
    offset = next((one["value"] for one in cause["evidence"] if one["name"] == "offset"), None)
    record = f", offset {offset}" if offset else ""
    return f" ({cause['topic'] or cause['topic_id']}:{cause['partition']}{record})"


#: Measures of the grid.
MEASURES = ("lag", "age_ms", "unread", "window_available", "window_unknown", "drain", "cause")


class FleetView(Dashboard):
    """The share partitions of all groups: sums, a cell each, and the parts of the lag.

    `Now` leads from the worst group to its remedy; here, share partitions of many groups are picked
    and compared.
    """

    TITLE = "Fleet"
    HELP = {
        "What it shows": "every share group of the cluster, and every share partition as a cell",
        "Picking": "a group in the table, cells in the grid or bars of share partitions: "
        "everything else then shows those; pick a picked bar again to show all",
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
        means = meanings_of(MEASURES) | {"cause": "the first cause of lag that was found"}
        self.cells = Part("Share partitions", means, self.grid)
        self.parts = ChartPart("What the lag consists of", charts_help(), self.selection)
        self.table = TablePart("Lag", self.selection, without=["leader_epoch"])
        self._groups.observe(self._picked_groups, names=["keys"])
        return [self.by], [self.groups, self.cells, self.parts, self.table]

    def _show(self) -> None:
        sums = self.bench.lag(by="group")
        self.groups.fill(sums)
        lag = self.bench.lag()
        self.header.tell(lag.as_of, lag.unknown)
        self.rows = measure(self.bench)
        show_known(self.grid, self.rows, MEASURES)
        self.cells.header.tell(lag.as_of, lag.unknown, units="lag and its parts in offsets")
        self.table.fill(lag)

    def _draw(self) -> None:
        chosen = self.chosen(self.bench.lag().table)
        self.parts.draw(chart("decomposition", chosen, self.by.value)(self.theme))
        self._follow()

    def _follow(self) -> None:
        """Pick the groups whose share partitions are all picked, here or in a linked view."""
        groups, picked = self.rows.column("group_id").to_pylist(), set(self.selection.keys)
        left = (key for key in keys_of(self.rows, SHARE_PARTITION) if key not in picked)
        partly = {key[0] for key in left} if picked else {*groups}
        whole = (group for group in dict.fromkeys(groups) if group not in partly)
        with self._deaf():
            self._groups.keys = tuple((group,) for group in whole)

    def _picked_groups(self, change: Any) -> None:
        if self._hearing:
            return
        groups = pa.array([group for (group,) in change["new"]], pa.string())
        mine = self.rows.filter(pc.is_in(self.rows.column("group_id"), groups))
        self.selection.keys = tuple(keys_of(mine, SHARE_PARTITION))


def charts_help() -> dict[str, str]:
    """Return the meanings of the parts of lag."""
    return meanings_of(["unread", "window_available", "window_unknown", "window_complete"])


def measure(bench: Workbench) -> pa.Table:
    """Return `sharelag.schemas.LAG` with age, drain forecast and first cause."""
    lag = bench.lag().table
    progress = beside(keys(lag, SHARE_PARTITION), bench.evidence().progress, SHARE_PARTITION)
    causes = _first_causes(_causes(bench), lag)
    for name in ("age_ms", "drain"):
        lag = lag.append_column(name, progress.column(name))
    return lag.append_column("cause", causes)


def _first_causes(causes: pa.Table, lag: pa.Table) -> pa.Array:
    """Return the first cause of each share partition, its topic, or its whole group."""
    rows = causes.sort_by([("rank", "ascending")])
    found = pa.nulls(len(lag), pa.string())
    for names in (SHARE_PARTITION, ("group_id", "topic_id"), ("group_id",)):
        mine = rows
        for name in SHARE_PARTITION:
            mine = mine.filter((pc.is_valid if name in names else pc.is_null)(mine.column(name)))
        partner = beside(keys(lag, names), mine, names).column("cause")
        found = pc.coalesce(found, partner.combine_chunks())
    return found


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
        "Findings": "problems: misplaced records, gaps, state that holds back pruning",
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
        found = [*findings_in_words(wrong.table), *wrong.notes] or [
            "Nothing is wrong with the state topic."
        ]
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
    """Return one row per kind of record, with its partitions."""
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
