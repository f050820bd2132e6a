"""Raw records in folders as sinks leave them, and which task reads which piece of Parquet."""

import errno
import json
import math
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs import RawInput
from sharelag.inputs.files import pieces
from sharelag.inputs.files.parquet import reading_parquet
from sharelag.inputs.files.pieces import parquet_batches, plan, read_pieces
from sharelag.inputs.files.raw_files import Condition, RawFile, list_raw
from sharelag.inputs.recorded import folder_of
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support.captures import deny_listing
from tests.support.records import with_column

DATA = Path("tests/data")
POISON = {("poison", 0, 116), ("poison", 1, 104)}
WRITERS = "part-00000-1e2f.parquet"


def _records() -> pa.Table:
    """All raw records of a sample."""
    return pq.read_table(folder_of("poison") / "records").cast(schemas.RAW)


def _windows(path: Path | str) -> set[tuple[str, int, int]]:
    with sharelag.open(path, engine="local") as bench:
        found = bench.windows().table.select(["group_id", "partition", "start_offset"])
    return {tuple(row.values()) for row in found.to_pylist()}


def _refused(path: Path | str) -> str:
    with pytest.raises(InputError) as caught:
        list(RawInput(str(path)).batches(STATE_TOPIC))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _write(folder: Path, table: pa.Table, name: str = WRITERS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name)
    return folder / name


# ---- tables --------------------------------------------------------------------------------------
def test_a_delta_table_is_read_at_its_current_version() -> None:
    table = DATA / "delta-overwritten" / "table"
    assert _windows(table) == POISON
    assert RawInput(str(table)).size() == 94
    assert _windows(table.absolute().as_uri()) == POISON


def test_a_delta_table_by_topic_and_partition(tmp_path: Path) -> None:
    records, path = _records(), tmp_path / "a b"
    write_deltalake(path, records, partition_by=["topic", "partition"])
    more = with_column(records, "topic", pa.repeat("a b/c%é", records.num_rows))
    write_deltalake(path, more, mode="append")
    assert _windows(path) == POISON
    found = pa.Table.from_batches(RawInput(str(path)).batches(STATE_TOPIC))
    assert found.schema == schemas.RAW
    read = pa.Table.from_batches(sharelag_raw(path))
    assert set(read.column("topic").to_pylist()) == {STATE_TOPIC, GROUP_TOPIC, "a b/c%é"}
    twice = 2 * records.column("offset").to_pylist()
    assert sorted(read.column("offset").to_pylist()) == sorted(twice)


def sharelag_raw(path: Path) -> list[pa.RecordBatch]:
    """Every record of a place, of whatever topic."""
    return list(parquet_batches(list_raw(str(path))))


def _mark_delta(folder: Path, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log" / "00000000000000000000.json"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(map(json.dumps, actions)))


def _made_delta(folder: Path, feature: str, add: dict[str, Any], mode: str = "none") -> None:
    """Write a Delta table with a feature that its readers have to know."""
    path = _write(folder, _records())
    kinds = {"binary": "binary", "string": "string", "int32": "integer", "int64": "long"}
    fields = []
    for number, field in enumerate(schemas.RAW, 1):
        kind = kinds.get(str(field.type), "timestamp")
        mapping = {"id": number, "physicalName": f"col-{number}"} if mode != "none" else {}
        metadata = {f"delta.columnMapping.{name}": value for name, value in mapping.items()}
        fields.append({"name": field.name, "type": kind, "nullable": True, "metadata": metadata})
    features = {"readerFeatures": [feature], "writerFeatures": [feature]}
    about: dict[str, Any] = {"id": "1", "format": {"provider": "parquet", "options": {}}}
    about |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "createdTime": 1}
    about |= {"configuration": {} if mode == "none" else {"delta.columnMapping.mode": mode}}
    about |= {"partitionColumns": []}
    added = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size}
    added |= {"modificationTime": 1, "dataChange": True}
    _mark_delta(
        folder,
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"metaData": about}, {"add": added | add},
    )  # fmt: skip


