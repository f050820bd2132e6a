"""All tables of an input as DataFrames, by name: contents, cost, and what is collected."""

import gc
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sharelag
from sharelag import schemas
from sharelag.engine.spark import diff, rollup
from sharelag.engine.spark.packing import collect
from sharelag.engine.spark.reading import TABLES
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.inputs.files import pieces
from sharelag.inputs.recorded import folder_of
from sharelag.inputs.spark.frames import FrameInput
from sharelag.monitoring.checks.measures import past
from sharelag.replay.moment import parse_time
from sharelag.reports.case import read
from sharelag.reports.incident import signs, timeline, window_heat
from sharelag.workbench import ask as questions
from sharelag.workbench.questions.timeline import lags_at, trends
from tests.support import readings
from tests.support.captures import with_growth, with_mirror
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE
from tests.support.dead_letters import queue_table
from tests.support.spark.settings import set_for

THEN = "2026-11-21T11:44:31Z"
#: Tables of a row a share partition, or a summary, and where the same stands on the other engine.
SAME = {
    "windows": lambda b: b.evidence().windows,
    "observed": lambda b: b.evidence().observed,
    "snapshots": lambda b: b.reading.table("snapshots"),
    "members": lambda b: b.evidence().members,
    "groups": lambda b: b.evidence().groups,
    "offsets": lambda b: b.reading.table("offsets"),
    "past_offsets": lambda b: b.evidence().past_offsets,
    "logs": lambda b: b.evidence().logs,
    "times": lambda b: b.evidence().times,
    "settings": lambda b: b.evidence().settings,
    "gaps": lambda b: b.evidence().gaps,
    "lag": lambda b: b.evidence().lag,
    "progress": lambda b: b.evidence().progress,
    "imbalance": lambda b: b.reading.imbalance(),
    "history": lambda b: b.history().table.select(schemas.HISTORY.names),
}
QUESTIONS: dict[str, Callable[[Any], pa.Table]] = {
    "lag": lambda b: b.lag().table,
    "lag by group": lambda b: b.lag(by="group").table,
    "lag by topic": lambda b: b.lag(by="topic").table,
    "windows": lambda b: b.windows().table,
    "history": lambda b: b.history().table,
    "timeline": lambda b: b.timeline(every=2.0).table,
    "events": lambda b: b.events().table,
    "progress": lambda b: b.progress().table,
    "snapshots": lambda b: b.snapshots().table,
    "imbalance": lambda b: b.imbalance().table,
    "imbalance by member": lambda b: b.imbalance(by="member").table,
    "skew": lambda b: b.skew(),
    "members": lambda b: b.members().table,
    "groups": lambda b: b.group_states().table,
    "explain": lambda b: b.explain().table,
    "reconcile": lambda b: b.reconcile().table,
    "diff": lambda b: b.diff("2026-11-21T11:44:20Z").table,
    "moments": lambda b: b.moments("billing", most=40).table,
}


def rows(table: pa.Table) -> list[str]:
    """Rows in a defined order."""
    return sorted(map(repr, table.to_pylist()))


@pytest.fixture(scope="module")
def bench(spark: SparkSession) -> sharelag.Workbench:
    """The demo on Spark, as of its end, for all tests that leave its limits alone."""
    return sharelag.open("chapters", spark=spark)


@pytest.fixture(scope="module")
def wanted() -> pa.Table:
    """Lag of the demo, found in one process."""
    return sharelag.open("chapters", engine="local").reading.table("lag")


#: Frames are compared as of now and answers as of then, and both as of every moment in full.
MOMENTS = {"now": None, "then": THEN, "offsets": dict.fromkeys(range(4), 200)}


def compared(quick: str) -> pytest.MarkDecorator:
    """Compare as of one moment, and of the others in `make test-exhaustive`."""
    params = few_of(MOMENTS, [quick])
    return pytest.mark.parametrize("benches", params, indirect=True, scope="module")


