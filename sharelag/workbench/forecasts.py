"""What becomes of the lag of a group, in the same words in every place that shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sharelag.durations import duration
from sharelag.metrics.rates import (
    DRAINED,
    DRAINS,
    NEVER,
    NOBODY,
    PAUSED,
    STALLED,
    UNCERTAIN,
    UNKNOWN,
)
from sharelag.tables.gaps import NO_AGE

#: Columns of `sharelag.schemas.PROGRESS` that a forecast needs.
COLUMNS = ("drain", "drain_ms", "drain_low_ms", "drain_high_ms", "arrival_rate", "completion_rate")


class Forecast(NamedTuple):
    """What becomes of the lag of a group; the slowest share partition decides."""

    kind: str  # one of `sharelag.metrics.rates.DRAINS_OF`
    words: str  # in a cell
    interval: str = ""  # of 95 % confidence, where there is a time

    def sentence(self) -> str:
        """Return it in a row of facts: ``gone in 3.4 s (1.3 s to never)``."""
        if self.kind == UNCERTAIN:
            return "uncertain whether it drains"
        return f"gone {self.words} ({self.interval})" if self.interval else self.words


def unforeseen(ages: Sequence[float], ahead: Forecast) -> str:
    """Return what is not known of a lag that seems harmless; empty where all of it is.

    ``ages`` are those of the group's share partitions, NaN where unknown.
    """
    if ahead.kind == UNKNOWN:
        return "how fast records arrive or are finished is unknown"
    return NO_AGE if any(map(math.isnan, ages)) else ""


def forecast(rows: Sequence[Mapping[str, Any]]) -> Forecast:
    """Forecast the lag of a group, by `sharelag.schemas.PROGRESS` of its share partitions.

    At least the `COLUMNS`.
    """
    kinds = {row["drain"] for row in rows}
    if not rows:
        return Forecast(UNKNOWN, "unknown")
    if kinds <= {DRAINED}:
        return Forecast(DRAINED, "no lag")
    if NOBODY in kinds:
        return Forecast(NOBODY, "the group is empty")
    if NEVER in kinds and STALLED not in kinds:
        growing = [row for row in rows if row["drain"] == NEVER]
        more = sum(row["arrival_rate"] - row["completion_rate"] for row in growing)
        at_least = "at least " if UNKNOWN in kinds else ""
        return Forecast(NEVER, f"grows {at_least}{more:.3g}/s")
    for kind in (STALLED, PAUSED, UNKNOWN, UNCERTAIN):
        if kind in kinds:
            return Forecast(kind, kind)
    slowest = max((row for row in rows if row["drain"] == DRAINS), key=lambda row: row["drain_ms"])
    high = "never" if slowest["drain_high_ms"] is None else duration(slowest["drain_high_ms"])
    return Forecast(
        DRAINS,
        f"in {duration(slowest['drain_ms'])}",
        f"{duration(slowest['drain_low_ms'])} to {high}",
    )
