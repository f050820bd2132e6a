"""What would help a group: simulations of one change each, by one click."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sharelag.whatif import Comparison, Scenario
from sharelag.whatif.comparison.verdict import unknown_work
from sharelag.whatif.heads import without_stuck_heads
from sharelag.whatif.horizon import LONGEST_MS as LONGEST_MS
from sharelag.whatif.horizon import cut_short

from ..run import Run
from .group_dashboard import GroupDashboard
from .parts import words_of
from .trials import BASELINE, CancelledError, watched_comparison
from .verdict import Verdict

#: Of a what-if that answers within seconds.
SEEDS = tuple(range(7))
#: What can be tried by one click, by its name.
TRIALS = {"members": "+2 members", "lag-aware": "lag-aware assignor", "heads": "skip stuck records"}
#: The change that each makes, as the Python that people copy; `Now._trials` makes it.
CHANGES = {
    "members": "scenario.with_members(len(scenario.each_member()) + 2)",
    "lag-aware": "replace(scenario, assignor='lag-aware-sticky')",
    "heads": "without_stuck_heads(scenario)",
}
#: What is tried first of a group with such a cause; else more members.
FITTING = {
    "head_of_line": "heads",
    "poison_records": "heads",
    "window_full": "heads",
    "hot_partition": "lag-aware",
    "unassigned": "lag-aware",
}


class TriedGroup(GroupDashboard):
    """A dashboard of one group with what-ifs of one click."""

    #: Not there yet where a dashboard is closed because it could not be made.
    _trial: Run | None = None

    def _make_trials(self) -> Verdict:
        """The buttons, and what the last what-if found."""
        self._tried: tuple[str, str] | None = None
        self._assumed: tuple[str, ...] = ()
        self.comparison: Comparison | None = None
        self.what_if = Verdict({name: partial(self.run, name) for name in TRIALS})
        return self.what_if

    def run(self, name: str) -> None:
        """Simulate the group as it is and with one thing changed, in a separate thread."""
        with self._lock:
            if self.header.busy:
                return
            group = str(self.group)
            try:
                scenario = cut_short(self.bench.scenario(group))
                chosen = self._trials(scenario, name)
            except Exception as error:  # people get a sentence
                self.what_if.sentence = words_of(error)
                return
            # Its curves would be of a number that nobody measured.
            if why := unknown_work(scenario):
                self.what_if.sentence = f"{why[:1].upper()}{why[1:]}."
                return
            if chosen is None:
                self.what_if.sentence = "No record pins a start offset here: nothing to skip."
                return
            self._tried = (group, name)
            self._assumed = chosen[TRIALS[name]].assumed
            self.header.busy, self.what_if.busy = True, f"Simulating {TRIALS[name]} ..."
            self._trial = Run(
                partial(watched_comparison, chosen, SEEDS), lambda *_: None, self._ended
            )
        self._trial.start()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until no what-if runs any more; return whether that is so."""
        return self._trial is None or self._trial.join(timeout)

    def close(self) -> None:
        """Let go of everything, a what-if included."""
        if self._trial is not None:
            self._trial.cancel()
        super().close()

    def _trials(self, scenario: Scenario, name: str) -> dict[str, Scenario] | None:
        changed: Scenario | None
        if name == "members":
            changed = scenario.with_members(len(scenario.each_member()) + 2)
        elif name == "lag-aware":
            changed = replace(scenario, assignor="lag-aware-sticky")
        else:
            changed = without_stuck_heads(scenario)
        return None if changed is None else {BASELINE: scenario, TRIALS[name]: changed}

    def _ended(
        self, run: Run | None, found: Comparison | None, error: BaseException | None
    ) -> None:
        with self._lock:
            if run is not self._trial:
                return
            self.header.busy, self.what_if.busy = False, ""
            if found is not None:
                self.comparison = found
                self._show_trial()
                self.redraw()
            elif error is not None and not isinstance(error, CancelledError):
                self.what_if.sentence = words_of(error)

    def _is_busy(self) -> bool:
        return bool(self.what_if.busy)

    def _show_trial(self) -> None:
        """Say what the last what-if of this group found; of another one nothing."""
        said = self.comparison.verdict() if self.comparison and self._is_tried() else ""
        with self.what_if.hold_sync():
            self.what_if.actions = [[name, words] for name, words in TRIALS.items()]
            self.what_if.sentence = f"{said[:1].upper()}{said[1:]}." if said else "What if ...?"
            self.what_if.assumed = list(self._assumed) if said else []
            tried = [self._code(*self._tried)] if said and self._tried else []
            self.what_if.copies = [["Copy the Python behind this", code] for code in tried]

    def _is_tried(self) -> bool:
        """Whether the last what-if was of the group that is shown."""
        return bool(self.comparison and self._tried and self._tried[0] == self.group)

    def _code(self, group: str, name: str) -> str:
        """The Python that gives the comparison again."""
        simulated_ms = cut_short(self.bench.scenario(group)).duration_ms
        return "\n".join(
            [
                "from dataclasses import replace",
                "from sharelag.whatif import compare",
                "from sharelag.workbench import charts",
                *(["from sharelag.whatif.heads import without_stuck_heads"] * (name == "heads")),
                f"scenario = replace(bench.scenario({group!r}), duration_ms={simulated_ms})",
                f"changed = {CHANGES[name]}",
                f"variants = {{{BASELINE!r}: scenario, {TRIALS[name]!r}: changed}}",
                f"comparison = compare(variants, seeds=range({len(SEEDS)}))",
                "curves = charts.projection_figure(comparison.projected)",
                "comparison",
            ]
        )
