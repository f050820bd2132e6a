"""Autoscalers do what KEDA and the HPA do, and their cost is compared with the age."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag.errors import InputError
from sharelag.model import StateBatch, Window
from sharelag.monitoring.exports.scaling import consumers, scaling
from sharelag.whatif.autoscale import Fixed, Hpa, Keda, Pods, Policy, Rules, TargetAge
from sharelag.whatif.autoscaling.hpa import Stabilizer, average_value
from sharelag.whatif.autoscaling.text import autoscaled, autoscaler_of
from sharelag.whatif.compare import compare
from sharelag.whatif.comparison.cost import cost_against_age
from sharelag.whatif.consumer_group import consumer_group_twin
from sharelag.whatif.named import named
from sharelag.whatif.scenario import (
    BEGINS_MS,
    Behaviour,
    Burst,
    Fault,
    Limits,
    Member,
    PartitionStart,
    Poison,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
)
from sharelag.whatif.scenario_json import from_json, to_json
from sharelag.whatif.simulate import SimulationResult, simulate
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.stuck import stuck
from sharelag.workbench import charts, investigate
from sharelag.workbench.charts import text
from sharelag.workbench.charts.scaling import (
    SCALING_COST,
    scaling_cost_figure,
    scaling_cost_records,
)
from tests.support.simulated_input import SimulatedInput
from tests.support.written_input import Write, WrittenInput

SECOND = 1_000_000
#: 25 records a second, 40 ms each: one member is busy, and a burst of a minute asks for twenty.
LOAD = Scenario(
    (Topic("orders", 4),),
    (Member(count=2, service=Service(40), max_poll_records=50),),
    (Producer("orders", 25, batch_records=5, bursts=(Burst(60_000, 120_000, 20),)),),
    duration_ms=600_000,
)
QUICK = Pods(startup_ms=2000)


def rows(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.scaling.to_pylist()
    return found


def only(result: Any) -> dict[str, Any]:
    (row,) = result.summary.to_pylist()
    return dict(row)


# ---- the formulas


@pytest.mark.parametrize(
    ("replicas", "metric", "target", "wanted"),
    [
        # Kubernetes, Algorithm details: desired = ceil(current * metric of each / target). Of each:
        # 200m at a target of 100m doubles, 50m halves, and a ratio within 0.1 of 1 changes nothing.
        (3, 3 * 200, 100, 6),
        (4, 4 * 50, 100, 2),
        (5, 5 * 50, 100, 3),  # 2.5, rounded up
        (10, 10 * 100, 100, 10),
        (10, 10 * 109, 100, 10),
        (
            10,
            10 * 110,
            100,
            11,
        ),  # as in Go: 1.1 is a little more than that in binary, and 0.9 is not
        (10, 10 * 90, 100, 10),
        (10, 1101, 100, 12),  # 1.101: 11.01, rounded up
        (10, 899, 100, 9),
        (1, 700, 100, 7),
        (7, 0, 100, 0),
        (7, 1, 100, 1),
        (50, 50 * 90, 75, 60),  # the example of the blog post about the configurable tolerance
    ],
)
def test_what_a_metric_asks_for_is_the_formula_of_the_documentation(
    replicas: int, metric: int, target: int, wanted: int
) -> None:
    assert average_value(metric, target, replicas, 0.1) == wanted
    each = metric / replicas
    if abs(each / target - 1) > 0.1:
        assert wanted == math.ceil(replicas * each / target - 1e-9)


def run_of(
    hpa: Hpa, least: int, most: int, begin: int, wanted: list[int], every: int = 15
) -> list[int]:
    """The replicas after each of several syncs."""
    stabilizer, replicas, found = Stabilizer(hpa, least, most), begin, []
    for number, recommended in enumerate(wanted):
        desired = stabilizer.desired(number * every * SECOND, replicas, recommended)
        if desired != replicas:
            stabilizer.scaled(number * every * SECOND, replicas, desired)
        replicas = desired
        found.append(replicas)
    return found


AT_ONCE = Rules(0, (Policy("percent", 100),))


@pytest.mark.parametrize(
    ("hpa", "least", "begin", "wanted", "found"),
    [
        # Default behavior: up by 100 % or 4, whichever is more, every 15 s.
        (Hpa(), 1, 1, [100] * 6, [5, 10, 20, 40, 80, 100]),
        # Without a behavior: to the double or to 4, whichever is more.
        (Hpa(scale_up=None, scale_down=None), 1, 1, [100] * 7, [4, 8, 16, 32, 64, 100, 100]),
        # Down by the highest of the last 300 s: 20 syncs see the 10 that it began with, which is
        # the 21st after it.
        (Hpa(), 1, 10, [10, *[2] * 22], [10] * 20 + [2] * 3),
        (Hpa(scale_up=None, scale_down=None), 1, 10, [10, *[2] * 22], [10] * 21 + [2] * 2),
        # A single higher one in between holds it up.
        (
            Hpa(scale_down=Rules(60_000)),
            1,
            10,
            [2, 2, 6, 2, 2, 2, 2, 2],
            [10, 10, 10, 10, 6, 6, 2, 2],
        ),
        # The documented example: at most 4, or 10 %, in 60 s, whichever is more: 80, 72, 64, ... by
        # 60 s.
        (
            Hpa(
                60_000,
                scale_down=Rules(0, (Policy("pods", 4, 60_000), Policy("percent", 10, 60_000))),
            ),
            1,
            80,
            [10] * 4,
            [72, 64, 57, 51],
        ),
        # At most 5, or 10 %, whichever is less.
        (
            Hpa(
                60_000,
                scale_down=Rules(
                    0, (Policy("percent", 10, 60_000), Policy("pods", 5, 60_000)), "min"
                ),
            ),
            1,
            80,
            [10] * 4,
            [75, 70, 65, 60],
        ),
        (Hpa(scale_down=Rules(0, (), "disabled")), 1, 10, [2] * 3, [10] * 3),
        (Hpa(scale_up=Rules(0, (), "disabled")), 1, 2, [10] * 3, [2] * 3),
        # A window for going up takes the lowest.
        (
            Hpa(scale_up=Rules(60_000), scale_down=AT_ONCE),
            1,
            2,
            [9, 4, 9, 9, 9, 9],
            [2, 2, 2, 2, 4, 8],
        ),
        (Hpa(scale_down=AT_ONCE), 3, 10, [0, 0], [3, 3]),
    ],
)
def test_replicas_follow_the_rules_of_the_documentation(
    hpa: Hpa, least: int, begin: int, wanted: list[int], found: list[int]
) -> None:
    every = hpa.sync_period_ms // 1000
    assert run_of(hpa, least, 100, begin, wanted, every) == found


def test_a_policy_is_about_its_whole_period() -> None:
    """Four in a minute are four in a minute, however often the HPA looks."""
    hpa = Hpa(scale_up=Rules(0, (Policy("pods", 4, 60_000),)))
    assert run_of(hpa, 1, 100, 1, [50] * 9) == [5, 5, 5, 5, 9, 9, 9, 9, 13]


# ---- KEDA in a simulation


@pytest.mark.row("ASG-10")
@pytest.mark.row("FUT-08")
def test_keda_wants_a_member_for_each_threshold_of_lag() -> None:
    """Lag 700 at a threshold of 100 is seven members: by the export, and at the HPA's next look."""
    scenario = Scenario(
        (Topic("orders", 1, backlog=700),),
        (Member(service=Service(60_000), max_poll_records=1),),
        autoscaler=Keda(100, 1, 20, hpa=Hpa(scale_up=Rules(0, (Policy("pods", 50),)))),
        duration_ms=20_000,
    )
    result = simulate(scenario)
    told = scaling(investigate.gather(SimulatedInput(result), "local"))["what-if"]
    assert (told["lag"], consumers(told, 100)) == (700, 7)
    assert [(row["metric"], row["recommended"], row["desired"]) for row in rows(result)] == [
        (700, 7, 7)
    ] * 2
    assert rows(result)[1]["members"] == 7  # more than there are partitions
    assert sum(row["deliveries"] > 0 for row in result.members.to_pylist()) == 7


