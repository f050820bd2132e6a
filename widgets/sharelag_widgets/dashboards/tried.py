"""What-ifs of one click: a group as it is, and with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.metrics.causes import HEADS, LAG_AWARE, MEMBERS, known_causes
from sharelag.tables.words import MISSING
from sharelag.whatif import Clearing, Comparison, Scenario
from sharelag.whatif.comparison.rows import amount, sentence, unknown_work
from sharelag.whatif.estimates import without_stuck_heads
from sharelag.whatif.horizon import cut_short
from sharelag.workbench import Workbench

from ..run import Run
from .dashboard import GroupDashboard
from .pieces import Tries, words_of
from .trials import BASELINE, CancelledError, watch_comparison

#: Of a what-if that answers within seconds.
SEEDS = tuple(range(7))
#: What can be tried by one click, by its name.
TRIALS = {MEMBERS: "+2 members", LAG_AWARE: "lag-aware assignor", HEADS: "skip stuck records"}
#: The change that each makes, as the Python that people copy; `_change` makes it.
CHANGES = {
    MEMBERS: "scenario.with_members(len(scenario.each_member()) + 2)",
    LAG_AWARE: "replace(scenario, assignor='lag-aware-sticky')",
    HEADS: "without_stuck_heads(scenario)",
}
#: Of the search of assignors and members, its name and its words.
SEARCH, CLEARS = "search", "what clears the lag"
NOTHING_STUCK, NONE_FITS = "nothing is stuck", "no what-if below changes this"
#: The measures of a row.
_AGE, _DRAIN = "age_p95_ms", "drain_ms"


class TriedGroup(GroupDashboard):
    """A dashboard of one group with what-ifs of one click."""

    #: Not there yet where a dashboard is closed because it could not be made.
    _trial: Run | None = None

    def _make_trials(self) -> Tries:
        self._tried_of = ""  # the group that was tried
        self._scenario: Scenario | None = None  # of that group
        self._reasons: dict[str, str] = {}  # why something cannot help it
        self.found: dict[str, Comparison] = {}  # of that group, by what was changed
        self.comparison: Comparison | None = None  # the last one
        self.clearing: Clearing | None = None  # what clears the lag of that group
        names = (*TRIALS, SEARCH)
        acts: Mapping[str, Callable[[], None]] = {name: partial(self.run, name) for name in names}
        self.what_if = Tries({**acts, "cancel": self.cancel})
        return self.what_if

    def run(self, name: str) -> None:
        """Simulate the group as it is and with one thing changed, in a separate thread."""
        with self._lock:
            if self.header.busy:
                return
            group = str(self.group)
            if self._reasons.get(name):
                return
            try:
                self._scenario = scenario = cut_short(self.bench.scenario(group))
                changed = _change(scenario, name)
            except Exception as error:  # people get a sentence
                self.what_if.sentence = words_of(error)
                return
            # Its curves would be of a number that nobody measured.
            if why := unknown_work(scenario):
                self.what_if.sentence = sentence(why)
                return
            if changed is None:
                self._reasons = {HEADS: NOTHING_STUCK}
                self._show_trials()
                return
            self.what_if.sentence = ""
            chosen = {BASELINE: scenario, TRIALS[name]: changed}
            self.header.busy, self.what_if.busy = True, TRIALS[name]
            self._trial = Run(
                partial(watch_comparison, chosen, SEEDS),
                lambda *_: None,
                partial(self._ended, name),
            )
        self._trial.start()

    def cancel(self) -> None:
        """Wait for a what-if no longer; what was found before stays."""
        if self._trial is not None:
            self._trial.cancel()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until no what-if runs any more; return whether that is so."""
        return self._trial is None or self._trial.join(timeout)

    def close(self) -> None:
        """Let go of everything, a what-if included."""
        self.cancel()
        super().close()

    def fits(self, cause: str) -> tuple[str, str]:
        """Return the what-if that fits a cause of the group, and why it cannot help."""
        return fitting(cause, self._reasons)

    def _look_at(self, group: str) -> None:
        """Find out what cannot help a group; what was found of another one is forgotten."""
        self._reasons = reasons_against(self.bench, group)
        if self._tried_of != group:
            self._tried_of, self._scenario, self.found = group, None, {}
            self.comparison = self.clearing = None
            self.what_if.sentence = ""

    def _ended(
        self, name: str, run: Run, found: Comparison | None, error: BaseException | None
    ) -> None:
        with self._lock:
            if run is not self._trial:
                return
            self.header.busy, self.what_if.busy = False, ""
            if found is not None and self._tried_of == self.group:
                self.comparison = self.found[name] = found
                self._show_trials()
                self.redraw()
            elif error is not None and not isinstance(error, CancelledError):
                self.what_if.sentence = words_of(error)

    def _is_busy(self) -> bool:
        return bool(self.what_if.busy)

    def _show_trials(self) -> None:
        """Say what was found of this group; of another one nothing."""
        found = self.found if self._is_tried() else {}
        rows = [self._row(name, words, found.get(name)) for name, words in TRIALS.items()]
        rows.append(self._row_of_search())
        if found and self._scenario is not None:
            first = next(iter(found.values()))
            rows.insert(0, _numbers(first, BASELINE, self._scenario) | {"words": BASELINE})
        with self.what_if.hold_sync():
            self.what_if.rows = rows
            self.what_if.assumed = list(self._scenario.assumed) if found and self._scenario else []
            self.what_if.copies = [[name, self._code(name)] for name in found]

    def _row(self, name: str, words: str, found: Comparison | None) -> dict[str, Any]:
        row = {"name": name, "words": words, "why": self._reasons.get(name, "")}
        if found is None or self._scenario is None:
            return _UNTRIED | row
        return _numbers(found, words, self._scenario) | row

    def _row_of_search(self) -> dict[str, Any]:
        """Return what the first answer that clears the lag would do; its sentence stands below."""
        row = {"name": SEARCH, "words": CLEARS}
        if self.clearing is None or not (answers := self.clearing.answers):
            return _UNTRIED | row
        variant, found = answers[0]["variant"], self.clearing.comparison
        return _numbers(found, variant, found.scenarios[variant]) | row

    def _is_tried(self) -> bool:
        """Whether what was found belongs to the group in sight."""
        return bool(self.found) and self._tried_of == self.group

    def _code(self, name: str) -> str:
        if self._scenario is None:
            raise InputError("nothing was tried")
        group, simulated_ms = self._tried_of, self._scenario.duration_ms
        skips = "from sharelag.whatif.estimates import without_stuck_heads\n"
        return f"""from dataclasses import replace
from sharelag.whatif import compare
from sharelag import charts
{skips * (name == HEADS)}scenario = replace(bench.scenario({group!r}), duration_ms={simulated_ms})
changed = {CHANGES[name]}
variants = {{{BASELINE!r}: scenario, {TRIALS[name]!r}: changed}}
comparison = compare(variants, seeds=range({len(SEEDS)}))
curves = charts.projection_figure(comparison.projected)
display(comparison, curves)"""


