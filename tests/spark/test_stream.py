"""A stream says after every micro-batch what the batch pipeline says of the same records."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sharelag
from sharelag import schemas
from sharelag.engine.spark import stream
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.inputs.spark.queries import brief
from sharelag.metrics.lag import lag_arrow
from sharelag.replay import replay_arrow
from sharelag.replay.moment import filter_groups
from sharelag.tables.arrow import one_batch
from sharelag.wire import SHARE_SNAPSHOT, STATE_TOPIC, decode_arrow, encode_record
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE
from tests.support.records import offsets, raw, row, with_column
from tests.support.spark.settings import set_for
from tests.support.synthetic import capture_of


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession) -> Iterator[None]:
    """Each shuffle partition of a stateful query costs a Python worker and a state store."""
    with set_for(spark, {"spark.sql.shuffle.partitions": "2"}):
        yield


class _Log:
    """Records that come in micro-batches: a folder of Parquet files, each of which is one."""

    def __init__(self, folder: Path, spark: SparkSession, pieces: Sequence[pa.Table]) -> None:
        self.folder, self.spark, self.pieces = folder, spark, list(pieces)
        (folder / "records").mkdir()
        self.written = 0

    @property
    def raw(self) -> DataFrame:
        rows = self.spark.readStream.schema(schemas.spark_schema(schemas.RAW))
        return rows.option("maxFilesPerTrigger", 1).parquet(str(self.folder / "records"))

    def write(self, count: int) -> None:
        """Let so many more pieces come."""
        for number in range(self.written, self.written + count):
            path = self.folder / "records" / f"{number:03d}.parquet"
            pq.write_table(self.pieces[number], path)
            os.utime(path, (number, number))  # Spark takes the oldest first
        self.written += count

    def run(self, changes: DataFrame, heed: Callable[[DataFrame, int], None]) -> list[Any]:
        """Hand over what a query of the records says of each piece that has come."""
        writer = changes.writeStream.outputMode("update").option(
            "checkpointLocation", str(self.folder / "checkpoint")
        )
        failures: list[BaseException] = []

        def each(frame: DataFrame, batch: int) -> None:
            try:
                heed(frame, batch)
            except (AssertionError, InputError) as error:  # in words that survive the JVM
                failures.append(error)

        query = writer.foreachBatch(each).trigger(availableNow=True).start()
        query.awaitTermination()
        if failures:
            raise failures[0]
        return query.recentProgress

    def run_all(
        self, query: Callable[[DataFrame], DataFrame], heed: Callable[[pa.Table, int], None]
    ) -> None:
        """Let all pieces come, and hand over what the query says of each."""
        self.write(len(self.pieces))
        self.run(query(self.raw), lambda frame, batch: heed(frame.toArrow(), batch))

    def upto(self, number: int) -> pa.RecordBatch:
        came = pa.concat_tables(self.pieces[: number + 1])
        return decode_arrow(came.combine_chunks().to_batches()[0]).records


#: What becomes of a folder of offsets, and what is said then.
UNREADABLE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "gone": (shutil.rmtree, r"the offsets at \S+ends are gone: write them there again"),
    "no Parquet": (
        lambda place: (place / "0.parquet").write_bytes(b"no Parquet" * 9),
        r"cannot read the offsets at \S+ends \(.+\): it must be a folder of Parquet files",
    ),
    "function": (
        lambda place: (place / "0.parquet").write_bytes(b"no Parquet" * 9),
        "the function that gives the offsets raised ArrowInvalid: .+; it must return rows whenever",
    ),
}


@pytest.fixture(scope="module")
def capture() -> tuple[pa.Table, pa.Table]:
    """Return the records and end offsets of a recorded cluster."""
    source = CaptureInput(CAPTURE)
    records = pa.Table.from_batches(source.batches(STATE_TOPIC))
    records = records.filter(pc.equal(records.column("topic"), STATE_TOPIC)).combine_chunks()
    ids = decode_arrow(records.to_batches()[0]).records.column("topic_id").to_pylist()
    return records, source.offsets(ids)


@pytest.mark.parametrize("decoded", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_lag_and_windows_after_every_micro_batch(
    spark: SparkSession, tmp_path: Path, capture: tuple[pa.Table, pa.Table], decoded: bool
) -> None:
    records, ends = capture
    # Each partition's log in four pieces, at different offsets; those of raw records out of order.
    pieces = _pieces(records, 4, Random("micro-batches"))
    log = _Log(tmp_path, spark, pieces if decoded else [pieces[n] for n in (1, 0, 3, 2)])
    lag, rows = schemas.LAG.empty_table(), []
    pq.write_table(ends, tmp_path / "ends.parquet")

    def heed(changes: pa.Table, number: int) -> None:
        nonlocal lag
        lag = stream.updated(lag, changes)
        assert _rows(lag) == _rows(lag_arrow(replay_arrow(log.upto(number)), ends))
        rows.append(changes.num_rows)

    def query(raw: DataFrame) -> DataFrame:
        found = sharelag.decode(raw).records if decoded else raw
        return stream.lag(stream.windows(found), tmp_path / "ends.parquet")

    log.run_all(query, heed)
    assert len(rows) == 4
    assert lag.num_rows >= 24
    assert min(rows[1:]) < lag.num_rows  # only what changed


def test_a_deleted_share_partition_has_no_lag(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = encode_record(SHARE_SNAPSHOT, row(7, []))
    log = _Log(tmp_path, spark, [_piece(0, snapshot), _piece(1, (snapshot[0], None))])
    seen = []

    def heed(changes: pa.Table, _: int) -> None:
        seen.append([(r["lag"], r["deleted"], r["topic"]) for r in changes.to_pylist()])

    log.run_all(lambda raw: stream.lag(stream.windows(raw), lambda: offsets(107)), heed)
    assert seen == [[(100, False, "orders")], [(None, True, "orders")]]


# ---- end offsets beside a stream -----------------------------------------------------------------
@pytest.mark.parametrize("kind", few_of(["folder", "Delta", "function", "table"], ["Delta"]))
def test_each_micro_batch_reads_end_offsets(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Rows are added, then all are replaced; a topic that was created later has a name."""
    snapshots = [encode_record(SHARE_SNAPSHOT, row(7, [], partition=p)) for p in (0, 1)]
    pieces = [_piece(n, *(snapshots if n else snapshots[:1])) for n in (0, 1, 3)]
    log, place, name = _Log(tmp_path, spark, pieces), tmp_path / "ends", f"ends_{uuid4().hex}"

    def write(table: pa.Table, mode: Any) -> None:
        if kind == "Delta":
            write_deltalake(str(place), table, mode=mode)
            return
        frame = spark.createDataFrame(table).write.mode(mode)
        frame.saveAsTable(name) if kind == "table" else frame.parquet(str(place))

    def function() -> pa.Table:
        return pq.read_table(place)

    later = offsets(207).set_column(2, "partition", pa.array([1], pa.int32()))
    write(offsets(107), "append")
    given: dict[str, Any] = {"table": name, "function": function}
    found = sharelag.open(raw=log.raw, offsets=given.get(kind, place)).frames.lag
    seen = []

    def heed(changes: DataFrame, number: int) -> None:
        rows = changes.orderBy("partition").collect()
        seen.append([(r.topic, r.lag) for r in rows])
        if number == 0:
            write(later, "append")
        elif number == 1:
            write(pa.concat_tables([offsets(307), later]), "overwrite")

    log.write(3)
    log.run(found, heed)
    if kind == "table":
        spark.sql(f"drop table {name}")
    first, second, third = seen
    assert (first, second) == ([("orders", 100)], [("orders", 100), ("orders", 200)])
    assert third == [("orders", 300), ("orders", 200)]


