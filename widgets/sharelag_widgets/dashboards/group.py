"""One group: its share partitions, windows over time, balance, and failing records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as W  # noqa: N812
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import charts
from sharelag.charts import text
from sharelag.model import DeliveryState
from sharelag.schemas import NAMED_SHARE_PARTITION
from sharelag.tables.arrow import beside, keys
from sharelag.tables.declared import meanings_of
from sharelag.tables.views import view
from sharelag.workbench import Workbench
from sharelag.workbench.base import delivery_limit, first_come
from sharelag.workbench.result import chart

from ..view import SHARE_PARTITION, Selection, keys_of
from .dashboard import IN_A_GROUP, GroupDashboard
from .fleet import charts_help
from .pieces import CAUSES_HELP, CauseCards, ChartPart, Part, StripPart, TablePart, choice, counter

_FORECAST = ("age_ms", "drain", "drain_ms")
_STEPS = {"a 60th of the span": 0, "1 s": 1, "10 s": 10, "1 min": 60, "10 min": 600}


class GroupView(GroupDashboard):
    """One group by share partition: lag over time, forecasts, rates; and its members.

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
        # Members are unknown without the group's own records.
        is_described = group in self.bench.evidence(group).groups.column("group_id").to_pylist()
        nobody = ("The group has no members.",) * (is_described and not len(members.table))
        self.members.fill(replace(members, notes=members.notes + nobody))

    def _with_forecast(self, lag: pa.Table) -> pa.Table:
        """Add the forecast of each share partition to its lag, one column each."""
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
    """One group's windows at every moment, record by record."""

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
    """One group's balance: curves, figures and assignments."""

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
        # The picked share partitions, with the lag of all, because the others have lag, too.
        who = self.chosen(charts.assigned_records(evidence.members, evidence.lag))
        self.who.draw(charts.assigned_figure(who, self.theme))


#: A run of offsets with the same state and delivery count.
SUSPECTS = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("state", pa.string()),  # available, archived, ..., or not persisted
        ("delivery_count", pa.int16()),  # null where no state is persisted
        # deliveries until the limit; null if none remain, or unknown
        ("left", pa.int16()),
        ("why", pa.string()),  # one or more of the reasons below
    ]
)
#: In place of a state: the offset is acquired, or a transaction marker.
NOT_PERSISTED = "no state persisted"
#: Reasons why offsets are listed.
OFTEN, GIVEN_UP, PINS = "delivered often", "archived", "pins the start offset"
#: Columns shown.
VIEW = view(
    "topic partition first_offset last_offset offsets state delivery_count left why",
    meanings={
        "first_offset": "first of the offsets that share a state and a delivery count",
        "state": "available: waits for another delivery; archived: rejected, or given up at the "
        f"limit; {NOT_PERSISTED}: a member holds it, or a transaction marker is there",
        "why": f"why it is listed; {PINS}: the start offset cannot pass before it is acknowledged "
        "or archived",
    },
)
_STATES = {int(state): state.name.lower() for state in DeliveryState}
_RUN = ("first_offset", "last_offset", "delivery_state", "delivery_count")


def suspects(windows: pa.Table, least: int, limit: int | None) -> pa.Table:
    """Return offsets in windows that may never succeed, most deliveries first, as `SUSPECTS`.

    ``windows`` also have ``topic``. The result has unfinished offsets from ``least`` deliveries on,
    and archived runs and runs at the head of a window with any delivery count. Of a head without a
    persisted state it has only the offset that pins the start offset, with a null delivery count.
    ``limit`` is ``share.delivery.count.limit``; None: unknown.
    """
    runs = windows.column("runs").combine_chunks()
    flat, parents = pc.list_flatten(runs), pc.list_parent_indices(runs)
    first, last, states, counts = (pc.struct_field(flat, [name]) for name in _RUN)
    head = windows.column("effective_start_offset").combine_chunks()
    archived = pc.equal(states, int(DeliveryState.ARCHIVED))
    pins = pc.equal(first, head.take(parents)).fill_null(False)
    words = _words({PINS: pins, OFTEN: pc.greater_equal(counts, least), GIVEN_UP: archived})
    named = pa.array(list(_STATES.values())).take(
        pc.index_in(states.cast(pa.int64()), pa.array(list(_STATES)))
    )
    left = pc.max_element_wise(
        pc.subtract(pa.scalar(limit, pa.int64()), counts.cast(pa.int64())), 0, skip_nulls=False
    )
    left = pc.if_else(archived, None, left)
    found = _rows(windows, parents, [first, last, named, counts, left, words])
    listed = pc.and_(pc.not_equal(words, ""), pc.not_equal(states, int(DeliveryState.ACKNOWLEDGED)))
    both = pa.concat_tables([found.filter(listed), _without_state(windows, first, parents, head)])
    return both.sort_by([("delivery_count", "descending"), ("offsets", "descending")])


