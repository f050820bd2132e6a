"""Numbers to scale by: the lag of a group, with and without what more consumers cannot finish."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharelag.metrics.causes import CAUSES
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.facts import Facts, Floats
from sharelag.model import iso

#: Causes that more members do not resolve.
STUCK = frozenset(
    [
        "poison_records",
        "head_of_line",
        "window_full",
        "open_transaction",
        "markers",
        "compaction_holes",
        "records_deleted",
    ]
)


def stuck(facts: Facts) -> Floats:
    """Count the offsets of each share partition that more members cannot finish, up to its lag."""
    held = np.zeros(len(facts.groups))
    for cause in CAUSES:
        if cause.name in STUCK:
            found = cause.find(facts)
            # An offset may have several causes; the largest count is a lower bound.
            held = np.maximum(held, np.where(found.where, np.nan_to_num(found.held), 0))
    return np.minimum(held, np.nan_to_num(facts.lag("lag")))


def scaling(evidence: Evidence, patience: timedelta | None = None) -> dict[str, dict[str, Any]]:
    """Compute the numbers that an autoscaler reads, by group.

    Parameters
    ----------
    evidence : Evidence
    patience : timedelta, optional
        As for `sharelag.metrics.explain.explain`: what has not moved for this long is stuck.

    Returns
    -------
    dict of str to dict
        ``lag``, ``lag_excluding_stuck`` (offsets), ``age_seconds`` (of the oldest unfinished
        record), ``members``, ``unknown_lags`` and ``as_of``. An unknown number is None, and so is
        a sum with an unknown part: an autoscaler then holds still, as it would not at 0. Share
        partitions that were never fetched have no lag, in Kafka's own command neither; here they
        count with the records that wait there, where that is known.
    """
    facts = Facts.of(evidence, patience)
    groups, first, of = np.unique(facts.groups.astype(str), return_index=True, return_inverse=True)
    lag = facts.left
    unknown = np.bincount(of, np.isnan(facts.lag("lag")))
    is_known = np.bincount(of, np.isnan(lag)) == 0
    sums = np.bincount(of, np.nan_to_num(lag))
    left = sums - np.bincount(of, stuck(facts))
    age, members = _ages(facts, of), facts.members[first]
    return {
        str(group): {
            "group": str(group),
            "lag": int(sums[place]) if is_known[place] else None,
            "lag_excluding_stuck": int(left[place])
            if is_known[place] and not evidence.lag_only
            else None,
            "age_seconds": float(age[place]) / 1000
            if is_known[place] and not np.isnan(age[place])
            else None,
            "members": None if np.isnan(members[place]) else int(members[place]),
            "unknown_lags": int(unknown[place]),
            "as_of": iso(evidence.as_of),
        }
        for place, group in enumerate(groups)
    }


def consumers(numbers: Mapping[str, Any], target: float) -> int | None:
    """Return the consumers that a group's lag calls for at ``target`` offsets each, if known."""
    lag = numbers["lag_excluding_stuck"]
    return None if lag is None else math.ceil(lag / target)


def _ages(facts: Facts, of: NDArray[np.int64]) -> Floats:
    """Return each group's greatest age; NaN where one is unknown that may be greater."""
    age = np.where(facts.waiting == 0, -np.inf, facts.progress("age_ms"))
    greatest = np.full(int(of.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(greatest, of, np.where(np.isnan(age), np.inf, age))
    return np.where(np.isinf(greatest), np.nan, greatest)
