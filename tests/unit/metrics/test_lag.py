"""The worked examples of KIP-1226 come out, and every term means what it says.

The lag of the past, made from one history, is what Kafka printed at each moment.
"""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sharelag
from sharelag import schemas
from sharelag.inputs import CaptureInput, TableInput
from sharelag.inputs.kafka.config import client_config
from sharelag.metrics.lag import lag_arrow, rollup_arrow, timeline_arrow
from sharelag.model import DeliveryState
from sharelag.replay import replay_arrow
from sharelag.replay.history import HISTORY_KEY
from sharelag.tables import gaps
from sharelag.wire import SHARE_SNAPSHOT, STATE_KINDS, STATE_TOPIC, decode_arrow, encode_record
from tests.support import generators, readings
from tests.support.chapters import CAPTURE
from tests.support.columns import with_column
from tests.support.fields import assert_fields
from tests.support.kafka.describe import parse_describe
from tests.support.progress_rows import lag_of
from tests.support.recorded_moments import MOMENTS, ends
from tests.support.records import offsets, raw, row
from tests.support.walk import RECOVERED, WALK, walk_records

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


@pytest.mark.row("LAG-01", "LAG-02", "LAG-03", "LAG-04", "LAG-12")
def test_the_example_of_the_kip() -> None:
    # 2 and 4 are acquired: not persisted with their state, so 2 and 4 are unknown or available at
    # count 0.
    batches = [(2, 2, AVAILABLE, 0), (3, 3, AVAILABLE, 2), (4, 4, AVAILABLE, 0)]
    batches += [(5, 5, ACKNOWLEDGED, 1), (6, 6, ARCHIVED, 1), (7, 9, AVAILABLE, 0)]
    line = lag_of(row(2, batches, delivery_complete_count=2), 11)
    assert_fields(line, lag=7, effective_lag=7, lag_reason=None, notes=[])
    assert_fields(line, unread=1, window_available=6, window_unknown=0, window_complete=2)


@pytest.mark.row("LAG-02", "LAG-10", "ADM-06")
@pytest.mark.parametrize(
    ("step", "count", "lag"),
    [(0, 0, 21), (2, 0, 11), (4, 0, 11), (5, 1, 10), (7, 1, 10), (8, 7, 4), (10, 8, 3), (11, 0, 1)],
)
def test_lag_along_the_walk(step: int, count: int, lag: int) -> None:
    """The count is right for the start offset that is persisted after each write of the walk."""
    *before, (_, key, _) = walk_records(step)
    start, batches = WALK[step]
    kind = decode_arrow(raw([(key, None)])).records.to_pylist()[0]["record_type"]
    last = encode_record(STATE_KINDS[kind], row(start, batches, delivery_complete_count=count))
    records = decode_arrow(raw([r[1:] for r in before] + [last])).records
    line = lag_arrow(replay_arrow(records), offsets(121)).to_pylist()[0]
    assert_fields(line, lag=lag, effective_lag=lag, notes=[])
    assert line["start_offset"] == max(WALK[at][0] for at in WALK if at <= step)
    assert line["effective_start_offset"] == RECOVERED[step][0]


@pytest.mark.row("LAG-02")
def test_the_trap_is_noticed() -> None:
    """A count of 7 belongs to start offset 111, but 110 is what is persisted."""
    records = [r[1:] for r in walk_records(8)]
    batches = [(110, 110, 2, 2), (111, 112, 0, 1), (113, 119, 2, 1)]
    trap = encode_record(SHARE_SNAPSHOT, row(110, batches, delivery_complete_count=7))
    windows = replay_arrow(decode_arrow(raw([*records, trap])).records)
    (line,) = lag_arrow(windows, offsets(121)).to_pylist()
    assert_fields(line, lag=4, effective_lag=3, notes=[gaps.COUNT_DIFFERS])


def test_aborted_records_that_the_broker_counts_do_not_wait() -> None:
    """A read_committed group read 0 to 26; brokers wrote no batch of what was aborted."""
    batches = [(1, 10, ACKNOWLEDGED, 1), (21, 26, ACKNOWLEDGED, 1)]
    line = lag_of(row(0, batches, delivery_complete_count=27), 30, log_start=5)
    assert_fields(line, lag=3, effective_lag=3, effective_start_offset=27, notes=[])
    assert_fields(line, unread=3, window_available=0, window_unknown=0, window_complete=27)
    line = lag_of(row(0, batches, delivery_complete_count=26), 30)  # one may be with a member
    assert_fields(line, lag=4, effective_lag=14, effective_start_offset=0, window_unknown=11)
    assert line["notes"] == [gaps.COUNT_DIFFERS]
    batches[0] = (1, 10, AVAILABLE, 1)  # which contradicts the count
    line = lag_of(row(0, batches, delivery_complete_count=27), 30)
    assert_fields(line, effective_lag=24, effective_start_offset=0, window_available=10)


