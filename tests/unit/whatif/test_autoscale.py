"""Autoscalers do what KEDA and the HPA do, and are compared by age and cost."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import charts
from sharelag.charts import scaling_cost_figure, scaling_cost_records, text
from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.model import StateBatch, Window
from sharelag.monitoring.exports import consumers, scaling
from sharelag.whatif import (
    Behaviour,
    Fault,
    Fixed,
    Hpa,
    Keda,
    Limits,
    Member,
    PartitionStart,
    Pods,
    Poison,
    Policy,
    Producer,
    Rules,
    Scenario,
    Service,
    Settings,
    TargetAge,
    Topic,
    compare,
    consumer_group_twin,
    cost_against_age,
    from_json,
    named,
    simulate,
    to_json,
    variants,
)
from sharelag.whatif.autoscale import Metric, autoscaler_of
from sharelag.whatif.comparison.intervals import COST_AGAINST_AGE
from sharelag.whatif.compiled.watch import stuck
from sharelag.whatif.scenario import BEGINS_MS
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.scaling import Stabilizer, average_value
from tests.support.cases import few_of
from tests.support.simulated_input import SimulatedInput
from tests.support.simulations import LOAD, QUICK, SECOND, only, rows
from tests.support.simulations import at as lag_at
from tests.support.written_input import Write, WrittenInput


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
        # As in Go: 1.1 is a little more than that in binary, and 0.9 is not.
        (10, 10 * 110, 100, 11),
        (10, 10 * 90, 100, 10),
        (10, 1101, 100, 12),  # 1.101: 11.01, rounded up
        (10, 899, 100, 9),
        (1, 700, 100, 7),
        (7, 0, 100, 0),
        (7, 1, 100, 1),
        (50, 50 * 90, 75, 60),  # the example of the blog post about the configurable tolerance
    ],
)
def test_a_metric_asks_as_documented(replicas: int, metric: int, target: int, wanted: int) -> None:
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
        replicas = stabilizer.stabilize(number * every * SECOND, replicas, recommended)
        found.append(replicas)
    return found


AT_ONCE = Rules(0, (Policy("percent", 100),))
TENTH = Policy("percent", 10, 60_000)
LEAST, MOST = (Policy("pods", 4, 60_000), TENTH), (TENTH, Policy("pods", 5, 60_000))


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
        (Hpa(scale_down=Rules(60_000)), 1, 10, [2, 2, 6, *[2] * 5], [*[10] * 4, 6, 6, 2, 2]),
        # The documented example: at most 4, or 10 %, in 60 s, whichever is more: 80, 72, 64, ... by
        # 60 s.
        (Hpa(60_000, scale_down=Rules(0, LEAST)), 1, 80, [10] * 4, [72, 64, 57, 51]),
        # At most 5, or 10 %, whichever is less.
        (Hpa(60_000, scale_down=Rules(0, MOST, "min")), 1, 80, [10] * 4, [75, 70, 65, 60]),
        (Hpa(scale_down=Rules(0, (), "disabled")), 1, 10, [2] * 3, [10] * 3),
        (Hpa(scale_up=Rules(0, (), "disabled")), 1, 2, [10] * 3, [2] * 3),
        # A window for going up takes the lowest.
        (Hpa(scale_up=Rules(60_000), scale_down=AT_ONCE), 1, 2, [9, 4, *[9] * 4], [*[2] * 4, 4, 8]),
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
@pytest.mark.row("ASG-10", "FUT-08")
def test_keda_wants_a_member_for_each_threshold_of_lag() -> None:
    """Lag 700 at a threshold of 100 is seven members: by the export, and at the HPA's next look."""
    topic = Topic("orders", 1, backlog=700)
    member = Member(service=Service(60_000), max_poll_records=1)
    scaler = Keda(100, 1, 20, hpa=Hpa(scale_up=Rules(0, (Policy("pods", 50),))))
    scenario = Scenario((topic,), (member,), autoscaler=scaler, duration_ms=20_000)
    result = simulate(scenario)
    answer = scaling(engines.gather(SimulatedInput(result), "local"))["what-if"]
    assert (answer["lag"], consumers(answer, 100)) == (700, 7)
    wanted = [(row["metric"], row["recommended"], row["desired"]) for row in rows(result)]
    assert wanted == [(700, 7, 7)] * 2
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
        wanted = replicas if 0.9 <= ratio <= 1.1 else math.ceil(row["metric"] / 100)
        assert row["recommended"] == wanted
        replicas = stabilizer.stabilize(row["time_ms"] * 1000, replicas, row["recommended"])
        assert row["desired"] == replicas
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
    assert only(result.summary)["redeliveries"] == result.duplicates == 0
    # The youngest go first.
    first = min(gone, key=lambda life: life["left_ms"])
    expected = max(life["joined_ms"] for life in lives if life["joined_ms"] <= first["left_ms"])
    assert first["joined_ms"] == expected
    assert lives[0]["ended"] is None
    # The table's members are those of the lives.
    for row in rows(result):
        ends = [math.inf if life["left_ms"] is None else life["left_ms"] for life in lives]
        there = [
            life
            for life, end in zip(lives, ends, strict=True)
            if life["joined_ms"] < row["time_ms"] <= end
        ]
        busy_closing = sum(life["left_ms"] is not None for life in there)
        assert row["members"] <= len(there) + (row["time_ms"] == 0) * 2
        assert row["members"] >= len(there) - busy_closing


