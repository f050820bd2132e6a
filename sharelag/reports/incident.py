"""What has happened since a moment? How the lag moved, what was the first sign of trouble, and what began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from sharelag.charts import text
from sharelag.replay.moment import parse_time
from sharelag.reports import past
from sharelag.reports.alike import troubles
from sharelag.reports.case import Case
from sharelag.show import duration

_SIGNS = {
    "first_released": "offsets of {place} were given back by {group}",
    "first_archived": "offsets of {place} were archived by {group}",
    "first_reset": "{place} of {group} was reset",
}


def happened(case: Case, told: Mapping[str, Any]) -> str:
    """The headline of an incident.

    Parameters
    ----------
    case : Case
    told : mapping
        Its verdict.

    Returns
    -------
    str
        A few sentences in the order of time; what held before and still holds, where nothing began.
    """
    begin = case.evidence.as_of - case.known_span
    when = f"Since {_moment(begin, None)} ({duration(case.known_span / timedelta(milliseconds=1))})"
    moved = _moved(past.timeline(case), [group["group_id"] for group in told["groups"]])
    sign = _first_sign(past.signs(past.history(case)), begin)
    began = _began(told, begin) or told["headline"].rstrip(".")
    return " ".join(f"{sentence}." for sentence in (f"{when} {moved}", sign, began) if sentence)


def _moved(timeline: pa.Table, groups: Iterable[str]) -> str:
    """How the lag of the groups changed, as far as it is known."""
    sums = _sums(timeline)
    ends = {name: sums[name] for name in groups if name in sums}
    if not ends:
        return "nobody knows how the lag changed"
    grew = {name: now - then for name, (then, now) in ends.items() if now > then}
    if not grew:
        return "the lag of no share group grew"
    worst = max(sorted(grew), key=lambda name: grew[name])
    others = f", and that of {len(grew) - 1} more, too" if len(grew) > 1 else ""
    return f"the lag of {worst} grew by {grew[worst]:,} to {ends[worst][1]:,}{others}"


def _sums(timeline: pa.Table) -> dict[str, tuple[int, int]]:
    """The lag of each group when it was known first and last, summed over the share partitions."""
    lags: dict[tuple[Any, ...], list[int]] = {}
    for row in timeline.filter(timeline.column("lag").is_valid()).to_pylist():
        lags.setdefault((row["group_id"], row["topic_id"], row["partition"]), []).append(row["lag"])
    sums: dict[str, tuple[int, int]] = {}
    for (group, *_), known in lags.items():
        then, now = sums.get(group, (0, 0))
        sums[group] = then + known[0], now + known[-1]
    return sums


def _first_sign(signs: list[dict[str, Any]], begin: datetime) -> str:
    found = [(row[name], words, row) for row in signs for name, words in _SIGNS.items() if row[name]]
    if not found:
        return "No offset was given back or archived, and nothing was reset"
    at, words, row = min(found, key=lambda one: str(one[0]))
    place = text.share_partition(row, False, None)
    return f"First sign at {_moment(parse_time(at), begin)}: {words.format(place=place, group=row['group_id'])}"


def _began(told: Mapping[str, Any], begin: datetime) -> str | None:
    """Of what is worst now, what began first since then."""
    found = [
        (since, one)
        for one in troubles(told["groups"])
        if one["level"] in ("critical", "warning") and not one["is_rule"]
        for since in [min((at["since"] for at in one["places"] if at["since"]), default=None)]
        if since is not None and parse_time(since) >= begin
    ]
    if not found:
        return None
    worst = found[0][1]["level"]
    since, one = min(((at, one) for at, one in found if one["level"] == worst), key=lambda pair: pair[0])
    groups = list(dict.fromkeys(at["group_id"] for at in sorted(one["places"], key=lambda at: at["since"] or "~")))
    who = groups[0] + (f" and {len(groups) - 1} more" if len(groups) > 1 else "")
    return f"Since {_moment(parse_time(since), begin)}, {who}: {one['title']}"


def _moment(at: datetime, begin: datetime | None) -> str:
    """A time; without its day where that is said before."""
    words = text.moment(at)
    return words[11:] if begin is not None and words[:10] == text.moment(begin)[:10] else words
