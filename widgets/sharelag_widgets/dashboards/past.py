"""The past of a group, any of its moments, and what-ifs of one click."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.engine import engines
from sharelag.errors import ShareLagError
from sharelag.metrics.causes import HEADS, LAG_AWARE, MEMBERS, known_causes
from sharelag.whatif import Clearing, Comparison, Scenario
from sharelag.whatif.comparison.rows import sentence, unknown_work
from sharelag.whatif.estimates import without_stuck_heads
from sharelag.whatif.horizon import cut_short
from sharelag.whatif.simulation.clock import CancelledError
from sharelag.workbench import Workbench

from ..run import Run, is_watched
from .dashboard import GroupDashboard
from .pieces import Tries, choice, words_of
from .trials import BASELINE, mean, watch_comparison, with_sign
from .what_if import State

#: The size of a what-if that answers within seconds.
SEEDS = tuple(range(7))
#: What-ifs of one click, by name.
TRIALS = {MEMBERS: "+2 members", LAG_AWARE: "lag-aware assignor", HEADS: "skip stuck records"}
#: The change of each as Python to copy, which matches `_change`.
CHANGES = {
    MEMBERS: "scenario.with_members(len(scenario.each_member()) + 2)",
    LAG_AWARE: "replace(scenario, assignor='lag-aware-sticky')",
    HEADS: "without_stuck_heads(scenario)",
}
#: Name and label of the search over assignors and members.
SEARCH, CLEARS = "search", "what clears the lag"
NOTHING_STUCK, NONE_FITS = "nothing is stuck", "no what-if below changes this"
#: Measures of a row.
_AGE, _DRAIN = "age_p95_ms", "drain_ms"
#: Maximum number of records that are read while the cell runs; with more, lag is shown first.
AT_ONCE = 100_000
#: Ranges of the chart in seconds; 0: the span of rates.
RANGES = {"all": 0, "last hour": 3600, "last 15 min": 900, "last 5 min": 300, "last minute": 60}
RANGE_MOMENTS = 60
#: The past of a group shown: its workbench and its range in seconds.
Past = tuple[Workbench, str, int]


class PastGroup(GroupDashboard):
    """A dashboard of one group at any moment of its past, with what-ifs of one click.

    The past is read after the present.
    """

    #: Class defaults, for a dashboard that is closed because its construction failed.
    _trial: Run | None = None

    def _look_back(self) -> None:
        self.range = choice("Range", RANGES.items(), self.redraw)
        self._only_lag = False  # whether only lag is known so far
        self._past: set[Past] = set()  # already read
        self._past_run: Run | None = None
        self._then: Workbench | None = None  # as of the moment shown, if not the last
        # only the group at that moment, before all others are known
        self._alone: Workbench | None = None
        self._then_run: Run | None = None
        self.selection.observe(self._go_to, names=["moment"])

    def _is_slow(self) -> bool:
        """Return whether the page is visible and reading everything is slow."""
        if not is_watched():
            return False
        try:
            return self._is_on_spark() or self._is_large()
        except ShareLagError:
            return False  # showing it raises the same error, and reports it

    def _is_large(self) -> bool:
        """Return whether lag is shown before all else, and a group before others."""
        return self.bench.source.size() > AT_ONCE

    def _is_on_spark(self) -> bool:
        return engines.choose(self.bench.engine, self.bench.source) == "spark"

    # ---- the past of the group -------------------------------------------------------------------

    def _has_past(self, group: str) -> bool:
        """Return whether the past can be shown now: it was read, or the page is not visible."""
        return (self.bench, group, self.range.value) in self._past or not self._is_slow()

    def _read_past_soon(self) -> None:
        """Start to read the past of the group; a group picked meanwhile is read next."""
        if self._past_run is None:
            bench, group, _ = past = (self.bench, str(self.group), self.range.value)

            def read(*_: Any) -> None:
                self._prepare_group(bench, group)

            def show(run: Run, *_: Any) -> None:
                with self._lock:
                    if run is self._past_run:
                        self._past_run = None
                        self._past.add(past)
                        self.show()  # repeats the failed question, and reports the error

            self._past_run = Run(read, show)
            self._past_run.start()

    def _timeline(self, group: str, bench: Workbench | None = None) -> pa.Table:
        """Return the lag of the group over time, with more moments in the chosen range."""
        bench = self.bench if bench is None else bench
        whole = bench.timeline(group).table
        if not self.range.value:
            return whole
        span = timedelta(seconds=self.range.value)
        begin = bench.evidence(group).as_of - span
        before = whole.filter(pc.less(whole.column("as_of"), begin))
        return pa.concat_tables([before, bench.timeline(group, span / RANGE_MOMENTS, begin).table])

    # ---- the moment shown ------------------------------------------------------------------------

    @property
    def seen(self) -> Workbench:
        """The workbench as of the moment shown; the window and the chart have all moments."""
        alone = self._alone
        is_here = alone is not None and self.group in alone.choice.groups
        return alone if is_here else self._then or self.bench  # type: ignore[return-value]

    def _mine(self, rows: pa.Table) -> pa.Table:
        return rows.filter(pc.equal(rows.column("group_id"), str(self.group)))

    def _go_to(self, _: Any = None) -> None:
        """Show everything as of the picked moment; of several in a row, the last."""
        if self._only_lag or self._then_run is not None:
            return
        moment = self._moment()
        if moment == (None if self._then is None else self._then.as_of):
            return
        if moment is None:
            self._then = None
            self.show()
            return
        then = self.bench.at(moment)

        def read(*_: Any) -> None:
            alone = then.only(str(self.group))
            if self._is_large() and alone.groups:
                alone.explain()
                with self._lock:
                    if self._then_run is None or self._moment() != moment:
                        return  # dragging
                    self._then, self._alone = then, alone
                    self.show()
                    self._mark("sharelag-follows")
            then.overview()

        def show(run: Run, _: Any, error: BaseException | None) -> None:
            with self._lock:
                if run is not self._then_run:
                    return
                self._then_run = self._alone = None
                if error is not None:
                    self.header.failure = words_of(error)
                elif self._moment() == moment:
                    self._then = then
                    self.show()
                else:
                    self._go_to()
                self._mark("" if self._then_run is None else "sharelag-moves")

        self._mark("sharelag-moves")
        self._then_run = Run(read, show)
        self._then_run.start()

    def _mark(self, chosen: str) -> None:
        """Dim the parts that still show the previous moment."""
        for name in ("sharelag-moves", "sharelag-follows"):
            (self.add_class if name == chosen else self.remove_class)(name)

    def _moment(self) -> Any:
        """Return the picked moment; None if it is the last one."""
        moment = self.selection.moment
        return None if moment is None or moment >= self.bench.evidence().as_of else moment

    def _in_range(self, records: pa.Table) -> pa.Table:
        """Return the records in the chosen range, with ages that depend on earlier ends."""
        if not self.range.value:
            return records
        begin = self.bench.evidence(str(self.group)).as_of - timedelta(seconds=self.range.value)
        return records.filter(pc.greater_equal(records.column("as_of"), begin))

    def _prepare(self, bench: Workbench) -> None:
        bench.overview()
        if self.group in bench.groups:  # otherwise the page says that it is gone
            past = (bench, str(self.group), self.range.value)
            self._prepare_group(bench, str(self.group))
            self._past.add(past)

    def _prepare_group(self, bench: Workbench, group: str) -> None:
        self._timeline(group, bench)
        bench.events(group)
        bench.moments(group)
        bench.trends()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until reads and simulations end; return whether they did."""
        if self._run is not None and not self._run.join(timeout):
            return False
        while (run := self._reading()) is not None:
            if not run.join(timeout):
                return False
        return self._trial is None or self._trial.join(timeout)

    def _reading(self) -> Run | None:
        """Return the read in progress; one that ends may start the next before it is done."""
        with self._lock:
            return self._past_run or self._then_run

    def close(self) -> None:
        """Close all views, cancel a what-if, and discard a read in progress."""
        self._past_run = self._then_run = None
        self.cancel()
        if self.comm is not None:  # the garbage collector closes it again
            self.selection.unobserve(self._go_to, names=["moment"])
        super().close()

    # ---- what-ifs of one click -------------------------------------------------------------------

    def _make_trials(self) -> Tries:
        self._tried_of = ""  # the group of the trials
        self._begun: State | None = None  # that all of them began with
        self._reasons: dict[str, str] = {}  # why a what-if cannot help
        self.found: dict[str, Comparison] = {}  # of that group, by what-if
        self.comparison: Comparison | None = None  # the last of them
        self.clearing: Clearing | None = None  # the last search for that group
        names = (*TRIALS, SEARCH)
        acts: Mapping[str, Callable[[], None]] = {name: partial(self.run, name) for name in names}
        self.what_if = Tries({**acts, "cancel": self.cancel})
        return self.what_if

    def run(self, name: str) -> None:
        """Simulate the group as it is and with one change, in a separate thread."""
        with self._lock:
            if self.header.busy:
                return
            group = str(self.group)
            if self._reasons.get(name):
                return
            try:
                scenario = cut_short(self.bench.scenario(group))
                changed = _change(scenario, name)
            except Exception as error:  # shown as a sentence
                self.what_if.sentence = words_of(error)
                return
            # Its curves would depend on an unknown number.
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
            comparing = partial(watch_comparison, chosen, SEEDS)
            begun = State(group, self.bench.evidence(group).as_of)
            self._trial = Run(comparing, partial(self._ended, name, begun))
        self._trial.start()

    def cancel(self) -> None:
        """Stop waiting for a what-if; earlier outcomes stay."""
        if self._trial is not None:
            self._trial.cancel()

    def fits(self, cause: str) -> tuple[str, str]:
        """Return the what-if of a cause of the group, and why it cannot help."""
        return fitting(cause, self._reasons)

    def _look_at(self, group: str) -> None:
        """Find what-ifs that cannot help a group, and forget outcomes of another group."""
        self._reasons = reasons_against(self.bench, group)
        if self._tried_of != group:
            self._tried_of = group
            self._begin_with(None)
            self.what_if.sentence = ""

    def _begin_with(self, begun: State | None) -> None:
        """Forget outcomes of another state, which were compared with another baseline."""
        if self._begun != begun:
            self._begun, self.found = begun, {}
            self.comparison = self.clearing = None

    def _ended(
        self,
        name: str,
        begun: State,
        run: Run,
        found: Comparison | None,
        error: BaseException | None,
    ) -> None:
        with self._lock:
            if run is not self._trial:
                return
            self.header.busy, self.what_if.busy = False, ""
            if found is not None and self._tried_of == self.group:
                self._begin_with(begun)
                self.comparison = self.found[name] = found
                self._show_trials()
                self.redraw()
            elif error is not None and not isinstance(error, CancelledError):
                self.what_if.sentence = words_of(error)

    def _is_busy(self) -> bool:
        return bool(self.what_if.busy)

    def _show_trials(self) -> None:
        """Show the outcomes of this group."""
        found = self.found if self._is_tried() else {}
        rows = [self._row(name, words, found.get(name), words) for name, words in TRIALS.items()]
        # The search's row has its first answer; its sentence is below.
        answers = [] if self.clearing is None else self.clearing.answers
        cleared = self.clearing.comparison if self.clearing is not None and answers else None
        rows.append(self._row(SEARCH, CLEARS, cleared, answers[0]["variant"] if answers else ""))
        last = self.comparison if found else None
        if last is not None:
            rows.insert(0, _numbers(next(iter(found.values())), BASELINE) | {"words": BASELINE})
        with self.what_if.hold_sync():
            self.what_if.rows = rows
            self.what_if.begun = self._begun.words() if self._begun else ""
            self.what_if.assumed = [] if last is None else list(last.scenarios[BASELINE].assumed)
            self.what_if.copies = [[name, self._code(name)] for name in found]

    def _row(self, name: str, words: str, found: Comparison | None, variant: str) -> dict[str, Any]:
        row = {"name": name, "words": words, "why": self._reasons.get(name, "")}
        return (_UNTRIED if found is None else _numbers(found, variant)) | row

    def _is_tried(self) -> bool:
        """Return whether the outcomes belong to the group shown."""
        return bool(self.found) and self._tried_of == self.group

    def _code(self, name: str) -> str:
        group, simulated_ms = self._tried_of, self.found[name].scenarios[BASELINE].duration_ms
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
    """Return the what-if of a cause, and why it cannot help, from ``reasons``."""
    fits = next((one.what_if for one in known_causes() if one.name == cause), MEMBERS)
    return (fits, reasons.get(fits, "")) if fits else (MEMBERS, NONE_FITS)


