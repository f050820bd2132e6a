"""The present state: a verdict, all groups, and one group with causes, history and what-ifs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from sharelag import charts, schemas
from sharelag.charts import text
from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.inputs import KafkaInput
from sharelag.metrics.lag import rollup_arrow
from sharelag.model import iso
from sharelag.tables.declared import meanings_of
from sharelag.tables.words import lag_sum, shown_name, terminal
from sharelag.whatif.horizon import LONGEST_MS
from sharelag.workbench import Result, Workbench
from sharelag.workbench.next_steps import input_name
from sharelag.workbench.result import chart

from .. import still
from ..partition_grid import PartitionGrid
from ..run import Run
from ..view import Selection
from .dashboard import IN_A_GROUP
from .fleet import (
    COLUMNS,
    MEASURES,
    charts_help,
    groups_table,
    in_words,
    incident_text,
    measure,
    with_trends,
)
from .past import CLEARS, SEARCH, SEEDS, PastGroup, fitting, reasons_against
from .pieces import (
    CAUSES_HELP,
    CauseCards,
    ChartPart,
    Fold,
    Part,
    PeekView,
    StripPart,
    TablePart,
    Verdict,
    show_known,
)
from .what_if import WhatIfLab

#: Maximum number of groups of which healthy ones are not folded.
ALL_IN_SIGHT = 12
#: Maximum number of groups of unknown age that are named.
NAMED = 5
READING = "Reading how it came about ..."
#: The message on an invalid field of the lab, which shows the error.
LAB_REFUSES = "Correct the field in the what-if lab below first."
STORY_HELP = meanings_of(["lag", "age_ms"]) | {
    "shade": "how long each cause has lasted, labelled where it begins",
    "mark": "a member joined or left, the last one left, a new leader, records archived (also "
    "by retention, which the state does not tell apart), a reset, or a deleted state",
    "dragging": "moves through time: the window below shows that moment",
    "curves": "after a what-if: lag from now on, with its 95 % interval",
}


class Now(PastGroup):
    """All groups with a verdict, and the picked one: causes, history, window, what-ifs."""

    TITLE = "Now"
    IS_GRID = False
    HELP = {
        "What it shows": "the state of the share groups, worst first, and one of them in detail",
        "Picking": "a group in the table, by / and its name or by arrows and Enter; a moment "
        "in the chart or the window moves everything to it",
        CLEARS: "the what-if lab opens and tries assignors with more and more members, until it is",
        "What if": f"the group simulated for {duration(LONGEST_MS)} from its current state, or "
        f"shorter if much arrives, with {len(SEEDS)} seeds, as it is and with one change",
    } | meanings_of(["lag", "age_ms"])

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        if input_name(self.bench.source):
            self.header.source = ""  # shown in the title
        self._shown: Workbench | None = None  # in the parts on all groups
        self._table_of: tuple[Workbench, bool] | None = None  # with whether it has trends
        self._channel = ""
        self._look_back()
        self.verdict = Verdict(
            {"worst": self._show_worst, "what if": self._try_worst, "now": self._back}
        )
        self._picked = Selection(columns=["group_id"])
        self._picked.observe(self._picked_row, names=["keys"])
        self.table = groups_table(self._picked)
        self.grid = PartitionGrid.of(
            schemas.LAG.empty_table(), measures=[], selection=self.selection, title=""
        )
        cells = Part("Share partitions", meanings_of(MEASURES), self.grid)
        self.parts = ChartPart("What the lag consists of", charts_help(), says_gaps=True)
        self.cards = CauseCards(self.run)
        causes = Part("Causes", CAUSES_HELP, self.cards)
        self.over_time = ChartPart(
            "Lag and age over time", STORY_HELP, self.selection, times=True, says_gaps=True
        )
        self.strip = StripPart(
            "The window, offset by offset",
            meanings_of(["start_offset", "window_end_offset", "unread", "window_available"]),
            self.selection,
        )
        self.record = PeekView(self._peeked)
        self.strip.view.observe(self._name_record, names=["cursor", "offsets", "shown"])
        self.matrix = ChartPart(
            "Who has which partitions", {"cell": "lag of a share partition"}, says_gaps=True
        )
        self.rows_of_group = TablePart(
            "Share partitions of the group", self.selection, without=IN_A_GROUP
        )
        cure = W.VBox([causes, self._make_trials()])
        left = W.VBox([self.table, cells, self.parts, self.matrix], layout=W.Layout(flex="55"))
        right = W.VBox([self.over_time, cure], layout=W.Layout(flex="45"))
        self.columns = W.Box([left, right], layout=W.Layout(width="100%"))
        self.columns.add_class("sharelag-columns")
        self.lab: WhatIfLab | None = None  # made when it is opened
        self.more_tries = Fold("What-if lab: assignors, members and settings", [])
        self.more_tries.button.observe(self._show_lab, names=["display"])
        below = [self.more_tries, self.strip, self.record, self.rows_of_group]
        for part in (self.over_time, cure, self.parts, self.matrix, *below):
            part.add_class("sharelag-mine")
        self.add_class("sharelag-now")
        return [self.range, self._group_choice()], [self.verdict, self.columns, *below]

    def _top(self) -> Sequence[W.Widget]:
        """Return the sticky bar; its controls come before those of the header, as they are seen."""
        self.controls.add_class("sharelag-controls")
        bar = W.Box(super()._top()[::-1], layout=W.Layout(width="100%"))
        bar.add_class("sharelag-bar")
        return [bar]

    def _begin(self) -> None:
        """Start to show: with a slow input and a visible page, lag first, then the verdict."""
        if self.bench.is_gathered or not self._is_slow():
            self.show()
            return
        with self._lock:
            self._only_lag = True
            self._try(self._show_lag_alone)
            if self.header.failure:
                return
            self.header.busy = True
            self._run = Run(self._gather, self._was_read)
        self._run.start()

    def _show_lag_alone(self) -> None:
        """Show the groups with their lag, which is known long before its causes."""
        lag = (self.bench.here() or self.bench).lag().table
        groups = pa.Table.from_batches([rollup_arrow(lag, "group")])
        groups = groups.sort_by([("lag", "descending")])
        self.header.tell(pc.max(lag.column("as_of")).as_py())
        unknown = pc.sum(groups.column("unknown_lags")).as_py() or 0
        total = lag_sum(pc.sum(groups.column("lag")).as_py(), unknown)
        self.verdict.sentence = f"Lag {total} of {len(groups):,} share groups"
        self.verdict.busy = "Reading what causes it ..."
        names = ["group_id", "lag", "partitions"]
        self.table.show(groups.select(names), meanings_of(names))
        self._hide(True)

    def _hide(self, is_hidden: bool) -> None:
        """Hide or show the parts that need everything."""
        left, right = self.columns.children
        for part in (*left.children[1:], right, self.more_tries, self.strip, self.rows_of_group):
            part.layout.display = "none" if is_hidden else None

    def _gather(self, _: Callable[[], bool], __: Callable[[int, int], None]) -> Workbench:
        whole = self.bench
        if self._is_on_spark() and (here := whole.here()):
            here.overview()
            with self._lock:
                self.bench = here
            whole.overview()
            self._prepare(whole)
        whole.overview()
        return whole

    def _was_read(self, run: Run, fresh: Workbench | None, error: BaseException | None) -> None:
        super()._was_read(run, fresh, error)
        if fresh is None:
            self.verdict.busy = ""  # the header shows the error

    def show(self, *_: Any) -> None:
        """Fill everything; parts of the previous group are dim until then."""
        self.add_class("sharelag-waits")
        super().show()
        self.remove_class("sharelag-waits")

    def still(self) -> str:
        """Return the verdict and the parts as HTML."""
        return still.words(f"{self.verdict.level}: {self.verdict.sentence}") + super().still()

    # ---- content ---------------------------------------------------------------------------------

    def _show(self) -> None:
        group = self._known_group()
        if self._only_lag:
            self._only_lag, self.verdict.busy = False, ""
            self._hide(False)
        if self.seen is not self._alone:
            if self._shown is not self.seen:
                self._show_all()
            self._show_groups(self._has_past(group))
            self._say(group)
        with self._deaf():
            self._picked.keys = ((group,),)
        self._look_at(group)
        if group in self.seen.groups:
            later = None if self.seen is self.bench else self.bench
            self.cards.show(self.seen, group, self.fits, later)
        else:
            self.cards.tell(group, "had no state yet", [])
        self.grid.marked = group
        if self._has_past(group):
            self.strip.show(self.bench, group)
            self._name_record()
        else:
            self.record.about = ""
            self.strip.wait(READING)
        lag = self.seen.lag()
        self.rows_of_group.fill(replace(lag, table=self._mine(lag.table)))
        self._show_trials()
        self._show_lab()

    def _show_lab(self, _: Any = None) -> None:
        """Show the group in the lab, if it is open, as of the last moment."""
        if not self.more_tries.is_open:
            return
        if self.lab is None:
            self.lab = lab = WhatIfLab(self.bench, self.group, selection=self.selection, every=0)
            # The bar has the moment, group and theme of both.
            lab.header.level, lab.groups.layout.display = 3, "none"
            # Without own background.
            lab.remove_class("sharelag-dashboard").add_class("sharelag-lab")
            for name, its in (("theme", "theme"), ("as_of", "above")):
                traitlets.dlink((self.header, name), (lab.header, its))
            lab.observe(self._show_search, names=["state"])
            self.more_tries.content.children = [lab]
        elif self.lab.bench is not self.bench:
            self.lab.bench = self.bench
        if self.lab.group != self.group:
            self.lab.group = str(self.group)

    def run(self, name: str) -> None:
        """Simulate one change; a search for what clears the lag opens the lab."""
        if name != SEARCH:
            super().run(name)
            return
        if self.header.busy or self.what_if.busy:
            return
        self.more_tries.is_open = True
        if self.lab is not None:
            self.what_if.sentence, self.what_if.busy = "", CLEARS
            self.lab.search()
            self._show_search()

    def cancel(self) -> None:
        """Stop waiting for a what-if, including a search in the lab."""
        super().cancel()
        if self.lab is not None:
            self.lab.cancel()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all what-ifs end; return whether they did."""
        return super().join(timeout) and (self.lab is None or self.lab.join(timeout))

    def _show_search(self, _: Any = None) -> None:
        """Show the outcome of a search in the lab here, too."""
        lab = self.lab
        if lab is None or lab.state == "running" or self.what_if.busy != CLEARS:
            return
        self.what_if.busy = ""
        if lab.state == "done" and lab.clearing is not None and lab.group == self.group:
            self._begin_with(lab.compared)
            self.clearing, self.what_if.sentence = lab.clearing, lab.verdict.sentence
            self._show_trials()
        elif lab.state == "failed":
            self.what_if.sentence = lab.header.failure or LAB_REFUSES

    def _show_all(self) -> None:
        """Fill the parts on all groups, which stay when another group is picked."""
        overview = self.seen.overview()
        self._past = {one for one in self._past if one[0] is self.bench}
        self.header.tell(overview.as_of, self._unknown(overview), overview.notes)
        self.header.earlier = self.seen is not self.bench
        self._channel = incident_text(self.seen)
        self.rows = measure(self.seen)
        show_known(self.grid, self.rows, MEASURES)
        self._shown = self.seen

    def _show_groups(self, has_trends: bool) -> None:
        """Fill the table of groups, without trends if these are read later."""
        if self._table_of in ((self.seen, True), (self.seen, has_trends)):
            return
        overview = self.seen.overview()
        groups = in_words(overview.table)
        if has_trends:
            groups = with_trends(groups, self.bench.trends())
        self.table.fill(overview, groups, COLUMNS)
        if self.table.view is not None and len(groups) <= ALL_IN_SIGHT:
            self.table.view.folded = {}
        self._table_of = (self.seen, has_trends)

    def _name_record(self, _: Any = None) -> None:
        """Name the record to peek at: at the cursor, the picked one, or the first."""
        place = self._place() if isinstance(self.bench.source, KafkaInput) else None
        self.record.about = "" if place is None else terminal("{}:{}:{}".format(*place))

    def _place(self) -> tuple[str, int, int] | None:
        """Return topic, partition and offset at the cursor of the window."""
        view = self.strip.view
        if self._only_lag or not view.shown_key:
            return None
        group, topic_id, partition = view.shown_key
        for row in self.bench.lag(group).table.to_pylist():
            if (row["topic_id"], row["partition"]) == (topic_id, partition):
                first = view.offsets[0] if view.offsets else row["effective_start_offset"]
                at = first if view.cursor is None else view.cursor
                if at is not None and row["topic"] is not None:
                    return row["topic"], partition, int(at)
        return None

    def _peeked(self) -> str:
        place = self._place()
        if place is None:
            raise InputError("choose an offset in the window above")
        return self.bench.peek(str(self.group), *place).text()

    def _draw(self) -> None:
        if self._only_lag:
            return
        group = str(self.group)
        if self._has_past(group):  # the visible parts first
            self._draw_story(group)
        else:
            self.over_time.wait(READING)
            self._read_past_soon()
        lag = self.chosen(self._mine(self.seen.lag().table))
        self.parts.draw(chart("decomposition", lag)(self.theme))
        self._draw_matrix()

    def _draw_story(self, group: str) -> None:
        records = self._in_range(charts.group_story_records(self.chosen(self._timeline(group))))
        story = charts.group_story_figure(
            records,
            self.bench.explain(group).table,
            self.bench.events(group).table,
            self.theme,
            self.comparison.projected if self.comparison and self._is_tried() else None,
            self._begun.as_of if self._begun else None,
        )
        self.over_time.draw(story)

    def _draw_matrix(self) -> None:
        members = self._mine(self.seen.evidence().members)
        self.matrix.layout.display = None if len(members) else "none"
        if len(members):
            lag = self._mine(self.seen.lag().table)
            self.matrix.draw(chart("assigned", members, lag)(self.theme))

    def _say(self, group: str) -> None:
        overview = self.seen.overview()
        groups, worst = overview.table, overview.table.column("level")[0].as_py()
        at = overview.as_of if self.header.earlier else None
        moment = "" if at is None else f".at({iso(at)!r})"
        code = f"""from sharelag import charts
then, group = bench{moment}, {group!r}
story = charts.group_story_records(bench.timeline(group).table)
causes, events = bench.explain(group).table, bench.events(group).table
display(then.overview(), charts.group_story_figure(story, causes, events))
display(then.explain(group), then.lag(group).plot('decomposition'))
display(bench.strip(group), then.lag(group))"""
        with self.verdict.hold_sync():
            self.verdict.level, self.verdict.sentence = worst, overview.title
            bad = worst in ("critical", "warning")
            self.verdict.actions = [
                *([["what if", "Simulate the fix", self._worst_fix()[1]]] if bad else []),
                *([["worst", "Show the worst", ""]] if len(groups) > 1 else []),
                *([["now", "Back to the last moment", ""]] if self.header.earlier else []),
            ]
            self.verdict.copies = [
                ["Copy for the incident channel", self._channel],
                ["Copy the Python behind this", code],
            ]

    def _unknown(self, overview: Result) -> list[str]:
        """Return the unknown values of all groups: of the input, of lags, and of ages."""
        rows = overview.table.to_pylist()
        ageless = [
            shown_name(row["group_id"]) for row in rows if row["age_ms"] is None and row["lag"] != 0
        ]
        more = f" and {len(ageless) - NAMED:,} more" if len(ageless) > NAMED else ""
        ages = [f"the age of the lag in {', '.join(ageless[:NAMED])}{more}"] if ageless else []
        return [*dict.fromkeys([*overview.unknown, *self.seen.lag().unknown, *ages])]

    def _say_once(self) -> None:
        """Show unknown values of the cluster in the header; those of charts are above them."""
        super()._say_once()
        self.header.unknown = self.header.own_unknown

    def _first_group(self) -> str:
        """Return the group of the verdict."""
        return str(self.bench.overview().table.column("group_id")[0])

    def _title(self) -> str:
        name = input_name(self.bench.source)
        return f"{self.TITLE}: {text.name(name, None)}" if name else self.TITLE

    def _back(self) -> None:
        self.selection.moment = None

    def _show_worst(self) -> None:
        self.group = self._first_group()

    def _try_worst(self) -> None:
        """Show the worst group, and simulate the what-if of its first cause."""
        self._show_worst()
        self.run(self._worst_fix()[0])

    def _worst_fix(self) -> tuple[str, str]:
        """Return the what-if of the worst group, and why it cannot help."""
        cause = self.bench.overview().table.column("cause")[0].as_py()
        return fitting(cause, reasons_against(self.bench, self._first_group()))

    def _picked_row(self, change: Any) -> None:
        if not self._hearing and change["new"]:
            self.selection.clear()
            self.group = change["new"][0][0]
