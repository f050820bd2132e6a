"""Which records does no consumer get through? Offsets by delivery count, where they are, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ipywidgets as W  # noqa: N812
import pyarrow.compute as pc

from sharelag import charts
from sharelag.workbench.answers import delivery_limit
from sharelag.workbench.meanings import meanings_of

from ..window_strip import WindowStrip
from .dashboard import GroupDashboard
from .parts import ChartPart, Part, TablePart, first_come, fragment, put
from .suspects import suspects

_LIMIT = "share.delivery.count.limit"
#: Kafka's.
DEFAULT_LIMIT = 5
_COLUMNS = ("topic", "partition", "first_offset", "last_offset", "offsets", "state", "delivery_count", "left")
_MEANS = {
    "first_offset": "first of the offsets that share a state and a delivery count",
    "last_offset": "last of them",
    "offsets": "how many they are",
    "state": "available: waits for another delivery; archived: rejected, or given up at the limit",
    "delivery_count": "how often it was given to a consumer",
    "left": f"deliveries until the limit ({_LIMIT})",
}


class PoisonHunt(GroupDashboard):
    """Offsets that were delivered again and again, and the window around them."""

    TITLE = "Poison records"
    HELP = {
        "What it shows": "offsets in the window that were delivered at least so often without being acknowledged",
        "What it cannot show": "archived offsets that the start offset has passed, and why a record failed: look at it "
        "at its offset with a consumer",
        "Picking": "a row: the strip shows that share partition, with these offsets marked",
    } | _MEANS

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.least = W.BoundedIntText(
            2,
            min=1,
            max=32767,
            description="Delivered at least",
            style={"description_width": "initial"},
            layout=W.Layout(width="13em"),
        )
        self.least.observe(self.show, names=["value"])
        self.table = TablePart("Suspicious offsets", self.selection)
        self.counts = ChartPart("Delivery counts", {"delivery count": _MEANS["delivery_count"]})
        self.strip = Part(
            "Where they are",
            meanings_of(["start_offset", "window_end_offset", "window_available"]),
            W.VBox([], layout=W.Layout(width="100%")),
        )
        self.causes = Part("What was found", {"cause": "what holds lag, the weightiest first"}, W.HTML())
        return [self._group_choice(), self.least], [self.table, self.strip, self.counts, self.causes]

    def _show(self) -> None:
        group = self._known_group()
        windows, lag, explained = self.bench.windows(group), self.bench.lag(group), self.bench.explain(group)
        known = delivery_limit(self.bench.evidence(group), group)
        limit = DEFAULT_LIMIT if known is None else known
        self.found = suspects(windows.table, self.least.value, limit)
        lost = () if known else (f"the delivery limit; Kafka's default of {limit} is assumed",)
        told = replace(lag, order="delivery_count", unknown=(*lost, *windows.unknown), notes=(self._words(group),))
        self.table.fill(told, self.found, _COLUMNS)
        self.table.header.tell(lag.as_of, told.unknown, told.notes, _MEANS)
        self.header.tell(lag.as_of, told.unknown)
        put(
            self.strip.children[1],
            WindowStrip.of(first_come(windows.table, self.found), ends=lag.table, selection=self.selection, title=""),
        )
        figure = charts.delivery_count_figure(charts.delivery_count_records(windows.table), self.theme, limit)
        self.counts.draw(figure)
        self.causes.children[1].value = fragment(explained)

    def _words(self, group: str) -> str:
        offsets = pc.sum(self.found.column("offsets")).as_py() or 0
        observed = self.bench.evidence(group).observed
        archived = pc.sum(observed.column("archived")).as_py() if observed.num_rows else None
        gone = "how many were archived is not known" if archived is None else f"{archived:,} archived"
        return (
            f"{offsets:,} offset{'s' * (offsets != 1)} delivered at least {self.least.value} times and not "
            f"acknowledged; {gone} over the span, with those that the start offset has passed since"
        )

    def _draw(self) -> None:
        """The first suspicious offsets of what is picked are marked on the strip."""
        mine = self.selection.of(self.found)
        if len(self.selection.keys) == 1 and len(mine):
            self.selection.offsets = (mine.column("first_offset")[0].as_py(), mine.column("last_offset")[0].as_py())