def reasons_against(bench: Workbench, group: str) -> dict[str, str]:
    """Return why what-ifs cannot help a group, by name, as far as known without a simulation."""
    return {} if _is_pinned(bench.lag(group).table) else {HEADS: NOTHING_STUCK}


def _is_pinned(lag: pa.Table) -> bool:
    """Return whether finished offsets wait behind an unfinished one; True if unknown."""
    passed = pc.subtract(lag.column("effective_start_offset"), lag.column("start_offset"))
    behind = pc.subtract(lag.column("window_complete"), passed)
    return bool(pc.any(pc.greater(pc.fill_null(behind, 1), 0)).as_py())


def _change(scenario: Scenario, name: str) -> Scenario | None:
    if name == MEMBERS:
        return scenario.with_members(len(scenario.each_member()) + 2)
    if name == LAG_AWARE:
        return replace(scenario, assignor="lag-aware-sticky")
    return without_stuck_heads(scenario)


def _numbers(found: Comparison, variant: str) -> dict[str, Any]:
    """Return a variant's age, time to drain, and difference of age."""
    rows = {row["measure"]: row for row in found.rows() if row["variant"] == variant}
    age, each = rows[_AGE], {"age": rows[_AGE], "drains": rows[_DRAIN]}
    means = {name: f"{mean(row)}{' runs' * bool(row['unknown'])}" for name, row in each.items()}
    if not rows[_DRAIN]["n"]:
        means["drains"] = f"not within {duration(found.scenarios[variant].duration_ms)}"
    numbers = _UNTRIED | means
    if variant == BASELINE:
        return numbers
    span = [age["difference_low"], age["difference"], age["difference_high"]]
    known = [] if None in span else [float(one) for one in span]
    return numbers | {
        "difference": with_sign(age, "difference"),
        "span": known,
        "verdict": _verdict(age, bool(found.best(_AGE).is_small)),
    }


def _verdict(row: Mapping[str, Any], is_small: bool) -> str:
    if row["better"] is None:
        return "the same" if row["difference"] == 0 else "not clear"
    words = "better" if row["better"] else "worse"
    return f"{words}, by little" if row["better"] and is_small else words
