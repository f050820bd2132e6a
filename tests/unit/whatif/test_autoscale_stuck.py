"""Autoscalers do not scale for lag that more members would not finish."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sharelag.engine import engines
from sharelag.model import StateBatch, Window
from sharelag.monitoring.exports import scaling
from sharelag.whatif import (
    Behaviour,
    Hpa,
    Keda,
    Limits,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Rules,
    Scenario,
    Service,
    Settings,
    Topic,
    named,
    simulate,
)
from sharelag.whatif.autoscale import Metric
from sharelag.whatif.compiled.watch import stuck
from sharelag.whatif.scenario import BEGINS_MS
from sharelag.whatif.simulation.logs import Log
from tests.support.cases import few_of
from tests.support.simulated_input import SimulatedInput
from tests.support.simulations import SECOND, only, rows
from tests.support.simulations import at as lag_at
from tests.support.written_input import Write, WrittenInput


# ---- what is stuck
def transactional(**more: Any) -> Scenario:
    settings = Settings(isolation_level="read_committed")
    producer = Producer("t", 100, transaction_batches=50, abort_share=0.3, **more)
    return Scenario((Topic("t", 2),), (Member(count=2, service=Service(2)),), (producer,), settings)


FAILING = Member(
    service=Service(50), max_poll_records=50, behaviour=Behaviour(0.6, 0.3, 0.05, 0.05)
)
STUCK = {
    "window-full": (named("window-full"), (20, 45, 105)),
    "crash-loop": (named("crash-loop"), (75,)),
    "retention-loss": (named("retention-loss"), (105,)),
    "open transactions": (transactional(transaction_ms=40_000), (20, 45, 75)),
    "markers": (transactional(end_ms=30_000), (20, 45)),
    "poison": (
        Scenario(
            (Topic("t", 2, backlog=3000, batch_records=10),),
            (Member(count=2, service=Service(5), max_poll_records=50),),
            (Producer("t", 200),),
            Settings(Limits(delivery_count_limit=3)),
            poison=(
                *(Poison("t", 0, offset) for offset in range(100, 1500, 100)),
                Poison("t", 1, 500, "silent"),
            ),
        ),
        (45, 75, 105),
    ),
    "failures": (
        Scenario((Topic("t", 2, backlog=3000, batch_records=10),), (replace(FAILING, count=2),)),
        (20, 105),
    ),
}


@pytest.mark.parametrize("name", few_of(STUCK, ["window-full", "markers", "poison"]))
def test_what_is_stuck_is_what_the_export_says(name: str) -> None:
    """From the records written, both know the same lag and the same stuck part of it."""
    scenario, ends = STUCK[name]
    count = len(scenario.each_member())
    keda = Keda(10, count, count, "lag_excluding_stuck", hpa=Hpa(5000))
    less = []
    for end in ends:
        result = simulate(replace(scenario, duration_ms=end * 1000, autoscaler=keda))
        last = rows(result)[-1]
        assert last["time_ms"] == end * 1000
        found = scaling(engines.gather(SimulatedInput(result), "local"))["what-if"]
        assert last["metric"] == found["lag_excluding_stuck"]
        less.append(found["lag"] - found["lag_excluding_stuck"])
    assert max(less) > 0 or name in ("retention-loss", "markers")


@pytest.mark.parametrize(
    ("ago", "batches", "held"),
    [
        (5, ((7105, 7105, 4, 5),), 5),  # given up, and five offsets hold the start offset
        (5, ((7105, 7105, 4, 4),), 0),  # rejected
        (5, ((7105, 7105, 2, 1),), 0),  # passed, but not for long
        (60, ((7105, 7105, 2, 1),), 5),
        (5, ((7110, 7112, 0, 4), (7120, 7120, 0, 3)), 3),  # one delivery left
        (60, ((7100, 7100, 0, 1),), 0),
    ],
)
def test_stuck_in_a_window_is_what_the_export_says(ago: float, batches: Any, held: int) -> None:
    """One share partition of 7,200 records, written so many seconds ago; locks last 30 s."""
    count = sum(state != 0 for _, _, state, _ in batches)
    written_input = WrittenInput([Write(ago, 7100, batches, count=count)])
    found = scaling(engines.gather(written_input, "local"))["billing"]
    assert found["lag"] - found["lag_excluding_stuck"] == held
    states = tuple(StateBatch(*one) for one in batches)
    window = Window(0, 0, 0, 7100, count, BEGINS_MS, BEGINS_MS, states)
    offsets = np.arange(7201)
    log = Log(offsets, offsets[:-1] * SECOND)
    written = round((7200 - ago) * SECOND)
    assert stuck(window, log, Settings(), written, 7200 * SECOND, is_compacted=False) == held


def test_compacted_offsets_are_no_reason_for_more_members() -> None:
    """The export estimates how many are gone from a sample; the simulation knows."""
    gone = tuple(offset for offset in range(1000) if offset * 7919 % 1009 % 5)
    window = Window(0, 0, 0, 0, 0, BEGINS_MS, BEGINS_MS)
    topic = Topic("t", 1, starts=(PartitionStart(1000, 0, window, 10, missing=gone),))
    member = Member(service=Service(60_000), max_poll_records=1)
    scaler = Keda(10, 1, 1, "lag_excluding_stuck")
    scenario = Scenario((topic,), (member,), autoscaler=scaler, duration_ms=15_000)
    result = simulate(scenario)
    found = scaling(engines.gather(SimulatedInput(result), "local"))["what-if"]
    assert (found["lag"], rows(result)[-1]["metric"]) == (1000, 1000 - len(gone))
    assert found["lag_excluding_stuck"] == pytest.approx(1000 - len(gone), rel=0.5)


def test_more_members_do_not_help_what_is_stuck() -> None:
    """One unacknowledged record fills the window: by lag that takes 20 members, without it one."""
    poison = (Poison("orders", 0, 5, "silent"),)
    stuck = replace(named("window-full").with_members(1), poison=poison)
    keda = Keda(100, 1, 20, hpa=Hpa(scale_down=Rules(15_000)))
    metrics: tuple[Metric, ...] = ("lag", "lag_excluding_stuck")
    runs = {one: simulate(replace(stuck, autoscaler=replace(keda, metric=one))) for one in metrics}
    ends = {metric: [row["desired"] for row in rows(run)] for metric, run in runs.items()}
    at = [row["time_ms"] for row in rows(runs["lag"])].index(120_000)
    assert ends["lag"][at] == 20
    assert ends["lag_excluding_stuck"][at] == 1
    hours = [only(run.summary)["member_hours"] for run in runs.values()]
    assert hours[0] > 1.5 * hours[1]
    lags = [lag_at(run, 60_000)["lag"] for run in runs.values()]
    assert lags[0] == lags[1] > 4000
