"""A capture is whole or not there; a damaged one says so; an anonymised one answers the same."""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
import sharelag as package
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, RawInput
from sharelag.inputs.files import pieces
from sharelag.inputs.files.archive import begin
from sharelag.inputs.files.captures import CaptureInfo, anonymise, read_capture, write_capture
from sharelag.inputs.files.pieces import plan, read_pieces
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.recorded import folder_of
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC, decode_arrow
from sharelag.workbench.capture import _moments
from tests.support.captures import describe
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE
from tests.support.command import ask, refused
from tests.support.command import sharelag as command
from tests.support.command import sharelag as sharelag_command
from tests.support.records import raw_file, with_column

AS_OF = datetime(2026, 11, 21, 3, 10, 0, 123_000, tzinfo=UTC)
INFO = CaptureInfo(
    "5L6g3nShT-eMCtK--X86sw", AS_OF, {"__share_group_state": 4, "__consumer_offsets": 0}, {"a": 1}
)
_ORDERS = {"topic": "orders", "topic_id": "A" * 22, "partition": 0, "as_of": AS_OF}
OFFSETS = pa.Table.from_pylist(
    [
        _ORDERS | {"log_start_offset": 5, "end_offset": 90, "leader_epoch": 3},
        {"topic": "offline", "topic_id": "B" * 22, "partition": 1, "as_of": AS_OF},
    ],
    schema=schemas.OFFSETS,
)
CAPTURES = Path(__file__).parents[3] / "data" / "captures"
NAMES = ("demo", "scenarios/window_full", "scenarios/idle_members", "scenarios/aborted")
#: A text that somebody has put where Kafka's readers do not look.
HIDDEN = b"ACME-payroll"


def _records(first: int, count: int) -> pa.RecordBatch:
    place = {"topic": STATE_TOPIC, "partition": 0, "timestamp": AS_OF, "timestampType": 0}
    rows = [
        {"key": None if n % 3 == 0 else b"\x00\x00k", "value": None if n % 2 else b"v", "offset": n}
        for n in range(first, first + count)
    ]
    return pa.RecordBatch.from_pylist([place | row for row in rows], schema=schemas.RAW)


BATCHES = [_records(0, 5), _records(5, 3)]
RECORDS = pa.Table.from_batches(BATCHES)


def _write(folder: Path, overwrite: bool = False, info: CaptureInfo = INFO) -> None:
    write_capture(folder, BATCHES, lambda _: ({"offsets": OFFSETS}, info), overwrite)


