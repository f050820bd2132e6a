"""Tuned settings against Kafka's defaults on drawn scenarios, by runs that the tuner did not see."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

from sharelag.whatif import Goal, Limits, Scenario, Tuned, compare, tune
from sharelag.whatif.comparison.tables import MEASURED
from sharelag.whatif.ranking import draw_scenario

#: From here on nothing was tried on these numbers while the tuner was made.
UNSEEN, SCENARIOS = 3000, 50
GOALS = ("age_p95<30s", "redelivered_share<1%")
#: Long enough for the arrivals, and for most of the lag to drain.
DURATION_MS = 120_000


def by_default(scenario: Scenario) -> Scenario:
    """The same group with Kafka's defaults."""
    usual: dict[str, Any] = {"max_poll_records": 500, "acquire_mode": "batch_optimized"}
    members = tuple(replace(one, **usual) for one in scenario.members)
    settings = replace(scenario.settings, limits=Limits())
    return replace(scenario, members=members, settings=settings, duration_ms=DURATION_MS)


def missed(found: Tuned, variant: str) -> float:
    """How far the goals are missed, as parts of their limits."""
    rows = {row["goal"]: row for row in found.front.to_pylist() if row["variant"] == variant}
    off = 0.0
    for goal in map(Goal.parse, GOALS):
        assert not MEASURED[goal.measure].censored
        off += max((rows[str(goal)]["mean"] or 0.0) / goal.limit - 1, 0.0)
    return off


def hours(found: Tuned, variant: str) -> float:
    rows = found.front.to_pylist()
    return next(float(row["member_hours"]) for row in rows if row["variant"] == variant)


def against(mine: tuple[float, float], other: tuple[float, float]) -> str:
    """Which of two is better: by what it misses of the goals, then by member-hours."""
    for one, two in zip(mine, other, strict=True):
        if not np.isclose(one, two, rtol=1e-6):
            return "better" if one < two else "worse"
    return "equal"


def unseen() -> Iterator[int]:
    """Scenarios in which Kafka's defaults miss a goal: else there is little to win."""
    for number in count(UNSEEN):
        runs = compare({"defaults": by_default(draw_scenario(number))}, seeds=range(3)).runs
        goals = map(Goal.parse, GOALS)
        if any(runs.column(goal.measure).to_numpy().mean() > goal.limit for goal in goals):
            yield number


def tried(number: int) -> dict[str, Any]:
    """Tune one scenario, and for comparison its members alone."""
    scenario = by_default(draw_scenario(number))
    now = len(scenario.each_member())
    between = (1, 4 * now)
    found = tune(scenario, GOALS, ranges={"members": between}, trials=32, seeds=7, margins=False)
    settings = found.settings.column("setting").to_pylist()
    fixed = {name: value for name, value in DEFAULTS.items() if name in settings}
    alone = tune(
        scenario, GOALS, ranges={**fixed, "members": between}, trials=16, seeds=7, margins=False
    )
    tuned, usual, members = (
        (missed(one, name), hours(one, name))
        for one, name in ((found, "recommended"), (found, "as it is"), (alone, "recommended"))
    )
    return {
        "scenario": scenario.name,
        "against_defaults": against(tuned, usual),
        "against_members_alone": against(tuned, members),
        "tuned": tuned,
        "defaults": usual,
        "members_alone": members,
        "changed": dict(found.changed),
    }


DEFAULTS = {
    "share.record.lock.duration.ms": 30_000,
    "share.partition.max.record.locks": 2000,
    "share.delivery.count.limit": 5,
    "max.poll.records": 500,
    "share.acquire.mode": "batch_optimized",
    "renew": False,
}


@pytest.mark.exhaustive
@pytest.mark.timeout(4 * 3600)
def test_tuned_settings_beat_kafkas_defaults_on_scenarios_that_the_tuner_did_not_see() -> None:
    rows = [tried(number) for number in islice(unseen(), SCENARIOS)]
    beaten = Counter(row["against_defaults"] for row in rows)
    assert beaten["better"] >= 0.9 * len(rows), rows
    assert beaten["worse"] == 0, rows
    alone = Counter(row["against_members_alone"] for row in rows)
    assert alone["better"] > 2 * alone["worse"], rows
