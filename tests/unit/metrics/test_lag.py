"""The worked examples of KIP-1226 come out, every term means what it says, and what is reclaimable.

The lag of the past, made from one history, is what Kafka printed at each moment. Lag older than a
record TTL: between two bounds, and exact where all is known.
"""

import json
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sharelag
from sharelag import schemas
from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, TableInput
from sharelag.inputs.kafka.config import client_config
from sharelag.metrics.lag import choose_states, lag_arrow, rollup_arrow, timeline_arrow
from sharelag.metrics.reclaim import archived_by_ttl, reclaimable_arrow
from sharelag.model import DeliveryState
from sharelag.replay import replay_arrow
from sharelag.replay.history import HISTORY_KEY
from sharelag.replay.state import DELETED
from sharelag.tables import gaps
from sharelag.tables.gaps import COUNT_DIFFERS
from sharelag.wire import (
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    STATE_KINDS,
    STATE_TOPIC,
    decode_arrow,
    encode_record,
)
from tests.support import generators, readings
from tests.support.captures import MOMENTS, ends
from tests.support.chapters import CAPTURE
from tests.support.command import ask
from tests.support.kafka.describe import parse_describe
from tests.support.progress_rows import ID, MINUTE, MS, NOON, PLACE, ago, end, lag_of, time
from tests.support.progress_rows import lag as lag_row
from tests.support.records import (
    TEXTS,
    assert_fields,
    offsets,
    raw,
    raw_file,
    row,
    with_column,
    with_texts,
)
from tests.support.records import row as snapshot
from tests.support.walk import RECOVERED, WALK, walk_records
from tests.support.written_input import NOW, Write, WrittenInput

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
MIRRORED = f"eu.{STATE_TOPIC}"
#: What is durable after step 8 of the walk from 100 to 120, and after step 10.
STEP_8 = [(110, 112, 0, 1), (113, 119, 2, 1)]
STEP_10 = [(110, 110, 2, 2), (111, 112, 0, 1), (113, 119, 2, 1)]


@pytest.mark.parametrize(
    ("states", "deleted", "chosen"),
    [
        ([(STATE_TOPIC, 1, 1)], (STATE_TOPIC, 2), None),
        ([(STATE_TOPIC, 3, 1), (STATE_TOPIC, 1, 4)], (STATE_TOPIC, 2), 3),
        ([(STATE_TOPIC, None, 1)], (STATE_TOPIC, 2), None),
        ([(STATE_TOPIC, None, None)], (STATE_TOPIC, 2), 0),
        ([(MIRRORED, 3, 3)], (STATE_TOPIC, 2), None),
        ([(MIRRORED, 3, 3), (STATE_TOPIC, 1, 1)], (MIRRORED, 4), 1),
        ([(MIRRORED, 3, 3)], (MIRRORED, None), 3),
    ],
)
def test_the_state_that_kafka_reads_counts(
    states: list[tuple[str, int | None, int | None]],
    deleted: tuple[str, int | None],
    chosen: int | None,
) -> None:
    place = {"group_id": "g", "topic_id": ID, "partition": 0}
    columns = ("record_topic", "create_timestamp", "record_timestamp")
    rows = [dict(zip(columns, one, strict=True)) | place for one in states]
    windows = pa.Table.from_pylist([one | {"snapshot_epoch": 0} for one in rows], schemas.WINDOWS)
    gone = dict(zip(columns[::2], deleted, strict=True)) | place
    found = choose_states(windows, pa.Table.from_pylist([gone], DELETED))
    created = found.column("create_timestamp").cast("timestamp[ms]").cast("int64").fill_null(0)
    assert created.to_pylist() == ([] if chosen is None else [chosen])


