"""Comparisons say what the runs say, and nothing more."""

import inspect
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy

from sharelag import whatif
from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.whatif import (
    Comparison,
    Limits,
    Member,
    PartitionStart,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    compare,
    compared,
    named,
    register,
    simulate,
    variants,
)
from sharelag.whatif.comparison.intervals import enough_seeds
from sharelag.whatif.comparison.tables import DIFFERENCES, MEASURED, MEASURES, OVER_OPTIMAL, RUNS
from sharelag.whatif.grid import as_runs, grid, run
from sharelag.whatif.simulation.tables import SUMMARY
from tests.support.drawn_comparisons import HORIZON_MS, drawn_comparisons, runs

QUICK = replace(named("idle-members"), duration_ms=8_000)


def row(table: pa.Table, variant: str, measure: str) -> dict[str, Any]:
    rows = {(one["variant"], one["measure"]): one for one in table.to_pylist()}
    assert len(rows) == len(table)
    return rows[variant, measure]


def differs(measure: str, old: Any, new: Any, **more: Any) -> dict[str, Any]:
    """The difference of a measure in runs of ``new`` to those of ``old``."""
    found = compared(runs(old={measure: old}, new={measure: new}), **more)
    return row(found.differences, "new", measure)


# ---- variants ------------------------------------------------------------------------------------
def test_variants_are_all_combinations_by_readable_names() -> None:
    short = {"share.record.lock.duration.ms": "15000"}
    made = variants(
        QUICK,
        assignors=["simple", "sticky"],
        members=[1, 8],
        settings={"short locks": short, "Kafka's": Settings()},
    )
    assert list(made) == [
        f"{assignor} · {members} · {settings}"
        for assignor in ("simple", "sticky")
        for members in ("1 member", "8 members")
        for settings in ("short locks", "Kafka's")
    ]
    one = made["sticky · 8 members · short locks"]
    assert (one.assignor, len(one.each_member())) == ("sticky", 8)
    assert one.settings.limits.lock_duration_ms == 15_000
    assert made["simple · 1 member · Kafka's"].settings.limits.lock_duration_ms == 30_000
    assert list(variants(QUICK, members=[3])) == ["3 members"]
    assert variants(QUICK) == {"as it is": QUICK}


def test_settings_change_what_they_name_only() -> None:
    scenario = replace(
        QUICK, settings=Settings(Limits(delivery_count_limit=7), rebalance_interval_ms=123)
    )
    given = {
        # below what brokers allow, which simulations may try
        "share.partition.max.record.locks": 10,
        "share.renew.acknowledge.enable": "false",
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.heartbeat.interval.ms": 1,
        "share.session.timeout.ms": 2,
        "share.assignment.interval.ms": 3,
    }
    (made,) = variants(scenario, settings={"other": given}).values()
    assert made.settings == Settings(
        Limits(max_record_locks=10, delivery_count_limit=7, renew_enabled=False),
        heartbeat_interval_ms=1,
        session_timeout_ms=2,
        assignment_interval_ms=3,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        rebalance_interval_ms=123,
    )


@pytest.mark.parametrize(
    ("given", "received"),
    [
        ({"assignors": ["nobody"]}, "unknown assignor 'nobody': choose one of simple"),
        ({"share.lock": 1}, "unknown setting 'share.lock': choose one of share.record"),
        ({"share.delivery.count.limit": "many"}, "'many' is not a 32-bit integer"),
        ({"share.auto.offset.reset": "by_duration:PT1H"}, "give latest or earliest"),
        ({"settings": [{"share.delivery.count.limit": 3}]}, "settings are given by label"),
    ],
)
def test_what_cannot_be_tried_is_said(given: dict[str, Any], received: str) -> None:
    if next(iter(given)).startswith("share."):
        given = {"settings": {"x": given}}
    with pytest.raises(InputError, match=received):
        variants(QUICK, **given)


