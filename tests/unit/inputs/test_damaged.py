"""Damaged captures: an answer, or one sentence that names the file; never a traceback."""

import random
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from traceback import format_exception
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag.cli.output import one_line
from sharelag.errors import InputError
from sharelag.inputs.files import parquet
from sharelag.tables.lines import lines, plain_rows
from tests.support.captures import describe
from tests.support.columns import with_column
from tests.support.command import refused
from tests.support.command import sharelag as sharelag_command
from tests.support.damaged_texts import BINARY, damaged
from tests.support.parquet import flip_in_a_page, with_bytes_as_topic, without_checksums
from tests.support.reliability import Inject
from tools.page_checksums import rewrite

DATA = Path(__file__).parents[3] / "data"
CAPTURE = DATA / "captures" / "scenarios" / "window_full"
RECORDS = "records/part-0.parquet"
EARLIEST, LATEST = -(1 << 63) + 1, (1 << 63) - 1


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CAPTURE, tmp_path / "capture"))


def answer(capture: Path) -> list[int]:
    """Ask what reads every table of a capture; return lag."""
    with sharelag.open(str(capture), engine="local") as bench:
        bench.explain()
        return list(bench.lag().table.column("lag").to_pylist())


def set_value(path: Path, column: str, value: Any) -> None:
    """Put a value into the middle row of a Parquet file."""
    table = pq.read_table(path)
    values = table.column(column).to_pylist()
    values[len(values) // 2] = value
    nullable = pa.field(column, table.schema.field(column).type)
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, nullable, pa.array(values, nullable.type)), path)


def test_a_page_that_cannot_be_decompressed_names_the_file(capture: Path) -> None:
    path = capture / RECORDS
    group = pq.ParquetFile(path).metadata.row_group(0)
    value = group.column(group.num_columns - 1)
    begin = value.dictionary_page_offset or value.data_page_offset
    octets = bytearray(path.read_bytes())
    octets[begin : begin + value.total_compressed_size] = b"\xaa" * value.total_compressed_size
    path.write_bytes(octets)
    with pytest.raises(InputError, match=r"part-0\.parquet is damaged .*: restore it"):
        answer(capture)


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("offsets.parquet", "end_offset", LATEST, "end_offset has 9223372036854775807"),
        ("offsets.parquet", "as_of", EARLIEST, "not a possible time"),
        ("offsets.parquet", "partition", None, "has 1 row without partition"),
        ("times.parquet", "topic_id", None, "has 1 row without topic_id"),
        ("logs.parquet", "last_stable_offset", LATEST, "not a possible offset"),
    ],
)
def test_impossible_values(capture: Path, name: str, column: str, value: Any, message: str) -> None:
    set_value(capture / name, column, value)
    with pytest.raises(InputError, match=message) as caught:
        answer(capture)
    assert name in str(caught.value)


@pytest.mark.parametrize("length", [100, 5_000_000])
def test_bytes_of_another_file_are_not_shown(capture: Path, length: int) -> None:
    (capture / "capture.json").write_bytes(b"password=hunter2 " + b"\xff" * length)
    with pytest.raises(InputError, match=r"capture\.json") as caught:
        answer(capture)
    assert "hunter2" not in "".join(format_exception(caught.value))
    assert len(str(caught.value)) < 400


def test_times_may_be_finer(capture: Path) -> None:
    path = capture / "offsets.parquet"
    table = pq.read_table(path)
    times = table.column("as_of").cast(pa.timestamp("us", "UTC"))
    pq.write_table(with_column(table, "as_of", pc.add(times, timedelta(microseconds=7))), path)
    assert _shown(capture) == _shown(CAPTURE)


def test_a_wrong_checksum_is_damage_and_a_missing_one_none(capture: Path) -> None:
    path = capture / "capture.json"
    path.write_text(path.read_text().replace("v79R6", "v79R7"))
    with pytest.raises(InputError, match=r"capture\.json is damaged .* or remove the line crc32"):
        answer(capture)
    describe(capture)
    assert _shown(capture) == _shown(CAPTURE)


@pytest.mark.parametrize("time", [EARLIEST, LATEST])
def test_an_impossible_time_is_unknown_and_counts(capture: Path, time: int) -> None:
    set_value(capture / RECORDS, "timestamp", time)
    assert answer(capture) == answer(CAPTURE)
    assert sharelag_command("health", "--capture", str(capture)).returncode == 0


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
        assert "1 record that could not be decoded" in said, said