def _words(reasons: Mapping[str, pa.Array]) -> pa.Array:
    """Return the reasons that apply to each run."""
    words = list(reasons)
    sets = [
        ", ".join(word for n, word in enumerate(words) if chosen >> n & 1)
        for chosen in range(2 ** len(words))
    ]
    chosen = sum(
        holds.to_numpy(zero_copy_only=False).astype(np.int64) << n
        for n, holds in enumerate(reasons.values())
    )
    return pa.array(sets).take(pa.array(chosen))


def _without_state(
    windows: pa.Table, first: pa.Array, parents: pa.Array, head: pa.Array
) -> pa.Table:
    """Return the head offset of each window that has runs, but none at its head."""
    begun = pc.is_in(
        pa.array(range(len(windows)), pa.int64()),
        parents.filter(pc.equal(first, head.take(parents))),
    )
    goes_on = pc.less(head, windows.column("window_end_offset").combine_chunks())
    rows = pc.indices_nonzero(pc.and_(goes_on, pc.invert(begun)).fill_null(False)).cast(pa.int64())
    at = head.take(rows)
    unknown = pa.nulls(len(rows), pa.int64())
    state, why = (pa.repeat(words, len(rows)) for words in (NOT_PERSISTED, PINS))
    return _rows(windows, rows, [at, at, state, unknown, unknown, why])


def _rows(windows: pa.Table, parents: pa.Array, columns: list[pa.Array]) -> pa.Table:
    """Return columns of `SUSPECTS` from ``first_offset`` on, with the names of their windows."""
    first, last, *others = columns
    rows = windows.select(SUSPECTS.names[:4]).take(parents)
    made = [*rows.columns, first, last, pc.add(pc.subtract(last, first), 1), *others]
    return pa.table(made, names=SUSPECTS.names).cast(SUSPECTS)


_KEY = (*SHARE_PARTITION, "first_offset")
_MEANS = VIEW.without("topic", "partition").means


