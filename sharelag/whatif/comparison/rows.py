"""What is said of comparisons, searches and moves to share groups: rows in words, and a verdict.

Two measures decide a verdict: the 95th percentile of the age of the oldest record, and the time
until the lag is gone. It names the one that shows a difference, or both, and where they disagree it
says so. Variants that are better than the baseline and do not differ among themselves tie. A gain
that is certain may still be too small to act on: below `MATTERS` the verdict says so.

Why a variant does better is known of three mechanisms: members finish less than arrives, a poll
takes longer than a lock, and members have nothing to do while others are behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sharelag.durations import duration
from sharelag.tables.words import counted, number, percent
from sharelag.whatif.assignors.registry import assignor_names
from sharelag.whatif.comparison.tables import MEASURED
from sharelag.whatif.estimates import Assumption
from sharelag.whatif.horizon import rates
from sharelag.whatif.scenario import Scenario

if TYPE_CHECKING:
    from sharelag.whatif.compare import Comparison

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
RATIOS = ("ratio", "ratio_high", "ratio_low")
MEAN = ("mean", "low", "high")
DIFFERENCE = ("difference", "difference_low", "difference_high")
AMOUNTS = (*MEAN, "median", *DIFFERENCE)


def measures() -> tuple[str, ...]:
    """Return what can be compared by."""
    return tuple(MEASURED)


def too_few(rows: Iterable[Mapping[str, Any]], seeds: int, level: float) -> Iterator[str]:
    """Say so where all runs differ by the same and are too few to rule out luck.

    Rows have a ``difference`` and its bound ``low``; ``level`` is the confidence of each.
    """
    from sharelag.whatif.comparison.intervals import fewest_equal

    least = fewest_equal(level)
    if seeds < least and any(row["low"] is None and row["difference"] != 0 for row in rows):
        yield (
            f"{seeds} seed{'s are' if seeds > 1 else ' is'} too few for a verdict "
            f"where all differences are equal, or a time is not known: give {least} or more"
        )


def for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same row in words: times with their units, what is not known with its reason."""
    amounts = {name: amount(row["measure"], row[name]) for name in AMOUNTS}
    _tell_sameness(row, amounts, MEAN, DIFFERENCE)
    words = {True: "better", False: "worse", None: None}
    is_baseline = row["variant"] == row["baseline"]
    verdict = [
        "baseline" if is_baseline else words[row["better"]],
        "winner" if row["winner"] else None,
        f"{row['failed']} failed" if row["failed"] else None,
    ]
    said = ", ".join(filter(None, verdict)) or None
    return {**row, **amounts, "by": row["measure"], "verdict": said}


def run_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the summary of a run in words: times with their units."""
    times = [name for name in measures() if name.endswith("_ms")]
    return {**row, **{name: amount(name, row[name]) for name in times}}


def probe_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same row in words."""
    written = row["goal"].split()[0]
    measure = written if written in MEASURED else f"{written}_ms"
    amounts = {name: amount(measure, row[name]) for name in MEAN}
    _tell_sameness(row, amounts, MEAN)
    met = {True: "yes", False: "no", None: "not decided"}[row["met"]]
    return {**row, **amounts, "met": met, "answer": "fewest" if row["answer"] else None}


