"""One share group: why it lags, since when, and when the lag will be gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ipywidgets as W  # noqa: N812
import pyarrow as pa

from sharelag.schemas.arrow import beside, keys
from sharelag.tables.columns import meanings_of
from sharelag.workbench import Workbench, charts

from ..selection import SHARE_PARTITION, Selection
from .cards import CAUSES_HELP, CauseCards
from .fleet import charts_help
from .group_dashboard import IN_A_GROUP, GroupDashboard
from .parts import ChartPart, Part, TablePart, choice

_FORECAST = ("drain", "drain_ms")
_HEADINGS = {"drain": "Forecast", "drain_ms": "Gone in"}
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
        self.over_time = ChartPart(
            "Lag and age over time",
            meanings_of(["lag", "age_ms", "as_of"]),
            self.selection,
            times=True,
        )
        self.parts = ChartPart("What the lag consists of", charts_help())
        self.drain = ChartPart(
            "When will it be gone?",
            meanings_of(["drain", "drain_ms", "drain_low_ms", "drain_high_ms"]),
        )
        self.rates = ChartPart(
            "Arrivals and completions",
            meanings_of(["arrival_rate", "completion_rate", "redelivery_rate"]),
        )
        self.table = TablePart(
            "Share partitions", self.selection, without=IN_A_GROUP, headings=_HEADINGS
        )
        self.members = TablePart(
            "Members", Selection(columns=["group_id", "member_id"]), without=IN_A_GROUP
        )
        for wide in (self.over_time, self.table, self.members):
            wide.add_class("sharelag-row")
        return [self._group_choice(), self.step], [
            self.causes,
            self.drain,
            self.over_time,
            self.parts,
            self.rates,
            self.table,
            self.members,
        ]

    def _show(self) -> None:
        group = self._known_group()
        explained = self.bench.explain(group)
        self.header.tell(explained.as_of, explained.unknown)
        self.cards.show(self.bench, group)
        lag = self.bench.lag(group)
        names = [name for name in lag.columns.values() if name not in IN_A_GROUP]
        after = names.index("age_ms") + 1
        names[after:after] = _FORECAST
        self.table.fill(lag, self._with_forecast(lag.table), names)
        members = self.bench.members(group)
        nobody = (
            ("The group has no members.",)
            if not len(members.table) and self._is_reported(group)
            else ()
        )
        self.members.fill(replace(members, notes=members.notes + nobody))

    def _with_forecast(self, lag: pa.Table) -> pa.Table:
        """The forecast of each share partition beside its lag, in a column each."""
        progress = self.bench.progress(self.group).table
        mine = beside(keys(lag, SHARE_PARTITION), progress, SHARE_PARTITION)
        for name in _FORECAST:
            lag = lag.append_column(name, mine.column(name))
        return lag

    def _prepare_group(self, bench: Workbench, group: str) -> None:
        bench.timeline(group, self.step.value or None)
        bench.members(group)

    def _is_reported(self, group: str) -> bool:
        """Whether the group's own records are there; without them nobody knows its members."""
        return group in self.bench.evidence(group).groups.column("group_id").to_pylist()

    def _draw(self) -> None:
        group, chosen = self.group, self.chosen
        lag = chosen(self.bench.lag(group).table).drop_columns("age_ms")
        timeline = chosen(self.bench.timeline(group, self.step.value or None).table)
        progress = chosen(self.bench.progress(group).table)
        self.over_time.draw(
            charts.lag_over_time_figure(charts.lag_over_time_records(timeline), self.theme)
        )
        self.parts.draw(charts.decomposition_figure(charts.decomposition_records(lag), self.theme))
        self.drain.draw(charts.drain_figure(charts.drain_records(progress), self.theme))
        self.rates.draw(charts.rates_figure(charts.rates_records(progress), self.theme))