@pytest.mark.row("LAG-01", "LAG-02", "LAG-03", "LAG-04", "LAG-12")
def test_the_example_of_the_kip() -> None:
    # 2 and 4 are acquired: not persisted with their state, so 2 and 4 are unknown or available at
    # count 0.
    batches = [(2, 2, AVAILABLE, 0), (3, 3, AVAILABLE, 2), (4, 4, AVAILABLE, 0)]
    batches += [(5, 5, ACKNOWLEDGED, 1), (6, 6, ARCHIVED, 1), (7, 9, AVAILABLE, 0)]
    line = lag_of(row(2, batches, delivery_complete_count=2), 11)
    assert_fields(line, lag=7, effective_lag=7, lag_reason=None, notes=[])
    assert_fields(line, unread=1, window_available=6, window_unknown=0, window_complete=2)


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_texts_of_another_type_have_the_same_lag(kind: pa.DataType) -> None:
    windows, ends = (
        replay_arrow(
            decode_arrow(raw([(key, value) for _, key, value in walk_records(8)])).records
        ),
        offsets(121),
    )
    expected = lag_arrow(windows, ends)
    assert lag_arrow(with_texts(windows, kind), ends).equals(expected)
    assert lag_arrow(windows, with_texts(ends, kind)).equals(expected)


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
    for state, log_end, reason, more in (
        (row(2, [], **unknown), 11, gaps.NO_COMPLETE_COUNT, {"effective_lag": 9}),
        (row(-1, [], **unknown), 11, gaps.NO_START_OFFSET, {"unread": None}),
        (row(2, []), None, gaps.NO_END_OFFSET, {"unread": None}),
        (row(2, [], **unknown), None, gaps.NO_END_OFFSET, {"effective_lag": None}),
        (row(2, [], topic_id="B" * 22), 11, gaps.UNKNOWN_TOPIC, {"topic": None}),
        (row(50, []), 40, gaps.NEGATIVE_LAG, {}),
        (row(5000, []), 100, gaps.NEGATIVE_LAG, {"effective_lag": None}),
    ):
        assert_fields(lag_of(state, log_end), lag=None, lag_reason=reason, **more)
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
    moments = [moment(path) for path in reversed(MOMENTS)]
    timeline = timeline_arrow(recorded_history(), noted_ends(), moments)
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

    early = with_column(ends, "end_offset", pa.scalar(0))
    for states, known, at, reason in (
        (history, ends, when + timedelta(hours=1), gaps.NO_END_OFFSET_THEN),
        (history, early, last, gaps.NEGATIVE_LAG),
    ):
        rows = timeline_arrow(states, known, [at]).to_pylist()
        found = {(row["lag"], row["lag_reason"]) for row in rows if row["start_offset"]}
        assert found == {(None, reason)}
    before = pc.min(times).as_py() - timedelta(milliseconds=1)
    assert timeline_arrow(history, ends, [before]).num_rows == 0
    pruned = with_column(history, "follows", pa.scalar(False))  # older states may be missing
    rows = timeline_arrow(pruned, ends, [before]).to_pylist()
    names = ["group_id", "topic_id", "partition"]
    assert len(rows) == pa.table(pruned.select(names)).group_by(names).aggregate([]).num_rows
    assert {(row["lag"], row["lag_reason"]) for row in rows} == {(None, gaps.RECORDS_MISSING)}
    assert timeline_arrow(history.slice(0, 0), ends, [when]).num_rows == 0


@pytest.mark.parametrize(
    ("start", "lag", "reason"), [(90, 10, None), (-1, None, gaps.RECORDS_MISSING)]
)
def test_updates_alone_have_the_lag_that_they_tell(
    start: int, lag: int | None, reason: str | None
) -> None:
    update = encode_record(SHARE_UPDATE, row(start, [], leader_epoch=0))
    with sharelag.open(TableInput(pa.table(raw([update])), offsets(100)), engine="local") as bench:
        for answer in (bench.lag(), bench.timeline(every="1h")):
            assert_fields(answer.table.to_pylist()[-1], lag=lag, lag_reason=reason)


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


def share(group: str, start: int | None, **changes: Any) -> dict[str, Any]:
    return lag_row(group_id=group, start_offset=start, **changes)