@pytest.fixture(scope="module")
def benches(
    request: pytest.FixtureRequest, spark: SparkSession, bench: sharelag.Workbench
) -> tuple[Any, Any]:
    """The demo on Spark, and in one process."""
    then: Any = MOMENTS[request.param]
    on_spark = sharelag.open("chapters", as_of=then, spark=spark) if then else bench
    return on_spark, sharelag.open("chapters", as_of=then, engine="local")


@compared("now")
@pytest.mark.parametrize("name", SAME)
def test_a_frame_holds_what_one_process_finds(benches: tuple[Any, Any], name: str) -> None:
    on_spark, local = benches
    frame = on_spark.frames[name]
    assert frame.columns == TABLES[name].schema.names
    wanted = SAME[name](local)
    assert rows(collect(frame, TABLES[name].schema)) == rows(wanted)


@compared("then")
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_answer_is_the_same_row_for_row(benches: tuple[Any, Any], question: str) -> None:
    on_spark, local = (QUESTIONS[question](bench) for bench in benches)
    assert on_spark.to_pylist() == local.to_pylist()
    # Nobody was in a group at the end of the recording.
    assert on_spark.num_rows or benches[0].as_of is not None or "member" in question


def test_raw_is_records_and_rejects_and_what_is_skipped(bench: sharelag.Workbench) -> None:
    frames = bench.frames
    found = frames.raw.count()
    assert found == frames.records.count() + frames.group_records.count() + frames.rejects.count()
    assert frames.health.agg(F.sum("records")).collect()[0][0] == frames.records.count()


def test_sql_leaves_views_of_users_alone(spark: SparkSession, bench: sharelag.Workbench) -> None:
    spark.createDataFrame([("mine", 1)], "group_id string, lag int").createOrReplaceTempView("lag")
    spark.createDataFrame(
        [("billing", "Ada"), ("fraud-check", "Bob")], "group_id string, owner string"
    ).createOrReplaceTempView("owners")
    try:
        totals = bench.sql("select group_id, sum(lag) as total from lag group by 1").collect()
        sums = {row.group_id: row.total for row in totals}
        result = bench.lag(by="group").to_pandas().set_index("group_id")["lag"].to_dict()
        told = {group: total for group, total in sums.items() if total is not None}
        assert told == {group: int(total) for group, total in result.items() if total == total}
        query = """with worst as (select group_id, max(lag) as lag from lag group by group_id)
            select owner, lag, '{braces}' as text from worst join owners using (group_id)
            where lag > :least order by lag desc;"""
        found = bench.sql(query, {"least": 0}).collect()
        assert ([row.owner for row in found], found[0].text) == (["Ada", "Bob"], "{braces}")
        assert [tuple(row) for row in spark.table("lag").collect()] == [("mine", 1)]
        assert bench.sql("select count(*) as n from owners").collect()[0].n == 2
        seen = bench.sql("select '{as it is}' as text from owners").collect()[0].text
        assert seen == "{as it is}"
        assert bench.sql("select count(*) as n from lag -- of all groups").collect()[0].n == 32
    finally:
        spark.catalog.dropTempView("lag")
        spark.catalog.dropTempView("owners")


