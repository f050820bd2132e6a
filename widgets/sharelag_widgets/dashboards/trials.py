"""What is tried of a group: variants, what they mean, and the dashboards that show a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.charts import text
from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.schemas import AMOUNT
from sharelag.tables.declared import meanings_of
from sharelag.tables.views import view
from sharelag.tables.words import MISSING, THIN_SPACE
from sharelag.whatif import Clearing, Comparison, Scenario, assign, compare, variants, what_clears
from sharelag.whatif.comparison import rows as trials
from sharelag.whatif.comparison.rows import measure_words, unknown_work
from sharelag.whatif.horizon import LONGEST_MS as LONGEST_MS
from sharelag.whatif.horizon import cut_short
from sharelag.whatif.simulation.clock import interruptible
from sharelag.whatif.stuck_records import without_stuck_heads

from ..run import Run
from .dashboard import GroupDashboard
from .pieces import Verdict, words_of

BASELINE = "the group as it is"
_LOCK, _LIMIT = "share.record.lock.duration.ms", "share.delivery.count.limit"
#: Digits after the point beyond which a mean of equal numbers differs from them.
_NOISE = 9
#: What is looked at first, if it is known.
_FIRST = ("age_p95_ms", "lag_p95", "drain_ms")
#: A row a measure and variant, in words.
DIFFERENCES = pa.schema(
    [
        ("measure", pa.string()),
        ("variant", pa.string()),
        ("verdict", pa.string()),  # better, worse, same, or not clear; and which wins
        pa.field("baseline", pa.string(), metadata=AMOUNT),  # mean over the runs, with its unit
        pa.field("tried", pa.string(), metadata=AMOUNT),
        pa.field("difference", pa.string(), metadata=AMOUNT),
        pa.field("interval", pa.string(), metadata=AMOUNT),
    ]
)
MEANS = view(
    "baseline tried difference interval verdict",
    meanings={
        "baseline": "mean over the runs of the group as it is; - where a run has no value, such as "
        "one that never drained",
        "verdict": "better or worse only where the interval says so; the winner is better than "
        "all others",
    },
).means
#: The measures themselves, as far as their names do not say it.
OF_MEASURES = {
    "drain": "time until nothing was left, for the first time after the largest lag; not known "
    "where it never was",
    "lag p50, p95, max": "of all share partitions together, over the run; end: when it ended",
    "age p50, p95, max": "of the oldest unfinished record, over the run",
    "latency": "from append to finish, over the records",
    **meanings_of(["completed"]),
    "lost": "offsets deleted before they were finished",
    "expired": "deliveries whose lock expired",
    **meanings_of(["wasted", "moves"]),
    "idle members": "members without a single record",
    "fairness": "Jain's index of how long members were busy: 1 is even",
    "busy share": "of the time that members were there",
}


def numbers(given: str, what: str, kind: type[int] | type[float] = int) -> list[Any]:
    """Numbers that somebody typed, such as ``8, 16``.

    Raises
    ------
    InputError
        One of them is not a number above 0.
    """
    try:
        found = [kind(part) for part in given.replace(";", ",").split(",") if part.strip()]
    except ValueError:
        found = [kind(0)]
    if any(not number > 0 or number != number or number == float("inf") for number in found):
        raise InputError(f"{given!r} cannot be read as {what}: type numbers above 0, such as 8, 16")
    return found


def simulate_options(
    scenario: Scenario,
    assignors: Iterable[str],
    members: Iterable[int],
    locks: Iterable[float],
    limits: Iterable[int],
) -> dict[str, Scenario]:
    """Return the scenario as it is, and every combination of what was chosen.

    Raises
    ------
    InputError
        Nothing else than the baseline was chosen.
    """
    settings = settings_of(locks, limits)
    made = variants(scenario, assignors=list(assignors), members=list(members), settings=settings)
    others = {name: one for name, one in made.items() if one != scenario}
    if not others:
        raise InputError(
            "nothing differs from the group as it is: choose another assignor, members or a setting"
        )
    return {BASELINE: scenario} | others


def settings_of(locks: Iterable[float], limits: Iterable[int]) -> dict[str, dict[str, object]]:
    """Every combination of locks (in s) and delivery limits, by its label and Kafka's names."""
    locks, limits = list(locks), list(limits)
    if not locks and not limits:
        return {}
    return {
        " ".join([f"lock {lock:g} s"] * bool(lock) + [f"{limit} deliveries"] * bool(limit)): {
            **({_LOCK: round(lock * 1000)} if lock else {}),
            **({_LIMIT: limit} if limit else {}),
        }
        for lock in locks or [0.0]
        for limit in limits or [0]
    }


