"""Causes in words, the same on a terminal and in a notebook."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from sharelag.durations import duration
from sharelag.metrics.brokers import Lead, leads
from sharelag.metrics.causes.inputs import ages_by_group
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.explain import Suspicion, suspect
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.rates import DRAINED, NEVER, NOBODY, STALLED, UNKNOWN
from sharelag.schemas import Arrow
from sharelag.tables.arrow import rows_by_group
from sharelag.tables.gaps import REASONS
from sharelag.tables.level import LEVELS, SEVERITIES
from sharelag.tables.presentation import CauseSummary, GroupSummary
from sharelag.tables.words import counted, lag_sum, moment, number, shown_name, terminal
from sharelag.workbench.judged import COLUMNS, forecast, unforeseen

#: Columns of each share partition that the sentences need.
_DRAINS = ["group_id", *COLUMNS]
#: Evidence whose name alone says too little.
_WORDS = {
    "acquired at most": "members hold at most",
    "held_by": "",  # the value says it
    "led_by": "led by",
    "measured": "brokers measured",
    "refusal": "",  # in whole sentences
    "times": "seen this often:",
}
#: Evidence that is the same in all partitions that a cause is about.
_OF_GROUP = (
    *("members", "led_by", "held_by", "limit", "lock duration ms", "arrived in all partitions"),
    *("defect", "refusal"),
)
#: What follows where no cause was found, and something is not known.
_NOT_ALL = ", but not all is known"
#: Columns before a sentence on a cause, in a terminal.
_INDENT = 5
_LAGS = ["group_id", "effective_lag", "lag_reason", "end_offset", "log_start_offset"]


def summarize_groups(
    evidence: Evidence, causes: Arrow, patience: timedelta | None = None
) -> Iterator[GroupSummary]:
    """Yield how each group is and its causes (`CAUSES`), in words; the worst group first.

    ``patience`` is that with which the causes were found. Names are escaped for a terminal, not for
    HTML.
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
    """Return what orders groups, the worst first: severity of the first cause, then lag."""
    severity = min((SEVERITIES.index(one["severity"]) for one in causes), default=9)
    return severity, -(group["lag"] or 0), str(group["group_id"])


def summary_lines(summaries: Iterable[GroupSummary]) -> Iterator[str]:
    """Yield the same as lines for a terminal, with colours where standard output is one."""
    out = io.StringIO()
    is_seen = sys.stdout.isatty()
    width = None if is_seen else 120
    console = Console(file=out, force_terminal=is_seen, width=width, highlight=False)
    for group in summaries:
        _print_hanging(console, Text.assemble((group.group, "bold"), f"  {group.state}"))
        for cause in group.causes:
            _print(console, cause)
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
    many = counted(group["partitions"], "share partition")
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
    # What is empty or not known has other words, and the rates of who has left foretell nothing.
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
    """Nothing is wrong only where all is known, lag does not grow, and somebody works on it."""
    unknown = [  # an empty log has nothing to know
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
        return "nothing wrong"  # a member is not missed where nothing waits
    if found := nobody or (young.words() if young else _growth(progress)):
        return found
    why = unforeseen(ages, forecast(progress))
    return f"nothing found{_NOT_ALL}: {why}" if why else "nothing wrong"


def _growth(progress: list[dict[str, Any]]) -> str:
    """How fast lag grows or that it stands; empty where it does neither, as far as is certain."""
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
    """Say what shows a cause: what is about the group, then what is about one partition.

    ``evidence`` is that of a row of `sharelag.schemas.CAUSES`, without its ``partitions``; of a
    cause of many partitions it shows one. Offsets have no separators between thousands, as in
    commands.
    """
    whole = [name for name in evidence if name in _OF_GROUP or not is_of_many]
    parts = [_say_evidence(name, evidence[name]) for name in whole]
    ones = [_say_evidence(name, evidence[name]) for name in evidence if name not in whole]
    if ones:
        ones[0] = f"in the partition with the most: {ones[0]}"
    return ", ".join([*parts, *ones])


def _say_evidence(name: str, value: str) -> str:
    if name.endswith(" ms"):
        return f"{name.removesuffix(' ms')} {duration(float(value))}"
    is_count = value.isdecimal() and "offset" not in name
    said = f"{int(value):,}" if is_count else value
    return f"{_WORDS.get(name, name)} {said}".strip()


def _print(console: Console, cause: CauseSummary) -> None:
    title = (f"{cause.severity}: {cause.title}", LEVELS[cause.severity].style)
    _print_hanging(console, Text.assemble(f"  {cause.rank}. ", title, f"  {cause.where}"))
    for line in (cause.summary, cause.evidence, f"-> {cause.advice}"):
        if line:
            console.print(Padding(Text(line), (0, 0, 0, _INDENT)))


def _print_hanging(console: Console, text: Text) -> None:
    """Print a text whose further lines do not begin where another group would."""
    for place, line in enumerate(text.wrap(console, console.width - _INDENT)):
        console.print(Padding(line, (0, 0, 0, _INDENT * (place > 0))))