# ---- DataFrames of the user's own ----------------------------------------------------------------
def own(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """As somebody's lake would hold it: more columns, in another order, of other tasks."""
    raw = spark.read.parquet(str(CAPTURE / "records")).withColumn("headers", F.lit("x"))
    columns = reversed(raw.columns)
    return raw.select(*columns).repartition(3), spark.read.parquet(str(CAPTURE / "offsets.parquet"))


def test_own_dataframes_give_the_lag_of_the_capture(spark: SparkSession, wanted: pa.Table) -> None:
    raw, ends = own(spark)
    bench = sharelag.open(raw=raw, offsets=ends)
    assert (bench.evidence().lag.to_pylist(), bench.lag().engine) == (wanted.to_pylist(), "spark")
    moments = sharelag.open("chapters", engine="local").moments("billing", most=9).table
    assert bench.moments("billing", most=9).table.equals(moments)  # records out of order, too
    assert "a DataFrame of raw records" in repr(bench)
    records, _ = sharelag.decode(raw)
    lag = sharelag.lag(sharelag.windows(records), ends)
    assert rows(collect(lag, schemas.LAG)) == rows(wanted)
    here = sharelag.open("chapters", engine="local")
    evidence = here.evidence()
    seen = sharelag.pipeline.observed(records, evidence.as_of, timedelta(hours=1))
    assert rows(collect(seen, schemas.OBSERVED)) == rows(evidence.observed)
    for by in ("group", "topic"):
        assert rows(collect(rollup(lag, by), schemas.ROLLUP)) == rows(here.lag(by=by).table)


@pytest.mark.filterwarnings("ignore")  # those of pyspark.pandas about versions of pandas
def test_what_does_not_fit_is_refused(spark: SparkSession, bench: sharelag.Workbench) -> None:
    """Before anything runs, with the columns that are wrong or with what to give instead."""
    here, ends = (pq.read_table(CAPTURE / name) for name in ("records", "offsets.parquet"))
    raw, on_spark = own(spark)
    api, api_ends = raw.pandas_api(), on_spark.pandas_api()
    odd = spark.createDataFrame([("a", 1)], "key string, partition int")
    twice = on_spark.select("*", F.lit(1).alias("END_OFFSET"))
    of = sharelag.open
    no_value = "value: expected binary, got no such column"
    own_table = r"give the Spark DataFrame.*to_spark\(\)"
    alike = "offsets: Spark does not distinguish the columns end_offset and END_OFFSET: drop or"
    no_records = r"raw records: 4 of 7 columns.*key: expected binary"  # decoded ones neither
    rate = spark.readStream.format("rate").load().withColumnRenamed("value", "window_end_offset")
    lag_table = spark.createDataFrame([], schemas.spark_schema(schemas.LAG))
    wrong: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: sharelag.decode([1]),
            "cannot read raw records from a list: give a DataFrame of Spark, pa",
        ),
        (  # wrong types on purpose, here and below
            lambda: of(raw=raw.value),  # type: ignore[arg-type]
            "cannot read raw records from a Column: give a DataFrame",
        ),
        (
            lambda: of(raw=raw, offsets=on_spark.end_offset),  # type: ignore[arg-type]
            "cannot read offsets from a Column",
        ),
        (lambda: bench.dead_letters("billing", raw.value), "is not a dead-letter queue"),
        (lambda: of(raw=[1, 2]), "cannot read raw records from a list: give a DataFrame"),  # type: ignore[arg-type]
        (lambda: sharelag.decode(here.drop_columns(["value"])), no_value),
        (lambda: sharelag.decode(here.drop_columns(["value"]).to_pandas()), no_value),
        (
            lambda: sharelag.decode(here.to_pandas().assign(offset="x")),
            "offset: expected int64, got string",
        ),
        (
            lambda: sharelag.decode(here.to_pandas().assign(key=[b"k", *["k"] * (len(here) - 1)])),
            "column 'key' cannot be read: it has texts among bytes. Give it one type",
        ),
        (
            lambda: sharelag.decode(odd),
            r"key: expected binary, got string.*value: expected binary, got no",
        ),
        (lambda: sharelag.windows(odd), r"raw records: .*offset"),
        (lambda: sharelag.windows(odd.drop("key")), r"raw records: .*key: expected binary, got no"),
        (lambda: sharelag.health(raw.drop("value")), r"raw records: .*value"),
        (lambda: sharelag.lag(here, twice), alike),
        (lambda: sharelag.lag(raw, rate), "the offsets are a stream: use sharelag.stream.lag, or"),
        (lambda: sharelag.lag(rate, on_spark), "the windows are a stream: use sharelag.stream.lag"),
        (lambda: sharelag.lag(raw, ends.to_pandas().set_index("partition")), "index has partition"),
        (lambda: sharelag.decode(raw.withColumnRenamed("key", "Key")), "no such column, but Key"),
        (lambda: of(raw=here, offsets=twice), alike),
        *[(partial(ask, ends), no_records) for ask in (sharelag.windows, sharelag.history)],
        (lambda: sharelag.members(ends), no_records),
        (lambda: sharelag.members(lag_table), "raw records: "),
        (lambda: sharelag.windows(api), f"raw records: {own_table}"),
        (lambda: sharelag.lag(raw, api_ends), f"offsets: {own_table}"),
        (lambda: of(raw=api, offsets=on_spark), f"raw records: {own_table}"),
        (lambda: of(raw=api, offsets=None, engine="local"), f"raw records: {own_table}"),
        (lambda: of(raw=on_spark), r"raw records: .*key: expected binary"),
        (lambda: of("chapters", raw=raw), "give either what to open or raw=DataFrame"),
        (lambda: of(offsets=on_spark), "offsets=DataFrame can only be given together with raw"),
        (lambda: of(raw=raw, engine="local"), "can only be read on Spark: remove engine='local'"),
        (lambda: bench.frames["lags"], "unknown table 'lags': choose one of raw, records"),
        (lambda: rollup(odd, "group"), r"lag: .*group_id"),
        (lambda: rollup(lag_table, "member"), "sum lag by 'member': choose one of group, topic"),
        (
            lambda: sharelag.imbalance(lag_table, on_spark.select("topic")),
            "members: 3 of 3 columns do not fit",
        ),
    ]
    for number, (ask, said) in enumerate(wrong):
        with pytest.raises(InputError, match=said):
            assert not ask(), f"number {number} is taken"
    assert sharelag.decode(here.slice(0, 0)).records.count() == 0


