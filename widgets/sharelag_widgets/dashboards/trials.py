"""Trials of a group: the controls, their variants, and tables of outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.charts import text
from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.schemas import AMOUNT
from sharelag.tables.declared import meanings_of
from sharelag.tables.views import view
from sharelag.tables.words import MISSING, pluralize
from sharelag.whatif import (
    Clearing,
    Comparison,
    Scenario,
    assign,
    assignor_descriptions,
    assignor_names,
    compare,
    variants,
    what_clears,
)
from sharelag.whatif.clearing import ASSIGNORS, search
from sharelag.whatif.comparison import rows as trials
from sharelag.whatif.comparison.intervals import enough_seeds
from sharelag.whatif.comparison.rows import measure_words
from sharelag.whatif.consumers import require_members
from sharelag.whatif.horizon import SHORTEST_MS, cut_short, require_end, size
from sharelag.whatif.simulation.clock import cancellable

from .pieces import Chips, Field, counter

BASELINE = "the group as it is"
_LOCK, _LIMIT = "share.record.lock.duration.ms", "share.delivery.count.limit"
#: Decimal places within which a mean of equal numbers equals them.
_NOISE = 9
#: Measures to show first, if known.
_FIRST = ("age_p95_ms", "lag_p95", "drain_ms")
#: A row per measure and variant, in words.
DIFFERENCES = pa.schema(
    [
        ("measure", pa.string()),
        ("variant", pa.string()),
        ("verdict", pa.string()),  # better, worse, same or not clear, and the winner
        pa.field("baseline", pa.string(), metadata=AMOUNT),  # mean over the runs, with unit
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
#: Meanings of measures whose names do not explain them.
OF_MEASURES = {
    "drain": "time until nothing was left, for the first time after the largest lag; not known "
    "where it never was",
    "lag p50, p95, max": "of all share partitions together, over the run; end: when it ended",
    "age p50, p95, max": "of the oldest unfinished record, over the run",
    "latency": "from append to finish, over the records",
    **meanings_of(["completed"]),
    "lost": "offsets deleted before they were finished",
    **meanings_of(["expired", "wasted", "moves"]),
    "idle members": "members without a single record",
    **meanings_of(["fairness"]),
    "busy share": "of the time that members were there",
}


def numbers(given: str, what: str, kind: type[int] | type[float] = int) -> list[Any]:
    """Parse typed numbers above 0, such as ``8, 16``."""
    try:
        found = [kind(part) for part in given.replace(";", ",").split(",") if part.strip()]
    except ValueError:
        found = [kind(0)]
    if any(not number > 0 or number != number or number == float("inf") for number in found):
        raise InputError(f"{given!r} cannot be read as {what}: type numbers above 0, such as 8, 16")
    return found


def simulate_options(scenario: Scenario, chosen: Mapping[str, Any]) -> dict[str, Scenario]:
    """Return the scenario as it is, and a variant for every combination of the choices."""
    made = variants(scenario, **chosen)
    others = {name: one for name, one in made.items() if one != scenario}
    if not others:
        raise InputError(
            "nothing differs from the group as it is: choose another assignor, members or a setting"
        )
    return {BASELINE: scenario} | others


def settings_of(locks: Iterable[float], limits: Iterable[int]) -> dict[str, dict[str, object]]:
    """Return combinations of locks (in s) and delivery limits as settings by label."""
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
    """Return a comparison as `DIFFERENCES`, without unknown measures."""
    numbers = list(comparison.rows())
    bases = {row["measure"]: mean(row) for row in numbers if not _is_tried(row)}
    known = {row["measure"] for row in numbers if row["n"]}
    rows = [
        {
            "measure": measure_words(row["measure"]),
            "variant": row["variant"],
            "baseline": bases[row["measure"]],
            "tried": mean(row),
            "difference": with_sign(row, "difference"),
            "interval": _interval(row),
            "verdict": trials.for_people(row)["verdict"] or _no_verdict(row),
        }
        for row in numbers
        if _is_tried(row) and row["measure"] in known
    ]
    return pa.Table.from_pylist(rows, schema=DIFFERENCES)


def known_measures(comparison: Comparison) -> tuple[list[str], str | None]:
    """Return the measures with a known difference, and the one to show first.

    That is the most important one in which a variant differs.
    """
    rows = comparison.differences.to_pylist()
    known = list(dict.fromkeys(row["measure"] for row in rows if row["difference"] is not None))
    differ = {row["measure"] for row in rows if round(row["difference"] or 0, _NOISE)}
    first = next((name for name in (*_FIRST, *known) if name in differ), next(iter(known), None))
    return known, first


def describe_baseline(scenario: Scenario) -> str:
    """Describe the baseline in words."""
    limits, count = scenario.settings.limits, len(scenario.each_member())
    return (
        f"As it is: assignor {scenario.assignor}, {text.pluralize(count, 'member')}, locks of "
        f"{duration(limits.lock_duration_ms)}, delivery limit {limits.delivery_count_limit}."
    )


def assignment_of(scenario: Scenario, assignor: str) -> dict[str, dict[str, list[int]]]:
    """Return an assignor's assignment for the members of a scenario."""
    members = [
        {"id": member.name, "subscribed": list(member.topics), "rack": member.rack}
        for member in scenario.each_member()
    ]
    topics = {}
    for topic in scenario.topics:
        lag = {
            n: max(one.end_offset - (one.window.start_offset if one.window else 0), 0)
            for n, one in enumerate(topic.starts)
        }
        topics[topic.name] = {"partitions": topic.partitions, "id": topic.id, "lag": lag}
    return assign(assignor, members, topics)