def _tree(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    _write(tmp_path / "capture")
    return tmp_path / "capture"


def test_round_trip(capture: Path) -> None:
    found = read_capture(capture)
    assert found.info == INFO
    assert found.offsets.equals(OFFSETS)
    (records,) = (pq.read_table(path) for path in found.records_paths)
    assert records.equals(RECORDS)


@pytest.mark.parametrize("held", [1, 3_000, 1 << 30])
def test_whole_partitions_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(pieces, "_HELD_BYTES", held)
    monkeypatch.setattr(pieces, "_TASK_BYTES", 1)
    monkeypatch.setattr(pieces, "_FEW_ROWS", 20)  # so that small partitions share row groups
    random = np.random.default_rng(5)
    batches = []
    for topic, first in [(STATE_TOPIC, 0), (STATE_TOPIC, 200), (GROUP_TOPIC, 0), (GROUP_TOPIC, 99)]:
        table = pa.Table.from_batches([_records(first, 99)])
        partition = pa.array(random.integers(0, 6, 99), pa.int32())
        table = table.set_column(3, "partition", partition)
        table = table.set_column(2, "topic", pa.repeat(topic, 99))
        batches += table.cast(schemas.RAW).to_batches()
    write_capture(tmp_path / "c", batches, lambda _: ({"offsets": OFFSETS}, INFO))
    for topic in (STATE_TOPIC, GROUP_TOPIC):
        found = plan(read_capture(tmp_path / "c").records_paths, topic)
        tasks = [pa.Table.from_batches(read_pieces(task)) for task in found.tasks]
        places = [set(task["partition"].to_pylist()) for task in tasks]
        assert found.whole
        assert sum(map(len, places)) == 6
        assert len(tasks) >= 2
        came = pa.Table.from_batches(batches).filter(pc.field("topic") == topic)
        for task, partitions in zip(tasks, places, strict=True):
            for partition in partitions:
                one = pc.field("partition") == partition
                assert task.filter(one).equals(came.filter(one))


def test_a_capture_as_an_input(capture: Path) -> None:
    source = CaptureInput(capture)
    assert pa.Table.from_batches(source.batches(STATE_TOPIC)).equals(RECORDS)
    assert source.size() == 8
    assert source.as_of() == AS_OF
    assert source.describe() == "capture of 5L6g3nShT-eMCtK--X86sw at 2026-11-21T03:10:00Z"
    assert source.offsets(["A" * 22]).to_pylist() == OFFSETS.to_pylist()[:1]
    assert source.offsets(["C" * 22]).num_rows == 0


@pytest.mark.parametrize(
    ("moment", "known"), [(None, True), (AS_OF, True), (AS_OF.replace(year=2025), False)]
)
def test_earlier_ends_are_unknown(capture: Path, moment: datetime | None, known: bool) -> None:
    found = CaptureInput(capture).offsets(["A" * 22], moment)
    assert found.schema.equals(schemas.OFFSETS)
    assert found.column("end_offset").to_pylist() == [90 if known else None]
    assert found.column("log_start_offset").to_pylist() == [5 if known else None]


def test_nothing_is_known_of_what_came_after(capture: Path) -> None:
    with pytest.raises(InputError, match=r"ends at .*, before"):
        CaptureInput(capture).offsets(["A" * 22], AS_OF.replace(year=2027))


def test_ends_that_were_noted_before_are_used(tmp_path: Path) -> None:
    """The last one that was noted by a moment, and when; of another partition none was."""
    earlier = AS_OF - timedelta(minutes=3), AS_OF - timedelta(minutes=2)
    place = OFFSETS.to_pylist()[0]
    past = [place | {"end_offset": 40 + 10 * n, "as_of": at} for n, at in enumerate(earlier)]
    tables = {"offsets": OFFSETS, "past_offsets": pa.Table.from_pylist(past, schemas.OFFSETS)}
    write_capture(tmp_path / "capture", BATCHES, lambda _: (tables, INFO))
    source = CaptureInput(tmp_path / "capture")
    for ago, end, noted in ((60, 50, earlier[1]), (150, 40, earlier[0]), (240, None, None)):
        (row,) = source.offsets([place["topic_id"]], AS_OF - timedelta(seconds=ago)).to_pylist()
        assert (row["end_offset"], row["as_of"], row["log_start_offset"]) == (end, noted, None)


def test_ends_are_noted_over_the_whole_time_and_where_rates_look(tmp_path: Path) -> None:
    for days, count in ((30, 120), (1 / 48, 60)):
        first = with_column(_records(0, 1), "timestamp", [AS_OF - timedelta(days=days)])
        ago = [AS_OF - at for at in _moments(Path(raw_file(tmp_path, first)), AS_OF)]
        assert (len(ago), max(ago)) == (count, timedelta(days=days))
        assert sum(one <= timedelta(hours=1) for one in ago) == 60


def test_answers_by_earlier_ends_say_whose_times_these_are(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder_of("slow"), tmp_path / "slow"))
    said = "earlier end offsets of slow-orders are estimated from timestamps that producers set"

    def told() -> list[int]:
        bench = package.open(folder, engine="local")
        then = bench.at(bench.evidence().as_of - timedelta(seconds=5))
        answers = (bench.lag(), bench.progress(), then.lag(), then.explain(), bench.timeline())
        return [sum(said in note for note in answer.notes) for answer in answers]

    assert told() == [0, 0, 1, 1, 1]
    settings = pq.read_table(folder / "settings.parquet")
    by_brokers = pc.replace_substring(settings["value"], "CreateTime", "LogAppendTime")
    at = settings.schema.get_field_index("value")
    pq.write_table(settings.set_column(at, "value", by_brokers), folder / "settings.parquet")
    assert told() == [0] * 5


