"""Folders of raw records on Spark: the answers of one process, whatever the session is set to."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag import schemas
from sharelag.engine.spark.reading import TABLES
from sharelag.errors import InputError
from sharelag.inputs import RawInput
from sharelag.inputs.recorded import folder_of
from tests.support.spark.settings import set_for

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