def shorter(scenario: Scenario, seconds: float) -> Scenario:
    """Return the scenario with a shorter duration."""
    return replace(scenario, duration_ms=round(seconds * 1000))


def watch_comparison(
    chosen: Mapping[str, Scenario],
    seeds: Sequence[int],
    cancelled: Callable[[], bool],
    progress: Callable[[int, int], None],
) -> Comparison:
    """Compare scenarios; a cancellation ends a simulation midway."""
    require_end([*map(size, chosen.values())], len(seeds), LESS)
    with cancellable(cancelled, progress) as report:
        return compare(chosen, seeds=seeds, progress=report)


def watch_search(
    scenario: Scenario,
    given: Mapping[str, Any],
    cancelled: Callable[[], bool],
    progress: Callable[[int, int], None],
) -> Clearing:
    """Search for what clears the lag of a scenario by `what_clears`, until cancelled."""
    most = search(scenario, **{name: value for name, value in given.items() if name != "seeds"})
    require_end([most.size], most.runs * len(given.get("seeds") or range(most.seeds)), LESS)
    with cancellable(cancelled, progress) as report:
        return what_clears(scenario, baseline=BASELINE, progress=report, **given)


#: The advice for simulations that would take hours.
LESS = "simulate fewer seconds, members or runs, or see sharelag simulate --sweep"


def notes_of(comparison: Comparison) -> tuple[str, ...]:
    """Return notes on a comparison: its seeds, its baseline, and failed runs."""
    runs = comparison.runs
    seeds = sorted(set(runs.column("seed").to_pylist()))
    errors = pc.drop_null(runs.column("error")).to_pylist()
    lost = (f"{pluralize(len(errors), 'run')} failed: {errors[0]}",) if errors else ()
    words = "the group as it is, simulated with the same seeds"
    in_a_row = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
    listed = f"{seeds[0]} to {seeds[-1]}" if in_a_row else ", ".join(map(str, seeds))
    return (f"Seeds {listed}. Baseline: {words}.", *lost)


def _is_tried(row: Mapping[str, Any]) -> bool:
    return bool(row["variant"] != row["baseline"])


def _no_verdict(row: Mapping[str, Any]) -> str:
    names = ("difference", "difference_low", "difference_high")
    return "same" if all(row[name] == 0 for name in names) else "not clear"


def _interval(row: Mapping[str, Any]) -> str:
    low, high = row["difference_low"], row["difference_high"]
    if low is None or high is None:
        return MISSING
    if low == row["difference"] == high:
        return trials.IN_EVERY_RUN
    return f"{with_sign(row, 'difference_low')} to {with_sign(row, 'difference_high')}"


def mean(row: Mapping[str, Any]) -> str:
    """Return the mean over the runs in words, or the number of runs in which it is unknown."""
    return trials.for_people(row)["mean"] if row["unknown"] else _amount(row, "mean")


def with_sign(row: Mapping[str, Any], name: str) -> str:
    """Return an amount in words, with its sign, plus included."""
    return f"{'+' if (row[name] or 0) > 0 else ''}{_amount(row, name)}"


def _amount(row: Mapping[str, Any], name: str) -> str:
    return trials.amount(row["measure"], row[name]) or MISSING


_AS_IT_IS = "as it is"


