"""Small files that claim to be huge, and links that lead elsewhere, are refused."""

import json
import math
import os
import random
import resource
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files import parquet, pieces
from sharelag.inputs.files.archive import DATA, VIEWS, ArchiveInput, begin, commit, write_parquet
from sharelag.inputs.files.parquet import read_table, reading_parquet
from sharelag.inputs.files.raw_files import of_paths
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.queues import queue_of
from sharelag.inputs.spark import files
from sharelag.schemas import WITH_HEADERS
from sharelag.wire import STATE_TOPIC
from tests.support.captures import describe
from tests.support.cases import few_of
from tests.support.memory import peak_of
from tests.support.parquet import flip_in_a_page
from tests.support.records import with_column
from tests.support.reliability import Inject

CAPTURE = Path(__file__).parents[3] / "data" / "captures" / "scenarios" / "window_full"
RECORDS = "records/part-0.parquet"
_PAGES = "a bit of an archive's pages is flipped"
_NUMBERS = schemas.RAW.set(5, pa.field("timestamp", pa.int64()))
#: How a value that repeats takes the least of a file.
PACKED: dict[str, Any] = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30}
PACKED |= {"write_statistics": False}
#: What a refusal may need beyond what the process had: megabytes.
MOST_MB = 300


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CAPTURE, tmp_path / "capture"))


def _same(path: Path, rows: int, value: bytes = b"v") -> int:
    """Write rows that are all the same, and return the size of the file."""
    short, long = pa.array(np.zeros(rows, np.int32)), pa.array(np.zeros(rows, np.int64))
    of_one = (pa.array([one]) for one in (value, value, STATE_TOPIC))
    texts = [pa.DictionaryArray.from_arrays(short, one) for one in of_one]
    columns = [*texts, short, long, long.view(schemas.TIMESTAMP), short]
    table = pa.table(columns, names=schemas.RAW.names)
    pq.write_table(table, path, store_schema=False, **PACKED)
    return path.stat().st_size


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize(("rows", "value"), [(30_000_000, b"v"), (20_000, bytes(1 << 20))])
def test_records_that_fill_the_memory_are_refused(rows: int, value: bytes, capture: Path) -> None:
    """Millions of rows, or one value of a megabyte in each, in a file of some kilobytes."""
    assert _same(capture / RECORDS, rows, value) < 1 << 20
    before = _peak_mb()
    for source in (capture, capture / RECORDS):
        with pytest.raises(InputError, match=r"part-0\.parquet .* no writer produces that"):
            sharelag.open(str(source), engine="local").windows()
    with pytest.raises(InputError, match="no writer produces that"):
        _read_in_pieces(capture / RECORDS)
    assert _peak_mb() - before < MOST_MB


def test_large_values_are_read_a_few_at_a_time(capture: Path) -> None:
    size = _same(capture / RECORDS, 20, bytes(range(256)) * 4096)
    assert size < 1 << 20
    with sharelag.open(str(capture), engine="local") as bench:
        health = bench.health()
    # they are all at one place
    assert health.table.column("rejects").to_pylist() == [1]
    assert "19 records repeat another one; each counts once" in health.notes


def test_a_table_of_a_capture_that_would_fill_the_memory_is_refused(capture: Path) -> None:
    table = pq.read_table(capture / "offsets.parquet").slice(0, 1)
    rows = pa.concat_tables([table] * 1000).combine_chunks()
    with pq.ParquetWriter(capture / "offsets.parquet", table.schema, compression="zstd") as file:
        file.write_table(pa.concat_tables([rows] * 3000).combine_chunks())
    assert (capture / "offsets.parquet").stat().st_size < 150_000
    with pytest.raises(InputError, match=r"offsets\.parquet has .* no writer produces that"):
        sharelag.open(str(capture), engine="local").lag()


def test_a_contradictory_footer_does_not_end_it(capture: Path, cases: Any) -> None:
    """What pyarrow does when it is asked about such a column; seeds where it does."""
    path = capture / RECORDS
    table = pq.read_table(path).cast(schemas.RAW)
    write_parquet(path, table.schema, table.to_batches())
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    count, unread = cases(60, 20_000), 0
    refused: list[str] = []
    for seed in range(count):
        chance, octets = random.Random(seed), bytearray(whole)
        for _ in range(2):
            octets[len(whole) - 8 - length + chance.randrange(length)] ^= 1 << chance.randrange(8)
        path.write_bytes(octets)
        try:
            with reading_parquet(path):
                parquet.rows_within(path, pq.read_metadata(path), [0], 1000)
        except InputError:
            unread += 1
        try:
            _read_in_pieces(capture / RECORDS)
        except InputError as error:
            refused.append(str(error))
    assert count / 6 < unread < len(refused) < count
    assert all(path.name in said for said in refused)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[pq.ParquetFile]:
    """The Parquet files that are opened, kept so that only who opens one closes it."""
    files: list[pq.ParquetFile] = []
    really = pq.ParquetFile

    def kept(*arguments: Any, **options: Any) -> pq.ParquetFile:
        files.append(really(*arguments, **options))
        return files[-1]

    monkeypatch.setattr(pq, "ParquetFile", kept)
    return files