def moving_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same row in words."""
    names = ("consumer_group", "share_group", "difference", "low", "high")
    amounts = {name: amount(row["measure"], row[name]) for name in names}
    return {**row, "by": row["measure"], **amounts}


def _tell_sameness(
    row: Mapping[str, Any], amounts: dict[str, str | None], *spans: tuple[str, str, str]
) -> None:
    """Say in place of bounds that every run has the same number, or that some runs have none."""
    for name, low, high in spans:
        if row[name] is not None and row[low] == row[name] == row[high]:
            amounts |= {name: f"{amounts[name]} {IN_EVERY_RUN}", low: None, high: None}
    if row["unknown"]:
        amounts["mean"] = f"unknown in {row['unknown']} of {row['n'] + row['unknown']}"


def amount(measure: str, value: float | None, thousands: str = ",") -> str | None:
    """Return a value of a measure in words, with its unit if that is time; None where unknown."""
    if value is None:
        return None
    if measure.endswith("_ms"):
        return f"{'-' if value < 0 else ''}{duration(abs(value))}"
    return number(value, thousands)


def measure_words(measure: str) -> str:
    """Return a measure for people: with its unit, unless that is a time and not said already."""
    unit = MEASURED[measure].unit
    words = measure.removesuffix("_ms").replace("_", " ")
    said = unit in ("", "ms") or words.endswith(unit) or " per " in words
    return words if said else f"{words} ({unit})"


#: The measures that decide, in this order, and their words.
DECISIVE = {"age_p95_ms": "p95 age", "drain_ms": "drain time"}
#: The measures of the table that decides.
DECIDING = ("drain_ms", "age_p95_ms", "lag_p95", "redeliveries", "member_hours")
#: Variants of which a sentence has the figures; the table has those of all.
_MOST = 4
#: A difference of the share of time that members are busy, below which it explains nothing.
_BUSIER = 0.05
#: A poll that takes this part of a lock on average often takes all of it.
_LONG_POLL = 0.5
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


def verdict(found: Comparison) -> str:
    """Return the sentence on a comparison, without a full stop.

    Nothing is said of which variant is better where nobody knows how long a record takes, and that
    no change helps where an open transaction holds what decides.
    """
    scenario = found.scenarios.get(found.baseline)
    if scenario is not None and (unknown := unknown_work(scenario)):
        return unknown
    best = list(dict.fromkeys(one.names for one in found.decisive.values() if one.names))
    held = "" if scenario is None else blocked(scenario)
    told = _in_order(found, best)
    # Who alone is named before the colon is not named again after it.
    is_one = len(best) == 1 or (not best and not held and len(told) == 2)
    figures = "; ".join(
        _course(found, names)
        if is_one and names == told[0]
        else f"{joined(names)}: {_course(found, names)}"
        for names in told
    )
    if held and not best:
        return f"{held}: members do not help there, nor do assignors or locks; {figures}"
    if held:
        figures += f"; {found.baseline} is {held}"
    over = "" if found.horizon_ms is None else f" over {duration(found.horizon_ms)}"
    return f"{_who(found, told)}{over}: {figures}"


def decision(found: Comparison) -> Iterator[dict[str, Any]]:
    """Yield one row per variant with what decides, the baseline first: see `DECISION` of the views.

    The verdict of a row says what the sentence of the comparison says of the variant.
    """
    for name in dict.fromkeys((found.baseline, *found.names)):
        of = {measure: found.cells.get((name, measure), {}) for measure in MEASURED}
        drain = of["drain_ms"]
        runs = drain.get("n", 0) + drain.get("unknown", 0)
        standings: dict[str, list[str]] = {}
        for measure, one in found.decisive.items():
            if how := _place(name, one, of[measure]["better"]):
                standings.setdefault(how, []).append(DECISIVE[measure])
        said = [f"{how} by {' and '.join(by)}" for how, by in standings.items()]
        said += ["baseline"] if name == found.baseline else []
        said += [f"{drain['failed']} failed"] if drain.get("failed") else []
        yield {
            "variant": name,
            **{measure: of[measure].get("mean") for measure in DECIDING},
            "drained": f"{drain['n']} of {runs}" if runs else None,
            "horizon_ms": found.horizon_ms,
            "age_p95_difference": _with_half(of["age_p95_ms"]),
            "verdict": "; ".join(said) or None,
        }


def _place(name: str, best: Best, better: bool | None) -> str:
    """Say where a variant stands by a measure; empty where the runs do not tell."""
    if name not in best.names:
        return {True: "better", False: "worse", None: ""}[better]
    place = "ties" if len(best.names) > 1 else "best" if best.beats_all else "better"
    return f"{place} (less than a tenth)" if best.is_small else place


def _with_half(row: Mapping[str, Any]) -> str | None:
    """Return the difference of a time and half of its interval; None where one is not known."""
    difference, low, high = (row.get(name) for name in DIFFERENCE)
    if difference is None or low is None or high is None:
        return None
    if difference == low == high == 0:
        return "the same"
    sign = "+" if difference > 0 else ""
    return f"{sign}{amount('age_p95_ms', difference)} ± {duration((high - low) / 2)}"


def decision_for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `decision` in words: times with their units, numbers of three digits."""
    said = {**row, **{name: amount(name, row[name]) for name in DECIDING}}
    if row["drain_ms"] is None and row["drained"] and row["horizon_ms"]:
        said["drain_ms"] = f"not in {duration(row['horizon_ms'])}"
    return said