#: A deletion vector within the log, the example of its protocol: six rows are deleted.
INLINE = {"storageType": "i", "sizeInBytes": 40, "cardinality": 6}
INLINE |= {"pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}


@pytest.mark.parametrize(
    ("feature", "add", "mode", "said"),
    [
        ("deletionVectors", {"deletionVector": INLINE}, "none", "deletion vectors"),
        ("columnMapping", {}, "name", "delta.columnMapping.mode=name"),
        ("ofTomorrow", {}, "none", "cannot be read here"),
    ],
)
def test_a_delta_table_that_cannot_be_read_says_why(
    tmp_path: Path, feature: str, add: dict[str, Any], mode: str, said: str
) -> None:
    _made_delta(tmp_path / "table", feature, add, mode)
    refused = _refused(tmp_path / "table")
    assert said in refused
    assert 'spark.read.format("delta")' in refused


def test_a_delta_table_without_some_of_its_files_says_so(tmp_path: Path) -> None:
    for _ in range(2):
        write_deltalake(tmp_path / "table", _records(), mode="append")
    next((tmp_path / "table").glob("*.parquet")).unlink()
    said = f"1 of 2 files of the Delta table {tmp_path / 'table'} are not on this machine"
    assert said in _refused(tmp_path / "table")


def test_folders_that_no_table_can_be_in_are_refused_at_once(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "table", _records())
    (tmp_path / "table").rename(tmp_path / "a%20b")  # which deltalake takes for "a b"
    assert "rename the folder with %20 in it" in _refused(tmp_path / "a%20b")
    for name in "[]^|\\":
        beside = tmp_path / f"a{name}b"
        shutil.copytree(tmp_path / "a%20b", beside)
        assert f"rename the folder with {name} in it" in _refused(beside)
    root = Path(tmp_path.anchor)
    said = f"{root} is the whole machine: give the folder with the records"
    assert _refused(root).startswith(said)
    with pytest.raises(InputError, match="the whole machine"):
        sharelag.open(root)


def test_a_home_folder_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    said = f"{tmp_path} is your home folder: give the folder with the records"
    assert _refused(tmp_path) == said
    for name in ("capture.json", "part-0.parquet", "_delta_log"):
        (tmp_path / f"of {name}" / name).mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    said += ", such as of _delta_log, of capture.json, of part-0.parquet"
    with pytest.raises(InputError, match=re.escape(said)):
        sharelag.open("~")


def test_deletion_vectors_that_no_file_has_do_no_harm(tmp_path: Path) -> None:
    _made_delta(tmp_path / "table", "deletionVectors", {})
    assert _windows(tmp_path / "table") == POISON


@pytest.mark.parametrize(
    ("mark", "name"),
    [
        (".hoodie/hoodie.properties", "Hudi"),
        ("metadata/v2.metadata.json", "Iceberg"),
        ("snapshot/LATEST", "Paimon"),
    ],
)
def test_tables_of_other_formats_are_refused_by_name(tmp_path: Path, mark: str, name: str) -> None:
    table = tmp_path / "lake" / "table"
    _write(table / "data", _records())
    (table / mark).parent.mkdir()
    (table / mark).write_text("{}")
    refused = _refused(table)
    assert f"{table} is a table of {name}" in refused
    assert f'spark.read.format("{name.lower()}")' in refused
    assert _refused(table) in _refused(table / "data")  # a part of it
    assert _refused(table) in _refused(table.parent)  # what is above it
    with pytest.raises(InputError, match=name):
        sharelag.open(table, engine="local").windows()


def test_what_is_above_or_within_a_delta_table_is_refused(tmp_path: Path) -> None:
    shutil.copytree(DATA / "delta-overwritten", tmp_path / "lake")
    table = tmp_path / "lake" / "table"
    for place in (tmp_path / "lake", next(table.glob("*.parquet"))):
        assert f"{table} is a Delta table: give that folder" in _refused(place)


def test_a_capture_as_raw_records_is_refused() -> None:
    capture = folder_of("poison")
    assert "is a capture: open it with --capture" in _refused(capture)
    assert "is a capture: open it with --capture" in _refused(capture.parent)
    assert _windows(capture / "records") == POISON


# ---- folders -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "place",
    ["", "topic=__share_group_state", "topic=__share_group_state/partition=2/part-0.parquet"],
)
def test_folders_by_topic_and_partition(place: str) -> None:
    there = DATA / "partitioned-by-topic" / "raw" / place
    assert _windows(there) == (POISON if "partition=2" not in place else {("poison", 1, 104)})
    (batch, *_) = RawInput(str(there)).batches(STATE_TOPIC)
    assert batch.schema == schemas.RAW


