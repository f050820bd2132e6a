"""The verdict of a report as plain values for JSON: levels, main facts, changes since the last.

Reports of different clusters are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError, ShareLagError
from sharelag.inputs.open import open_capture
from sharelag.model import iso
from sharelag.replay.moment import parse_time
from sharelag.reports.inputs import Case
from sharelag.tables import gaps
from sharelag.tables.level import CHECKED, worst
from sharelag.tables.words import sentence
from sharelag.workbench.judged import headline, judge_groups, rule_of
from sharelag.workbench.result import Result

FORMAT = 1


def cluster_in(folder: str | Path) -> str | None:
    """Return the cluster id of a capture or an archive; None if it cannot be read."""
    with suppress(ShareLagError, OSError):
        return open_capture(Path(folder)).cluster_id
    return None


def verdict(case: Case) -> dict[str, Any]:
    """Judge the share groups of a report.

    Returns
    -------
    dict
        ``level``, one of `sharelag.tables.level.LEVELS`; ``headline``, a sentence; ``as_of``,
        ``begin`` and ``source``;
        ``groups``, the worst first, each with its lag, age, drain, causes and ``why``, the main
        finding in a sentence (None: no problem); ``rules``, the outcome of rules that concern no
        group that is there; ``unknown``, sentences; ``complete``, whether the records lack
        nothing; ``changes``, None for the first report. Names are Kafka's: escape them wherever
        they are shown.
    """
    broken = _broken(case)
    groups = judge_groups(case.evidence, broken=broken)
    judged_groups = {group["group_id"] for group in groups}
    rules = [rule_of(one) for name in broken if name not in judged_groups for one in broken[name]]
    levels = [group["level"] for group in groups] or ["unknown"]
    level = worst([*levels, *(rule["level"] for rule in rules)])
    base = case.bench.base_of(case.evidence)
    judged: dict[str, Any] = {
        "format": FORMAT,
        "level": level,
        "headline": headline(groups, rules),
        "as_of": iso(case.evidence.as_of),
        "begin": iso(case.begin),
        "source": case.bench.source.describe(),
        "cluster_id": case.bench.source.cluster_id,
        "engine": case.evidence.engine,
        "groups": groups,
        "rules": rules,
        "unknown": _list_unknown(case, base, sum(group["unknown_ages"] for group in groups)),
        "complete": not base.lacks,
    }
    was = _before(case)
    return judged | {"changes": None if was is None else changes(case, was, judged)}


def _list_unknown(case: Case, base: Result, ages: int) -> list[str]:
    """List what the report cannot know, in sentences; ``ages`` is how many ages are unknown."""
    lag, past = case.evidence.lag, case.evidence.past_offsets
    said = (
        *gaps.of_lag(lag),
        *gaps.of_rows(ages, len(lag), "the age", [gaps.NO_AGE]),
        *(() if past.num_rows else (gaps.NO_PAST_ENDS,)),
        *base.unknown,
    )
    return [sentence(one) for one in said]


def _broken(case: Case) -> dict[str | None, list[dict[str, Any]]]:
    """Collect broken rules by group; None for those that concern no group."""
    found: dict[str | None, list[dict[str, Any]]] = {}
    for one in case.checked.to_pylist():
        if one["silenced_until"] is None and one["level"] != "ok":
            found.setdefault(one["group_id"], []).append(one)
    return found


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


def changes(case: Case, was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the groups with those of the previous report; what was unknown then is None.

    ``was`` and ``now`` are verdicts of the current format. The result has ``comparable``, else
    ``why`` not; ``groups``, new and gone ones included; and the causes that are new, gone and
    lasting.
    """
    apart = {"since": was["as_of"], "comparable": False}
    apart |= {"groups": [], "new_causes": [], "gone_causes": []}
    if was.get("cluster_id") != now["cluster_id"]:
        return apart | {"why": "it is about another cluster"}
    if was["as_of"] >= now["as_of"]:
        return apart | {"why": "it is not earlier than this one"}
    before = {group["group_id"]: group for group in was["groups"]}
    moved = _sum_moves(case, was["as_of"])
    present = {group["group_id"]: group for group in now["groups"]}
    rows = [
        _change(name, before.get(name), group, moved.get(name, {}))
        for name, group in present.items()
    ]
    gone = {name: group for name, group in before.items() if name not in present}
    rows += [_change(name, group, None, {}) for name, group in gone.items()]
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
    name: str,
    was: Mapping[str, Any] | None,
    now: Mapping[str, Any] | None,
    moved: Mapping[str, Any],
) -> dict[str, Any]:
    lag_before, lag = (None if one is None else one["lag"] for one in (was, now))
    if was is None or now is None:
        what = "new" if was is None else "gone"
    else:
        what = "same" if was["level"] == now["level"] else "moved"
    change = None if lag is None or lag_before is None else lag - lag_before
    levels = {"level_before": was and was["level"], "level": now and now["level"]}
    lags = {"lag_before": lag_before, "lag": lag, "lag_change": change}
    known = {"finished": moved.get("finished"), "resets": moved.get("resets", 0)}
    return {"group_id": name, "what": what, **levels, **lags, **known}


def _sum_moves(case: Case, since: str) -> dict[str, dict[str, Any]]:
    """Return what each group finished since, and how many of its share partitions were reset."""
    table = case.bench.diff(parse_time(since)).table
    found = {"resets": pc.equal(table.column("change"), "reset")}
    found["is_unknown"] = pc.is_null(table.column("finished"))
    for name, column in found.items():
        table = table.append_column(name, column.cast(pa.int64()))
    sums = table.group_by("group_id").aggregate(
        [("finished", "sum"), ("resets", "sum"), ("is_unknown", "sum")]
    )
    return {
        row["group_id"]: {
            "finished": None if row["is_unknown_sum"] else row["finished_sum"],
            "resets": row["resets_sum"],
        }
        for row in sums.to_pylist()
    }


def _causes(verdict: Mapping[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    names = ("cause", "severity", "topic", "partition", "summary", "held", "since")
    return {
        (group["group_id"], cause["cause"], cause["topic"], cause["partition"]): {
            "group_id": group["group_id"],
            **{name: cause[name] for name in names},
        }
        for group in verdict["groups"]
        for cause in group["causes"]
    }
