"""Age of the lag, forecast and retention: the answers hold for any numbers."""

from datetime import UTC, datetime
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.age import oldest_offsets
from sharelag.metrics.observed import BINS
from tests.support import generators
from tests.support.fields import assert_fields
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
    lags = [lag(size - n, n, size, as_of=ago(-1), group_id=f"g{n}") for n in range(size)]
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
def test_rows_keep_their_order_whatever_the_chunks() -> None:
    hostile = ["", "a:b", "a", "<b>", "グループ", "a:b:" + ID]
    lags = [lag(i, 100 - i, group_id=name, partition=i % 2) for i, name in enumerate(hostile)]
    seen = [observed([i] * BINS, group_id=name, partition=i % 2) for i, name in enumerate(hostile)]
    seen.reverse()
    ends = [end(90, HOUR), end(95, HOUR, partition=1)]
    table = pa.Table.from_pylist(lags, schemas.LAG)
    whole = progress(table, seen, ends)
    assert whole.column("group_id").to_pylist() == hostile
    assert whole.schema.equals(schemas.PROGRESS)
    rates = [row["completion_rate"] for row in whole.to_pylist()]
    assert rates == pytest.approx([i * BINS / 3600 for i in range(len(hostile))])
    pieces = [table.slice(i, 1) for i in range(6)]
    assert progress(pa.concat_tables(pieces), seen, ends).equals(whole)
    apart = [row for piece in pieces for row in progress(piece, seen, ends).to_pylist()]
    assert apart == whole.to_pylist()


def test_no_lag_no_rows_and_a_wrong_table_is_named() -> None:
    given = ([observed([1] * BINS)], [end(1, 1)], [time(1, 1, NOON)], [log()])
    assert progress([], *given).num_rows == 0
    with pytest.raises(InputError, match=r"times: .*asked_offset"):
        progress([lag()], (), (), pa.table({"topic": ["t"]}))