@pytest.mark.row("LAG-13")
def test_what_is_not_known_is_null_with_a_reason() -> None:
    unknown = {"delivery_complete_count": -1}
    for state, end, reason, more in (
        (row(2, [], **unknown), 11, gaps.NO_COMPLETE_COUNT, {"effective_lag": 9}),
        (row(-1, [], **unknown), 11, gaps.NO_START_OFFSET, {"unread": None}),
        (row(2, []), None, gaps.NO_END_OFFSET, {"unread": None}),
        (row(2, [], **unknown), None, gaps.NO_END_OFFSET, {"effective_lag": None}),
        (row(2, [], topic_id="B" * 22), 11, gaps.UNKNOWN_TOPIC, {"topic": None}),
        (row(50, []), 40, gaps.NEGATIVE_LAG, {}),
        (row(5000, []), 100, gaps.NEGATIVE_LAG, {"effective_lag": None}),
    ):
        assert_fields(lag_of(state, end), lag=None, lag_reason=reason, **more)
    assert_fields(lag_of(row(121, []), 121), lag=0, effective_lag=0, lag_reason=None)


@pytest.mark.row("WIN-10")
def test_deleted_records_are_lag_to_kafka_but_not_effectively() -> None:
    line = lag_of(row(100, []), 200, log_start=150)
    assert_fields(line, lag=100, effective_lag=50, notes=[gaps.START_BELOW_LOG_START])
    assert_fields(line, start_offset=100, effective_start_offset=150)


@pytest.mark.row("LAG-08")
def test_a_window_beyond_a_stale_end_offset_is_still_to_do() -> None:
    """Of a capture or a stream, ends may be older than windows; a start alone says nothing."""
    line = lag_of(row(20, [(20, 25, AVAILABLE, 1)]), 10)
    assert_fields(line, lag=None, effective_lag=6, unread=0)
    assert_fields(lag_of(row(20, []), 10), lag=None, effective_lag=None)


def test_a_state_that_is_not_terminal_stays_lag() -> None:
    archiving = [(0, 4, int(DeliveryState.ARCHIVING), 3), (5, 6, int(DeliveryState.TX_PENDING), 1)]
    line = lag_of(row(0, archiving), 10)
    assert_fields(line, lag=10, window_unknown=7, unread=3, effective_start_offset=0)
    assert line["notes"] == [gaps.ARCHIVING]


def test_a_lag_of_ten_thousand_million_is_exact() -> None:
    assert lag_of(row(7, []), 10**10 + 7)["lag"] == 10**10


@given(st.integers(0, 10**6))
def test_the_terms_add_up_and_equal_a_count_of_the_offsets(seed: int) -> None:
    random = Random(seed)
    start, end, log_start = random.randint(0, 30), random.randint(50, 70), random.randint(0, 45)
    batches = generators.state_batches(random)
    snapshot = row(start, batches)
    records = decode_arrow(raw([encode_record(SHARE_SNAPSHOT, snapshot)])).records
    window = replay_arrow(records).to_pylist()[0]
    # Else the ends were read before the window, and nothing is unread.
    end = max(end, window["window_end_offset"])
    line = lag_arrow(replay_arrow(records), offsets(end, log_start)).to_pylist()[0]
    states = generators.state_by_offset(batches)
    inside = range(start, window["window_end_offset"])
    complete = [offset for offset in inside if states.get(offset) in (ACKNOWLEDGED, ARCHIVED)]
    assert line["window_complete"] == len(complete)
    assert line["window_available"] == sum(states.get(offset) == AVAILABLE for offset in inside)
    terms = ("unread", "window_available", "window_unknown", "window_complete")
    assert sum(line[term] for term in terms) == end - start
    left = [offset for offset in range(max(start, log_start), end) if offset not in complete]
    assert line["effective_lag"] == len(left)


@pytest.mark.row("LAG-13")
def test_roll_ups_count_what_is_unknown_and_never_sum_it_as_zero() -> None:
    def share(group: str, partition: int, **changes: Any) -> dict[str, Any]:
        place = {"group_id": group, "topic": "t", "topic_id": "A" * 22, "partition": partition}
        return place | changes

    newer, older = datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
    table = pa.Table.from_pylist(
        [
            share("g", 0, lag=7, effective_lag=6, unread=5, as_of=newer),
            share("g", 1, as_of=older),
            *(share("g", 2, lag=3, unread=1), share("h", 0), share("k", 0, lag=0, effective_lag=0)),
            *(share("k", 1), share("z", 0, lag=0)),
        ],
        schema=schemas.LAG,
    )
    for by in ("group", "topic"):
        first, second, third, last = rollup_arrow(table, by).to_pylist()
        # Of 0 and something unknown it is not known that nothing waits.
        assert_fields(third, lag=None, max_lag=None, unknown_lags=1, effective_lag=None)
        assert_fields(last, lag=0, max_lag=0, unknown_lags=0)
        assert_fields(first, partitions=3, unknown_lags=1, lag=10, max_lag=7)
        assert_fields(first, effective_lag=6, unknown_effective_lags=2)
        assert_fields(second, partitions=1, unknown_lags=1, lag=None, unread=None)
        assert (first["topic"], first["as_of"]) == (None if by == "group" else "t", older)