def test_the_desired_members_follow_the_lag_of_the_timeline_by_the_formula() -> None:
    """The simulated series is that of the formula and the rules, from the timeline's lag."""
    result = simulate(replace(LOAD, autoscaler=Keda(100, 1, 20, pods=QUICK)))
    by_time: dict[int, int] = {}
    for row in result.timeline.to_pylist():
        by_time[row["time_ms"]] = by_time.get(row["time_ms"], 0) + row["lag"]
    replicas, stabilizer = 2, Stabilizer(Hpa(), 1, 20)
    for row in rows(result):
        # What is written follows what is in memory by milliseconds.
        assert abs(row["metric"] - by_time[row["time_ms"]]) <= 100
        ratio = row["metric"] / 100 / replicas
        assert row["recommended"] == (
            replicas if 0.9 <= ratio <= 1.1 else math.ceil(row["metric"] / 100)
        )
        desired = stabilizer.desired(row["time_ms"] * 1000, replicas, row["recommended"])
        assert row["desired"] == desired
        if desired != replicas:
            stabilizer.scaled(row["time_ms"] * 1000, replicas, desired)
        replicas = desired
    all_desired = [row["desired"] for row in rows(result)]
    assert max(all_desired) == 20
    assert all_desired[-1] <= 2
    # The rise comes with the burst; the fall 300 s after the last high recommendation.
    last_high = max(row["time_ms"] for row in rows(result) if row["recommended"] >= 20)
    first_low = next(
        row["time_ms"] for row in rows(result) if row["time_ms"] > last_high and row["desired"] < 20
    )
    assert first_low - last_high == 300_000