def test_a_capture_holds_no_secret(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="u" password="s3cr3t";'
    secure = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}
    config = client_config("broker:9092", None, secure | {"sasl.jaas.config": jaas})
    _write(tmp_path / "capture", info=replace(INFO, options=config.public()))
    assert read_capture(tmp_path / "capture").info.options["bootstrap.servers"] == "broker:9092"
    assert not [name for name, data in _tree(tmp_path / "capture").items() if b"s3cr3t" in data]


# ---- broken --------------------------------------------------------------------------------------
def _remove(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def _text(name: str, text: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_text(text)

    return damage


def _about(**changes: object) -> Callable[[Path], None]:
    return lambda folder: describe(folder, **changes)


def _table(name: str, table: pa.Table) -> Callable[[Path], None]:
    return lambda folder: pq.write_table(table, folder / name)


def _cut_short(folder: Path) -> None:
    (folder / PART).write_bytes((folder / PART).read_bytes()[:-20])


PART = "records/part-0.parquet"
NO_CAPTURE = "capture.json does not describe a capture"
WRITTEN = "that `sharelag capture` wrote"
AGAIN = "capture it again"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_remove("capture.json"), ["has no capture.json", WRITTEN]),
        (_remove("offsets.parquet"), ["has no offsets.parquet", WRITTEN]),
        (_remove("records"), ["has no records", WRITTEN]),
        (_remove(PART), ["has no records/*.parquet", WRITTEN]),
        (_text("capture.json", "{"), [NO_CAPTURE, AGAIN]),
        (_text("capture.json", "[1]"), [NO_CAPTURE]),
        (_text("capture.json", "null"), [NO_CAPTURE]),
        (_about(as_of="yesterday"), [NO_CAPTURE, "yesterday"]),
        (_about(as_of="2026-11-21T03:10:00"), [NO_CAPTURE, "zone"]),
        (_about(as_of=7), [NO_CAPTURE]),
        (_about(as_of="0001-01-01T00:00:00+14:00"), [NO_CAPTURE]),  # before the calendar
        (_text("capture.json", "[" * 100_000), [NO_CAPTURE]),
        (_text("capture.json", '{"topics": ' + "[" * 5_000 + "]" * 5_000 + "}"), [NO_CAPTURE]),
        (_about(topics=[]), [NO_CAPTURE]),
        (_about(topics={STATE_TOPIC: {"partitions": float("inf")}}), [NO_CAPTURE]),
        (_about(topics={STATE_TOPIC: {"partitions": True}}), [NO_CAPTURE]),
        (_about(options=[]), [NO_CAPTURE, "options"]),
        (_about(options="text"), [NO_CAPTURE, "options"]),
        (_about(cluster_id=7), [NO_CAPTURE, "cluster_id"]),
        (_about(cluster_id=["c"]), [NO_CAPTURE, "cluster_id"]),
        (_about(tool_version=["1"]), [NO_CAPTURE, "tool_version"]),
        (_about(format=True), ["capture format True"]),
        (_about(format="x" * 100_000), ["capture format xxx"]),
        (_about(patience="9" * 100_000), ["capture.json: patience"]),
        (_about(cluster_id=None), [NO_CAPTURE, "cluster_id"]),
        (_about(format=None), [NO_CAPTURE, "format"]),
        (_about(format=2), ["capture format 2", "reads 1", "newer sharelag"]),
        (_text("offsets.parquet", "no"), ["offsets.parquet is not a Parquet file", AGAIN]),
        (_text(PART, "no"), ["part-0.parquet is not a Parquet file", AGAIN]),
        (_cut_short, ["part-0.parquet is not a Parquet file"]),
        (_table("offsets.parquet", OFFSETS.drop_columns(["end_offset"])),
         ["end_offset: expected int64, got no such"]),
        (_table(PART, RECORDS.drop_columns(["key"])),
         ["part-0.parquet", "key: expected binary, got no such column"]),
        (_table(PART, RECORDS.set_column(4, "offset", RECORDS["offset"].cast(pa.string()))),
         ["offset: expected int64, got string"]),
        (_table(PART, RECORDS.append_column("key", RECORDS["key"])),
         ["part-0.parquet", "key: expected binary, got 2 columns of this name"]),
        (_table(PART, RECORDS.set_column(0, "key", RECORDS["topic"])),
         ["part-0.parquet", "key: expected binary, got string", "cast yours"]),
    ],
)  # fmt: skip
def test_a_broken_capture(capture: Path, damage: Callable[[Path], None], words: list[str]) -> None:
    damage(capture)
    with pytest.raises(InputError) as refused:
        read_capture(capture)
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 500
    assert [word for word in words if word not in message] == []


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    hints = {"nothing": "create one with `sharelag capture`", "file": "unpack it if it is packed"}
    for name, hint in hints.items():
        with pytest.raises(InputError, match=hint):
            read_capture(tmp_path / name)