def test_who_does_not_close_in_time_is_killed() -> None:
    """A member with a long batch is killed after the grace period; its records come again."""
    pods, back = Pods(grace_ms=5000), Behaviour(restart_ms=1000)
    member = Member(count=2, service=Service(2000), max_poll_records=50, behaviour=back)
    topic, scaler = Topic("orders", 1, backlog=100), Fixed(1, pods=pods)
    settings = Settings(Limits(lock_duration_ms=60_000))
    slow = Scenario((topic,), (member,), autoscaler=scaler, settings=settings, duration_ms=60_000)
    # Two are there at the begin, one is wanted: it goes before it has anything.
    assert [life["ended"] for life in simulate(slow).members.to_pylist()] == [None, "left"]
    stay = Keda(60, 1, 2, hpa=Hpa(10_000, scale_down=Rules(0)), pods=pods)
    two = replace(slow, autoscaler=stay, topics=(Topic("orders", 1, backlog=101),))
    assert [life["ended"] for life in simulate(two).members.to_pylist()] == [None, None]
    fewer = Keda(1000, 1, 2, hpa=Hpa(10_000, scale_down=Rules(10_000)), pods=pods)
    result = simulate(replace(two, autoscaler=fewer))
    (killed,) = [life for life in result.members.to_pylist() if life["ended"]]
    assert killed["ended"] == "crashed"
    assert rows(result)[1]["desired"] == 1
    assert killed["left_ms"] == rows(result)[1]["time_ms"] + 5000
    assert len(result.members) == 2  # it does not come back, although it would


def test_from_none_to_some_and_back() -> None:
    """KEDA starts from none on lag above the activation threshold; back after the cooldown."""
    starts: dict[str, Any] = {"activation_lag_threshold": 5, "cooldown_period_ms": 120_000}
    topic, autoscaler = Topic("orders", 2), replace(Keda(10, 0, 5, pods=QUICK), **starts)
    producer = Producer("orders", 1, "steady", begin_ms=40_000, end_ms=100_000)
    quiet = Scenario((topic,), (), (producer,), autoscaler=autoscaler, duration_ms=400_000)
    result = simulate(quiet)
    assert rows(result)[0]["desired"] == 1
    assert rows(result)[0]["time_ms"] == 60_000  # at 40 s it looked not, at 60 s it saw 19
    assert result.members.column("joined_ms")[0].as_py() == 62_000
    (end,) = [row for row in rows(result) if row["desired"] == 0]
    # Lag was above 5 at 60 s only (a member keeps up), so 120 s later, at the next poll, there is
    # nobody.
    assert end["time_ms"] == 210_000
    assert only(result.summary)["lag_end"] == 0
    assert isinstance(quiet.autoscaler, Keda)
    stays = simulate(replace(quiet, autoscaler=replace(quiet.autoscaler, min_replica_count=1)))
    assert {row["desired"] for row in rows(stays)[1:]} <= {1, 2}
    assert only(stays.summary)["member_hours"] > only(result.summary)["member_hours"]


def test_a_group_that_was_never_fetched_from_wakes_nobody() -> None:
    """Kafka knows no lag of it, so an autoscaler at none stays there."""
    starts = (PartitionStart(500),)
    topic, settings = Topic("orders", 1, starts=starts), Settings(auto_offset_reset="earliest")
    new = Scenario((topic,), (), settings=settings, autoscaler=Keda(10, 0, 5), duration_ms=120_000)
    result = simulate(new)
    assert rows(result) == []
    assert only(result.summary)["lag_end"] == 500
    woken = simulate(replace(new, autoscaler=Keda(10, 1, 5)))
    assert rows(woken)[0]["desired"] == 1
    assert rows(woken)[0]["metric"] is None
    assert only(woken.summary)["lag_end"] == 0


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
        simulate(replace(LOAD, autoscaler=replace(keda, limit_to_partitions=answer)))
        for answer in (True, False)
    )
    assert max(row["desired"] for row in rows(limited)) <= 5
    assert max(row["desired"] for row in rows(free)) == 40
    assert only(limited.summary)["age_p95_ms"] > 3 * only(free.summary)["age_p95_ms"]
    twin = consumer_group_twin(replace(LOAD, autoscaler=keda))
    assert max(row["desired"] for row in rows(twin)) <= 5
    assert sum(row["deliveries"] > 0 for row in twin.members.to_pylist()) == 4


