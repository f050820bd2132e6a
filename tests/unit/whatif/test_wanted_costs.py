"""Autoscalers on drawn loads: member-hours of each at the age that the fewest members keep."""

from typing import Any

import numpy as np
import pytest

from sharelag.whatif import Burst, Member, Producer, Scenario, Service, Topic, compare, variants
from sharelag.whatif.comparison.intervals import ratio_interval
from sharelag.whatif.simulation.streams import generator

LOADS = range(16)
SEEDS = range(1)
#: Apart from the streams of simulations.
_STREAM = 1249
FEWEST = "target-age:goal=30s,utilization=fewest,max=200,stabilization=60s"
#: What is tried of the others: what each kind costs at an age lies between these.
GOALS = tuple(
    f"target-age:goal={goal},max=200,stabilization=60s" for goal in ("30s", "45s", "60s", "90s")
)
THRESHOLDS = tuple(
    f"keda:threshold={lag},min=1,max=200,stabilization=60s,metric=lag_excluding_stuck"
    for lag in (20, 40, 80, 160, 320)
)


def load(number: int) -> Scenario:
    """Ten minutes of 2 to 8 members' work, with up to three bursts of 1.5 to 4 times as much."""
    chance = generator(number, _STREAM)
    work_ms = int(chance.choice([100, 200]))
    busy = float(chance.uniform(2, 8))
    rate = round(busy * 1000 / work_ms, 1)
    begins = chance.integers(60_000, 400_000, int(chance.integers(0, 4))).tolist()
    bursts = tuple(
        Burst(at, at + int(chance.integers(30_000, 120_000)), round(chance.uniform(1.5, 4), 2))
        for at in begins
    )
    polled = max(1000 // work_ms, 1)
    return Scenario(
        (Topic("orders", int(chance.choice([4, 8, 16]))),),
        (Member(count=round(busy) + 1, service=Service(work_ms, "exponential"),
                max_poll_records=polled),),
        (Producer("orders", rate, batch_records=int(chance.choice([5, 10])), bursts=bursts),),
        duration_ms=600_000,
        settled=True,
    )  # fmt: skip


def costs(number: int) -> dict[str, Any]:
    """Age and member-hours of each autoscaler on one load, means over the seeds."""
    tried = variants(load(number), autoscalers=(FEWEST, *GOALS, *THRESHOLDS))
    runs = compare(tried, seeds=SEEDS).runs.to_pylist()
    means = {
        name: [
            float(np.mean([row[measure] for row in runs if row["variant"] == name]))
            for measure in ("age_p95_ms", "member_hours")
        ]
        for name in (FEWEST, *GOALS, *THRESHOLDS)
    }
    age, hours = means[FEWEST]
    return {
        "load": number,
        "age_p95_ms": age,
        "fewest": hours,
        "target-age": at_age([means[name] for name in GOALS], age),
        "keda": at_age([means[name] for name in THRESHOLDS], age),
        "all": means,
    }


def at_age(points: list[list[float]], age: float) -> float | None:
    """The cost of one kind at an age, between its points; None where none of them is as young."""
    ages, hours = np.array(sorted(points)).T
    if age < ages[0]:
        return None
    return float(np.interp(age, ages, np.minimum.accumulate(hours)))


@pytest.mark.exhaustive
@pytest.mark.timeout(2 * 3600)
def test_the_fewest_members_cost_less_than_other_autoscalers_at_the_same_age() -> None:
    rows = [costs(number) for number in LOADS]
    kept = sum(row["age_p95_ms"] <= 30_000 for row in rows)
    assert kept >= sum(row["all"][GOALS[0]][0] <= 30_000 for row in rows), rows
    assert kept >= 0.8 * len(rows), rows  # the others have bursts that begin faster than members do
    for kind in ("target-age", "keda"):
        pairs = np.array([(row["fewest"], row[kind]) for row in rows if row[kind] is not None])
        found = ratio_interval(pairs[:, 0], pairs[:, 1], 0.95)
        assert found.mean is not None, rows
        assert found.mean < 1, (kind, found, rows)