def reclaimable(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    table = reclaimable_arrow(pa.Table.from_pylist(list(rows), schemas.LAG))
    assert table.schema.equals(schemas.RECLAIMABLE)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def only(*rows: dict[str, Any]) -> dict[str, Any]:
    (row,) = reclaimable(*rows)
    return row


@pytest.mark.row("FUT-03")
def test_the_group_that_is_furthest_back_holds_the_log() -> None:
    row = only(share("G1", 120), share("G2", 90))
    assert_fields(row, reclaimable=90, start_offset=90, group_id="G2", groups=2)
    assert_fields(row, topic="orders", partition=0, log_start_offset=0, as_of=NOON)
    assert only(share("G1", 120))["reclaimable"] == 120
    for log_start, left in ((70, 20), (100, 0)):  # retention was faster than the second group
        log = {"log_start_offset": log_start}
        assert only(share("G1", 120, **log), share("G2", 90, **log))["reclaimable"] == left


def test_what_is_not_known_could_hold_everything() -> None:
    """One group has fetched nothing yet, or the leader of the partition does not answer."""
    row = only(share("G1", 120), share("G2", None))
    assert_fields(row, reclaimable=None, start_offset=None, group_id=None, groups=2)
    row = only(share("G1", 120, log_start_offset=None), share("G2", 90, log_start_offset=None))
    assert_fields(row, reclaimable=None, start_offset=90, group_id="G2")
    assert reclaimable() == []
    with pytest.raises(InputError, match=r"lag: .*start_offset"):
        reclaimable_arrow(pa.table({"topic": ["t"]}))


@given(st.integers(0, 10**6))
def test_each_topic_partition_by_itself(seed: int) -> None:
    random = Random(seed)
    names = ["", "a:b", "<b>", "グループ", "a"]
    rows = [
        share(
            group, random.choice([None, 0, 5, 7, 30]), topic=topic, topic_id=topic * 22, partition=partition,
            log_start_offset=3 * partition,
        )
        for group in names
        for topic in ("t", "u")
        for partition in range(2)
        if random.random() < 0.7
    ]  # fmt: skip
    random.shuffle(rows)
    wanted = []
    place = ("topic", "partition")
    for key, found in groupby(
        sorted(rows, key=lambda row: [row[n] for n in place]), lambda row: [row[n] for n in place]
    ):
        mine = sorted(found, key=lambda row: (row["start_offset"] or 0, row["group_id"]))
        starts = [row["start_offset"] for row in mine]
        low = None if None in starts else min(starts)
        reclaim = None if low is None else max(low - 3 * key[1], 0)
        wanted.append((*key, len(mine), low, None if low is None else mine[0]["group_id"], reclaim))
    columns = (*place, "groups", "start_offset", "group_id", "reclaimable")
    assert [tuple(row[name] for name in columns) for row in reclaimable(*rows)] == wanted


SIX_MINUTES = timedelta(minutes=6)


def windows(*states: dict[str, Any]) -> pa.RecordBatch:
    return replay_arrow(
        decode_arrow(raw([encode_record(SHARE_SNAPSHOT, state) for state in states])).records
    )


def archived(
    state: pa.RecordBatch,
    end_offset: int | None,
    ends: list[dict[str, Any]],
    times: list[dict[str, Any]],
    ttl: timedelta = SIX_MINUTES,
    log_start: int = 0,
) -> tuple[int | None, int | None, int | None]:
    """About, at least, at most."""
    now = PLACE | {"end_offset": end_offset, "log_start_offset": log_start, "as_of": NOON}
    lag = lag_arrow(state, pa.Table.from_pylist([now], schemas.OFFSETS))
    past = pa.Table.from_pylist(ends, schemas.OFFSETS)
    of_records = pa.Table.from_pylist(times, schemas.TIMES)
    table = archived_by_ttl(lag, state, past, of_records, NOON, ttl)
    assert table.schema.equals(schemas.ARCHIVED)
    (line,) = table.to_pylist()
    assert_fields(line, group_id="G1", topic_id=ID, as_of=NOON)
    assert line["effective_lag"] == lag.to_pylist()[0]["effective_lag"]
    return line["archived"], line["archived_low"], line["archived_high"]


THREE = [time(offset, offset, ago(minutes * MINUTE)) for offset, minutes in enumerate((9, 5, 1))]


@pytest.mark.row("FUT-04")
def test_of_three_records_one_is_too_old() -> None:
    state = windows(snapshot(0, []))
    assert archived(state, 3, [], THREE) == (1, 1, 1)
    assert archived(state, 3, [], THREE, timedelta(minutes=10)) == (0, 0, 0)
    assert archived(state, 3, [], THREE, timedelta(seconds=30)) == (3, 3, 3)
    assert archived(state, 3, [], THREE, timedelta(minutes=5)) == (2, 2, 2)  # as old as that
    # What is finished is no lag, however old; what the log has deleted is gone already.
    assert archived(windows(snapshot(0, [(0, 0, 2, 1)])), 3, [], THREE) == (0, 0, 0)
    two, second = timedelta(minutes=2), windows(snapshot(0, [(1, 1, 2, 1)]))
    assert archived(second, 3, [], THREE, two) == (1, 1, 1)
    assert archived(state, 3, [], THREE, two, log_start=1) == (1, 1, 1)


def test_between_known_times_it_is_between_two_numbers() -> None:
    state = windows(snapshot(0, [(10, 19, 2, 1)]))
    ends = [end(40, 8 * MINUTE), end(80, 4 * MINUTE)]
    assert archived(state, 100, ends, []) == (50, 30, 70)
    for exact in ([end(52, 6 * MINUTE)], [end(45, 6 * MINUTE), end(52, 6 * MINUTE)]):
        assert archived(state, 100, [*ends, *exact], []) == (42, 42, 42)
    # A record that is fetched narrows it.
    assert archived(state, 100, ends, [time(50, 50, ago(7 * MINUTE))])[1:] == (41, 70)
    assert archived(state, 100, ends, [time(50, 53, ago(5 * MINUTE))])[1:] == (30, 43)


def test_of_one_millisecond_there_may_be_more_records_than_the_known_one() -> None:
    state, now = windows(snapshot(0, [])), 6 * MINUTE
    assert archived(state, 9, [], [time(3, 3, ago(now))])[1:] == (4, 9)
    assert archived(state, 9, [], [time(3, 3, ago(now - 1))])[1:] == (None, 3)


def test_an_end_that_is_older_than_the_state() -> None:
    """Offsets 5 to 9 are in the window, and the end that was read was 5."""
    state = windows(snapshot(0, [(5, 9, 0, 1)]))
    assert archived(state, 5, [], [time(7, 7, ago(9 * MINUTE))]) == (8, 8, 8)


def test_what_is_not_known_of_one_partition_is_not_taken_from_another() -> None:
    state = windows(snapshot(0, [], partition=0), snapshot(50, [], partition=1))
    known = PLACE | {"end_offset": 100, "log_start_offset": 0, "as_of": NOON}
    now = [known | {"partition": p} for p in (0, 1)]
    lag = lag_arrow(state, pa.Table.from_pylist(now, schemas.OFFSETS))
    past = pa.Table.from_pylist([end(80, 8 * MINUTE), end(90, 4 * MINUTE)], schemas.OFFSETS)
    young = pa.Table.from_pylist([time(50, 50, ago(MINUTE), partition=1)], schemas.TIMES)
    first, second = archived_by_ttl(lag, state, past, young, NOON, SIX_MINUTES).to_pylist()
    assert_fields(first, archived=85, archived_low=80, archived_high=90)
    assert_fields(second, archived=0, archived_low=0, archived_high=0)
    nothing = young.slice(0, 0)
    _, second = archived_by_ttl(lag, state, past, nothing, NOON, SIX_MINUTES).to_pylist()
    assert_fields(second, archived=None, archived_low=None, archived_high=50)


def test_what_is_not_known() -> None:
    state = windows(snapshot(0, []))
    never = windows(snapshot(-1, [], delivery_complete_count=-1))
    before_time = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)  # -1: the record has none
    useless = [end(80, 7 * MINUTE, partition=1), end(None, 7 * MINUTE)]
    for of, end_offset, past, times, expected in (
        (state, 100, [], [], (None, None, 100)),
        (state, 100, [end(80, 4 * MINUTE)], [], (None, None, 80)),
        (state, 100, useless, [], (None, None, 100)),
        # The oldest is young: so are all others.
        (state, 100, [], [time(0, 0, ago(MINUTE))], (0, 0, 0)),
        (state, 100, [], [time(0, None, None)], (None, None, 100)),
        (state, 100, [], [time(0, 0, before_time), time(1, 1, None)], (None, None, 100)),
        (state, None, [end(80, 7 * MINUTE)], [], (None, None, None)),
        (windows(snapshot(100, [])), 100, [], [], (0, 0, 0)),  # no lag
        (never, 100, [], THREE, (None, None, None)),
    ):
        assert archived(of, end_offset, past, times) == expected
    with pytest.raises(InputError, match="must be positive"):
        archived(state, 100, [], [], timedelta())