# ---- intervals -----------------------------------------------------------------------------------
def test_a_known_shift_is_found_although_the_seeds_differ_by_much_more() -> None:
    """The pairs show it, the means alone would not."""
    chance = np.random.default_rng(1)
    luck, noise = chance.normal(10_000, 3_000, 20), chance.normal(0, 10, 20)
    received = compared(runs(old={"age_p95_ms": luck}, new={"age_p95_ms": luck - 100 + noise}))
    found = row(received.differences, "new", "age_p95_ms")
    expected = scipy.stats.ttest_rel(luck - 100 + noise, luck).confidence_interval(0.95)
    assert found["low"] == pytest.approx(expected.low)
    assert found["high"] == pytest.approx(expected.high)
    assert found["low"] < -100 < found["high"] < 0
    assert found | {"n": 20, "unknown": 0, "better": True, "baseline": "old"} == found
    assert received.winner("age_p95_ms") == "new"
    of_old, of_new = (row(received.measures, name, "age_p95_ms") for name in ("old", "new"))
    assert of_old["low"] < of_new["high"]
    assert of_new["low"] < of_old["high"]  # they overlap
    mean = scipy.stats.ttest_1samp(luck, 0).confidence_interval(0.95)
    said = (of_old["mean"], of_old["low"], of_old["high"], of_old["median"])
    assert said == pytest.approx((np.mean(luck), mean.low, mean.high, np.median(luck)))


def test_worse_is_said_by_the_measures_own_direction() -> None:
    luck = np.random.default_rng(1).normal(100, 30, 20)
    more = luck + np.random.default_rng(2).normal(50, 1, 20)
    names = ("latency_p50_ms", "fairness", "busy_share")
    received = compared(runs(old=dict.fromkeys(names, luck), new=dict.fromkeys(names, more)))
    found = {name: row(received.differences, "new", name)["better"] for name in names}
    assert found == {"latency_p50_ms": False, "fairness": True, "busy_share": None}
    assert (received.winner("latency_p50_ms"), received.winner("fairness")) == ("old", "new")
    for measure in ("busy_share", "nothing"):
        said = f"unknown measure {measure!r}: choose one of latency_p50_ms, fairness"
        with pytest.raises(InputError, match=said):
            received.winner(measure)


def test_a_ratio_is_the_geometric_mean_of_the_pairs() -> None:
    luck = np.random.default_rng(1).lognormal(3, 1, 20)
    factors = np.random.default_rng(2).lognormal(np.log(0.5), 0.1, 20)
    found = differs("lag_p95", luck, luck * factors)
    assert found["ratio"] == pytest.approx(scipy.stats.gmean(factors))
    assert found["ratio_low"] < 0.5 < found["ratio_high"] < 0.6
    some = differs("wasted", [1, 0, 2], [1, 1, 2])
    assert (some["ratio"], some["ratio_low"]) == (None, None)


def test_the_baseline_is_a_choice() -> None:
    table = runs(a={"lag_p95": [1.0, 2, 4]}, b={"lag_p95": [2.0, 3, 4.5]})
    received = compared(table, "b", 0.9)
    assert (received.baseline, received.confidence) == ("b", 0.9)
    assert row(received.differences, "a", "lag_p95")["difference"] == pytest.approx(-2.5 / 3)
    assert compared(table).baseline == "a"
    said = "unknown variant 'c' to compare to: choose one of 'a', 'b'"
    with pytest.raises(InputError, match=said):
        compared(table, "c")


@pytest.mark.exhaustive  # hundreds of comparisons; single intervals are scipy's in each run
def test_equal_variants_have_no_winner_but_in_one_of_twenty_comparisons(cases: Any) -> None:
    """However many are compared: what is corrected for holds, and not much is given away."""
    repeats, chance = cases(300, 3000), np.random.default_rng(42)
    for names, allowed in (("ab", (0.03, 0.07)), ("abcd", (0.0, 0.06))):
        winners = verdicts = 0
        for _ in range(repeats):
            luck = chance.exponential(1, 15)
            made = {name: {"age_p95_ms": luck + chance.normal(0, 0.3, 15)} for name in names}
            received = compared(runs(**made))
            winners += received.winner("age_p95_ms") is not None
            verdicts += received.differences.column("better").null_count < len(names) - 1
        slack = 3 * (0.05 * 0.95 / repeats) ** 0.5
        assert winners / repeats <= 0.05 + slack, names
        assert allowed[0] - slack <= verdicts / repeats <= allowed[1] + slack, names


