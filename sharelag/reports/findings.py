"""Findings in several places: each cause and each broken rule once, with all the places that have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sharelag.tables.level import rank

#: Where a rule was broken that is about no group.
CLUSTER = "the cluster"


def troubles(
    groups: Sequence[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """What is wrong, as `alike` gives it.

    Parameters
    ----------
    groups, rules : sequence of mappings
        Of a verdict; what the rules without a group found is told of `CLUSTER`.
    """
    found = [{"group_id": CLUSTER, **one} for one in rules]
    found += [
        {"group_id": group["group_id"], **one}
        for group in groups
        for one in (*group["causes"], *group["rules"])
    ]
    # That nothing was ever fetched is told by the cause with what to do; how bad it is, by the
    # report's own judgement.
    judged = {one["group_id"] for one in found if _is_judgement(one)}
    started = [
        one for one in found if one.get("cause") == "not_started" and one["group_id"] in judged
    ]
    for one in started:
        one["severity"] = "warning"
    told = {one["group_id"] for one in started}
    return alike(one for one in found if not (_is_judgement(one) and one["group_id"] in told))


def _is_judgement(one: Mapping[str, Any]) -> bool:
    """Records came to share partitions of the group, and nothing was ever fetched."""
    return bool(one.get("is_own")) and one["rule"] == "lag" and one["level"] == "warning"


def alike(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put together what is told in the same words.

    Parameters
    ----------
    found : iterable of mappings
        Causes of a verdict with their ``group_id``, or rules, whose words are another in each
        place.

    Returns
    -------
    list of dict
        The worst first: ``level``, ``title``, ``advice`` (None for a rule), ``is_rule``, and
        ``places``: what was given.
    """
    together: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        is_rule = "rule" in one and not one.get(
            "is_own"
        )  # what a report judges by itself has no name
        level = one["level"] if "rule" in one else one["severity"]
        title = one["rule"] if is_rule else one["summary"]
        new = {
            "level": level,
            "title": title,
            "advice": one.get("advice"),
            "is_rule": is_rule,
            "places": [],
        }
        together.setdefault((is_rule, level, title, one.get("advice")), new)["places"].append(one)
    return sorted(together.values(), key=lambda one: -rank(one["level"]))


def ranges(partitions: str) -> str:
    """Partitions of a cause, ``0,1,2,5``, as ``0-2, 5``; what is no number stays."""
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