@pytest.mark.parametrize(
    ("metric", "seen"), [("lag", [700, 700, 700]), ("lag_excluding_stuck", [700, 0, 0])]
)
def test_what_is_uncommitted_since_the_last_look_is_stuck(metric: Metric, seen: list[int]) -> None:
    """As KEDA's ``excludePersistentLag``: of a record that takes a minute, all behind it."""
    topic, scaler = Topic("orders", 1, backlog=700), Keda(100, 1, 20, metric)
    member = Member(service=Service(60_000), max_poll_records=1)
    scenario = Scenario((topic,), (member,), autoscaler=scaler, duration_ms=40_000)
    assert [row["metric"] for row in rows(consumer_group_twin(scenario))] == seen


@pytest.mark.parametrize(
    ("lag", "metric", "wanted"), [(399, 399, 4), (450, 450, 5), (499, 499, 5), (500, 400, 4)]
)
def test_the_limit_of_partitions_is_kedas(lag: int, metric: int, wanted: int) -> None:
    """It divides whole numbers, so that four partitions let five members pass."""
    topic = Topic("orders", 4, backlog=(lag - 300, 100, 100, 100))
    member = Member(service=Service(600_000), max_poll_records=1)
    scaler = Keda(100, 1, 40, limit_to_partitions=True)
    idle = Scenario((topic,), (member,), autoscaler=scaler, duration_ms=1000)
    (row,) = rows(simulate(idle))
    assert (row["metric"], row["recommended"]) == (metric, wanted)


# ---- what is stuck
def transactional(**more: Any) -> Scenario:
    settings = Settings(isolation_level="read_committed")
    producer = Producer("t", 100, transaction_batches=50, abort_share=0.3, **more)
    return Scenario((Topic("t", 2),), (Member(count=2, service=Service(2)),), (producer,), settings)


FAILS = Member(service=Service(50), max_poll_records=50, behaviour=Behaviour(0.6, 0.3, 0.05, 0.05))
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
        Scenario((Topic("t", 2, backlog=3000, batch_records=10),), (replace(FAILS, count=2),)),
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


# ---- others
def test_target_age_keeps_records_young() -> None:
    """At 75 records a second of 40 ms three members are busy; at 80 % utilization it takes four."""
    producers = (Producer("orders", 75, batch_records=5),)
    autoscaler = TargetAge(10_000, pods=QUICK, hpa=Hpa(scale_down=Rules(60_000)))
    steady = replace(LOAD, producers=producers, autoscaler=autoscaler)
    result = simulate(replace(steady, duration_ms=300_000))
    late = [row for row in result.timeline.to_pylist() if row["time_ms"] >= 120_000]
    assert max(row["age_ms"] for row in late) < 10_000
    assert {row["recommended"] for row in rows(result) if row["time_ms"] >= 120_000} <= {3, 4, 5}
    assert 4 <= rows(result)[-1]["desired"] <= 6
    alone = simulate(replace(steady, autoscaler=None, duration_ms=300_000))
    assert only(alone.summary)["age_max_ms"] > 50_000


def test_target_age_does_the_sum_of_its_formula() -> None:
    """A backlog of 1,000 records of 100 ms in 40 s takes 25 members of 10 a second each."""
    topic = Topic("orders", 1, backlog=1000)
    member = Member(service=Service(100), max_poll_records=10)
    scaler = TargetAge(40_000, 1, 100, pods=Pods(startup_ms=0), hpa=Hpa(2000))
    scenario = Scenario((topic,), (member,), autoscaler=scaler, duration_ms=4000)
    found = rows(simulate(scenario))
    assert found[0]["recommended"] is None  # nobody knows yet how fast a member is
    # At 2 s one batch of ten was acknowledged, and its age is 2 s.
    left = found[1]["metric"]
    assert left in (980, 990)
    age = 0.0 if LOAD.begins_ms < 0 else 2.0
    rate = (1000 - left) / {980: 2.0, 990: 1.0}[left]
    assert found[1]["recommended"] == math.ceil(left / (40 - age) / rate)