def test_members_start_late_and_leave_in_order() -> None:
    """A member is there after its startup; one that leaves commits, and nothing is redelivered."""
    keda = Keda(50, 1, 12, hpa=Hpa(scale_down=Rules(30_000)), pods=Pods(startup_ms=7000))
    result = simulate(replace(LOAD, duration_ms=400_000, autoscaler=keda))
    lives = result.members.to_pylist()
    decided = [row["time_ms"] for row in rows(result)]
    added = [life for life in lives if life["member"].startswith("scaled-")]
    assert {life["joined_ms"] - 7000 for life in added} <= set(decided)
    gone = [life for life in lives if life["ended"] is not None]
    assert len(gone) >= 5
    assert {life["ended"] for life in gone} == {"left"}
    assert only(result)["redeliveries"] == result.duplicates == 0
    # The youngest go first.
    first = min(gone, key=lambda life: life["left_ms"])
    assert first["joined_ms"] == max(
        life["joined_ms"] for life in lives if life["joined_ms"] <= first["left_ms"]
    )
    assert lives[0]["ended"] is None
    # The table's members are those of the lives.
    for row in rows(result):
        there = [
            life
            for life in lives
            if life["joined_ms"]
            < row["time_ms"]
            <= (math.inf if life["left_ms"] is None else life["left_ms"])
        ]
        busy_closing = sum(life["left_ms"] is not None for life in there)
        assert row["members"] <= len(there) + (row["time_ms"] == 0) * 2
        assert row["members"] >= len(there) - busy_closing


def test_who_does_not_close_in_time_is_killed() -> None:
    """A member with a long batch is killed after the grace period; its records come again."""
    slow = Scenario(
        (Topic("orders", 1, backlog=100),),
        (
            Member(
                count=2,
                service=Service(2000),
                max_poll_records=50,
                behaviour=Behaviour(restart_ms=1000),
            ),
        ),
        autoscaler=Fixed(1, pods=Pods(grace_ms=5000)),
        settings=Settings(Limits(lock_duration_ms=60_000)),
        duration_ms=60_000,
    )
    # Two are there at the begin, one is wanted: it goes before it has anything.
    assert [life["ended"] for life in simulate(slow).members.to_pylist()] == [None, "left"]
    hpa = Hpa(10_000, scale_down=Rules(0))
    two = replace(
        slow,
        autoscaler=Keda(60, 1, 2, hpa=hpa, pods=Pods(grace_ms=5000)),
        topics=(Topic("orders", 1, backlog=101),),
    )
    ended = [life for life in simulate(two).members.to_pylist() if life["ended"]]
    assert ended == []
    shrinking = replace(
        two,
        autoscaler=Keda(
            1000, 1, 2, hpa=Hpa(10_000, scale_down=Rules(10_000)), pods=Pods(grace_ms=5000)
        ),
    )
    result = simulate(shrinking)
    (killed,) = [life for life in result.members.to_pylist() if life["ended"]]
    assert killed["ended"] == "crashed"
    assert rows(result)[1]["desired"] == 1
    assert killed["left_ms"] == rows(result)[1]["time_ms"] + 5000
    assert len(result.members) == 2  # it does not come back, although it would


