"""Simulation and comparison of other assignors, members and settings from the present state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from sharelag.charts import clearing_figure, projection_figure, text
from sharelag.errors import InputError
from sharelag.tables import render
from sharelag.whatif import (
    Clearing,
    Comparison,
    Scenario,
    assignor_descriptions,
    assignor_names,
    what_if,
)
from sharelag.whatif.comparison.rows import measure_words, sentence, unknown_work
from sharelag.whatif.compiled.coordinator import by_topic
from sharelag.whatif.fixed import with_assignment
from sharelag.whatif.horizon import require_end, size
from sharelag.whatif.simulation.clock import CancelledError
from sharelag.workbench.result import chart

from ..assignment_editor import Assignment, AssignmentEditor, Difference
from ..run import STATES, Run
from ..view import Selection
from .dashboard import GroupDashboard
from .pieces import ChartPart, Fold, Part, TablePart, Verdict, choice, words_of
from .trials import (
    LESS,
    MEANS,
    OF_MEASURES,
    Presets,
    assignment_of,
    describe_baseline,
    difference_rows,
    known_measures,
    notes_of,
    shorter,
    simulate_options,
    watch_comparison,
    watch_search,
)

_COLUMNS = ["group_id", "topic_id", "topic", "partition", "lag"]


class State(NamedTuple):
    """The state that a simulation starts from."""

    group: str
    as_of: datetime | None

    def words(self) -> str:
        """Return the initial state in words."""
        return f"Simulated from the state of {text.moment(self.as_of)}."


class ByHand(Part):
    """An assignment editor; a refresh keeps edits and run, another group replaces them."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._group: str | None = None
        words = "move partitions between members by mouse or keys, and run it against "
        help_ = {"edit": f"{words}the group as it is"}
        super().__init__("An assignment by hand", help_)

    def fill(
        self,
        state: State,
        scenario: Scenario,
        lag: pa.Table,
        members: pa.Table,
        chance: Callable[[], tuple[float, range]],
    ) -> None:
        """Start with the members and partitions of the scenario's moment.

        ``chance`` returns the duration in seconds and the seeds at the start of each run.
        """

        def try_out(held: Assignment, cancelled: Any, progress: Any) -> Difference | None:
            seconds, seeds = chance()
            base = shorter(scenario, seconds)
            require_end([size(base)] * 2, len(seeds), LESS)
            assumed = with_assignment(base, held).assumed
            rows = what_if(base, held, seeds=seeds, cancelled=cancelled, progress=progress)
            if rows is None:
                return None
            why = f" {sentence(unknown)}" if (unknown := unknown_work(base)) else ""
            return Difference(rows, tuple(seeds), assumed, "95 % interval", state.words() + why)

        def load(name: str, held: Assignment) -> Assignment:
            return assignment_of(with_assignment(scenario, held), name)

        partitions = partitions_of(lag, scenario)
        held, words = assign(scenario, members, partitions)
        clients = clients_of(state.group, members)
        can: dict[str, Any] = {"on_run": try_out, "on_load": load, "member_labels": clients}
        if self._group == state.group:
            self.children[1].renew(partitions, held, **can)
        else:
            choices, of = assignor_names(), self._selection
            editor = AssignmentEditor.of(
                partitions, held, choices=choices, selection=of, title="", **can
            )
            self.put(editor)
        self._group = state.group
        self.header.tell(None, notes=(words,))

    def still(self) -> str:
        """Return nothing, because edits need a kernel."""
        return ""


def partitions_of(lag: pa.Table, scenario: Scenario) -> pa.Table:
    """Return the rows of a lag table with simulated partitions, for an editor."""
    places = {(one.name, number) for one in scenario.topics for number in range(one.partitions)}
    chosen = pa.array([place in places for place in _places(lag)], pa.bool_())
    return lag.filter(chosen).select(_COLUMNS)