def test_files_by_topic_as_a_sink_of_kafka_connect_writes_them(tmp_path: Path) -> None:
    """Their names begin with the topic's, whose underscores do not hide them."""
    records = _records()
    for topic in (STATE_TOPIC, GROUP_TOPIC):
        mine = records.filter(pc.equal(records.column("topic"), topic))
        for number in pc.unique(mine.column("partition")).to_pylist():
            folder = tmp_path / "topics" / topic / f"partition={number}"
            folder.mkdir(parents=True)
            rows = mine.filter(pc.equal(mine.column("partition"), number))
            name = f"{topic}+{number}+0000000000.snappy.parquet"
            pq.write_table(rows.drop_columns(["partition"]), folder / name)
    assert _windows(tmp_path) == POISON
    for hidden in ("_temporary", "__other"):
        (tmp_path / "topics" / hidden).mkdir()
        (tmp_path / "topics" / hidden / "x.parquet").write_bytes(b"PAR1")
    assert _windows(tmp_path / "topics") == POISON


def test_values_in_names_of_folders(tmp_path: Path) -> None:
    records = _records().drop_columns(["topic", "partition"])
    _write(tmp_path / "raw" / "day=2026-11-26" / "topic=a%20b%25c%3A" / "partition=7", records)
    _write(tmp_path / "raw" / "topic=__HIVE_DEFAULT_PARTITION__" / "partition=7", records)
    found = pa.Table.from_batches(sharelag_raw(tmp_path / "raw"))
    assert found.schema == schemas.RAW
    assert set(found.column("topic").to_pylist()) == {"a b%c:", None}
    assert set(found.column("partition").to_pylist()) == {7}
    _write(tmp_path / "wrong" / f"topic={STATE_TOPIC}" / "partition=seven", records)
    assert "partition 'seven', which is not a number" in _refused(tmp_path / "wrong")


def test_columns_of_a_file_count_before_names_of_folders(tmp_path: Path) -> None:
    _write(tmp_path / "raw" / "partition=77", _records())
    assert _windows(tmp_path / "raw") == POISON


def test_files_that_nobody_has_finished_are_passed_over(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    _write(raw, _records())
    other = pq.read_table(folder_of("healthy") / "records")
    for hidden in ("_temporary/0/task", ".staging", "_started"):
        _write(raw / hidden, other)
    _write(raw, other, "_metadata")
    _write(raw, other, ".part-1.parquet.crc")
    _write(raw, other, "part-2.parquet._COPYING_")
    for name in ("_SUCCESS", "README.txt", "notes.csv"):
        (raw / name).write_text("PAR")
    assert _windows(raw) == POISON
    (raw / WRITERS).rename(raw / "000000_0")  # as Hive names files
    assert _windows(raw) == POISON


@pytest.mark.parametrize("what", ["nothing", "hidden", "other"])
def test_a_folder_without_parquet(tmp_path: Path, what: str) -> None:
    (tmp_path / "raw").mkdir()
    if what == "hidden":
        _write(tmp_path / "raw" / "_temporary", _records())
    if what == "other":
        (tmp_path / "raw" / "a.json").write_text("{}")
    assert "it holds no Parquet files. Give a Parquet file" in _refused(tmp_path / "raw")
    with pytest.raises(InputError, match="holds no capture"):
        sharelag.open(tmp_path / "raw", engine="local")


def test_what_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / "raw", _records())
    (tmp_path / "raw" / "theirs").mkdir()
    deny_listing(monkeypatch, "theirs")
    assert "theirs (denied): ask for the right to read it" in _refused(tmp_path / "raw")
    said = r"cannot read theirs \(Permission denied\): ask for"  # and not that it is damaged
    with pytest.raises(InputError, match=said), reading_parquet("theirs"):
        raise PermissionError(errno.EACCES, "Failed to open local file 'theirs'")


