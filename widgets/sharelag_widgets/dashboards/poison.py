"""Records that fail again and again: which, since when, and what giving them up would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as W  # noqa: N812
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.charts import text
from sharelag.metrics.holders import holder_lines
from sharelag.model import DeliveryState
from sharelag.schemas import NAMED_SHARE_PARTITION
from sharelag.tables.declared import meanings_of
from sharelag.tables.views import view
from sharelag.workbench import Workbench
from sharelag.workbench.opened import delivery_limit, first_come
from sharelag.workbench.result import chart

from ..selection import SHARE_PARTITION, Selection, keys_of
from .dashboard import GroupDashboard
from .parts import ChartPart, Part, StripPart, TablePart
from .pieces import CAUSES_HELP, CauseCards

#: Offsets that share a state and a delivery count.
SUSPECTS = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("offsets", pa.int64()),
        ("state", pa.string()),  # available, archived, ..., or that none is persisted
        ("delivery_count", pa.int16()),  # null where no state is persisted
        # deliveries until the limit; null where nothing is left to deliver, or nobody knows
        ("left", pa.int16()),
        ("why", pa.string()),  # one or more of the words below
    ]
)
#: Instead of a state: a member holds the offset, or it is that of a transaction marker.
NOT_PERSISTED = "no state persisted"
#: Why offsets are listed.
OFTEN, GIVEN_UP, PINS = "delivered often", "archived", "pins the start offset"
#: What people are shown of them.
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
    """Offsets in windows that may not get through, those delivered most often first, as `SUSPECTS`.

    ``windows`` have ``topic`` beside. Offsets that are not acknowledged are listed from ``least``
    deliveries on; also what is archived, and what begins at the head of a window, at any delivery
    count. Of a head without a persisted state only the one offset that pins the start offset, and
    its delivery count is null. ``limit`` is ``share.delivery.count.limit``; None: nobody knows.
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
    """Return the reasons that hold, of each run."""
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
    """Return the offset at the head of each window where no run begins but runs follow."""
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
    """The columns of `SUSPECTS` from ``first_offset`` on, beside the names of their windows."""
    first, last, *others = columns
    rows = windows.select(SUSPECTS.names[:4]).take(parents)
    made = [*rows.columns, first, last, pc.add(pc.subtract(last, first), 1), *others]
    return pa.table(made, names=SUSPECTS.names).cast(SUSPECTS)


_KEY = (*SHARE_PARTITION, "first_offset")
_MEANS = VIEW.without("topic", "partition").means


class PoisonHunt(GroupDashboard):
    """Offsets delivered again and again, given up, or pinning a start offset."""

    TITLE = "Poison records"
    HELP = {
        "What it shows": "offsets in the window that were delivered at least so often without "
        "being acknowledged, those that are archived, and those that the start offset waits for",
        "What it cannot show": "archived offsets that the start offset has passed, and why a "
        "record failed: look at it at its offset with a consumer",
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
        self._rows = Selection(columns=_KEY)
        self._rows.observe(self._picked_rows, names=["keys"])
        self.selection.observe(self._follow, names=["keys", "offsets"])
        self.table = TablePart("Suspicious offsets", self._rows)
        self.counts = ChartPart("Delivery counts", {"delivery count": _MEANS["delivery_count"]})
        self.counts.add_class("sharelag-row")  # nothing stands beside it
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
        evidence = self.bench.evidence(group)
        held = holder_lines(evidence.lag, evidence.holders)
        moments = first_come(self.bench.moments(group).table, self.found)
        self.strip.fill(moments, lag.table, self._limit, held)
        self.cards.show(self.bench, group)
        if self.selection.offsets is not None:
            self._follow()

    def _first_group(self) -> str:
        """Return the group whose offsets were delivered most often, or given up."""
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
            f"{text.counted(offsets, 'offset')} delivered at least {self.least.value} times and "
            f"not acknowledged; {text.counted(pinned, 'start offset')} "
            f"{'wait' if pinned != 1 else 'waits'} for an offset listed here; {gone} over the "
            "span, including those below the start offset now"
        )

    def close(self) -> None:
        """Let go of everything, also of a selection that outlives this."""
        if self.comm is not None:
            self.selection.unobserve(self._follow, names=["keys", "offsets"])
        super().close()

    def _picked_rows(self, change: Any) -> None:
        """Rows are picked: their share partitions are, and the offsets of a single row."""
        if self._hearing:
            return
        rows = self._rows.of(self.found) if change["new"] else self.found.slice(0, 0)
        with self._deaf(), self.selection.hold_trait_notifications():
            self.selection.keys = tuple(dict.fromkeys(keys_of(rows, SHARE_PARTITION)))
            ends = rows.select(["first_offset", "last_offset"]).to_pylist()
            self.selection.offsets = tuple(ends[0].values()) if len(ends) == 1 else None

    def _follow(self, _: Any = None) -> None:
        """The rows are picked whose offsets are, here or in a linked view."""
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
