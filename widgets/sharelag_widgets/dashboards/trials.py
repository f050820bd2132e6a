"""What is tried of a group: variants, what they mean, and the dashboards that show a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.charts import text
from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.schemas import AMOUNT
from sharelag.tables.declared import meanings_of
from sharelag.tables.views import view
from sharelag.tables.words import MISSING, counted
from sharelag.whatif import Clearing, Comparison, Scenario, assign, compare, variants, what_clears
from sharelag.whatif.comparison import rows as trials
from sharelag.whatif.comparison.rows import measure_words
from sharelag.whatif.simulation.clock import interruptible

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
    **meanings_of(["expired", "wasted", "moves"]),
    "idle members": "members without a single record",
    **meanings_of(["fairness"]),
    "busy share": "of the time that members were there",
}


def numbers(given: str, what: str, kind: type[int] | type[float] = int) -> list[Any]:
    """Numbers above 0 that somebody typed, such as ``8, 16``."""
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
    """Return the scenario as it is, and every combination of what was chosen beside it."""
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
            "difference": _sign(row, "difference"),
            "interval": _interval(row),
            "verdict": trials.for_people(row)["verdict"] or _no_verdict(row),
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


def describe_baseline(scenario: Scenario) -> str:
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
    topics = {}
    for topic in scenario.topics:
        lag = {
            n: max(one.end_offset - (one.window.start_offset if one.window else 0), 0)
            for n, one in enumerate(topic.starts)
        }
        topics[topic.name] = {"partitions": topic.partitions, "id": topic.id, "lag": lag}
    return assign(assignor, members, topics)


def shorter(scenario: Scenario, seconds: float) -> Scenario:
    """Return the scenario for so long."""
    return replace(scenario, duration_ms=round(seconds * 1000))


def watch_comparison(
    chosen: Mapping[str, Scenario],
    seeds: Sequence[int],
    cancelled: Callable[[], bool],
    progress: Callable[[int, int], None],
) -> Comparison:
    """Compare scenarios, until nobody waits any more: then a simulation ends in its middle."""
    with _watch(cancelled, progress) as report:
        return compare(chosen, seeds=seeds, progress=report)


def watch_search(
    scenario: Scenario,
    given: Mapping[str, Any],
    cancelled: Callable[[], bool],
    progress: Callable[[int, int], None],
) -> Clearing:
    """Search what clears the lag of a scenario by `what_clears`, until nobody waits any more."""
    with _watch(cancelled, progress) as report:
        return what_clears(scenario, baseline=BASELINE, progress=report, **given)


@contextmanager
def _watch(
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
    lost = (f"{counted(len(errors), 'run')} failed: {errors[0]}",) if errors else ()
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


def _no_verdict(row: Mapping[str, Any]) -> str:
    names = ("difference", "difference_low", "difference_high")
    return "same" if all(row[name] == 0 for name in names) else "not clear"


def _interval(row: Mapping[str, Any]) -> str:
    low, high = row["difference_low"], row["difference_high"]
    if low is None or high is None:
        return MISSING
    if low == row["difference"] == high:
        return trials.IN_EVERY_RUN
    return f"{_sign(row, 'difference_low')} to {_sign(row, 'difference_high')}"


def _mean(row: Mapping[str, Any]) -> str:
    """Return the mean over the runs in words, or in how many of them it is not known."""
    return trials.for_people(row)["mean"] if row["unknown"] else _amount(row, "mean")


def _sign(row: Mapping[str, Any], name: str) -> str:
    """Return an amount in words, with its sign also where it is more."""
    return f"{'+' if (row[name] or 0) > 0 else ''}{_amount(row, name)}"


def _amount(row: Mapping[str, Any], name: str) -> str:
    return trials.amount(row["measure"], row[name]) or MISSING