@pytest.mark.exhaustive  # hundreds of comparisons; single intervals are scipy's in each run
def test_intervals_hold_the_truth_as_often_as_they_say(cases: Any) -> None:
    repeats, chance, held = cases(300, 3000), np.random.default_rng(7), 0
    for _ in range(repeats):
        luck = chance.exponential(100, 12)
        found = differs("lag_p50", luck, luck + chance.normal(5, 2, 12), confidence=0.9)
        held += found["low"] <= 5 <= found["high"]
    assert held / repeats == pytest.approx(0.9, abs=4 * (0.09 / repeats) ** 0.5)


def test_more_variants_make_wider_intervals() -> None:
    chance = np.random.default_rng(3)
    columns = {name: {"lag_p50": chance.normal(0, 1, 10)} for name in "abcd"}
    two = row(compared(runs(a=columns["a"], b=columns["b"])).differences, "b", "lag_p50")
    four = row(compared(runs(**columns)).differences, "b", "lag_p50")
    assert four["difference"] == two["difference"]
    assert four["high"] - four["low"] > 1.2 * (two["high"] - two["low"])
    level = 1 - 0.05 / 3
    of_a, of_b = (columns[name]["lag_p50"] for name in "ab")
    expected = scipy.stats.ttest_rel(of_b, of_a).confidence_interval(level)
    assert (four["low"], four["high"]) == pytest.approx((expected.low, expected.high))
    assert four["confidence"] == 0.95


def test_there_is_a_winner_only_if_it_beats_every_other() -> None:
    luck = np.random.default_rng(3).normal(100, 10, 20)
    near = np.random.default_rng(4).normal(0, 0.1, 20)
    for shift, winner in ((10, None), (5, "b")):
        a, b, c = luck, luck - 10 + near, luck - shift - near
        received = compared(runs(a={"lag_p50": a}, b={"lag_p50": b}, c={"lag_p50": c}))
        assert received.differences.column("better").to_pylist() == [True, True]
        assert received.winner("lag_p50") == winner


def test_a_winner_among_three_takes_more_than_one_of_two() -> None:
    """At p = 0.03 one of two wins; of three there are three pairs, each of them less sure."""
    pairs = np.random.default_rng(5).normal(0, 1, 10)
    pairs += scipy.stats.t.ppf(1 - 0.03 / 2, 9) * scipy.stats.sem(pairs) - np.mean(pairs)
    assert scipy.stats.ttest_1samp(pairs, 0).pvalue == pytest.approx(0.03)
    luck = np.random.default_rng(6).normal(100, 10, 10)
    a, b, c = ({"lag_p50": values} for values in (luck, luck + pairs, luck + 1000 + 0.1 * pairs))
    assert compared(runs(a=a, b=b)).winner("lag_p50") == "a"
    assert compared(runs(a=a, b=b, c=c)).winner("lag_p50") is None
    assert compared(runs(a=a, b=b, c=c), confidence=0.9).winner("lag_p50") == "a"


@pytest.mark.parametrize(
    ("measure", "old", "new", "said"),
    [
        # Without any spread two runs would prove everything.
        ("moves", [7] * 2, [4] * 2, (-3, None, None, None)),
        ("moves", [7] * 5, [4] * 5, (-3, None, None, None)),
        ("moves", [7] * 6, [4] * 6, (-3, -3, -3, True)),
        ("moves", [7] * 20, [4] * 20, (-3, -3, -3, True)),
        ("moves", [7] * 9, [7] * 9, (0, 0, 0, None)),
        # The same difference three times, but for rounding.
        ("member_hours", [0.2] * 3, [0.1 + 0.2, 0.3, 0.1 * 3], (pytest.approx(0.1), None, None, None)),
    ],
)  # fmt: skip
def test_a_difference_is_seen_often_enough(measure: str, old: Any, new: Any, said: Any) -> None:
    found = differs(measure, old, new)
    assert (found["difference"], found["low"], found["high"], found["better"]) == said


def test_one_run_has_no_interval() -> None:
    received = compared(runs(old={"lag_p50": [7.0]}, new={"lag_p50": [4.0]}))
    found = row(received.measures, "new", "lag_p50")
    assert found | {"mean": 4.0, "low": None, "high": None, "n": 1} == found
    assert row(received.differences, "new", "lag_p50")["better"] is None
    assert received.winner("lag_p50") is None