@pytest.mark.parametrize("kind", ["pandas", pytest.param("arrow", marks=pytest.mark.exhaustive)])
def test_tables_here_are_taken_as_sparks(kind: str, spark: SparkSession, wanted: pa.Table) -> None:
    given = [like(kind, pq.read_table(CAPTURE / name)) for name in ("records", "offsets.parquet")]
    bench = sharelag.open(raw=given[0], offsets=given[1], spark=spark)
    assert bench.evidence().lag.to_pylist() == wanted.to_pylist()


@pytest.mark.exhaustive  # `test_tables_here_are_taken_as_sparks`
@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_functions_take_tables_as_well(kind: str, spark: SparkSession, wanted: pa.Table) -> None:
    given = [like(kind, pq.read_table(CAPTURE / name)) for name in ("records", "offsets.parquet")]
    bench = sharelag.open(raw=given[0], offsets=given[1], spark=spark)
    records, rejects = sharelag.decode(given[0])
    assert not rejects.count()
    windows = like(kind, collect(sharelag.windows(like(kind, records.toArrow())), schemas.WINDOWS))
    lag = collect(sharelag.lag(windows, given[1]), schemas.LAG)
    assert rows(lag) == rows(wanted)
    by_group = rollup(like(kind, lag), "group").toArrow()
    assert pc.sum(by_group.column("lag")) == pc.sum(wanted.column("lag"))
    assert sharelag.history(like(kind, records.toArrow())).count() == records.count()
    past = like(kind, bench.evidence().past_offsets)
    grown = collect(sharelag.imbalance(like(kind, lag), past=past), schemas.IMBALANCE)
    frames = bench.frames
    of_spark = sharelag.imbalance(frames.lag, past=frames.past_offsets)
    assert rows(grown) == rows(collect(of_spark, schemas.IMBALANCE))
    assert diff(windows, windows).select("change").distinct().count() == 1
    past_records = sharelag.history(records)
    history = like(kind, collect(past_records, schemas.HISTORY))
    assert history.shape[0] == records.count()
    counted = collect(sharelag.health(given[0]), schemas.HEALTH)
    of_spark = sharelag.health(own(spark)[0])
    assert rows(counted) == rows(collect(of_spark, schemas.HEALTH))
    of_groups = sharelag.decode(own(spark)[0], "__consumer_offsets").records.toArrow()
    found = collect(sharelag.members(like(kind, of_groups)), schemas.MEMBERS)
    assert rows(found) == rows(bench.evidence().members)


