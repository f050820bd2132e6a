"""Verdicts on share groups, forecasts of their lag, and causes in words."""

from __future__ import annotations

import io
import math
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from sharelag.durations import duration
from sharelag.metrics.brokers import Lead, leads
from sharelag.metrics.causes.declared import not_started
from sharelag.metrics.causes.inputs import CauseInputs, ages_by_group
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.explain import Suspicion, explain, suspect
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.rates import (
    DRAINED,
    DRAINS,
    DRAINS_OF,
    NEVER,
    NOBODY,
    PAUSED,
    STALLED,
    UNCERTAIN,
    UNKNOWN,
)
from sharelag.model import iso
from sharelag.schemas import Arrow
from sharelag.tables.arrow import rows_by_group
from sharelag.tables.gaps import NO_AGE, REASONS, judge_lags
from sharelag.tables.level import LEVELS, SEVERITIES, outcome, rank, worst
from sharelag.tables.presentation import CauseSummary, GroupSummary
from sharelag.tables.render import MOST
from sharelag.tables.words import (
    lag_sum,
    moment,
    number,
    per_second,
    pluralize,
    shown_name,
    terminal,
)

#: Columns of `sharelag.schemas.PROGRESS` that a forecast needs.
COLUMNS = ("drain", "drain_ms", "drain_low_ms", "drain_high_ms", "arrival_rate", "completion_rate")


class Forecast(NamedTuple):
    """The forecast for a group's lag, which follows its slowest share partition."""

    kind: str  # one of `sharelag.metrics.rates.DRAINS_OF`
    words: str  # as shown in a cell
    interval: str = ""  # of 95 % confidence, where there is a time

    def sentence(self) -> str:
        """Return the forecast with its interval: ``gone in 3.4 s (1.3 s to never)``."""
        if self.kind == UNCERTAIN:
            return "uncertain whether it drains"
        return f"gone {self.words} ({self.interval})" if self.interval else self.words


def unforeseen(ages: Sequence[float], ahead: Forecast) -> str:
    """Return the unknowns of a lag that seems harmless; empty if there are none.

    ``ages`` are those of the group's share partitions, NaN where unknown.
    """
    if ahead.kind == UNKNOWN:
        return "how fast records arrive or are finished is unknown"
    return NO_AGE if any(map(math.isnan, ages)) else ""


def forecast(rows: Sequence[Mapping[str, Any]]) -> Forecast:
    """Forecast a group's lag from the `COLUMNS` of `sharelag.schemas.PROGRESS`."""
    kinds = {row["drain"] for row in rows}
    if not rows:
        return Forecast(UNKNOWN, "unknown")
    if kinds <= {DRAINED}:
        return Forecast(DRAINED, "no lag")
    if NOBODY in kinds:
        return Forecast(NOBODY, "the group is empty")
    if NEVER in kinds and STALLED not in kinds:
        growing = [row for row in rows if row["drain"] == NEVER]
        more = sum(row["arrival_rate"] - row["completion_rate"] for row in growing)
        at_least = "at least " if UNKNOWN in kinds else ""
        return Forecast(NEVER, f"grows {at_least}{per_second(more)}")
    for kind in (STALLED, PAUSED, UNKNOWN, UNCERTAIN):
        if kind in kinds:
            return Forecast(kind, kind)
    slowest = max((row for row in rows if row["drain"] == DRAINS), key=lambda row: row["drain_ms"])
    high = "never" if slowest["drain_high_ms"] is None else duration(slowest["drain_high_ms"])
    interval = f"{duration(slowest['drain_low_ms'])} to {high}"
    return Forecast(DRAINS, f"in {duration(slowest['drain_ms'])}", interval)