# ---- what is not known ---------------------------------------------------------------------------
def test_runs_that_never_drain_are_counted_and_not_left_out() -> None:
    old, new = [10.0, 20, 30, 40, 50], [None, 10.0, None, 9.0, 8.0]
    received = compared(runs(old={"drain_ms": old}, new={"drain_ms": new}))
    found = row(received.measures, "new", "drain_ms")
    assert found | {"n": 3, "unknown": 2, "mean": None, "low": None, "high": None} == found
    # The two that never drained are the last in order, wherever they are.
    assert found["median"] == 10
    pairs = row(received.differences, "new", "drain_ms")
    unknown = {"difference": None, "low": None, "ratio": None, "better": None}
    assert pairs | {"n": 3, "unknown": 2} | unknown == pairs
    turned = row(compared(received.runs, "new").differences, "old", "drain_ms")
    assert turned | {"n": 3, "unknown": 2} == turned  # it is the baseline that does not know
    most = compared(runs(old={"drain_ms": [None, None, 30.0]}))
    assert row(most.measures, "old", "drain_ms")["median"] is None


@pytest.mark.parametrize(
    ("slower", "better"), [(15, False), (14, None), (5, True), (6, None), (20, None)]
)
def test_never_draining_is_worse_when_seen_often_enough(slower: int, better: bool | None) -> None:
    """Exact sign test: 15 pairs against 5 are less than 5 % likely to be luck, 14 to 6 are not."""
    assert scipy.stats.binomtest(15, 20).pvalue < 0.05 < scipy.stats.binomtest(14, 20).pvalue
    old: list[float | None] = [None if slower == 20 else 10.0] * 20  # none of both ever drains
    never: list[float | None] = [None] * slower + [5.0] * (20 - slower)
    received = compared(runs(old={"drain_ms": old}, new={"drain_ms": never}))
    assert row(received.differences, "new", "drain_ms")["better"] is better
    assert (received.winner("drain_ms") is None) == (better is None)


def test_the_unknown_of_other_measures_is_neither_more_nor_less() -> None:
    values: dict[str, Any] = {"old": [1.0] * 20, "new": [None] * 19 + [2.0]}
    received = compared(runs(**{name: {"latency_p95_ms": one} for name, one in values.items()}))
    found = row(received.measures, "new", "latency_p95_ms")
    assert (found["n"], found["unknown"], found["mean"], found["median"]) == (1, 19, None, None)
    assert row(received.differences, "new", "latency_p95_ms")["better"] is None


def test_failed_runs_are_counted_and_their_pairs_left_out() -> None:
    table = runs(old={"lag_p50": [1.0, 2, 3, 4]}, new={"lag_p50": [2.0, 3.5, 4, None]})
    errors = pa.array([None] * 7 + ["AssignorError: no answer"])
    received = compared(table.append_column("error", errors))
    found = row(received.measures, "new", "lag_p50")
    assert found | {"n": 3, "unknown": 0, "failed": 1, "mean": pytest.approx(9.5 / 3)} == found
    pairs = row(received.differences, "new", "lag_p50")
    assert (pairs["n"], pairs["difference"]) == (3, pytest.approx(3.5 / 3))
    turned = compared(received.runs, "new")  # it is the baseline that lacks one
    assert row(turned.differences, "old", "lag_p50")["difference"] == pytest.approx(-3.5 / 3)
    assert turned.winner("lag_p50") == "old"


def test_seeds_by_default_are_enough_to_tell_two_variants_apart() -> None:
    defaults = {
        name: inspect.signature(one).parameters["seeds"].default
        for name in whatif.__all__
        if inspect.isfunction(one := getattr(whatif, name))
        and "seeds" in inspect.signature(one).parameters
    }
    given = {name: len(seeds) for name, seeds in defaults.items() if isinstance(seeds, range)}
    assert {"compare", "what_if", "should_move"} <= set(given)
    assert {name: count for name, count in given.items() if count < enough_seeds(2)} == {}