def test_end_offsets_that_cannot_change(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "raw").mkdir()
    rows = spark.readStream.schema(schemas.spark_schema(schemas.RAW))
    windows = stream.windows(rows.parquet(str(tmp_path / "raw")))
    pq.write_table(offsets(107), tmp_path / "ends.parquet")
    listed = spark.read.parquet(str(tmp_path / "ends.parquet"))
    listed.createOrReplaceTempView("view_of_files")
    table = f"ends_{uuid4().hex}"
    listed.write.saveAsTable(table)
    for given in (listed.where("partition >= 0"), "view_of_files", spark.read.table(table)):
        with pytest.raises(InputError, match=r"which Spark lists once: .* give the path"):
            stream.lag(windows, given)
    spark.sql(f"drop table {table}")
    with pytest.raises(InputError, match="no offsets at nowhere: neither a path nor a table"):
        stream.lag(windows, "nowhere")
    with pytest.raises(InputError, match="offsets cannot be a stream: write them to a table"):
        stream.lag(windows, windows)
    with pytest.raises(InputError, match=r"cannot send .* in foreachBatch, sharelag\.stream\.lag"):
        stream.lag(windows, lambda: spark.read.parquet("any"))
    assert not caplog.messages
    assert stream.lag(windows, offsets(107)).isStreaming
    assert "rows in hand, which stay as they are" in caplog.text