def unknown_work(scenario: Scenario) -> str:
    """Say why nothing can be said of how long a scenario takes; empty where it can.

    A simulation needs the processing time of a record. Where nothing was measured of it, any
    number would only be the one that was assumed.
    """
    for one in scenario.assumed:
        if isinstance(one, Assumption) and one.code == "service":
            return (
                f"not known: {one.why}, so nobody knows how long a record takes; give it as "
                "--service 20ms, or service=Service(20) in Python"
            )
    return ""


def blocked(scenario: Scenario) -> str:
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
    places = ", ".join(f"{name} from offset {begin}" for name, begin, _ in held[:_MOST])
    more = f" and {len(held) - _MOST} more partitions" if len(held) > _MOST else ""
    return f"blocked by a transaction that is open in {places}{more} ({offsets} offsets so far)"


def _who(found: Comparison, told: list[tuple[str, ...]]) -> str:
    """Say who is best by which of the measures that decide."""
    by_measure, is_pair = found.decisive, len(found.names) == 2
    by_best: dict[tuple[str, ...], list[str]] = {}
    for measure, one in by_measure.items():
        by_best.setdefault(one.names, []).append(measure)
    by_best.pop((), None)
    if not by_best:
        by = " or ".join(DECISIVE[measure] for measure in by_measure)
        who = f"{told[0][0]} is not" if is_pair else "no variant is"
        return f"{who} shown to be better{'' if is_pair else f' than {found.baseline}'} by {by}"
    said: list[str] = []
    verb = ""
    for names, measures in by_best.items():
        best = min((by_measure[name] for name in measures), key=lambda one: one.beats_all)
        who, before = standing(best, found.baseline, is_pair), verb
        verb = who.removeprefix(joined(names))
        by = " and ".join(
            DECISIVE[name] + _gain(by_measure[name], name, found) for name in measures
        )
        said.append(f"{joined(names) if verb == before else who} by {by}")
    return ", but ".join(said)


def standing(best: Best, baseline: str, is_pair: bool) -> str:
    """Say which variants are best, or better than the baseline alone; empty where none is."""
    if not best.names:
        return ""
    how = "is better" if is_pair else "is best" if best.beats_all else f"is better than {baseline}"
    return f"{joined(best.names)} {'tie' if len(best.names) > 1 else how}"


def sentence(said: str) -> str:
    """Return what is said as a sentence; an assignor's name that it begins with stays as it is."""
    is_name = said.split(" ")[0].rstrip(",:") in assignor_names()
    return f"{said if is_name else said[:1].upper() + said[1:]}."


