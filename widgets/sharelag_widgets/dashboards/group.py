"""One group: its share partitions, its windows over time, and how its load is spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ipywidgets as W  # noqa: N812
import pyarrow as pa

from sharelag import charts
from sharelag.tables.arrow import beside, keys
from sharelag.tables.declared import meanings_of
from sharelag.workbench import Workbench
from sharelag.workbench.opened import delivery_limit
from sharelag.workbench.result import chart

from ..selection import SHARE_PARTITION, Selection
from .dashboard import IN_A_GROUP, GroupDashboard
from .fleet import charts_help
from .parts import ChartPart, Part, StripPart, TablePart, choice
from .pieces import CAUSES_HELP, CauseCards

_FORECAST = ("age_ms", "drain", "drain_ms")
_STEPS = {"a 60th of the span": 0, "1 s": 1, "10 s": 10, "1 min": 60, "10 min": 600}


class GroupView(GroupDashboard):
    """One group, each of its share partitions apart: over time, forecast, rates; and its members.

    `Now` has the story of a group as a whole.
    """

    TITLE = "Share group"
    HELP = {
        "What it shows": "one share group: why it lags, how that came about, and when the lag "
        "will be gone",
        "Picking": "a share partition in the table or a moment in the chart; linked dashboards "
        "show the same",
    } | meanings_of(["lag", "age_ms", "drain"])

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.step = choice("A moment every", _STEPS.items(), self.redraw)
        self.cards = CauseCards()
        self.causes = Part("Causes", CAUSES_HELP, self.cards)
        means = meanings_of(["lag", "age_ms", "as_of"])
        self.over_time = ChartPart("Lag and age over time", means, self.selection, times=True)
        self.parts = ChartPart("What the lag consists of", charts_help())
        self.drain = ChartPart(
            "When will it be gone?",
            meanings_of(["drain", "drain_ms", "drain_low_ms", "drain_high_ms"]),
        )
        self.rates = ChartPart(
            "Arrivals and completions",
            meanings_of(["arrival_rate", "completion_rate", "redelivery_rate"]),
        )
        self.table = TablePart("Share partitions", self.selection, without=IN_A_GROUP, dense=True)
        self.members = TablePart(
            "Members", Selection(columns=["group_id", "member_id"]), without=IN_A_GROUP
        )
        for wide in (self.over_time, self.table, self.members):
            wide.add_class("sharelag-row")
        first = [self.causes, self.drain, self.over_time, self.parts]
        return [self._group_choice(), self.step], [*first, self.rates, self.table, self.members]

    def _show(self) -> None:
        group = self._known_group()
        explained = self.bench.explain(group)
        self.header.tell(explained.as_of, explained.unknown, explained.notes)
        self.cards.show(self.bench, group)
        lag = self.bench.lag(group)
        names = [name for name in lag.columns.values() if name not in IN_A_GROUP]
        after = names.index("lag") + 1
        names[after:after] = _FORECAST
        self.table.fill(lag, self._with_forecast(lag.table), names)
        members = self.bench.members(group)
        # Without the group's own records nobody knows its members.
        told = group in self.bench.evidence(group).groups.column("group_id").to_pylist()
        nobody = ("The group has no members.",) * (told and not len(members.table))
        self.members.fill(replace(members, notes=members.notes + nobody))

    def _with_forecast(self, lag: pa.Table) -> pa.Table:
        """Return the forecast of each share partition beside its lag, in a column each."""
        progress = self.bench.progress(self.group).table
        mine = beside(keys(lag, SHARE_PARTITION), progress, SHARE_PARTITION)
        for name in _FORECAST:
            lag = lag.append_column(name, mine.column(name))
        return lag

    def _prepare_group(self, bench: Workbench, group: str) -> None:
        bench.timeline(group, self.step.value or None)
        bench.members(group)

    def _draw(self) -> None:
        group, chosen = self.group, self.chosen
        lag = chosen(self.bench.lag(group).table)
        timeline = chosen(self.bench.timeline(group, self.step.value or None).table)
        progress = chosen(self.bench.progress(group).table)
        self.over_time.draw(chart("lag_over_time", timeline)(self.theme))
        self.parts.draw(chart("decomposition", lag)(self.theme))
        self.drain.draw(chart("drain", progress)(self.theme))
        self.rates.draw(chart("rates", progress)(self.theme))


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
        means = meanings_of(
            ["start_offset", "window_end_offset", "unread", "window_available", "window_unknown"]
        )
        self.strip = StripPart("The window, offset by offset", means, self.selection)
        self.heat = ChartPart("All windows over time", _MEASURES, self.selection, times=True)
        self.counts = ChartPart(
            "Delivery counts", {"delivery count": "how often an offset was given to a consumer"}
        )
        self.history = TablePart("Records of the state topic", self.selection, without=IN_A_GROUP)
        self.history.add_class("sharelag-row")
        parts = [self.strip, self.heat, self.counts, self.history]
        return [self._group_choice(), self.measure], parts

    def _show(self) -> None:
        group = self._known_group()
        moments, lag = self.bench.moments(group), self.bench.lag(group)
        self.header.tell(lag.as_of, moments.unknown)
        self.strip.show(self.bench, group)

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
        limit = delivery_limit(self.bench.evidence(self.group).settings, str(self.group))
        self.counts.draw(chart("delivery_count", windows, as_of, limit=limit)(self.theme))


_CURVES = {"lag": "lag", "unread": "unread", "available": "window_available"}


class ImbalanceView(GroupDashboard):
    """One group's balance: curves, figures, and who has what."""

    TITLE = "Balance"
    HELP = {
        "What it shows": "how evenly lag, arrivals, work and partitions are spread in a group",
        "Verdict": "where the lag is concentrated: busy partitions, partitions with few members, "
        "members with many",
        "Measures": "lag in offsets; arrived: offsets over the span; finished: offsets an hour; "
        "members of a partition; partitions of a member, or that a broker leads",
    } | meanings_of(["gini", "max_mean", "jain", "cv", "top_share"])

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.measure = choice("Curve of", _CURVES.items(), self.redraw)
        self.over = choice(
            "Figures over",
            [("all", ""), *((name, name) for name in ("partition", "topic", "member", "broker"))],
            self.show,
        )
        self.curve = ChartPart(
            "How uneven is it?", meanings_of(["gini"]) | {"curve": "the lower, the more uneven"}
        )
        cell = {"cell": "a member that has a share partition; picking it picks that"}
        means = cell | meanings_of(["lag"])
        self.who = ChartPart("Who has which partitions?", means, self.selection)
        columns = ["group_id", "topic", "over", "measure"]
        self.table = TablePart("Figures", Selection(columns=columns), without=IN_A_GROUP)
        self.lag = TablePart("Share partitions", self.selection, without=IN_A_GROUP)
        parts = [self.curve, self.who, self.table, self.lag]
        return [self._group_choice(), self.measure, self.over], parts

    def _show(self) -> None:
        group = self._known_group()
        balance = self.bench.imbalance(group, self.over.value or None)
        self.header.tell(balance.as_of, balance.unknown, balance.notes)
        self.table.fill(balance)
        self.lag.fill(self.bench.lag(group))

    def _draw(self) -> None:
        evidence = self.bench.evidence(self.group)
        self.curve.draw(chart("lorenz", evidence.lag, self.measure.value)(self.theme))
        # Of what is picked, with the lag of all: a share partition that is not picked has a lag,
        # too.
        who = self.chosen(charts.assigned_records(evidence.members, evidence.lag))
        self.who.draw(charts.assigned_figure(who, self.theme))
