"""A stream says after every micro-batch what the batch pipeline says of the same records."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.lag import lag_arrow
from sharelag.pipeline import stream
from sharelag.replay import replay_arrow
from sharelag.sources.inputs import CaptureInput
from sharelag.sources.spark.queries import brief
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC
from tests.support.chapters import CAPTURE
from tests.support.records import offsets, raw, row


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession) -> Iterator[None]:
    """Each shuffle partition of a stateful query costs a Python worker and a state store."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before or "200")


class _Log:
    """Records that come in micro-batches: a folder of Parquet files, each of which is one."""

    def __init__(self, folder: Path, spark: SparkSession, pieces: list[pa.Table]) -> None:
        self.folder, self.spark, self.pieces = folder, spark, pieces
        (folder / "records").mkdir()

    def run(
        self, query: Callable[[DataFrame], DataFrame], heed: Callable[[pa.Table, int], None]
    ) -> None:
        """Write all pieces, and hand over what the query says of each."""
        for number, piece in enumerate(self.pieces):
            path = self.folder / "records" / f"{number:03d}.parquet"
            pq.write_table(piece, path)
            os.utime(path, (number, number))  # Spark takes the oldest first
        rows = self.spark.readStream.schema(schemas.spark_schema(schemas.RAW)).option(
            "maxFilesPerTrigger", 1
        )
        changes = query(sharelag.decode(rows.parquet(str(self.folder / "records"))).records)
        writer = changes.writeStream.outputMode("update").option(
            "checkpointLocation", str(self.folder / "checkpoint")
        )
        failures: list[BaseException] = []

        def each(frame: DataFrame, batch: int) -> None:
            try:
                heed(frame.toArrow(), batch)
            except AssertionError as error:  # in words that survive the way through the JVM
                failures.append(error)

        writer.foreachBatch(each).trigger(availableNow=True).start().awaitTermination()
        if failures:
            raise failures[0]

    def upto(self, number: int) -> pa.RecordBatch:
        return decode_arrow(
            pa.concat_tables(self.pieces[: number + 1]).combine_chunks().to_batches()[0]
        ).records


def test_lag_and_windows_after_every_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    source = CaptureInput(CAPTURE)
    records = pa.Table.from_batches(source.batches(STATE_TOPIC))
    records = records.filter(pc.equal(records.column("topic"), STATE_TOPIC))
    ends = source.offsets(
        decode_arrow(records.combine_chunks().to_batches()[0])
        .records.column("topic_id")
        .to_pylist()
    )
    # Each partition's log in four pieces, at different offsets.
    log = _Log(tmp_path, spark, _pieces(records, 4, Random("micro-batches")))
    lag, rows = schemas.LAG.empty_table(), []

    def heed(changes: pa.Table, number: int) -> None:
        nonlocal lag
        lag = stream.updated(lag, changes)
        expected = lag_arrow(replay_arrow(log.upto(number)), ends)
        assert _rows(lag) == _rows(expected)
        rows.append(changes.num_rows)

    static = spark.createDataFrame(ends)
    log.run(lambda decoded: stream.lag(stream.windows(decoded), static), heed)
    assert len(rows) == 4
    assert lag.num_rows >= 24
    assert min(rows[1:]) < lag.num_rows  # only what changed
    on_spark = sharelag.lag(
        sharelag.windows(sharelag.decode(spark.createDataFrame(records)).records), static
    )
    assert _rows(on_spark.toArrow().cast(schemas.LAG)) == _rows(lag)


def test_deleted_created_again_and_rejected(spark: SparkSession, tmp_path: Path) -> None:
    def piece(first: int, *records: tuple[bytes, bytes | None]) -> pa.Table:
        batch = raw(list(records))
        at = batch.schema.get_field_index("offset")
        return pa.Table.from_batches(
            [batch.set_column(at, "offset", pa.array(range(first, first + batch.num_rows)))]
        )

    one = encode_record(SHARE_SNAPSHOT, row(10, [(10, 14, 2, 1)]))
    other = encode_record(SHARE_SNAPSHOT, row(3, [], partition=1))
    update = encode_record(SHARE_UPDATE, row(12, [(12, 20, 0, 2)]))
    backwards = encode_record(SHARE_UPDATE, row(12, [(9, 5, 0, 2)]))
    pieces = [
        piece(0, one, other),
        piece(2, update, (b"\0\1x", b"")),
        piece(4, (one[0], None)),
        piece(5, update, backwards),
        piece(7, one, (other[0], None)),
    ]
    log, seen = _Log(tmp_path, spark, pieces), []
    windows = schemas.WINDOWS.empty_table()

    def heed(changes: pa.Table, number: int) -> None:
        nonlocal windows
        windows = stream.updated(windows, changes)
        assert _rows(windows) == _rows(replay_arrow(log.upto(number)))
        deleted = changes.filter(changes.column("deleted"))
        seen.append(
            [(r["group_id"], r["partition"], r["record_offset"]) for r in deleted.to_pylist()]
        )

    log.run(stream.windows, heed)
    group = replay_arrow(log.upto(0)).column("group_id")[0].as_py()
    assert seen == [[], [], [(group, 0, 4)], [], [(group, 1, 8)]]
    assert windows.num_rows == 1


def test_a_deleted_share_partition_has_no_lag(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = encode_record(SHARE_SNAPSHOT, row(7, []))
    first, second = raw([snapshot]), raw([snapshot, (snapshot[0], None)]).slice(1)
    log = _Log(tmp_path, spark, [pa.Table.from_batches([first]), pa.Table.from_batches([second])])
    ends, seen = spark.createDataFrame(offsets(107)), []

    def heed(changes: pa.Table, _: int) -> None:
        seen.append([(r["lag"], r["deleted"], r["topic"]) for r in changes.to_pylist()])

    log.run(lambda decoded: stream.lag(stream.windows(decoded), ends), heed)
    topic = offsets(107).column("topic")[0].as_py()
    assert seen == [[(100, False, topic)], [(None, True, topic)]]


def test_what_is_not_a_stream_is_an_error(spark: SparkSession) -> None:
    records = spark.createDataFrame([], schemas.spark_schema(schemas.RECORDS))
    with pytest.raises(InputError, match=r"not a stream: use sharelag\.windows"):
        stream.windows(records)


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


def test_a_long_error_of_java_does_not_overflow_a_query_that_is_being_stopped(
    spark: SparkSession,
) -> None:
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
