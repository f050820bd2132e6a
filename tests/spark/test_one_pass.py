"""A DataFrame of raw records is read once, for what is needed of it, and left as it was."""

import re
from collections.abc import Callable, Container, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark.sql.classic.dataframe as classic
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sharelag
from sharelag import schemas
from sharelag.engine.spark.packing import collect
from sharelag.errors import InputError
from sharelag.wire import STATE_TOPIC
from tests.support.cases import Cases, few_of
from tests.support.chapters import CAPTURE
from tests.support.records import with_column
from tests.support.spark.settings import set_for

#: What is read of raw records; ``topic`` tells the two topics apart.
NEEDED = {"key", "value", "topic", "partition", "offset", "timestamp"}
ASKED: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "windows": lambda raw, _: sharelag.windows(raw),
    "windows of decoded records": lambda raw, _: sharelag.windows(sharelag.decode(raw).records),
    "lag": sharelag.lag,
    "lag of windows": lambda raw, ends: sharelag.lag(
        sharelag.windows(sharelag.decode(raw).records), ends
    ),
    "history": lambda raw, _: sharelag.history(raw),
    "history of a workbench": lambda raw, ends: sharelag.open(raw=raw, offsets=ends).frames.history,
    "imbalance": lambda raw, ends: sharelag.imbalance(sharelag.lag(raw, ends)),
    "members": lambda raw, _: sharelag.members(raw),
    "groups": lambda raw, _: sharelag.groups(sharelag.decode(raw, "__consumer_offsets").records),
    "health": lambda raw, _: sharelag.health(raw),
    "gaps": lambda raw, _: sharelag.engine.spark.missing_offsets(raw),
}


#: All rows, by a condition that is more than comparisons with values: Spark scans them.
BY_SPARK = "abs(offset) < 1000000"
MIDDLE = "2026-11-21 11:44:09.203"
#: Conditions that files are read by.
COMPARISONS = (
    "partition IN (1, 3, 7) AND topic = '__share_group_state'",
    f"timestamp <= '{MIDDLE}' AND timestamp > '2026-11-21 11:43:40'",
    "partition < 20 AND offset BETWEEN 3 AND 40",
    f"partition IN ({', '.join(map(str, range(1, 14)))})",
    "offset > 10000000",
)


MERGES = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"


@pytest.fixture
def raw(spark: SparkSession) -> DataFrame:
    return spark.read.parquet(str(CAPTURE / "records"))


@pytest.fixture
def ends(spark: SparkSession) -> DataFrame:
    return spark.read.parquet(str(CAPTURE / "offsets.parquet"))


