"""Is the load spread badly, over partitions, topics and members, and around what does the lag crowd?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow.compute as pc

from sharelag import charts
from sharelag.workbench.meanings import meanings_of

from ..selection import Selection
from .group_dashboard import IN_A_GROUP, GroupDashboard
from .parts import ChartPart, TablePart, choice

_MEASURES = {"lag": "lag", "unread": "unread", "available": "window_available"}


class ImbalanceView(GroupDashboard):
    """One group's balance: curves, figures, and who has what."""

    TITLE = "Balance"
    HELP = {
        "What it shows": "how evenly lag, arrivals, work and partitions are spread in a group",
        "Verdict": "what the lag crowds around: busy partitions, partitions with few members, members with many",
        "Measures": "lag in offsets; arrived: offsets over the span; finished: offsets an hour; members of a "
        "partition; partitions of a member",
    } | meanings_of(["gini", "max_mean", "jain", "cv", "top_share"])

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.measure = choice("Curve of", _MEASURES.items(), self.show)
        self.over = choice(
            "Figures over", [("all", ""), *((name, name) for name in ("partition", "topic", "member"))], self.show
        )
        self.curve = ChartPart("How uneven is it?", meanings_of(["gini"]) | {"curve": "the lower, the more uneven"})
        self.who = ChartPart(
            "Who has which partitions?", {"cell": "a member that has a share partition", **meanings_of(["lag"])}
        )
        columns = ["group_id", "topic", "over", "measure"]
        self.table = TablePart("Figures", Selection(columns=columns), without=IN_A_GROUP)
        self.lag = TablePart("Share partitions", self.selection, without=IN_A_GROUP)
        return [self._group_choice(), self.measure, self.over], [self.curve, self.who, self.table, self.lag]

    def _show(self) -> None:
        group = self._known_group()
        balance = self.bench.imbalance(group, self.over.value or None)
        self.header.tell(balance.as_of, balance.unknown, balance.notes)
        self.table.fill(balance)
        self.lag.fill(self.bench.lag(group))

    def _draw(self) -> None:
        evidence = self.bench.evidence(self.group)
        lag = self.chosen(evidence.lag)
        self.curve.draw(charts.lorenz_figure(charts.lorenz_records(evidence.lag, self.measure.value), self.theme))
        self.who.draw(charts.assigned_figure(charts.assigned_records(self._members(lag), lag), self.theme))

    def _members(self, lag: Any) -> Any:
        """The members of the group; all of them, also where only some share partitions are picked."""
        members = self.bench.evidence(self.group).members
        return members.filter(pc.is_in(members.column("group_id"), lag.column("group_id").unique()))