# ---- writing -------------------------------------------------------------------------------------
def _fails_half_way() -> Iterator[pa.RecordBatch]:
    yield BATCHES[0]
    raise RuntimeError("the broker went away")


def _fails_at_the_end(_: Path) -> tuple[dict[str, pa.Table], CaptureInfo]:
    raise RuntimeError("the broker went away")


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("at_the_end", [False, True])
def test_failed_writers_change_nothing(tmp_path: Path, there: bool, at_the_end: bool) -> None:
    folder = tmp_path / "capture"
    if there:
        _write(folder)
    before = _tree(tmp_path)
    records = BATCHES if at_the_end else _fails_half_way()
    finish = _fails_at_the_end if at_the_end else lambda _: ({"offsets": OFFSETS}, INFO)
    with pytest.raises(RuntimeError, match="went away"):
        write_capture(folder, records, finish, overwrite=there)
    assert _tree(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == (["capture"] if there else [])


def test_a_failed_rename_keeps_the_old_one(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _tree(capture)
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if (self / "capture.json").exists() and target == capture and _tree(self) != before:
            raise OSError("no space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(InputError, match="no space left"):
        _write(capture, overwrite=True, info=replace(INFO, cluster_id="another"))
    assert _tree(capture) == before
    assert [path.name for path in capture.parent.iterdir()] == ["capture"]


def test_an_existing_capture_needs_overwrite(capture: Path) -> None:
    before = _tree(capture)
    with pytest.raises(InputError, match="already: choose another folder, or add --overwrite"):
        _write(capture)
    assert _tree(capture) == before
    _write(capture, overwrite=True, info=replace(INFO, cluster_id="another"))
    assert read_capture(capture).info.cluster_id == "another"
    assert [path.name for path in capture.parent.iterdir()] == ["capture"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["empty", "folder", "file", "other json"])
def test_what_is_no_capture_is_never_replaced(tmp_path: Path, overwrite: bool, kind: str) -> None:
    folder = tmp_path / "thesis"
    if kind == "file":
        folder.write_text("years of work")
    else:
        folder.mkdir()
    if kind in ("folder", "other json"):
        (folder / "chapter-1.txt").write_text("years of work")
    if kind == "other json":  # a file of that name alone makes no capture
        (folder / "capture.json").write_text("{}")
    before = _tree(tmp_path)
    with pytest.raises(InputError, match=r"exists already: choose another folder$"):
        _write(folder, overwrite)
    assert _tree(tmp_path) == before
    assert folder.exists()


def test_folders_on_the_way_are_made_and_readable(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "capture"
    _write(folder)
    assert read_capture(folder).info == INFO
    assert folder.stat().st_mode & 0o777 == 0o755
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        _write(tmp_path / "file" / "capture")


# ---- raw records ---------------------------------------------------------------------------------
def test_raw_records_of_a_file_or_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    for number, batch in enumerate(BATCHES):
        pq.write_table(pa.Table.from_batches([batch]), folder / f"{number}.parquet")
    for path, count in ((folder, 8), (folder / "0.parquet", 5)):
        source = RawInput(str(path))
        assert pa.Table.from_batches(source.batches(STATE_TOPIC)).equals(RECORDS.slice(0, count))
        assert source.size() == count
        assert source.offsets(["A" * 22]).num_rows == 0


@pytest.mark.parametrize("damage", ["nothing", "text", "empty", "columns"])
def test_invalid_raw_records(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "raw.parquet"
    if damage == "text":
        path.write_text("no")
    elif damage == "empty":
        path.mkdir()
    elif damage == "columns":
        pq.write_table(OFFSETS, path)
    with pytest.raises(InputError, match=r"raw\.parquet") as refused:
        next(RawInput(str(path)).batches(STATE_TOPIC))
    assert "\n" not in str(refused.value)


def test_a_capture_says_what_counts_as_stuck_in_it(tmp_path: Path) -> None:
    patient = replace(INFO, patience=timedelta(seconds=2.5))
    _write(tmp_path / "told", info=patient)
    assert read_capture(tmp_path / "told").info == patient
    assert CaptureInput(tmp_path / "told").patience == timedelta(seconds=2.5)
    _write(tmp_path / "plain")
    assert CaptureInput(tmp_path / "plain").patience is None
    describe(tmp_path / "told", patience="soon")
    with pytest.raises(InputError, match=r"capture\.json: patience: invalid duration 'soon'"):
        read_capture(tmp_path / "told")


def test_a_capture_that_lost_a_file_of_records_says_what_is_missing(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(CAPTURE, tmp_path / "capture"))
    (file,) = (folder / "records").iterdir()
    records = pq.read_table(file)
    lost = (pc.field("topic") == STATE_TOPIC) & (pc.field("partition") == 1)
    for name, rows in {"0": records.filter(~lost), "1": records.filter(lost)}.items():
        pq.write_table(rows, folder / "records" / f"state-{name}.parquet")
    file.unlink()
    given = ("lag", "--capture", str(folder), "--engine", "local")
    command(*given, code=0)
    (folder / "records" / "state-1.parquet").unlink()
    done = command(*given, code=3)
    assert "INCOMPLETE: not known: " in done.stdout
    assert "that their groups have initialized: its records are missing" in done.stdout
    assert {row["complete"] for row in ask(*given, code=3)} == {False}


def original_names(folder: Path) -> set[str]:
    """Return all names of a capture, found by walking through whatever is nested."""
    capture = read_capture(folder)
    raw = pa.concat_tables(pq.read_table(path) for path in capture.records_paths)
    found: set[str] = set()
    for topic in (STATE_TOPIC, GROUP_TOPIC):
        part = raw.filter(pc.equal(raw.column("topic"), topic))
        found |= names_in(decode_arrow(part, topic).records.to_pylist())
    for name, table in {"offsets": capture.offsets, **capture.extras}.items():
        keys = {"entity"} if name == "settings" else set()
        found |= names_in(table.to_pylist(), keys)
    return found - {STATE_TOPIC, GROUP_TOPIC, ""} | {capture.info.cluster_id}


def names_in(value: Any, also: set[str] = frozenset(), key: str = "") -> set[str]:  # type: ignore[assignment]
    if isinstance(value, dict):
        return {name for k, v in value.items() for name in names_in(v, also, k)}
    if isinstance(value, list):
        return {name for each in value for name in names_in(each, also, key)}
    names = {"group_id", "member_id", "client_id", "client_host", "host", "rack_id", "rack"}
    names |= {"topic", "topic_name", "subscribed_topic_names", *also}
    return {value} if key in names and isinstance(value, str) else set()


def bytes_of(folder: Path) -> bytes:
    """Return every byte of a capture: of the files, and of their values decompressed."""
    out = bytearray()
    for path in sorted(folder.rglob("*")):
        out += str(path.relative_to(folder)).encode()
        if path.suffix == ".parquet":
            plain = pa.BufferOutputStream()
            table = pq.read_table(path)
            pq.write_table(table, plain, compression="none", use_dictionary=False)
            out += plain.getvalue().to_pybytes() + str(pq.read_metadata(path).metadata).encode()
        if path.is_file():
            out += path.read_bytes()
    return bytes(out)


@pytest.mark.parametrize("name", few_of(NAMES, ["demo"]))
def test_no_byte_of_a_name_remains(name: str, tmp_path: Path) -> None:
    names = original_names(CAPTURES / name)
    before = bytes_of(CAPTURES / name)
    assert len(names) > 4
    assert all(each.encode() in before for each in names)  # the search finds what is there
    anonymise(CAPTURES / name, tmp_path / "shared")
    after = bytes_of(tmp_path / "shared")
    assert [each for each in sorted(names) if each.encode() in after] == []


@pytest.mark.parametrize("name", few_of(NAMES, ["demo"]))
def test_answers_are_equal_under_the_mapping(name: str, tmp_path: Path) -> None:
    anonymise(CAPTURES / name, tmp_path / "shared")
    with (
        sharelag.open(str(CAPTURES / name), engine="local") as original,
        sharelag.open(str(tmp_path / "shared"), engine="local") as shared,
    ):
        lag, other = original.lag().table, shared.lag().table
        assert lag.num_rows == other.num_rows > 0
        names = [table.select(["group_id", "topic"]).to_pylist() for table in (lag, other)]
        pairs = {(k, one[k], two[k]) for one, two in zip(*names, strict=True) for k in one}
        assert len({(kind, a) for kind, a, _ in pairs}) == len(pairs)
        assert len({(kind, b) for kind, _, b in pairs}) == len(pairs)
        mapping = {(kind, a): b for kind, a, b in pairs}
        for ask in ("lag", "windows", "explain"):
            one, two = (getattr(bench, ask)().table for bench in (original, shared))
            drop = {"advice", "evidence", "summary"}  # texts, which name groups and members
            columns = [column for column in one.schema.names if column not in drop]
            expected = one.select(columns).to_pylist()
            for row in expected:
                row |= {
                    k: mapping.get((k, row[k]), row[k]) for k in ("group_id", "topic") if k in row
                }
            assert two.select(columns).to_pylist() == expected
        assert original.members().table.num_rows == shared.members().table.num_rows


def with_hidden_text(folder: Path, place: str) -> None:
    """Append bytes that Kafka's readers ignore to each state value, or add a record of none."""
    path = folder / "records" / "part-0.parquet"
    table = pq.read_table(path)
    if place == "reject":
        broken = table.slice(0, 1).to_pylist()[0] | {"value": HIDDEN, "offset": 1 << 40}
        broken["key"] = b"\0\0\0\x0c" + HIDDEN
        table = pa.concat_tables([table, pa.Table.from_pylist([broken], schemas.RAW)])
    else:
        of_state = pc.equal(table.column("topic"), STATE_TOPIC).to_pylist()
        values = [
            value + HIDDEN if value is not None and mine else value
            for value, mine in zip(table.column("value").to_pylist(), of_state, strict=True)
        ]
        table = with_column(table, "value", values)
    pq.write_table(table, path)


@pytest.mark.parametrize(("place", "left_out"), [("tail", 0), ("reject", 1)])
def test_what_readers_ignore_is_left_out(place: str, left_out: int, tmp_path: Path) -> None:
    source = Path(shutil.copytree(CAPTURES / "scenarios" / "window_full", tmp_path / "c"))
    with_hidden_text(source, place)
    assert HIDDEN in bytes_of(source)
    options = ("--anonymise", "--from", str(source))
    done = sharelag_command("capture", str(tmp_path / "shared"), *options, code=0)
    assert ("1 record is left out" in done.stderr) == bool(left_out)
    assert re.search(r"as of \d{4}-\d\d-\d\dT[\d:.]{12}Z, into", done.stderr)
    assert HIDDEN not in bytes_of(tmp_path / "shared")
    with (
        sharelag.open(str(source), engine="local") as original,
        sharelag.open(str(tmp_path / "shared"), engine="local") as shared,
    ):
        lags = [bench.lag().table.column("lag").to_pylist() for bench in (original, shared)]
        assert lags[0] == lags[1]


def test_values_of_settings_stay_unless_they_may_be_names(tmp_path: Path) -> None:
    source = Path(shutil.copytree(CAPTURES / "scenarios" / "window_full", tmp_path / "c"))
    path = source / "settings.parquet"
    kept = ["", None, "5", "earliest"]  # a group without a dead-letter queue has an empty name
    table = pq.read_table(path).slice(0, 5)
    pq.write_table(with_column(table, "value", [*kept, "a-name"]), path)
    anonymise(source, tmp_path / "shared")
    values = read_capture(tmp_path / "shared").extras["settings"].column("value").to_pylist()
    assert values == [*kept, None]


def test_what_somebody_has_added_to_files_is_left_out(tmp_path: Path) -> None:
    """Columns, metadata of Parquet, fields of the description, other files."""
    source = Path(shutil.copytree(CAPTURES / "scenarios" / "window_full", tmp_path / "c"))
    text = HIDDEN.decode()
    for path in (*source.glob("*.parquet"), source / "records" / "part-0.parquet"):
        table = pq.read_table(path)
        table = table.append_column("note", pa.array([text] * table.num_rows))
        fields = [field.with_metadata({"note": text}) for field in table.schema]
        pq.write_table(table.cast(pa.schema(fields, {"note": text})), path)
    describe(source, note=text, tool_version=text, options={"client.id": text})
    (source / f"{text}.txt").write_text(text)
    anonymise(source, tmp_path / "shared")
    for path in (tmp_path / "shared").rglob("*.parquet"):
        assert text not in str(pq.ParquetFile(path).metadata.metadata)
        assert text not in str(pq.read_schema(path))
    assert HIDDEN in bytes_of(source)
    assert HIDDEN not in bytes_of(tmp_path / "shared")


def test_the_folder_is_not_replaced_unasked(tmp_path: Path) -> None:
    anonymise(CAPTURES / "scenarios" / "quiet", tmp_path / "shared")
    with pytest.raises(InputError, match="add --overwrite"):
        anonymise(CAPTURES / "scenarios" / "quiet", tmp_path / "shared")
    anonymise(CAPTURES / "scenarios" / "quiet", tmp_path / "shared", overwrite=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--from", "x"], "--from needs --anonymise"),
        (["--anonymise", "--follow"], "not for an archive of --follow"),
        (["--anonymise", "--from", "{archive}"], "not for an archive of --follow"),
        (["--anonymise", "--from", "x", "--bootstrap-server", "b:1"], "not both"),
    ],
)
def test_options_that_do_not_fit(options: list[str], words: str, tmp_path: Path) -> None:
    begin(tmp_path, "cluster", {STATE_TOPIC: [0]}, client_config("localhost:9"))
    given = [option.format(archive=tmp_path) for option in options]
    assert words in refused("capture", str(tmp_path / "shared"), *given, code=2)