class Presets(W.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Controls for members, assignors and locks; ``advanced`` has the rarely needed ones."""

    def __init__(self, entered: Callable[[], Any]) -> None:
        self.members = Field("Members", step=True, entered=entered)
        self.locks = Field("Lock duration, s", entered=entered)
        self.assignors = Chips("Assignors", assignor_names(), value=("lag-aware-sticky",))
        self.assignors.about = assignor_descriptions()
        self.limits = Field("Delivery limit", entered=entered)
        self._seconds = SHORTEST_MS // 1000
        self.seconds = counter("Simulated time, s", self._seconds, 1, 86_400)
        self.runs = counter("Runs (0: enough)", 0, 0, 200)
        self.seed = counter("First seed", 0, 0, 2**31)
        for field in (self.members, self.locks, self.limits):
            field.layout.width = "16em"
            field.observe(lambda _: self._checked(), names=["value"])
        self.assignors.observe(lambda _: self._checked(), names=["value"])
        row = W.Layout(flex_flow="row wrap", grid_gap="6px 22px", align_items="flex-start")
        others = [self.limits, self.seconds, self.runs, self.seed]
        below = W.Layout(flex_flow="row wrap", grid_gap="6px 22px", align_items="flex-end")
        self.advanced = W.HBox(others, layout=below)
        self.assignors.layout = W.Layout(flex="1 1 24em", min_width="0")
        super().__init__(
            [W.HBox([self.members, self.locks, self.assignors], layout=row)],
            layout=W.Layout(width="100%"),
        )

    @property
    def fields(self) -> list[W.Widget]:
        """All controls."""
        several = [self.limits, self.runs, self.seed, self.seconds]
        return [self.assignors, self.members, self.locks, *several]

    def begin_with(self, scenario: Scenario) -> None:
        """Show the values in force as hints of empty fields."""
        limits, count = scenario.settings.limits, len(scenario.each_member())
        self.members.start, self.members.hint = count, f"as they are: {count:,}"
        self.locks.hint = f"{_AS_IT_IS}: {duration(limits.lock_duration_ms)}"
        self.limits.hint = f"{_AS_IT_IS}: {limits.delivery_count_limit}"
        self.assignors.now = scenario.assignor
        if self.seconds.value == self._seconds:  # still the default
            self._seconds = cut_short(scenario).duration_ms // 1000
            self.seconds.value = self._seconds

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The choices as arguments of `variants`; None if a field is invalid.

        That field shows its error.
        """
        members, locks, limits = self._checked()
        if members is None or locks is None or limits is None:
            return None
        settings = settings_of(locks, limits)
        given = {"assignors": list(self.assignors.value), "members": members, "settings": settings}
        return {name: value for name, value in given.items() if value}

    def seeds(self, variants: int = 2) -> range:
        """Return the seeds for a number of variants; a search uses those of two."""
        return range(self.seed.value, self.seed.value + (self.runs.value or enough_seeds(variants)))

    def code(self, group: str, chosen: Mapping[str, Any], seeds: range) -> str:
        """Return the Python that reproduces the comparison from ``bench``."""
        given = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
        return f"""from dataclasses import replace
from sharelag.whatif import compare, variants
from sharelag import charts
duration_ms = {self.seconds.value * 1000}
scenario = replace(bench.scenario({group!r}), duration_ms=duration_ms)
tried = variants(scenario, {given})
others = {{name: one for name, one in tried.items() if one != scenario}}
comparison = compare({{{BASELINE!r}: scenario}} | others, seeds={seeds!r})
curves = charts.projection_figure(comparison.projected)
display(comparison, curves)"""

    @property
    def searched(self) -> dict[str, Any]:
        """The choices as arguments of a search for what clears the lag."""
        assignors = list(dict.fromkeys([*ASSIGNORS, *self.assignors.value]))
        is_shorter = self.seconds.value != self._seconds
        given = {
            "assignors": assignors if len(assignors) > len(ASSIGNORS) else None,
            "members": self._checked()[0],
            "duration_ms": self.seconds.value * 1000 if is_shorter else None,
            "seeds": self.seeds() if self.runs.value else None,
        }
        return {name: value for name, value in given.items() if value}

    def search_code(self, group: str) -> str:
        """Return the Python that reproduces the search of the lab."""
        given = "".join(f"{name}={value!r}, " for name, value in self.searched.items())
        return f"""from sharelag.whatif import what_clears
from sharelag import charts
scenario = bench.scenario({group!r})
found = what_clears(scenario, {given}baseline={BASELINE!r})
comparison = found.comparison
curves = charts.projection_figure(comparison.projected)
display(found, curves)"""

    def _checked(self) -> tuple[list[int] | None, list[float] | None, list[int] | None]:
        self.assignors.error = ""
        return (
            _read(self.members, _members),
            _read(self.locks, lambda given: numbers(given, "lock durations", float)),
            _read(self.limits, lambda given: numbers(given, "delivery limits")),
        )


def _members(given: str) -> list[int]:
    counts = numbers(given, "members")
    for count in counts:
        require_members(count)
    return counts


def _read(field: Field, act: Callable[[str], list[Any]]) -> list[Any] | None:
    """Parse a field; return None and show the error in the field if it is invalid."""
    try:
        found = act(field.value)
    except InputError as error:
        field.error = str(error)
        return None
    field.error = ""
    return found
