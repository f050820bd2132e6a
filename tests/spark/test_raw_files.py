"""Folders of raw records on Spark, of any generation: the answers of one process."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag import Workbench, schemas
from sharelag.engine.spark.reading import TABLES
from sharelag.errors import InputError
from sharelag.inputs import RawInput
from sharelag.inputs.recorded import folder_of
from sharelag.wire import SHARE_SNAPSHOT, encode_record
from tests.support.generations import TODAY, raw_of
from tests.support.log_directory import beside, user_log, write
from tests.support.older_records import control, keyed, raw, row
from tests.support.records import KEY, with_column
from tests.support.records import row as todays_row
from tests.support.spark.settings import set_for
from tests.support.walk import WALK

DATA = Path("tests/data")
ANSWERS = ("windows", "lag", "health", "progress", "members", "history", "imbalance", "explain")
#: What people set, for other work, in the session that they bring.
SETTINGS = {
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.session.timeZone": "America/St_Johns",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
}


def _records() -> pa.Table:
    return pq.read_table(folder_of("poison") / "records").cast(schemas.RAW)


def _asked(bench: Any, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = getattr(bench, name)().table.to_pylist()
    return rows


def _rows(frame: Any) -> list[str]:
    """Rows of a DataFrame in an order of their own, times in UTC."""
    table = frame.toArrow()
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            kind = pa.timestamp("us", "UTC")
            table = table.set_column(at, field.name, table.column(at).cast(kind))
    return sorted(map(repr, table.to_pylist()))


def test_a_path_is_of_the_folder_where_it_was_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's tasks are where the session began; a notebook may be in another folder since."""
    (tmp_path / "raw").symlink_to((DATA / "partitioned-by-topic/raw").absolute())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    benches = [sharelag.open(one, engine="spark", spark=spark) for one in ("raw", "~/raw")]
    monkeypatch.chdir("/")
    answers = [_asked(bench, "windows") for bench in benches]
    assert answers == [_asked(sharelag.open(tmp_path / "raw", engine="local"), "windows")] * 2


@pytest.mark.parametrize(
    "place", ["delta-overwritten/table", "partitioned-by-topic/raw", "records-twice/raw"]
)
def test_folders_have_the_answers_of_one_process(spark: SparkSession, place: str) -> None:
    with (
        sharelag.open(DATA / place, engine="local") as here,
        sharelag.open(DATA / place, engine="spark", spark=spark) as there,
    ):
        for name in ANSWERS:
            assert _asked(there, name) == _asked(here, name), name
        if place == "records-twice/raw":
            assert "31 records repeat another one; each counts once" in there.lag().notes
            return
        assert (there.frames.raw.count(), there.frames.records.count()) == (94, 67)


@pytest.mark.parametrize("what", ["gone", "text", "file", "empty", "columns", "hudi", "damaged"])
def test_both_engines_refuse_in_one_way(spark: SparkSession, tmp_path: Path, what: str) -> None:
    path = tmp_path / "raw"
    if what == "file":
        path = tmp_path / "text.parquet"
        path.write_text("no parquet")
    elif what != "gone":
        path.mkdir()
    if what in ("columns", "damaged"):
        pq.write_table(_records(), path / "a.parquet")
        pq.write_table(_records().drop_columns("key"), path / "b.parquet")
    if what == "text":
        (path / "a.parquet").write_text("no parquet")
    if what == "damaged":
        octets = (path / "a.parquet").read_bytes()
        (path / "b.parquet").write_bytes(octets[: len(octets) // 2])
    if what == "hudi":
        (path / ".hoodie").mkdir()
    for name in ("windows", "lag", "health", "progress", "members"):
        said = []
        for engine in ("local", "spark"):
            bench = sharelag.open(RawInput(str(path)), engine=engine, spark=spark)
            with pytest.raises(InputError) as caught:
                getattr(bench, name)()
            said.append(str(caught.value))
        assert said[0] == said[1], name


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ("tests/data/partitioned-by-topic/raw", ("raw", "windows", "history", "lag", "members")),
        pytest.param(
            "tests/data/partitioned-by-topic/raw", tuple(TABLES), marks=pytest.mark.exhaustive
        ),
        pytest.param("poison", tuple(TABLES), marks=pytest.mark.exhaustive),
    ],
)
def test_settings_change_no_answer(spark: SparkSession, place: str, names: tuple[str, ...]) -> None:
    """Tables of a capture, and of raw records in folders by topic and partition."""
    with sharelag.open(place, spark=spark) as plain:
        expected = {name: _rows(plain.frames[name]) for name in names}
    with set_for(spark, SETTINGS), sharelag.open(place, spark=spark) as bench:
        for name, rows in expected.items():
            assert _rows(bench.frames[name]) == rows, name


@pytest.mark.exhaustive
def test_an_address_that_only_spark_knows(spark: SparkSession, tmp_path: Path) -> None:
    place = "viewfs://lake/raw"
    mount = {"fs.viewfs.mounttable.lake.link./raw": tmp_path.as_uri()}
    mount["fs.viewfs.impl.disable.cache"] = "true"
    with set_for(spark, SETTINGS | mount):
        written = spark.createDataFrame(_records()).write.partitionBy("topic", "partition")
        written.parquet(str(tmp_path / "by"))
        pq.write_table(_records(), tmp_path / "one.parquet")
        here = sharelag.open(tmp_path / "by", engine="local")
        for path in (f"{place}/by", f"{place}/one.parquet"):
            with sharelag.open(path, spark=spark) as bench:
                for name in ("windows", "health", "progress", "members"):
                    assert _asked(bench, name) == _asked(here, name), (path, name)
        (tmp_path / "by" / "_delta_log").mkdir()
        said = r'is a table of Delta.*=spark\.read\.format\("delta"\)'
        with pytest.raises(InputError, match=said):
            sharelag.open(f"{place}/by", spark=spark).windows()
        with pytest.raises(InputError, match=f"cannot read Parquet from {place}/none"):
            sharelag.open(f"{place}/none", spark=spark).windows()
    for ask in ("windows", "health"):
        with pytest.raises(InputError, match='s3://b/raw: No FileSystem for scheme "s3"') as caught:
            getattr(sharelag.open("s3://b/raw", spark=spark), ask)()
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="--engine spark"):
        sharelag.open(f"{place}/by", engine="local").windows()


