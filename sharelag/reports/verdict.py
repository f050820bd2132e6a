"""How is each share group, in a word, and what has changed since the report before? Plain values, for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import engine
from sharelag.arrow import rows_by_group
from sharelag.errors import InputError
from sharelag.metrics.explain import explain
from sharelag.metrics.lag import REASONS, rollup_arrow
from sharelag.metrics.rates import DRAINED, DRAINS_OF, NEVER, NOBODY, PAUSED, STALLED, UNKNOWN
from sharelag.model import iso
from sharelag.replay.moment import parse_time
from sharelag.reports.case import Case
from sharelag.reports.cluster import cluster_of
from sharelag.reports.unknown_lags import unknown_lags
from sharelag.show import duration

FORMAT = 1
#: From the best to the worst; a failed report knows less than one that found something unknown.
LEVELS = ("ok", "unknown", "warning", "critical", "failed")
#: A drain for which somebody has to do something, whatever the cause.
_NEVER = {"stalled": "nothing is finished any more", "grows": "more arrives than is finished"}
_OWN_RULE = {"rule": "drain", "level": "warning", "topic": None, "partition": None, "since": None, "is_own": True}
#: What there is no forecast for, and why.
_NO_FORECAST = {"nobody is there": DRAINS_OF[NOBODY], "paused": DRAINS_OF[PAUSED]}
_OF_SEVERITY = {"critical": "critical", "warning": "warning", "note": "ok"}


def verdict(case: Case) -> dict[str, Any]:
    """What a report finds.

    Parameters
    ----------
    case : Case

    Returns
    -------
    dict
        ``level``, one of `LEVELS`; ``headline``, a sentence; ``as_of``, ``begin`` and ``source``; ``groups``, the worst
        first, each with its lag, age, drain, causes and ``why``, what tells most in a sentence (None: all is well);
        ``unknown``, sentences; ``changes``, None for the first report.
        Names in it are as Kafka has them: escape them where they are shown.
    """
    causes, progress = rows_by_group(explain(case.evidence)), rows_by_group(case.evidence.progress)
    checked, dark = case.checked.to_pylist(), unknown_lags(case.evidence)
    groups = [
        _group(row, progress[row["group_id"]], causes[row["group_id"]], checked, dark.get(row["group_id"], []))
        for row in rollup_arrow(case.evidence.lag, "group").to_pylist()
    ]
    groups.sort(key=lambda group: (-LEVELS.index(group["level"]), -(group["lag"] or 0), group["group_id"]))
    level = max((group["level"] for group in groups), key=LEVELS.index, default="unknown")
    told: dict[str, Any] = {
        "format": FORMAT,
        "level": level,
        "headline": _headline(groups),
        "as_of": iso(case.evidence.as_of),
        "begin": iso(case.evidence.as_of - case.known_span),
        "source": case.bench.source.describe(),
        "cluster_id": cluster_of(case.bench.source),
        "engine": case.evidence.engine,
        "groups": groups,
        "unknown": unknown(case),
    }
    return told | {"changes": _changes(case, told)}


def unknown(case: Case) -> list[str]:
    """What the report cannot know, in sentences."""
    evidence, told = case.evidence, []
    reasons = [reason for reason in evidence.lag.column("lag_reason").to_pylist() if reason]
    told += [
        f"The lag of {reasons.count(reason)} share partitions: {REASONS[reason]}." for reason in sorted(set(reasons))
    ]
    if evidence.gaps.num_rows:
        told.append(
            f"What happened in {evidence.gaps.num_rows} places of the state topic: records are missing there, so rates "
            "are lower bounds."
        )
    if evidence.rejected:
        told.append(f"What {evidence.rejected} records say: they could not be decoded (sharelag decode shows them).")
    if not evidence.settings.num_rows:
        told.append("The settings in force: they are not in this input, and Kafka's defaults are assumed.")
    elif evidence.settings.column("value").null_count:
        told.append("Some settings: they are hidden from us, and Kafka's defaults are assumed for them.")
    if not evidence.groups.num_rows:
        told.append("Members and assignments: the groups' own records are not in this input.")
    if not evidence.past_offsets.num_rows:
        told.append(
            "Where the topics ended before: without it nobody can say how fast records arrive, and when lag is gone."
        )
    ages = evidence.progress.filter(pc.greater(evidence.progress.column("oldest_offset").fill_null(-1), -1))
    if ages.column("age_ms").null_count:
        told.append(f"How old the lag of {ages.column('age_ms').null_count} share partitions is.")
    if case.bench.as_of is not None:
        told.append("Settings, retention and last stable offsets at that moment: those of now are used.")
    return told


def _group(
    row: Mapping[str, Any],
    mine: list[dict[str, Any]],
    causes: list[dict[str, Any]],
    checked: list[dict[str, Any]],
    dark: list[tuple[str, str]],
) -> dict[str, Any]:
    judged = [
        one
        for one in checked
        if one["group_id"] in (row["group_id"], None) and one["silenced_until"] is None and one["level"] != "ok"
    ]
    gone = drain(mine)
    if gone in _NEVER and not causes:
        judged.append(_OWN_RULE | {"summary": f"{_NEVER[gone]}, and no cause was found"})
    # Nothing is wrong only where everything is known.
    judged += [_OWN_RULE | {"rule": "lag", "level": level, "summary": words} for level, words in dark if level != "ok"]
    levels = ["ok", *(_OF_SEVERITY[cause["severity"]] for cause in causes), *(one["level"] for one in judged)]
    left = [one for one in mine if one["oldest_offset"] is not None]  # where something is not finished
    ages = [one["age_ms"] for one in left]
    margins = [one["margin_ms"] for one in left if one["margin_ms"] is not None]
    return {
        "group_id": row["group_id"],
        "level": max(levels, key=LEVELS.index),
        "partitions": row["partitions"],
        "lag": row["lag"],
        "unknown_lags": row["unknown_lags"],
        "max_lag": row["max_lag"],
        # Whose age is not known may be the oldest.
        "age_ms": None if None in ages else max(ages, default=0 if gone == "no lag" else None),
        "margin_ms": min(margins, default=None),
        "drain": gone,
        "causes": [_cause(cause) for cause in causes],
        "rules": [
            {name: one[name] for name in ("rule", "level", "topic", "partition", "summary")}
            | {"since": _time(one["since"]), "is_own": one.get("is_own", False)}
            for one in judged
        ],
        "why": _why(causes, judged, [words for _, words in dark], gone),
    }


def _why(causes: list[dict[str, Any]], judged: list[dict[str, Any]], dark: list[str], gone: str) -> str | None:
    told = [cause["summary"] for cause in causes] + [f"{one['rule']}: {one['summary']}" for one in judged]
    return next(iter([*told, *dark, *([_NO_FORECAST[gone]] if gone in _NO_FORECAST else [])]), None)


def _cause(cause: Mapping[str, Any]) -> dict[str, Any]:
    names = ("cause", "severity", "topic", "topic_id", "partition", "held", "summary", "advice")
    evidence = {one["name"]: one["value"] for one in cause["evidence"]}
    return {name: cause[name] for name in names} | {"since": _time(cause["since"]), "evidence": evidence}


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


def _headline(groups: list[dict[str, Any]]) -> str:
    """One sentence: how many groups need somebody, and what the worst of it is."""
    count = f"{len(groups)} share group{'s' * (len(groups) != 1)}"
    bad = [group for group in groups if group["level"] in ("warning", "critical")]
    if not bad:
        dark = [group for group in groups if group["level"] == "unknown"]
        if dark:
            return f"Nothing wrong is known of {count}; of {len(dark)} not everything is known."
        return f"Nothing is wrong with {count}." if len(groups) != 1 else "Nothing is wrong."
    why = _worst(bad[0])
    if len(groups) == 1:
        return f"{bad[0]['group_id']}: {why}."
    need = "needs" if len(bad) == 1 else "need"
    others = sum(_worst(group) == why for group in bad[1:])
    more = f" and {others} more" if others else ""
    return f"{len(bad)} of {count} {need} attention. {bad[0]['group_id']}{more}: {why}."


def _worst(group: Mapping[str, Any]) -> str:
    """What makes the level of a group, in words."""
    told = [(_OF_SEVERITY[one["severity"]], one["summary"]) for one in group["causes"]]
    told += [(one["level"], one["summary"]) for one in group["rules"]]
    return str(max(told, key=lambda one: LEVELS.index(one[0]))[1])


def _changes(case: Case, now: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same groups in the report before; what it did not know is None here, too."""
    was = case.previous
    if was is None or was.get("level") not in LEVELS[:-1]:
        return None
    if was.get("format") != FORMAT:
        raise InputError(
            "previous names no verdict of this version: name a verdict.json that it wrote, or leave it out"
        )
    apart = {"since": was["as_of"], "comparable": False, "groups": [], "new_causes": [], "gone_causes": []}
    if was.get("cluster_id") != now["cluster_id"]:
        return apart | {"why": "it is of another cluster"}
    if was["as_of"] >= now["as_of"]:
        return apart | {"why": "it is not earlier"}
    before = {group["group_id"]: group for group in was["groups"]}
    moved = _moved(case, was["as_of"])
    rows = [
        _change(name, before.get(name), group, moved.get(name, {}))
        for name, group in {one["group_id"]: one for one in now["groups"]}.items()
    ]
    present = {group["group_id"] for group in now["groups"]}
    rows += [_change(name, group, None, {}) for name, group in before.items() if name not in present]
    old, new = _causes(was), _causes(now)
    return {
        "since": was["as_of"],
        "comparable": True,
        "level": was["level"],
        "groups": rows,
        "new_causes": [new[key] for key in new if key not in old],
        "gone_causes": [old[key] for key in old if key not in new],
        "lasting_causes": [new[key] for key in new if key in old],
    }


