"""Other assignors, members and settings, simulated from where the group is, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import pyarrow.compute as pc
import traitlets

from sharelag.whatif import Comparison, Scenario, assignor_names
from sharelag.whatif.comparison.rows import measure_words
from sharelag.workbench.charts import compared_figure, compared_records, text

from ..assignment_editor import AssignmentEditor
from ..run import Run
from ..selection import Selection
from .by_hand import Chance, State, acts, begun, clients_of, partitions_of
from .group_dashboard import GroupDashboard
from .parts import ChartPart, Part, TablePart, choice, put, words_of
from .trials import (
    MEANS,
    OF_MEASURES,
    CancelledError,
    described,
    difference_rows,
    differs,
    known_measures,
    numbers,
    seeds_words,
    shorter,
    simulate_options,
    watched_comparison,
)

#: What is looked at first, if it is known.
_FIRST = ("age_p95_ms", "lag_p95", "drain_ms")


class WhatIfLab(GroupDashboard):
    """Assignors, members and settings side by side with the group as it is, over several seeds.

    Attributes
    ----------
    state
        idle, running, done, cancelled or failed.
    comparison
        The last that came to its end; None before. It covers one group as of one moment, and shown
        with that group only.
    """

    TITLE = "What if"
    HELP = {
        "What it shows": "the group simulated as it is (baseline), and with each combination "
        "of what is chosen, over the same time and with the same seeds",
        "seed": "random seed of a run: with the same seed all variants meet the same luck, and the "
        "same choices give the same result again",
        "empty fields": "as it is in the group",
    } | MEANS

    state = traitlets.Enum(["idle", "running", "done", "cancelled", "failed"], "idle")

    def _make(self) -> tuple[Sequence[W.Widget], Sequence[W.Widget]]:
        self.comparison: Comparison | None = None
        self._trial: Run | None = None
        self.assignors = W.SelectMultiple(
            options=assignor_names(), value=["lag-aware-sticky"], description="Assignors", rows=5
        )
        self.assignors.layout.width = "19em"
        self.assignors.style.description_width = "initial"
        self.members = _field("Members", "as they are")
        self.locks = _field("Lock duration, s", "as it is")
        self.limits = _field("Delivery limit", "as it is")
        self.runs = _count("Runs", 5, 2, 200)
        self.seed = _count("First seed", 0, 0, 2**31)
        self.seconds = _count("Simulated time, s", 120, 1, 86_400)
        self.start = W.Button(
            description="Run", button_style="primary", layout=W.Layout(width="8em")
        )
        self.stop = W.Button(description="Cancel", disabled=True, layout=W.Layout(width="8em"))
        self.start.on_click(lambda _: self.run())
        self.stop.on_click(lambda _: self.cancel())
        self.bar = W.IntProgress(0, 0, 1, description="Not run yet", layout=W.Layout(width="22em"))
        self.bar.style.description_width = "initial"
        self.measure = choice("Measure", [], self._measured)
        self.chart = ChartPart(
            "Difference to the group as it is",
            {name: MEANS[name] for name in ("difference", "interval")},
        )
        self.table = TablePart(
            "All measures", Selection(columns=["measure", "variant"]), MEANS | OF_MEASURES
        )
        self.results = W.VBox([W.HBox([self.measure]), self.chart, self.table])
        self.results.layout.display = "none"
        self.assumed = Part(
            "What is assumed", {"assumed": "what the cluster's state does not show"}, W.HTML()
        )
        self.editor = Part(
            "An assignment by hand",
            {
                "edit": "move partitions between members by mouse or keys, and run it against "
                "the group as it is"
            },
            W.VBox([], layout=W.Layout(width="100%")),
        )
        fields = [
            self.assignors,
            self.members,
            self.locks,
            self.limits,
            self.runs,
            self.seed,
            self.seconds,
        ]
        self._fields = [*fields, self.start]
        lines = [fields[1:4], fields[4:], [self.start, self.stop, self.bar]]
        each = W.Layout(flex_flow="row wrap", grid_gap="4px 14px")
        beside = W.VBox(
            [W.HBox(line, layout=each) for line in lines], layout=W.Layout(flex="1 1 30em")
        )
        chosen = [self._group_choice(), self.assignors, beside]
        return chosen, [self.results, self.assumed, self.editor]

    def _show(self) -> None:
        group = self._known_group()
        self.scenario: Scenario = self.bench.scenario(group)
        evidence = self.bench.evidence(group)
        self.header.tell(evidence.as_of, self.bench.lag(group).unknown, (described(self.scenario),))
        self.assumed.header.tell(None, notes=self.scenario.assumed)
        state = State(group, evidence.as_of)
        if self._state is None or self._state.group != group:
            self._other_group(group)
        if self._state != state:
            self._fill_editor(state, evidence.lag, evidence.members)
            self._state = state

    def _other_group(self, group: str) -> None:
        """What is going on is not of the group that is looked at any more."""
        if self.state == "running":
            self.cancel()
            self.bar.description = "Cancelled: another group was chosen"
        elif self._compared is not None and self._compared.group == group:
            self.bar.value, self.bar.description = self.bar.max, "Done"
        else:
            self.bar.value, self.bar.description = 0, "Not run yet"

    #: What is looked at, what runs, and what was compared goes on from.
    _state: State | None = None
    _tried: State | None = None
    _compared: State | None = None

    def run(self) -> None:
        """Begin, in a separate thread; what cannot be run is reported in the header."""
        with self._lock:
            if self.state == "running":
                return
            try:
                group = self._known_group()
                scenario = shorter(self.bench.scenario(group), self.seconds.value)
                chosen = simulate_options(
                    scenario,
                    self.assignors.value,
                    numbers(self.members.value, "members"),
                    numbers(self.locks.value, "lock durations", float),
                    numbers(self.limits.value, "delivery limits"),
                )
            except Exception as error:  # people get a sentence
                self._ended(None, None, error)
                return
            seeds = self._chance().seeds
            self._tried = State(group, self.bench.evidence(group).as_of)
            self._busy(True)
            self.bar.value, self.bar.max, self.bar.description = (
                0,
                len(chosen) * len(seeds),
                "Running",
            )
            self._trial = Run(
                lambda cancelled, progress: watched_comparison(chosen, seeds, cancelled, progress),
                self._progressed,
                self._ended,
            )
        self._trial.start()

    def cancel(self) -> None:
        """Do not wait any more: what was shown before stays."""
        with self._lock:
            if self._trial is not None and self.state == "running":
                self._trial.cancel()
                self._ended(self._trial, None, CancelledError())
                self._trial = None

    def join(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs any more; return whether that is so."""
        return self._trial is None or self._trial.join(timeout)

    def close(self) -> None:
        """Let go of everything, a run included."""
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
        self, run: Run | None, found: Comparison | None, error: BaseException | None
    ) -> None:
        with self._lock:
            if run is not None and run is not self._trial:
                return  # somebody cancelled it before
            self._busy(False)
            before = "; the previous run is shown" if self._is_of_this_group() else ""
            if isinstance(error, CancelledError):
                self.state, self.bar.description = "cancelled", f"Cancelled{before}"
            elif error is not None:
                self.state, self.bar.description = "failed", f"Failed{before}"
                self._trouble = self.header.failure = words_of(error)
            else:
                self.state, self.comparison, self._compared = "done", found, self._tried
                self.bar.value, self.bar.description = self.bar.max, "Done"
                self._try(self._draw)

    def _is_busy(self) -> bool:
        return self.state == "running"

    def _measured(self, _: Any) -> None:
        self._try(self._draw)

    def _is_of_this_group(self) -> bool:
        """Whether there is a comparison of the group that is looked at."""
        compared, state = self._compared, self._state
        return compared is not None and state is not None and compared.group == state.group

    def _draw(self) -> None:
        self.results.layout.display = None if self._is_of_this_group() else "none"
        if self.comparison is None or not self._is_of_this_group():
            return
        known = known_measures(self.comparison)
        if self.measure.options != tuple((measure_words(name), name) for name in known):
            first = next(
                (
                    name
                    for name in (*_FIRST, *known)
                    if name in known and differs(self.comparison, name)
                ),
                None,
            )
            first = first or next(iter(known), None)
            self.measure.unobserve(self._measured, names=["value"])
            self.measure.options = [(measure_words(name), name) for name in known]
            self.measure.value = first
            self.measure.observe(self._measured, names=["value"])
        begins = self._begins()
        if self.measure.value is not None:
            records = compared_records(self.comparison, self.measure.value)
            self.chart.draw(compared_figure(records, self.theme))
            self.chart.header.notes = [begins]
        self.table.show(
            difference_rows(self.comparison), MEANS | OF_MEASURES, (*self._notes(), begins)
        )

    def _begins(self) -> str:
        """Where the comparison goes on from, which need not be what is shown elsewhere by now."""
        if self._compared is None:
            return ""
        other = " Other parts show another moment: run it again to compare that one."
        return self._compared.words() + ("" if self._compared == self._state else other)

    def _notes(self) -> tuple[str, ...]:
        runs = (
            self.comparison.runs
            if self.comparison is not None
            else pa.table({"seed": [], "error": []})
        )
        seeds = sorted(set(runs.column("seed").to_pylist()))
        failed = runs.num_rows - runs.column("error").null_count
        lost = (
            (f"{failed:,} runs failed: {pc.drop_null(runs.column('error'))[0].as_py()}",)
            if failed
            else ()
        )
        words = "the group as it is, simulated with the same seeds"
        return (f"Seeds {seeds_words(seeds)}. Baseline: {words}.", *lost)

    # ---- by hand ---------------------------------------------------------------------------------

    def _fill_editor(self, state: State, lag: pa.Table, members: pa.Table) -> None:
        """A refresh keeps the editor with its edits and its run; another group has its own."""
        partitions = partitions_of(lag, self.scenario)
        held, words = begun(self.scenario, members, partitions)
        can = acts(self.scenario, state, self._chance) | {
            "member_labels": clients_of(state.group, members)
        }
        slot = self.editor.children[1]
        if self._state is not None and self._state.group == state.group and slot.children:
            slot.children[0].renew(partitions, held, **can)
        else:
            put(
                slot,
                AssignmentEditor.of(
                    partitions,
                    held,
                    choices=assignor_names(),
                    selection=self.selection,
                    title="",
                    **can,
                ),
            )
        self.editor.header.tell(None, notes=(words,))

    def _chance(self) -> Chance:
        return Chance(
            self.seconds.value, tuple(range(self.seed.value, self.seed.value + self.runs.value))
        )


def _field(words: str, otherwise: str) -> W.Text:
    made = W.Text(description=words, placeholder=otherwise, layout=W.Layout(width="15em"))
    made.style.description_width = "initial"
    return made


def _count(words: str, value: int, least: int, most: int) -> W.BoundedIntText:
    made = W.BoundedIntText(
        value, min=least, max=most, description=words, layout=W.Layout(width="13em")
    )
    made.style.description_width = "initial"
    return made