def test_from_none_to_some_and_back() -> None:
    """KEDA starts from none on lag above the activation threshold; back after the cooldown."""
    quiet = Scenario(
        (Topic("orders", 2),),
        (),
        (Producer("orders", 1, "steady", begin_ms=40_000, end_ms=100_000),),
        autoscaler=Keda(
            10, 0, 5, activation_lag_threshold=5, cooldown_period_ms=120_000, pods=QUICK
        ),
        duration_ms=400_000,
    )
    result = simulate(quiet)
    assert rows(result)[0]["desired"] == 1
    assert rows(result)[0]["time_ms"] == 60_000  # at 40 s it looked not, at 60 s it saw 19
    assert result.members.column("joined_ms")[0].as_py() == 62_000
    (end,) = [row for row in rows(result) if row["desired"] == 0]
    # Lag was above 5 at 60 s only (a member keeps up), so 120 s later, at the next poll, there is
    # nobody.
    assert end["time_ms"] == 210_000
    assert only(result)["lag_end"] == 0
    assert isinstance(quiet.autoscaler, Keda)
    stays = simulate(replace(quiet, autoscaler=replace(quiet.autoscaler, min_replica_count=1)))
    assert {row["desired"] for row in rows(stays)[1:]} <= {1, 2}
    assert only(stays)["member_hours"] > only(result)["member_hours"]


def test_a_group_that_was_never_fetched_from_wakes_nobody() -> None:
    """Kafka knows no lag of it, so an autoscaler at none stays there."""
    starts = (PartitionStart(500),)
    new = Scenario(
        (Topic("orders", 1, starts=starts),),
        (),
        settings=Settings(auto_offset_reset="earliest"),
        autoscaler=Keda(10, 0, 5),
        duration_ms=120_000,
    )
    result = simulate(new)
    assert rows(result) == []
    assert only(result)["lag_end"] == 500
    woken = simulate(replace(new, autoscaler=Keda(10, 1, 5)))
    assert rows(woken)[0]["desired"] == 1
    assert rows(woken)[0]["metric"] is None
    assert only(woken)["lag_end"] == 0


def test_cached_and_late_metrics_make_it_late() -> None:
    """The HPA that gets what was polled last, or a source with a cache, sees the burst later."""

    def rises(keda: Keda) -> int:
        found = rows(simulate(replace(LOAD, duration_ms=240_000, autoscaler=keda)))
        return int(next(row["time_ms"] for row in found if row["desired"] > 10))

    live = Keda(100, 1, 20, pods=QUICK)
    cached = replace(live, use_cached_metrics=True, polling_interval_ms=60_000)
    late = replace(live, refresh_ms=50_000)
    assert rises(live) == 90_000
    assert rises(cached) == 135_000
    assert rises(late) == 120_000


def test_partitions_limit_a_consumer_group_and_need_not_limit_a_share_group() -> None:
    keda = Keda(100, 1, 40, limit_to_partitions=True, pods=QUICK)
    limited, free = (
        simulate(replace(LOAD, autoscaler=replace(keda, limit_to_partitions=told)))
        for told in (True, False)
    )
    assert max(row["desired"] for row in rows(limited)) <= 5
    assert max(row["desired"] for row in rows(free)) == 40
    assert only(limited)["age_p95_ms"] > 3 * only(free)["age_p95_ms"]
    twin = consumer_group_twin(replace(LOAD, autoscaler=keda))
    assert max(row["desired"] for row in rows(twin)) <= 5
    assert sum(row["deliveries"] > 0 for row in twin.members.to_pylist()) == 4