def test_runs_are_paired_by_seed_in_any_order() -> None:
    table = runs(old={"lag_p50": [1.0, 20, 300]}, new={"lag_p50": [2.0, 21, 302]})
    received = compared(table.take([0, 1, 2, 5, 3, 4]))
    assert row(received.differences, "new", "lag_p50")["difference"] == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    ("table", "received"),
    [
        (RUNS.empty_table(), "no runs to compare"),
        (RUNS.empty_table().drop_columns("seed"), "seed: expected .*, got no such column"),
        (pa.concat_tables([runs(a={"lag_p50": [1.0]})] * 2), "two runs with the same seed"),
        (runs(a={"duration_ms": [1]}, b={"duration_ms": [2]}), r"different durations \(1, 2 ms\)"),
    ],
)
def test_what_cannot_be_compared_is_said(table: pa.Table, received: str) -> None:
    with pytest.raises(InputError, match=received):
        compared(table)
    with pytest.raises(InputError, match=r"confidence must be between .* not 95"):
        compared(runs(a={"lag_p50": [1.0]}), confidence=95)


# ---- simulated -----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def comparison() -> Comparison:
    tried = variants(QUICK, assignors=["simple", "sticky"], members=[2, 6])
    return compare(tried, seeds=range(3), optimal=True)


def test_runs_are_those_of_simulate(comparison: Comparison) -> None:
    assert comparison.runs.schema.equals(pa.schema([*RUNS, *OVER_OPTIMAL]))
    assert comparison.runs.num_rows == 12
    one = comparison.runs.slice(5, 1)
    scenario = replace(QUICK.with_members(6), assignor="simple")
    assert one.select(SUMMARY.names).equals(simulate(scenario, 2).summary)
    assert one.column("variant").to_pylist() == ["simple · 6 members"]
    assert one.column("error").null_count == 1


def test_every_measure_is_there_for_every_variant(comparison: Comparison) -> None:
    assert comparison.measures.schema.equals(MEASURES)
    assert comparison.differences.schema.equals(DIFFERENCES)
    assert comparison.measures.num_rows == 4 * len(MEASURED)
    assert comparison.differences.num_rows == 3 * len(MEASURED)
    assert set(MEASURED) <= set(RUNS.names + OVER_OPTIMAL.names)
    more = row(comparison.differences, "simple · 6 members", "lag_end")
    assert more["difference"] < 0
    assert comparison.winner("lag_end") is None  # simple and sticky do the same here


def test_the_distance_to_optimal_is_that_of_the_same_seed(comparison: Comparison) -> None:
    optimal = simulate(replace(QUICK.with_members(2), assignor="optimal"), 1)
    best = optimal.summary.column("age_p95_ms")[0].as_py()
    one = comparison.runs.to_pylist()[1]
    assert (one["variant"], one["seed"]) == ("simple · 2 members", 1)
    assert one["age_p95_over_optimal"] == one["age_p95_ms"] / best
    assert one["drain_over_optimal"] is None  # 8 s are too short to drain it
    plain = compare({"a": QUICK}, seeds=[0])
    assert "drain_over_optimal" not in plain.measures.column("measure").to_pylist()