def like(kind: str, table: pa.Table) -> Any:
    """The same rows as somebody's table."""
    return table.to_pandas() if kind == "pandas" else table


def test_tables_are_taken_where_rows_have_no_limit(spark: SparkSession, wanted: pa.Table) -> None:
    raw, ends = (pq.read_table(CAPTURE / name) for name in ("records", "offsets.parquet"))
    with set_for(spark, {"spark.sql.execution.arrow.maxRecordsPerBatch": "0"}):
        assert rows(collect(sharelag.lag(raw, ends), schemas.LAG)) == rows(wanted)
        found = sharelag.open(raw=raw, offsets=ends, spark=spark).frames.lag
        assert rows(collect(found, schemas.LAG)) == rows(wanted)


def test_a_query_that_cannot_be_run_is_a_sentence(bench: sharelag.Workbench) -> None:
    for query, said in (
        ("select * from lagg", "`lagg`.*; the tables here are raw, "),
        ("selec lag", "selec.*; the tables here are"),
    ):
        with pytest.raises(InputError, match=said) as found:
            bench.sql(query).count()
        assert "\n" not in str(found.value)


def test_offsets_of_several_moments_are_taken_as_of_each(spark: SparkSession) -> None:
    raw, ends = own(spark)
    past = spark.read.parquet(str(CAPTURE / "past_offsets.parquet"))
    both = ends.unionByName(past)
    at = datetime(2026, 11, 21, 11, 44, 40, tzinfo=UTC)
    names = ["group_id", "topic_id", "partition", "start_offset", "end_offset", "lag"]
    then = sharelag.open(raw=raw, offsets=both, as_of=at).reading.table("lag").select(names)
    wanted = sharelag.open("chapters", as_of=at, engine="local").reading.table("lag").select(names)
    assert then.to_pylist() == wanted.to_pylist()
    assert pc.sum(then.column("lag")).as_py() > 0


def test_times_have_microseconds_and_latest_counts(spark: SparkSession, wanted: pa.Table) -> None:
    """Spark's ``current_timestamp()`` has microseconds; appended tables have many rows a key.

    Of several rows of the latest time the largest end counts, in whatever order they are.
    """
    raw, ends = own(spark)
    later = ends.withColumn("as_of", F.expr("as_of + interval 123 microseconds"))
    older = ends.withColumn("as_of", F.expr("as_of - interval 1 minute")).withColumn(
        "end_offset", F.lit(0)
    )
    unsure = later.withColumn("end_offset", F.col("end_offset") - 1)
    unknown = later.withColumn("end_offset", F.lit(None))
    both = reduce(DataFrame.unionByName, (older, unsure, later, unknown, unsure, older))
    records, _ = sharelag.decode(raw)
    # Of windows with another column, too.
    lag = sharelag.lag(sharelag.windows(records).withColumn("topic", F.lit("mine")), both)
    assert rows(collect(lag, schemas.LAG)) == rows(wanted)
    found = sharelag.open(raw=raw, offsets=both).reading.table("lag").to_pylist()
    assert found == wanted.to_pylist()


