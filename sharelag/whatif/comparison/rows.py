"""What is said of comparisons, searches and moves to share groups: rows and names in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sharelag.durations import duration
from sharelag.tables.words import THOUSANDS, counted, number, spell_out
from sharelag.whatif.assignors.registry import assignor_names
from sharelag.whatif.comparison.tables import DIFFERENCE, MEAN, MEASURED
from sharelag.whatif.estimates import Assumption
from sharelag.whatif.scenario import Scenario

_LESS_TELLING = {
    *("lag_end", "age_max_ms", "latency_p50_ms", "completed", "archived", "lost", "expired"),
    *("redelivered_share", "wasted_share", "moves", "busy_share"),
}
#: What people are shown of a comparison when they choose no measures.
SHOWN = tuple(name for name in MEASURED if name not in _LESS_TELLING)
#: What is said of every move.
MOVING = (
    "the difference is the share group's less the consumer group's. "
    "Assumed: a consumer retries a failing record in place and then skips it, "
    "commits every 5 s, and is missed 45 s after it crashed"
)
#: Of a number that has no interval, for all runs have it.
IN_EVERY_RUN = "in every run"
#: Whether a goal is met.
MET = {True: "yes", False: "no", None: "not decided"}


def too_few(rows: Iterable[Mapping[str, Any]], seeds: int, level: float) -> Iterator[str]:
    """Say where all runs differ by the same and are too few to rule out luck, at a level."""
    from sharelag.whatif.comparison.intervals import fewest_equal

    least = fewest_equal(level)
    if seeds < least and any(row["low"] is None and row["difference"] != 0 for row in rows):
        yield (
            f"{seeds} seed{'s are' if seeds > 1 else ' is'} too few for a verdict "
            f"where all differences are equal, or a time is not known: give {least} or more"
        )


def for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same row in words: times with their units, what is not known with its reason."""
    amounts = _amounts(row, row["measure"], (*MEAN, "median", *DIFFERENCE), MEAN, DIFFERENCE)
    how = {True: "better", False: "worse", None: ""}[row["better"]]
    how = "baseline" if row["variant"] == row["baseline"] else how
    failed = f"{row['failed']} failed" if row["failed"] else ""
    said = ", ".join(filter(None, (how, "winner" * bool(row["winner"]), failed))) or None
    return {**row, **amounts, "by": row["measure"], "verdict": said}


def run_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a run in words: times with their units."""
    times = [name for name in MEASURED if name.endswith("_ms")]
    return {**row, **{name: amount(name, row[name]) for name in times}}


def probe_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same row in words."""
    amounts = _amounts(row, measure_of(row["goal"]), MEAN, MEAN)
    return {**row, **amounts, "met": MET[row["met"]], "answer": "fewest" if row["answer"] else None}


def moving_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same row in words."""
    names = ("consumer_group", "share_group", "difference", "low", "high")
    amounts = {name: amount(row["measure"], row[name]) for name in names}
    return {**row, "by": row["measure"], **amounts}


def _amounts(
    row: Mapping[str, Any], measure: str, names: Iterable[str], *spans: tuple[str, str, str]
) -> dict[str, str | None]:
    """Return values in words; in place of bounds that every run has the same, or some have none."""
    amounts = {name: amount(measure, row[name]) for name in names}
    for name, low, high in spans:
        if row[name] is not None and row[low] == row[name] == row[high]:
            amounts |= {name: f"{amounts[name]} {IN_EVERY_RUN}", low: None, high: None}
    if row["unknown"]:
        amounts["mean"] = f"unknown in {row['unknown']} of {row['n'] + row['unknown']}"
    return amounts


def measure_of(goal: str) -> str:
    """Return the measure of a goal as it is written, such as ``age_p95 <= 30s``."""
    written = goal.split()[0]
    return written if written in MEASURED else f"{written}_ms"


def amount(measure: str, value: float | None) -> str | None:
    """Return a value of a measure in words, with its unit if that is time; None where unknown."""
    if value is None:
        return None
    if measure.endswith("_ms"):
        return f"{'-' if value < 0 else ''}{duration(abs(value))}"
    return number(value, THOUSANDS)


def measure_words(measure: str) -> str:
    """Return a measure for people: with its unit, unless that is a time and not said already."""
    unit = MEASURED[measure].unit
    words = re.sub(r"(.+) (p\d+)$", r"\2 \1", spell_out(measure.removesuffix("_ms")))
    said = unit in ("", "ms") or words.endswith(unit) or " per " in words
    return words if said else f"{words} ({unit})"


#: The measures that decide, in this order, and their words.
DECISIVE = {"age_p95_ms": "p95 age", "drain_ms": "drain time"}
#: The measures of the table that decides.
DECIDING = ("drain_ms", "age_p95_ms", "lag_p95", "redeliveries", "member_hours")
#: Variants of which a sentence has the figures; the table has those of all.
MOST_TOLD = 4
#: Names that a sentence has of more than those.
_MOST_NAMED = 3
#: A gain below this share of what the baseline has changes nothing that people would notice.
MATTERS = 0.1


class Best(NamedTuple):
    """The variants that are best by a measure."""

    names: tuple[str, ...]  # several tie; none where no difference is shown
    beats_all: bool  # and not the baseline alone
    gains: tuple[float, ...]  # by how much each is better than the baseline; empty: unknown
    share: float | None  # the largest gain as a part of what the baseline has; None: unknown

    @property
    def is_small(self) -> bool:
        """Whether the gain is too small to act on."""
        return self.share is not None and 0 < self.share < MATTERS


def decision_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `decision` in words: times with their units."""
    times = [name for name in DECIDING if name.endswith("_ms")]
    said = {**row, **{name: amount(name, row[name]) for name in times}}
    if row["drain_ms"] is None and row["drained"] and row["horizon_ms"]:
        never = row["drained"].startswith("0 of ")
        said["drain_ms"] = f"not in {duration(row['horizon_ms'])}" if never else "not in all runs"
    return said


