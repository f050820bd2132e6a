"""What the members of a group that has none now did before they left."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sharelag.model import milliseconds

_SECOND = timedelta(seconds=1)
#: A topic id and a partition.
Place = tuple[str, int]


class Before(NamedTuple):
    """A group as it was when its last member left."""

    members: int
    until: datetime
    lag: list[dict[str, Any]]  # as of then: topic_id, partition and lag
    progress: dict[Place, dict[str, Any]]  # with the rates until then


def before_loss(
    group: dict[str, Any],
    session_ms: int,
    lag: list[dict[str, Any]],
    progress: dict[Place, dict[str, Any]],
    observed: dict[Place, dict[str, Any]],
) -> Before | None:
    """Return what a group without members did while it had some; None where that is unknown.

    Its rates are those from the beginning of what was observed until the last member left, and its
    members those that left within a session timeout of that: earlier ones were replaced.

    Parameters
    ----------
    group : dict
        A row of `sharelag.schemas.GROUPS`.
    session_ms : int
        ``share.session.timeout.ms``.
    lag : list of dict
        Rows of `sharelag.schemas.LAG`.
    progress, observed : dict
        Rows of `sharelag.schemas.PROGRESS` and `OBSERVED` by topic id and partition.
    """
    until = group["emptied"]
    if group["members"] or until is None:
        return None
    left = [one["left_ms"] for one in group["departures"] or ()]
    members = sum(one >= milliseconds(until) - session_ms for one in left)
    then = {}
    for place, row in observed.items():
        seconds = (until - row["begin"]) / _SECOND if row["begin"] is not None else 0.0
        if seconds > 0 and row["finished"]:
            then[place] = progress.get(place, {}) | {
                "completion_rate": row["finished"] / seconds,
                "redelivery_rate": (row["redelivered"] or 0) / seconds,
            }
    if not members or not then:
        return None
    return Before(members, until, [_lag_then(row, until, then) for row in lag], then)


def _lag_then(
    row: dict[str, Any], until: datetime, progress: dict[Place, dict[str, Any]]
) -> dict[str, Any]:
    """A lag row without what has arrived since, at the rate of arrivals."""
    rate = progress.get((row["topic_id"], row["partition"]), {}).get("arrival_rate") or 0.0
    since = (row["as_of"] - until) / _SECOND if row["as_of"] is not None else 0.0
    return row | {"lag": max((row["lag"] or 0) - rate * since, 0.0)}
