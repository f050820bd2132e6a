"""Is a damaged record of today never taken for one of an older generation?"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag import open as open_workbench
from sharelag import schemas
from sharelag.replay import replay_arrow
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, decode_arrow, encode_record
from sharelag.wire.generations import TODAY
from tests.support import generators, older_records
from tests.support.cases import few_of
from tests.support.columns import with_column
from tests.support.generations import raw_of, window
from tests.support.older_records import control
from tests.support.records import raw, raw_file, row
from tests.support.walk import WALK

CAPTURES = Path(__file__).parents[3] / "data" / "captures"
RECORDED = [CAPTURES / "chapters", *sorted((CAPTURES / "scenarios").iterdir())]

Pair = tuple[bytes, bytes | None]


def recorded(capture: Path) -> pa.Table:
    table = pq.read_table(capture / "records").cast(schemas.RAW)
    return table.filter(pc.ends_with(table.column("topic"), STATE_TOPIC))


def pairs_of(table: pa.Table) -> list[Pair]:
    return [(row["key"], row["value"]) for row in table.select(["key", "value"]).to_pylist()]


def prefixes(pairs: Iterable[Pair]) -> list[Pair]:
    return [(key, value[:end]) for key, value in pairs if value for end in range(len(value))]


def snapshot(epoch: int, leader: int, start: int, *batches: tuple[int, int, int, int]) -> Pair:
    changes = {"snapshot_epoch": epoch, "state_epoch": 0, "leader_epoch": leader}
    changes |= {"create_timestamp": 4, "write_timestamp": 4}
    return encode_record(SHARE_SNAPSHOT, row(start, batches, **changes))


def update(leader: int, start: int, *batches: tuple[int, int, int, int]) -> Pair:
    return encode_record(SHARE_UPDATE, row(start, batches, leader_epoch=leader))


def same_as_today(pairs: list[Pair]) -> None:
    """Assert that every record is a reject, and that the rejects are those of today's format."""
    found, today = (decode_arrow(raw(pairs), generation=number) for number in (None, TODAY))
    assert found.records.num_rows == 0
    assert found.rejects.equals(today.rejects)
    assert found.rejects.num_rows == len(pairs)


@pytest.mark.parametrize(
    "capture", few_of(RECORDED, RECORDED[::6]), ids=lambda capture: capture.name
)
def test_every_beginning_of_a_recorded_record_is_a_reject(capture: Path) -> None:
    whole = pairs_of(recorded(capture))
    cut = prefixes(whole)
    same_as_today(cut)
    found = decode_arrow(raw([*whole, *cut]))
    assert found.rejects.num_rows == len(cut)
    assert found.records.column("generation").null_count == len(whole)


def test_beginnings_of_records_whose_epochs_are_0_are_rejects() -> None:
    random = Random("beginnings")
    starts = [-1, 0, 100, 256, 300, 512, 768, 33024, 33280, 65535, 65792, 2**32 + 512]
    whole: list[Pair] = []
    for start in starts:
        for leader in (0, 1, 2, 300):
            for count in (0, 1, 2, 3, 5, 127, 130):
                batches = [(n, n, random.choice([0, 2, 4]), n % 5) for n in range(count)]
                times = {"create_timestamp": random.choice([0, 5, 2**40, 2**40 + 2])}
                changes = {"state_epoch": leader, "leader_epoch": leader} | times
                whole.append(encode_record(SHARE_SNAPSHOT, row(start, batches, **changes)))
                whole.append(update(leader, start, *batches))
    # What is cut later has whole batches before the cut, as recorded ones have.
    same_as_today([pair for pair in prefixes(whole) if pair[1] is not None and len(pair[1]) < 100])


@pytest.mark.parametrize(
    ("cut", "end"),
    [
        (snapshot(1, 0, 300), 16),
        (snapshot(0, 0, 256), 22),
        (snapshot(0, 0, 512, (0, 9, 2, 1)), 42),
        (update(0, 256), 18),
        (update(0, 512, (3, 9, 2, 0)), 38),
        (update(0, 512, (3, 9, 2, 1)), 41),
    ],
)
def test_a_damaged_record_does_not_move_a_window(cut: Pair, end: int) -> None:
    assert cut[1] is not None
    pairs = [snapshot(0, 0, 0, (0, 9, 0, 1)), update(0, 100), (cut[0], cut[1][:end])]
    found = decode_arrow(raw(pairs))
    assert found.rejects.num_rows == 1
    assert replay_arrow(found.records).to_pylist()[0]["start_offset"] == 100


