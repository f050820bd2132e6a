"""Autoscalers compared: by age and cost, drawn, and written down."""

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sharelag import charts
from sharelag.charts import scaling_cost_figure, scaling_cost_records, text
from sharelag.errors import InputError
from sharelag.whatif import (
    Behaviour,
    Fault,
    Fixed,
    Hpa,
    Keda,
    Member,
    Pods,
    Producer,
    Rules,
    Scenario,
    Service,
    TargetAge,
    Topic,
    compare,
    cost_against_age,
    from_json,
    simulate,
    to_json,
    variants,
)
from sharelag.whatif.autoscale import autoscaler_of
from sharelag.whatif.comparison.intervals import COST_AGAINST_AGE
from tests.support.simulations import LOAD, QUICK, only, rows


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