def test_a_file_that_is_removed_while_it_is_read_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "raw", _records())
    batches = RawInput(str(tmp_path / "raw")).batches(STATE_TOPIC)
    path.unlink()
    with pytest.raises(InputError, match="was removed while it was being read"):
        list(batches)


def test_a_link_that_leads_back_ends(tmp_path: Path) -> None:
    _write(tmp_path / "raw" / "a", _records())
    (tmp_path / "raw" / "a" / "again").symlink_to(tmp_path / "raw")
    assert _windows(tmp_path / "raw") == POISON
    assert RawInput(str(tmp_path / "raw")).size() == _records().num_rows


def test_what_a_stream_of_spark_committed(tmp_path: Path) -> None:
    raw, other = tmp_path / "raw", pq.read_table(folder_of("healthy") / "records")
    half = _records().num_rows // 2
    _write(raw, _records().slice(0, half), "part-00000-aa.c000.snappy.parquet")
    _write(raw / "day=1 2", _records().slice(half), "part-00000-bb.c000.snappy.parquet")
    _write(raw, other, "part-00000-cc.c000.snappy.parquet")  # of an attempt that failed

    def entry(path: str) -> str:
        return json.dumps({"path": f"file:///elsewhere/raw/{path}", "size": 1, "action": "add"})

    log = raw / "_spark_metadata"
    log.mkdir()
    first, second = (
        f"{at}.c000.snappy.parquet" for at in ("part-00000-aa", "day=1%202/part-00000-bb")
    )
    (log / "0").write_text(f"v1\n{entry('part-00000-zz.parquet')}")  # in none of what follows
    (log / "9.compact").write_text(f"v1\n{entry(first)}")
    (log / "9").write_text("v1\n")
    (log / "10").write_text(f"v1\n{entry(second)}")
    (log / ".10.crc").write_text("x")
    assert _windows(raw) == POISON
    (raw / first).unlink()
    assert "1 of 2 files that the log" in _refused(raw)
    (log / "11").write_text("v1\n{")
    assert "is not a log of a stream that writes files, or damaged" in _refused(raw)


# ---- columns and types ---------------------------------------------------------------------------
def _cast(**kinds: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def cast(table: pa.Table) -> pa.Table:
        for name, kind in kinds.items():
            table = with_column(table, name, table.column(name).cast(kind))
        return table

    return cast


@pytest.mark.parametrize(
    "change",
    [
        _cast(partition=pa.int64(), timestampType=pa.int8(), offset=pa.uint64()),
        _cast(key=pa.large_binary(), value=pa.large_binary(), topic=pa.large_string()),
        _cast(key=pa.binary_view(), value=pa.binary_view(), topic=pa.string_view()),
        _cast(topic=pa.dictionary(pa.int32(), pa.string())),
        _cast(timestamp=pa.timestamp("us")),
        _cast(timestamp=pa.timestamp("ns", "America/New_York")),
        lambda table: table.select(table.schema.names[::-1]),
        lambda table: table.append_column("headers", pa.nulls(table.num_rows, pa.string())),
    ],
)
def test_files_of_a_folder_differ(tmp_path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    records = _records()
    half = records.num_rows // 2
    _write(tmp_path / "raw", records.slice(0, half), "a.parquet")
    _write(tmp_path / "raw", change(records.slice(half)), "b.parquet")
    _write(tmp_path / "raw", change(records.slice(0, 0)), "c.parquet")
    assert _windows(tmp_path / "raw") == POISON


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.drop_columns("key"), "key: expected binary, got no such column"),
        (_cast(offset=pa.string()), "offset: expected int64, got string"),
    ],
)
def test_lacks_a_column(tmp_path: Path, change: Callable[[pa.Table], pa.Table], said: str) -> None:
    _write(tmp_path / "raw", _records(), "a.parquet")
    _write(tmp_path / "raw", change(_records()), "b.parquet")
    refused = _refused(tmp_path / "raw")
    assert said in refused
    assert "b.parquet" in refused


