"""Widgets and dashboards in ``docs/screenshots`` beside the notebooks, with their captions.

`CELLS` are cells of one notebook: each output becomes a picture of that name in each theme.
"""

from __future__ import annotations

from textwrap import dedent

SETUP = """
import numpy as np
import pyarrow as pa

import sharelag
from sharelag_widgets import AssignmentEditor, LagTable, PartitionGrid, PlotView, WindowStrip
from sharelag_widgets.dashboards import *

demo = sharelag.open("demo")
random = np.random.default_rng(7)
"""
GRID = """
count = 2_000
lag = (10 ** random.normal(2.2, 1.2, count)).astype(np.int64)
columns = {"group_id": np.repeat([f"team-{n:02d}" for n in range(20)], 100)}
columns |= {"partition": np.tile(np.arange(100), 20), "topic": np.full(count, "orders")}
columns |= {"topic_id": np.full(count, "A" * 22), "lag": np.where(lag < 20, 0, lag)}
columns |= {"age_ms": (lag * 40 * 10 ** random.normal(0, 0.3, count)).astype(np.int64)}
PartitionGrid.of(pa.table(columns))
"""
EDITOR = """
lag = demo.lag("fulfilment").table
assignment = {
    row["member_id"]: {"shipments": one["partitions"] for one in row["assigned_partitions"]}
    for row in demo.members("fulfilment").table.to_pylist()
}
AssignmentEditor.of(lag, assignment)
"""
WHAT_IF = """
lab = WhatIfLab(demo, "analytics")
lab.members.value = "12"
lab.run()
lab.join(300)
lab
"""
# The page after one click: what would happen without the record that blocks everything.
NOW = """
demo.overview()
now = demo.dashboard("search-index")
now.run("heads")
now.join(300)
now
"""
GROUP = "notifications"
STRIP = f'WindowStrip.of(demo.moments("{GROUP}").table, ends=demo.lag("{GROUP}").table)'
#: Names of pictures, and the code whose output they show.
CELLS = {
    "widget-window-strip": STRIP,
    "widget-partition-grid": GRID,
    "widget-assignment-editor": EDITOR,
    "widget-lag-table": "LagTable.of(demo.lag().table)",
    "widget-plot-view": 'PlotView.of(demo.timeline("analytics"), "lag")',
    "dashboard-now": NOW,
    "dashboard-fleet": "FleetView(demo)",
    "dashboard-group": f"GroupView(demo, {GROUP!r})",
    "dashboard-window-explorer": f"WindowExplorer(demo, {GROUP!r})",
    "dashboard-poison-hunt": "PoisonHunt(demo, 'billing')",
    "dashboard-imbalance": "ImbalanceView(demo, 'fulfilment')",
    "dashboard-what-if": WHAT_IF,
    "dashboard-state-topic": "StateTopicHealth(demo)",
}
REPORT = "report-daily"
WORDS = {
    "widget-window-strip": (
        "`WindowStrip`: one share partition, offset by offset, at every moment of its past"
    ),
    "widget-partition-grid": (
        "`PartitionGrid`: 2,000 share partitions, a cell each, by lag, age or anything else"
    ),
    "widget-assignment-editor": (
        "`AssignmentEditor`: which member has which partition; move them and simulate the change"
    ),
    "widget-lag-table": "`LagTable`: sorted, searched, copied as CSV",
    "widget-plot-view": "`PlotView`: a plotly figure in a few kilobytes, in the theme of the page",
    "dashboard-now": "`bench.dashboard()`: how the groups are, and one of them from cause to cure",
    "dashboard-fleet": "`FleetView`: all groups of a cluster",
    "dashboard-group": "`GroupView`: one group, why it lags and how that came about",
    "dashboard-window-explorer": "`WindowExplorer`: inside the windows of a group, at any moment",
    "dashboard-poison-hunt": (
        "`PoisonHunt`: the records that fail again and again, or hold others up"
    ),
    "dashboard-imbalance": "`ImbalanceView`: who has too much to do, and who has nothing",
    "dashboard-what-if": "`WhatIfLab`: assignors, members and settings, tried in virtual time",
    "dashboard-state-topic": "`StateTopicHealth`: the topic that all of this comes from",
    REPORT: "The daily report: one file, alive without Python and without a network",
}


def setup() -> str:
    """Return the cell that all others need."""
    return dedent(SETUP).strip()