#: The subject of a headline that concerns no group.
CLUSTER = "the cluster"
#: Drains that need attention, whatever the cause.
_NEVER = {
    STALLED: "nothing is being finished",
    NEVER: "records arrive faster than they are finished",
}
_OWN_RULE = {
    "rule": "drain",
    "level": "warning",
    "topic": None,
    "partition": None,
    "since": None,
    "is_own": True,
}
#: Drains without a forecast, and why.
_NO_FORECAST = {kind: DRAINS_OF[kind] for kind in (NOBODY, PAUSED)}
_FINE = "No problems found."
#: The lag consists of transaction markers or compacted offsets.
_NOTHING_TO_READ = "nothing to read"


def unknown_lags(evidence: Evidence) -> dict[str, list[tuple[str, str]]]:
    """Judge each group by its unknown lags, as `sharelag.tables.gaps.judge_lags` does."""
    facts = CauseInputs.of(evidence)
    end = facts.lag("end_offset")
    nothing_came = (end <= facts.lag("log_start_offset")) | ((facts.arrived == 0) & ~np.isnan(end))
    return judge_lags(evidence.lag, not_started.find(facts).where, nothing_came)


def worst_cause(group: Mapping[str, Any]) -> str | None:
    """Return the most severe cause of a judged group, or None."""
    causes = group["causes"]
    return causes[0]["cause"] if causes else None


def judge_groups(
    evidence: Evidence,
    patience: timedelta | None = None,
    broken: Mapping[str | None, list[dict[str, Any]]] | None = None,
) -> list[dict[str, Any]]:
    """Judge share groups by the causes of their lag, what is unknown, and broken rules.

    A condition counts as a cause once it has lasted for ``patience``; ``broken`` has the rows of
    `sharelag.schemas.CHECKED` that are not ok, by group. The result is sorted by level, worst
    first, then by lag: ``group_id``, ``level`` (of `sharelag.tables.level.LEVELS`),
    ``partitions``, ``lag``, ``unknown_lags``, ``max_lag``, ``age_ms``, ``unknown_ages``,
    ``margin_ms``, ``drain`` (in words), ``causes``, ``rules``, and ``why``, the main finding in a
    sentence (None: no problem).
    """
    causes, progress = rows_by_group(explain(evidence, patience)), rows_by_group(evidence.progress)
    dark, young = unknown_lags(evidence), suspect(evidence, patience)
    rules = broken or {}
    ages = ages_by_group(evidence)
    groups = []
    for row in rollup_arrow(evidence.lag, "group").to_pylist():
        name = row["group_id"]
        mine = ages[name], progress[name], causes[name], rules.get(name, []), dark.get(name, [])
        groups.append(_group(row, *mine, young.get(name)))
    groups.sort(key=lambda group: (-rank(group["level"]), -(group["lag"] or 0), group["group_id"]))
    return groups


def _group(
    row: Mapping[str, Any],
    ages: list[float],
    mine: list[dict[str, Any]],
    causes: list[dict[str, Any]],
    judged: list[dict[str, Any]],
    dark: list[tuple[str, str]],
    young: Suspicion | None,
) -> dict[str, Any]:
    ahead = forecast(mine)
    nothing_to_read = ahead.kind == DRAINED and bool(row["lag"])
    if ahead.kind in _NEVER and not causes:
        why = f"; {young.words()}" if young else ", and no cause was found"
        judged = [*judged, _OWN_RULE | {"summary": f"{_NEVER[ahead.kind]}{why}"}]
    # A group is ok only if everything about it is known.
    own = [
        _OWN_RULE | {"rule": "lag", "level": level, "summary": words}
        for level, words in dark
        if level != "ok"
    ]
    if row["lag"] and not causes and not dark and (why := unforeseen(ages, ahead)):
        own.append(_OWN_RULE | {"level": "unknown", "summary": why})
    judged = [*judged, *own]
    levels = [outcome(cause["severity"]) for cause in causes] + [one["level"] for one in judged]
    margins = [one["margin_ms"] for one in mine if one["margin_ms"] is not None]
    none_left = 0 if ahead.kind == DRAINED else None
    oldest = max((int(age) for age in ages if age >= 0), default=none_left)
    unknown_ages = sum(map(math.isnan, ages))
    return {
        "group_id": row["group_id"],
        "level": worst(["ok", *levels]),
        "partitions": row["partitions"],
        "lag": row["lag"],
        "unknown_lags": row["unknown_lags"],
        "max_lag": row["max_lag"],
        # An unknown age may be the greatest.
        "age_ms": None if unknown_ages or nothing_to_read else oldest,
        "unknown_ages": unknown_ages,
        "margin_ms": min(margins, default=None),
        "drain": _NOTHING_TO_READ if nothing_to_read else ahead.words,
        "causes": [_cause(cause) for cause in causes],
        "rules": [rule_of(one) for one in judged],
        "why": _why(causes, judged, [words for _, words in dark], ahead.kind),
    }


