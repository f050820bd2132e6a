"""Age of the lag, rates, forecasts of a drain and retention: the answers hold for any numbers."""

import math
from datetime import UTC, datetime
from fractions import Fraction
from random import Random
from statistics import mean, stdev
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.age import known_ends, oldest_offsets
from sharelag.metrics.observed import BINS
from sharelag.metrics.rates import STUDENT_T, lag_began, last_change, mean_since, raise_ends
from tests.support import generators
from tests.support.progress_rows import (
    DAY,
    HOUR,
    ID,
    MINUTE,
    MS,
    NOON,
    ago,
    end,
    lag,
    lag_of,
    log,
    observed,
    one,
    progress,
    time,
)
from tests.support.records import assert_fields
from tests.support.records import row as snapshot


def age(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["oldest_offset"], line["oldest_from"], line["age_ms"]


# ---- age -----------------------------------------------------------------------------------------
BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)  # -1: a record without a time


@pytest.mark.parametrize(
    ("row", "times", "expected"),
    [
        (lag(), [time(90, 90, ago(5000))], (90, "record", 5000)),
        (lag(), [time(90, 94, ago(4000))], (90, "record", 4000)),  # 90 to 93 were compacted away
        (lag(), [time(90, 90, NOON + MINUTE * MS)], (90, "record", 0)),  # a clock that is ahead
        (lag(), [time(91, 91, ago(4)), time(90, 90, ago(1), partition=1)], (90, None, None)),
        (lag(), [time(90, 90, None)], (90, None, None)),
        (lag(), [time(90, 90, BEFORE_1970)], (90, None, None)),
        (lag(0, 100), [], (None, None, 0)),
        (lag(None, None), [], (None, None, None)),
        (lag(None, 90, None), [], (None, None, None)),
    ],
)
def test_the_age_is_that_of_the_oldest_unfinished_record(
    row: dict[str, Any], times: list[dict[str, Any]], expected: tuple[Any, ...]
) -> None:
    line = one(row, (), (), times)
    assert age(line) == expected
    if expected[2]:
        assert line["oldest_timestamp"] == ago(expected[2])


@pytest.mark.row("LAG-06")
def test_a_marker_at_the_end_is_lag_and_waits_for_nobody() -> None:
    """Highest offset 10 is a commit marker after all that was fetched."""
    lags = lag_of(snapshot(10, []), end_offset=11)
    assert_fields(lags, lag=1, effective_lag=1)
    line = one(lags, [observed([0] * BINS)], [end(11, HOUR)], [time(10, None, None)], [log()])
    assert age(line) == (10, "record", 0)
    assert_fields(line, drain="drained", drain_ms=0, margin_ms=None)