def joined(names: tuple[str, ...], word: str = "and") -> str:
    """Return names in a sentence: ``a, b and c``."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def span(measure: str, values: Iterable[float]) -> str:
    """Return values of a measure in words, from the least to the most: ``5m 2s to 7m 1s``."""
    ends = sorted(values)
    said = dict.fromkeys(amount(measure, one) for one in (*ends[:1], *ends[-1:]))
    return " to ".join(map(str, said))


def _gain(best: Best, measure: str, found: Comparison) -> str:
    """Say by how much variants that tie are better, and where a gain is too small to act on."""
    said = []
    if len(best.names) > 1 and best.gains:
        said.append(f"{span(measure, best.gains)} less than {found.baseline}")
    if best.is_small:
        said.append("less than a tenth")
    return f" ({', '.join(said)})" if said else ""


def _in_order(found: Comparison, best: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return whose figures it has: the best, others as far as they fit, the baseline."""
    named = {name for names in best for name in names}
    told = found.names if len(found.names) <= _MOST else []
    others = [(name,) for name in told if name not in named and name != found.baseline]
    return list(dict.fromkeys([*best, *others, (found.baseline,)]))


def _course(found: Comparison, names: tuple[str, ...]) -> str:
    """Say how the lag of variants went, on average; of several from the least to the most."""
    drains, ages = (
        [cell for name in names if (cell := found.cells.get((name, measure)))]
        for measure in ("drain_ms", "age_p95_ms")
    )
    drained = sum(cell["n"] for cell in drains)
    runs = drained + sum(cell["unknown"] for cell in drains)
    if drains and not runs:
        return "all of its runs failed"
    if drains and drained == runs:
        said = f"drained in {span('drain_ms', [cell['mean'] for cell in drains])}"
    else:
        often = f" in {runs - drained} of {runs} runs" if drained else ""
        within = "the run" if found.horizon_ms is None else duration(found.horizon_ms)
        said = f"not drained within {within}{often}"
    known = [cell["mean"] for cell in ages if cell["mean"] is not None]
    return f"{said}, p95 age {span('age_p95_ms', known)}" if known else said


def reasons(found: Comparison, name: str) -> Iterator[str]:
    """Yield why a variant differs from the baseline, as far as the runs show it, without a stop."""
    usual, changed = found.scenarios.get(found.baseline), found.scenarios.get(name)
    if usual is None or changed is None or name == found.baseline:
        return

    def both(measure: str) -> tuple[float, float] | None:
        """Return the means of baseline and variant where the runs tell them apart."""
        cell = found.cells.get((name, measure), {})
        low, high = cell.get("difference_low"), cell.get("difference_high")
        if low is None or high is None or low <= 0 <= high:
            return None
        return found.cells[found.baseline, measure]["mean"], cell["mean"]

    known, more = rates(usual), rates(changed)
    few, many = len(usual.each_member()), len(changed.each_member())
    if known.each and few * known.each <= known.arriving < many * more.each:
        yield (
            f"{known.arriving:.3g} records/s arrive, of which {counted(few, 'member')} can finish "
            f"{few * known.each:.3g} and {counted(many, 'member')} {many * more.each:.3g}"
        )
    locks = [one.settings.limits.lock_duration_ms for one in (usual, changed)]
    polls = [(one.max_poll_records * one.service.mean_ms, one) for one in usual.each_member()]
    longest, member = max(polls, key=lambda one: one[0], default=(0.0, None))
    expired = both("expired")
    if expired and member and locks[0] != locks[1] and longest >= _LONG_POLL * min(locks):
        yield (
            f"a poll of {counted(member.max_poll_records, 'record')} x "
            f"{number(member.service.mean_ms)} ms takes {duration(longest)}: with locks of "
            f"{duration(locks[0])} {number(expired[0])} deliveries expire, with "
            f"{duration(locks[1])} {number(expired[1])}"
        )
    busy = both("busy_share")
    if busy and usual.assignor != changed.assignor and busy[1] - busy[0] > _BUSIER:
        yield (
            f"with {usual.assignor} members are busy {percent(busy[0])} of the time, with "
            f"{changed.assignor} {percent(busy[1])}: it lets more of them work where the lag is"
        )