@pytest.mark.parametrize(
    ("lag", "metric", "wanted"), [(399, 399, 4), (450, 450, 5), (499, 499, 5), (500, 400, 4)]
)
def test_the_limit_of_partitions_is_kedas(lag: int, metric: int, wanted: int) -> None:
    """It divides whole numbers, so that four partitions let five members pass."""
    idle = Scenario(
        (Topic("orders", 4, backlog=(lag - 300, 100, 100, 100)),),
        (Member(service=Service(600_000), max_poll_records=1),),
        autoscaler=Keda(100, 1, 40, limit_to_partitions=True),
        duration_ms=1000,
    )
    assert [(row["metric"], row["recommended"]) for row in rows(simulate(idle))] == [
        (metric, wanted)
    ]


# ---- what is stuck


def transactional(**more: Any) -> Scenario:
    settings = Settings(isolation_level="read_committed")
    producer = Producer("t", 100, transaction_batches=50, abort_share=0.3, **more)
    return Scenario((Topic("t", 2),), (Member(count=2, service=Service(2)),), (producer,), settings)


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
        Scenario(
            (Topic("t", 2, backlog=3000, batch_records=10),),
            (
                Member(
                    count=2,
                    service=Service(50),
                    max_poll_records=50,
                    behaviour=Behaviour(0.6, 0.3, 0.05, 0.05),
                ),
            ),
        ),
        (20, 105),
    ),
}


@pytest.mark.parametrize("name", STUCK)
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
        told = scaling(investigate.gather(SimulatedInput(result), "local"))["what-if"]
        assert last["metric"] == told["lag_excluding_stuck"]
        less.append(told["lag"] - told["lag_excluding_stuck"])
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
def test_what_is_stuck_in_a_window_is_what_the_export_says(
    ago: float, batches: Any, held: int
) -> None:
    """One share partition of 7,200 records, written so many seconds ago; locks last 30 s."""
    count = sum(state != 0 for _, _, state, _ in batches)
    told = scaling(
        investigate.gather(WrittenInput([Write(ago, 7100, batches, count=count)]), "local")
    )["billing"]
    assert told["lag"] - told["lag_excluding_stuck"] == held
    window = Window(
        0, 0, 0, 7100, count, BEGINS_MS, BEGINS_MS, tuple(StateBatch(*one) for one in batches)
    )
    offsets = np.arange(7201)
    log = Log(offsets, offsets[:-1] * SECOND)
    assert (
        stuck(
            window, log, Settings(), round((7200 - ago) * SECOND), 7200 * SECOND, is_compacted=False
        )
        == held
    )


def test_compacted_offsets_are_no_reason_for_more_members() -> None:
    """The export estimates how many are gone from a sample; the simulation knows."""
    gone = tuple(offset for offset in range(1000) if offset * 7919 % 1009 % 5)
    window = Window(0, 0, 0, 0, 0, BEGINS_MS, BEGINS_MS)
    scenario = Scenario(
        (Topic("t", 1, starts=(PartitionStart(1000, 0, window, 10, missing=gone),)),),
        (Member(service=Service(60_000), max_poll_records=1),),
        autoscaler=Keda(10, 1, 1, "lag_excluding_stuck"),
        duration_ms=15_000,
    )
    result = simulate(scenario)
    told = scaling(investigate.gather(SimulatedInput(result), "local"))["what-if"]
    assert (told["lag"], rows(result)[-1]["metric"]) == (1000, 1000 - len(gone))
    assert told["lag_excluding_stuck"] == pytest.approx(1000 - len(gone), rel=0.5)


def test_more_members_do_not_help_what_is_stuck() -> None:
    """One unacknowledged record fills the window: by lag that takes 20 members, without it one."""
    stuck = replace(
        named("window-full").with_members(1), poison=(Poison("orders", 0, 5, "silent"),)
    )
    runs = {
        metric: simulate(
            replace(stuck, autoscaler=Keda(100, 1, 20, metric, hpa=Hpa(scale_down=Rules(15_000))))
        )  # type: ignore[arg-type]
        for metric in ("lag", "lag_excluding_stuck")
    }
    ends = {metric: [row["desired"] for row in rows(run)] for metric, run in runs.items()}
    at = [row["time_ms"] for row in rows(runs["lag"])].index(120_000)
    assert ends["lag"][at] == 20
    assert ends["lag_excluding_stuck"][at] == 1
    assert (
        only(runs["lag"])["member_hours"] > 1.5 * only(runs["lag_excluding_stuck"])["member_hours"]
    )
    left = [
        row["lag"]
        for run in runs.values()
        for row in run.timeline.to_pylist()
        if row["time_ms"] == 60_000
    ]
    assert left[0] == left[1] > 4000