def test_records_of_an_open_transaction_wait_although_none_can_be_read() -> None:
    """Nothing committed lies behind offset 90; the last stable offset says whether any may come."""
    seen = [observed([36] * 8 + [0, 0], last_finished=ago(HOUR // 5))]
    given = (seen, [end(82, HOUR), end(90, HOUR // 6)], [time(90, None, None)])
    for stable, found in (
        (95, (90, "interpolated", HOUR // 6)),
        (100, (90, "record", 0)),  # none is open: only markers are left
        (None, (90, "record", 0)),
    ):
        logs = [log(last_stable_offset=stable)]
        line = one(lag(), *given, logs, reads_committed=True)
        assert (age(line), line["drain"]) == (found, "stalled" if stable == 95 else "drained")
        # Who reads uncommitted records would have read them.
        assert age(one(lag(), *given, logs)) == (90, "record", 0)


def test_a_record_that_came_after_the_moment_was_not_there_then() -> None:
    lags = lag(1, 99, 100)
    times = [time(99, 100, ago(7))]  # its producer's clock is behind
    line = one(lags, (), (), times)
    assert age(line) == (99, "record", 0)
    assert_fields(line, oldest_timestamp=None, drain="drained")
    assert age(one(lags | {"end_offset": 101}, (), (), times)) == (99, "record", 7)


def test_without_the_record_its_time_lies_between_known_ends() -> None:
    ends = [end(80, 10_000), end(None, 4000), end(60, 20_000), end(100, 2000)]
    ends.append(end(95, 1, partition=1))
    assert age(one(lag(), (), ends)) == (90, "interpolated", 6000)
    assert age(one(lag(oldest=80), (), ends))[2] == 10_000
    assert age(one(lag(oldest=59), (), ends)) == (59, None, None)  # older than all that is known
    assert age(one(lag(), (), ends, [time(90, 90, ago(5))])) == (90, "record", 5)
    later = [end(80, 10_000), end(500, -5000)]
    assert age(one(lag(), (), later)) == (90, "interpolated", 5000)  # the lag's own end is now
    still = [end(90, 9000), end(90, 3000), end(80, 10_000)]
    assert age(one(lag(), (), still)) == (90, "interpolated", 3000)  # nothing came for a while


def test_ends_that_fell_do_not_turn_time_around() -> None:
    # An unclean election at some time after the second.
    ends = [end(80, 10_000), end(120, 8000), end(70, 6000)]
    assert age(one(lag(oldest=90), (), ends))[2] == 9500
    line = one(lag(oldest=90), [observed([1] * BINS, 7000)], ends)
    assert line["arrival_rate"] is None  # it ends below where it ended before


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=30),
    st.lists(st.integers(0, 520), max_size=6),
    st.data(),
)
def test_interpolated_times(arrivals: list[int], requested: list[int], data: st.DataObject) -> None:
    """Records arrive some milliseconds before now; the end at a moment counts those before it."""
    arrivals.sort(reverse=True)
    size = len(arrivals)
    moments = sorted({*requested}, reverse=True)
    points = [(moment, sum(arrived > moment for arrived in arrivals)) for moment in moments]
    oldest = data.draw(st.integers(0, size - 1))
    # What is fetched now, at 0, are all that arrived before.
    points.append((-1, size))
    lags = [lag(size - n, n, size, as_of=ago(-1), group_id=f"g{n:02}") for n in range(size)]
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
    rows = [lag(), lag(group_id="G2"), lag(0, 100), lag(None, None), lag(oldest=91)]
    requested = oldest_offsets(pa.Table.from_pylist([*rows, lag(partition=7)], schemas.LAG))
    assert requested.schema.equals(pa.schema(list(schemas.TIMES)[:4]))
    places = sorted((row["partition"], row["asked_offset"]) for row in requested.to_pylist())
    assert places == [(0, 90), (0, 91), (7, 90)]


# ---- retention -----------------------------------------------------------------------------------
def test_how_long_the_oldest_record_will_be_kept() -> None:
    times = [time(90, 90, ago(DAY))]
    for kept, retention, margin in (
        (log(), 7 * DAY, 6 * DAY),
        (log("compact, delete"), 7 * DAY, 6 * DAY),
        (log(retention=DAY), DAY, 0),
        (log(retention=HOUR), HOUR, 0),  # may be deleted at any time
        (log(retention=0), 0, 0),
        (log(retention=-1), -1, None),
        (log("compact"), 7 * DAY, None),
        (log(None), 7 * DAY, None),
        (log(retention=None), None, None),
        (log(partition=1), None, None),
    ):
        line = one(lag(), (), (), times, [kept])
        assert (line["retention_ms"], line["margin_ms"]) == (retention, margin)
    forever = one(lag(), (), (), times, [log(retention=2**63 - 1)])
    assert forever["margin_ms"] > 10**6 * 365 * DAY
    assert one(lag(), (), (), (), [log()])["margin_ms"] is None
    assert one(lag(0, 100), (), (), (), [log()])["margin_ms"] is None
    ahead = one(lag(), (), (), [time(90, 90, NOON + DAY * MS)], [log()])
    assert (ahead["age_ms"], ahead["margin_ms"]) == (None, 8 * DAY)  # Kafka goes by its time


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
    some = [(50, 54, 2, 1), (97, 99, 4, 5), (60, 61, 2, 1), (120, 129, 2, 1), (70, 79, 0, 1)]
    across, leading = [(50, 56, 2, 1), (97, 105, 4, 5)], [(40, 49, 2, 1)]
    for finished in (some, across, leading):
        assert one(lag_of(snapshot(40, finished), 200, log_start=100))["lost"] == 50


@pytest.mark.row("WIN-13")
def test_retention_of_a_topic_concerns_all_its_groups() -> None:
    groups = {"A": 40, "B": 120}
    states = (snapshot(start, [], group_id=name) for name, start in groups.items())
    lags = [lag_of(state, 200, log_start=100) for state in states]
    times = [time(100, 100, ago(2 * HOUR)), time(120, 120, ago(HOUR))]
    first, second = progress(lags, (), (), times, [log(retention=3 * HOUR)]).to_pylist()
    assert [row["effective_start_offset"] for row in lags] == [100, 120]
    assert_fields(first, group_id="A", lost=60, margin_ms=HOUR)
    assert_fields(second, group_id="B", lost=0, margin_ms=2 * HOUR)


def test_what_is_not_known_is_not_said_to_be_kept() -> None:
    assert one(lag_of(snapshot(40, []), None, log_start=100))["lost"] is None
    assert one(lag_of(snapshot(40, []), 200, log_start=None))["lost"] is None
    assert one(lag_of(snapshot(-1, [], delivery_complete_count=-1), 200))["lost"] is None


@given(st.integers(0, 10**6))
def test_lost_is_a_count_of_the_offsets(seed: int) -> None:
    random = Random(seed)
    start, end_offset = random.randint(0, 30), random.randint(46, 70)
    log_start = random.randint(0, 45)
    batches = generators.state_batches(random)
    states = generators.state_by_offset(batches)
    deleted = [offset for offset in range(start, log_start) if states.get(offset) not in (2, 4)]
    line = one(lag_of(snapshot(start, batches), end_offset, log_start))
    assert line["lost"] == len(deleted)


# ---- all together --------------------------------------------------------------------------------
def test_rows_are_sorted_whatever_the_chunks() -> None:
    hostile = ["", "a:b", "a", "<b>", "グループ", "a:b:" + ID]
    lags = [lag(i, 100 - i, group_id=name, partition=i % 2) for i, name in enumerate(hostile)]
    seen = [observed([i] * BINS, group_id=name, partition=i % 2) for i, name in enumerate(hostile)]
    seen.reverse()
    ends = [end(90, HOUR), end(95, HOUR, partition=1)]
    table = pa.Table.from_pylist(lags, schemas.LAG)
    whole = progress(table, seen, ends)
    assert whole.column("group_id").to_pylist() == sorted(hostile)
    assert whole.schema.equals(schemas.PROGRESS)
    rates = [row["completion_rate"] for row in whole.to_pylist()]
    assert rates == pytest.approx([hostile.index(one) * BINS / 3600 for one in sorted(hostile)])
    pieces = [table.slice(i, 1) for i in range(6)]
    assert progress(pa.concat_tables(pieces), seen, ends).equals(whole)
    apart = [row for piece in pieces for row in progress(piece, seen, ends).to_pylist()]
    assert sorted(apart, key=lambda row: row["group_id"]) == whole.to_pylist()


def test_no_lag_no_rows_and_a_wrong_table_is_named() -> None:
    given = ([observed([1] * BINS)], [end(1, 1)], [time(1, 1, NOON)], [log()])
    assert progress([], *given).num_rows == 0
    with pytest.raises(InputError, match=r"times: .*asked_offset"):
        progress([lag()], (), (), pa.table({"topic": ["t"]}))


# ---- when the lag began --------------------------------------------------------------------------
def test_a_lag_began_within_the_part_before_which_there_was_none() -> None:
    part = HOUR // BINS
    grew = round(3.5 * part)  # for so long, steadily, from 1,000 to 1,350
    lags = pa.Table.from_pylist([lag(350, 1_000, 1_350)], schemas.LAG)
    seen = pa.Table.from_pylist([observed([0] * BINS)], schemas.OBSERVED)
    ends = [end(1_000, 2 * HOUR), end(1_000, grew), end(1_350, 0)]
    past = pa.Table.from_pylist(ends, schemas.OFFSETS)
    now = round(NOON.timestamp() * 1000)
    (began,), (is_older,) = lag_began(lags, seen, known_ends(lags, past, now))
    assert began == pytest.approx(now - grew, abs=part / 10)
    assert not is_older


# ---- rates and drain -----------------------------------------------------------------------------
def test_rates_are_offsets_a_second_over_what_was_observed() -> None:
    line = one(lag(), [observed([36] * BINS, redelivered=18)], [end(28, HOUR)])
    assert_fields(line, observed_ms=HOUR, completion_rate=0.1, redelivery_rate=0.005)
    assert line["arrival_rate"] == pytest.approx(0.02)
    assert (line["drain"], line["drain_ms"]) == ("drains", 125_000)  # 10 offsets at 0.08 a second
    assert line["drain_low_ms"] == line["drain_high_ms"] == 125_000  # as much in each part


def test_arrivals_count_from_the_beginning_or_from_the_first_known_end() -> None:
    seen = [observed([36] * BINS)]
    for ends, rate in (
        ([end(28, 2 * HOUR), end(100, 0)], 0.01),
        ([end(28, HOUR // 2)], 0.04),
        ([end(0, 2 * HOUR), end(28, HOUR), end(98, MINUTE)], 0.02),
    ):
        assert one(lag(), seen, ends)["arrival_rate"] == pytest.approx(rate)
    elsewhere = [end(28, HOUR, partition=1)]
    for unknown in ([], [end(None, HOUR)], [end(28, HOUR, as_of=None)], elsewhere):
        line = one(lag(), seen, unknown)
        assert_fields(line, arrival_rate=None, completion_rate=0.1)
        assert_fields(line, drain="unknown", drain_ms=None, drain_high_ms=None)
    assert one(lag(None, 90, None), seen, [end(28, HOUR)])["arrival_rate"] is None


def test_what_was_not_observed_has_no_rates() -> None:
    several = [observed([1] * BINS), observed([2] * BINS)]
    others = ([observed([1] * BINS, **of)] for of in ({"partition": 1}, {"group_id": "G"}))
    for seen in ((), [observed([0] * BINS, 0)], several, *others):
        line = one(lag(), seen, [end(28, HOUR)])
        assert_fields(line, observed_ms=None, arrival_rate=None, drain="unknown")
        assert_fields(line, completion_rate=None, redelivery_rate=None)


def test_arrivals_win() -> None:
    row = lag(400, 9_700, 10_100)
    seen = [observed([36, 30, 42, 36, 36, 36, 36, 36, 36, 36])]
    line = one(row, seen, [end(10_100 - 720, HOUR)])
    assert_fields(line, drain="never", drain_ms=None, drain_low_ms=None, drain_high_ms=None)
    even = one(row, seen, [end(10_100 - 360, HOUR)])
    assert_fields(even, drain="uncertain", drain_ms=None, drain_high_ms=None)
    assert even["drain_low_ms"] > 0  # if it goes as well as it can
    # Some more arrives, by no more than chance; and exactly as much, without any chance.
    more = one(row, seen, [end(10_100 - 361, HOUR)])
    assert (more["drain"], more["arrival_rate"] > more["completion_rate"]) == ("uncertain", True)
    exact = one(row, [observed([36] * BINS)], [end(10_100 - 360, HOUR)])
    assert_fields(exact, drain="uncertain", drain_low_ms=None)
    assert one(row, [seen[0] | {"breaks": 1}], [end(10_100 - 720, HOUR)])["drain"] == "unknown"
    gains = one(row, [seen[0] | {"breaks": 1}], [end(10_028, HOUR)])
    assert (gains["drain"], gains["completion_rate"]) == ("drains", 0.1)  # at least so fast


@pytest.mark.parametrize(
    ("changes", "arrived"),
    [
        ({}, 370),
        ({"breaks": 1}, 10_100),
        ({"replacements": 1}, 10_100),
        ({"start_back": 1}, 10_100),
    ],
)
def test_what_was_finished_by_then_had_arrived(changes: dict[str, Any], arrived: int) -> None:
    """By the timestamps of a producer whose clock is ahead, all of it arrived within the hour."""
    seen = observed([0, 72] * (BINS // 2), **changes)
    past, row = end(0, HOUR), lag(10, 10_090, 10_100)
    assert one(row, [seen], [past])["arrival_rate"] == arrived / 3600
    # The imbalance counts from the same ends.
    rows = (([past], "OFFSETS"), ([row], "LAG"), ([seen], "OBSERVED"))
    tables = [pa.Table.from_pylist(given, getattr(schemas, name)) for given, name in rows]
    assert raise_ends(*tables).column("end_offset").to_pylist() == [10_100 - arrived]


def test_stalled_is_who_had_something_to_do_for_long() -> None:
    idle, ends = observed([0] * BINS), [end(28, HOUR)]
    old = [time(90, 90, ago(HOUR))]
    line = one(lag(), [idle], ends, old)
    assert_fields(line, drain="stalled", drain_ms=None, completion_rate=0)
    assert one(lag(), [idle])["drain"] == "stalled"
    short = observed([0] * BINS, 20_000)
    for seen, times, drain in (
        (idle | {"breaks": 1}, old, "unknown"),
        (idle, [time(90, 90, ago(MINUTE))], "unknown"),  # it has just come
        (idle, [time(90, 90, ago(6 * MINUTE))], "stalled"),
        (short, old, "unknown"),
    ):
        assert one(lag(), [seen], ends, times)["drain"] == drain
    assert one(lag(), [short], ends, old, patience=10_000 * MS)["drain"] == "stalled"


def test_rates_of_those_who_have_left_foretell_nothing() -> None:
    """The group finished more than arrived; then its last member left."""
    seen, ends = [observed([36] * BINS, last_finished=ago(1000))], [end(28, HOUR)]
    assert one(lag(), seen, ends)["drain"] == "drains"
    rows = ({"group_id": "G1", "members": members} for members in (0, 1, None))
    groups, one_is_there, unknown = (pa.Table.from_pylist([r], schemas.GROUPS) for r in rows)
    line = one(lag(), seen, ends, groups=groups)
    assert_fields(line, drain="nobody", completion_rate=0.1)
    assert_fields(line, drain_ms=None, drain_low_ms=None, drain_high_ms=None)
    other = [seen[0] | {"group_id": "G2"}]
    for row, bins, past, known, drain in (
        # Neither stalled nor never: that is known of who is there.
        (lag(), [observed([0] * BINS)], [end(28, HOUR)], groups, "nobody"),
        (lag(), [observed([36] * BINS)], [end(100 - 720, HOUR)], groups, "nobody"),
        (lag(0, 100), seen, ends, groups, "drained"),  # nobody is missed there
        (lag(None, None), seen, ends, groups, "unknown"),
        (lag(), seen, ends, one_is_there, "drains"),
        (lag(), seen, ends, unknown, "drains"),
        (lag(group_id="G2"), other, ends, groups, "drains"),
    ):
        assert one(row, bins, past, groups=known)["drain"] == drain


def test_where_nothing_was_finished_lately_there_is_no_forecast() -> None:
    ends, old = [end(28, HOUR)], [time(90, 90, ago(HOUR))]

    def result(since: int, times: Any = old, ends: Any = ends, **more: Any) -> dict[str, Any]:
        return one(lag(), [observed([36] * BINS, last_finished=ago(since))], ends, times, **more)

    line = result(31_000)
    assert_fields(line, drain="paused", completion_rate=0.1)
    assert_fields(line, drain_ms=None, drain_low_ms=None, drain_high_ms=None)
    assert result(31_000, patience=MINUTE * MS)["drain"] == "drains"
    for since, times, drain in (
        (29_000, old, "drains"),
        (31_000, [time(90, 90, ago(20_000))], "drains"),  # it has just come, nothing was to do
        (31_000, [time(90, 90, None)], "paused"),
        (6 * MINUTE, old, "stalled"),  # for a tenth of the span: nobody calls that a pause
        (6 * MINUTE, [time(90, 90, ago(5 * MINUTE))], "paused"),
    ):
        assert result(since, times)["drain"] == drain
    # That arrivals win holds all the more.
    assert result(MINUTE, ends=[end(100 - 720, HOUR)])["drain"] == "never"


def test_a_quiet_topic_with_nothing_to_do_is_no_alarm() -> None:
    """A stopped consumer, a clock that is ahead or behind, no evidence at all: nothing waits."""
    idle = [observed([0] * BINS)]
    for seen in ((), idle, [observed([0] * BINS, 0)], [idle[0] | {"breaks": 3}]):
        for shift in (-DAY, 0, DAY):
            line = one(lag(0, 100, as_of=ago(shift)), seen, [end(100, DAY)], (), [log(retention=1)])
            assert_fields(line, drain="drained", drain_ms=0, age_ms=0)
            assert_fields(line, drain_low_ms=0, drain_high_ms=0, margin_ms=None)


def test_a_group_that_has_never_fetched_has_nothing_to_do_in_an_empty_log() -> None:
    never = snapshot(-1, [], delivery_complete_count=-1)
    for end_offset, log_start in ((0, 0), (70, 70)):
        line = one(lag_of(never, end_offset, log_start))
        assert_fields(line, drain="drained", age_ms=0, oldest_offset=None)
    unknown: tuple[tuple[int | None, int | None], ...] = ((1, 0), (None, 0), (0, None))
    for known_end, known_start in unknown:
        line = one(lag_of(never, known_end, known_start))
        assert_fields(line, drain="unknown", age_ms=None)


def test_what_takes_longer_than_anybody_waits_has_no_time() -> None:
    far = one(lag(2**53), [observed([1] * BINS)], [end(100, HOUR)])
    assert_fields(far, drain="uncertain", drain_ms=None)
    near = one(lag(10**9), [observed([10**6] * BINS)], [end(100, HOUR)])
    assert_fields(near, drain="drains", drain_ms=360_000_000)


@given(
    st.lists(st.integers(0, 5000), min_size=BINS, max_size=BINS),
    st.integers(1, 10**6),
    st.integers(0, 30_000),
)
def test_the_interval_follows_from_the_parts(bins: list[int], left: int, arrived: int) -> None:
    assume(sum(bins) > 0)
    assume(not last_change(np.array([bins], float)).any())  # test_regime has those that change
    line = one(lag(left, 0, 10**7), [observed(bins)], [end(10**7 - arrived, HOUR)])
    a_part = HOUR // BINS / 1000
    rates, arrival = [count / a_part for count in bins], arrived / 3600
    wide = STUDENT_T * stdev(rates) / math.sqrt(BINS)
    signs = {"low": 1, "point": 0, "high": -1}
    possible = {name: mean(rates) + sign * wide - arrival for name, sign in signs.items()}
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
    drains = "uncertain" if expected["point"] is None else "drains"
    assert line["drain"] == ("never" if grows else drains)


def test_the_quantile_is_students() -> None:
    assert pytest.approx(scipy.stats.t.ppf(0.975, BINS - 1), abs=1e-9) == STUDENT_T


def test_the_forecast_is_made_from_the_rates_since_they_last_changed() -> None:
    """Members that finish ten times as fast now drain what all of the span would never."""
    slow = one(lag(3600, 0, 10**7), [observed([360] * BINS)], [end(10**7 - 7200, HOUR)])
    assert slow["drain"] == "never"
    faster = [360] * 6 + [3600] * 4
    line = one(lag(3600, 0, 10**7), [observed(faster)], [end(10**7 - 7200, HOUR)])
    assert_fields(line, drain="drains", completion_rate=10, arrival_rate=2)
    assert_fields(line, observed_ms=HOUR * 4 // BINS, drain_ms=3600 * 1000 / 8)
    # Nothing is finished since: that is the rate now, and no forecast is made of it.
    stopped = [observed([360] * 7 + [0] * 3, last_finished=ago(18 * MINUTE))]
    ends = [end(10**7 - 7200, HOUR)]
    line = one(lag(3600, 0, 10**7), stopped, ends, [time(0, 0, ago(20 * MINUTE))])
    assert_fields(line, drain="stalled", completion_rate=0)
    assert_fields(line, arrival_rate=2, observed_ms=HOUR * 3 // BINS)
    # What has just come to those who had nothing to do raises no alarm.
    line = one(lag(3600, 0, 10**7), stopped, ends, [time(0, 0, ago(1000))])
    assert_fields(line, drain="paused", drain_ms=None)


def test_a_fivefold_arrival_rate_is_seen_although_the_last_part_has_not_ended() -> None:
    """Ends are known at ten moments and now, which is a little before the end of the span."""
    arrived = [0, 500, 1000, 1500, 4000, 6500, 9000, 11500, 14000, 16500]
    ends = [end(at, HOUR - n * HOUR // BINS) for n, at in enumerate(arrived)]
    found = one(lag(1000, 0, 18990, as_of=ago(1000)), [observed([500] * BINS)], ends)
    assert found["arrival_rate"] == pytest.approx(2500 / 360, rel=0.01)
    assert_fields(found, observed_ms=HOUR * 7 // BINS, drain="never")


FLAT = [40, 41, 39, 40, 42, 40, 38, 41, 40, 39]


@pytest.mark.parametrize(
    ("parts", "since"),
    [
        (FLAT, 0),
        ([0] * BINS, 0),
        ([40, 41, 39, 40, 42, 3, 0, 2, 1, 2], 5),  # it fell
        ([2, 1, 2, 0, 3, 42, 40, 39, 41, 40], 5),  # it rose
        ([5, 5, 5, 5, 5, 5, 200, 0, 0, 0], 7),  # after a burst
        ([5, 5, 5, 40, 41, 39, 40, 1, 2, 0], 7),  # the later of two changes
        ([40, 41, 39, 40, 42, 40, 38, 38, 37, 38], 0),  # lower, but not by much
        ([1222, 1176, 1193, 1198, 1051, 880, 844, 860, 866, 879], 5),  # by a quarter, for long
        ([116, 118, 135, 122, 123, 112, 27, 0, 0, 0], 7),  # it ended within a part
        ([0, 200, 0, 0, 200, 0, 0, 200, 0, 0], 0),  # lumps
        ([40, 41, 39, 40, 42, 40, 38, 41, 40, 0], 0),  # too short to say
        ([float("nan")] * 5 + [1, 1, 1, 1, 1], 0),  # not known
    ],
)
def test_where_a_regime_begins(parts: list[float], since: int) -> None:
    rows = np.array([FLAT, parts], float)
    assert last_change(rows).tolist() == [0, since]
    # Whichever of arrivals and completions changes last.
    steady = np.stack([FLAT, np.full(BINS, np.median(np.nan_to_num(parts[:5])))])
    assert last_change(steady, rows).tolist() == [0, since]


def test_a_growth_that_begins_is_seen_before_the_rates_are_apart() -> None:
    """Who keeps up finishes what arrives: that a twelfth is left differs from all before."""
    arrived = np.array([[494, 462, 496, 474, 485, 481, 465, 490, 491, 480]], float)
    finished = np.array([[496, 463, 495, 472, 488, 481, 449, 438, 445, 436]], float)
    assert last_change(finished).tolist() == last_change(arrived).tolist() == [0]
    assert last_change(finished, arrived).tolist() == [7]


def test_chance_and_lumps_seldom_make_a_change() -> None:
    rng, rows, shares = np.random.default_rng(16), 1500, []

    def histories(usual: float, lump: float) -> NDArray[np.float64]:
        return np.asarray(rng.poisson(usual / lump, (rows, BINS)) * lump, np.float64)

    for usual, lump in ((5, 1), (40, 1), (500, 1), (5, 10), (40, 10), (500, 10), (500, 200)):
        arrived, finished = histories(usual, 1), histories(usual, lump)
        flying = rng.poisson(usual / 20, (rows, BINS + 1))
        keeping_up = arrived - np.diff(flying, axis=1)
        shares += [(last_change(seen, arrived) > 0).mean() for seen in (finished, keeping_up)]
    assert max(shares) < 0.04
    assert np.mean(shares) < 0.015
    # And a fall by a quarter is found where counts can tell it, where it is.
    fallen = np.hstack([rng.poisson(500, (rows, 6)), rng.poisson(375, (rows, 4))]).astype(float)
    found = last_change(fallen)
    assert ((found == 6) | (found == 7)).mean() > 0.97


def test_the_mean_and_its_interval_are_of_what_follows_the_change() -> None:
    parts = [40.0, 41, 39, 40, 42, 3, 0, 2, 1, 2]
    found, wide = mean_since(np.array([parts, FLAT], float), np.array([5, 0]))
    assert found.tolist() == pytest.approx([mean(parts[5:]), mean(FLAT)])
    last, all_parts = 2.7764451 * stdev(parts[5:]), 2.2621572 * stdev(FLAT)
    expected = [last / math.sqrt(5), all_parts / math.sqrt(BINS)]
    assert wide.tolist() == pytest.approx(expected)