def _why(
    causes: list[dict[str, Any]], judged: list[dict[str, Any]], dark: list[str], ahead: str
) -> str | None:
    reasons = [cause["summary"] for cause in causes]
    reasons += [f"{one['rule']}: {one['summary']}" for one in judged] + dark
    return reasons[0] if reasons else _NO_FORECAST.get(ahead)


def _cause(cause: Mapping[str, Any]) -> dict[str, Any]:
    names = ("cause", "severity", "topic", "topic_id", "partition", "held", "summary", "advice")
    evidence = {one["name"]: one["value"] for one in cause["evidence"]}
    known = {name: cause[name] for name in names}
    return known | {"since": _time(cause["since"]), "evidence": evidence}


def rule_of(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a broken rule that a verdict contains."""
    summary = {name: one[name] for name in ("rule", "level", "topic", "partition", "summary")}
    return summary | {"since": _time(one["since"]), "is_own": one.get("is_own", False)}


def _time(at: Any) -> str | None:
    return None if at is None else iso(at)


def headline(groups: list[dict[str, Any]], rules: list[dict[str, Any]]) -> str:
    """Summarize the groups that need attention, then the rules that concern no group."""
    words = _of_groups(groups)
    if not rules:
        return words
    # Something about the cluster is wrong or unknown.
    words = "No problems found in 1 share group." if words == _FINE else words
    first = max(rules, key=lambda one: rank(one["level"]))
    more = f" (and {len(rules) - 1:,} more)" if rules[1:] else ""
    return f"{words} {CLUSTER.capitalize()}: {first['rule']}: {first['summary']}{more}."


def _of_groups(groups: list[dict[str, Any]]) -> str:
    count = pluralize(len(groups), "share group")
    bad = [group for group in groups if group["level"] in ("warning", "critical")]
    if not bad:
        dark = [group for group in groups if group["level"] == "unknown"]
        if dark:
            return f"No problems found in {count}, but {len(dark):,} could not be fully judged."
        return f"No problems found in {count}." if len(groups) != 1 else _FINE
    why = _worst(bad[0])
    if len(groups) == 1:
        return f"{bad[0]['group_id']}: {why}."
    need = "needs" if len(bad) == 1 else "need"
    others = sum(_worst(group) == why for group in bad[1:])
    more = f" and {others:,} more" if others else ""
    return f"{len(bad):,} of {count} {need} attention. {bad[0]['group_id']}{more}: {why}."


def _worst(group: Mapping[str, Any]) -> str:
    found = [(outcome(one["severity"]), one["summary"]) for one in group["causes"]]
    found += [(one["level"], one["summary"]) for one in group["rules"]]
    return str(max(found, key=lambda one: rank(one[0]))[1])


#: Columns of share partitions that the sentences use.
_DRAINS = ["group_id", *COLUMNS]
#: Evidence whose name needs an explanation.
_WORDS = {
    "held_by": "",  # the value says it
    "led_by": "led by",
    "measured": "brokers measured",
    "refusal": "",  # in whole sentences
    "times": "seen this often:",
}
#: Evidence that is equal in all partitions of a cause.
_GROUP_COLUMNS = (
    *("members", "led_by", "held_by", "limit", "lock duration ms", "arrived in all partitions"),
    *("defect", "refusal"),
)
#: The suffix for groups without a cause that have unknown values.
_NOT_ALL = ", but not all is known"
#: The indent of a cause's sentence in a terminal.
_INDENT = 5
_LAGS = ["group_id", "effective_lag", "lag_reason", "end_offset", "log_start_offset"]


def summarize_groups(
    evidence: Evidence, causes: Arrow, patience: timedelta | None = None
) -> Iterator[GroupSummary]:
    """Yield the state and causes (`CAUSES`) of each group in words, worst group first.

    ``patience`` is the one that the causes were found with. Names are escaped for a terminal, not
    for HTML.
    """
    found, progress = rows_by_group(causes), rows_by_group(evidence.progress, _DRAINS)
    lag = rows_by_group(evidence.lag, _LAGS)
    of_groups = evidence.groups.to_pylist()
    emptied = {row["group_id"]: row["emptied"] for row in of_groups if row["members"] == 0}
    young, led = suspect(evidence, patience), leads(evidence.brokers)
    ages = ages_by_group(evidence)
    groups = rollup_arrow(evidence.lag, "group").to_pylist()
    for group in sorted(groups, key=lambda one: _badness(one, found[one["group_id"]])):
        name = group["group_id"]
        nobody = "the group has no members" if name in emptied else ""
        if nobody and emptied[name]:
            nobody += f" since {moment(emptied[name])}"
        state = _state(group, progress[name], ages[name], nobody, led.get(name))
        if not found[name]:
            seen = young.get(name), progress[name], ages[name]
            state += f", {_nothing_found(lag[name], nobody, *seen)}"
        yield GroupSummary(shown_name(name), state, tuple(map(_cause_summary, found[name])))


def _badness(group: dict[str, Any], causes: list[dict[str, Any]]) -> tuple[int, int, str]:
    """Return a sort key, worst first: severity of the first cause, then lag."""
    severity = min((SEVERITIES.index(one["severity"]) for one in causes), default=9)
    return severity, -(group["lag"] or 0), str(group["group_id"])


def summary_lines(summaries: Iterable[GroupSummary]) -> Iterator[str]:
    """Yield summaries as lines, coloured if standard output is a terminal."""
    out = io.StringIO()
    is_seen = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_seen else 120
    # Without a height, rich would replace the width of a dumb terminal by 80.
    console = Console(file=out, force_terminal=is_seen, width=width, height=1, highlight=False)
    for group in summaries:
        _print_hanging(console, Text.assemble((group.group, "bold"), f"  {group.state}"))
        for cause in group.causes[:MOST]:
            _print(console, cause)
        if (left := len(group.causes) - MOST) > 0:
            _print_hanging(console, Text(f"  and {pluralize(left, 'more cause')}: see -o json"))
    yield from (line.rstrip() for line in out.getvalue().splitlines())


def _state(
    group: dict[str, Any],
    progress: list[dict[str, Any]],
    ages: list[float],
    nobody: str,
    lead: Lead | None,
) -> str:
    oldest = max((age for age in ages if age > 0), default=0)
    lag, unknown = group["lag"], group["unknown_lags"]
    many = pluralize(group["partitions"], "share partition")
    parts = [f"lag {lag_sum(lag, unknown)} in {many}"]
    if unknown and not lag:  # a sum of 0 beside unknown lags would read as if nothing waited
        parts = [f"lag not known in {number(unknown)} of {many}"]
    if lead:
        parts.append(terminal(lead.words()))
    is_partial = any(map(math.isnan, ages))
    if oldest:
        parts.append(f"oldest {duration(oldest)}{' or more' * is_partial}")
    elif is_partial:
        parts.append("age unknown")
    ahead = forecast(progress)
    # Empty and unknown lags have other words; rates of members that left predict nothing.
    if not nobody and group["lag"] != 0 and ahead.kind not in (DRAINED, NOBODY, UNKNOWN):
        parts.append(ahead.sentence())
    return ", ".join(parts)


def _nothing_found(
    lag: list[dict[str, Any]],
    nobody: str,
    young: Suspicion | None,
    progress: list[dict[str, Any]],
    ages: list[float],
) -> str:
    """Nothing is wrong only if all is known, lag does not grow, and the group has members."""
    unknown = [  # an empty log has no age
        row
        for row in lag
        if row["effective_lag"] is None
        and (
            None in (row["end_offset"], row["log_start_offset"])
            or row["end_offset"] > row["log_start_offset"]
        )
    ]
    if unknown:
        known = {row["lag_reason"] for row in unknown} & REASONS.keys()
        reasons = "; ".join(sorted({REASONS[one] for one in known}))
        return f"{nobody or 'nothing found'}{_NOT_ALL}{': ' * bool(reasons)}{reasons}"
    if not any(row["effective_lag"] for row in lag):
        return "nothing wrong"  # without lag, no members are needed
    if found := nobody or (young.words() if young else _growth(progress)):
        return found
    why = unforeseen(ages, forecast(progress))
    return f"nothing found{_NOT_ALL}: {why}" if why else "nothing wrong"


def _growth(progress: list[dict[str, Any]]) -> str:
    """Return how fast lag grows, or that it is stable; empty if neither is certain."""
    ahead = forecast(progress)
    if ahead.kind == NEVER:
        return f"no cause found yet; lag {ahead.words}"
    return "no cause found yet" if ahead.kind == STALLED else ""


def _cause_summary(row: dict[str, Any]) -> CauseSummary:
    evidence = {one["name"]: one["value"] for one in row["evidence"]}
    partitions = evidence.pop("partitions")
    where = f"{row['topic'] or row['topic_id']}:{partitions}"
    held = "" if row["held"] is None else f", holds {row['held']:,}"
    since = f", since {moment(row['since'])}" if row["since"] else ""
    return CauseSummary(
        rank=row["rank"],
        cause=row["cause"],
        severity=row["severity"],
        where=terminal(f"{where}{held}{since}"),
        summary=terminal(row["summary"]),
        evidence=terminal(evidence_in_words(evidence, is_of_many="," in partitions)),
        advice=terminal(row["advice"]),
    )


def evidence_in_words(evidence: Mapping[str, str], is_of_many: bool) -> str:
    """Return the evidence of a cause as text: the group's first, then that of one partition.

    ``evidence`` is that of a row of `sharelag.schemas.CAUSES`, without its ``partitions``. Offsets
    have no thousands separators, as in commands.
    """
    whole = [name for name in evidence if name in _GROUP_COLUMNS or not is_of_many]
    parts = [_say_evidence(name, evidence[name]) for name in whole]
    ones = [_say_evidence(name, evidence[name]) for name in evidence if name not in whole]
    if ones:
        ones[0] = f"in the partition with the most: {ones[0]}"
    return ", ".join([*parts, *ones])


def _say_evidence(name: str, value: str) -> str:
    if name.endswith(" ms"):
        return f"{name.removesuffix(' ms')} {duration(float(value))}"
    is_count = value.isdecimal() and "offset" not in name
    shown = f"{int(value):,}" if is_count else value
    return f"{_WORDS.get(name, name)} {shown}".strip()


def _print(console: Console, cause: CauseSummary) -> None:
    title = (f"{cause.severity}: {cause.title}", LEVELS[cause.severity].style)
    _print_hanging(console, Text.assemble(f"  {cause.rank}. ", title, f"  {cause.where}"))
    for line in (cause.summary, cause.evidence, f"-> {cause.advice}"):
        if line:
            console.print(Padding(Text(line), (0, 0, 0, _INDENT)))


def _print_hanging(console: Console, text: Text) -> None:
    """Print a text whose continuation lines are indented, unlike the first line of a group."""
    for place, line in enumerate(text.wrap(console, console.width - _INDENT)):
        console.print(Padding(line, (0, 0, 0, _INDENT * (place > 0))))
