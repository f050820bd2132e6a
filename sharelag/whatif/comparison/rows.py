"""Rows and names of comparisons, searches and moves to share groups, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sharelag.durations import duration
from sharelag.tables.words import THOUSANDS, number, pluralize, spell_out
from sharelag.whatif.assignors.registry import assignor_names
from sharelag.whatif.comparison.tables import DIFFERENCE, MEAN, MEASURED
from sharelag.whatif.estimates import Assumption
from sharelag.whatif.scenario import Scenario

_LESS_TELLING = {
    *("lag_end", "age_max_ms", "latency_p50_ms", "completed", "archived", "lost", "expired"),
    *("redelivered_share", "wasted_share", "moves", "busy_share"),
}
#: The measures of a comparison that are displayed by default.
SHOWN = tuple(name for name in MEASURED if name not in _LESS_TELLING)
#: The note of every comparison with a consumer group.
MOVING = (
    "the difference is the share group's less the consumer group's. "
    "Assumed: a consumer retries a failing record in place and then skips it, "
    "commits every 5 s, and its crash is noticed after 45 s"
)
#: Marks a number without an interval, because all runs have it.
IN_EVERY_RUN = "in every run"
#: Whether a goal is met.
MET = {True: "yes", False: "no", None: "not decided"}


def too_few(rows: Iterable[Mapping[str, Any]], seeds: int, level: float) -> Iterator[str]:
    """Say if all runs differ equally and are too few to rule out chance, at a level."""
    from sharelag.whatif.comparison.intervals import fewest_equal

    least = fewest_equal(level)
    if seeds < least and any(row["low"] is None and row["difference"] != 0 for row in rows):
        yield (
            f"{seeds} seed{'s are' if seeds > 1 else ' is'} too few for a verdict "
            f"where all differences are equal, or a time is not known: give {least} or more"
        )


def for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison's row in words: times with units, unknown values with their reason."""
    amounts = _amounts(row, row["measure"], (*MEAN, "median", *DIFFERENCE), MEAN, DIFFERENCE)
    how = {True: "better", False: "worse", None: ""}[row["better"]]
    how = "baseline" if row["variant"] == row["baseline"] else how
    failed = f"{row['failed']} failed" if row["failed"] else ""
    standing_words = ", ".join(filter(None, (how, "winner" * bool(row["winner"]), failed))) or None
    return {**row, **amounts, "by": row["measure"], "verdict": standing_words}


def run_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a run in words: times with units."""
    times = [name for name in MEASURED if name.endswith("_ms")]
    return {**row, **{name: amount(name, row[name]) for name in times}}


def probe_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search's row in words."""
    amounts = _amounts(row, measure_of(row["goal"]), MEAN, MEAN)
    return {**row, **amounts, "met": MET[row["met"]], "answer": "fewest" if row["answer"] else None}


def moving_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a move's row in words."""
    names = ("consumer_group", "share_group", "difference", "low", "high")
    amounts = {name: amount(row["measure"], row[name]) for name in names}
    return {**row, "by": row["measure"], **amounts}


def _amounts(
    row: Mapping[str, Any], measure: str, names: Iterable[str], *spans: tuple[str, str, str]
) -> dict[str, str | None]:
    """Return values in words; equal bounds are left out, and unknown means are explained."""
    amounts = {name: amount(measure, row[name]) for name in names}
    for name, low, high in spans:
        if row[name] is not None and row[low] == row[name] == row[high]:
            amounts |= {name: f"{amounts[name]} {IN_EVERY_RUN}", low: None, high: None}
    if row["unknown"]:
        amounts["mean"] = f"unknown in {row['unknown']} of {row['n'] + row['unknown']}"
    return amounts


def measure_of(goal: str) -> str:
    """Return the measure of a goal's text, such as ``age_p95 <= 30s``."""
    written = goal.split()[0]
    return written if written in MEASURED else f"{written}_ms"


def amount(measure: str, value: float | None) -> str | None:
    """Return a value in words, with its unit if it is a time; None if unknown."""
    if value is None:
        return None
    if measure.endswith("_ms"):
        return f"{'-' if value < 0 else ''}{duration(abs(value))}"
    return number(value, THOUSANDS)


def measure_words(measure: str) -> str:
    """Return a measure in words, with its unit unless that is a time or already included."""
    unit = MEASURED[measure].unit
    words = re.sub(r"(.+) (p\d+)$", r"\2 \1", spell_out(measure.removesuffix("_ms")))
    has_unit = unit in ("", "ms") or words.endswith(unit) or " per " in words
    return words if has_unit else f"{words} ({unit})"


