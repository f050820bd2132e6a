"""Rows of comparisons, searches and moves to share groups, for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sharelag.durations import duration
from sharelag.tables.words import number
from sharelag.whatif.comparison.tables import MEASURED

#: What people are shown of a comparison when they choose no measures.
SHOWN = (
    "drain_ms",
    "lag_p50",
    "lag_p95",
    "lag_max",
    "age_p50_ms",
    "age_p95_ms",
    "latency_p95_ms",
    "redeliveries",
    "wasted",
    "idle_members",
    "moves_per_minute",
    "fairness",
    "member_hours",
    "drain_over_optimal",
    "age_p95_over_optimal",
)
#: What is said of every move.
MOVING = (
    "the difference is the share group's less the consumer group's. "
    "Assumed: a consumer retries a failing record in place and then skips it, "
    "commits every 5 s, and is missed 45 s after it crashed"
)
#: Of a number that has no interval, for all runs have it.
IN_EVERY_RUN = "in every run"
RATIOS = frozenset({"ratio", "ratio_low", "ratio_high"})
AMOUNTS = ("mean", "low", "high", "median", "difference", "difference_low", "difference_high")


def measures() -> tuple[str, ...]:
    """What can be compared by."""
    return tuple(MEASURED)


def too_few(rows: Iterable[Mapping[str, Any]], seeds: int, level: float) -> Iterator[str]:
    """Say so where all runs differ by the same and are too few to rule out luck.

    Parameters
    ----------
    rows : iterable of mapping
        With a ``difference`` and its bound ``low``, as `Comparison.differences` and
        `Moving.answers` have them.
    seeds : int
    level : float
        Confidence of each of the differences.
    """
    from sharelag.whatif.comparison.intervals import fewest_equal

    least = fewest_equal(level)
    if seeds < least and any(row["low"] is None and row["difference"] != 0 for row in rows):
        yield (
            f"{seeds} seed{'s are' if seeds > 1 else ' is'} too few for a verdict "
            f"where all differences are equal, or a time is not known: give {least} or more"
        )


def for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same row in words: times with their units, what is not known with its reason."""
    amounts = {name: amount(row["measure"], row[name]) for name in AMOUNTS}
    for name, low, high in (
        ("mean", "low", "high"),
        ("difference", "difference_low", "difference_high"),
    ):
        amounts |= _in_every_run(row, amounts, name, low, high)
    if row["unknown"]:
        amounts["mean"] = f"unknown in {row['unknown']} of {row['n'] + row['unknown']}"
    words = {True: "better", False: "worse", None: None}
    is_baseline = row["variant"] == row["baseline"]
    verdict = [
        "baseline" if is_baseline else words[row["better"]],
        "winner" if row["winner"] else None,
        f"{row['failed']} failed" if row["failed"] else None,
    ]
    return {
        **row,
        **amounts,
        "by": row["measure"],
        "verdict": ", ".join(filter(None, verdict)) or None,
    }


def run_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a run in words: times with their units."""
    times = [name for name in measures() if name.endswith("_ms")]
    return {**row, **{name: amount(name, row[name]) for name in times}}


def probe_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same row in words."""
    written = row["goal"].split()[0]
    measure = written if written in MEASURED else f"{written}_ms"
    amounts = {name: amount(measure, row[name]) for name in ("mean", "low", "high")}
    amounts |= _in_every_run(row, amounts, "mean", "low", "high")
    if row["unknown"]:
        amounts["mean"] = f"unknown in {row['unknown']} of {row['n'] + row['unknown']}"
    met = {True: "yes", False: "no", None: "not decided"}[row["met"]]
    return {**row, **amounts, "met": met, "answer": "fewest" if row["answer"] else None}


def moving_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same row in words."""
    names = ("consumer_group", "share_group", "difference", "low", "high")
    return {
        **row,
        "by": row["measure"],
        **{name: amount(row["measure"], row[name]) for name in names},
    }


def _in_every_run(
    row: Mapping[str, Any], amounts: Mapping[str, str | None], name: str, low: str, high: str
) -> dict[str, str | None]:
    """What to say instead of an interval from a number to itself."""
    if row[name] is None or not row[low] == row[name] == row[high]:
        return {}
    return {name: f"{amounts[name]} {IN_EVERY_RUN}", low: None, high: None}


def amount(measure: str, value: float | None, thousands: str = ",") -> str | None:
    """A value of a measure in words, with its unit if that is time; None where unknown."""
    if value is None:
        return None
    if measure.endswith("_ms"):
        return f"{'-' if value < 0 else ''}{duration(abs(value))}"
    return number(value, thousands)


def measure_words(measure: str) -> str:
    """A measure for people: with its unit, unless that is a time and not said already."""
    unit = MEASURED[measure].unit
    words = measure.removesuffix("_ms").replace("_", " ")
    said = unit in ("", "ms") or words.endswith(unit) or " per " in words
    return words if said else f"{words} ({unit})"
