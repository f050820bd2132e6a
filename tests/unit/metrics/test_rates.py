"""Rates, the forecast of a drain, and its interval."""

from __future__ import annotations

import math
from statistics import mean, stdev
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.metrics.observed import BINS
from sharelag.metrics.regime import STUDENT_T, last_change
from tests.support.observed_rows import lag_of, log, observed, one, progress
from tests.support.progress_rows import DAY, HOUR, MINUTE, MS, ago, end, lag, time
from tests.support.records import row as snapshot

# ---- rates and drain -----------------------------------------------------------------------------


def test_rates_are_offsets_a_second_over_what_was_observed() -> None:
    line = one(lag(), [observed([36] * BINS, redelivered=18)], [end(28, HOUR)])
    assert (line["observed_ms"], line["completion_rate"], line["redelivery_rate"]) == (
        HOUR,
        0.1,
        0.005,
    )
    assert line["arrival_rate"] == pytest.approx(0.02)
    assert (line["drain"], line["drain_ms"]) == ("drains", 125_000)  # 10 offsets at 0.08 a second
    assert line["drain_low_ms"] == line["drain_high_ms"] == 125_000  # as much in each part


def test_arrivals_count_from_the_beginning_or_from_the_first_known_end() -> None:
    seen = [observed([36] * BINS)]
    assert one(lag(), seen, [end(28, 2 * HOUR), end(100, 0)])["arrival_rate"] == pytest.approx(0.01)
    assert one(lag(), seen, [end(28, HOUR // 2)])["arrival_rate"] == pytest.approx(0.04)
    assert one(lag(), seen, [end(0, 2 * HOUR), end(28, HOUR), end(98, MINUTE)])[
        "arrival_rate"
    ] == pytest.approx(0.02)
    for unknown in (
        [],
        [end(None, HOUR)],
        [end(28, HOUR, as_of=None)],
        [end(28, HOUR, partition=1)],
    ):
        line = one(lag(), seen, unknown)
        assert (line["arrival_rate"], line["completion_rate"]) == (None, 0.1)
        assert (line["drain"], line["drain_ms"], line["drain_high_ms"]) == ("unknown", None, None)
    assert one(lag(None, 90, None), seen, [end(28, HOUR)])["arrival_rate"] is None


def test_what_was_not_observed_has_no_rates() -> None:
    nothing = [observed([0] * BINS, 0)]
    several = [observed([1] * BINS), observed([2] * BINS)]
    for seen in (
        (),
        nothing,
        several,
        [observed([1] * BINS, partition=1)],
        [observed([1] * BINS, group_id="G")],
    ):
        line = one(lag(), seen, [end(28, HOUR)])
        assert [
            line[name]
            for name in ("observed_ms", "arrival_rate", "completion_rate", "redelivery_rate")
        ] == [None] * 4
        assert line["drain"] == "unknown"


def test_arrivals_win() -> None:
    seen = [observed([36, 30, 42, 36, 36, 36, 36, 36, 36, 36])]
    line = one(lag(), seen, [end(100 - 720, HOUR)])
    assert (line["drain"], line["drain_ms"], line["drain_low_ms"], line["drain_high_ms"]) == (
        "never",
        None,
        None,
        None,
    )
    even = one(lag(), seen, [end(100 - 360, HOUR)])
    assert (even["drain"], even["drain_ms"], even["drain_high_ms"]) == ("uncertain", None, None)
    assert even["drain_low_ms"] > 0  # if it goes as well as it can
    # Some more arrives, by no more than chance; and exactly as much, without any chance.
    more = one(lag(), seen, [end(100 - 361, HOUR)])
    assert (more["drain"], more["arrival_rate"] > more["completion_rate"]) == ("uncertain", True)
    exact = one(lag(), [observed([36] * BINS)], [end(100 - 360, HOUR)])
    assert (exact["drain"], exact["drain_low_ms"]) == ("uncertain", None)
    assert one(lag(), [seen[0] | {"breaks": 1}], [end(100 - 720, HOUR)])["drain"] == "unknown"
    gains = one(lag(), [seen[0] | {"breaks": 1}], [end(28, HOUR)])
    assert (gains["drain"], gains["completion_rate"]) == ("drains", 0.1)  # at least so fast


def test_stalled_is_who_had_something_to_do_for_long() -> None:
    idle, ends = observed([0] * BINS), [end(28, HOUR)]
    old = [time(90, 90, ago(HOUR))]
    line = one(lag(), [idle], ends, old)
    assert (line["drain"], line["drain_ms"], line["completion_rate"]) == ("stalled", None, 0)
    assert one(lag(), [idle], ())["drain"] == "stalled"
    assert one(lag(), [idle | {"breaks": 1}], ends, old)["drain"] == "unknown"
    assert (
        one(lag(), [idle], ends, [time(90, 90, ago(MINUTE))])["drain"] == "unknown"
    )  # it has just come
    assert one(lag(), [idle], ends, [time(90, 90, ago(6 * MINUTE))])["drain"] == "stalled"
    short = observed([0] * BINS, 20_000)
    assert one(lag(), [short], ends, old)["drain"] == "unknown"
    assert one(lag(), [short], ends, old, patience=10_000 * MS)["drain"] == "stalled"


def test_rates_of_those_who_have_left_foretell_nothing() -> None:
    """The group finished more than arrived; then its last member left."""
    seen, ends = [observed([36] * BINS, last_finished=ago(1000))], [end(28, HOUR)]
    assert one(lag(), seen, ends)["drain"] == "drains"
    groups = pa.Table.from_pylist(
        [dict.fromkeys(schemas.GROUPS.names) | {"group_id": "G1", "members": 0}], schemas.GROUPS
    )
    line = one(lag(), seen, ends, groups=groups)
    assert (line["drain"], line["completion_rate"]) == ("nobody", 0.1)
    assert (line["drain_ms"], line["drain_low_ms"], line["drain_high_ms"]) == (None, None, None)
    # Neither stalled nor never: that is known of who is there.
    for bins, arrived in (([0] * BINS, 72), ([36] * BINS, 720)):
        assert (
            one(lag(), [observed(bins)], [end(100 - arrived, HOUR)], groups=groups)["drain"]
            == "nobody"
        )
    assert (
        one(lag(0, 100), seen, ends, groups=groups)["drain"] == "drained"
    )  # nobody is missed there
    assert one(lag(None, None), seen, ends, groups=groups)["drain"] == "unknown"
    for members in (1, None):
        others = pa.Table.from_pylist(
            [groups.to_pylist()[0] | {"members": members}], schemas.GROUPS
        )
        assert one(lag(), seen, ends, groups=others)["drain"] == "drains"
    assert (
        one(lag(group_id="G2"), [seen[0] | {"group_id": "G2"}], ends, groups=groups)["drain"]
        == "drains"
    )


def test_where_nothing_was_finished_lately_there_is_no_forecast() -> None:
    ends, old = [end(28, HOUR)], [time(90, 90, ago(HOUR))]

    def result(since: int, *times: dict[str, Any], **more: Any) -> dict[str, Any]:
        return one(
            lag(), [observed([36] * BINS, last_finished=ago(since))], ends, times or old, **more
        )

    assert result(29_000)["drain"] == "drains"
    line = result(31_000)
    assert (line["drain"], line["completion_rate"]) == ("paused", 0.1)
    assert (line["drain_ms"], line["drain_low_ms"], line["drain_high_ms"]) == (None, None, None)
    assert result(31_000, patience=MINUTE * MS)["drain"] == "drains"
    assert (
        result(31_000, time(90, 90, ago(20_000)))["drain"] == "drains"
    )  # it has just come, nothing was to do before
    assert result(31_000, time(90, 90, None))["drain"] == "paused"
    # For a tenth of the span: nobody calls that a pause.
    assert result(6 * MINUTE)["drain"] == "stalled"
    assert result(6 * MINUTE, time(90, 90, ago(5 * MINUTE)))["drain"] == "paused"
    # That arrivals win holds all the more.
    arriving = [end(100 - 720, HOUR)]
    assert (
        one(lag(), [observed([36] * BINS, last_finished=ago(MINUTE))], arriving, old)["drain"]
        == "never"
    )


def test_a_quiet_topic_with_nothing_to_do_is_no_alarm() -> None:
    """A stopped consumer, a clock that is ahead or behind, no evidence at all: nothing waits."""
    for seen in (
        (),
        [observed([0] * BINS)],
        [observed([0] * BINS, 0)],
        [observed([0] * BINS, breaks=3)],
    ):
        for shift in (-DAY, 0, DAY):
            line = one(lag(0, 100, as_of=ago(shift)), seen, [end(100, DAY)], (), [log(retention=1)])
            assert (line["drain"], line["drain_ms"], line["age_ms"]) == ("drained", 0, 0)
            assert (line["drain_low_ms"], line["drain_high_ms"], line["margin_ms"]) == (0, 0, None)


def test_a_group_that_has_never_fetched_has_nothing_to_do_in_an_empty_log() -> None:
    never = snapshot(-1, [], delivery_complete_count=-1)
    for end_offset, log_start in ((0, 0), (70, 70)):
        line = one(lag_of(never, end_offset, log_start))
        assert (line["drain"], line["age_ms"], line["oldest_offset"]) == ("drained", 0, None)
    unknown: tuple[tuple[int | None, int | None], ...] = ((1, 0), (None, 0), (0, None))
    for known_end, known_start in unknown:
        line = one(lag_of(never, known_end, known_start))
        assert (line["drain"], line["age_ms"]) == ("unknown", None)


def test_what_takes_longer_than_anybody_waits_has_no_time() -> None:
    far = one(lag(2**53), [observed([1] * BINS)], [end(100, HOUR)])
    assert (far["drain"], far["drain_ms"]) == ("uncertain", None)
    near = one(lag(10**9), [observed([10**6] * BINS)], [end(100, HOUR)])
    assert (near["drain"], near["drain_ms"]) == ("drains", 360_000_000)


@given(st.integers(1, 10**6), st.integers(0, 500), st.integers(1, 500))
def test_a_drain_lasts_as_long_as_working_it_off_second_by_second(
    left: int, arrive: int, finish: int
) -> None:
    assume(left <= 2000 * abs(finish - arrive) or finish <= arrive)
    seen = observed([finish * 360] * BINS)
    line = one(lag(left, 0, 10**7), [seen], [end(10**7 - arrive * 3600, HOUR)])
    seconds, waiting = 0, left
    while waiting > 0 and finish > arrive:
        waiting += arrive - finish
        seconds += 1
    if finish <= arrive:
        drain = "never" if finish < arrive else "uncertain"
        assert (line["drain"], line["drain_ms"]) == (drain, None)
    else:
        assert line["drain"] == "drains"
        assert (seconds - 1) * 1000 <= line["drain_ms"] <= seconds * 1000
        assert (
            line["drain_low_ms"]
            <= line["drain_ms"]
            <= line["drain_high_ms"]
            <= line["drain_low_ms"] + 1
        )


@given(
    st.lists(st.integers(0, 5000), min_size=BINS, max_size=BINS),
    st.integers(1, 10**6),
    st.integers(0, 30_000),
)
def test_the_interval_follows_from_the_parts_of_the_span(
    bins: list[int], left: int, arrived: int
) -> None:
    assume(sum(bins) > 0)
    assume(not last_change(np.array([bins], float)).any())  # test_regime has those that change
    line = one(lag(left, 0, 10**7), [observed(bins)], [end(10**7 - arrived, HOUR)])
    a_part = HOUR // BINS / 1000
    rates, arrival = [count / a_part for count in bins], arrived / 3600
    wide = STUDENT_T * stdev(rates) / math.sqrt(BINS)
    possible = {
        name: mean(rates) + sign * wide - arrival
        for name, sign in (("low", 1), ("point", 0), ("high", -1))
    }
    assume(all(abs(net) > 1e-6 for net in possible.values()))
    expected = {name: left * 1000 / net if net > 0 else None for name, net in possible.items()}
    names = {"low": "drain_low_ms", "point": "drain_ms", "high": "drain_high_ms"}
    ours = {name: line[column] for name, column in names.items()}
    for name, length in expected.items():
        known = length is not None and (name != "high" or expected["point"] is not None)
        assert ours[name] == (pytest.approx(length, rel=1e-6, abs=1) if known else None)
    if ours["high"] is not None:
        assert ours["low"] <= ours["point"] <= ours["high"]
    grows = expected["point"] is None and expected["low"] is None
    assert line["drain"] == (
        "never" if grows else "uncertain" if expected["point"] is None else "drains"
    )


def test_the_interval_holds_the_true_drain_as_often_as_it_says() -> None:
    """19 of 20 intervals hold the rate under normal noise; with 1.96 it would be 18.4."""
    rng, cases, true_rate = np.random.default_rng(7), 4000, 1000
    bins = np.rint(rng.normal(true_rate * 360, 20_000, (cases, BINS))).astype(int)
    lags = [lag(10**6, 0, 10**7, group_id=f"g{i}") for i in range(cases)]
    seen = [observed(list(map(int, row)), group_id=f"g{i}") for i, row in enumerate(bins)]
    lines = progress(lags, seen, [end(10**7, HOUR)]).to_pylist()
    true_ms = 10**6 / true_rate * 1000
    held = sum(line["drain_low_ms"] <= true_ms <= line["drain_high_ms"] for line in lines)
    assert 0.943 < held / cases < 0.957


def test_the_quantile_is_students() -> None:
    """Simpson's rule over the density with nine degrees of freedom."""
    freedom, steps = BINS - 1, 2000
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    x = np.linspace(0, STUDENT_T, steps + 1)
    density = scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    weights = np.where(np.arange(steps + 1) % 2, 4, 2)
    weights[[0, -1]] = 1
    assert 0.5 + (density * weights).sum() * STUDENT_T / steps / 3 == pytest.approx(
        0.975, abs=1e-12
    )


def test_the_forecast_is_made_from_the_rates_since_they_last_changed() -> None:
    """Members that finish ten times as fast now drain what all of the span would never."""
    slow = one(lag(3600, 0, 10**7), [observed([360] * BINS)], [end(10**7 - 7200, HOUR)])
    assert slow["drain"] == "never"
    faster = [360] * 6 + [3600] * 4
    line = one(lag(3600, 0, 10**7), [observed(faster)], [end(10**7 - 7200, HOUR)])
    assert (line["drain"], line["completion_rate"], line["arrival_rate"]) == ("drains", 10, 2)
    assert (line["observed_ms"], line["drain_ms"]) == (HOUR * 4 // BINS, 3600 * 1000 / 8)
    # Nothing is finished since: that is the rate now, and no forecast is made of it.
    stopped = [observed([360] * 7 + [0] * 3, last_finished=ago(18 * MINUTE))]
    ends = [end(10**7 - 7200, HOUR)]
    line = one(lag(3600, 0, 10**7), stopped, ends, [time(0, 0, ago(20 * MINUTE))])
    assert (line["drain"], line["completion_rate"]) == ("stalled", 0)
    assert (line["arrival_rate"], line["observed_ms"]) == (2, HOUR * 3 // BINS)
    # What has just come to those who had nothing to do raises no alarm.
    line = one(lag(3600, 0, 10**7), stopped, ends, [time(0, 0, ago(1000))])
    assert (line["drain"], line["drain_ms"]) == ("paused", None)


def test_a_fivefold_arrival_rate_is_seen_although_the_last_part_has_not_ended() -> None:
    """Ends are known at ten moments and now, which is a little before the end of the span."""
    arrived = [0, 500, 1000, 1500, 4000, 6500, 9000, 11500, 14000, 16500]
    ends = [end(at, HOUR - n * HOUR // BINS) for n, at in enumerate(arrived)]
    found = one(lag(1000, 0, 18990, as_of=ago(1000)), [observed([500] * BINS)], ends)
    assert found["arrival_rate"] == pytest.approx(2500 / 360, rel=0.01)
    assert (found["observed_ms"], found["drain"]) == (HOUR * 7 // BINS, "never")