def test_spark_names_the_file_with_a_time_that_it_cannot_read() -> None:
    said = (
        "An error occurred while calling o3171.getResult.\norg.apache.spark.SparkException: "
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/c1/records/"
        "part-0.parquet.  SQLSTATE: KD001\nCaused by: java.lang.ArithmeticException: long overflow"
    )
    assert one_line(RuntimeError(said)).startswith("/data/c1/records/part-0.parquet is damaged")


def _shown(folder: Path) -> dict[str, str]:
    """What commands print of a capture, each row of it."""
    with sharelag.open(str(folder), engine="local") as bench:
        return {
            name: "\n".join(lines(plain_rows(getattr(bench, name)().table), "json"))
            for name in ("lag", "windows", "health", "explain")
        }


def _outcome(folder: Path, path: Path, whole: dict[str, str]) -> str:
    """What came of a damaged file: a refusal names it, and fits in a line."""
    try:
        shown = _shown(folder)
    except InputError as error:
        said = str(error)
        assert "\n" not in said
        assert path.name in said or "offset order" in said, said
        return "refused, with the file"
    return "the same answers" if shown == whole else "other answers"


@pytest.mark.parametrize(
    ("fault", "few", "many", "least"),
    [
        ("a file of a capture is damaged", 15, 5000, 1 / 2),
        ("a bit of a capture's pages is flipped", 8, 2000, 1 / 3),
    ],
    ids=["files", "pages"],
)
def test_damaged_captures_are_the_same_answers_or_sentences(
    fault: str, few: int, many: int, least: float, tmp_path: Path, cases: Any, injected: Inject
) -> None:
    is_bit = "flipped" in fault
    files = [path for path in CAPTURE.rglob("*.parquet" if is_bit else "*") if path.is_file()]
    whole, told = _shown(CAPTURE), Counter[str]()
    count, others = cases(few, many), []
    for seed in range(count):
        chance = random.Random(f"page {seed}" if is_bit else seed)
        folder = Path(shutil.copytree(CAPTURE, tmp_path / str(seed)))
        path = folder / chance.choice(sorted(files)).relative_to(CAPTURE)
        if is_bit:
            flip_in_a_page(path, chance)
        else:
            path.write_bytes(damaged(path.read_bytes(), chance, BINARY))
        outcome = _outcome(folder, path, whole)
        told[outcome] += 1
        if outcome == "other answers":
            others.append((seed, path.name))
        shutil.rmtree(folder)
    assert count * least < told["refused, with the file"] < count
    injected("records", fault, count, told, wrong=len(others))
    assert others == []


def test_captures_without_checksums_are_read_as_they_are(capture: Path) -> None:
    for path in capture.rglob("*.parquet"):
        without_checksums(path)
    assert _shown(capture) == _shown(CAPTURE)


@pytest.mark.parametrize("row", [0, -1])
@pytest.mark.parametrize("command", ["lag", "explain", "groups"])
def test_a_topic_that_is_no_text_is_damage(capture: Path, command: str, row: int) -> None:
    """Of files without checksums; nothing is left to find when the row is printed."""
    with_bytes_as_topic(capture / RECORDS, row, b"__consumer_offset\xe1")
    said = refused(command, "--capture", str(capture), "--engine", "local")
    assert "part-0.parquet is damaged" in said
    assert "UTF8" in said


def _is_compared(path: Path, aside: Path) -> bool:
    """Whether a file with a damaged page is refused for its checksum, which is compared first."""
    group = pq.read_metadata(path).row_group(0)
    column, octets = group.column(group.num_columns - 1), bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    octets[begin + column.total_compressed_size - 1] ^= 1
    aside.write_bytes(octets)
    try:
        with parquet.open_parquet(aside) as file:
            file.read_row_group(0)
    except (OSError, pa.ArrowException) as error:
        return "CRC" in str(error)
    return False


def test_all_recorded_files_have_checksums(tmp_path: Path) -> None:
    paths = [path for path in DATA.rglob("*.parquet") if pq.read_metadata(path).num_rows]
    assert len(paths) > 140
    assert [path for path in paths if not _is_compared(path, tmp_path / "damaged")] == []


def test_files_of_older_versions_get_checksums_and_stay_the_same(tmp_path: Path) -> None:
    for path in (DATA / "captures" / "chapters").glob("*.parquet"):
        old = Path(shutil.copy(path, tmp_path))
        with parquet.open_parquet(path) as file:
            pq.write_table(file.read(), old, row_group_size=3)
        before, groups = pq.read_table(old), pq.read_metadata(old).num_row_groups
        assert not _is_compared(old, tmp_path / "damaged")
        rewrite(old)
        assert _is_compared(old, tmp_path / "damaged")
        assert pq.read_table(old).equals(before, check_metadata=True)
        assert pq.read_metadata(old).num_row_groups == groups
