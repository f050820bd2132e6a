"""The worked examples of the KIPs come out, however the records are cut up or come in batches."""

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sharelag
from sharelag import schemas
from sharelag.compiled import compile_kernel
from sharelag.errors import InputError, ReplayError
from sharelag.inputs import CaptureInput
from sharelag.inputs.files.captures import CaptureInfo, write_capture
from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch
from sharelag.replay import combine, drop_superseded, replay, replay_arrow, state
from sharelag.replay.kernels import replay_rows
from sharelag.replay.moment import filter_groups, parse_moment, up_to
from sharelag.replay.state import WINDOWS_AT, RunningStates, latest_windows, replay_at, window_items
from sharelag.tables.arrow import as_table
from sharelag.wire import (
    GROUP_TOPIC,
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    STATE_KINDS,
    STATE_TOPIC,
    decode_arrow,
    decode_columns,
    encode,
    encode_record,
)
from sharelag.wire.formatter import kafka_json
from tests.support import generators, readings
from tests.support.captures import MOMENTS, ends
from tests.support.cases import Cases
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag as command
from tests.support.kafka.describe import parse_describe
from tests.support.records import KEY, raw, row, state_records, with_column
from tests.support.walk import (
    ACKNOWLEDGED,
    ACQUIRED,
    AVAILABLE,
    LIVE,
    RECOVERED,
    WALK,
    by_offset,
    walk_records,
)

WINDOW_ENDS = {0: 100, 2: 110, 4: 111, 5: 120, 7: 120, 8: 120, 10: 120, 11: 120}


@pytest.mark.row("WIN-04", "PRS-06")
@pytest.mark.parametrize("step", WALK)
def test_what_is_recovered_after_each_step(step: int) -> None:
    window = replay(walk_records(step))[KEY]
    start, runs = RECOVERED[step]
    assert window.effective_start_offset == start
    assert list(window.runs) == [StateBatch(*run) for run in runs]
    table = replay_arrow(decode_arrow(raw([r[1:] for r in walk_records(step)])).records)
    assert table.column("effective_start_offset").to_pylist() == [start]
    assert table.column("window_end_offset").to_pylist() == [WINDOW_ENDS[step]]
    assert [tuple(run.values()) for run in table.column("runs").to_pylist()[0]] == runs


@pytest.mark.row("WIN-01")
@pytest.mark.parametrize("step", LIVE)
def test_what_is_persisted_of_each_live_window(step: int) -> None:
    start, end, runs = LIVE[step]
    window = replay(walk_records(step))[KEY]
    persisted, live = by_offset(list(window.runs)), by_offset([StateBatch(*run) for run in runs])
    assert window.effective_start_offset == start
    assert {state for state, _ in persisted.values()} <= {AVAILABLE, ACKNOWLEDGED}
    for offset in range(start, end):
        state, count = live[offset]
        if offset in persisted:
            expected = (AVAILABLE, count - 1) if state == ACQUIRED else (state, count)
            assert persisted[offset] == expected
        else:  # never persisted: a first delivery under way
            assert (state, count) == (ACQUIRED, 1)


def test_updates_before_the_first_snapshot_give_a_partial_state() -> None:
    record = encode_record(SHARE_UPDATE, row(-1, [(7, 7, 0, 1), (3, 4, 2, 1)]))
    window = replay([(0, *record)])[KEY]
    assert (window.state_epoch, window.create_timestamp, window.start_offset) == (0, 0, -1)
    assert window.batches == ((7, 7, 0, 1), (3, 4, 2, 1))  # unmerged
    assert window.effective_start_offset is None
    records = decode_arrow(raw([record])).records
    assert replay_arrow(records).column("from_snapshot").to_pylist() == [False]
    assert replay_arrow(records).column("start_offset").to_pylist() == [None]


@pytest.mark.row("WIN-06")
def test_a_reset_discards_batches_and_counts(tmp_path: Path) -> None:
    reset = (20, *encode_record(SHARE_SNAPSHOT, row(100, [], state_epoch=4, snapshot_epoch=1)))
    window = replay([*walk_records(8), reset])[KEY]
    assert (window.start_offset, window.batches, window.state_epoch) == (100, (), 4)
    assert window.delivery_complete_count == 0
    opened = sharelag.open(_capture(tmp_path / "reset", [*walk_records(8), reset]), engine="local")
    (line,) = opened.lag().table.to_pylist()
    assert (line["start_offset"], line["window_end_offset"], line["lag"]) == (100, 100, 21)
    changes = opened.history().table.column("replaced").to_pylist()
    assert any(changes[1:-1]) is False  # the first record creates the state
    assert changes[-1] is True


