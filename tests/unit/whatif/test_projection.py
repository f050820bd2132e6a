"""Curves of lag from now on: those of the runs themselves, with an interval that holds them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sharelag import charts
from sharelag.errors import InputError
from sharelag.whatif import compare, compared, grid, named, projected, simulate
from sharelag.whatif.comparison.intervals import (
    MOST_TIMES,
    curve,
    less,
    mean_interval,
    mean_intervals,
)
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulate import SimulationResult

SCENARIO = replace(named("uneven"), duration_ms=20_000)
MORE = SCENARIO.with_members(len(SCENARIO.each_member()) + 2)


def test_a_curve_is_the_mean_of_the_runs() -> None:
    found = projected({"as it is": SCENARIO, "more": MORE}, seeds=range(4))
    for name, scenario in (("as it is", SCENARIO), ("more", MORE)):
        mine = found.filter(pc.equal(found.column("variant"), name))
        sums = []
        for seed in range(4):
            timeline = (
                simulate(scenario, seed).timeline.group_by("time_ms").aggregate([("lag", "sum")])
            )
            sums.append(timeline.sort_by("time_ms").column("lag_sum").to_numpy())
        assert np.allclose(mine.column("lag").to_numpy(), np.mean(sums, axis=0))
        low, high = (mine.column(side).to_numpy() for side in ("low", "high"))
        assert (low <= np.mean(sums, axis=0)).all()
        assert (high >= np.mean(sums, axis=0)).all()
        assert (high > low).any()


def test_a_long_run_keeps_as_many_times_as_can_be_drawn() -> None:
    short = simulate(SCENARIO).timeline
    assert len(curve(short).times) == len(set(short.column("time_ms").to_pylist())) == 21
    times = np.repeat(np.arange(86_401) * 1000, 2)
    long = pa.table({"time_ms": times, "lag": np.arange(len(times))})
    found = curve(long)
    assert len(found.times) == len(found.lag) == MOST_TIMES
    assert (found.times[0], found.times[-1]) == (0, 86_400_000)
    assert found.lag.tolist() == [4 * time / 1000 + 1 for time in found.times]
    assert (np.diff(found.times) >= 43_000).all()
    assert (np.diff(found.times) <= 44_000).all()


def test_one_run_has_no_interval_and_none_is_an_error() -> None:
    found = projected({"as it is": SCENARIO}, seeds=[3])
    assert found.column("low").null_count == len(found) > 0
    assert len(charts.projection_figure(found).data) == 1
    with pytest.raises(InputError, match="at least one variant and one seed"):
        projected({"as it is": SCENARIO}, seeds=[])


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
    assert found.equals(projected(variants, seeds=[3, 5]))
    assert not len(compared(runs).projected)


def test_the_figure_says_where_each_curve_ends() -> None:
    found = projected({"as it is": SCENARIO, "<b>more": MORE}, seeds=range(3))
    figure = charts.projection_figure(found)
    assert [trace.mode for trace in figure.data].count("lines") == 2
    assert len(figure.data) == 4  # a band each
    title = figure.layout.meta["title"]
    assert title.startswith("Lag after")
    assert "&lt;b&gt;more" in figure.data[-1].name
    empty = charts.projection_figure(found.slice(0, 0))
    assert not empty.data


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