_UNTRIED: dict[str, Any] = {
    **dict.fromkeys(("name", "why", "age", "drains", "difference", "verdict"), ""),
    "span": [],
}


def fitting(cause: str, reasons: Mapping[str, str]) -> tuple[str, str]:
    """Return the what-if that fits a cause, and by ``reasons`` why it cannot help."""
    fits = next((one.what_if for one in known_causes() if one.name == cause), MEMBERS)
    return (fits, reasons.get(fits, "")) if fits else (MEMBERS, NONE_FITS)


def reasons_against(bench: Workbench, group: str) -> dict[str, str]:
    """Return why a what-if cannot help a group, by its name, as far as that is known untried."""
    return {} if _is_pinned(bench.lag(group).table) else {HEADS: NOTHING_STUCK}


def _is_pinned(lag: pa.Table) -> bool:
    """Whether finished offsets wait behind one that is not, or nobody knows."""
    passed = pc.subtract(lag.column("effective_start_offset"), lag.column("start_offset"))
    behind = pc.subtract(lag.column("window_complete"), passed)
    return bool(pc.any(pc.greater(pc.fill_null(behind, 1), 0)).as_py())


def _change(scenario: Scenario, name: str) -> Scenario | None:
    if name == MEMBERS:
        return scenario.with_members(len(scenario.each_member()) + 2)
    if name == LAG_AWARE:
        return replace(scenario, assignor="lag-aware-sticky")
    return without_stuck_heads(scenario)


def _numbers(found: Comparison, variant: str, scenario: Scenario) -> dict[str, Any]:
    """Return what a comparison says of a variant: age, time to drain, and the difference of age."""
    rows = {row["measure"]: row for row in found.rows() if row["variant"] == variant}
    age, drain = rows[_AGE], rows[_DRAIN]
    numbers = _UNTRIED | {"age": _mean(age), "drains": _mean(drain)}
    if not drain["n"]:
        numbers["drains"] = f"not within {duration(scenario.duration_ms)}"
    mean = age["difference"]
    if variant == BASELINE:
        return numbers
    span = [age["difference_low"], mean, age["difference_high"]]
    sign = "+" if (mean or 0) > 0 else ""
    known = [] if None in span else [float(one) for one in span]
    return numbers | {
        "difference": MISSING if mean is None else f"{sign}{amount(_AGE, mean)}",
        "span": known,
        "verdict": _verdict(age, bool(found.best(_AGE).is_small)),
    }


def _verdict(row: Mapping[str, Any], is_small: bool) -> str:
    if row["better"] is None:
        return "the same" if row["difference"] == 0 else "not clear"
    words = "better" if row["better"] else "worse"
    return f"{words}, by little" if row["better"] and is_small else words


def _mean(row: Mapping[str, Any]) -> str:
    """Return the mean over the runs in words, or in how many of them it is not known."""
    if row["unknown"]:
        return f"unknown in {row['unknown']} of {row['n'] + row['unknown']} runs"
    return amount(row["measure"], row["mean"]) or MISSING