@pytest.mark.row("FND-03")
def test_groups_on_one_topic_are_independent(tmp_path: Path) -> None:
    """A acknowledges 100 to 109; B does nothing."""
    kinds = (SHARE_SNAPSHOT, "A", 100), (SHARE_SNAPSHOT, "B", 100), (SHARE_UPDATE, "A", 110)
    pairs = [encode_record(kind, row(at, [], group_id=group)) for kind, group, at in kinds]
    opened = sharelag.open(
        _capture(tmp_path / "two", [(n, *pair) for n, pair in enumerate(pairs)]), engine="local"
    )
    lines = {line["group_id"]: line for line in opened.lag().table.to_pylist()}
    assert {group: line["start_offset"] for group, line in lines.items()} == {"A": 110, "B": 100}
    assert {group: line["lag"] for group, line in lines.items()} == {"A": 11, "B": 21}


def _capture(folder: Path, records: list[tuple[int, bytes, bytes | None]]) -> Path:
    """Write a capture of these records of one state partition; the topic's end offset is 121."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ends = {"topic": "t", "topic_id": KEY.topic_id, "partition": 0, "as_of": now}
    ends |= {"log_start_offset": 0, "end_offset": 121, "leader_epoch": 0}
    offsets = pa.Table.from_pylist([ends], schema=schemas.OFFSETS)
    info = CaptureInfo("cluster", now, {STATE_TOPIC: 1})
    write_capture(folder, [raw([r[1:] for r in records])], lambda _: ({"offsets": offsets}, info))
    return folder


def test_state_of_another_cluster_stays_apart() -> None:
    copied = pa.Table.from_batches([raw([r[1:] for r in walk_records(8)])])
    original = raw([r[1:] for r in walk_records(2)])
    copied = copied.set_column(2, "topic", pa.array(["eu.__share_group_state"] * copied.num_rows))
    both = pa.concat_tables([copied, pa.Table.from_batches([original])])
    table = replay_arrow(decode_arrow(both).records).to_pylist()
    found = {row["record_topic"]: row["window_end_offset"] for row in table}
    assert found == {"eu.__share_group_state": 120, "__share_group_state": 110}


def test_a_merge_that_would_never_end_is_refused_and_counted() -> None:
    endless = encode_record(SHARE_UPDATE, row(-1, [(1, 10, 0, 1), (5, 3, 0, 2)]))
    whole = encode_record(SHARE_SNAPSHOT, row(0, [(1, 10, 0, 1)]))
    table = replay_arrow(decode_arrow(raw([whole, endless])).records)
    assert table.column("rejected_records").to_pylist() == [1]
    assert len(table.column("batches").to_pylist()[0]) == 1
    with pytest.raises(ReplayError, match="would not finish loading"):
        replay([(0, *whole), (1, *endless)], strict=True)
    with pytest.raises(ValueError, match="would never end"):
        combine([StateBatch(1, 10, 0, 1)], [StateBatch(5, 3, 0, 2)])


def test_the_greatest_offset_does_not_wrap() -> None:
    last = 2**63 - 1
    records = decode_arrow(
        raw([encode_record(SHARE_SNAPSHOT, row(0, [(last - 1, last, 0, 1)]))])
    ).records
    assert replay_arrow(records).column("window_end_offset").to_pylist() == [last]


def test_strict_names_the_record_and_the_default_leaves_it_out() -> None:
    bad = (6, walk_records(0)[0][1], b"\0\0\1")
    records = [*walk_records(5), bad]
    assert replay(records) == replay(walk_records(5))
    said = r"offset 6: the value ends before or inside SnapshotEpoch"
    with pytest.raises(ReplayError, match=said):
        replay(records, strict=True)


def test_equal_neighbours_are_one_batch_where_the_version_joins_them_or_is_not_known() -> None:
    """Archived 1, released 2, archived 3, then 2 archived: as a coordinator wrote them."""
    path = Path(__file__).parents[2] / "data" / "kafka-4.4" / "equal-neighbours.parquet"
    records = decode_arrow(pq.read_table(path).cast(schemas.RAW)).records
    apart, joined = [(1, 1, 4, 2), (2, 3, 4, 2)], [(1, 3, 4, 2)]
    for version, expected in ((None, joined), ("4.4", joined), ("4.3.1", apart), ("4.2", apart)):
        (window,) = replay_arrow(records, version).to_pylist()
        assert [tuple(batch.values()) for batch in window["batches"]] == expected
        assert [tuple(run.values()) for run in window["runs"]] == joined
    (shown,) = command("windows", "--raw", str(path), "-o", "json").stdout.splitlines()
    assert json.loads(shown)["batches"] == [[1, 3, 4, 2]]


@given(st.integers(0, 10**6))
def test_a_window_is_the_same_from_any_cut_of_the_records(seed: int) -> None:
    random = Random(seed)
    records = decode_arrow(raw(generators.sequence(random, length=30))).records
    whole = replay_arrow(records)
    order = list(range(records.num_rows))
    random.shuffle(order)
    cut = random.randint(0, len(order))
    pieces = [records.take(pa.array(part, pa.int64())) for part in (order[:cut], order[cut:])]
    latest = pa.Table.from_batches([drop_superseded(piece) for piece in pieces])
    assert replay_arrow(latest).equals(whole)


@given(st.integers(0, 10**6))
def test_runs_are_the_same_compiled_and_as_properties(seed: int) -> None:
    random = Random(seed)
    table = replay_arrow(decode_arrow(raw(generators.sequence(random))).records)
    for line, (_, window) in zip(table.to_pylist(), window_items(table), strict=True):
        assert [tuple(run.values()) for run in line["runs"]] == [tuple(run) for run in window.runs]
        assert line["effective_start_offset"] == window.effective_start_offset


def test_as_of_a_time_and_as_of_offsets() -> None:
    records = decode_arrow(
        raw([r[1:] for r in walk_records(11)])
    ).records  # offsets 100.., timestamps 0 ms..
    early = up_to(records, datetime.fromtimestamp(0.003, UTC))
    assert early.column("offset").to_pylist() == [100, 101, 102, 103]
    assert replay_arrow(early).column("effective_start_offset").to_pylist() == [110]
    assert up_to(records, {3: 101}).num_rows == 2
    assert up_to(records, {4: 999}).num_rows == 0  # only the state partitions that are named
    assert up_to(records, None) is records


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21T03:10:00Z", datetime(2026, 11, 21, 3, 10, tzinfo=UTC)),
        ("2026-11-21T04:10:00+01:00", datetime(2026, 11, 21, 3, 10, tzinfo=UTC)),
        ("2026-11-21 03:10:00 UTC", datetime(2026, 11, 21, 3, 10, tzinfo=UTC)),  # as answers say
        ("0:1200,3:88", {0: 1200, 3: 88}),
    ],
)
def test_moments_are_read(text: str, moment: Any) -> None:
    assert parse_moment(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-11-21T03:10:00",
        "0:x",
        "",
        "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59-23:00",
        "99999999999:1",
        "0:99999999999999999999",
        "0:1,0:2",
        "03:10",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_moment(text)


def timed(records: pa.RecordBatch, times: list[int | None]) -> pa.RecordBatch:
    column = pa.array(times, pa.int64()).view(schemas.TIMESTAMP)
    return with_column(records, "timestamp", column)


def one_by_one(records: pa.RecordBatch, moments: list[int]) -> pa.Table:
    parts = [WINDOWS_AT.empty_table()]
    for at in pa.array(moments).view(schemas.TIMESTAMP).to_pylist():
        then = as_table(replay_arrow(up_to(records, at)))
        times = pa.array([at] * len(then), schemas.TIMESTAMP)
        parts.append(then.append_column(WINDOWS_AT.field("as_of"), times))
    return pa.concat_tables(parts)


@pytest.mark.parametrize("clock", ["goes on", "goes back", "is not known"])
def test_states_at_many_moments_are_those_of_a_replay_each(clock: str, cases: Any) -> None:
    random, rows = Random(clock), 0
    for _ in range(cases(20, 600)):
        records = decode_arrow(raw(generators.sequence(random, keys=4, length=24))).records
        ordered = sorted(random.randrange(1, 60) for _ in range(records.num_rows))
        times: list[int | None] = [*ordered]
        if clock == "goes back":
            times = [time if random.random() < 0.7 else random.randrange(1, 60) for time in times]
        if clock == "is not known":
            times = [time if random.random() < 0.7 else None for time in times]
        records = timed(records, times)
        moments = sorted(random.sample(range(70), random.randrange(1, 12)))
        found = replay_at(records, np.array(moments, np.int64))
        assert found.equals(one_by_one(records, moments))
        rows += found.num_rows
    assert rows > 200


def test_of_nothing_and_at_no_moment_there_is_nothing() -> None:
    assert replay_at(schemas.RECORDS.empty_table(), np.array([5])).equals(WINDOWS_AT.empty_table())
    records = timed(decode_arrow(raw(generators.sequence(Random(1)))).records.slice(0, 1), [9])
    assert replay_at(records, np.array([], np.int64)).num_rows == 0
    assert replay_at(records, np.array([8])).num_rows == 0


GOLDEN = CAPTURE.parents[1] / "golden" / "state_records.jsonl"


@pytest.fixture(scope="module")
def golden() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("topic", [STATE_TOPIC, GROUP_TOPIC])
def test_golden_records_read_and_write_as_kafkas(topic: str, golden: list[dict[str, Any]]) -> None:
    lines = [line for line in golden if line["topic"] == topic]
    rows = [
        {name: r[name] for name in ("topic", "partition", "offset")}
        | {"key": bytes.fromhex(r["key"]), "value": r["value"] and bytes.fromhex(r["value"])}
        for r in lines
    ]
    raw = pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)
    decoded = decode_arrow(raw, topic)
    assert decoded.rejects.num_rows == decoded.skipped == 0
    for line, ours in zip(lines, kafka_json(decoded.records), strict=True):
        theirs = line["expected"]
        assert (ours["key"]["type"], ours["key"]["data"]) == (theirs["type"], theirs["key"])
        assert (ours["value"] and ours["value"]["data"]) == theirs["value"]
    again = encode(decoded.records, topic)
    assert again.column("key").equals(raw.column("key"))
    assert again.column("value").equals(raw.column("value"))
    kinds = {line["expected"]["type"] for line in lines}
    assert kinds == ({0, 1} if topic == STATE_TOPIC else set(range(10, 16)))


@pytest.mark.parametrize("moment", MOMENTS, ids=[path.stem for path in MOMENTS])
def test_every_moment_of_the_recording_is_reconstructed(moment: Path) -> None:
    noted = json.loads(moment.with_suffix(".json").read_text())
    as_of = datetime.fromtimestamp(noted["as_of_ms"] / 1000, UTC)
    windows = readings.windows(CaptureInput(CAPTURE), "local", as_of).table
    lag = lag_arrow(windows.select(schemas.WINDOWS.names), ends(noted))
    names = ("group_id", "topic", "partition", "leader_epoch", "start_offset", "lag")
    ours = sorted(tuple(row[name] for name in names) for row in lag.to_pylist())
    theirs = sorted(tuple(row.values()) for row in parse_describe(moment.read_text()))
    assert ours == theirs
    assert theirs


def replayed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return replay_arrow(decode_arrow(batch).records)


def cut(batch: pa.RecordBatch, random: Random) -> list[pa.RecordBatch]:
    places = sorted(random.choices(range(batch.num_rows + 1), k=random.randrange(6)))
    ends = zip([0, *places], [*places, batch.num_rows], strict=True)
    return [batch.slice(begin, end - begin) for begin, end in ends]


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where the records become tables after all."""

    def refuse(*_: object) -> None:
        raise AssertionError("tables")

    monkeypatch.setattr(state, "is_worth_it", lambda *_, **__: True)
    monkeypatch.setattr(state, "_by_tables", refuse)


