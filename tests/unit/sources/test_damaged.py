"""Damaged captures: an answer, or one sentence that names the file; never a traceback."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag.cli.output import one_line
from sharelag.errors import InputError
from tests.support.command import sharelag as sharelag_command
from tests.support.reliability import Inject

CAPTURE = Path(__file__).parents[3] / "data" / "captures" / "scenarios" / "window_full"
RECORDS = "records/part-0.parquet"
EARLIEST, LATEST = -(1 << 63) + 1, (1 << 63) - 1


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CAPTURE, tmp_path / "capture"))


def answer(capture: Path) -> None:
    """Ask what reads every table of a capture."""
    with sharelag.open(str(capture), engine="local") as bench:
        assert len(bench.lag())
        bench.explain()


def set_value(path: Path, column: str, value: Any) -> None:
    """Put a value into the middle row of a Parquet file."""
    table = pq.read_table(path)
    place = table.schema.get_field_index(column)
    values = table.column(column).to_pylist()
    values[len(values) // 2] = value
    field = pa.field(column, table.schema.field(column).type)
    pq.write_table(table.set_column(place, field, pa.array(values, field.type)), path)


@pytest.mark.parametrize("name", [RECORDS, "offsets.parquet", "logs.parquet", "settings.parquet"])
@pytest.mark.parametrize("seed", range(6))
def test_flipped_bits_are_an_answer_or_a_sentence_that_names_the_file(
    capture: Path, name: str, seed: int
) -> None:
    chance = random.Random(f"{name} {seed}")
    path = capture / name
    damaged = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 4, 40])):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    path.write_bytes(damaged)
    said = str(path)
    try:
        answer(capture)
    except InputError as error:
        said = str(error)
    assert str(path) in said or "offset order" in said


def test_a_page_that_cannot_be_decompressed_names_the_file(capture: Path) -> None:
    path = capture / RECORDS
    group = pq.ParquetFile(path).metadata.row_group(0)
    value = group.column(group.num_columns - 1)
    begin = value.dictionary_page_offset or value.data_page_offset
    damaged = bytearray(path.read_bytes())
    damaged[begin : begin + value.total_compressed_size] = b"\xaa" * value.total_compressed_size
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=r"part-0\.parquet is damaged .*: restore it"):
        answer(capture)


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("offsets.parquet", "end_offset", LATEST, "end_offset has 9223372036854775807"),
        ("offsets.parquet", "as_of", EARLIEST, "not a possible time"),
        ("offsets.parquet", "partition", None, "has 1 rows without partition"),
        ("times.parquet", "topic_id", None, "has 1 rows without topic_id"),
        ("logs.parquet", "last_stable_offset", LATEST, "not a possible offset"),
    ],
)
def test_values_that_no_cluster_has_are_refused(
    capture: Path, name: str, column: str, value: Any, message: str
) -> None:
    set_value(capture / name, column, value)
    with pytest.raises(InputError, match=message) as caught:
        answer(capture)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": 1, "topics": ' + "[" * 5_000 + "]" * 5_000 + "}",
        (
            '{"format": 1, "cluster_id": "c", "tool_version": "1", "options": {}, "topics": {},'
            ' "as_of": "0001-01-01T00:00:00+14:00"}'
        ),
        (
            '{"format": 1, "cluster_id": "c", "tool_version": "1", "options": {},'
            ' "topics": {"__share_group_state": {"partitions": 1e400}},'
            ' "as_of": "2026-01-01T00:00:00Z"}'
        ),
    ],
    ids=["deep", "deep in a field", "before the calendar", "endless partitions"],
)
def test_a_description_that_nobody_wrote_is_refused(capture: Path, text: str) -> None:
    (capture / "capture.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"capture\.json does not describe a capture"):
        answer(capture)


@pytest.mark.parametrize("time", [EARLIEST, LATEST])
def test_a_record_with_an_impossible_time_counts_and_its_time_is_unknown(
    capture: Path, time: int
) -> None:
    with sharelag.open(str(capture), engine="local") as bench:
        before = bench.lag().table.column("lag").to_pylist()
    set_value(capture / RECORDS, "timestamp", time)
    answer(capture)
    with sharelag.open(str(capture), engine="local") as bench:
        assert bench.lag().table.column("lag").to_pylist() == before


def test_a_row_of_nulls_is_a_reject_wherever_it_is_counted(capture: Path) -> None:
    path = capture / RECORDS
    table = pq.read_table(path)
    nothing = pa.Table.from_pylist([dict.fromkeys(table.schema.names)], schema=table.schema)
    pq.write_table(pa.concat_tables([table, nothing]), path)
    with sharelag.open(str(capture), engine="local") as bench:
        assert len(bench.lag()) == 1
    for command in ("lag", "windows"):
        answered = sharelag_command(command, "--capture", str(capture))
        said = answered.stdout + answered.stderr
        assert "unexpected" not in said
        assert "1 record could not be decoded" in said, said


@pytest.mark.parametrize("value", [EARLIEST, LATEST])
@pytest.mark.parametrize("command", ["lag", "health", "explain"])
def test_a_time_that_no_calendar_has_fails_no_command(
    capture: Path, command: str, value: int
) -> None:
    set_value(capture / RECORDS, "timestamp", value)
    answered = sharelag_command(command, "--capture", str(capture))
    assert answered.returncode == 0, answered.stderr


def test_spark_names_the_file_with_a_time_that_it_cannot_read() -> None:
    said = (
        "An error occurred while calling o3171.getResult.\norg.apache.spark.SparkException: "
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
        "file:///data/c1/records/part-0.parquet.  SQLSTATE: KD001\n"
        "Caused by: java.lang.ArithmeticException: long overflow"
    )
    assert one_line(RuntimeError(said)).startswith("/data/c1/records/part-0.parquet is damaged")


def _mutated(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    match chance.choice(["flip", "cut", "zero", "insert", "repeat"]):
        case "flip":
            found = bytearray(data)
            for _ in range(chance.choice([1, 1, 4, 30])):
                found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
            return bytes(found)
        case "cut":
            return data[:at]
        case "zero":
            return data[:at] + bytes(len(data[at : at + 64])) + data[at + 64 :]
        case "insert":
            return data[:at] + chance.randbytes(chance.randrange(1, 40)) + data[at:]
        case _:
            return data[: at + 50] + data[at:]


def test_mutations_of_a_capture_are_answers_or_sentences(
    tmp_path: Path, cases: Any, injected: Inject
) -> None:
    files = sorted(path.relative_to(CAPTURE) for path in CAPTURE.rglob("*") if path.is_file())
    count, refused = cases(100, 5000), 0
    for seed in range(count):
        chance = random.Random(seed)
        folder = Path(shutil.copytree(CAPTURE, tmp_path / str(seed)))
        damaged = folder / chance.choice(files)
        damaged.write_bytes(_mutated(damaged.read_bytes(), chance))
        try:
            with sharelag.open(str(folder), engine="local") as bench:
                bench.lag()
                bench.health()
        except InputError as error:
            refused += 1
            said = str(error)
            assert "\n" not in said, seed
            assert damaged.name in said or "offset order" in said, (seed, said)
        shutil.rmtree(folder)
    assert count / 2 < refused < count
    told = {"answers": count - refused, "refused, with the file": refused}
    injected("records", "a file of a capture is damaged", count, told)
