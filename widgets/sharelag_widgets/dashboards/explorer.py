"""One share partition's window over time, offset by offset, and what changed it."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as W  # noqa: N812

from sharelag.metrics.holders import holder_lines
from sharelag.tables.columns import meanings_of
from sharelag.workbench import Workbench, charts
from sharelag.workbench.one_group import delivery_limit, worst_first

from .group_dashboard import IN_A_GROUP, GroupDashboard
from .parts import ChartPart, StripPart, TablePart, choice

_MEASURES = {
    "span": "offsets between start offset and window end",
    "available": "offsets that wait for another delivery",
    "complete": "offsets acknowledged or archived, not yet passed by the start offset",
    "deliveries": "highest delivery count",
}


class WindowExplorer(GroupDashboard):
    """One group's windows: go back in time, record by record."""

    TITLE = "Windows over time"
    HELP = {
        "What it shows": "the window of a share partition after each of its records in the "
        "state topic",
        "Picking": "a moment on the strip or in the heat map, offsets on the strip, a share "
        "partition in a table",
    } | meanings_of(["start_offset", "window_end_offset", "runs"])

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.measure = choice("Heat map of", _MEASURES, self.redraw)
        self.strip = StripPart(
            "The window, offset by offset",
            meanings_of(
                [
                    "start_offset",
                    "window_end_offset",
                    "unread",
                    "window_available",
                    "window_unknown",
                ]
            ),
            self.selection,
        )
        self.heat = ChartPart("All windows over time", _MEASURES, self.selection, times=True)
        self.counts = ChartPart(
            "Delivery counts", {"delivery count": "how often an offset was given to a consumer"}
        )
        self.history = TablePart("Records of the state topic", self.selection, without=IN_A_GROUP)
        self.history.add_class("sharelag-row")
        return [self._group_choice(), self.measure], [
            self.strip,
            self.heat,
            self.counts,
            self.history,
        ]

    def _show(self) -> None:
        group = self._known_group()
        moments, lag = self.bench.moments(group), self.bench.lag(group)
        self.header.tell(lag.as_of, moments.unknown)
        evidence = self.bench.evidence(group)
        held = holder_lines(evidence.lag, evidence.holders)
        limit = delivery_limit(evidence, group)
        first = worst_first(moments.table, evidence, group)
        self.strip.fill(first, lag.table, limit, held)

    def _prepare_group(self, bench: Workbench, group: str) -> None:
        bench.moments(group)
        bench.history(group)

    def _draw(self) -> None:
        history = self.bench.history(self.group)
        rows = self.chosen(history.table)
        self.history.fill(history, rows)
        as_of = self.bench.lag(self.group).as_of
        heat = charts.window_heat_records(rows, self.measure.value, as_of=as_of)
        self.heat.draw(charts.window_heat_figure(heat, self.theme))
        windows = self.chosen(self.bench.windows(self.group).table)
        limit = delivery_limit(self.bench.evidence(self.group), str(self.group))
        counts = charts.delivery_count_records(windows, as_of=as_of)
        self.counts.draw(charts.delivery_count_figure(counts, self.theme, limit))