def test_files_are_closed_always(capture: Path, opened: list[pq.ParquetFile]) -> None:
    """Where many files are refused, a process would otherwise run out of descriptors."""
    path = capture / RECORDS
    table = pq.read_table(path)
    opened.clear()
    (task,) = pieces.plan([str(path)], STATE_TOPIC).tasks
    assert [file.closed for file in opened] == [True]
    octets = bytearray(path.read_bytes())
    end = len(octets) - 8 - int.from_bytes(octets[-8:-4], "little")
    octets[4:end] = bytes(end - 4)  # its footer is still the one that was planned with
    path.write_bytes(octets)
    with pytest.raises(InputError, match="is damaged"):
        list(pieces.read_pieces(task))
    pq.write_table(table.drop(["topic"]), path)
    with pytest.raises(InputError, match="changed while it was being read"):
        list(pieces.read_pieces(task))
    with pytest.raises(InputError, match="topic"):
        pieces.plan([str(path)], STATE_TOPIC)
    assert [file.closed for file in opened] == [True] * 4


def test_a_plan_reads_each_row_group_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "many.parquet", []

    def note(file: pq.ParquetFile, number: int, names: list[str]) -> pq.RowGroupMetaData:
        read.append(number)
        return parquet.readable_group(file, number, names)

    table = pq.read_table(CAPTURE / RECORDS, filters=[("topic", "=", STATE_TOPIC)])
    pq.write_table(table, path, row_group_size=math.ceil(len(table) / 7))
    monkeypatch.setattr(pieces, "readable_group", note)
    planned = pieces.plan([str(path)], STATE_TOPIC)
    assert read == [*range(7)]
    assert sum(piece.rows for task in planned.tasks for piece in task) == len(table)


def _read_by_this_process(path: Path) -> list[pa.RecordBatch]:
    return list(pieces.parquet_batches([str(path)]))


def _read_in_pieces(path: Path) -> list[pa.RecordBatch]:
    tasks = pieces.plan([str(path)], STATE_TOPIC).tasks
    return [batch for task in tasks for batch in pieces.read_pieces(task)]


def _archive_of(path: Path, folder: Path) -> Path:
    begin(folder, "cluster", {STATE_TOPIC: [0]}, client_config("b:1"))
    place = f"records/source={STATE_TOPIC}/day=2026-11-21/{0:012d}.parquet"
    assert commit(folder, {place: path}, batch=0, day="2026-11-21")
    return folder


def _read_from_an_archive(path: Path) -> list[pa.RecordBatch]:
    return list(ArchiveInput(_archive_of(path, path.parent / "archive")).batches(STATE_TOPIC))