#: The measures that decide, in this order, and their words.
DECISIVE = {"age_p95_ms": "p95 age", "drain_ms": "drain time"}
#: The measures of the decision table.
DECIDING = ("drain_ms", "age_p95_ms", "lag_p95", "redeliveries", "member_hours")
#: The most variants whose figures fit into a sentence; the table has all.
MOST_NAMED = 4
#: The names that a sentence lists if there are more.
_MOST_NAMED = 3
#: A gain below this share of the baseline is not noticeable.
MATTERS = 0.1


class Best(NamedTuple):
    """The variants that are best by a measure."""

    names: tuple[str, ...]  # several tie; none where no difference is shown
    beats_all: bool  # not only the baseline
    gains: tuple[float, ...]  # of each over the baseline; empty: unknown
    share: float | None  # the largest gain as a share of the baseline; None: unknown

    @property
    def is_small(self) -> bool:
        """Whether the gain is too small to act on."""
        return self.share is not None and 0 < self.share < MATTERS


def decision_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `decision` in words: times with units."""
    times = [name for name in DECIDING if name.endswith("_ms")]
    texts = {**row, **{name: amount(name, row[name]) for name in times}}
    if row["drain_ms"] is None and row["drained"] and row["horizon_ms"]:
        never = row["drained"].startswith("0 of ")
        texts["drain_ms"] = f"not in {duration(row['horizon_ms'])}" if never else "not in all runs"
    return texts


def difference_span(row: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return low, mean and high of a difference; None if one is unknown."""
    mean, low, high = (row.get(name) for name in DIFFERENCE)
    return None if mean is None or low is None or high is None else (low, mean, high)


def with_half(span: tuple[float, float, float] | None) -> str | None:
    """Return the difference of a time and half of its interval; None if unknown."""
    if span is None:
        return None
    low, difference, high = span
    if difference == low == high == 0:
        return "the same"
    sign = "+" if difference > 0 else ""
    return f"{sign}{amount('age_p95_ms', difference)} ± {duration((high - low) / 2)}"


def unknown_work(scenario: Scenario) -> str:
    """Say why the duration of a scenario is unknown; empty if it is known.

    If the processing time of a record was not measured, any duration would only reflect an
    assumption.
    """
    for one in scenario.assumed:
        if isinstance(one, Assumption) and one.code == "service":
            return (
                f"not known: {one.why}, so the time that a record takes is not known; give it "
                "as --service 20ms, or service=Service(20) in Python"
            )
    return ""


def say_blocked(scenario: Scenario) -> str:
    """Say which open transaction blocks the lag of a scenario; empty if there is none."""
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
    places = ", ".join(f"{name} from offset {begin}" for name, begin, _ in held[:MOST_NAMED])
    others = len(held) - MOST_NAMED
    more = f" and {pluralize(others, 'more partition')}" if others > 0 else ""
    so_far = pluralize(offsets, "offset")
    return f"blocked by a transaction that is open in {places}{more} ({so_far} so far)"


def standing(best: Best, baseline: str, is_pair: bool) -> str:
    """Say which variants are best, or better than the baseline alone; empty if none is."""
    if not best.names:
        return ""
    how = "is better" if is_pair else "is best" if best.beats_all else f"is better than {baseline}"
    return f"{name_variants(best.names)} {'tie' if len(best.names) > 1 else how}"


def sentence(words: str) -> str:
    """Return text as a sentence; an assignor's name at its beginning keeps its case."""
    is_name = words.split(" ")[0].rstrip(",:") in assignor_names()
    return f"{words if is_name else words[:1].upper() + words[1:]}."


def join_names(names: tuple[str, ...], word: str = "and") -> str:
    """Return names in a sentence: ``a, b and c``."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def name_variants(names: tuple[str, ...], word: str = "and") -> str:
    """Return variants in a sentence, for more than four ``a, b, c and 2 more``."""
    if len(names) > MOST_NAMED:
        names = (*names[:_MOST_NAMED], f"{len(names) - _MOST_NAMED} more")
    return join_names(names, word)


def span(measure: str, values: Iterable[float]) -> str:
    """Return values in words, from the least to the most: ``5m 2s to 7m 1s``."""
    ends = sorted(values)
    texts = dict.fromkeys(amount(measure, one) for one in (*ends[:1], *ends[-1:]))
    return " to ".join(map(str, texts))
