"""The verdict: a level and the main facts for each share group, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.metrics.explain import Suspicion, explain, suspected
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.rates import DRAINED, DRAINS_OF, NEVER, NOBODY, PAUSED, STALLED, UNKNOWN
from sharelag.model import iso
from sharelag.reports.changes import changes
from sharelag.reports.cluster import cluster_of
from sharelag.reports.findings import CLUSTER
from sharelag.reports.inputs import Case
from sharelag.reports.unknown_lags import unknown_lags
from sharelag.schemas.arrow import rows_by_group
from sharelag.tables.level import CHECKED, outcome, rank, worst
from sharelag.tables.reasons import REASONS

FORMAT = 1
#: Drains that need attention, whatever the cause.
_NEVER = {
    "stalled": "nothing is being finished",
    "grows": "records arrive faster than they are finished",
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
_NO_FORECAST = {"the group is empty": DRAINS_OF[NOBODY], "paused": DRAINS_OF[PAUSED]}
_FINE = "No problems found."


def verdict(case: Case) -> dict[str, Any]:
    """Judge the share groups of a report.

    Returns
    -------
    dict
        ``level``, one of `sharelag.tables.level.LEVELS`; ``headline``, a sentence; ``as_of``,
        ``begin`` and ``source``;
        ``groups``, the worst first, each with its lag, age, drain, causes and ``why``, the main
        finding in a sentence (None: no problem); ``rules``, the outcome of rules that concern no
        group; ``unknown``, sentences; ``changes``, None for the first report. Names are Kafka's:
        escape them wherever they are shown.
    """
    causes, progress = rows_by_group(explain(case.evidence)), rows_by_group(case.evidence.progress)
    checked, dark = _judged(case), unknown_lags(case.evidence)
    young = suspected(case.evidence)
    groups = [
        _group(
            row,
            progress[row["group_id"]],
            causes[row["group_id"]],
            checked.get(row["group_id"], []),
            dark.get(row["group_id"], []),
            young.get(row["group_id"]),
        )
        for row in rollup_arrow(case.evidence.lag, "group").to_pylist()
    ]
    groups.sort(key=lambda group: (-rank(group["level"]), -(group["lag"] or 0), group["group_id"]))
    rules = [_rule(one) for one in checked.get(None, [])]
    levels = [group["level"] for group in groups] or ["unknown"]
    level = worst([*levels, *(rule["level"] for rule in rules)])
    judged: dict[str, Any] = {
        "format": FORMAT,
        "level": level,
        "headline": _headline(groups, rules),
        "as_of": iso(case.evidence.as_of),
        "begin": iso(case.evidence.as_of - case.known_span),
        "source": case.bench.source.describe(),
        "cluster_id": cluster_of(case.bench.source),
        "engine": case.evidence.engine,
        "groups": groups,
        "rules": rules,
        "unknown": unknown(case),
    }
    was = _before(case)
    return judged | {"changes": None if was is None else changes(case, was, judged)}


def unknown(case: Case) -> list[str]:
    """List what the report cannot know, in sentences."""
    evidence = case.evidence
    reasons = [reason for reason in evidence.lag.column("lag_reason").to_pylist() if reason]
    sentences = [
        f"The lag of {_share_partitions(reasons.count(reason))}: {REASONS[reason]}."
        for reason in sorted(set(reasons))
    ]
    if count := evidence.gaps.num_rows:
        sentences.append(
            f"What happened in {count} place{'s' * (count != 1)} of the state topic: records are "
            "missing there, so rates are lower bounds."
        )
    if count := evidence.rejected:
        sentences.append(
            f"The contents of {count} record{'s' * (count != 1)} that could not be decoded "
            "(sharelag decode shows them)."
        )
    if not evidence.settings.num_rows:
        sentences.append(
            "The settings in force: the input does not have them, and Kafka's defaults are assumed."
        )
    elif evidence.settings.column("value").null_count:
        sentences.append(
            "Some settings: the cluster does not reveal them, and Kafka's defaults are assumed."
        )
    if not evidence.groups.num_rows:
        sentences.append("Members and assignments: the input lacks the groups' own records.")
    if not evidence.past_offsets.num_rows:
        sentences.append(
            "Earlier end offsets of the topics, and so how fast records arrive and when the lag "
            "will be gone."
        )
    ages = evidence.progress.filter(
        pc.greater(evidence.progress.column("oldest_offset").fill_null(-1), -1)
    )
    if count := ages.column("age_ms").null_count:
        sentences.append(f"The age of the lag of {_share_partitions(count)}.")
    if case.bench.as_of is not None:
        sentences.append(
            "Settings, retention and last stable offsets at that moment: current ones are used."
        )
    return sentences


def _share_partitions(count: int) -> str:
    return f"{count} share partition{'s' * (count != 1)}"


def _judged(case: Case) -> dict[str | None, list[dict[str, Any]]]:
    """Collect broken rules by group; None for those that concern no group."""
    found: dict[str | None, list[dict[str, Any]]] = {}
    for one in case.checked.to_pylist():
        if one["silenced_until"] is None and one["level"] != "ok":
            found.setdefault(one["group_id"], []).append(one)
    return found


def _group(
    row: Mapping[str, Any],
    mine: list[dict[str, Any]],
    causes: list[dict[str, Any]],
    judged: list[dict[str, Any]],
    dark: list[tuple[str, str]],
    young: Suspicion | None,
) -> dict[str, Any]:
    gone = drain(mine)
    if gone in _NEVER and not causes:
        why = f"; {young.words()}" if young else ", and no cause was found"
        judged = [*judged, _OWN_RULE | {"summary": f"{_NEVER[gone]}{why}"}]
    # A group is ok only if everything about it is known.
    own = [
        _OWN_RULE | {"rule": "lag", "level": level, "summary": words}
        for level, words in dark
        if level != "ok"
    ]
    judged = [*judged, *own]
    levels = [
        "ok",
        *(outcome(cause["severity"]) for cause in causes),
        *(one["level"] for one in judged),
    ]
    left = [one for one in mine if one["oldest_offset"] is not None]  # with unfinished records
    ages = [one["age_ms"] for one in left]
    margins = [one["margin_ms"] for one in left if one["margin_ms"] is not None]
    return {
        "group_id": row["group_id"],
        "level": worst(levels),
        "partitions": row["partitions"],
        "lag": row["lag"],
        "unknown_lags": row["unknown_lags"],
        "max_lag": row["max_lag"],
        # An unknown age may be the greatest.
        "age_ms": None if None in ages else max(ages, default=0 if gone == "no lag" else None),
        "margin_ms": min(margins, default=None),
        "drain": gone,
        "causes": [_cause(cause) for cause in causes],
        "rules": [_rule(one) for one in judged],
        "why": _why(causes, judged, [words for _, words in dark], gone),
    }


def _why(
    causes: list[dict[str, Any]], judged: list[dict[str, Any]], dark: list[str], gone: str
) -> str | None:
    reasons = [cause["summary"] for cause in causes] + [
        f"{one['rule']}: {one['summary']}" for one in judged
    ]
    return next(
        iter([*reasons, *dark, *([_NO_FORECAST[gone]] if gone in _NO_FORECAST else [])]), None
    )


def _cause(cause: Mapping[str, Any]) -> dict[str, Any]:
    names = ("cause", "severity", "topic", "topic_id", "partition", "held", "summary", "advice")
    evidence = {one["name"]: one["value"] for one in cause["evidence"]}
    return {name: cause[name] for name in names} | {
        "since": _time(cause["since"]),
        "evidence": evidence,
    }


def _rule(one: Mapping[str, Any]) -> dict[str, Any]:
    summary = {name: one[name] for name in ("rule", "level", "topic", "partition", "summary")}
    return summary | {"since": _time(one["since"]), "is_own": one.get("is_own", False)}


def _time(at: Any) -> str | None:
    return None if at is None else iso(at)


def drain(rows: list[dict[str, Any]]) -> str:
    """Describe when the lag will be gone; the slowest share partition decides."""
    kinds = {row["drain"] for row in rows}
    if kinds <= {DRAINED}:
        return "no lag" if rows else "unknown"
    if NOBODY in kinds:
        return "the group is empty"
    if STALLED in kinds:
        return "stalled"
    if any(row["drain"] == NEVER and row["drain_low_ms"] is None for row in rows):
        return "grows"
    if PAUSED in kinds:
        return "paused"
    if UNKNOWN in kinds:
        return "unknown"
    if NEVER in kinds:
        return "uncertain"  # arrivals exceed completions, but not by more than chance
    slowest = max(row["drain_ms"] for row in rows if row["drain_ms"] is not None)
    return f"in {duration(slowest)}"


def _headline(groups: list[dict[str, Any]], rules: list[dict[str, Any]]) -> str:
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
    count = f"{len(groups)} share group{'s' * (len(groups) != 1)}"
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


def _before(case: Case) -> Mapping[str, Any] | None:
    """Return the previous verdict, if that report did not fail."""
    was = case.previous
    if was is None or was.get("level") not in CHECKED:
        return None
    if was.get("format") != FORMAT:
        raise InputError(
            "previous is not a verdict of this version: choose a verdict.json that this version "
            "wrote, or remove previous"
        )
    return was