# ---- others


def test_target_age_keeps_records_young() -> None:
    """At 75 records a second of 40 ms three members are busy; at 80 % utilization it takes four."""
    steady = replace(
        LOAD,
        producers=(Producer("orders", 75, batch_records=5),),
        autoscaler=TargetAge(10_000, pods=QUICK, hpa=Hpa(scale_down=Rules(60_000))),
    )
    result = simulate(replace(steady, duration_ms=300_000))
    late = [row for row in result.timeline.to_pylist() if row["time_ms"] >= 120_000]
    assert max(row["age_ms"] for row in late) < 10_000
    assert {row["recommended"] for row in rows(result) if row["time_ms"] >= 120_000} <= {3, 4, 5}
    assert 4 <= rows(result)[-1]["desired"] <= 6
    alone = simulate(replace(steady, autoscaler=None, duration_ms=300_000))
    assert only(alone)["age_max_ms"] > 50_000


def test_target_age_does_the_sum_of_its_formula() -> None:
    """A backlog of 1,000 records of 100 ms in 40 s takes 25 members of 10 a second each."""
    scenario = Scenario(
        (Topic("orders", 1, backlog=1000),),
        (Member(service=Service(100), max_poll_records=10),),
        autoscaler=TargetAge(40_000, 1, 100, pods=Pods(startup_ms=0), hpa=Hpa(2000)),
        duration_ms=4000,
    )
    found = rows(simulate(scenario))
    assert found[0]["recommended"] is None  # nobody knows yet how fast a member is
    # At 2 s one batch of ten was acknowledged, and its age is 2 s.
    left = found[1]["metric"]
    assert left in (980, 990)
    age = 0.0 if LOAD.begins_ms < 0 else 2.0
    rate = (1000 - left) / {980: 2.0, 990: 1.0}[left]
    assert found[1]["recommended"] == math.ceil(left / (40 - age) / rate)


def test_fixed_is_always_so_many_and_replaces_who_ends() -> None:
    crashing = replace(
        LOAD,
        duration_ms=120_000,
        faults=(Fault(20_000, "crash", "member-0"),),
        autoscaler=Fixed(4, pods=Pods(startup_ms=3000)),
    )
    result = simulate(crashing)
    lives = result.members.to_pylist()
    assert [life["joined_ms"] for life in lives] == [0, 0, 0, 0, 33_000]  # seen at 30 s
    assert [row["members"] for row in rows(result)][:5] == [2, 4, 3, 4, 4]
    assert {row["desired"] for row in rows(result)} == {4}
    # One that comes back by itself is not replaced.
    members = tuple(replace(one, behaviour=Behaviour(restart_ms=20_000)) for one in LOAD.members)
    back = simulate(replace(crashing, members=members))
    assert [life["joined_ms"] for life in back.members.to_pylist()] == [0, 0, 0, 0, 40_000]


def test_the_same_seed_gives_the_same_bytes() -> None:
    def told(result: SimulationResult) -> list[Any]:
        return [result.scaling, result.summary, result.timeline, result.members, result.deliveries]

    for autoscaler in (Keda(100, 0, 20, "lag_excluding_stuck"), TargetAge(10_000)):
        scenario = replace(LOAD, duration_ms=100_000, autoscaler=autoscaler)
        one, other, another = (simulate(scenario, seed) for seed in (3, 3, 4))
        assert all(mine.equals(yours) for mine, yours in zip(told(one), told(other), strict=True))
        assert not one.scaling.equals(another.scaling)


def test_without_an_autoscaler_nothing_changes() -> None:
    """As many as there are, and never another: the same run as with none."""
    plain = replace(LOAD, duration_ms=120_000)
    runs = [
        simulate(replace(plain, autoscaler=one), 2) for one in (None, Fixed(2), Keda(1000, 2, 2))
    ]
    assert runs[0].scaling.num_rows == 0
    for run in runs[1:]:
        assert run.timeline.equals(runs[0].timeline)
        assert run.summary.equals(runs[0].summary)