def difference_span(row: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return low, mean and high of a difference; None where one is not known."""
    mean, low, high = (row.get(name) for name in DIFFERENCE)
    return None if mean is None or low is None or high is None else (low, mean, high)


def with_half(span: tuple[float, float, float] | None) -> str | None:
    """Return the difference of a time and half of its interval; None where one is not known."""
    if span is None:
        return None
    low, difference, high = span
    if difference == low == high == 0:
        return "the same"
    sign = "+" if difference > 0 else ""
    return f"{sign}{amount('age_p95_ms', difference)} ± {duration((high - low) / 2)}"


def unknown_work(scenario: Scenario) -> str:
    """Say why nothing can be said of how long a scenario takes; empty where it can.

    Where nothing was measured of a record's work, any number would only be what was assumed.
    """
    for one in scenario.assumed:
        if isinstance(one, Assumption) and one.code == "service":
            return (
                f"not known: {one.why}, so nobody knows how long a record takes; give it as "
                "--service 20ms, or service=Service(20) in Python"
            )
    return ""


def say_blocked(scenario: Scenario) -> str:
    """Say which open transaction holds the lag of a scenario; empty where none does."""
    if scenario.settings.isolation_level != "read_committed":
        return ""
    held = [
        (f"{topic}:{number}", start.open_from, start.end_offset)
        for (topic, number), start in scenario.starts.items()
        if start.open_from is not None and start.open_from < start.end_offset
    ]
    if not held:
        return ""
    offsets = sum(end - begin for _, begin, end in held)
    places = ", ".join(f"{name} from offset {begin}" for name, begin, _ in held[:MOST_TOLD])
    others = len(held) - MOST_TOLD
    more = f" and {counted(others, 'more partition')}" if others > 0 else ""
    so_far = counted(offsets, "offset")
    return f"blocked by a transaction that is open in {places}{more} ({so_far} so far)"


def standing(best: Best, baseline: str, is_pair: bool) -> str:
    """Say which variants are best, or better than the baseline alone; empty where none is."""
    if not best.names:
        return ""
    how = "is better" if is_pair else "is best" if best.beats_all else f"is better than {baseline}"
    return f"{name_variants(best.names)} {'tie' if len(best.names) > 1 else how}"


def sentence(said: str) -> str:
    """Return what is said as a sentence; an assignor's name that it begins with stays as it is."""
    is_name = said.split(" ")[0].rstrip(",:") in assignor_names()
    return f"{said if is_name else said[:1].upper() + said[1:]}."


def join_names(names: tuple[str, ...], word: str = "and") -> str:
    """Return names in a sentence: ``a, b and c``."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def name_variants(names: tuple[str, ...], word: str = "and") -> str:
    """Return variants in a sentence, of more than four ``a, b, c and 2 more``: a table has all."""
    if len(names) > MOST_TOLD:
        names = (*names[:_MOST_NAMED], f"{len(names) - _MOST_NAMED} more")
    return join_names(names, word)


def span(measure: str, values: Iterable[float]) -> str:
    """Return values of a measure in words, from the least to the most: ``5m 2s to 7m 1s``."""
    ends = sorted(values)
    said = dict.fromkeys(amount(measure, one) for one in (*ends[:1], *ends[-1:]))
    return " to ".join(map(str, said))