def test_progress_is_reported_run_by_run() -> None:
    received: list[tuple[int, int]] = []
    compare({"a": QUICK}, seeds=range(3), progress=lambda done, all_: received.append((done, all_)))
    assert received == [(0, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("names", "seeds", "received"),
    [("", [0], "nothing to run"), ("a", [], "nothing to run"), ("a", [1, 1], "duplicate seeds")],
)
def test_what_cannot_be_run_is_said(names: str, seeds: list[int], received: str) -> None:
    with pytest.raises(InputError, match=received):
        compare(dict.fromkeys(names, QUICK), seeds=seeds)


def test_a_wrong_baseline_is_said_before_anything_runs() -> None:
    with pytest.raises(InputError, match="unknown variant 'b'"):
        compare({"a": QUICK}, baseline="b", progress=lambda *_: pytest.fail("it ran"))


# ---- the grid ------------------------------------------------------------------------------------
def test_a_run_has_the_same_id_everywhere() -> None:
    one, other = grid({"a": QUICK}, [0, 1]), grid({"b": replace(QUICK)}, [1])
    assert one.runs[1].id == other.runs[0].id
    others = variants(QUICK, assignors=["simple", "sticky"], members=[1, 2])
    ids = {planned.id for planned in grid(others, [0, 1]).runs}
    assert len(ids) == 8
    assert not ids & {planned.id for planned in one.runs}


def test_what_two_variants_have_in_common_runs_once() -> None:
    best = replace(QUICK, assignor="optimal")
    plan = grid({"a": QUICK, "b": QUICK, "optimal": best}, [0, 1], optimal=True)
    assert (len(plan.cells), len(plan.runs)) == (6, 4)
    made = as_runs(plan, [run(planned) for planned in reversed(plan.runs)])
    assert made.column("variant").to_pylist() == ["a", "a", "b", "b", "optimal", "optimal"]
    assert made.column("seed").to_pylist() == [0, 1] * 3
    assert made.slice(0, 2).drop_columns("variant").equals(made.slice(2, 2).drop_columns("variant"))
    assert made.column("age_p95_over_optimal").to_pylist()[4:] == [1, 1]


def _to_the_first(group: Any) -> dict[str, dict[str, list[int]]]:
    return {group.members[0].id: {}}


@pytest.mark.usefixtures("registered")
def test_another_function_under_the_same_name_is_another_run() -> None:
    functions = (
        _to_the_first,
        lambda group: {group.members[0].id: {"orders": [0]}},
        eval("lambda group: 1"),  # without a source
        eval("lambda group: 2"),
    )
    ids = set()
    for function in functions:
        register("mine", function)
        ids.add(grid({"a": replace(QUICK, assignor="mine")}, [0]).runs[0].id)
    assert len(ids) == len(functions)


@pytest.mark.usefixtures("registered")
def test_what_else_is_in_the_file_of_a_function_counts(tmp_path: Path) -> None:
    file, ids = tmp_path / "own.py", []
    function = "def assign(group):\n    return all_to(group.members[:MOST])\n"
    for most in (1, 2, 1):
        file.write_text(f"MOST = {most}\n{function}")
        register("mine", run_path(str(file))["assign"])
        ids.append(grid({"a": replace(QUICK, assignor="mine")}, [0]).runs[0].id)
    assert ids[0] == ids[2] != ids[1]


# ---- new columns of the summary ------------------------------------------------------------------
def test_fairness_is_jains_index_of_time_busy() -> None:
    def fairness(scenario: Scenario) -> float | None:
        return simulate(scenario).summary.column("fairness")[0].as_py()  # type: ignore[no-any-return]

    even = fairness(named("idle-members"))
    assert even is not None
    assert 0.95 < even <= 1
    # One member that has all the work, and one that has none.
    pair = replace(named("idle-members").with_members(2), assignor="simple")
    alone = replace(pair, topics=(replace(QUICK.topics[0], backlog=(1, 0, 0, 0), starts=()),))
    members = simulate(alone).members.to_pylist()
    shares = [one["busy_ms"] / (one["busy_ms"] + one["idle_ms"]) for one in members]
    assert sorted(shares)[0] == 0 < sorted(shares)[1]
    assert fairness(alone) == 0.5
    nobody = replace(alone, topics=(replace(QUICK.topics[0], backlog=0, starts=()),))
    assert fairness(nobody) is None


def test_moves_are_counted_by_the_minute() -> None:
    received = simulate(named("burst")).summary.to_pylist()[0]
    assert received["moves"] > 0
    assert received["moves_per_minute"] == received["moves"] / 10


def _compared(luck: float = 1, **variants: tuple[float | None, float]) -> Comparison:
    """Seven runs of each variant, with their drain time and age; ``_`` in a name is a space."""
    chance = np.random.default_rng(5)
    columns = {
        name.replace("_", " "): {
            "drain_ms": [drain] * 7,
            "age_p95_ms": [age + seed + luck * chance.random() for seed in range(7)],
            "duration_ms": [600_000] * 7,
        }
        for name, (drain, age) in variants.items()
    }
    return compared(runs(**columns))


@pytest.mark.parametrize(
    ("now", "tried", "said"),
    [
        ((92e3, 9e3), (313e3, 8e3), "tried is better by p95 age, but as it is by drain time"),
        ((92e3, 9e3), (92e3, 8e3), "tried is better by p95 age"),
        ((92e3, 9e3), (80e3, 8e3), "tried is better by p95 age and drain time"),
        ((None, 8e3), (None, 9e3), "as it is is better by p95 age"),
        ((92e3, 9e3), (92e3, 9e3), "tried is not shown to be better by p95 age or drain time"),
    ],
)
def test_a_verdict_has_the_measure_and_both_figures(now: Any, tried: Any, said: str) -> None:
    words = _compared(as_it_is=now, tried=tried).verdict()
    assert words.startswith(f"{said} over 10m: ")
    for drain, age in (now, tried):
        drains = "not drained within 10m" if drain is None else f"drained in {duration(drain)}"
        assert f"{drains}, p95 age {duration(age + 3)}" in words
    assert words.removeprefix(said).count("p95 age ") == 2


MINUTES_24, MINUTES_20 = (None, 1_494.5e3), (None, 1_253e3)
NEVER = "not drained within 10m, p95 age "


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        (
            {"a": MINUTES_20, "b": MINUTES_20, "c": MINUTES_24},
            (f"a and b tie by p95 age (4m 1s less than as it is) over 10m: {NEVER}20m 53s; "
            f"c: {NEVER}24m 54s; as it is: {NEVER}24m 54s"),
        ), (
            {"a": MINUTES_20, "b": MINUTES_20, "c": (462e3, 1_400e3)},
            ("a and b tie by p95 age (4m 1s less than as it is), but c is better than as it is by "
            f"drain time over 10m: a and b: {NEVER}20m 53s; "
            f"c: drained in 7m 42s, p95 age 23m 20s; as it is: {NEVER}24m 54s"),
        ), (
            {"a": (None, 1_250e3), "b": (None, 1_254e3), "c": (None, 1_400e3)},
            ("a and b tie by p95 age (4m to 4m 4s less than as it is) over 10m: "
            f"{NEVER}20m 50s to 20m 54s"),
        ), (
            {name: (None, 1_255e3 - 1e3 * number) for number, name in enumerate("abcdef")},
            ("f, e, d and 3 more tie by p95 age (3m 59s to 4m 4s less than as it is) over 10m: "
            f"{NEVER}20m 50s to 20m 55s; as it is: "),
        ), (
            {"more": (None, 1_446e3)},
            (f"more is better by p95 age (less than a tenth) over 10m: {NEVER}24m 6s; "
            f"as it is: {NEVER}24m 54s"),
        ),
        ({"a": MINUTES_20, "b": MINUTES_24}, "a is best by p95 age over 10m: not drained within "),
        (
            {"a": MINUTES_24, "b": MINUTES_24},
            "no variant is shown to be better than as it is by p95 age or drain time over 10m: ",
        ),
    ],
)  # fmt: skip
def test_a_verdict_names_who_ties_what_is_won_and_who_clears_it(tried: Any, said: str) -> None:
    found = _compared(luck=3, as_it_is=MINUTES_24, **tried)
    assert found.verdict().startswith(said)