def test_without_share_partitions_there_are_no_rows() -> None:
    state = windows(snapshot(0, []))
    now = PLACE | {"end_offset": 100, "log_start_offset": 0, "as_of": NOON}
    lag = lag_arrow(state, pa.Table.from_pylist([now], schemas.OFFSETS))
    nothing = schemas.OFFSETS.empty_table(), pa.Table.from_pylist(THREE, schemas.TIMES)
    assert archived_by_ttl(lag.slice(0, 0), state, *nothing, NOON, SIX_MINUTES).num_rows == 0


@given(st.integers(0, 10**6))
def test_the_two_numbers_hold_what_going_through_the_offsets_gives(seed: int) -> None:
    random = Random(seed)
    start, end_offset = random.randint(0, 30), random.randint(40, 70)
    log_start = random.choice([0, 20])
    batches = generators.state_batches(random)
    states = generators.state_by_offset(batches)
    state = windows(snapshot(start, batches))
    end_offset = max([end_offset, *(batch.last_offset + 1 for batch in batches)])
    # Milliseconds ago.
    came = sorted((random.randint(1, 500) for _ in range(end_offset)), reverse=True)
    ttl = random.randint(1, 520)
    truth = sum(
        came[offset] >= ttl and states.get(offset) not in (2, 4)
        for offset in range(max(start, log_start), end_offset)
    )
    known = random.sample(range(end_offset), random.choice([0, 1, 5, end_offset]))
    times = [time(offset, offset, ago(came[offset])) for offset in known]
    moments = random.sample(range(1, 600), random.choice([0, 3]))
    ends = [end(sum(one >= then for one in came), then) for then in moments]
    about, low, high = archived(state, end_offset, ends, times, ttl * MS, log_start)
    assert high is not None
    assert (low or 0) <= truth <= high
    if about is not None:
        assert low is not None
        assert low <= about <= high
    exact = end(sum(one >= ttl for one in came), ttl)
    assert archived(state, end_offset, [*ends, exact], times, ttl * MS, log_start) == (truth,) * 3
    if len(known) == end_offset and len(set(came)) == end_offset:
        assert (low or 0) == high == truth