# ---- cost against age


def test_cost_against_age_marks_what_no_other_beats() -> None:
    names = {
        "cheap": (1, 90),
        "quick": (5, 10),
        "even": (3, 30),
        "worse": (3, 31),
        "worst": (6, 95),
        "tie": (3, 30),
    }
    made = [
        {
            "variant": name,
            "seed": seed,
            "member_hours": hours + seed / 10,
            "age_p95_ms": float(age + seed),
        }
        | {"drain_ms": None if name == "cheap" else 5.0}
        for name, (hours, age) in names.items()
        for seed in range(3)
    ]
    made.append(
        {"variant": "failed", "seed": 0, "member_hours": None, "age_p95_ms": None, "drain_ms": None}
    )
    table = cost_against_age(pa.Table.from_pylist(made))
    assert table.column("variant").to_pylist() == [
        "cheap",
        "even",
        "tie",
        "worse",
        "quick",
        "worst",
    ]
    assert table.column("is_on_front").to_pylist() == [True, True, True, False, True, False]
    first = table.to_pylist()[0]
    assert (first["member_hours"], first["age_p95_ms"], first["n"], first["drained"]) == (
        pytest.approx(1.1),
        91,
        3,
        0,
    )
    assert first["age_p95_low_ms"] == pytest.approx(91 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert cost_against_age(pa.Table.from_pylist(made).slice(0, 0)).num_rows == 0
    with pytest.raises(InputError, match="no column 'member_hours'"):
        cost_against_age(pa.table({"variant": ["a"]}))


def test_more_members_cost_more_and_keep_records_younger() -> None:
    variants = {
        f"fixed:{count}": replace(LOAD, duration_ms=240_000, autoscaler=Fixed(count))
        for count in (2, 6, 20)
    }
    variants |= {"keda": replace(LOAD, duration_ms=240_000, autoscaler=Keda(100, 1, 20))}
    table = scaling_cost_records(compare(variants, seeds=range(2)).runs)
    by_name = {row["variant"]: row for row in table.to_pylist()}
    assert table.schema.equals(SCALING_COST)
    hours = [by_name[f"fixed:{count}"]["member_hours"] for count in (2, 6, 20)]
    assert hours == pytest.approx([2 / 15, 6 / 15, 20 / 15])
    ages = [by_name[f"fixed:{count}"]["age_p95_ms"] for count in (2, 6, 20)]
    assert ages == sorted(ages, reverse=True)
    assert by_name["fixed:2"]["is_on_front"]
    assert by_name["fixed:20"]["is_on_front"]
    assert hours[0] < by_name["keda"]["member_hours"] < hours[2]


HOSTILE = "<img src=x onerror=alert(1)>%{x}$a$"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_figure_says_its_finding_and_takes_names_as_text(theme: charts.Theme) -> None:
    made = [
        {"variant": name, "member_hours": hours, "age_p95_ms": age, "drain_ms": 1.0}
        for name, hours, age in (
            (HOSTILE, 1.0, 60_000.0),
            ("quick", 4.0, 2000.0),
            ("worse", 4.5, 70_000.0),
        )
    ]
    figure = scaling_cost_figure(scaling_cost_records(pa.Table.from_pylist(made)), theme)
    told = f"From {text.name(HOSTILE)} (1 member-hours, age {text.span(60_000)})"
    assert figure.layout.meta["title"] == f"{told} to quick (4 member-hours, age {text.span(2000)})"
    assert figure.layout.meta["facts"][0].startswith("Simulated. Member-hours")
    assert figure.layout.meta["facts"][1].startswith("Not known: how far")
    assert [list(trace.x) for trace in figure.data] == [[1, 4], [1], [4], [4.5]]
    for shown in [figure.layout.title.text, *(trace.name for trace in figure.data)]:
        assert "<img" not in shown
        assert "%{" not in shown
        assert "$" not in shown
    assert figure.data[1].marker.symbol != figure.data[3].marker.symbol  # not by colour alone
    assert not scaling_cost_figure(
        scaling_cost_records(pa.Table.from_pylist(made)).slice(0, 0), theme
    ).data


# ---- as text, as JSON, and what cannot be


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("keda", Keda()),
        ("keda:threshold=100,min=1,max=20", Keda(100, 1, 20)),
        (
            ("keda: threshold=5, metric=lag_excluding_stuck, cached, "
            "limit-to-partitions=yes, activation=3"),
            Keda(
                5, metric="lag_excluding_stuck", use_cached_metrics=True, limit_to_partitions=True,
                activation_lag_threshold=3,
            ),
        ),
        (
            "keda:polling=10s,cooldown=60s,refresh=2.5s,startup=0s,sync=5s,tolerance=0,stabilization=60s",
            Keda(
                polling_interval_ms=10_000, cooldown_period_ms=60_000,
                refresh_ms=2500, pods=Pods(0),
                hpa=Hpa(5000, 0, scale_down=Rules(60_000)),
            ),
        ),
        (
            "target-age:goal=9s,max=5,utilization=0.5,window=12s",
            TargetAge(9000, 1, 5, utilization=0.5, window_ms=12_000),
        ),
        ("fixed:8", Fixed(8)),
    ],
)  # fmt: skip
def test_an_autoscaler_can_be_written_down(told: str, meant: Any) -> None:
    assert autoscaler_of(told) == meant
    scenario = replace(LOAD, autoscaler=meant)
    assert from_json(to_json(scenario)) == scenario