@pytest.mark.parametrize("kind", UNREADABLE)
def test_end_offsets_no_longer_read_say_so(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """In the task that reads them, or in the driver."""
    become, said = UNREADABLE[kind]
    (place := tmp_path / "ends").mkdir()
    pq.write_table(offsets(107), place / "0.parquet")
    function: Any = {"function": partial(pq.read_table, place)}.get(kind, place)
    changes = sharelag.windows(_piece(0, encode_record(SHARE_SNAPSHOT, row(7, []))))
    changes = changes.withColumn("deleted", F.lit(False))
    lag = stream.lag(changes, function)
    assert [found.lag for found in lag.collect()] == [100]
    become(place)
    with pytest.raises(PySparkException, match=f"InputError: {said}"):
        lag.collect()
    if place.exists():
        with pytest.raises(InputError, match=f"^{said}"):
            stream.to_delta(tmp_path / "tables", function)(changes, 0)


def test_the_name_of_a_view_has_the_columns_of_offsets(spark: SparkSession) -> None:
    ends = spark.createDataFrame(offsets(107)).withColumn("partition", F.expr("bigint(partition)"))
    changes = sharelag.windows(_piece(0, encode_record(SHARE_SNAPSHOT, row(7, []))))
    changes, name = changes.withColumn("deleted", F.lit(False)), f"ends_{uuid4().hex}"
    ends.createOrReplaceTempView(name)
    assert [found.lag for found in stream.lag(changes, name).collect()] == [100]
    unsure = ends.withColumn("end_offset", F.lit(50))  # at the same moment: the largest counts
    for twice in (ends.union(unsure), unsure.union(ends)):
        assert [found.lag for found in stream.lag(changes, twice).collect()] == [100]
    ends.drop("end_offset").createOrReplaceTempView(name)
    with pytest.raises(InputError, match=f"^{name}: 1 of 7 columns do not fit: end_offset"):
        stream.lag(changes, name)


# ---- a query that goes on ------------------------------------------------------------------------
def test_delta_tables_go_on_where_a_restarted_query_goes_on(
    spark: SparkSession, tmp_path: Path, capture: tuple[pa.Table, pa.Table]
) -> None:
    """After the restart some records come again, and others that should have come before."""
    records, ends = capture
    first, second, third, last = _pieces(records, 4, Random("restart"))
    log = _Log(tmp_path, spark, [first, third, pa.concat_tables([first, second]), last])
    changes = stream.windows(log.raw)
    # Where offsets are asked for in the driver, a function may use the session.
    sink = stream.to_delta(tmp_path / "tables", lambda: spark.createDataFrame(ends))
    for count in (2, 2):
        log.write(count)
        if log.written == 4:  # what other groups have had would be missing
            with pytest.raises(
                StreamingQueryException, match=r"with groups=\[\], gen.+, not groups"
            ):
                log.run(stream.windows(log.raw, groups=["clickstream"]), sink)
        log.run(changes, sink)
        came = decode_arrow(pa.concat_tables(log.pieces[: log.written])).records
        if log.written == 4:
            came = decode_arrow(records).records
        windows = replay_arrow(came)
        for name, expected in (("windows", windows), ("lag", lag_arrow(windows, ends))):
            got = DeltaTable(str(tmp_path / "tables" / name)).to_pyarrow_table()
            assert _rows(got.cast(expected.schema)) == _rows(expected)
    # A micro-batch that is repeated says the same again; tables of another are not mixed.
    frame = spark.createDataFrame([], schemas.spark_schema(stream.WINDOWS))
    sink(frame, 3)
    sink(frame, 4)
    with pytest.raises(InputError, match="is the table of micro-batch 4, but the query continues"):
        sink(frame, 6)
    elsewhere = stream.to_delta(tmp_path / "others", tmp_path)
    with pytest.raises(InputError, match="is no table, but the query continues with micro-batch 1"):
        elsewhere(frame, 1)
    write_deltalake(str(tmp_path / "others" / "windows"), pa.table({"mine": [1]}))
    with pytest.raises(InputError, match="is a different table: choose another folder"):
        elsewhere(frame, 0)


def test_a_state_deleted_after_the_topic_grew_has_no_lag(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The state in the former state partition is older than the deletion of the latter."""
    records = decode_arrow(raw([encode_record(SHARE_SNAPSHOT, row(7, []))])).records
    (before,) = replay_arrow(records).to_pylist()
    after = before | {"record_partition": 9, "create_timestamp": datetime(2026, 11, 21, tzinfo=UTC)}
    gone = after | {"deleted": True, "record_timestamp": datetime(2026, 11, 22, tzinfo=UTC)}
    sink = stream.to_delta(tmp_path, lambda: spark.createDataFrame(offsets(107)))
    steps = [[{**before, "deleted": False}, {**after, "deleted": False}], [gone], []]
    for batch, (changes, left) in enumerate(zip(steps, (1, 0, 0), strict=True)):
        rows = pa.Table.from_pylist(changes, stream.WINDOWS)
        sink(spark.createDataFrame(rows), batch)
        assert DeltaTable(str(tmp_path / "lag")).to_pyarrow_table().num_rows == left


def test_a_stream_is_watched(
    spark: SparkSession, tmp_path: Path, capture: tuple[pa.Table, pa.Table]
) -> None:
    records, ends = capture
    pieces = _pieces(records, 2, Random("watched"))
    log = _Log(tmp_path, spark, pieces)
    group = "clickstream"
    ends_now = [ends.slice(0, 0)]
    with stream.watch(
        log.raw, offsets=lambda: spark.createDataFrame(ends_now[0]), groups=group, every=0.2
    ) as live:
        assert live.lag.num_rows == 0  # before there is any record
        ends_now[0] = ends
        log.write(2)
        windows = replay_arrow(filter_groups(decode_arrow(records).records, frozenset({group})))
        expected = _rows(lag_arrow(windows, ends))
        assert any(_rows(lag) == expected for lag in live.updates(seconds=120))
        assert "a DataFrame of raw records" in repr(live)
        # The state topic has more partitions by now, and one share partition was deleted there.
        (first,) = windows.slice(0, 1).select(schemas.SHARE_PARTITION).to_pylist()
        key, _ = encode_record(SHARE_SNAPSHOT, row(7, []) | first)
        later = {"timestamp": datetime.now(UTC), "partition": 99}
        gone = _piece(0, (key, None)).to_pylist()[0] | later
        log.pieces.append(pa.Table.from_pylist([gone], pieces[0].schema))
        log.write(1)
        rest = _rows(lag_arrow(windows.slice(1), ends))
        assert any(_rows(lag) == rest for lag in live.updates(seconds=120))
    with pytest.raises(InputError, match="a cluster knows its own"):
        stream.watch("127.0.0.1:1", offsets=ends, spark=spark)
    with pytest.raises(InputError, match="generation"):
        stream.watch(log.raw, generation=99)
    with pytest.raises(InputError, match="invalid duration -1"):
        stream.watch(log.raw, every=-1)


@pytest.mark.exhaustive
def test_a_limited_stream_has_no_lag_until_it_is_read(
    spark: SparkSession, tmp_path: Path, capture: tuple[pa.Table, pa.Table]
) -> None:
    records, ends = capture
    log = _Log(tmp_path, spark, _pieces(records, 6, Random("limited")))
    log.write(6)
    expected, seen = _rows(lag_arrow(replay_arrow(log.upto(5)), ends)), []

    def heed(_: pa.Table, lag: pa.Table) -> None:
        seen.append(_rows(lag))

    with stream.watch(log.raw, offsets=lambda: ends, every=0.5, on_update=heed) as live:
        assert live.lag.num_rows == live.windows.num_rows == 0
        assert "raw records that were there when the stream began" in str(live.stale)
        assert "no longer current" in repr(live)
        current = (lag for lag in live.updates(seconds=120) if live.stale is None)
        assert _rows(next(current)) == expected
    assert all(rows == expected for rows in seen)


@pytest.mark.parametrize("kind", [pytest.param("folder", marks=pytest.mark.exhaustive), "function"])
def test_types_that_other_writers_use(
    spark: SparkSession, tmp_path: Path, capture: tuple[pa.Table, pa.Table], kind: str
) -> None:
    """Bigint partitions, times without a zone, and no timestampType."""
    tables = dict(zip(("records", "ends"), capture, strict=True))
    for name, table in tables.items():
        kinds = {"partition": pa.int64(), "timestamp": pa.timestamp("us")}
        kinds["as_of"] = pa.timestamp("us")
        fields = [(f.name, kinds.get(f.name, f.type)) for f in table.schema]
        written = table.cast(pa.schema(fields))
        (tmp_path / name).mkdir()
        columns = [column for column in written.schema.names if column != "timestampType"]
        pq.write_table(written.select(columns), tmp_path / name / "part.parquet")
    folder = str(tmp_path / "records")
    raw = spark.readStream.schema(spark.read.parquet(folder).schema).parquet(folder)
    ends: Any = tmp_path / "ends"
    if kind == "function":
        ends = partial(spark.read.parquet, str(tmp_path / "ends"))
    records = one_batch(tables["records"])
    expected = lag_arrow(replay_arrow(decode_arrow(records).records), tables["ends"])
    with stream.watch(raw, offsets=ends, every=0.2) as live:
        assert _rows(live.lag) == _rows(expected)


@pytest.mark.exhaustive
def test_ten_thousand_share_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """State, time per trigger and recovery, as in docs/how-to/streams.md."""
    source = capture_of(tmp_path / "capture", 200, 50, 60)
    records = pa.Table.from_batches(source.batches(STATE_TOPIC)).combine_chunks()
    offset, partition = (records.column(name).to_numpy() for name in ("offset", "partition"))
    ends = np.bincount(partition, weights=np.ones(len(offset)))
    # Half of the records first, and then twelve times as many as come in a second or two.
    step = np.clip(np.ceil((offset / ends[partition] - 0.5) / 0.04), 0, 12).astype(int)
    pieces = [records.filter(pa.array(step == number)) for number in range(13)]
    log, seen = _Log(tmp_path, spark, pieces), []
    sink = stream.to_delta(tmp_path / "now", tmp_path / "capture" / "offsets.parquet")

    def heed(frame: DataFrame, batch: int) -> None:
        sink(frame, batch)
        seen.append((batch, time.monotonic() - begun))

    for come in (7, 6):
        log.write(come)
        begun = time.monotonic()
        progress = log.run(stream.windows(log.raw), heed)
        work = [one for one in progress if one["numInputRows"]]
        for one in work:
            (state,) = one["stateOperators"]
            print(
                f"{one['numInputRows']:,} records: {one['durationMs']['triggerExecution']:,} ms, "
                f"state {state['memoryUsedBytes'] / 1e6:.1f} MB in {state['numRowsTotal']} rows"
            )
            assert state["numRowsTotal"] == len(ends)
            assert state["memoryUsedBytes"] < 1_000 * 10_000
        batch, after = seen[-come]
        print(f"micro-batch {batch} was in Delta {after:.1f} s after the query was started")
    assert [batch for batch, _ in seen] == list(range(13))
    got = DeltaTable(str(tmp_path / "now" / "lag")).to_pyarrow_table().cast(schemas.LAG)
    windows = replay_arrow(decode_arrow(records.to_batches()[0]).records)
    expected = lag_arrow(windows, pq.read_table(tmp_path / "capture" / "offsets.parquet"))
    assert _rows(got) == _rows(expected)


def test_what_is_not_a_stream_is_an_error(spark: SparkSession) -> None:
    for schema in (schemas.RECORDS, schemas.RAW):
        records = spark.createDataFrame([], schemas.spark_schema(schema))
        with pytest.raises(InputError, match=r"not a stream: use sharelag\.windows"):
            stream.windows(records)
    with pytest.raises(InputError, match=r"not a stream: use sharelag\.windows"):
        stream.watch(records)


def test_more_tasks_than_can_have_work_are_said(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw = spark.readStream.schema(schemas.spark_schema(schemas.RAW)).parquet(str(tmp_path))
    for count, said in (("50", False), ("200", True)):
        with set_for(spark, {"spark.sql.shuffle.partitions": count}):
            stream.windows(raw)
        assert (f"spark.sql.shuffle.partitions is {count}" in caplog.text) is said


def test_what_a_stream_cannot_answer_says_what_can(spark: SparkSession, tmp_path: Path) -> None:
    raw = spark.readStream.schema(schemas.spark_schema(schemas.RAW)).parquet(str(tmp_path))
    bench = sharelag.open(raw=raw)
    for ask in (bench.lag, bench.explain, bench.health):
        said = r"frames\.lag with writeStream, sharelag\.stream\.watch"
        with pytest.raises(InputError, match=said):
            ask()


def test_different_records_at_one_offset_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    one, two = (encode_record(SHARE_SNAPSHOT, row(start, [])) for start in (1, 2))
    log = _Log(tmp_path, spark, [pa.concat_tables([_piece(5, one), _piece(5, two)])])
    with pytest.raises(
        StreamingQueryException, match="two different records are at offset 5 of partition"
    ):
        log.run_all(stream.windows, lambda *_: None)


def _piece(first: int, *records: tuple[bytes, bytes | None]) -> pa.Table:
    batch = raw(list(records))
    numbers = pa.array(range(first, first + batch.num_rows))
    return pa.Table.from_batches([with_column(batch, "offset", numbers)])


def _pieces(records: pa.Table, count: int, random: Random) -> list[pa.Table]:
    partition, offset = records.column("partition").to_numpy(), records.column("offset").to_numpy()
    number = np.zeros(len(partition), np.int64)
    for p in np.unique(partition):
        ends = int(offset[partition == p].max()) + 1
        cuts = sorted(random.sample(range(1, ends), count - 1))
        number[partition == p] = np.searchsorted(cuts, offset[partition == p], "right")
    return [records.filter(pa.array(number == n)) for n in range(count)]


def _rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda r: (r["group_id"], r["topic_id"], r["partition"]))


class _Uncaught:
    """What ends threads of Spark's Java."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def uncaughtException(self, thread: Any, error: Any) -> None:
        self.errors.append(error.getClass().getName())

    class Java:
        implements = ["java.lang.Thread$UncaughtExceptionHandler"]  # noqa: RUF012


def test_a_long_error_of_java_does_not_overflow_a_stopping_query(spark: SparkSession) -> None:
    uncaught, inside = _Uncaught(), threading.Event()
    threads = spark._jvm.java.lang.Thread  # type: ignore[union-attr]
    before = threads.getDefaultUncaughtExceptionHandler()

    def fail(rows: DataFrame, number: int) -> None:
        threads.setDefaultUncaughtExceptionHandler(uncaught)  # Python can be called from here on
        inside.set()
        while query.isActive:
            time.sleep(0.01)
        spark._jvm.java.lang.Class.forName("no.such." + "x" * 50_000)  # type: ignore[union-attr]

    rows = spark.readStream.format("rate").load()
    query = rows.writeStream.foreachBatch(brief(fail)).start()
    assert inside.wait(120)
    query.stop()
    threads.setDefaultUncaughtExceptionHandler(before)
    assert uncaught.errors == []
    assert "ClusterError: java.lang.ClassNotFoundException" in str(query.exception())


def test_what_ends_a_query_is_said_by_the_first_line_of_javas_error(spark: SparkSession) -> None:
    def fail(rows: DataFrame, number: int) -> None:
        spark._jvm.java.lang.Class.forName("no.such.name")  # type: ignore[union-attr]

    query = spark.readStream.format("rate").load().writeStream.foreachBatch(brief(fail)).start()
    with pytest.raises(StreamingQueryException) as failure:
        query.awaitTermination(120)
    said = str(failure.value)
    assert "sharelag.errors.ClusterError: java.lang.ClassNotFoundException: no.such.name\n" in said
    assert "BuiltinClassLoader" not in said


def test_a_file_that_ends_a_query_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "odd.parquet").write_bytes(b"PAR1 no such PAR1")
    rows = spark.readStream.schema("number int").parquet(str(tmp_path))
    query = rows.writeStream.foreachBatch(brief(lambda rows, _: rows.toArrow())).start()
    with pytest.raises(
        StreamingQueryException, match=r"InputError: Spark cannot read file:.*/odd\.parquet \("
    ):
        query.awaitTermination(120)