@pytest.mark.parametrize("most_updates", [2, 500])
@pytest.mark.parametrize("generation", [0, 1, 2, 3, TODAY])
def test_a_record_cut_anywhere_is_a_reject(generation: int, most_updates: int) -> None:
    whole = raw_of(WALK.values(), generation, most_updates).to_pylist()
    logs: list[dict[str, Any]] = []
    cut: list[tuple[int, int]] = []
    ends = [(at, end) for at in range(8) for end in range(len(whole[at]["value"]))]
    for at, end in ends:
        log = [{**each, "partition": len(cut)} for each in whole]
        log[at]["value"] = log[at]["value"][:end]
        cut.append((len(cut), log[at]["offset"]))
        logs += log
    found = decode_arrow(pa.RecordBatch.from_pylist(logs, schema=schemas.RAW))
    places = (found.rejects.column(name).to_pylist() for name in ("record_partition", "offset"))
    assert list(zip(*places, strict=True)) == cut
    assert found.records.num_rows == len(logs) - len(cut)


def test_snapshots_of_kafka_4_0_that_are_cut_anywhere_are_rejects() -> None:
    random = Random("4.0")
    rows = []
    for at in range(400):
        start = random.randrange(10 ** random.randint(1, 11))
        batches = [(start + n, start + n, random.choice([0, 2, 4]), 1) for n in range(at % 4)]
        epochs = {"state_epoch": random.randint(0, 9), "leader_epoch": random.randint(0, 300)}
        rows.append(older_records.row(3, at, 0, start, batches, random.randint(0, 9), **epochs))
    cut = prefixes(pairs_of(pa.table(older_records.raw(rows))))
    assert decode_arrow(raw(cut)).rejects.num_rows == len(cut)


def test_a_damaged_snapshot_of_kafka_4_0_does_not_move_a_window(tmp_path: Path) -> None:
    written = raw_of(WALK.values(), 3, 2).to_pylist()[:7]
    before = window(pa.RecordBatch.from_pylist(written[:6], schema=schemas.RAW))
    written[6]["value"] = written[6]["value"][:16]
    found = pa.RecordBatch.from_pylist(written, schema=schemas.RAW)
    assert written[6]["key"][:2] == b"\0\0"
    assert decode_arrow(found).rejects.num_rows == 1
    after = window(found)
    assert before is not None
    assert after is not None
    assert after["start_offset"] == before["start_offset"]
    health = open_workbench(raw_file(tmp_path, found), engine="local").health().table.to_pylist()
    assert [(row["rejects"], row["generations"]) for row in health] == [(1, ["G3"])]


def test_a_checkpoint_that_may_be_a_cut_snapshot_is_older_only_before_those() -> None:
    def kinds(*rows: dict[str, Any], generation: int | None = None) -> list[int]:
        found = decode_arrow(older_records.raw([*rows]), generation=generation).records
        return found.column("generation").to_pylist()  # type: ignore[no-any-return]

    either = older_records.row(2, 130, 0, 2**32 + 2, [], 1)
    delta = older_records.row(2, 131, 1, None, [(0, 4, 0, 1)], 1)
    epochs = {"state_epoch": 1, "leader_epoch": 2}
    kafkas = [older_records.row(3, at, 0, 7, [], 1, **epochs) for at in (129, 132)]
    assert kinds(either) == []
    assert kinds(either, generation=2) == [2]
    assert kinds(either, delta) == [2, 2]
    assert kinds(either, delta, kafkas[1]) == [2, 2, 3]
    assert kinds(kafkas[0], either, delta) == [3, 2]
    assert kinds(older_records.row(2, 130, 0, 2**32 + 70_000, [], 1)) == [2]


def damaged(folder: Path, end: int) -> Path:
    """A copy of the demo capture with every seventh record cut, at the latest before its end."""
    target = folder / "capture"
    shutil.copytree(CAPTURES / "chapters", target)
    table = pq.read_table(target / "records")
    values = table.column("value").to_pylist()
    topics = table.column("topic").to_pylist()
    for at in range(0, len(values), 7):
        if topics[at] == STATE_TOPIC and values[at]:
            values[at] = values[at][: min(end, len(values[at]) - 1)]
    (part,) = (target / "records").glob("*.parquet")
    pq.write_table(with_column(table, "value", pa.array(values)), part)
    return target