# ---- repeats -------------------------------------------------------------------------------------
def test_records_that_a_sink_wrote_twice_count_once() -> None:
    with sharelag.open(DATA / "records-twice" / "raw", engine="local") as bench:
        health, history = bench.health(), bench.history()
        assert health.table.column("records").to_pylist() == [37, 30]
        assert health.table.column("missing").to_pylist() == [0, 0]
        assert len(history.table) == 67
        said = "31 records repeat another one; each counts once"
        for answer in (health, history, bench.lag(), bench.progress(), bench.explain()):
            assert said in answer.notes
    assert _windows(DATA / "records-twice" / "raw") == POISON


def test_files_in_another_order_than_the_log(tmp_path: Path) -> None:
    records = _records()
    half = records.num_rows // 2
    _write(tmp_path / "raw", records.slice(half), "a.parquet")
    _write(tmp_path / "raw", records.slice(0, half), "b.parquet")
    with sharelag.open(tmp_path / "raw", engine="local") as bench:
        history = bench.history()
        assert (len(history.table), history.notes) == (67, ())
        assert bench.health().table.column("missing").to_pylist() == [0, 0]


def test_different_records_at_one_place_are_refused(tmp_path: Path) -> None:
    records = _records()
    _write(tmp_path / "raw", records, "a.parquet")
    other = pq.read_table(folder_of("healthy") / "records").cast(schemas.RAW)
    _write(tmp_path / "raw", other, "b.parquet")
    for ask in ("windows", "health", "lag", "members"):
        bench = sharelag.open(tmp_path / "raw", engine="local")
        with pytest.raises(InputError, match="two different records are at offset"):
            getattr(bench, ask)()


# ---- what is missing -----------------------------------------------------------------------------
def test_states_that_groups_have_and_files_lack(tmp_path: Path) -> None:
    shutil.copytree(DATA / "partitioned-by-topic" / "raw", tmp_path / "raw")
    shutil.rmtree(tmp_path / "raw" / f"topic={STATE_TOPIC}" / "partition=3")
    assert _windows(tmp_path / "raw") == {("poison", 1, 104)}
    with sharelag.open(tmp_path / "raw", engine="local") as bench:
        said = "the state of 1 share partition that their groups have initialized"
        assert any(said in one for one in bench.explain().unknown)


def test_offsets_that_are_missing_within_files(tmp_path: Path) -> None:
    records = _records()
    state = records.filter(pc.equal(records.column("topic"), STATE_TOPIC))
    rows = [row for row in range(state.num_rows) if row != 20]
    _write(tmp_path / "raw", state.take(rows))
    with sharelag.open(tmp_path / "raw", engine="local") as bench:
        assert any("1 place of the state topic" in one for one in bench.explain().unknown)


def write(path: Path, groups: list[list[int]], topic: str = STATE_TOPIC) -> str:
    """A file of row groups, each a list of the partitions of its records."""
    with pq.ParquetWriter(path, schemas.RAW) as writer:
        for number, partitions in enumerate(groups):
            rows = [
                {"key": b"k", "topic": topic, "partition": partition, "offset": 100 * number + n}
                for n, partition in enumerate(partitions)
            ]
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schemas.RAW))
    return str(path)