def test_no_windows_no_rows() -> None:
    empty = replay_arrow(schemas.RECORDS.empty_table())
    assert lag_arrow(empty, offsets(1)).num_rows == 0
    assert rollup_arrow(lag_arrow(empty, offsets(1)), "group").num_rows == 0


_NOTED = {path: json.loads(path.with_suffix(".json").read_text())["as_of_ms"] for path in MOMENTS}


def moment(path: Any) -> datetime:
    return datetime.fromtimestamp(_NOTED[path] / 1000, UTC)


def noted_ends() -> pa.Table:
    """The end offsets noted at each moment of the recording, as of that moment."""
    tables = []
    for path in MOMENTS:
        table = ends(json.loads(path.with_suffix(".json").read_text()))
        tables.append(with_column(table, "as_of", pa.scalar(moment(path))))
    return pa.concat_tables(tables)


def recorded_history() -> pa.Table:
    history = readings.history(CaptureInput(CAPTURE), "local").table.select(schemas.HISTORY.names)
    return history.sort_by([(name, "ascending") for name in HISTORY_KEY])


def test_every_moment_of_the_recording_from_one_history() -> None:
    timeline = timeline_arrow(
        recorded_history(), noted_ends(), [moment(path) for path in reversed(MOMENTS)]
    )
    assert timeline.schema == schemas.TIMELINE
    compared = 0
    for path in MOMENTS:
        then = timeline.filter(pc.equal(timeline.column("as_of"), pa.scalar(moment(path))))
        names = ("group_id", "topic", "partition", "start_offset", "lag")
        ours, theirs = (
            [tuple(row[name] for name in names) for row in rows]
            for rows in (then.to_pylist(), parse_describe(path.read_text()))
        )
        assert sorted(ours) == sorted(theirs)
        compared += len(ours)
    assert compared > 100


def test_what_is_not_known_at_a_moment_is_null_with_a_reason() -> None:
    history, ends = recorded_history(), noted_ends()
    times, last = history.column("record_timestamp"), moment(MOMENTS[-1])
    when = pc.max(times).as_py()

    partial = with_column(history, "from_snapshot", pa.scalar(False))
    early = with_column(ends, "end_offset", pa.scalar(0))
    for states, known, at, reason in (
        (history, ends, when + timedelta(hours=1), gaps.NO_END_OFFSET_THEN),
        (partial, ends, last, gaps.RECORDS_MISSING),
        (history, early, last, gaps.NEGATIVE_LAG),
    ):
        rows = timeline_arrow(states, known, [at]).to_pylist()
        found = {(row["lag"], row["lag_reason"]) for row in rows if row["start_offset"]}
        assert found == {(None, reason)}
    before = pc.min(times).as_py() - timedelta(milliseconds=1)
    assert timeline_arrow(history, ends, [before]).num_rows == 0
    assert timeline_arrow(history.slice(0, 0), ends, [when]).num_rows == 0


@pytest.mark.parametrize("column", ["partition", "topic"])
def test_a_share_partition_with_several_states_counts_once(column: str) -> None:
    """After more state partitions the state created last counts; beside a mirror, the original."""
    former = [row(10, []), row(10, [], snapshot_epoch=1, write_timestamp=3_000)]
    latest = [row(90, [], create_timestamp=1_500, write_timestamp=1_500)]
    if column == "topic":
        former, latest = latest, former
    tables = []
    for states, place in ((former, {"partition": 9, "topic": f"eu.{STATE_TOPIC}"}), (latest, {})):
        table = pa.table(raw([encode_record(SHARE_SNAPSHOT, state) for state in states]))
        times = [state["write_timestamp"] for state in states]
        table = with_column(table, "timestamp", pa.array(times).cast(schemas.TIMESTAMP))
        tables.append(
            with_column(table, column, [place.get(column, table[column][0])] * len(table))
        )
    ends = with_column(offsets(100), "as_of", pa.scalar(4_000, pa.int64()).cast(schemas.TIMESTAMP))
    with sharelag.open(TableInput(pa.concat_tables(tables), ends), engine="local") as bench:
        assert len(bench.windows().table) == 2
        assert bench.windows().title == "Windows of 1 share partition"
        (start,) = bench.lag().table.column("start_offset").to_pylist()
        assert start == latest[-1]["start_offset"]
        assert bench.lag(by="group").table.column("lag").to_pylist() == [100 - start]
        assert len(bench.reading.evidence.windows) == 1
        past = bench.timeline(every="1s").table
        assert past.column("start_offset").to_pylist() == [10, *[start] * (len(past) - 1)]
    # Nothing is unfinished in this state, so a count of its records asks no broker.
    cluster = type("Cluster", (TableInput,), {"config": client_config("127.0.0.1:1")})
    done = with_column(ends, "end_offset", [start])
    with sharelag.open(cluster(pa.concat_tables(tables), done), engine="local") as bench:
        assert bench.reading.reconcile(None, True).column("true_lag").to_pylist() == [0]
