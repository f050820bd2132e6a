"""Age of the lag, forecast and retention: the answers hold for any numbers."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from random import Random
from statistics import mean, stdev
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.cli.demo import CAPTURE
from sharelag.errors import InputError
from sharelag.metrics.age import oldest_offsets
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.observed import BINS, observe
from sharelag.metrics.progress import progress_arrow
from sharelag.metrics.regime import STUDENT_T, last_change
from sharelag.quick.reading import decoded
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.sources.inputs import CaptureInput
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT
from sharelag.workbench import engine
from tests.support import generators
from tests.support.progress_rows import DAY, HOUR, ID, MINUTE, MS, NOON, PLACE, ago, end, lag, time
from tests.support.recorded_moments import ends as noted_ends
from tests.support.records import raw
from tests.support.records import row as snapshot


def observed(bins: list[int], over: int = HOUR, **changes: Any) -> dict[str, Any]:
    sums = {"records": 9, "breaks": 0, "replacements": 0, "finished": sum(bins), "redelivered": 0}
    span = {"begin": ago(over), "end": NOON, "finished_bins": bins}
    place = {"group_id": "G1", "topic_id": ID, "partition": 0}
    return dict.fromkeys(schemas.OBSERVED.names) | place | sums | span | changes


def log(
    policy: str | None = "delete", retention: int | None = 7 * DAY, **changes: Any
) -> dict[str, Any]:
    return PLACE | {"cleanup_policy": policy, "retention_ms": retention} | changes


def progress(
    lags: Any, seen: Any = (), ends: Any = (), times: Any = (), logs: Any = (), **more: Any
) -> pa.RecordBatch:
    given_ = {"LAG": lags, "OBSERVED": seen, "OFFSETS": ends, "TIMES": times, "LOGS": logs}
    tables = [
        rows
        if isinstance(rows, pa.RecordBatch | pa.Table)
        else pa.Table.from_pylist(list(rows), getattr(schemas, name))
        for name, rows in given_.items()
    ]
    lag, observed, past, at, log = tables
    return progress_arrow(lag, observed, past, at, log, NOON, **more)


def one(lag_row: dict[str, Any], *tables: Any, **more: Any) -> dict[str, Any]:
    (line,) = progress([lag_row], *tables, **more).to_pylist()
    return dict(line)


def age(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["oldest_offset"], line["oldest_from"], line["age_ms"]


# ---- age -----------------------------------------------------------------------------------------


def test_the_age_is_that_of_the_oldest_unfinished_record() -> None:
    line = one(lag(), (), (), [time(90, 90, ago(5000))])
    assert age(line) == (90, "record", 5000)
    assert line["oldest_timestamp"] == ago(5000)
    assert age(one(lag(), (), (), [time(90, 94, ago(4000))])) == (
        90,
        "record",
        4000,
    )  # 90 to 93 were compacted away
    assert age(one(lag(), (), (), [time(90, 90, NOON + MINUTE * MS)])) == (
        90,
        "record",
        0,
    )  # a clock that is ahead
    assert age(
        one(lag(), (), (), [time(91, 91, ago(4000)), time(90, 90, ago(1), partition=1)])
    ) == (90, None, None)


def test_nothing_left_has_no_age_and_nothing_known_no_number() -> None:
    assert age(one(lag(0, 100))) == (None, None, 0)
    assert age(one(lag(None, None))) == (None, None, None)
    assert age(one(lag(None, 90, None))) == (None, None, None)
    assert age(one(lag(), (), (), [time(90, 90, None)])) == (90, None, None)
    before_time = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)  # -1: the record has none
    assert age(one(lag(), (), (), [time(90, 90, before_time)])) == (90, None, None)


@pytest.mark.row("LAG-06")
def test_a_marker_at_the_end_is_lag_and_waits_for_nobody() -> None:
    """Highest offset 10 is a commit marker after all that was fetched."""
    lags = lag_of(snapshot(10, []), end_offset=11)
    assert (lags["lag"], lags["effective_lag"]) == (1, 1)
    line = one(lags, [observed([0] * BINS)], [end(11, HOUR)], [time(10, None, None)], [log()])
    assert age(line) == (10, "record", 0)
    assert (line["drain"], line["drain_ms"], line["margin_ms"]) == ("drained", 0, None)


def test_a_record_that_came_after_the_moment_was_not_there_then() -> None:
    lags = lag(1, 99, 100)
    line = one(lags, (), (), [time(99, 100, ago(7))])  # its producer's clock is behind
    assert (*age(line), line["oldest_timestamp"], line["drain"]) == (
        99,
        "record",
        0,
        None,
        "drained",
    )
    assert age(one(lags | {"end_offset": 101}, (), (), [time(99, 100, ago(7))])) == (
        99,
        "record",
        7,
    )


def test_without_the_record_its_time_lies_between_known_ends() -> None:
    ends = [
        end(80, 10_000),
        end(None, 4000),
        end(60, 20_000),
        end(100, 2000),
        end(95, 1, partition=1),
    ]
    assert age(one(lag(), (), ends)) == (90, "interpolated", 6000)
    assert age(one(lag(oldest=80), (), ends))[2] == 10_000
    assert age(one(lag(oldest=59), (), ends)) == (59, None, None)  # older than all that is known
    assert age(one(lag(), (), ends, [time(90, 90, ago(5))])) == (90, "record", 5)
    later = [end(80, 10_000), end(500, -5000)]
    assert age(one(lag(), (), later)) == (90, "interpolated", 5000)  # the lag's own end is now
    still = [end(90, 9000), end(90, 3000), end(80, 10_000)]
    assert age(one(lag(), (), still)) == (90, "interpolated", 3000)  # nothing came for a while


def test_ends_that_fell_do_not_turn_time_around() -> None:
    ends = [
        end(80, 10_000),
        end(120, 8000),
        end(70, 6000),
    ]  # an unclean election at some time after
    assert age(one(lag(oldest=90), (), ends))[2] == 9500
    line = one(lag(oldest=90), [observed([1] * BINS, 7000)], ends)
    assert line["arrival_rate"] is None  # it ends below where it ended before


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=30),
    st.lists(st.integers(0, 520), max_size=6),
    st.data(),
)
def test_an_interpolated_time_is_between_the_moments_that_bracket_the_record(
    arrivals: list[int], asked: list[int], data: st.DataObject
) -> None:
    """Records arrive some milliseconds before now; the end at a moment counts those before it."""
    arrivals.sort(reverse=True)
    size = len(arrivals)
    moments = sorted({*asked}, reverse=True)
    points = [(moment, sum(arrived > moment for arrived in arrivals)) for moment in moments]
    oldest = data.draw(st.integers(0, size - 1))
    # What is fetched now, at 0, are all that arrived before.
    points.append((-1, size))
    lags = [
        lag(size - oldest, oldest, size, as_of=ago(-1)) | {"group_id": f"g{oldest}"}
        for oldest in range(size)
    ]
    ends = [end(count, moment) for moment, count in points[:-1]]
    Random(size).shuffle(ends)
    lines = progress(lags, (), ends).to_pylist()
    before = [(moment, count) for moment, count in points if count <= oldest]
    line = lines[oldest]
    if not before:
        assert line["age_ms"] is None
    else:
        (t0, e0), (t1, e1) = before[-1], points[len(before)]
        assert t0 >= arrivals[oldest] >= t1 - 1
        exact = t0 + Fraction((t1 - t0) * (oldest - e0), e1 - e0)
        assert abs(line["age_ms"] - max(exact, 0)) <= Fraction(1, 2)
    known = [line["age_ms"] for line in lines if line["age_ms"] is not None]
    assert known == sorted(known, reverse=True)


def test_each_offset_is_requested_once() -> None:
    rows = [
        lag(),
        lag(group_id="G2"),
        lag(0, 100),
        lag(None, None),
        lag(oldest=91),
        lag(partition=7),
    ]
    asked = oldest_offsets(pa.Table.from_pylist(rows, schemas.LAG))
    assert asked.schema.equals(pa.schema(list(schemas.TIMES)[:4]))
    assert sorted((row["partition"], row["asked_offset"]) for row in asked.to_pylist()) == [
        (0, 90),
        (0, 91),
        (7, 90),
    ]


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
    assert (even["drain"], even["drain_ms"], even["drain_high_ms"]) == ("never", None, None)
    assert even["drain_low_ms"] > 0  # unless it goes as well as it can
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

    def told(since: int, *times: dict[str, Any], **more: Any) -> dict[str, Any]:
        return one(
            lag(), [observed([36] * BINS, last_finished=ago(since))], ends, times or old, **more
        )

    assert told(29_000)["drain"] == "drains"
    line = told(31_000)
    assert (line["drain"], line["completion_rate"]) == ("paused", 0.1)
    assert (line["drain_ms"], line["drain_low_ms"], line["drain_high_ms"]) == (None, None, None)
    assert told(31_000, patience=MINUTE * MS)["drain"] == "drains"
    assert (
        told(31_000, time(90, 90, ago(20_000)))["drain"] == "drains"
    )  # it has just come, nothing was to do before
    assert told(31_000, time(90, 90, None))["drain"] == "paused"
    # For a tenth of the span: nobody calls that a pause.
    assert told(6 * MINUTE)["drain"] == "stalled"
    assert told(6 * MINUTE, time(90, 90, ago(5 * MINUTE)))["drain"] == "paused"
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


def test_what_takes_longer_than_anybody_waits_is_never() -> None:
    far = one(lag(2**53), [observed([1] * BINS)], [end(100, HOUR)])
    assert (far["drain"], far["drain_ms"]) == ("never", None)
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
        assert (line["drain"], line["drain_ms"]) == ("never", None)
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
    assert (line["drain"] == "never") == (expected["point"] is None)


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


# ---- retention -----------------------------------------------------------------------------------


def test_how_long_the_oldest_record_will_be_kept() -> None:
    times = [time(90, 90, ago(DAY))]

    def margin(*logs: dict[str, Any]) -> tuple[Any, Any]:
        line = one(lag(), (), (), times, logs)
        return line["retention_ms"], line["margin_ms"]

    assert margin(log()) == (7 * DAY, 6 * DAY)
    assert margin(log("compact, delete")) == (7 * DAY, 6 * DAY)
    assert margin(log(retention=DAY)) == (DAY, 0)
    assert margin(log(retention=HOUR)) == (HOUR, 0)  # may be deleted at any time
    assert margin(log(retention=0)) == (0, 0)
    assert margin(log(retention=-1)) == (-1, None)
    assert margin(log("compact")) == (7 * DAY, None)
    assert margin(log(None)) == (7 * DAY, None)
    assert margin(log(retention=None)) == (None, None)
    assert margin(log(partition=1)) == (None, None)
    assert margin(log(retention=2**63 - 1))[1] > 10**6 * 365 * DAY
    assert one(lag(), (), (), (), [log()])["margin_ms"] is None
    assert one(lag(0, 100), (), (), (), [log()])["margin_ms"] is None
    ahead = one(lag(), (), (), [time(90, 90, NOON + DAY * MS)], [log()])
    assert (ahead["age_ms"], ahead["margin_ms"]) == (0, 8 * DAY)  # Kafka goes by the record's time


def lag_of(
    state: dict[str, Any], end_offset: int | None, log_start: int | None = 0
) -> dict[str, Any]:
    records = decode_arrow(raw([encode_record(SHARE_SNAPSHOT, state)])).records
    ends = [PLACE | {"end_offset": end_offset, "log_start_offset": log_start, "as_of": NOON}]
    line: dict[str, Any] = lag_arrow(
        replay_arrow(records), pa.Table.from_pylist(ends, schemas.OFFSETS)
    ).to_pylist()[0]
    return line


@pytest.mark.row("WIN-10", "WIN-11")
def test_a_deleted_segment_takes_its_unread_offsets_along() -> None:
    """Segments [0-99] and [100-199]; the first expires while the start offset is 40."""
    lags = lag_of(snapshot(40, []), 200, log_start=100)
    line = one(lags, (), (), [time(100, 100, ago(HOUR))], [log()])
    assert (lags["effective_start_offset"], line["oldest_offset"], line["lost"]) == (100, 100, 60)
    assert line["margin_ms"] == 7 * DAY - HOUR
    assert one(lag_of(snapshot(40, []), 200, log_start=40))["lost"] == 0
    assert one(lag_of(snapshot(100, []), 200, log_start=150))["lost"] == 50


@pytest.mark.row("WIN-12")
def test_what_was_finished_before_is_not_lost() -> None:
    """As before, with 10 offsets of 40 to 99 finished."""
    finished = [(50, 54, 2, 1), (97, 99, 4, 5), (60, 61, 2, 1), (120, 129, 2, 1), (70, 79, 0, 1)]
    assert one(lag_of(snapshot(40, finished), 200, log_start=100))["lost"] == 50
    across = [(50, 56, 2, 1), (97, 105, 4, 5)]
    assert one(lag_of(snapshot(40, across), 200, log_start=100))["lost"] == 50
    leading = [(40, 49, 2, 1)]
    assert one(lag_of(snapshot(40, leading), 200, log_start=100))["lost"] == 50


@pytest.mark.row("WIN-13")
def test_retention_of_a_topic_concerns_all_its_groups() -> None:
    groups = {"A": 40, "B": 120}
    lags = [
        lag_of(snapshot(start, [], group_id=name), 200, log_start=100)
        for name, start in groups.items()
    ]
    times = [time(100, 100, ago(2 * HOUR)), time(120, 120, ago(HOUR))]
    first, second = progress(lags, (), (), times, [log(retention=3 * HOUR)]).to_pylist()
    assert [row["effective_start_offset"] for row in lags] == [100, 120]
    assert (first["group_id"], first["lost"], first["margin_ms"]) == ("A", 60, HOUR)
    assert (second["group_id"], second["lost"], second["margin_ms"]) == ("B", 0, 2 * HOUR)


def test_what_is_not_known_is_not_said_to_be_kept() -> None:
    assert one(lag_of(snapshot(40, []), None, log_start=100))["lost"] is None
    assert one(lag_of(snapshot(40, []), 200, log_start=None))["lost"] is None
    assert one(lag_of(snapshot(-1, [], delivery_complete_count=-1), 200))["lost"] is None


@given(st.integers(0, 10**6))
def test_lost_is_a_count_of_the_offsets(seed: int) -> None:
    random = Random(seed)
    start, end_offset, log_start = (
        random.randint(0, 30),
        random.randint(46, 70),
        random.randint(0, 45),
    )
    batches = generators.state_batches(random)
    states: dict[int, int] = {}
    for batch in sorted(batches, key=lambda b: (b.delivery_count, b.delivery_state)):
        states |= dict.fromkeys(
            range(batch.first_offset, batch.last_offset + 1), batch.delivery_state
        )
    deleted = [offset for offset in range(start, log_start) if states.get(offset) not in (2, 4)]
    line = one(lag_of(snapshot(start, batches), end_offset, log_start))
    assert line["lost"] == len(deleted)


# ---- all together --------------------------------------------------------------------------------


def test_rows_keep_their_order_whatever_the_chunks() -> None:
    hostile = ["", "a:b", "a", "<b>", "グループ", "a:b:" + ID]
    lags = [lag(i, 100 - i, group_id=name, partition=i % 2) for i, name in enumerate(hostile)]
    seen = [observed([i] * BINS, group_id=name, partition=i % 2) for i, name in enumerate(hostile)][
        ::-1
    ]
    ends = [end(90, HOUR), end(95, HOUR, partition=1)]
    table = pa.Table.from_pylist(lags, schemas.LAG)
    whole = progress(table, seen, ends)
    assert whole.column("group_id").to_pylist() == hostile
    assert whole.schema.equals(schemas.PROGRESS)
    rates = [row["completion_rate"] for row in whole.to_pylist()]
    assert rates == pytest.approx([i * BINS / 3600 for i in range(len(hostile))])
    assert progress(pa.concat_tables([table.slice(i, 1) for i in range(6)]), seen, ends).equals(
        whole
    )
    apart = [row for i in range(6) for row in progress(table.slice(i, 1), seen, ends).to_pylist()]
    assert apart == whole.to_pylist()


def test_no_lag_no_rows_and_a_wrong_table_is_named() -> None:
    assert (
        progress([], [observed([1] * BINS)], [end(1, 1)], [time(1, 1, NOON)], [log()]).num_rows == 0
    )
    with pytest.raises(InputError, match=r"times: .*asked_offset"):
        progress([lag()], (), (), pa.table({"topic": ["t"]}))


def test_the_recorded_run_as_of_every_noted_moment() -> None:
    """Ages between the recorded moments, and rates that explain how ends and lag moved."""
    records = pa.Table.from_batches([part.records for part in decoded(CaptureInput(CAPTURE))])
    history = history_arrow(records)
    noted = [
        json.loads(path.read_text())
        for path in sorted((CAPTURE / "expected" / "moments").glob("*.json"))
    ]
    moments = [datetime.fromtimestamp(note["as_of_ms"] / 1000, UTC) for note in noted]
    ends = [
        pa.Table.from_pylist(
            [row | {"as_of": moment} for row in noted_ends(note).to_pylist()], schemas.OFFSETS
        )
        for note, moment in zip(noted, moments, strict=True)
    ]
    past, nothing = (
        pa.concat_tables(ends),
        {name: getattr(schemas, name).empty_table() for name in ("TIMES", "LOGS")},
    )
    seen: set[str] = set()
    for number, moment in enumerate(moments):
        windows = engine.windows(CaptureInput(CAPTURE), "local", moment).table.select(
            schemas.WINDOWS.names
        )
        lags = lag_arrow(windows, ends[number])
        over = observe(history, moment, moment - moments[max(number - 1, 0)] + MS)
        lines = progress_arrow(
            lags, over, past, nothing["TIMES"], nothing["LOGS"], moment
        ).to_pylist()
        assert len(lines) == over.num_rows
        for was, line in zip(lags.to_pylist(), lines, strict=True):
            empty = was["end_offset"] == was["log_start_offset"]
            assert was["effective_lag"] is not None or line["drain"] == (
                "drained" if empty else "unknown"
            )
            if was["effective_lag"] == 0:
                assert (line["drain"], line["age_ms"]) == ("drained", 0)
            if line["oldest_from"] == "interpolated":
                bracket = [
                    earlier
                    for earlier, later in pairwise(range(number + 1))
                    if end_of(noted[earlier], was)
                    <= was["effective_start_offset"]
                    < end_of(noted[later], was)
                ]
                assert moments[bracket[0]] <= line["oldest_timestamp"] <= moments[bracket[0] + 1]
            seen |= {line["drain"], line["oldest_from"] or "none"}
    assert seen >= {"drained", "unknown", "interpolated"}


def end_of(note: dict[str, Any], row: dict[str, Any]) -> int:
    return int(note["end_offsets"].get(row["topic"], {}).get(str(row["partition"]), 0))


def test_the_forecast_is_made_from_the_rates_since_they_last_changed() -> None:
    """Members that finish ten times as fast now drain what all of the span would never."""
    slow = one(lag(3600, 0, 10**7), [observed([360] * BINS)], [end(10**7 - 7200, HOUR)])
    assert slow["drain"] == "never"
    faster = [360] * 6 + [3600] * 4
    line = one(lag(3600, 0, 10**7), [observed(faster)], [end(10**7 - 7200, HOUR)])
    assert (line["drain"], line["completion_rate"], line["arrival_rate"]) == ("drains", 10, 2)
    assert (line["observed_ms"], line["drain_ms"]) == (HOUR * 4 // BINS, 3600 * 1000 / 8)
    # Where nothing is finished since, all of the span counts: it may be a pause.
    stopped = one(
        lag(3600, 0, 10**7),
        [observed([360] * 7 + [0] * 3, last_finished_ms=1000)],
        [end(10**7 - 7200, HOUR)],
    )
    assert (stopped["drain"], stopped["observed_ms"]) == ("never", HOUR)