def read(task: list[pieces.Piece]) -> list[tuple[int, int]]:
    table = pa.Table.from_batches(read_pieces(task), schemas.RAW if not task else None)
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_TASK_BYTES", 1)


@pytest.mark.usefixtures("small_tasks")
def test_each_state_partition_is_in_one_task(tmp_path: Path) -> None:
    groups = [[n, n] for n in range(6)]
    paths = [write(tmp_path / "a.parquet", groups), write(tmp_path / "b.parquet", groups[::-1])]
    found = plan(paths, STATE_TOPIC)
    assert found.whole
    of_tasks = [read(task) for task in found.tasks]
    assert [len({partition for partition, _ in rows}) for rows in of_tasks] == [1] * 6
    assert sorted(row for rows in of_tasks for row in rows) == sorted(
        (partition, 100 * number + n)
        for order in (groups, groups[::-1])
        for number, partitions in enumerate(order)
        for n, partition in enumerate(partitions)
    )
    # In the order of the files, which is that of the log.
    assert read(found.tasks[0]) == [(0, 0), (0, 1), (0, 500), (0, 501)]


@pytest.mark.usefixtures("small_tasks")
def test_a_chain_of_shared_partitions_stays_together(tmp_path: Path) -> None:
    groups = [[0, 1], [1, 2], [2, 3], *([n] * 2 for n in range(4, 30))]
    found = plan([write(tmp_path / "a.parquet", groups)], STATE_TOPIC)
    assert found.whole
    assert sorted(len(task) for task in found.tasks)[-2:] == [1, 3]


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("hot", [[[7] * 9] * 9 + [[8]], [[0, 9]] * 5])
def test_a_hot_partition_is_divided_without_loss(tmp_path: Path, hot: list[list[int]]) -> None:
    found = plan([write(tmp_path / "a.parquet", hot)], STATE_TOPIC)
    assert not found.whole
    assert len(found.tasks) == len(hot)
    assert sum(len(read(task)) for task in found.tasks) == sum(map(len, hot))


def test_what_is_small_is_one_task(tmp_path: Path) -> None:
    found = plan([write(tmp_path / "a.parquet", [[3], [0, 9], [5]])], STATE_TOPIC)
    assert (found.whole, len(found.tasks)) == (True, 1)


def test_row_groups_of_other_topics_are_not_read(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "groups.parquet", [[0], [1]], GROUP_TOPIC),
        write(tmp_path / "states.parquet", [[0]], f"mirror.{STATE_TOPIC}"),
    ]
    planned = plan(paths, STATE_TOPIC).tasks
    assert [piece.file.path for task in planned for piece in task] == paths[1:]
    assert plan(paths[:1], STATE_TOPIC).tasks == []


@pytest.mark.parametrize(
    ("condition", "row_groups", "offsets"),
    [
        (("partition", "==", 1), [1], [100, 101]),
        (("partition", "in", (0, 2)), [0, 2], [0, 1, 200, 201]),
        (("offset", ">", 101), [2], [200, 201]),
        (("offset", ">=", 101), [1, 2], [101, 200, 201]),
        (("offset", "<", 100), [0], [0, 1]),
        (("offset", "<=", 100), [0, 1], [0, 1, 100]),
        (("topic", "==", "orders"), [], []),
        (("timestamp", "<", datetime(2027, 1, 1, tzinfo=UTC)), [0, 1, 2], []),  # nulls
    ],
)
def test_row_groups_without_rows_that_meet_conditions_are_not_read(
    tmp_path: Path, condition: Condition, row_groups: list[int], offsets: list[int]
) -> None:
    path = write(tmp_path / "a.parquet", [[0, 0], [1, 1], [2, 2]])
    tasks = plan([RawFile(path, where=(condition,))], STATE_TOPIC).tasks
    assert [piece.row_group for task in tasks for piece in task] == row_groups
    assert [offset for task in tasks for _, offset in read(task)] == offsets