def test_fixed_is_always_so_many_and_replaces_who_ends() -> None:
    faults = (Fault(20_000, "crash", "member-0"),)
    autoscaler = Fixed(4, pods=Pods(startup_ms=3000))
    crashing = replace(LOAD, duration_ms=120_000, faults=faults, autoscaler=autoscaler)
    result = simulate(crashing)
    lives = result.members.to_pylist()
    assert [life["joined_ms"] for life in lives] == [0, 0, 0, 0, 33_000]  # seen at 30 s
    assert [row["members"] for row in rows(result)][:5] == [2, 4, 3, 4, 4]
    assert {row["desired"] for row in rows(result)} == {4}
    # One that comes back by itself is not replaced.
    members = tuple(replace(one, behaviour=Behaviour(restart_ms=20_000)) for one in LOAD.members)
    back = simulate(replace(crashing, members=members))
    assert [life["joined_ms"] for life in back.members.to_pylist()] == [0, 0, 0, 0, 40_000]


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
    names = {"cheap": (1, 90), "quick": (5, 10), "even": (3, 30)}
    names |= {"worse": (3, 31), "worst": (6, 95), "tie": (3, 30)}
    columns = ("variant", "seed", "member_hours", "age_p95_ms", "drain_ms")
    rows_of: list[tuple[Any, ...]] = [
        (name, seed, hours + seed / 10, float(age + seed), None if name == "cheap" else 5.0)
        for name, (hours, age) in names.items()
        for seed in range(3)
    ]
    rows_of.append(("failed", 0, None, None, None))
    made = [dict(zip(columns, one, strict=True)) for one in rows_of]
    table = cost_against_age(pa.Table.from_pylist(made))
    order = ["cheap", "even", "tie", "worse", "quick", "worst"]
    assert table.column("variant").to_pylist() == order
    assert table.column("is_on_front").to_pylist() == [True, True, True, False, True, False]
    first = table.to_pylist()[0]
    counted = {"member_hours": pytest.approx(1.1), "age_p95_ms": 91, "n": 3, "drained": 0}
    assert first | counted == first
    assert first["age_p95_low_ms"] == pytest.approx(91 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert cost_against_age(pa.Table.from_pylist(made).slice(0, 0)).num_rows == 0
    with pytest.raises(InputError, match=r"member_hours: expected .*, got no such column"):
        cost_against_age(pa.table({"variant": ["a"]}))


def test_more_members_cost_more_and_keep_records_younger() -> None:
    scalers: dict[str, Any] = {f"fixed:{count}": Fixed(count) for count in (2, 6, 20)}
    scalers |= {"keda": Keda(100, 1, 20)}
    short = replace(LOAD, duration_ms=240_000)
    tried = {name: replace(short, autoscaler=one) for name, one in scalers.items()}
    table = scaling_cost_records(compare(tried, seeds=range(2)).runs)
    by_name = {row["variant"]: row for row in table.to_pylist()}
    assert table.schema.equals(COST_AGAINST_AGE)
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
        for name, hours, age in ((HOSTILE, 1.0, 6e4), ("quick", 4.0, 2e3), ("worse", 4.5, 7e4))
    ]
    records = scaling_cost_records(pa.Table.from_pylist(made))
    figure = scaling_cost_figure(records, theme)
    assert figure.layout.meta["title"] == (
        f"From {text.name(HOSTILE)} (1 member-hours, age {text.span(60_000)}) "
        f"to quick (4 member-hours, age {text.span(2000)})"
    )
    assert figure.layout.meta["facts"][0].startswith("Simulated. Member-hours")
    assert figure.layout.meta["facts"][1].startswith("Not known: how far")
    assert [list(trace.x) for trace in figure.data] == [[1, 4], [1], [4], [4.5]]
    for shown in [figure.layout.title.text, *(trace.name for trace in figure.data)]:
        assert "<img" not in shown
        assert "%{" not in shown
        assert "$" not in shown
    assert figure.data[1].marker.symbol != figure.data[3].marker.symbol  # not by colour alone
    assert not scaling_cost_figure(records.slice(0, 0), theme).data


# ---- as text, as JSON, and what cannot be
@pytest.mark.parametrize(
    ("answer", "meant"),
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
def test_an_autoscaler_can_be_written_down(answer: str, meant: Any) -> None:
    assert autoscaler_of(answer) == meant
    scenario = replace(LOAD, autoscaler=meant)
    assert from_json(to_json(scenario)) == scenario


def test_each_variant_gets_each_autoscaler() -> None:
    alone = variants(LOAD, autoscalers=["fixed:3", "keda:threshold=50"])
    made = alone | variants(LOAD, members=8, autoscalers=["fixed:3", "keda:threshold=50"])
    assert {name: (len(one.each_member()), one.autoscaler) for name, one in made.items()} == {
        "fixed:3": (2, Fixed(3)),
        "keda:threshold=50": (2, Keda(50)),
        "8 members · fixed:3": (8, Fixed(3)),
        "8 members · keda:threshold=50": (8, Keda(50)),
    }
    with pytest.raises(InputError, match="given twice"):
        variants(LOAD, autoscalers=["keda", "keda"])


@pytest.mark.parametrize(
    ("answer", "why"),
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
def test_what_cannot_be_read_says_why(answer: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        autoscaler_of(answer)


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