class PoisonHunt(GroupDashboard):
    """Offsets that were delivered repeatedly, archived, or pin a start offset."""

    TITLE = "Poison records"
    HELP = {
        "What it shows": "offsets in the window that were delivered at least this often without "
        "being acknowledged, those that are archived, and those that the start offset waits for",
        "What it cannot show": "archived offsets that the start offset has passed, and why a "
        "record failed: look at it at its offset with a consumer",
        "Picking": "a row: the strip shows that share partition, with these offsets marked",
    } | _MEANS

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.least = counter("Delivered at least", 2, 1, 32767)
        self.least.observe(self.show, names=["value"])
        self._rows = Selection(columns=_KEY)
        self._rows.observe(self._picked_rows, names=["keys"])
        self.selection.observe(self._follow, names=["keys", "offsets"])
        self.table = TablePart("Suspicious offsets", self._rows)
        self.counts = ChartPart("Delivery counts", {"delivery count": _MEANS["delivery_count"]})
        self.counts.add_class("sharelag-row")  # full width
        self.strip = StripPart(
            "Where they are",
            meanings_of(["start_offset", "window_end_offset", "window_available"]),
            self.selection,
        )
        self.cards = CauseCards()
        causes = Part("Causes", CAUSES_HELP, self.cards)
        return [self._group_choice(), self.least], [self.table, causes, self.strip, self.counts]

    def _show(self) -> None:
        group = self._known_group()
        windows, lag = self.bench.windows(group), self.bench.lag(group)
        self._limit = delivery_limit(self.bench.evidence(group).settings, group)
        self.found = suspects(windows.table, self.least.value, self._limit)
        lost = () if self._limit else ("the delivery limit, and so how many deliveries are left",)
        shown = replace(
            lag,
            order="delivery_count",
            unknown=(*lost, *windows.unknown),
            notes=(self._words(group),),
            means=VIEW.means,
        )
        self.table.fill(shown, self.found, VIEW.names)
        self.header.tell(lag.as_of, shown.unknown)
        first = first_come(self.bench.moments(group).table, self.found)
        self.strip.show(self.bench, group, first)
        self.cards.show(self.bench, group)
        if self.selection.offsets is not None:
            self._follow()

    def _first_group(self) -> str:
        """Return the group whose offsets were delivered most often, or archived."""
        found = suspects(self.bench.windows().table, self.least.value, None)
        mine = found.filter(pc.match_substring_regex(found.column("why"), f"{OFTEN}|{GIVEN_UP}"))
        return str(mine.column("group_id")[0]) if len(mine) else super()._first_group()

    def _prepare_group(self, bench: Workbench, group: str) -> None:
        bench.moments(group)

    def _draw(self) -> None:
        as_of = self.bench.lag(self.group).as_of
        windows = self.bench.windows(self.group).table
        self.counts.draw(chart("delivery_count", windows, as_of, limit=self._limit)(self.theme))

    def _words(self, group: str) -> str:
        often = pc.match_substring(self.found.column("why"), OFTEN)
        offsets = pc.sum(self.found.filter(often).column("offsets")).as_py() or 0
        pinned = pc.sum(pc.match_substring(self.found.column("why"), PINS)).as_py() or 0
        observed = self.bench.evidence(group).observed
        archived = pc.sum(observed.column("archived")).as_py() if observed.num_rows else None
        gone = "how many were archived is not known"
        if archived is not None:
            gone = f"{text.number(archived)} archived"
        return (
            f"{text.pluralize(offsets, 'offset')} delivered at least {self.least.value} times and "
            f"not acknowledged; {text.pluralize(pinned, 'start offset')} "
            f"{'wait' if pinned != 1 else 'waits'} for an offset listed here; {gone} over the "
            "span, including those below the start offset now"
        )

    def close(self) -> None:
        """Close all views, and detach from a selection that outlives this."""
        if self.comm is not None:
            self.selection.unobserve(self._follow, names=["keys", "offsets"])
        super().close()

    def _picked_rows(self, change: Any) -> None:
        """Pick the share partitions of picked rows, and the offsets of a single row."""
        if self._hearing:
            return
        rows = self._rows.of(self.found) if change["new"] else self.found.slice(0, 0)
        with self._deaf(), self.selection.hold_trait_notifications():
            self.selection.keys = tuple(dict.fromkeys(keys_of(rows, SHARE_PARTITION)))
            ends = rows.select(["first_offset", "last_offset"]).to_pylist()
            self.selection.offsets = tuple(ends[0].values()) if len(ends) == 1 else None

    def _follow(self, _: Any = None) -> None:
        """Pick the rows whose offsets are picked, here or in a linked view."""
        if self._hearing:
            return
        with self._deaf():
            self._rows.keys = tuple(keys_of(self._touched(), _KEY))

    def _touched(self) -> pa.Table:
        if not self.selection.keys or self.selection.offsets is None:
            return SUSPECTS.empty_table()
        first, last = self.selection.offsets
        mine = self.selection.of(self.found)
        begun = pc.less_equal(mine.column("first_offset"), last)
        return mine.filter(pc.and_(begun, pc.greater_equal(mine.column("last_offset"), first)))

    found: pa.Table = SUSPECTS.empty_table()