def both(path: Path, spark: SparkSession, generation: int | None) -> list[Workbench]:
    of_spark = sharelag.open(path, engine="spark", spark=spark, bars=False, generation=generation)
    return [of_spark, sharelag.open(path, engine="local", generation=generation)]


def same(path: Path, spark: SparkSession, generation: int | None = None) -> None:
    ours, local = both(path, spark, generation)
    columns = ["effective_start_offset", "window_end_offset", "leader_epoch", "runs"]
    for question in ("windows", "history", "health"):
        tables = [getattr(bench, question)().table for bench in (ours, local)]
        names = [name for name in columns if name in tables[1].column_names] or ["generations"]
        assert tables[0].num_rows == tables[1].num_rows > 0
        assert tables[0].select(names).to_pylist() == tables[1].select(names).to_pylist()


@pytest.mark.exhaustive  # without Spark: `tests/unit/replay/test_generations.py`
def test_older_generations_alone_and_beside_todays(spark: SparkSession, tmp_path: Path) -> None:
    same(write(tmp_path / "0", user_log(raw(control(0))), topic_id=KEY.topic_id), spark)
    folder = write(tmp_path / "1", user_log(raw(control(1))), topic_id=KEY.topic_id)
    todays = encode_record(SHARE_SNAPSHOT, todays_row(40, [], group_id="today"))
    same(beside(folder, *todays), spark, generation=1)
    for generation in (2, 3):
        same(written(tmp_path / f"{generation}", raw_of(WALK.values(), generation)), spark)


def written(folder: Path, rows: pa.RecordBatch) -> Path:
    """Write raw records as the only file of a folder."""
    folder.mkdir()
    table = pa.Table.from_batches([rows]).cast(schemas.RAW)
    pq.write_table(table, folder / "part-0.parquet")
    return folder


@pytest.mark.parametrize("generation", [pytest.param(1, marks=pytest.mark.exhaustive), 3])
def test_a_generation_that_is_named(spark: SparkSession, tmp_path: Path, generation: int) -> None:
    """A snapshot that may be today's, cut short; control records whose keys have no topic id."""
    if generation == 3:
        epochs = {"epoch": 0, "state_epoch": 0, "leader_epoch": 0}
        rows = raw([row(3, 0, 0, 100, [], **epochs)])
    else:
        rows = raw(control(1))
        keys = pc.binary_slice(rows.column("key"), 0, 4)
        rows = with_column(rows, "key", keys)
    files = written(tmp_path / "files", rows)
    assert sharelag.open(files, engine="local").windows().table.num_rows == 0
    same(files, spark, generation)
    # The same as a DataFrame, which tasks do not read as files.
    frame = sharelag.open(raw=spark.read.parquet(str(files)), generation=generation, bars=False)
    local = sharelag.open(files, engine="local", generation=generation)
    for question in ("windows", "lag"):
        tables = [getattr(bench, question)().table.to_pylist() for bench in (frame, local)]
        assert (tables[0], len(tables[1])) == (tables[1], 1)


@pytest.mark.row("PSS-11")
def test_batches_have_the_same_columns_in_all_of_them(spark: SparkSession, tmp_path: Path) -> None:
    writes = [(100, []), (-1, [(100, 109, 2, 1)]), (-1, [(110, 110, 0, 1), (111, 118, 0, 0)])]
    found = []
    for generation in (1, 2, 3, TODAY):
        folder = written(tmp_path / f"g{generation}", raw_of(writes, generation))
        records = sharelag.decode(spark.read.parquet(str(folder))).records
        found.append(
            records.selectExpr("offset", "inline(state_batches)").orderBy("offset", "first_offset")
        )
    names = ["offset", "first_offset", "last_offset", "delivery_state", "delivery_count"]
    assert all(frame.schema == found[-1].schema and frame.columns == names for frame in found)
    expected = [(131, 100, 109, 2, 1), (132, 110, 110, 0, 1), (132, 111, 118, 0, 0)]
    assert [[tuple(one) for one in frame.collect()] for frame in found] == [expected] * 4


@pytest.mark.row("PSC-14")
def test_an_election_replays_checkpoint_and_deltas(spark: SparkSession, tmp_path: Path) -> None:
    whole = keyed()
    stale = [each for each in whole if each["record_type"] == 1 and each["snapshot_epoch"] == 1]
    assert [each["offset"] for each in stale] == [2]
    found = []
    for name, rows in (("whole", whole), ("without", [one for one in whole if one not in stale])):
        for bench in both(written(tmp_path / name, raw(rows)), spark, None):
            (row_,) = bench.windows().table.to_pylist()
            found.append((row_["snapshot_epoch"], row_["effective_start_offset"], row_["runs"]))
    assert [found[0]] * 4 == found
    epoch, start, runs = found[0]
    assert (epoch, start) == (2, 7)
    assert [tuple(run.values()) for run in runs] == [(7, 7, 0, 1), (8, 9, 0, 2)]
