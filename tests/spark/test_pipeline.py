"""The answer is the same on every engine, on a cluster, and from a DataFrame of the user."""

import json
import shutil
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import sharelag
from sharelag import charts, schemas
from sharelag.cli.output import one_line
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, RawInput
from sharelag.inputs.spark.files import raw_frame
from sharelag.replay import replay_arrow
from sharelag.replay.moment import Choice
from sharelag.tables.lines import plain_rows
from sharelag.wire import GROUP_TOPIC, SHARE_SNAPSHOT, decode_arrow, encode_record
from tests.support import generators, readings
from tests.support.chapters import CAPTURE
from tests.support.command import rows_of
from tests.support.own_process import run_python
from tests.support.parquet import flip_in_a_page
from tests.support.records import offsets, raw, raw_file, row

#: What Spark raises for its workers, and its own reader through Py4J, which knows not all of its errors.
SPARK_FAILED = (PySparkException, Py4JError)


@pytest.fixture(scope="module")
def local_lag() -> list[dict[str, Any]]:
    return plain_rows(readings.lag(CaptureInput(CAPTURE), "local").table)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("empty", marks=pytest.mark.exhaustive),
        "rejects only",
        "nobody",
        pytest.param("long ago", marks=pytest.mark.exhaustive),
    ],
)
def test_empty_answers_are_equal_on_both(spark: SparkSession, case: str, tmp_path: Path) -> None:
    source: Any = CaptureInput(CAPTURE)
    moment = {0: -1} if case == "long ago" else None
    if case in ("empty", "rejects only"):
        records = [] if case == "empty" else [(b"\0\0", None), (b"\0\1x", b"")]
        source = RawInput(raw_file(tmp_path, raw(records)))
    for run in (readings.lag, readings.windows):
        if case == "nobody":
            for engine in ("local", "spark"):
                with pytest.raises(InputError, match="there is no state of share group 'nobody'"):
                    run(source, engine, choice=Choice(frozenset(["nobody"])))
            continue
        ours, theirs = run(source, "local", moment), run(source, "spark", moment)
        assert (ours.table.num_rows, ours.rejected) == (theirs.table.num_rows, theirs.rejected)
        assert (ours.table.num_rows, ours.rejected) == (0, 2 if case == "rejects only" else 0)


#: No task begins before both executors are there: then tasks are dealt out to them in turn.
_ON_CLUSTER = """
import json, os, sys
import sharelag
from sharelag.inputs.spark import session
from sharelag.tables.lines import plain_rows

both = {"spark_scheduler_minRegisteredResourcesRatio": "1.0"}
both["spark_scheduler_maxRegisteredResourcesWaitingTime"] = "120s"
spark = session("sharelag-cluster", spark_master="local-cluster[2,1,1024]", **both)
for row in plain_rows(sharelag.open("chapters", engine="spark").lag().table):
    print(json.dumps(row))
tasks = spark.sparkContext.parallelize(range(8), 8)
folders = tasks.map(lambda _: os.environ["SPARK_EXECUTOR_DIRS"]).collect()
told = {"master": spark.sparkContext.master, "executors": len(set(folders))}
print(json.dumps(told), file=sys.stderr)
spark.stop()
"""


@pytest.mark.exhaustive  # on one machine: `test_equal.py`
def test_a_cluster_of_two_workers_gives_the_same_lag(local_lag: list[dict[str, Any]]) -> None:
    done = run_python("-c", _ON_CLUSTER)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert said == [{"master": "local-cluster[2,1,1024]", "executors": 2}]
    assert rows_of(done) == local_lag


def test_records_rejects_and_skipped_are_all_there_is(spark: SparkSession) -> None:
    random = Random("spark rejects")
    records = [generators.record(random) for _ in range(300)]
    records = [generators.damaged(random, r) if random.random() < 0.4 else r for r in records]
    batch = raw(records)
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).repartition(3)
    decoded, ours = sharelag.decode(frame), decode_arrow(batch)
    found = sorted(row.offset for row in decoded.records.select("offset").collect())
    assert found == sorted(ours.records["offset"].to_pylist())
    got = {row.offset: (row.reason, bytes(row.key), row.value) for row in decoded.rejects.collect()}
    want = {r["offset"]: (r["reason"], r["key"], r["value"]) for r in ours.rejects.to_pylist()}
    assert got == want
    # Some are of times that no calendar has.
    assert sharelag.windows(decoded.records).count() == replay_arrow(ours.records).num_rows
    groups = sharelag.decode(frame, GROUP_TOPIC)
    assert groups.records.count() == groups.rejects.count() == 0
    assert groups.records.columns == schemas.GROUP_RECORDS.names


