"""Judge one rule: whether it is broken, for how long, and how certain that is.

A level begins when it is reached and ends when the value is better than it by the rule's
hysteresis. It counts once it has held, at every moment examined, for as long as the rule says.
An unknown value neither breaks a rule nor satisfies it: the outcome is the rule's `unknown`.
For a share partition that was never fetched it is the rule's `not_started`, if it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharelag.metrics.facts import Bools, Floats
from sharelag.monitoring.checks.measures import Series
from sharelag.monitoring.checks.rules import Rule
from sharelag.tables.level import CRITICAL, OK, UNKNOWN, WARNING, of_rule

#: Exit codes of Nagios plug-ins.
CODES = {OK: 0, WARNING: 1, CRITICAL: 2, UNKNOWN: 3}


@dataclass(frozen=True)
class Judged:
    """The outcome of one rule, a row per item of its series."""

    level: NDArray[Any]
    is_unknown: Bools  # the level is the rule's `unknown`
    since: Floats  # milliseconds: latest start of the level; NaN: not reached, or unknown
    due: Floats  # milliseconds: when a worse level will have lasted long enough; NaN: none is near
    due_level: NDArray[Any]


@dataclass(frozen=True)
class _Lasting:
    fires: Bools
    may_fire: Bools
    since: Floats

    def due(self, rule: Rule) -> Floats:
        """When the level will have lasted long enough, if it goes on; NaN: never, or unknown."""
        waits = ~self.fires & ~self.may_fire
        return np.where(waits, self.since + _milliseconds(rule), np.nan)


def judge(rule: Rule, found: Series) -> Judged:
    """Judge every item by a rule."""
    warn, critical = (_lasting(rule, level, found) for level in (rule.warn, rule.critical))
    level = np.full(len(found.values), OK, object)
    is_unknown = (warn.may_fire | critical.may_fire) & ~warn.fires & ~critical.fires
    level[is_unknown] = of_rule(rule.unknown)
    level[warn.fires] = WARNING
    level[critical.fires] = CRITICAL
    if rule.not_started is not None:
        level[found.not_started] = of_rule(rule.not_started)
    since = np.where(critical.fires | np.isnan(warn.since), critical.since, warn.since)
    soon = np.where(
        critical.fires | found.not_started, np.nan, [critical.due(rule), warn.due(rule)]
    )
    is_critical = ~np.isnan(soon[0])
    due = np.where(is_critical | warn.fires, soon[0], soon[1])
    due_level = np.where(is_critical, CRITICAL, WARNING)
    return Judged(level, is_unknown & ~found.not_started, since, due, due_level)


def _lasting(rule: Rule, level: float | None, found: Series) -> _Lasting:
    count, steps = found.values.shape
    if level is None or not count:
        nowhere = np.zeros(count, bool)
        return _Lasting(nowhere, nowhere, np.full(count, np.nan))
    reached = found.values >= level * rule.sign
    kept = found.values >= level * rule.sign - level * rule.hysteresis
    for at in range(1, steps):
        reached[:, at] |= reached[:, at - 1] & kept[:, at]
    ended = ~reached & found.is_exact
    if found.since is not None:
        return _by_start(
            rule, reached[:, -1], ended[:, -1], found.at[-1] - found.since, found.since
        )
    # Kafka's times are in milliseconds, and so are moments.
    begins = found.at[-1] - _milliseconds(rule) + 1
    reaches = found.at <= begins
    requested = found.at >= found.at[reaches].max(initial=found.at[0])
    may_fire = np.asarray(~ended[:, requested].any(axis=1), bool)
    fires = np.asarray(reached[:, requested].all(axis=1) & reaches.any(), bool)
    # The moment after the last one at which it was not reached.
    first = np.where(reached, 0, np.arange(1, steps + 1)).max(axis=1)
    since = np.append(found.at.astype(float), np.nan)[first]
    return _Lasting(fires, may_fire & ~fires, since if steps > 1 else np.full(count, np.nan))


def _by_start(rule: Rule, reached: Bools, ended: Bools, lasted: Floats, since: Floats) -> _Lasting:
    """Judge by the start that a cause carries."""
    fires = (
        reached if not rule.lasting else np.asarray(reached & (lasted >= _milliseconds(rule)), bool)
    )
    may_fire = ~fires & ~ended & (~reached | np.isnan(since))
    return _Lasting(fires, np.asarray(may_fire, bool), np.where(reached, since, np.nan))


def _milliseconds(rule: Rule) -> float:
    return rule.lasting.total_seconds() * 1000