def _change(
    name: str, was: Mapping[str, Any] | None, now: Mapping[str, Any] | None, moved: Mapping[str, Any]
) -> dict[str, Any]:
    def both(what: str) -> tuple[Any, Any]:
        return (was or {}).get(what), (now or {}).get(what)

    lag_before, lag = both("lag")
    return {
        "group_id": name,
        "what": "new"
        if was is None
        else "gone"
        if now is None
        else "same"
        if was["level"] == now["level"]
        else "moved",
        "level_before": both("level")[0],
        "level": both("level")[1],
        "lag_before": lag_before,
        "lag": lag,
        "lag_change": None if lag is None or lag_before is None else lag - lag_before,
        "finished": moved.get("finished"),
        "resets": moved.get("resets", 0),
    }


def _moved(case: Case, since: str) -> dict[str, dict[str, Any]]:
    """Of each group what was finished since, and how many share partitions were initialised anew or altered."""
    answer = engine.diff(
        case.bench.source, parse_time(since), case.evidence.engine, case.bench.as_of, case.bench.choice
    )
    table = answer.table.append_column(
        "resets", pc.equal(answer.table.column("change"), "reset").cast(pa.int64())
    ).append_column("is_unknown", pc.is_null(answer.table.column("finished")).cast(pa.int64()))
    sums = table.group_by("group_id").aggregate([("finished", "sum"), ("resets", "sum"), ("is_unknown", "sum")])
    return {
        row["group_id"]: {
            "finished": None if row["is_unknown_sum"] else row["finished_sum"],
            "resets": row["resets_sum"],
        }
        for row in sums.to_pylist()
    }


def _causes(told: Mapping[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        (group["group_id"], cause["cause"], cause["topic"], cause["partition"]): {
            "group_id": group["group_id"],
            **{name: cause[name] for name in ("cause", "severity", "topic", "partition", "summary", "held", "since")},
        }
        for group in told["groups"]
        for cause in group["causes"]
    }