def test_past_offsets_are_thinned_out_where_they_exceed_the_moments(spark: SparkSession) -> None:
    raw, ends = own(spark)
    seconds = spark.range(600).select(F.col("id").alias("second"))
    many = ends.crossJoin(seconds).withColumn(
        "as_of", F.expr("as_of - make_interval(0, 0, 0, 0, 0, 0, second)")
    )
    many = many.withColumn("end_offset", F.col("end_offset") - F.col("second")).drop("second")
    source = FrameInput(raw, many)
    (ids,) = ends.select(F.collect_set("topic_id")).collect()[0]
    last = ends.agg(F.max("as_of")).collect()[0][0].astimezone(UTC)
    moments = [last - timedelta(seconds=60 * n) for n in range(10)][::-1]
    found = source.past_offsets(ids, moments)
    partitions = ends.count()
    assert partitions * 10 <= found.num_rows <= partitions * 2 * 10
    by_moment = found.filter(pc.is_in(found.column("as_of"), pa.array(moments, schemas.TIMESTAMP)))
    assert by_moment.num_rows == partitions * 10  # of each moment the end that was noted then


def test_a_file_that_spark_cannot_read_is_named(spark: SparkSession, tmp_path: Path) -> None:
    raw, ends = own(spark)
    (tmp_path / "odd.parquet").write_bytes(b"PAR1 no such PAR1")
    odd = spark.read.schema(raw.schema).parquet(str(tmp_path)).where(F.length("value") > 0)
    with pytest.raises(
        InputError, match=r"^Spark cannot read file:.*/odd\.parquet \(.*write it aga"
    ):
        sharelag.open(raw=odd, offsets=ends).lag()


def test_what_a_stream_cannot_have_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    raw, ends = own(spark)
    raw.limit(5).write.parquet(str(tmp_path / "raw"))
    ends.write.parquet(str(tmp_path / "ends"))
    stream = spark.readStream.schema(raw.schema).parquet(str(tmp_path / "raw"))
    with pytest.raises(InputError, match="the records are a stream, which has no members"):
        sharelag.open(raw=stream).frames.members  # noqa: B018  # naming it is what is refused
    moving = spark.readStream.schema(ends.schema).parquet(str(tmp_path / "ends"))
    with pytest.raises(InputError, match="offsets cannot be a stream"):
        sharelag.open(raw=raw, offsets=moving)


def test_what_is_kept_in_sparks_cache_leaves_it_with_the_workbench(spark: SparkSession) -> None:
    raw, ends = own(spark)
    storage = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    before = storage.getPersistentRDDs().size()
    with sharelag.open(raw=raw, offsets=ends, cache=True) as bench:
        assert bench.lag().table.num_rows == 32
        assert storage.getPersistentRDDs().size() == before + 1  # records, once and compressed
        bench.explain()
        assert bench.history().table.num_rows
        assert storage.getPersistentRDDs().size() == before + 1
    assert storage.getPersistentRDDs().size() == before
    assert bench.lag().table.num_rows == 32  # and reads again when it is asked
    bench.close()


def test_files_an_archive_has_replaced_are_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    copy = shutil.copytree(CAPTURE, tmp_path / "capture")
    bench = sharelag.open(copy, spark=spark)
    bench.lag()
    shutil.rmtree(copy / "records")
    said = r"files that were read before are gone.*bench\.refresh\(\)"
    with pytest.raises(InputError, match=said):
        bench.history()
    del bench
    gc.collect()
    assert (
        len(sharelag.open("chapters", spark=spark).lag()) == 32
    )  # releases what the other one kept