def difference_rows(comparison: Comparison) -> pa.Table:
    """Return a comparison as `DIFFERENCES`: measures of which nothing is known are left out."""
    numbers = list(comparison.rows())
    bases = {row["measure"]: _mean(row) for row in numbers if not _is_tried(row)}
    known = {row["measure"] for row in numbers if row["n"]}
    rows = [
        {
            "measure": measure_words(row["measure"]),
            "variant": row["variant"],
            "baseline": bases[row["measure"]],
            "tried": _mean(row),
            "difference": _signed(row, "difference"),
            "interval": _interval(row),
            "verdict": trials.for_people(row)["verdict"]
            or ("same" if _is_same(row) else "not clear"),
        }
        for row in numbers
        if _is_tried(row) and row["measure"] in known
    ]
    return pa.Table.from_pylist(rows, schema=DIFFERENCES)


def first_measure(comparison: Comparison, known: Sequence[str]) -> str | None:
    """The measure to look at first: one in which a variant differs, of those that decide most."""
    wanted = [name for name in (*_FIRST, *known) if name in known]
    return next((name for name in wanted if differs(comparison, name)), next(iter(known), None))


def differs(comparison: Comparison, measure: str) -> bool:
    """Whether any variant differs from the baseline in a measure."""
    return any(
        round(row["difference"] or 0, _NOISE)
        for row in comparison.differences.to_pylist()
        if row["measure"] == measure
    )


def described(scenario: Scenario) -> str:
    """Return what the baseline is."""
    limits, count = scenario.settings.limits, len(scenario.each_member())
    return (
        f"As it is: assignor {scenario.assignor}, {text.counted(count, 'member')}, locks of "
        f"{duration(limits.lock_duration_ms)}, delivery limit {limits.delivery_count_limit}."
    )


def known_measures(comparison: Comparison) -> list[str]:
    """Return the measures with a difference that is known of any variant."""
    rows = comparison.differences.to_pylist()
    return list(dict.fromkeys(row["measure"] for row in rows if row["difference"] is not None))


def assignment_of(scenario: Scenario, assignor: str) -> dict[str, dict[str, list[int]]]:
    """Return what an assignor makes of the members of a scenario."""
    members = [
        {"id": member.name, "subscribed": list(member.topics), "rack": member.rack}
        for member in scenario.each_member()
    ]
    topics = {
        topic.name: {
            "partitions": topic.partitions,
            "id": topic.id,
            "lag": {
                n: max(one.end_offset - (one.window.start_offset if one.window else 0), 0)
                for n, one in starts
            },
        }
        for topic in scenario.topics
        for starts in [list(enumerate(topic.starts))]
    }
    return assign(assignor, members, topics)


def shorter(scenario: Scenario, seconds: float) -> Scenario:
    """Return the scenario for so long."""
    return replace(scenario, duration_ms=round(seconds * 1000))


def watched_comparison(
    chosen: Mapping[str, Scenario],
    seeds: Sequence[int],
    cancelled: Callable[[], bool],
    progress: Callable[[int, int], None],
) -> Comparison:
    """Compare scenarios, until nobody waits any more: then a simulation ends in its middle.

    Raises
    ------
    CancelledError
        Nobody waits any more.
    """
    with _watched(cancelled, progress) as report:
        return compare(chosen, seeds=seeds, progress=report)