def test_of_what_is_gathered_of_a_group() -> None:
    """A record a second; the last 600 are unfinished, and ends are known every six minutes."""
    evidence = engines.gather(WrittenInput([Write(600, 6600)]), "local")
    tables = (evidence.lag, evidence.windows, evidence.past_offsets, evidence.times)
    (line,) = archived_by_ttl(*tables, NOW, timedelta(seconds=299.5)).to_pylist()
    assert line["effective_lag"] == 600
    assert line["archived_low"] <= 301 <= line["archived_high"] < 600
    assert abs(line["archived"] - 301) <= 1
    (line,) = archived_by_ttl(*tables, NOW, timedelta(seconds=601)).to_pylist()
    assert (line["archived"], line["archived_high"]) == (0, 0)  # the oldest is 600 s old


def printed_lag(folder: Path, start: int, batches: list[Any], count: int) -> dict[str, Any]:
    record = encode_record(SHARE_SNAPSHOT, row(start, batches, delivery_complete_count=count))
    (line,) = ask("lag", "--raw", raw_file(folder, raw([record])), "--engine", "local")
    return line


@pytest.mark.row("PSS-10")
@pytest.mark.parametrize(
    ("start", "batches", "right"),
    [(110, STEP_8, 7), (110, STEP_10, 8), (111, STEP_10[1:], 7), (111, STEP_10, 7)],
)
def test_the_count_is_that_of_terminal_offsets_from_the_start_on(
    tmp_path: Path, start: int, batches: list[Any], right: int
) -> None:
    found = {
        count: COUNT_DIFFERS in printed_lag(tmp_path, start, batches, count)["notes"]
        for count in range(right - 1, right + 2)
    }
    assert found == {right - 1: True, right: False, right + 1: True}