@pytest.mark.row("FND-11")
def test_a_lag_of_ten_thousand_million_goes_through_spark_exactly(spark: SparkSession) -> None:
    snapshot = encode_record(SHARE_SNAPSHOT, row(7, []))
    frame = spark.createDataFrame(pa.Table.from_batches([raw([snapshot])]))
    ends = spark.createDataFrame(offsets(10**10 + 7))
    lag = sharelag.lag(sharelag.windows(sharelag.decode(frame).records), ends).toArrow()
    (plain,) = lag.to_pylist()
    assert (plain["lag"], plain["unread"]) == (10**10, 10**10)
    drawn = charts.decomposition_figure(charts.decomposition_records(lag))
    assert [list(bar.x) for bar in drawn.data if bar.name == "Unread"] == [[10**10]]
    assert "10,000,000,000" in drawn.layout.title.text


def test_a_time_without_its_zone_is_refused(spark: SparkSession) -> None:
    records = spark.createDataFrame([], schemas.spark_schema(schemas.RECORDS))
    of_groups = spark.createDataFrame([], schemas.spark_schema(schemas.GROUP_RECORDS))
    requested = {sharelag.windows: records, sharelag.members: of_groups, sharelag.groups: of_groups}
    for ask, frame in requested.items():
        said = "2026-11-21 00:00:00 has no time zone: add tzinfo=UTC"
        with pytest.raises(InputError, match=said):
            ask(frame, as_of=datetime(2026, 11, 21))
        with pytest.raises(InputError, match="'2026-11-21' has no time zone: add Z for UTC"):
            ask(frame, as_of="2026-11-21")


@pytest.mark.parametrize(
    "name", ["demoo", "no.such.table", "none.of.these.tables", "report.parquet"]
)
def test_a_mistyped_name_is_an_error_that_lists_the_names(spark: SparkSession, name: str) -> None:
    said = rf"^there is nothing at '{name}': .*Spark table.*samples: demo, "
    with pytest.raises(InputError, match=said):
        sharelag.open(name, spark=spark).lag()


def test_the_name_of_a_table_is_read_from_spark(spark: SparkSession) -> None:
    raw = spark.read.parquet(str(CAPTURE / "records")).limit(20)
    raw.createOrReplaceTempView("records_of_mine")
    try:
        assert sharelag.open("records_of_mine", spark=spark).frames.raw.count() == 20
    finally:
        spark.catalog.dropTempView("records_of_mine")


@pytest.fixture
def flipped(tmp_path: Path) -> Path:
    """A capture with one flipped bit, by which it would be another one without checksums."""
    story = CAPTURE.parent / "scenarios" / "window_full"
    folder = Path(shutil.copytree(story, tmp_path / "flipped"))
    (path,) = folder.glob("records/*.parquet")
    whole, octets = pq.read_table(path), path.read_bytes()
    for seed in range(1000):
        path.write_bytes(octets)
        flip_in_a_page(path, Random(seed))
        with suppress(OSError, pa.ArrowException):
            found = pq.read_table(path)
            if not found.column("value").equals(whole.column("value")):
                return folder
    raise AssertionError("no flipped bit makes other values")


def test_spark_and_its_tasks_compare_checksums(spark: SparkSession, flipped: Path) -> None:
    (path,) = map(str, flipped.glob("records/*.parquet"))
    assert spark.read.parquet(path).toArrow().num_rows  # nobody asked it to
    with pytest.raises(SPARK_FAILED) as caught:
        raw_frame(spark, [path]).toArrow()
    assert f"{path} is damaged" in one_line(caught.value)
    with sharelag.open(str(flipped), spark=spark) as bench:
        for ask in (bench.windows, bench.lag):
            with pytest.raises((InputError, *SPARK_FAILED)) as caught:
                ask()
            assert f"{path} is damaged" in one_line(caught.value)
            assert "CRC" in one_line(caught.value)
