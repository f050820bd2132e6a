"""Why a variant does better than the baseline: what the scenarios and the runs show of it.

Three mechanisms are known: members finish less than arrives, a poll takes longer than a lock, and
members have nothing to do while others are behind. Each is said only where the runs show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sharelag.durations import duration
from sharelag.tables.words import counted, number, percent
from sharelag.whatif.comparison.rows import Compared
from sharelag.whatif.horizon import rates
from sharelag.whatif.scenario import Scenario

#: A difference of the share of time that members are busy, below which it explains nothing.
_BUSIER = 0.05
#: A poll that takes this part of a lock on average often takes all of it.
_LONG_POLL = 0.5


def mechanisms(found: Compared, name: str) -> Iterator[str]:
    """Yield why a variant differs from the baseline, a sentence each without a full stop."""
    usual, changed = found.scenarios.get(found.baseline), found.scenarios.get(name)
    if usual is None or changed is None or name == found.baseline:
        return
    told = {row["measure"]: row for row in found.differences.to_pylist() if row["variant"] == name}
    means = {(row["variant"], row["measure"]): row["mean"] for row in found.measures.to_pylist()}

    def both(measure: str) -> tuple[float, float] | None:
        """Return the means of baseline and variant where the runs tell them apart."""
        row = told.get(measure, {})
        if row.get("low") is None or row["low"] <= 0 <= row["high"]:
            return None
        return means[found.baseline, measure], means[name, measure]

    yield from _capacity(usual, changed)
    if (expired := both("expired")) is not None:
        yield from _locks(usual, changed, expired)
    busy = both("busy_share")
    if busy is not None and usual.assignor != changed.assignor and busy[1] - busy[0] > _BUSIER:
        yield (
            f"with {usual.assignor} members are busy {percent(busy[0])} of the time, with "
            f"{changed.assignor} {percent(busy[1])}: it lets more of them work where the lag is"
        )


def _capacity(usual: Scenario, changed: Scenario) -> Iterator[str]:
    known, more = rates(usual), rates(changed)
    few, many = len(usual.each_member()), len(changed.each_member())
    if known.each and few * known.each <= known.arriving < many * more.each:
        yield (
            f"{_rate(known.arriving)} records/s arrive, of which {counted(few, 'member')} can "
            f"finish {_rate(few * known.each)} and {counted(many, 'member')} "
            f"{_rate(many * more.each)}"
        )


def _locks(usual: Scenario, changed: Scenario, expired: tuple[float, float]) -> Iterator[str]:
    """Say that locks expire during polls, where the variants' locks differ."""
    locks = [one.settings.limits.lock_duration_ms for one in (usual, changed)]
    polls: list[tuple[float, Any]] = [
        (one.max_poll_records * one.service.mean_ms, one) for one in usual.each_member()
    ]
    longest, member = max(polls, key=lambda one: one[0], default=(0.0, None))
    if locks[0] == locks[1] or member is None or longest < _LONG_POLL * min(locks):
        return
    yield (
        f"a poll of {counted(member.max_poll_records, 'record')} x "
        f"{number(member.service.mean_ms)} ms takes {duration(longest)}: with locks of "
        f"{duration(locks[0])} {number(expired[0])} deliveries expire, with "
        f"{duration(locks[1])} {number(expired[1])}"
    )


def _rate(value: float) -> str:
    return f"{value:.3g}"
