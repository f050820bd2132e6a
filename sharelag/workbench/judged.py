"""How share groups are judged: a level, the main facts and finding, what becomes of their lag."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from sharelag.durations import duration
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
from sharelag.tables.arrow import rows_by_group
from sharelag.tables.gaps import NO_AGE, judge_lags
from sharelag.tables.level import outcome, rank, worst
from sharelag.tables.words import counted

#: Columns of `sharelag.schemas.PROGRESS` that a forecast needs.
COLUMNS = ("drain", "drain_ms", "drain_low_ms", "drain_high_ms", "arrival_rate", "completion_rate")


class Forecast(NamedTuple):
    """What becomes of the lag of a group; the slowest share partition decides."""

    kind: str  # one of `sharelag.metrics.rates.DRAINS_OF`
    words: str  # in a cell
    interval: str = ""  # of 95 % confidence, where there is a time

    def sentence(self) -> str:
        """Return it in a row of facts: ``gone in 3.4 s (1.3 s to never)``."""
        if self.kind == UNCERTAIN:
            return "uncertain whether it drains"
        return f"gone {self.words} ({self.interval})" if self.interval else self.words


def unforeseen(ages: Sequence[float], ahead: Forecast) -> str:
    """Return what is not known of a lag that seems harmless; empty where all of it is.

    ``ages`` are those of the group's share partitions, NaN where unknown.
    """
    if ahead.kind == UNKNOWN:
        return "how fast records arrive or are finished is unknown"
    return NO_AGE if any(map(math.isnan, ages)) else ""


def forecast(rows: Sequence[Mapping[str, Any]]) -> Forecast:
    """Forecast the lag of a group, by `sharelag.schemas.PROGRESS` of its share partitions.

    At least the `COLUMNS`.
    """
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
        return Forecast(NEVER, f"grows {at_least}{more:.3g}/s")
    for kind in (STALLED, PAUSED, UNKNOWN, UNCERTAIN):
        if kind in kinds:
            return Forecast(kind, kind)
    slowest = max((row for row in rows if row["drain"] == DRAINS), key=lambda row: row["drain_ms"])
    high = "never" if slowest["drain_high_ms"] is None else duration(slowest["drain_high_ms"])
    interval = f"{duration(slowest['drain_low_ms'])} to {high}"
    return Forecast(DRAINS, f"in {duration(slowest['drain_ms'])}", interval)


#: How a headline names what is about no group.
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
#: What Kafka counts as lag are markers or compacted offsets.
_NOTHING_TO_READ = "nothing to read"


def unknown_lags(evidence: Evidence) -> dict[str, list[tuple[str, str]]]:
    """Judge each group by its unknown lags, as `sharelag.tables.gaps.judge_lags` says it."""
    facts = CauseInputs.of(evidence)
    end = facts.lag("end_offset")
    nothing_came = (end <= facts.lag("log_start_offset")) | ((facts.arrived == 0) & ~np.isnan(end))
    return judge_lags(evidence.lag, not_started.find(facts).where, nothing_came)


def worst_cause(group: Mapping[str, Any]) -> str | None:
    """Return the first cause of a judged group; None where it has none."""
    causes = group["causes"]
    return causes[0]["cause"] if causes else None


def judge_groups(
    evidence: Evidence,
    patience: timedelta | None = None,
    broken: Mapping[str | None, list[dict[str, Any]]] | None = None,
) -> list[dict[str, Any]]:
    """Judge share groups by the causes of their lag, what is unknown, and broken rules.

    Something that lasts for ``patience`` counts as a cause; ``broken`` has by group the rows of
    `sharelag.schemas.CHECKED` that are not ok. The result has the worst first, then those with the
    most lag: ``group_id``, ``level`` (of `sharelag.tables.level.LEVELS`), ``partitions``, ``lag``,
    ``unknown_lags``, ``max_lag``, ``age_ms``, ``unknown_ages``, ``margin_ms``, ``drain`` (in
    words), ``causes``, ``rules``, and ``why``, the main finding in a sentence (None: no problem).
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
    """Return what a verdict holds of one broken rule."""
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
    more = f" (and {len(rules) - 1} more)" if rules[1:] else ""
    return f"{words} {CLUSTER.capitalize()}: {first['rule']}: {first['summary']}{more}."


def _of_groups(groups: list[dict[str, Any]]) -> str:
    count = counted(len(groups), "share group")
    bad = [group for group in groups if group["level"] in ("warning", "critical")]
    if not bad:
        dark = [group for group in groups if group["level"] == "unknown"]
        if dark:
            return f"No problems found in {count}, but {len(dark)} could not be fully judged."
        return f"No problems found in {count}." if len(groups) != 1 else _FINE
    why = _worst(bad[0])
    if len(groups) == 1:
        return f"{bad[0]['group_id']}: {why}."
    need = "needs" if len(bad) == 1 else "need"
    others = sum(_worst(group) == why for group in bad[1:])
    more = f" and {others} more" if others else ""
    return f"{len(bad)} of {count} {need} attention. {bad[0]['group_id']}{more}: {why}."


def _worst(group: Mapping[str, Any]) -> str:
    """Describe what decides the level of a group."""
    found = [(outcome(one["severity"]), one["summary"]) for one in group["causes"]]
    found += [(one["level"], one["summary"]) for one in group["rules"]]
    return str(max(found, key=lambda one: rank(one[0]))[1])