def plan_of(frame: DataFrame) -> str:
    python: Any = frame._sc._jvm  # type: ignore[attr-defined]
    return str(
        python.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted")  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("name", ASKED)
def test_records_are_scanned_and_exchanged_once(name: str, raw: DataFrame, ends: DataFrame) -> None:
    plan = plan_of(ASKED[name](raw.where(BY_SPARK), ends))
    scans = [part for part in re.split(r"\n\n+", plan) if "Scan parquet" in part]
    (of_raw,) = (scan for scan in scans if "key" in scan)
    (read,) = re.findall(r"ReadSchema: struct<(.*?)>\n?", of_raw)
    assert {column.split(":")[0] for column in read.split(",")} == NEEDED
    moved = [part for part in re.split(r"\n\n+", plan) if re.match(r"\(\d+\) Exchange", part)]
    of_records = [part for part in moved if "rows" in part]
    assert len(of_records) == 1
    (columns,) = re.findall(r"Input \[\d+\]: \[(.*)\]", of_records[0])
    assert re.sub(r"#\d+", "", columns) == "topic, partition, first_offsetL, rows"
    assert "InMemoryTableScan" not in plan
    assert "Sort" not in plan


@pytest.mark.parametrize("name", few_of(ASKED, ["lag of windows", "members", "health"]))
def test_scanned_files_are_read_by_tasks(name: str, raw: DataFrame, ends: DataFrame) -> None:
    ask = ASKED[name]
    for given in (raw, raw.select(*sorted(raw.columns)).alias("records")):
        plan = plan_of(ask(given, ends))
        assert not any("key" in scan for scan in plan.split("\n\n") if "Scan parquet" in scan)
        assert "hashpartitioning(topic" not in plan
    by_tasks, by_spark = ask(raw, ends), ask(raw.where(BY_SPARK), ends)
    assert sorted(by_tasks.collect(), key=str) == sorted(by_spark.collect(), key=str)


@pytest.mark.parametrize("condition", few_of(COMPARISONS, COMPARISONS[:2]))
def test_chosen_rows_are_read_by_tasks(condition: str, raw: DataFrame, ends: DataFrame) -> None:
    chosen = raw.where(condition)
    asked = sharelag.windows(chosen)
    assert "hashpartitioning(topic" not in plan_of(asked)
    wanted = rows(sharelag.windows(chosen.where(BY_SPARK)), schemas.WINDOWS)
    assert rows(asked, schemas.WINDOWS) == wanted
    bench = sharelag.open(raw=chosen, offsets=ends)
    assert rows(bench.frames.windows, schemas.WINDOWS) == wanted
    assert wanted != rows(sharelag.windows(raw), schemas.WINDOWS)


def test_tasks_read_chosen_folders(raw: DataFrame, tmp_path: Path, spark: SparkSession) -> None:
    days = raw.withColumn("day", F.expr("if(offset < 300, 'first', 'second')"))
    days.write.partitionBy("day").parquet(str(tmp_path / "records"))
    written = spark.read.parquet(str(tmp_path / "records"))
    for by_day, by_offset in (
        ("true", "true"),
        ("day = 'first'", "offset < 300"),
        ("day > 'first' AND partition < 4", "offset >= 300 AND partition < 4"),
    ):
        asked = sharelag.windows(written.where(by_day))
        assert "hashpartitioning(topic" not in plan_of(asked)
        wanted = sharelag.windows(raw.where(by_offset).where(BY_SPARK))
        assert rows(asked, schemas.WINDOWS) == rows(wanted, schemas.WINDOWS)
    written.createOrReplaceTempView("written_days")  # only Spark knows which folders are read
    latest = sharelag.windows(written.where("day = (SELECT max(day) FROM written_days)"))
    late = sharelag.windows(raw.where("offset >= 300"))
    assert rows(latest, schemas.WINDOWS) == rows(late, schemas.WINDOWS)


def test_parts_of_a_union_are_read_by_tasks(raw: DataFrame) -> None:
    wanted = rows(sharelag.windows(raw), schemas.WINDOWS)
    early, late = raw.where("offset < 300"), raw.where("offset >= 250")
    for both in (early.union(late), early.unionByName(late.select(*sorted(raw.columns)))):
        asked = sharelag.windows(both)
        assert "hashpartitioning(topic" not in plan_of(asked)
        assert rows(asked, schemas.WINDOWS) == wanted


def test_times_are_compared_to_the_microsecond(spark: SparkSession, tmp_path: Path) -> None:
    records = pq.read_table(CAPTURE / "records")
    few = records.filter(pc.equal(records.column("topic"), STATE_TOPIC)).slice(0, 40)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = pa.array([start + timedelta(microseconds=300 * n) for n in range(40)])
    at = few.schema.names.index("timestamp")
    pq.write_table(few.set_column(at, "timestamp", times), tmp_path / "few.parquet")
    raw = spark.read.parquet(str(tmp_path))
    found = {}
    for comparison in ("<", "<=", ">", ">=", "="):
        chosen = raw.where(f"timestamp {comparison} timestamp '2026-01-01 00:00:00.0045Z'")
        found[comparison] = sharelag.history(chosen).count()
        assert found[comparison] == chosen.count()
    assert found == {"<": 15, "<=": 16, ">": 24, ">=": 25, "=": 1}


def test_end_offsets_of_this_process_are_no_query(raw: DataFrame, ends: DataFrame) -> None:
    wanted = rows(sharelag.lag(raw, ends), schemas.LAG)
    known = ends.toArrow()
    for windows in (raw, sharelag.windows(raw).where("true")):
        for given in (known, known.to_pandas()):
            found = sharelag.lag(windows, given)
            assert "Subquery" not in plan_of(found)
            assert rows(found, schemas.LAG) == wanted
    with pytest.raises(InputError, match="offsets"):
        sharelag.lag(raw, known.drop_columns("end_offset"))


def test_a_table_has_the_rows_of_when_it_is_read(raw: DataFrame, spark: SparkSession) -> None:
    """Spark lists the files of a path when the DataFrame is made, those of a table later on."""
    early = raw.where("offset < 300")
    early.write.mode("overwrite").saveAsTable("growing_records")
    try:
        windows = sharelag.windows(spark.table("growing_records"))
        assert rows(windows, schemas.WINDOWS) == rows(sharelag.windows(early), schemas.WINDOWS)
        raw.where("offset >= 300").write.mode("append").saveAsTable("growing_records")
        assert rows(windows, schemas.WINDOWS) == rows(sharelag.windows(raw), schemas.WINDOWS)
    finally:
        spark.sql("DROP TABLE growing_records")


def test_files_are_those_it_listed(raw: DataFrame, tmp_path: Path, spark: SparkSession) -> None:
    """As in Spark, what is written beside them later is not seen, what is gone an error."""
    folder = tmp_path / "records"
    raw.where("offset < 300").coalesce(1).write.parquet(str(folder))
    read = spark.read.parquet(str(folder))
    windows, before = sharelag.windows(read), rows(sharelag.windows(read), schemas.WINDOWS)
    raw.where("offset >= 300").write.mode("append").parquet(str(folder))
    assert rows(windows, schemas.WINDOWS) == before
    assert rows(sharelag.windows(read), schemas.WINDOWS) == before
    assert rows(sharelag.windows(spark.read.parquet(str(folder))), schemas.WINDOWS) != before
    raw.where("offset < 9").write.mode("overwrite").parquet(str(folder))
    with pytest.raises(PySparkException, match=r"FileNotFound|FILE_NOT_EXIST"):
        windows.toArrow()


def test_a_moment_is_not_read_beyond(raw: DataFrame) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for ask in (sharelag.windows, sharelag.members):
        for at in (moment, moment.isoformat()):
            assert "LessThanOrEqual(timestamp" in plan_of(ask(raw.where(BY_SPARK), as_of=at))
            assert "hashpartitioning(topic" not in plan_of(ask(raw, as_of=at))
    for offsets in ({0: 7, 2: 9}, "0:7,2:9"):
        by_offset = plan_of(sharelag.windows(raw, as_of=offsets))
        assert "LessThanOrEqual(offset,7)" in by_offset
        assert "EqualTo(partition,0)" in by_offset


def rows(frame: DataFrame, schema: pa.Schema) -> list[Any]:
    found = collect(frame, schema)
    return sorted(found.to_pylist(), key=str)


@pytest.fixture
def counting(raw: DataFrame, tmp_path: Path) -> tuple[DataFrame, Callable[[], int]]:
    """Raw records of one task, and how often that was run."""
    noted = str(tmp_path / "reads")

    def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with Path(noted).open("ab") as file:
            file.write(b".")
        yield from batches

    Path(noted).touch()
    frame = raw.coalesce(1).mapInArrow(note, raw.schema)
    return frame, lambda: Path(noted).stat().st_size


def test_one_reading_is_one_pass(
    counting: tuple[DataFrame, Callable[[], int]],
    ends: DataFrame,
    spark: SparkSession,
    cases: Cases,
) -> None:
    frame, reads = counting
    cached = spark.sparkContext._jsc.sc().getPersistentRDDs  # type: ignore[union-attr]
    before = cached().size()
    names = ("lag", "observed", "progress", "members", "imbalance", "windows", "gaps")
    for name in names[: cases(1, len(names))]:
        had = reads()
        bench = sharelag.open(raw=frame, offsets=ends)
        assert bench.frames[name].count() >= 0
        assert (name, reads() - had) == (name, 1)
    had = reads()
    bench = sharelag.open(raw=frame, offsets=ends)
    lazy = bench.frames.history
    assert reads() == had
    assert lazy.count()
    assert reads() - had == 1
    had = reads()
    bench = sharelag.open(raw=frame, offsets=ends)
    bench.lag(), bench.frames.lag.count()
    assert reads() - had == 1
    bench.members(), bench.imbalance()
    assert reads() - had == 2  # the lag alone, then all the rest together
    had = reads()
    bench = sharelag.open(raw=frame, offsets=ends)
    bench.progress(), bench.lag(), bench.members(), bench.explain(), bench.frames.lag.count()
    assert reads() - had == 1
    bench.health()
    assert (reads() - had, cached().size()) == (2, before)
    kept = sharelag.open(raw=frame, offsets=ends, cache=True)
    had = reads()
    kept.lag(), kept.health(), kept.history(), kept.frames.snapshots.count()
    assert reads() - had == 1
    kept.close()


@pytest.mark.parametrize(
    ("chosen", "tasks"),
    [(None, range(1, 9)), pytest.param("false", {40}, marks=pytest.mark.exhaustive)],
)
def test_cached_records_are_in_few_partitions_unless_the_user_chose_otherwise(
    chosen: str | None, tasks: Container[int], raw: DataFrame, ends: DataFrame
) -> None:
    spark, settings = raw.sparkSession, {"spark.sql.shuffle.partitions": "40", MERGES: chosen}
    with set_for(spark, settings), sharelag.open(raw=raw, offsets=ends, cache=True) as bench:
        assert bench.history().table.num_rows
        # What is cached is known to the JVM alone, behind an attribute that may be None.
        (kept,) = spark.sparkContext._jsc.sc().getRDDStorageInfo()  # type: ignore[union-attr]
        assert kept.numPartitions() in tasks
        assert spark.conf.get(MERGES, None) == chosen


@pytest.mark.exhaustive  # with one: `test_one_reading_is_one_pass`
def test_without_a_cache_the_answers_are_the_same(
    raw: DataFrame,
    ends: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    wanted = sharelag.open("chapters", engine="local").lag().table

    def refuse(*_: Any, **__: Any) -> None:
        raise AnalysisException(
            "[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported on serverless compute."
        )

    for name in ("persist", "cache"):
        monkeypatch.setattr(classic.DataFrame, name, refuse)
    assert sharelag.open("chapters").lag().table.num_rows == wanted.num_rows
    assert sharelag.open(raw=raw, offsets=ends).lag().table.equals(wanted)
    assert not caplog.records
    assert sharelag.open(raw=raw, offsets=ends, cache=True).lag().table.equals(wanted)
    assert "Spark has no cache here" in caplog.text


def plans_of(spark: SparkSession, ask: Callable[[], object]) -> str:
    """Ask, and return the plans of the queries that this took."""
    store: Any = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]

    def queries() -> dict[int, str]:
        found = store.executionsList()
        each = [found.apply(n) for n in range(found.size())]
        return {one.executionId(): one.physicalPlanDescription() for one in each}

    before = queries()
    ask()
    return "\n".join(plan for number, plan in queries().items() if number not in before)


#: DataFrames that show the rows of files in another way than these do.
OTHERWISE: dict[str, Callable[[DataFrame], DataFrame]] = {
    "rows chosen": lambda raw: raw.where(F.col("offset") % 3 == 0),
    "the first rows": lambda raw: raw.limit(9),
    "a column computed": lambda raw: raw.withColumn("offset", F.col("offset") + 1),
    "two columns change names": lambda raw: raw.select(
        F.col("value").alias("key"), F.col("key").alias("value"), *raw.columns[2:]
    ),
    "in Spark's cache": lambda raw: raw.persist(),
    "made of such": lambda raw: raw.persist().select(*NEEDED, "timestampType"),
    "of two, by position": lambda raw: raw.union(
        raw.where("offset < 0").select("value", "key", *raw.columns[2:])
    ),
}


def test_files_that_a_frame_is_a_mere_scan_of_are_read_by_tasks_and_not_exchanged(
    raw: DataFrame, ends: DataFrame, spark: SparkSession, cases: Cases
) -> None:
    alone = sharelag.open("chapters", engine="local")
    scanned = sharelag.open(raw=raw.where(BY_SPARK), offsets=ends)
    scans = [raw.select(*sorted(raw.columns)), raw, raw.alias("records")]
    for given in scans[: cases(1, 3)]:
        bench = sharelag.open(raw=given, offsets=ends)
        plans = plans_of(spark, bench.lag)
        assert "MapInArrow" in plans
        assert "hashpartitioning(topic" not in plans
        assert bench.lag().table.equals(alone.lag().table)
        assert bench.health().table.equals(scanned.health().table)


@pytest.mark.parametrize("name", few_of(OTHERWISE, ["rows chosen", "in Spark's cache"]))
def test_other_rows_stay(name: str, raw: DataFrame, ends: DataFrame, spark: SparkSession) -> None:
    given = OTHERWISE[name](raw)
    bench = sharelag.open(raw=given, offsets=ends)
    found: list[Any] = []
    said = plans_of(spark, lambda: found.append(bench.frames.windows.toArrow()))
    assert "hashpartitioning(topic" in said
    told = rows(bench.frames.windows, schemas.WINDOWS)
    assert told == rows(sharelag.windows(given), schemas.WINDOWS)
    spark.catalog.clearCache()


@pytest.mark.exhaustive  # `tests/unit/inputs/test_raw_files.py` reads such folders
def test_spark_reads_folder_columns(raw: DataFrame, tmp_path: Path, spark: SparkSession) -> None:
    raw.write.partitionBy("partition").parquet(str(tmp_path / "records"))
    given = spark.read.parquet(str(tmp_path / "records"))
    found = rows(sharelag.open(raw=given).frames.windows, schemas.WINDOWS)
    assert found == rows(sharelag.windows(raw), schemas.WINDOWS)


def test_cached_rows_used(counting: tuple[DataFrame, Callable[[], int]], ends: DataFrame) -> None:
    frame, reads = counting
    windows = sharelag.windows(frame).persist()
    kept, had = windows.count(), reads()
    assert (sharelag.lag(windows, ends).count(), reads()) == (kept, had)
    windows.unpersist()


def test_settings_of_the_session_change_nothing_and_stay(raw: DataFrame, ends: DataFrame) -> None:
    wanted = sharelag.open("chapters", engine="local").reading.table("lag").to_pylist()
    conf, raw = raw.sparkSession.conf, raw.where(BY_SPARK)
    theirs = {
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.ansi.enforceReservedKeywords": "true",
    }
    with set_for(raw.sparkSession, theirs):
        settings = dict(conf.getAll)
        assert rows(sharelag.lag(raw, ends), schemas.LAG) == sorted(wanted, key=str)
        bench = sharelag.open(raw=raw, offsets=ends)
        assert bench.frames.progress.count() == len(wanted)
        bench.explain()
        assert dict(conf.getAll) == settings


def test_a_moment_has_the_records_of_its_millisecond(spark: SparkSession) -> None:
    read = pq.read_table(CAPTURE / "records").replace_schema_metadata()
    moments = sorted(set(read.column("timestamp").to_pylist()))
    before, moment = moments[len(moments) // 2 - 1 :][:2]
    microseconds = read.column("timestamp").cast(pa.timestamp("us", "UTC"))
    later = pc.add(microseconds, pa.scalar(456, pa.duration("us")))
    records = with_column(read, "timestamp", later)
    frame, found = spark.createDataFrame(records), []
    for at in (before, moment):
        found.append(rows(sharelag.windows(frame, as_of=at), schemas.WINDOWS))
        alone = sharelag.open(raw=records, as_of=at, engine="local").reading.table("windows")
        assert found[-1] == sorted(alone.to_pylist(), key=str)
    assert found[0] != found[1]


def test_records_of_a_table_that_repeat_others_count_once(raw: DataFrame, ends: DataFrame) -> None:
    once = [pq.read_table(CAPTURE / name) for name in ("records", "offsets.parquet")]
    wanted = sharelag.open(raw=once[0], offsets=once[1], engine="local")
    twice = raw.unionByName(raw.where(F.col("offset") % 3 == 0)).repartition(5)
    bench = sharelag.open(raw=twice, offsets=ends)
    assert bench.lag().table.equals(wanted.lag().table)
    assert bench.health().table.equals(wanted.health().table)
    assert bench.reading.record_counts == wanted.reading.record_counts._replace(
        repeated=raw.where((F.col("offset") % 3 == 0) & F.col("topic").endswith("_state")).count()
    )
    assert sharelag.history(twice).count() == sharelag.history(raw).count()


def test_topics_of_any_name_stay_with_their_records(spark: SparkSession) -> None:
    """Nearly all records have one topic, which is not sent to Python; the names of others are."""
    read = pq.read_table(CAPTURE / "records").replace_schema_metadata()
    state = read.filter(pc.ends_with(read.column("topic"), "__share_group_state")).slice(0, 200)
    at = state.schema.names.index("topic")
    names = ("eu.__share_group_state", "us-west.__share_group_state", "", None)
    copies = (state.set_column(at, "topic", pa.array([n] * 200, pa.string())) for n in names)
    parts = [state, *copies]
    key, marked = state.schema.names.index("key"), b"\xff\xff=x\0=y"
    for number, bad in enumerate((None, b"", marked), 1):
        keys = pa.array([bad] * 200, pa.binary())
        late = pc.add(state.column("offset"), 10_000 * number)
        part = state.set_column(key, "key", keys)
        parts.append(part.set_column(part.schema.names.index("offset"), "offset", late).slice(0, 9))
    records = pa.concat_tables(parts)
    ours = sharelag.open(raw=records, engine="spark")
    alone = sharelag.open(raw=records, engine="local")
    assert ours.health().table.equals(alone.health().table)
    assert ours.windows().table.equals(alone.windows().table)
    assert ours.reading.record_counts == alone.reading.record_counts
    assert ours.reading.record_counts.rejected >= 18


def test_a_name_with_a_nul_is_not_taken_for_another(spark: SparkSession) -> None:
    read = pq.read_table(CAPTURE / "records").replace_schema_metadata()
    state = read.filter(pc.ends_with(read.column("topic"), "__share_group_state")).slice(0, 50)
    named = pa.array(["a\0b.__share_group_state"] * 50)
    records = state.set_column(state.schema.names.index("topic"), "topic", named)
    found = sharelag.open(raw=records, engine="spark").health().table
    assert found.column("topic").unique().to_pylist() == ["a\ufffdb.__share_group_state"]