def _places(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(*(rows.column(name).to_pylist() for name in ("topic", "partition")), strict=True)


def assign(scenario: Scenario, members: pa.Table, partitions: pa.Table) -> tuple[Assignment, str]:
    """Return the current assignment, or that of the scenario's assignor if it is unknown.

    Members of the scenario have their ids; partitions missing from ``partitions`` (of
    `partitions_of`) are left out. The second result is the source in words.
    """
    each = scenario.each_member()
    is_known = pc.and_(
        pc.equal(members.column("group_id"), scenario.group_id),
        members.column("assigned_partitions").is_valid(),
    )
    known = set(members.filter(is_known).column("member_id").to_pylist())
    unknown = [member.name for member in each if member.name not in known]
    if not each:
        return {}, "The group has no members: add members, and give them partitions."
    if len(unknown) == len(each):
        held = assignment_of(scenario, scenario.assignor)
        words = (
            "Which partitions the members have is not known: it begins with what "
            f"{scenario.assignor} gives them."
        )
    else:
        held = {member.name: by_topic(member.assigned) for member in each}
        words = "It begins with the partitions that the members have."
        if unknown:
            who = text.pluralize(len(unknown), "member")
            words += f" Of {who} that is not known: without any here."
    there = set(_places(partitions))
    kept = {
        member: {
            topic: [n for n in numbers if (topic, n) in there] for topic, numbers in topics.items()
        }
        for member, topics in held.items()
    }
    return kept, words


def clients_of(group: str, members: pa.Table) -> dict[str, str]:
    """Return the known client and host of each member of a group."""
    rows = members.filter(pc.equal(members.column("group_id"), group)).to_pylist()
    clients = {
        row["member_id"]: " at ".join(filter(None, (row["client_id"], row["client_host"])))
        for row in rows
    }
    return {member: words for member, words in clients.items() if words}


#: The text before the first run.
_INVITED = (
    "Find what clears the lag; or change members, lock duration or assignors, and run it: what "
    "would happen to the lag?"
)


#: The work of a thread, the equivalent Python, and the number of runs.
_Work: TypeAlias = tuple[Callable[..., Any], str, int]


class WhatIfLab(GroupDashboard):
    """What-ifs on members, locks and assignors: a verdict and projected curves.

    One button tries assignors with increasing numbers of members until the lag clears. All
    measures, seeds and further settings are folded under *Advanced*.

    Attributes
    ----------
    state
        idle, running, done, cancelled or failed.
    comparison
        The last complete one; None before. It covers one group as of one moment, and is shown with
        that group only.
    clearing
        The last search, if it was the last request; its comparison is that of the lab.
    """

    TITLE = "What if"
    IS_GRID = False
    HELP = {
        "What it shows": "the group simulated as it is (baseline), and with each combination "
        "of what is chosen, over the same time and with the same seeds",
        "seed": "random seed of a run: with the same seed all variants see the same random "
        "events, and the same choices give the same result",
        "empty fields": "as it is in the group; several numbers, such as 8, 16, are all tried",
    } | MEANS

    state = traitlets.Enum(STATES, "idle")

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.comparison: Comparison | None = None
        self.clearing: Clearing | None = None
        self._trial: Run | None = None
        self.presets = Presets(self.run)
        of = self.presets
        self.members, self.locks, self.assignors = of.members, of.locks, of.assignors
        self.limits, self.runs, self.seed, self.seconds = of.limits, of.runs, of.seed, of.seconds
        clears = "Find what clears the lag"
        self.find = W.Button(description=clears, button_style="primary", layout={"width": "auto"})
        self.start = W.Button(description="Run", layout={"width": "8em"})
        self.stop = W.Button(description="Cancel", disabled=True, layout={"width": "8em"})
        self.find.on_click(lambda _: self.search())
        self.start.on_click(lambda _: self.run())
        self.stop.on_click(lambda _: self.cancel())
        self.bar = W.IntProgress(0, 0, 1, description="Not run yet", layout=W.Layout(width="22em"))
        self.bar.style.description_width = "initial"
        self.verdict = Verdict({}, sentence=_INVITED)
        self.grid = ChartPart(
            "Assignors by members",
            {"cell": "when the lag is gone, p95 age of the oldest record, member-hours"},
        )
        self.grid.view.layout.flex = "1 0 auto"
        scrolling = W.Layout(overflow="auto hidden", width="100%")
        self.grid.children = [self.grid.header, W.Box([self.grid.view], layout=scrolling)]
        means = {"lag": "of the whole group, in offsets, simulated"}
        means |= {"age": "of the oldest unfinished record"}
        self.projection = ChartPart("Lag and age from now on", means)
        self.grid.layout.display = self.projection.layout.display = "none"
        self.header.help = [*self.header.help, *map(list, assignor_descriptions().items())]
        self.decided = W.HTML()
        self.decision = Part("What decides", {}, self.decided)
        self.decision.layout.display = "none"
        self.measure = choice("Measure", [], self._measured)
        means = {name: MEANS[name] for name in ("difference", "interval")}
        self.chart = ChartPart("Difference to the group as it is", means)
        self.table = TablePart(
            "All measures", Selection(columns=["measure", "variant"]), MEANS | OF_MEASURES
        )
        self.results = W.VBox([W.HBox([self.measure]), self.chart, self.table])
        self.results.layout.display = "none"
        self.assumed = Part(
            "What is assumed", {"assumed": "what the cluster's state does not show"}, W.HTML()
        )
        self.editor = ByHand(self.selection)
        self.advanced = Fold("Advanced", [of.advanced, self.results])
        self.advanced.button.observe(self.redraw, names=["display"])
        self._fields = [*of.fields, self.find, self.start]
        go = W.HBox(
            [self.find, self.start, self.stop, self.bar],
            layout=W.Layout(flex_flow="row wrap", grid_gap="4px 14px", width="100%"),
        )
        shown = [self.verdict, self.grid, self.projection, self.decision]
        parts = [*shown, self.advanced, self.assumed, self.editor]
        return [self._group_choice(), of, go], parts

    def _show(self) -> None:
        group = self._known_group()
        self.scenario: Scenario = self.bench.scenario(group)
        evidence = self.bench.evidence(group)
        self.header.tell(
            evidence.as_of, self.bench.lag(group).unknown, (describe_baseline(self.scenario),)
        )
        self.presets.begin_with(self.scenario)
        self.assumed.header.tell(None, notes=self.scenario.assumed)
        state = State(group, evidence.as_of)
        if self._state is None or self._state.group != group:
            self._other_group(group)
        if self._state != state:
            self.editor.fill(
                *(state, self.scenario, evidence.lag, evidence.members),
                lambda: (self.seconds.value, self.presets.seeds()),
            )
            self._state = state

    def _other_group(self, group: str) -> None:
        """Cancel a run of the previous group, and update the progress bar."""
        if self.state == "running":
            self.cancel()
            self.bar.description = "Cancelled: another group was chosen"
        elif self.compared is not None and self.compared.group == group:
            self.bar.value, self.bar.description = self.bar.max, "Done"
        else:
            self.bar.value, self.bar.description = 0, "Not run yet"

    #: The states of the group shown, of the run, and of the comparison.
    _state: State | None = None
    _tried: State | None = None
    compared: State | None = None
    _code: str = ""
    _compared_code: str = ""

    def search(self) -> None:
        """Search for assignors and members that clear the lag, in a separate thread."""
        self._start(self._searching)

    def run(self) -> None:
        """Start the comparison in a separate thread; the header shows errors."""
        self._start(self._comparing)

    def _searching(self, group: str) -> _Work | None:
        scenario = self.bench.scenario(group)
        if self.presets.chosen is None:
            return None
        search = partial(watch_search, scenario, self.presets.searched)
        return search, self.presets.search_code(group), 1

    def _comparing(self, group: str) -> _Work | None:
        if (chosen := self.presets.chosen) is None:
            return None
        scenario = shorter(self.bench.scenario(group), self.seconds.value)
        try:
            tried = simulate_options(scenario, chosen)
        except InputError as error:  # without any variant; the chips say so
            self.assignors.error = str(error)
            return None
        seeds = self.presets.seeds(len(tried))
        comparison = partial(watch_comparison, tried, seeds)
        return comparison, self.presets.code(group, chosen, seeds), len(tried) * len(seeds)

    def _start(self, prepare: Callable[[str], _Work | None]) -> None:
        """Start the prepared work; without any, a field says why."""
        with self._lock:
            if self.state == "running":
                return
            try:
                group = self._known_group()
                work = prepare(group)
            except Exception as error:  # shown as a sentence
                self._ended(None, None, error)
                return
            if work is None:  # the previous content stays
                self.state, self.bar.description = "failed", f"Not run{self._before()}"
                return
            act, self._code, runs = work
            self._tried = State(group, self.bench.evidence(group).as_of)
            self._busy(True)
            self.bar.value, self.bar.max, self.bar.description = 0, runs, "Running"
            self._trial = Run(act, self._ended, self._progressed)
        self._trial.start()

    def cancel(self) -> None:
        """Stop waiting for the run; the previous content stays."""
        with self._lock:
            if self._trial is not None and self.state == "running":
                self._trial.cancel()
                self._ended(self._trial, None, CancelledError())
                self._trial = None

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the run ends; return whether it did."""
        return self._trial is None or self._trial.join(timeout)

    def close(self) -> None:
        """Close all views, and cancel the run."""
        self.cancel()
        super().close()

    def _busy(self, busy: bool) -> None:
        self.header.busy = busy
        for field in (*self._fields, self.groups):
            field.disabled = busy
        self.stop.disabled = not busy
        if busy:
            self._trouble = self.header.failure = ""
            self.state = "running"

    def _progressed(self, run: Run, done: int, total: int) -> None:
        with self._lock:
            if run is self._trial:
                self.bar.value, self.bar.max = done, total
                self.bar.description = f"{text.number(done)} of {text.number(total)} runs"

    def _ended(
        self, run: Run | None, found: Comparison | Clearing | None, error: BaseException | None
    ) -> None:
        with self._lock:
            if run is not None and run is not self._trial:
                return  # cancelled
            self._busy(False)
            before = self._before()
            if isinstance(error, CancelledError):
                self.state, self.bar.description = "cancelled", f"Cancelled{before}"
            elif error is not None:
                self.state, self.bar.description = "failed", f"Failed{before}"
                self._trouble = self.header.failure = words_of(error)
            else:
                self.clearing = found if isinstance(found, Clearing) else None
                self.comparison = found.comparison if isinstance(found, Clearing) else found
                self.compared, self._compared_code = self._tried, self._code
                self.bar.value, self.bar.description = self.bar.max, "Done"
                self._try(self._draw)
                self.state = "done"

    def _before(self) -> str:
        return "; the previous run is shown" if self._is_of_this_group() else ""

    def _is_busy(self) -> bool:
        return self.state == "running"

    def _measured(self, _: Any) -> None:
        self._try(self._draw)

    def _is_of_this_group(self) -> bool:
        """Return whether the comparison belongs to the group shown."""
        compared, state = self.compared, self._state
        return compared is not None and state is not None and compared.group == state.group

    def _draw(self) -> None:
        found = self.comparison if self._is_of_this_group() else None
        self._say()
        if found is not None:
            self._fill(found)
        for part in (self.results, self.decision, self.projection):
            part.layout.display = None if found is not None else "none"
        is_search = found is not None and self.clearing is not None
        self.grid.layout.display = None if is_search else "none"

    def _fill(self, found: Comparison) -> None:
        if self.clearing is not None:
            cells = self.clearing.cells
            # A grid of words keeps its width; a narrow page scrolls.
            across = len(pc.unique(cells.column("members")))
            self.grid.view.layout.min_width = f"{10 + 8 * across}em"
            self.grid.draw(clearing_figure(cells, self.theme))
        shown = replace(found.presentation(), notes=(), more=None)  # both are shown elsewhere
        self.decided.value = render.as_html(shown, len(shown.table))
        self.projection.draw(projection_figure(found.projected, self.theme))
        self.projection.header.notes = [self._begins()]
        known, first = known_measures(found)
        options = tuple((measure_words(name), name) for name in known)
        if self.measure.options != options:
            self.measure.unobserve(self._measured, names=["value"])
            self.measure.options = options
            self.measure.value = first
            self.measure.observe(self._measured, names=["value"])
        if self.measure.value is not None:
            self.chart.draw(chart("compared", found, self.measure.value)(self.theme))
        self.table.show(difference_rows(found), MEANS | OF_MEASURES, notes_of(found))

    def _say(self) -> None:
        """Show the verdict of the comparison, with the Python that reproduces it."""
        found = self.comparison
        with self.verdict.hold_sync():
            if found is None or not self._is_of_this_group():
                self.verdict.sentence, self.verdict.copies = _INVITED, []
                return
            answer = self.clearing or found
            why = "; ".join(answer.reasons())
            sentences = [answer.verdict(), *([f"why: {why}"] if why else [])]
            self.verdict.sentence = " ".join(map(sentence, sentences))
            self.verdict.copies = [
                ["Copy the verdict", self.verdict.sentence],
                ["Copy the Python behind this", self._compared_code],
            ]

    def _begins(self) -> str:
        """Return the comparison's initial state, which may be older than the other content."""
        if self.compared is None:
            return ""
        other = " Other parts show another moment: run it again to compare that one."
        return self.compared.words() + ("" if self.compared == self._state else other)
