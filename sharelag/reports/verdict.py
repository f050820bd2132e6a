"""The verdict: each share group in a word, and what is known of it, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.metrics.explain import explain
from sharelag.metrics.lag import rollup_arrow
from sharelag.metrics.rates import DRAINED, DRAINS_OF, NEVER, NOBODY, PAUSED, STALLED, UNKNOWN
from sharelag.model import iso
from sharelag.reports.alike import CLUSTER
from sharelag.reports.case import Case
from sharelag.reports.changes import changes
from sharelag.reports.cluster import cluster_of
from sharelag.reports.unknown_lags import unknown_lags
from sharelag.schemas.arrow import rows_by_group
from sharelag.tables.level import CHECKED, outcome, rank, worst
from sharelag.tables.reasons import REASONS

FORMAT = 1
#: A drain for which somebody has to do something, whatever the cause.
_NEVER = {"stalled": "nothing is being finished", "grows": "more arrives than is finished"}
_OWN_RULE = {
    "rule": "drain",
    "level": "warning",
    "topic": None,
    "partition": None,
    "since": None,
    "is_own": True,
}
#: What there is no forecast for, and why.
_NO_FORECAST = {"nobody is there": DRAINS_OF[NOBODY], "paused": DRAINS_OF[PAUSED]}
_FINE = "Nothing is wrong."


def verdict(case: Case) -> dict[str, Any]:
    """What a report finds.

    Parameters
    ----------
    case : Case

    Returns
    -------
    dict
        ``level``, one of `sharelag.tables.level.LEVELS`; ``headline``, a sentence; ``as_of``, ``begin`` and ``source``;
        ``groups``, the worst first, each with its lag, age, drain, causes and ``why``, what tells
        most in a sentence (None: all is well); ``rules``, what those found that are of no group;
        ``unknown``, sentences; ``changes``, None for the first report. Names in it are as Kafka has
        them: escape them where they are shown.
    """
    causes, progress = rows_by_group(explain(case.evidence)), rows_by_group(case.evidence.progress)
    checked, dark = _judged(case), unknown_lags(case.evidence)
    groups = [
        _group(
            row,
            progress[row["group_id"]],
            causes[row["group_id"]],
            checked.get(row["group_id"], []),
            dark.get(row["group_id"], []),
        )
        for row in rollup_arrow(case.evidence.lag, "group").to_pylist()
    ]
    groups.sort(key=lambda group: (-rank(group["level"]), -(group["lag"] or 0), group["group_id"]))
    rules = [_rule(one) for one in checked.get(None, [])]
    levels = [group["level"] for group in groups] or ["unknown"]
    level = worst([*levels, *(rule["level"] for rule in rules)])
    told: dict[str, Any] = {
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
    return told | {"changes": None if was is None else changes(case, was, told)}


def unknown(case: Case) -> list[str]:
    """What the report cannot know, in sentences."""
    evidence, told = case.evidence, []
    reasons = [reason for reason in evidence.lag.column("lag_reason").to_pylist() if reason]
    told += [
        f"The lag of {reasons.count(reason)} share partitions: {REASONS[reason]}."
        for reason in sorted(set(reasons))
    ]
    if evidence.gaps.num_rows:
        told.append(
            f"What happened in {evidence.gaps.num_rows} places of the state topic: records are missing there, so rates "
            "are lower bounds."
        )
    if evidence.rejected:
        told.append(
            f"What {evidence.rejected} records say: they could not be decoded (sharelag decode shows them)."
        )
    if not evidence.settings.num_rows:
        told.append(
            "The settings in force: they are not in this input, and Kafka's defaults are assumed."
        )
    elif evidence.settings.column("value").null_count:
        told.append(
            "Some settings: they are hidden from us, and Kafka's defaults are assumed for them."
        )
    if not evidence.groups.num_rows:
        told.append("Members and assignments: the groups' own records are not in this input.")
    if not evidence.past_offsets.num_rows:
        told.append(
            "Where the topics ended before: without it nobody can say how fast records arrive, and when lag is gone."
        )
    ages = evidence.progress.filter(
        pc.greater(evidence.progress.column("oldest_offset").fill_null(-1), -1)
    )
    if ages.column("age_ms").null_count:
        told.append(f"How old the lag of {ages.column('age_ms').null_count} share partitions is.")
    if case.bench.as_of is not None:
        told.append(
            "Settings, retention and last stable offsets at that moment: those of now are used."
        )
    return told


def _judged(case: Case) -> dict[str | None, list[dict[str, Any]]]:
    """What rules found by group; None for those of no group, such as a rule for the state topic."""
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
) -> dict[str, Any]:
    gone = drain(mine)
    if gone in _NEVER and not causes:
        judged = [*judged, _OWN_RULE | {"summary": f"{_NEVER[gone]}, and no cause was found"}]
    # Nothing is wrong only where everything is known.
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
    left = [
        one for one in mine if one["oldest_offset"] is not None
    ]  # where something is not finished
    ages = [one["age_ms"] for one in left]
    margins = [one["margin_ms"] for one in left if one["margin_ms"] is not None]
    return {
        "group_id": row["group_id"],
        "level": worst(levels),
        "partitions": row["partitions"],
        "lag": row["lag"],
        "unknown_lags": row["unknown_lags"],
        "max_lag": row["max_lag"],
        # Whose age is not known may be the oldest.
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
    told = [cause["summary"] for cause in causes] + [
        f"{one['rule']}: {one['summary']}" for one in judged
    ]
    return next(iter([*told, *dark, *([_NO_FORECAST[gone]] if gone in _NO_FORECAST else [])]), None)


def _cause(cause: Mapping[str, Any]) -> dict[str, Any]:
    names = ("cause", "severity", "topic", "topic_id", "partition", "held", "summary", "advice")
    evidence = {one["name"]: one["value"] for one in cause["evidence"]}
    return {name: cause[name] for name in names} | {
        "since": _time(cause["since"]),
        "evidence": evidence,
    }


def _rule(one: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: one[name] for name in ("rule", "level", "topic", "partition", "summary")}
    return told | {"since": _time(one["since"]), "is_own": one.get("is_own", False)}


def _time(at: Any) -> str | None:
    return None if at is None else iso(at)


def drain(rows: list[dict[str, Any]]) -> str:
    """When the lag is gone, in words; the slowest share partition decides."""
    kinds = {row["drain"] for row in rows}
    if kinds <= {DRAINED}:
        return "no lag" if rows else "unknown"
    if NOBODY in kinds:
        return "nobody is there"
    if STALLED in kinds:
        return "stalled"
    if any(row["drain"] == NEVER and row["drain_low_ms"] is None for row in rows):
        return "grows"
    if PAUSED in kinds:
        return "paused"
    if UNKNOWN in kinds:
        return "unknown"
    if NEVER in kinds:
        return "uncertain"  # arrivals win, but no more clearly than chance may turn
    slowest = max(row["drain_ms"] for row in rows if row["drain_ms"] is not None)
    return f"in {duration(slowest)}"


def _headline(groups: list[dict[str, Any]], rules: list[dict[str, Any]]) -> str:
    """How many groups need somebody, and what the worst of it is; then what the rules of no group found."""
    said = _of_groups(groups)
    if not rules:
        return said
    # Of the cluster something is wrong, or not known.
    said = f"Nothing is wrong with {len(groups)} share group." if said == _FINE else said
    first = max(rules, key=lambda one: rank(one["level"]))
    more = f" (and {len(rules) - 1} more)" if rules[1:] else ""
    return f"{said} {CLUSTER.capitalize()}: {first['rule']}: {first['summary']}{more}."


def _of_groups(groups: list[dict[str, Any]]) -> str:
    count = f"{len(groups)} share group{'s' * (len(groups) != 1)}"
    bad = [group for group in groups if group["level"] in ("warning", "critical")]
    if not bad:
        dark = [group for group in groups if group["level"] == "unknown"]
        if dark:
            return f"Nothing wrong is known of {count}; of {len(dark)} not everything is known."
        return f"Nothing is wrong with {count}." if len(groups) != 1 else _FINE
    why = _worst(bad[0])
    if len(groups) == 1:
        return f"{bad[0]['group_id']}: {why}."
    need = "needs" if len(bad) == 1 else "need"
    others = sum(_worst(group) == why for group in bad[1:])
    more = f" and {others} more" if others else ""
    return f"{len(bad)} of {count} {need} attention. {bad[0]['group_id']}{more}: {why}."


def _worst(group: Mapping[str, Any]) -> str:
    """What makes the level of a group, in words."""
    told = [(outcome(one["severity"]), one["summary"]) for one in group["causes"]]
    told += [(one["level"], one["summary"]) for one in group["rules"]]
    return str(max(told, key=lambda one: rank(one[0]))[1])


def _before(case: Case) -> Mapping[str, Any] | None:
    """The verdict of the report before, if that did not fail."""
    was = case.previous
    if was is None or was.get("level") not in CHECKED:
        return None
    if was.get("format") != FORMAT:
        raise InputError(
            "previous names no verdict of this version: name a verdict.json that it wrote, or leave it out"
        )
    return was