def test_each_variant_gets_each_autoscaler() -> None:
    tried = {"as it is": LOAD, "8 members": LOAD.with_members(8)}
    made = autoscaled(tried, ["fixed:3", "keda:threshold=50"])
    assert {name: (len(one.each_member()), one.autoscaler) for name, one in made.items()} == {
        "fixed:3": (2, Fixed(3)),
        "keda:threshold=50": (2, Keda(50)),
        "8 members · fixed:3": (8, Fixed(3)),
        "8 members · keda:threshold=50": (8, Keda(50)),
    }
    assert autoscaled(tried, []) == tried
    with pytest.raises(InputError, match="given twice"):
        autoscaled(tried, ["keda", "keda"])


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("hpa:target=3", "unknown autoscaler 'hpa': choose one of keda, target-age, fixed"),
        ("keda:treshold=100", "keda has no 'treshold': it knows threshold"),
        ("keda:threshold=many", "threshold is 'many': give a whole number"),
        ("keda:threshold=0", "keda: threshold is '0': give a whole number of at least 1"),
        ("keda:max=0", "keda: max is '0': give a whole number of at least 1"),
        ("keda:polling=0s", "keda: polling is '0s': give 1ms at least"),
        ("keda:sync=0.0001s", "keda: sync is '0.0001s': give 1ms at least"),
        ("target-age:goal=0s", "target-age: goal is '0s': give 1ms at least"),
        ("target-age:goal=30s,window=0s", "target-age: window is '0s': give 1ms at least"),
        (
            "target-age:goal=30s,utilization=80",
            "utilization is '80': give a number above 0 and at most 1",
        ),
        ("keda:min=5,max=2", "range of 5 to 2 members is invalid"),
        ("keda:metric=cpu", "unknown metric 'cpu'"),
        ("keda:min=1,min=2", "'min' twice"),
        ("keda:startup=-1", "keda: startup: invalid duration '-1'"),
        ("keda:startup=nan", "invalid duration 'nan'"),
        ("keda:cached=maybe", "give yes or no"),
        ("target-age", "needs a goal, a duration"),
        ("target-age:goal=30s,min=0", "target-age: min is '0': give a whole number of at least 1"),
        ("fixed:", "give a whole number"),
    ],
)
def test_what_cannot_be_read_says_why(told: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        autoscaler_of(told)


def test_members_with_times_of_their_own_and_an_autoscaler_do_not_go_together() -> None:
    with pytest.raises(InputError, match="give them no join_ms and no leave_ms"):
        replace(LOAD, members=(Member(leave_ms=1000),), autoscaler=Keda())
    for wrong in (
        lambda: Rules(policies=()),
        lambda: Hpa(scale_up=None),
        lambda: Hpa(0),
        lambda: Fixed(-1),
        lambda: TargetAge(0),
    ):
        with pytest.raises(InputError):
            wrong()
