"""Changes since the previous report, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.replay.moment import parse_time
from sharelag.reports.inputs import Case


def changes(case: Case, was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the groups with those of the previous report; what was unknown then is None.

    Parameters
    ----------
    case : Case
    was, now : mapping
        Verdicts of the current format.

    Returns
    -------
    dict
        ``comparable``: whether the reports can be compared, else ``why`` not; ``groups``, new and
        gone ones included; the causes that are new, gone and lasting.
    """
    apart = {
        "since": was["as_of"],
        "comparable": False,
        "groups": [],
        "new_causes": [],
        "gone_causes": [],
    }
    if was.get("cluster_id") != now["cluster_id"]:
        return apart | {"why": "it is about another cluster"}
    if was["as_of"] >= now["as_of"]:
        return apart | {"why": "it is not earlier than this one"}
    before = {group["group_id"]: group for group in was["groups"]}
    moved = _moved(case, was["as_of"])
    rows = [
        _change(name, before.get(name), group, moved.get(name, {}))
        for name, group in {one["group_id"]: one for one in now["groups"]}.items()
    ]
    present = {group["group_id"] for group in now["groups"]}
    rows += [
        _change(name, group, None, {}) for name, group in before.items() if name not in present
    ]
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
    """Return what each group finished since, and how many of its share partitions were reset."""
    table = case.bench.diff(parse_time(since)).table
    table = table.append_column(
        "resets", pc.equal(table.column("change"), "reset").cast(pa.int64())
    )
    table = table.append_column("is_unknown", pc.is_null(table.column("finished")).cast(pa.int64()))
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
    return {
        (group["group_id"], cause["cause"], cause["topic"], cause["partition"]): {
            "group_id": group["group_id"],
            **{
                name: cause[name]
                for name in ("cause", "severity", "topic", "partition", "summary", "held", "since")
            },
        }
        for group in verdict["groups"]
        for cause in group["causes"]
    }
