"""Curves of lag from now on: those of the runs themselves, with an interval that holds them."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag import charts
from sharelag.errors import InputError
from sharelag.whatif import (
    Scenario,
    SimulationResult,
    compare,
    compared,
    grid,
    named,
    simulate,
)
from sharelag.whatif.compare import PROJECTED
from sharelag.whatif.comparison.intervals import (
    MOST_TIMES,
    curve,
    less,
    mean_interval,
    mean_intervals,
)
from tests.support.records import with_column

SCENARIO = replace(named("uneven"), duration_ms=20_000)
MORE = SCENARIO.with_members(len(SCENARIO.each_member()) + 2)


def test_a_curve_is_the_mean_of_the_runs() -> None:
    found = compare({"as it is": SCENARIO, "more": MORE}, seeds=range(4)).projected
    for name, scenario in (("as it is", SCENARIO), ("more", MORE)):
        mine = found.filter(pc.equal(found.column("variant"), name))
        runs = [simulate(scenario, seed).timeline.group_by("time_ms") for seed in range(4)]
        lags = [one.aggregate([("lag", "sum")]).sort_by("time_ms") for one in runs]
        sums = [one.column("lag_sum").to_numpy() for one in lags]
        assert np.allclose(mine.column("lag").to_numpy(), np.mean(sums, axis=0))
        low, high = (mine.column(side).to_numpy() for side in ("low", "high"))
        assert (low <= np.mean(sums, axis=0)).all()
        assert (high >= np.mean(sums, axis=0)).all()
        assert (high > low).any()


def test_a_long_run_keeps_as_many_times_as_can_be_drawn() -> None:
    short = simulate(SCENARIO).timeline
    assert len(curve(short).times) == len(set(short.column("time_ms").to_pylist())) == 21
    times = np.repeat(np.arange(86_401) * 1000, 2)
    ages = np.tile([5, 7], 86_401)
    long = pa.table({"time_ms": times, "lag": np.arange(len(times)), "age_ms": ages})
    found = curve(long)
    assert len(found.times) == len(found.lag) == len(found.age_ms) == MOST_TIMES
    assert set(found.age_ms.tolist()) == {7.0}  # of the oldest record of all partitions
    assert (found.times[0], found.times[-1]) == (0, 86_400_000)
    assert found.lag.tolist() == [4 * time / 1000 + 1 for time in found.times]
    assert (np.diff(found.times) >= 43_000).all()
    assert (np.diff(found.times) <= 44_000).all()


def test_one_run_has_no_interval_and_none_is_an_error() -> None:
    found = compare({"as it is": SCENARIO}, seeds=[3]).projected
    assert found.column("low").null_count == len(found) > 0
    assert len(charts.projection_figure(found).data) == 2  # lag and age, without a band
    with pytest.raises(InputError, match="at least one variant and one seed"):
        compare({"as it is": SCENARIO}, seeds=[])


def test_a_comparison_has_the_curves_of_its_own_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(scenario: Scenario, seed: int) -> SimulationResult:
        made.append(seed)
        return simulate(scenario, seed)

    monkeypatch.setattr(grid, "simulate", counted)
    variants = {"as it is": SCENARIO, "the same": SCENARIO, "more": MORE}
    comparison = compare(variants, seeds=[3, 5])
    assert made == [3, 5, 3, 5]  # a run each, also where two variants are equal
    found = comparison.projected
    assert found.column("variant").unique().to_pylist() == list(variants)
    ends = found.filter(pc.equal(found.column("time_ms"), 20_000)).column("lag").to_pylist()
    runs = comparison.runs
    for name, end in zip(variants, ends, strict=True):
        mine = runs.filter(pc.equal(runs.column("variant"), name))
        assert end == pc.mean(mine.column("lag_end")).as_py()
    assert found.equals(compare(variants, seeds=[3, 5]).projected)
    assert not len(compared(runs).projected)


def test_the_figure_says_where_each_curve_ends() -> None:
    found = compare({"as it is": SCENARIO, "<b>more": MORE}, seeds=range(3)).projected
    figure = charts.projection_figure(found)
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert [trace.yaxis for trace in lines] == ["y", "y", "y2", "y2"]
    assert len(figure.data) == 8  # a band each
    title = figure.layout.meta["title"]
    assert title.startswith("Lag after")
    assert "&lt;b&gt;more" in figure.data[-1].name
    empty = charts.projection_figure(found.slice(0, 0))
    assert not empty.data


def curves_of(**ends: tuple[float, float, float | None]) -> pa.Table:
    """Lines from 1,000 offsets to an end, with the age there in seconds, and when they drain."""
    rows = [
        {"variant": name, "time_ms": time, "lag": 1_000 + (lag - 1_000) * time / 60_000}
        | {"age_ms": 1000 * age * time / 60_000, "drain_ms": drain_ms}
        for name, (lag, age, drain_ms) in ends.items()
        for time in range(0, 60_001, 1_000)
    ]
    return pa.Table.from_pylist(rows, schema=PROJECTED)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("abc", "1,100 for a; 1,090 for b; 1,080 for c"),
        ("abcd", "1,100 for a; 1,070 for d"),  # of many the first, and the one with the least
    ],
)
def test_the_title_says_where_curves_end(names: str, told: str) -> None:
    ends = {name: (1_100.0 - 10 * n, 50.0, None) for n, name in enumerate(names)}
    title = charts.projection_figure(curves_of(**ends)).layout.meta["title"]
    assert title == f"Lag after 1m: {told}"


def test_axes_are_fitted_to_what_differs() -> None:
    far = charts.projection_figure(curves_of(a=(1_040, 50, None), b=(1_100, 60, None)))
    low, high = far.layout.yaxis.range
    assert 950 < low < 1_000
    assert 1_100 < high < 1_150
    assert far.layout.yaxis2.range[0] == 0
    near = charts.projection_figure(curves_of(a=(0, 50, None), b=(1_100, 60, None)))
    assert near.layout.yaxis.range[0] == 0


def test_names_stand_at_the_ends_of_lines_and_none_over_another() -> None:
    ends = {name: (1_000.0 + place, 50.0, None) for place, name in enumerate("abcdef")}
    figure = charts.projection_figure(curves_of(**ends, last=(5_000, 90, None)))
    drawn = [trace.name for trace in figure.data if trace.mode == "lines"]
    assert set(drawn) == set("abcdef")  # six can be told apart: those with the least lag
    assert figure.layout.meta["facts"][-1] == "Not drawn: 1 variant with more lag at the end."
    for place, axis in (("y", figure.layout.yaxis), ("y2", figure.layout.yaxis2)):
        labels = [one for one in figure.layout.annotations if one.yref == place]
        assert {one.text for one in labels} == set("abcdef")
        assert {one.x for one in labels} == {1}
        low, high = axis.range
        room = (axis.domain[1] - axis.domain[0]) * 380 / (high - low)
        at = sorted((one.y - low) * room for one in labels)
        assert min(np.diff(at)) > 14.9  # pixels
        assert at[-1] <= 171.1


def test_what_was_seen_is_not_called_simulated_and_ages_may_be_unknown() -> None:
    curves = curves_of(seen=(900, 50, None), tried=(500, 40, None))
    none = pa.nulls(len(curves), pa.float64())
    end = datetime(2026, 11, 21, 12, tzinfo=UTC)
    for of in (pc.equal(curves.column("variant"), "seen"), pa.array([True] * len(curves))):
        ages = pc.if_else(of, none, curves.column("age_ms"))
        found = with_column(curves, "age_ms", ages)
        figure = charts.projection_figure(found, seen=("seen", end))
        said = " ".join(figure.layout.meta["facts"])
        assert "Seen was recorded, all else is simulated." in said
        labels = [one.text for one in figure.layout.annotations if one.yref == "y2"]
        assert labels == ["tried"] * (ages.null_count < len(ages))
    assert "Simulated." in " ".join(charts.projection_figure(curves).layout.meta["facts"])


def test_a_mark_stands_where_the_lag_is_gone() -> None:
    figure = charts.projection_figure(curves_of(a=(0, 5, 90_000.0), b=(900, 60, None)))
    (mark,) = [trace for trace in figure.data if trace.mode == "markers+text"]
    assert (mark.x, mark.y, mark.text) == ((90,), (0,), ("1m\u00a030s",))
    assert mark.hovertext == ("a drains in 1m\u00a030s",)


# ---- intervals ----
def test_differences_of_rounding_are_none() -> None:
    values = np.array([0.3, 1.0, 5.0, np.nan])
    others = np.array([0.1 + 0.2, 1.0 + 1e-12, 4.0, 4.0])
    assert less(values, others)[:3].tolist() == [0.0, 0.0, 1.0]
    assert np.isnan(less(values, others)[3])


def test_intervals_of_many_times_are_those_of_each() -> None:
    values = np.random.default_rng(7).normal(10, 3, (5, 40))
    values[:, 3] = 4.0  # the same in all runs
    found = np.array(mean_intervals(values, 0.9))
    each = np.array([mean_interval(column, 0.9) for column in values.T], np.float64)
    assert np.allclose(found.T, each, rtol=1e-12)
    assert found[:, 3].tolist() == [4.0] * 3
    mean, low, high = mean_intervals(values[:1], 0.9)
    assert mean.tolist() == values[0].tolist()
    assert np.isnan(low).all()
    assert np.isnan(high).all()