def test_what_is_not_behind_a_variant_that_ties_ties_as_well() -> None:
    """Although the runs tell it from the best: it is the other whose runs do not."""
    luck = np.random.default_rng(1).normal(0, 0.1, (4, 8))
    noise = np.array([-9, 9, -9, 9, -9, 9, -9, 9])
    now, best, noisy, sure = 100 + luck[0], 60 + luck[1], 66 + noise, 66 + luck[3]
    columns = {"now": now, "best": best, "noisy": noisy, "sure": sure}
    found = compared(runs(**{name: {"age_p95_ms": ages} for name, ages in columns.items()}))
    assert set(found.best("age_p95_ms").names) == {"best", "noisy", "sure"}
    alone = {name: {"age_p95_ms": columns[name]} for name in ("now", "best", "sure")}
    assert compared(runs(**alone)).best("age_p95_ms").names == ("best",)
    # Of what should be more, the same order: the best comes first, and is told from the others.
    shares = {name: {"fairness": 1 - ages / 200} for name, ages in columns.items()}
    assert compared(runs(**shares)).best("fairness").names == found.best("age_p95_ms").names
    assert found.best("age_p95_ms").names[0] == "best"


@pytest.mark.slow
def test_headline_and_both_tables_never_contradict_each_other(cases: Any) -> None:
    """As people see them: the sentence, and the cells of both tables."""
    seen = Counter[str]()
    for found in drawn_comparisons(cases(100, 5_000)):
        shown, by_words = found.presentation(), {"p95 age": "age_p95_ms", "drain time": "drain_ms"}
        verdict, decision = shown.notes[0], shown.table.to_pylist()
        assert shown.more is not None
        every = {(one["by"], one["variant"]): one for one in shown.more.table.to_pylist()}
        assert [one["variant"] for one in decision] == found.names
        head, _, figures = verdict.partition(f" over {duration(HORIZON_MS)}: ")
        any_best = False
        for by, measure in by_words.items():
            said = {one["variant"]: _standing(one["verdict"] or "", by) for one in decision}
            better, worse, winners = (
                {name for name in found.names if word in (every[measure, name]["verdict"] or "")}
                for word in ("better", "worse", "winner")
            )
            # A variant stands in the decision as in the table of all measures.
            for name in found.names[1:]:
                assert (said[name] in ("better", "ties", "best")) == (name in better), (by, name)
                assert (said[name] == "worse") == (name in worse), (by, name)
            assert winners == {name for name, word in said.items() if word == "best"}
            # The best are bold, and those that the headline names.
            bold = {decision[number]["variant"] for number, name in shown.best if name == measure}
            ties = {name for name, word in said.items() if word == "ties"}
            assert bold == (ties or winners or (bold & (better or {"a"}))), (by, said)
            assert len(bold) == 1 or bold == ties
            assert bool(bold) == bool(better or winners)
            named = set(re.findall(r"\b[a-h]\b", head))
            if len(bold) > 4:
                assert f"and {len(bold) - 3} more tie" in head
                assert len(bold & named) >= 3
            else:
                assert bold <= named
            any_best |= bool(bold)
            seen["many"] += len(bold) > 4
            seen["tie"] += bool(ties)
            seen["small"] += "less than a tenth" in head
        assert ("shown to be better" in verdict) == (not any_best)
        for one in decision:
            drained, of = map(int, one["drained"].split(" of "))
            some = "not in all runs" if drained else f"not in {duration(HORIZON_MS)}"
            assert (one["drain_ms"] == some) == (drained < of)
            if f"; {one['variant']}: not drained within " in f"; {figures}":
                assert not drained
                seen["never drained"] += 1
            sign = (one["age_p95_difference"] or " ")[0]
            better_by_age = _standing(one["verdict"] or "", "p95 age") in ("better", "ties", "best")
            assert not better_by_age or sign == "-" or one["variant"] == "a"
        seen["nothing shown"] += not any_best
    assert min(seen.values()) > cases(2, 100), seen
    assert len(seen) == 5


