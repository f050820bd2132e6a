"""A request log on Spark is what it is in one process."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag.engine.spark.packing import collect
from sharelag.engine.spark.text_files import consumed, request_frame
from sharelag.errors import InputError
from sharelag.inputs.files.request_log import ConsumedLog, RequestLog
from sharelag.schemas import BATCHING, CONSUMED_TABLES, HOLDS, MEMBERSHIPS, REQUEST_TABLES, SESSIONS
from sharelag.workbench.side_inputs import Requests
from tests.support.request_lines import (
    acknowledge,
    described,
    fetch,
    heartbeat,
    line,
    log_of,
    state_call,
)

BY_GROUP = {"holds": HOLDS, "memberships": MEMBERSHIPS, "batching": BATCHING, "sessions": SESSIONS}
TABLES = REQUEST_TABLES | BY_GROUP


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("requests", "acquisitions", "holds"), id="some"),
        pytest.param(tuple(TABLES), id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_both_read_the_same(spark: SparkSession, tmp_path: Path, names: tuple[str, ...]) -> None:
    batch = {"firstOffset": 0, "lastOffset": 1, "deliveryState": 2, "deliveryCount": 1}
    log = log_of(
        tmp_path,
        *[fetch(1_000 + n, f"m{n % 3}", n // 3, [(10 * n, 10 * n + 9, 1)]) for n in range(30)],
        acknowledge(2_000, "m0", 10, [(0, 4, [1, 1, 2, 3, 4])]),
        acknowledge(3_000, "m1", -1, []),
        state_call("WriteShareGroupState", 3_500, startOffset=0, stateBatches=[batch]),
        described(4_000, "Stable", 1, members=3),
        line("ListGroups", 4_050, {}, {"errorCode": 15, "groups": []}, version=5),
        heartbeat(4_100, "m0", 0, answered=1, subscribedTopicNames=["t"], assigned=[0, 1]),
        *[heartbeat(4_200 + n, "m0", 1) for n in range(20)],
        heartbeat(4_300, "m0", 1, answered=2, assigned=[1]),
        fetch(5_000, "m2", 9, fetch_error=6, leader=(3, 7)),
        "no request",
        fetch(9_000, "m2", 10)[:-80],
    )
    piece = log.log.path.stat().st_size // 3  # each table is read anew, a task for each piece
    for name in names:
        ours = log.table(name)
        frame = request_frame(spark, log.log, name, piece)
        assert name != "requests" or tasks_with_rows(frame) > 1
        assert ordered(collect(frame, TABLES[name])).equals(ordered(ours)), name
        assert ours.num_rows or name == "offset_calls"
    # Logs of several brokers may have the same name.
    (tmp_path / "2").mkdir()
    shutil.copy(log.log.path, tmp_path / "2")
    both = request_frame(spark, RequestLog(tmp_path), "requests").select("source").distinct()
    name = log.log.path.name
    assert {row["source"] for row in both.collect()} == {name, f"2/{name}"}


def test_what_consumers_print_is_the_same_on_both(spark: SparkSession, tmp_path: Path) -> None:
    part = '{"topic":"t","partition":0,"offsets":[5,6,9]}'
    event = f'{{"name":"offsets_acknowledged","partitions":[{part}],"success":false,"error":"no"}}'
    lines = [f"Partition:0\tOffset:{n}\tDelivery:1\tv" for n in range(200)] + [event, "Offset:-1"]
    (tmp_path / "console.txt").write_text("\n".join(lines))
    tables = ConsumedLog(tmp_path / "console.txt").tables
    for name, schema in CONSUMED_TABLES.items():
        frame = consumed(spark, tmp_path, name, piece=1_000)
        assert name != "deliveries" or tasks_with_rows(frame) > 1
        assert ordered(collect(frame, schema)).equals(ordered(tables[name])), name
        assert tables[name].num_rows
    said = "unknown table 'keys': choose one of deliveries, outcomes"
    with pytest.raises(InputError, match=said):
        consumed(spark, tmp_path, "keys")


@pytest.mark.exhaustive
def test_a_frame_says_what_its_table_lacks(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As one process does: more than one line of a hundred that could not be read, or all."""
    good = [f"Partition:0\tOffset:{n}\tDelivery:1\tv" for n in range(50)]
    file = tmp_path / "console.txt"
    for lines, count in ((good, 0), ([*good, "Offset:-1", "Offset:-2"], 1)):
        file.write_text("\n".join(lines))
        caplog.clear()
        frame = consumed(spark, file, piece=300)
        assert frame.count() == 50
        said = [f"this frame is not complete: it lacks {one}" for one in ConsumedLog(file).lacks()]
        assert ([one.message for one in caplog.records], len(said)) == (said, count)
    caplog.clear()
    assert consumed(spark, file, "rejects").count() == 2
    assert not caplog.records
    file.write_text("Offset:-1\n")
    with pytest.raises(InputError, match=r"none of 1 line in .* has a delivery or an outcome"):
        consumed(spark, file)

    cut = heartbeat(30, "m0", 1)[:-40]
    log = log_of(tmp_path, *[heartbeat(n, "m0", 1) for n in range(20)], cut, cut)
    caplog.clear()
    for name in ("heartbeats", "holds"):
        request_frame(spark, log.log, name, 500)
    (lacks,) = Requests(RequestLog(log.log.path)).lacks
    found = [one.message for one in caplog.records]
    assert found == [f"this frame is not complete: it lacks {lacks}"] * 2
    log.log.path.write_text(cut)
    with pytest.raises(InputError, match=r"none of 1 request in .* could be read"):
        request_frame(spark, log.log, "requests")


def tasks_with_rows(frame: DataFrame) -> int:
    return frame.select(F.spark_partition_id()).distinct().count()


def ordered(table: pa.Table) -> pa.Table:
    plain = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    return table.combine_chunks().sort_by([(name, "ascending") for name in plain])


def test_an_unknown_table_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match="unknown table 'locks': choose one of holds, memberships, sessions, batching, req",
    ):
        request_frame(spark, log_of(tmp_path, "").log, "locks")