def test_the_lag_of_a_damaged_capture_is_that_of_its_other_records(tmp_path: Path) -> None:
    lags = []
    for end in (1, 16, 18, 22, 40, 42):
        capture = damaged(tmp_path / str(end), end)
        bench = open_workbench(capture, engine="local")
        lags.append((bench.lag().table, sum(bench.health().table.column("rejects").to_pylist())))
    assert lags[0][1] > 0
    for table, rejects in lags[1:]:
        assert table.equals(lags[0][0])
        assert rejects == lags[0][1]


# ---- what may be either --------------------------------------------------------------------------
@pytest.mark.parametrize("generation", [2, 3])
def test_a_record_that_may_be_either_is_older_only_beside_older_ones(generation: int) -> None:
    epochs = {"state_epoch": 0, "leader_epoch": 0} if generation == 3 else {}
    either = older_records.row(generation, 130, 0, 0, [], 0, **epochs)
    delta = older_records.row(generation, 131, 1, None, [(0, 4, 0, 1)], 0, **epochs)
    alone = older_records.raw([either])
    assert decode_arrow(alone).rejects.num_rows == 1
    given = decode_arrow(alone, generation=generation)
    assert given.records.column("generation").to_pylist() == [generation]
    beside = decode_arrow(older_records.raw([either, delta]))
    assert beside.records.column("generation").to_pylist() == [generation] * 2
    elsewhere = older_records.raw([either, delta | {"record_partition": 1}])
    assert decode_arrow(elsewhere).rejects.column("offset").to_pylist() == [130]
    today = raw([snapshot(0, 0, 7)]).to_pylist()[0] | {"partition": 0, "offset": 129}
    after = pa.RecordBatch.from_pylist(
        [*older_records.raw([either, delta]).to_pylist(), today], schema=schemas.RAW
    )
    assert decode_arrow(after).rejects.column("offset").to_pylist() == [130]


@pytest.mark.parametrize("number", ["start", "first", "state", "count"])
def test_a_record_with_numbers_that_nobody_writes_is_not_older(number: str) -> None:
    batch = {"first": (2**62, 2**62, 0, 1), "state": (0, 4, 3, 1), "count": (0, 4, 0, 256)}
    start = 2**62 if number == "start" else 0
    rows = [older_records.row(3, 130, 0, start, [batch.get(number, (0, 4, 0, 1))], 0)]
    rows[0] |= {"state_epoch": 1, "leader_epoch": 1}
    written = older_records.raw(rows)
    found, today = decode_arrow(written), decode_arrow(written, generation=TODAY)
    assert found.records.equals(today.records)
    assert found.rejects.equals(today.rejects)
    rows[0] |= {"start_offset": 0} | {"state_batches": []}
    assert decode_arrow(older_records.raw(rows)).records.column("generation").to_pylist() == [3]


# ---- control records -----------------------------------------------------------------------------
def test_a_checkpoints_generation_does_not_depend_on_the_records_beside_it() -> None:
    for rows, expected in ((control(0), [1, *[0] * 7]), (control(1), [1] * 8)):
        whole = decode_arrow(older_records.raw(rows)).records.column("generation").to_pylist()
        alone = [decode_arrow(older_records.raw([each])).records for each in rows]
        parts = [found.column("generation")[0].as_py() for found in alone]
        assert whole == parts == expected
    requested = decode_arrow(older_records.raw(control(0)), generation=0).records
    assert requested.column("generation").to_pylist() == [0] * 8


def changed(batch: pa.RecordBatch, **columns: Any) -> pa.RecordBatch:
    rows = [{**each, **{name: of(each[name]) for name, of in columns.items()}}
            for each in batch.to_pylist()]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def test_what_is_no_control_record_is_skipped_unless_it_is_asked_for() -> None:
    """Keys of small integers are users' records, and internal topics have none."""
    short = changed(older_records.raw(control(1)), key=lambda key: key[:4])
    internal = changed(raw_of([(0, [])], 1), topic=lambda _: "__transaction_state")
    for batch, asked in ((short, 0), (internal, 1)):
        assert decode_arrow(batch).skipped == batch.num_rows
        assert decode_arrow(batch, generation=1).skipped == asked
    assert decode_arrow(short, generation=1).records.num_rows == short.num_rows


def test_random_records_of_today_are_never_older() -> None:
    random = Random("today")
    pairs = [generators.record(random) for _ in range(300)]
    cut = prefixes(pairs)
    found = decode_arrow(raw(random.sample(cut, min(len(cut), 20_000))))
    assert found.records.column("generation").null_count == found.records.num_rows