@pytest.mark.parametrize(
    "read",
    few_of([_read_by_this_process, _read_in_pieces, _read_from_an_archive], [_read_in_pieces]),
)
def test_many_row_groups_cost_no_more_than_few(
    read: Callable[[Path], list[pa.RecordBatch]],
    tmp_path: Path,
    opened: list[pq.ParquetFile],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A footer is as long as it has row groups, and a batch of one row costs as one of thousands.

    Both were once so for each group: 200 of 4,000 groups took 5 GB of memory.
    """
    path, footers = tmp_path / "many.parquet", []
    really = pq.read_metadata

    def noted(where: Any) -> pq.FileMetaData:
        footers.append(where)
        return really(where)

    state = pq.read_table(CAPTURE / RECORDS, filters=[("topic", "=", STATE_TOPIC)])
    table = pa.concat_tables([state.cast(schemas.RAW)] * math.ceil(600 / len(state)))
    pq.write_table(table.slice(0, 600), path, row_group_size=1)
    opened.clear()
    monkeypatch.setattr(pq, "read_metadata", noted)
    batches = read(path)
    assert pa.Table.from_batches(batches).cast(schemas.RAW).equals(table.slice(0, 600))
    assert len(batches) < 4
    assert len(opened) + len(footers) < 6


def test_a_queue_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    table = WITH_HEADERS.empty_table()
    path = tmp_path / "queue.parquet"
    pq.write_table(table.append_column("key", table.column("key")), path)
    with pytest.raises(InputError, match=r"queue\.parquet: .* key: expected binary, got 2 columns"):
        list(queue_of(None, path).batches())


def test_tasks_read_each_file_at_a_time(tmp_path: Path, opened: list[pq.ParquetFile]) -> None:
    """Also where several files have the same partitions, each in a row group of its own."""
    table = pq.read_table(CAPTURE / RECORDS, filters=[("topic", "=", STATE_TOPIC)]).slice(0, 1)
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for path in paths:
        with pq.ParquetWriter(path, table.schema) as file:
            for partition in range(20):
                number = pa.array([partition], pa.int32())
                file.write_table(with_column(table, "partition", number))
    (task,) = pieces.plan(paths, STATE_TOPIC).tasks
    opened.clear()
    assert sum(batch.num_rows for batch in pieces.read_pieces(task)) == 40
    assert len(opened) == 4


@pytest.mark.parametrize("name", ["offsets.parquet", RECORDS, "records", "capture.json"])
def test_links_of_a_capture_lead_nowhere_else(name: str, capture: Path, tmp_path: Path) -> None:
    (capture / name).rename(tmp_path / "elsewhere")
    (capture / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="a link that leads out of"):
        sharelag.open(str(capture), engine="local").lag()


@pytest.mark.parametrize("name", ["offsets.parquet", RECORDS, "capture.json", "times.parquet"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("gone")])
def test_what_is_in_the_place_of_a_file_is_refused(name: str, make: Any, capture: Path) -> None:
    (capture / name).unlink(missing_ok=True)
    make(capture / name)
    with pytest.raises(InputError, match=f"{name} is not a file|has no {name}|cannot read Pa"):
        sharelag.open(str(capture), engine="local").lag()


def test_a_name_that_is_no_text_is_refused(capture: Path) -> None:
    (capture / RECORDS).rename(capture / "records" / os.fsdecode(b"\xff\x1b[31m.parquet"))
    with pytest.raises(InputError, match=r"'.*\\udcff\\x1b\[31m.parquet' is not a name"):
        sharelag.open(str(capture), engine="local").lag()


def test_a_capture_names_topics_and_no_files(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.parquet").write_bytes(b"PAR1")
    topics = json.loads((capture / "capture.json").read_text())["topics"]
    topics["../../secret.parquet"] = {"partitions": 1}
    describe(capture, cluster_id="../../secret", topics=topics, records=["../../secret.parquet"])
    before = set(tmp_path.rglob("*"))
    with sharelag.open(str(capture), engine="local") as bench:
        assert len(bench.lag()) == 1
    assert set(tmp_path.rglob("*")) == before


# ---- archives ------------------------------------------------------------------------------------
@pytest.fixture
def archive(tmp_path: Path) -> Path:
    table = pq.read_table(CAPTURE / RECORDS).cast(schemas.RAW)
    write_parquet(tmp_path / "file.parquet", table.schema, table.to_batches())
    folder = _archive_of(tmp_path / "file.parquet", tmp_path / "archive")
    assert ArchiveInput(folder).size() == table.num_rows
    return folder


@pytest.mark.parametrize("target", ["..", "../..", ".views/../..", ".views/x", "/etc"])
def test_the_link_of_an_archive_leads_nowhere_else(target: str, archive: Path) -> None:
    (archive / DATA).unlink()
    (archive / DATA).symlink_to(target)
    (archive / "view.json").write_text('{"batch": 0, "day": ""}')
    try:
        assert list(ArchiveInput(archive).batches(STATE_TOPIC)) == []
    except InputError as error:
        refused = str(error)
        assert "damaged archive" in refused


def _archived(folder: Path) -> list[tuple[Any, ...]]:
    """Every record of an archive, its time as a number: not every one has a date."""
    return [
        tuple(column.to_pylist())
        for batch in ArchiveInput(folder).batches(STATE_TOPIC)
        for column in batch.cast(_NUMBERS).columns
    ]


@pytest.mark.parametrize("kind", ["a file of an archive is damaged", _PAGES])
def test_damaged_archives_are_the_same_records_or_refused(
    kind: str, archive: Path, tmp_path: Path, cases: Any, injected: Inject
) -> None:
    count = cases(50, 5000)
    files = [path.relative_to(archive) for path in archive.rglob("*") if path.is_file()]
    files = [path for path in files if not {".lock", ".staging"} & {*path.parts}]
    assert len(files) == 3
    if kind == _PAGES:
        files = [path for path in files if path.suffix == ".parquet"]
    whole = _archived(archive)
    told, others = Counter[str](), []
    for seed in range(count):
        chance = random.Random(seed)
        folder = Path(shutil.copytree(archive, tmp_path / str(seed), symlinks=True))
        path = folder / chance.choice(files)
        octets = bytearray(path.read_bytes())
        path.unlink()  # its links in other views keep what they have
        if kind == _PAGES:
            path.write_bytes(octets)
            flip_in_a_page(path, chance)
        else:
            for _ in range(chance.choice([1, 4, 40])):
                octets[chance.randrange(len(octets))] ^= 1 << chance.randrange(8)
            cut = len(octets) if chance.random() < 0.7 else chance.randrange(len(octets))
            path.write_bytes(octets[:cut])
        try:
            found = _archived(folder)
        except InputError as error:
            told["refused, with the file"] += 1
            said = str(error)
            assert "\n" not in said, seed
            assert folder.name in said, (seed, said)
        else:
            told["read, all the same" if found == whole else "other records"] += 1
            others += [seed] if found != whole else []
        shutil.rmtree(folder)
    assert min(told["read, all the same"], told["refused, with the file"]) > count / 25
    injected("records", kind, count, told, lost=len(others), wrong=len(others))
    assert others == []
    assert (archive / VIEWS).is_dir()


@pytest.mark.parametrize(
    ("kind", "size", "rows"),
    [
        (pa.string(), 1 << 20, 1100),
        (pa.large_string(), 1 << 20, 1100),
        (pa.string(), 4 << 20, 1000),  # which a reader would take at once
        (pa.binary(), 2 << 10, 600_000),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_dictionary", [False, True])
def test_a_long_name_in_each_row_is_refused(
    kind: pa.DataType, size: int, rows: int, is_dictionary: bool, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.parquet"
    name = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array(["t" * size], kind))
    table = pa.table({"topic": name, "partition": np.zeros(rows, np.int32)})
    # Without its schema it is read as plain texts.
    pq.write_table(table, path, store_schema=is_dictionary, **PACKED)
    assert path.stat().st_size < 10_000

    def read() -> None:
        with pytest.raises(InputError, match=r"offsets\.parquet .* more than 1,024 MiB: no writer"):
            read_table(path, table.schema)

    assert peak_of(read) < 64 << 20


def test_a_list_of_many_numbers_is_refused_and_not_read_where_nobody_asks(tmp_path: Path) -> None:
    path = tmp_path / "leaders.parquet"

    def write(length: int) -> pa.Table:
        lists = pa.ListArray.from_arrays([0, length], np.zeros(length, np.int32))
        table = pa.table({"topic": ["orders"], "replicas": lists})
        pq.write_table(table, path, compression="zstd", use_dictionary=True)
        assert path.stat().st_size < 50_000
        return table

    most = write(1_000_000)
    assert read_table(path, most.schema).equals(most)
    table = write(1 << 23)

    def refused() -> None:
        with pytest.raises(InputError, match=r"leaders\.parquet .* 8,388,608 values in lists: n"):
            read_table(path, table.schema)

    def read() -> None:
        found = read_table(path, table.schema.remove(1))
        assert found.equals(table.select(["topic"]))

    assert max(peak_of(refused), peak_of(read)) < 16 << 20


def test_names_that_repeat_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "offsets.parquet"
    names = ["orders", None, "orders", "", "größe"] * 1000
    table = pa.table({"topic": names, "key": pa.array([b"\xff", None, b"", b"k", b"k"] * 1000)})
    pq.write_table(table, path)
    found = read_table(path, table.schema)
    assert found.schema.equals(table.schema, check_metadata=True)
    assert found.equals(table)


def _write(path: Path, rows: int, value: bytes) -> None:
    """Write rows that share a value, of which the file has one."""
    row = {"key": b"k", "value": value, "topic": STATE_TOPIC, "partition": 0, "timestampType": 0}
    table = pa.Table.from_pylist([{**row, "offset": n} for n in range(rows)], schemas.RAW)
    pq.write_table(table, path, **PACKED)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[pa.RecordBatch]:
    """What would be sent."""
    batches: list[pa.RecordBatch] = []
    monkeypatch.setattr(files, "frame_of", lambda _, found: batches.extend(found.to_batches()))
    return batches


def test_what_is_sent_is_bounded_by_its_records(
    tmp_path: Path, sent: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, spark = tmp_path / "records.parquet", None
    _write(path, 20, bytes(1 << 20))
    assert path.stat().st_size < 100_000
    untyped: Any = files
    untyped._send(spark, of_paths([path]), schemas.RAW)
    assert sum(batch.num_rows for batch in sent) == 20
    monkeypatch.setattr(files, "_MOST_DECODED", 8 << 20)
    with pytest.raises(InputError, match="more than 8 MiB, too many to send: copy the folder"):
        untyped._send(spark, of_paths([path]), schemas.RAW)
    sent.clear()
    _write(path, 200, bytes(1 << 20))
    with pytest.raises(InputError, match=r"records\.parquet .* no writer produces that"):
        untyped._send(spark, of_paths([path]), schemas.RAW)
    assert sent == []