def _standing(verdict: str, by: str) -> str:
    """The word that a verdict of the decision table has for a measure; empty where it has none."""
    found = re.search(rf"(\w+)( \(less than a tenth\))? by [^;]*{by}", verdict)
    return found[1] if found else ""


def test_a_verdict_of_an_open_transaction_says_that_members_do_not_help() -> None:
    start = PartitionStart(end_offset=100, open_from=40, oldest_age_ms=60_000)
    scenario = Scenario(
        topics=(Topic("orders", 1, starts=(start,)),),
        members=(Member("m", service=Service(10)),),
        producers=(Producer("orders", 5),),
        settings=Settings(isolation_level="read_committed", auto_offset_reset="earliest"),
        duration_ms=30_000,
    )
    alone = simulate(scenario, 1)
    (row_of,) = alone.summary.to_pylist()
    assert row_of["drain_ms"] is None
    assert row_of["completed"] == 40
    lags = alone.timeline.column("lag").to_pylist()
    assert lags[-1] >= 60 + 100  # all that arrives waits behind it
    found = compare({"as it is": scenario, "3 members": scenario.with_members(3)}, seeds=range(7))
    words = found.verdict()
    assert words.startswith(
        "blocked by a transaction that is open in orders:0 from offset 40 (60 offsets so far): "
        "members do not help there, nor do assignors or locks; 3 members: not drained within 30 s"
    )
    assert "; as it is: not drained within 30 s" in words
    free = replace(scenario, settings=Settings(auto_offset_reset="earliest"))
    changed = compare({"as it is": scenario, "uncommitted": free}, seeds=range(7)).verdict()
    assert changed.startswith("uncommitted is better by p95 age and drain time over 30 s: drained")
    assert changed.endswith(
        "; as it is is blocked by a transaction that is open in orders:0 from "
        "offset 40 (60 offsets so far)"
    )
