"""How load is spread over partitions, topics, members and brokers, and where lag concentrates."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as W  # noqa: N812

from sharelag.tables.columns import meanings_of
from sharelag.workbench import charts

from ..selection import Selection
from .group_dashboard import IN_A_GROUP, GroupDashboard
from .parts import ChartPart, TablePart, choice

_MEASURES = {"lag": "lag", "unread": "unread", "available": "window_available"}


class ImbalanceView(GroupDashboard):
    """One group's balance: curves, figures, and who has what."""

    TITLE = "Balance"
    HELP = {
        "What it shows": "how evenly lag, arrivals, work and partitions are spread in a group",
        "Verdict": "where the lag is concentrated: busy partitions, partitions with few members, "
        "members with many",
        "Measures": "lag in offsets; arrived: offsets over the span; finished: offsets an "
        "hour; members of a "
        "partition; partitions of a member, or that a broker leads",
    } | meanings_of(["gini", "max_mean", "jain", "cv", "top_share"])

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.measure = choice("Curve of", _MEASURES.items(), self.redraw)
        self.over = choice(
            "Figures over",
            [("all", ""), *((name, name) for name in ("partition", "topic", "member", "broker"))],
            self.show,
        )
        self.curve = ChartPart(
            "How uneven is it?", meanings_of(["gini"]) | {"curve": "the lower, the more uneven"}
        )
        self.who = ChartPart(
            "Who has which partitions?",
            {
                "cell": "a member that has a share partition; picking it picks that",
                **meanings_of(["lag"]),
            },
            self.selection,
        )
        columns = ["group_id", "topic", "over", "measure"]
        self.table = TablePart("Figures", Selection(columns=columns), without=IN_A_GROUP)
        self.lag = TablePart("Share partitions", self.selection, without=IN_A_GROUP)
        return [self._group_choice(), self.measure, self.over], [
            self.curve,
            self.who,
            self.table,
            self.lag,
        ]

    def _show(self) -> None:
        group = self._known_group()
        balance = self.bench.imbalance(group, self.over.value or None)
        self.header.tell(balance.as_of, balance.unknown, balance.notes)
        self.table.fill(balance)
        self.lag.fill(self.bench.lag(group))

    def _draw(self) -> None:
        evidence = self.bench.evidence(self.group)
        self.curve.draw(
            charts.lorenz_figure(
                charts.lorenz_records(evidence.lag, self.measure.value), self.theme
            )
        )
        # Of what is picked, with the lag of all: a share partition that is not picked has a lag,
        # too.
        self.who.draw(
            charts.assigned_figure(
                self.chosen(charts.assigned_records(evidence.members, evidence.lag)), self.theme
            )
        )