def test_each_group_has_its_latest(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharelag.workbench.questions.timeline.MOST_ROWS", 50)
    for of in (sharelag.open("chapters", spark=spark), sharelag.open("chapters", engine="local")):
        every = readings.history(CaptureInput(CAPTURE), "local").table["group_id"].to_pylist()
        for group in ("billing", "shipping"):
            assert len(of.history(group)) == min(every.count(group), 50)
        monkeypatch.setattr("sharelag.workbench.questions.lag.MOST_WINDOWS", 60)
        moments = of.moments("shipping").table
        assert 6 <= moments.num_rows <= 60
        assert len(pc.unique(moments.column("as_of"))) == 10


def test_without_offsets_windows_are_known_and_lag_is_not(spark: SparkSession) -> None:
    bench = sharelag.open(raw=own(spark)[0])
    lag = bench.reading.table("lag")
    assert lag.column("lag").null_count == lag.num_rows == 32
    found = set(lag.column("lag_reason").to_pylist())
    assert found <= {"unknown_topic", "no_start_offset", "no_delivery_complete_count"}


def test_results_become_dataframes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharelag.workbench.questions.timeline.MOST_ROWS", 100)
    bench = sharelag.open("chapters", spark=spark)
    history = bench.history()
    assert (len(history), history.to_spark().count()) == (100, 1780)
    assert "the latest 100 of 1,780 rows" in history.to_text()
    whole = sharelag.open("chapters", engine="local").history().table
    last = whole.sort_by([("record_timestamp", "descending")])
    assert pc.min(history.table["record_timestamp"]).as_py() == last["record_timestamp"][99].as_py()
    billing = bench.history("billing")
    assert billing.to_spark().select("group_id").distinct().collect()[0].group_id == "billing"
    later = bench.history(since=THEN).to_spark()
    since = readings.history(CaptureInput(CAPTURE), "local", since=parse_time(THEN)).table
    assert later.count() == since.num_rows


def test_a_timeline_is_cut_in_sight(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sharelag.open("chapters", engine="local").timeline(every=10.0)
    on_spark = sharelag.open("chapters", spark=spark).timeline(every=10.0)
    assert ["producers" in note for note in whole.notes] == [True]
    assert rows(collect(on_spark.to_spark(), schemas.TIMELINE)) == rows(whole.table)
    most = len(pc.unique(whole.table["as_of"])) * 5
    monkeypatch.setattr("sharelag.workbench.questions.timeline.MOST_TIMELINE_ROWS", most)
    for bench in (
        sharelag.open("chapters", spark=spark),
        sharelag.open("chapters", engine="local"),
    ):
        worst = bench.reading.table("lag").sort_by([("lag", "descending")]).slice(0, 5)
        cut = bench.timeline(every=10.0)
        assert set(cut.table["topic_id"].to_pylist()) == set(worst["topic_id"].to_pylist())
        lags = cut.table.filter(pc.equal(cut.table["as_of"], cut.as_of)).column("lag").to_pylist()
        assert sorted(lags) == sorted(worst.column("lag").to_pylist())
        assert "the 5 share partitions with the most lag" in cut.to_text()
        assert rows(collect(cut.to_spark(), schemas.TIMELINE)) == rows(whole.table)
        billing = bench.timeline("billing", every=10.0)
        assert set(billing.table.column("group_id").to_pylist()) == {"billing"}
        assert billing.to_spark().select("group_id").distinct().count() == 1


def test_a_timeline_beside_a_mirror_is_that_of_the_original(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The states of a share partition are in two tasks; one of them counts."""
    monkeypatch.setattr(pieces, "_TASK_BYTES", 1)
    monkeypatch.setattr(pieces, "_LARGEST_PART", 1)
    folder = with_mirror(CAPTURE, tmp_path / "mirrored")
    whole = sharelag.open(folder, engine="local")
    expected, sums = whole.timeline(every=10.0).table, trends(whole)
    alone = sharelag.open(CAPTURE, engine="local").timeline(every=10.0)
    assert rows(expected) == rows(alone.table)
    mine = sharelag.open(folder, spark=spark)
    assert len(mine.windows().table) == 2 * len(mine.lag().table)
    timeline = mine.timeline(every=10.0)
    assert rows(timeline.table) == rows(expected)
    assert rows(collect(timeline.to_spark(), schemas.TIMELINE)) == rows(expected)
    moments = expected.column("as_of").unique().to_pylist()
    ends = whole.reading.source.past_offsets(expected["topic_id"].unique().to_pylist(), moments)
    assert rows(lags_at(mine.reading, ends, moments)) == rows(lags_at(whole.reading, ends, moments))
    assert rows(mine.events(since=THEN).table) == rows(whole.events(since=THEN).table)
    monkeypatch.setattr("sharelag.workbench.questions.timeline.MOST_TIMELINE_ROWS", 1)
    assert rows(trends(mine)) == rows(sums)


def test_where_the_state_topic_grew_every_answer_is_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Several states of a share partition are in as many tasks."""
    monkeypatch.setattr(pieces, "_TASK_BYTES", 1)
    monkeypatch.setattr(pieces, "_LARGEST_PART", 1)
    folder = with_growth(folder_of("poison"), tmp_path / "grown")
    told = {}
    for engine in ("local", "spark"):
        case = read(capture=str(folder), engine=engine)
        bench, letters = case.bench, {"group": "poison", "queue": queue_table([{"headers": []}])}
        assert len(bench.windows().table) > len(bench.lag().table)
        given: dict[str, Any] = {"moments": {"group": "poison"}, "diff": {"before": "10s"}}
        given |= {"dead_letters": letters, "redrive": letters}
        given["imbalance_trend"] = {"every": timedelta(seconds=5)}
        others = {"forecasts", "settings_drift", "plan_reset", "plan_delete"}
        asked = [name for name in questions.QUESTIONS if name not in others]
        found = {name: bench.ask(name, **given.get(name, {})).table for name in asked}
        found |= {"signs": signs(case), "window heat": window_heat(case)}
        evidence, moments = bench.reading.evidence, list(timeline(case, 3)["as_of"].unique())
        before = [at.as_py() for at in moments[:2]]
        then = past(bench.reading, before, timedelta(seconds=30))
        found |= {f"then {n}": one.facts.evidence.progress for n, one in enumerate(then)}
        told[engine] = found | {"trends": bench.trends()}
        assert evidence.engine == engine
    assert all(map(len, told["local"].values()))
    wrong = [n for n, table in told["local"].items() if rows(told["spark"][n]) != rows(table)]
    assert not wrong
    deleted = with_growth(folder_of("poison"), tmp_path / "deleted", deletes=True)
    cases = [read(capture=str(deleted), engine=engine) for engine in ("local", "spark")]
    for ask in (signs, window_heat, partial(timeline, moments=3)):
        ours, theirs = (rows(ask(case)) for case in cases)
        assert theirs == ours
    for case in cases:
        windows, (last, *_) = (
            case.bench.windows().table,
            case.bench.timeline().table[::-1].to_pylist(),
        )
        assert (len(windows), len(case.bench.lag().table)) == (3, 1)
        assert case.bench.timeline().table.filter(pc.field("as_of") == last["as_of"]).num_rows == 1


@pytest.mark.parametrize("given", ["table", "table on Spark", "DataFrame"])
def test_records_without_a_state_partition_say_so(spark: SparkSession, given: str) -> None:
    source = CaptureInput(CAPTURE)
    topics = ("__share_group_state", "__consumer_offsets")
    raw = pa.Table.from_batches(batch for topic in topics for batch in source.batches(topic))
    is_lost = (pc.field("topic") == topics[0]) & (pc.field("partition") == 0)
    offsets = pq.read_table(CAPTURE / "offsets.parquet")
    found = {}
    for name, rows in (("whole", raw), ("part", raw.filter(~is_lost))):
        is_frame = given == "DataFrame"
        bench = sharelag.open(
            raw=spark.createDataFrame(rows.to_pandas()) if is_frame else rows,
            offsets=spark.createDataFrame(offsets.to_pandas()) if is_frame else offsets,
            engine="local" if given == "table" else "spark",
        )
        found[name] = bench.lag()
    assert [len(found[name].table) for name in ("whole", "part")] == [32, 25]
    lacks = (
        "the state of 7 share partitions that their groups have initialized: "
        "its records are missing"
    )
    assert (found["whole"].lacks, found["part"].lacks) == ((), (lacks,))
    assert lacks in found["part"].unknown