def watched_search(
    scenario: Scenario,
    given: Mapping[str, Any],
    cancelled: Callable[[], bool],
    progress: Callable[[int, int], None],
) -> Clearing:
    """Search what clears the lag of a scenario, until nobody waits any more.

    ``given`` are arguments of `what_clears`.

    Raises
    ------
    CancelledError
        Nobody waits any more.
    """
    with _watched(cancelled, progress) as report:
        return what_clears(scenario, baseline=BASELINE, progress=report, **given)


@contextmanager
def _watched(
    cancelled: Callable[[], bool], progress: Callable[[int, int], None]
) -> Iterator[Callable[[int, int], None]]:
    """Let simulations end in their middle once nobody waits any more."""

    def check() -> None:
        if cancelled():
            raise CancelledError

    def report(done: int, total: int) -> None:
        check()
        progress(done, total)

    with interruptible(check):
        yield report


def notes_of(comparison: Comparison) -> tuple[str, ...]:
    """Return the seeds of a comparison, what its baseline is, and whether runs failed."""
    runs = comparison.runs
    seeds = sorted(set(runs.column("seed").to_pylist()))
    errors = pc.drop_null(runs.column("error")).to_pylist()
    lost = (f"{len(errors):,} runs failed: {errors[0]}",) if errors else ()
    words = "the group as it is, simulated with the same seeds"
    return (f"Seeds {seeds_words(seeds)}. Baseline: {words}.", *lost)


def seeds_words(seeds: list[int]) -> str:
    """Seeds in words: those in a row as the first and the last."""
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


class CancelledError(Exception):
    """Somebody does not want to wait any more."""


def _is_tried(row: Mapping[str, Any]) -> bool:
    return bool(row["variant"] != row["baseline"])


def _is_same(row: Mapping[str, Any]) -> bool:
    return all(row[name] == 0 for name in ("difference", "difference_low", "difference_high"))


def _interval(row: Mapping[str, Any]) -> str:
    low, high = row["difference_low"], row["difference_high"]
    if low is None or high is None:
        return MISSING
    if low == row["difference"] == high:
        return trials.IN_EVERY_RUN
    return f"{_signed(row, 'difference_low')} to {_signed(row, 'difference_high')}"


def _mean(row: Mapping[str, Any]) -> str:
    """Return the mean over the runs in words, or in how many of them it is not known."""
    return trials.for_people(row)["mean"] if row["unknown"] else _amount(row, "mean")


def _signed(row: Mapping[str, Any], name: str) -> str:
    """Return an amount in words, with its sign also where it is more."""
    return f"{'+' if (row[name] or 0) > 0 else ''}{_amount(row, name)}"


def _amount(row: Mapping[str, Any], name: str) -> str:
    return trials.amount(row["measure"], row[name], THIN_SPACE) or MISSING


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
        """Return the buttons, and what the last what-if found."""
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
        """Return the Python that gives the comparison again."""
        simulated_ms = cut_short(self.bench.scenario(group)).duration_ms
        return "\n".join(
            [
                "from dataclasses import replace",
                "from sharelag.whatif import compare",
                "from sharelag import charts",
                *(
                    ["from sharelag.whatif.stuck_records import without_stuck_heads"]
                    * (name == "heads")
                ),
                f"scenario = replace(bench.scenario({group!r}), duration_ms={simulated_ms})",
                f"changed = {CHANGES[name]}",
                f"variants = {{{BASELINE!r}: scenario, {TRIALS[name]!r}: changed}}",
                f"comparison = compare(variants, seeds=range({len(SEEDS)}))",
                "curves = charts.projection_figure(comparison.projected)",
                "comparison",
            ]
        )
