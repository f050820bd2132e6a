"""Group findings: each cause and each broken rule once, with all the places it was found in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sharelag.metrics.causes import OF_GROUP
from sharelag.tables.level import rank
from sharelag.tables.words import shell_word
from sharelag.workbench.judged import CLUSTER


def group_findings(
    groups: Sequence[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Merge the causes and broken rules of a verdict; see `merge_findings`.

    Parameters
    ----------
    groups, rules : sequence of mappings
        Of a verdict; rules without a group belong to `CLUSTER`.
    """
    found = [{"group_id": CLUSTER, **one} for one in rules]
    found += [
        {"group_id": group["group_id"], **one}
        for group in groups
        for one in (*group["causes"], *group["rules"])
    ]
    # Where nothing was ever fetched, the cause has the advice and the judgement has the level.
    judged = {one["group_id"] for one in found if _is_judgement(one)}
    started = [
        one for one in found if one.get("cause") == "not_started" and one["group_id"] in judged
    ]
    for one in started:
        one["severity"] = "warning"
    explained = {one["group_id"] for one in started}
    return merge_findings(
        one for one in found if not (_is_judgement(one) and one["group_id"] in explained)
    )


def _is_judgement(one: Mapping[str, Any]) -> bool:
    """Return whether this is the report's own finding that arrived records were never fetched."""
    return bool(one.get("is_own")) and one["rule"] == "lag" and one["level"] == "warning"


def merge_findings(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge findings with the same text.

    Parameters
    ----------
    found : iterable of mappings
        Causes of a verdict with their ``group_id``, or rules, whose text differs in each place.

    Returns
    -------
    list of dict
        The worst first: ``level``, ``title``, ``advice`` (None for a rule), ``is_rule``, and
        ``places``: the findings merged.
    """
    together: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        # The report's own judgements are not rules that somebody named.
        is_rule = "rule" in one and not one.get("is_own")
        level = one["level"] if "rule" in one else one["severity"]
        title = one["rule"] if is_rule else one["summary"]
        new = {
            "level": level,
            "title": title,
            "advice": one.get("advice"),
            "is_rule": is_rule,
            "places": [],
        }
        known = together.setdefault((is_rule, level, title, _of_any_group(one)), new)
        if known["advice"] != new["advice"]:  # of several groups: a command for any of them
            known["advice"] = _of_any_group(one)
        known["places"].append(one)
    return sorted(together.values(), key=lambda one: -rank(one["level"]))


def _of_any_group(one: Mapping[str, Any]) -> str | None:
    """Return the advice of a finding as it is for every group."""
    advice, group = one.get("advice"), one.get("group_id")
    if advice is None or group is None:
        return advice
    return str(advice).replace(f"--group {shell_word(group)}", OF_GROUP)


def ranges(partitions: str) -> str:
    """Write partitions such as ``0,1,2,5`` as ``0-2, 5``; anything but numbers stays as it is."""
    runs: list[list[str]] = []
    for one in partitions.split(","):
        follows = (
            runs
            and runs[-1][-1].isdecimal()
            and one.isdecimal()
            and int(one) == int(runs[-1][-1]) + 1
        )
        if follows:
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(
        run[0] if len(run) == 1 else f"{run[0]}{'-' if len(run) > 2 else ', '}{run[-1]}"
        for run in runs
    )