@pytest.mark.usefixtures("streamed")
def test_random_records_cut_anywhere_give_the_same_windows() -> None:
    for seed in range(60):
        random = Random(seed)
        batch = raw(generators.sequence(random, keys=5, length=80))
        found = latest_windows(cut(batch, random))
        assert found.windows.equals(replayed(batch))
        records = decode_arrow(batch).records
        _are_deleted(found.deleted, records)
        choose = partial(filter_groups, groups=frozenset([records["group_id"][0].as_py()]))
        until = partial(up_to, moment={3: records["offset"][len(records) // 2].as_py()})
        part = latest_windows(cut(batch, random), choose, until=until)
        _are_deleted(part.deleted, choose(until(records)))
        assert found.records + found.rejected == batch.num_rows


def _are_deleted(found: pa.RecordBatch, records: schemas.Arrow) -> None:
    order = [(name, "ascending") for name in state.DELETED.names]
    assert found.sort_by(order).equals(state.find_deleted(records).sort_by(order))


@pytest.mark.usefixtures("streamed")
def test_long_lists_grow_and_move_on_from_batch_to_batch() -> None:
    for seed in range(60):
        random = Random(f"ordered {seed}")
        batch = raw(state_records(generators.ordered_sequence(random)))
        assert latest_windows(cut(batch, random)).windows.equals(replayed(batch))


@pytest.mark.usefixtures("streamed")
def test_recorded_clusters_have_the_same_windows() -> None:
    captures = Path(__file__).parents[3] / "data" / "captures"
    random, found = Random("captures"), 0
    for path in captures.glob("**/records/*.parquet"):
        (batch,) = pq.read_table(path).cast(schemas.RAW).combine_chunks().to_batches()
        windows = latest_windows(cut(batch, random)).windows
        assert windows.equals(replayed(batch))
        found += windows.num_rows
    assert found


@pytest.mark.usefixtures("streamed")
def test_records_are_chosen_and_counted() -> None:
    batch = raw(generators.sequence(Random("chosen"), keys=4, length=120))
    records = decode_arrow(batch).records
    group = records.column("group_id")[0].as_py()

    def choose(some: schemas.Arrow) -> schemas.Arrow:
        return filter_groups(some, frozenset([group]))

    def until(some: schemas.Arrow) -> schemas.Arrow:
        return up_to(some, {3: 180})

    found = latest_windows([batch.slice(0, 50), batch.slice(50)], choose, until=until)
    chosen = choose(until(records))
    assert found.windows.equals(replay_arrow(chosen))
    assert found.records == chosen.num_rows > 0
    # The times are those of all groups, up to the moment.
    times = until(records).column("timestamp").view(pa.int64()).to_numpy()
    assert (found.first, found.last) == (times.min(), times.max())
    # Neither waits for the compiler once more: both are replayed by one form of the kernel.
    forms: Any = compile_kernel(replay_rows)
    latest_windows([batch])
    known = [*forms.signatures]
    latest_windows([batch], until=until)
    assert forms.signatures == known


@pytest.mark.parametrize("worth_it", [True, False])
def test_version_boundaries(worth_it: bool, monkeypatch: pytest.MonkeyPatch, cases: Cases) -> None:
    monkeypatch.setattr(state, "is_worth_it", lambda *_, **__: worth_it)
    apart = 0
    for seed in range(cases(20, 400)):
        random = Random(f"version {seed}")
        batch = raw(state_records(generators.ordered_sequence(random)))
        records = decode_arrow(batch).records
        last = np.array([batch.num_rows], np.int64)
        found = {}
        for version in ("4.3.1", "4.4"):
            expected = replay_arrow(records, version)
            pieces = cut(batch, random)
            found[version] = latest_windows(pieces, kafka_version=version).windows
            assert found[version].equals(expected)
            then = replay_at(records, last, version).select(expected.schema.names)
            assert then.equals(pa.Table.from_batches([expected]))
        apart += found["4.3.1"] != found["4.4"]
    assert apart > 0


@pytest.mark.parametrize("worth_it", [True, False])
def test_what_is_no_stream_becomes_tables(worth_it: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "is_worth_it", lambda *_, **__: worth_it)
    ordered = raw(generators.sequence(Random(2), keys=2, length=200))
    backward = ordered.take(pa.array(np.arange(len(ordered))[::-1]))
    moved = ordered.set_column(3, "partition", pa.array([n % 2 for n in range(len(ordered))], "i4"))
    topics = pa.array([("eu." if n % 2 else "") + STATE_TOPIC for n in range(len(ordered))])
    mixed = ordered.set_column(2, "topic", topics)
    endless = raw([generators.record(Random(2), STATE_KINDS[n % 2]) for n in range(300)])
    for batch in (ordered, backward, moved, mixed, endless):
        pieces = [batch.slice(0, 70), batch.slice(70)]
        found = latest_windows(pieces)
        assert found.windows.equals(replayed(batch))
        assert found.records == batch.num_rows


def test_no_records_no_windows() -> None:
    assert latest_windows([]).windows.num_rows == 0
    assert latest_windows([raw([(b"", b"")], GROUP_TOPIC)]).windows.num_rows == 0


def test_memory_follows_share_partitions_not_records() -> None:
    states = RunningStates()
    writes = [(-1, [StateBatch(n % 50, n % 50, 2, 1)]) for n in range(2000)]
    sizes = []
    for at in range(0, 2001, 200):
        found = decode_columns(raw(state_records(writes)).slice(at, 200), states.keys)
        states.apply(found, np.arange(len(found.key)))
        sizes.append(states.nbytes)
    assert sizes[0] == sizes[-1]


def test_what_can_be_read_once_alone_is_refused() -> None:
    with pytest.raises(TypeError, match="iterated twice"):
        latest_windows(iter([raw([(b"", b"")], GROUP_TOPIC)]))
