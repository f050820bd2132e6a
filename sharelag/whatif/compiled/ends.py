"""Where logs end now, and when nothing is left to finish."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import part
from sharelag.whatif.compiled.layout import (
    AT,
    BASES_AT,
    BATCHES,
    COMPLETE,
    DRAINED_AT,
    DRAINS,
    NOW,
    PLACE,
    PLACES,
    PLACES_AT,
    READABLE,
    READS_AT,
    START,
    STEP,
    TIMES_AT,
)


@part
def log_end(a: Any, p: Any) -> Any:
    """The end offset now."""
    at, times = a[p + AT], a[p + TIMES_AT]
    while at < a[p + BATCHES] and a[times + at] <= a[NOW]:
        at += 1
    a[p + AT] = at
    return a[a[p + BASES_AT] + at]


@part
def fetch_end(a: Any, p: Any) -> Any:
    """Up to where fetches read: the last stable offset, if the group reads committed only."""
    if a[p + READS_AT] == a[p + TIMES_AT]:
        end = log_end(a, p)
        a[p + READABLE] = a[p + AT]
        return end
    at, reads = a[p + READABLE], a[p + READS_AT]
    while at < a[p + BATCHES] and a[reads + at] <= a[NOW]:
        at += 1
    a[p + READABLE] = at
    return a[a[p + BASES_AT] + at]


@part
def note_drained(a: Any, p: Any) -> None:
    """Note the time if nothing is left to finish, neither there nor elsewhere."""
    if log_end(a, p) - a[p + START] - a[p + COMPLETE] > 0:
        return
    for number in range(a[PLACES]):
        other = a[PLACES_AT] + number * PLACE
        if log_end(a, other) - a[other + START] - a[other + COMPLETE] > 0:
            return
    last = a[DRAINED_AT] + a[DRAINS] - 1
    if not a[DRAINS] or a[last] // a[STEP] < a[NOW] // a[STEP]:
        a[last + 1] = a[NOW]
        a[DRAINS] += 1