def test_a_time_without_its_zone_rules_no_row_group_out(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "a.parquet", [[0, 0]]))
    at = table.schema.names.index("timestamp")
    times = pa.array([datetime(2026, 1, 1), datetime(2026, 1, 3)])
    pq.write_table(table.set_column(at, "timestamp", times), tmp_path / "b.parquet")
    where = (("timestamp", "<", datetime(2026, 1, 2, tzinfo=UTC)),)
    (task,) = plan([RawFile(str(tmp_path / "b.parquet"), where=where)], STATE_TOPIC).tasks
    assert read(task) == [(0, 0)]


def test_files_without_statistics_are_read_as_a_whole(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "a.parquet", [[0], [1]]))
    pq.write_table(table, tmp_path / "b.parquet", write_statistics=False, row_group_size=1)
    found = plan([str(tmp_path / "b.parquet")], STATE_TOPIC)
    assert [len(task) for task in found.tasks] == [2]


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("name", ["partition", "topic"])
def test_a_field_of_a_struct_with_our_name_is_not_our_column(tmp_path: Path, name: str) -> None:
    table = pq.read_table(write(tmp_path / "a.parquet", [[n % 6] for n in range(12)]))
    other = pa.array([{name: "other" if name == "topic" else n} for n in range(12)])
    pq.write_table(table.append_column("more", other), tmp_path / "b.parquet", row_group_size=1)
    found = plan([str(tmp_path / "b.parquet")], STATE_TOPIC)
    of_tasks = [[partition for partition, _ in read(task)] for task in found.tasks]
    assert of_tasks == [[n, n] for n in range(6)]


@pytest.mark.usefixtures("small_tasks")
def test_null_partitions_may_be_any_partition(tmp_path: Path) -> None:
    rows = [{"topic": STATE_TOPIC, "partition": n} for n in (0, 0, 1, None, 2, 2)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schemas.RAW), path, row_group_size=2)
    found = plan([str(path)], STATE_TOPIC)
    reach = [(one.first, one.last) for task in found.tasks for one in task]
    assert reach == [(0, 0), (-math.inf, math.inf), (2, 2)]
    assert not found.whole  # together they are all that there is


def test_null_topics_may_be_any_topic(tmp_path: Path) -> None:
    rows = [{"topic": topic, "partition": 0} for topic in (GROUP_TOPIC, None)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schemas.RAW), path)
    assert [len(task) for task in plan([str(path)], STATE_TOPIC).tasks] == [1]


@pytest.mark.parametrize(
    "after",
    [[[1]], [[1], [2], [3]], [[1], [2, 2]], [[1], [3]], []],
    ids=["a group less", "a group more", "a record more", "another partition", "cut short"],
)
def test_a_file_changed_after_the_plan_is_an_error(tmp_path: Path, after: list[list[int]]) -> None:
    path = Path(write(tmp_path / "a.parquet", [[1], [2]]))
    (task,) = plan([str(path)], STATE_TOPIC).tasks
    assert len(read(task)) == 2
    if after:
        write(path, after)
    else:
        path.write_bytes(path.read_bytes()[:-20])
    said = r"a\.parquet changed while it was being read: open the input again"
    with pytest.raises(InputError, match=said):
        read(task)


def test_large_records_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    place = {"key": b"k", "topic": STATE_TOPIC, "partition": 0}
    rows = [place | {"value": bytes([n]) * 1_000_000, "offset": n} for n in range(20)]
    path = str(tmp_path / "large.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema=schemas.RAW), path, use_dictionary=["topic"])
    (task,) = plan([path], STATE_TOPIC).tasks
    for batches in (list(read_pieces(task)), list(parquet_batches([path]))):
        assert max(batch.nbytes for batch in batches) < 10_000_000
        assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(20))
