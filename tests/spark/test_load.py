"""Ten thousand share partitions on two cores with 4 GB, and an archive of fifty million records."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import sharelag
from sharelag import schemas
from sharelag.wire import STATE_TOPIC
from tests.support.command import sharelag_process
from tests.support.reliability import Inject
from tests.support.stopwatch import timed
from tests.support.synthetic import BEGIN, LASTS, STEP, UNREAD, archive_of, capture_of

GROUPS, PARTITIONS, UPDATES = 200, 50, 500
DAYS, A_DAY = 50, 1_000_000
_SPARK = "--master local[2] --driver-memory 4g pyspark-shell"


def printed(capture: Path, engine: str) -> tuple[str, float]:
    """Return what the lag command prints in a process with a driver of its own, and the seconds."""
    asked = ("lag", "--capture", str(capture), "--engine", engine, "-o", "json")
    done, seconds = timed(lambda: sharelag_process(*asked, env={"PYSPARK_SUBMIT_ARGS": _SPARK}))
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, seconds


@pytest.mark.exhaustive
def test_10000_share_partitions_of_500_updates(tmp_path: Path, injected: Inject) -> None:
    source = capture_of(tmp_path / "capture", GROUPS, PARTITIONS, UPDATES)
    assert source.size() == GROUPS * PARTITIONS * UPDATES
    on_spark, seconds = printed(tmp_path / "capture", "spark")
    here, _ = printed(tmp_path / "capture", "local")
    rows = [json.loads(line) for line in on_spark.splitlines()]
    assert len(rows) == GROUPS * PARTITIONS
    # Of each window's seven offsets three are acknowledged.
    wrong = sum(row["lag"] != UNREAD + 7 - 3 for row in rows)
    both = zip(on_spark.splitlines(), here.splitlines(), strict=True)
    wrong += sum(ours != theirs for ours, theirs in both)
    injected(
        "load",
        f"{GROUPS * PARTITIONS:,} share partitions with {UPDATES} updates each, on local[2] with "
        "a driver of 4 GB",
        1,
        {"records": source.size(), "share partitions": len(rows)},
        wrong=wrong,
        measured={"seconds on Spark": round(seconds)},
    )
    assert (on_spark, wrong) == (here, 0)


@pytest.mark.exhaustive
def test_a_minute_of_an_archive_of_50_million_records_reads_its_day(
    spark: SparkSession, tmp_path: Path, injected: Inject, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its days are folders: who asks for a time opens the files of its days."""
    source = archive_of(tmp_path / "archive", 40, PARTITIONS, DAYS, UPDATES)
    assert source.size() == DAYS * A_DAY
    whole = spark.read.parquet(str(tmp_path / "archive" / "data" / "records"))
    since = BEGIN + timedelta(days=37, seconds=60)
    minute = whole.where(sf.col("source") == STATE_TOPIC).where(
        sf.col("day").between(f"{since:%Y-%m-%d}", f"{since:%Y-%m-%d}")
        & (sf.col("timestamp") >= since)
        & (sf.col("timestamp") < since + timedelta(minutes=1))
    )
    minute.explain("formatted")
    (filters,) = re.findall(r"PartitionFilters: \[(.*?)\]", capsys.readouterr().out)
    assert "day" in filters
    read = {row[0] for row in minute.select(sf.input_file_name()).distinct().collect()}
    assert len(read) == 1
    assert f"day={since:%Y-%m-%d}" in read.pop()
    records = sharelag.decode(minute.select(schemas.RAW.names)).records
    sums = sf.count("*").alias("count"), sf.min("start_offset").alias("first")
    rows, seconds = timed(lambda: records.groupBy("group_id").agg(*sums).collect())
    counts = {row["group_id"]: (row["count"], row["first"]) for row in rows}
    of_a_group = round(A_DAY / 40 * 60 / LASTS.total_seconds())
    first = STEP * (37 * UPDATES + round(UPDATES * 60 / LASTS.total_seconds()))
    known = dict.fromkeys((f"group-{n:05d}" for n in range(40)), (of_a_group, first))
    wrong = len(counts.items() ^ known.items())
    measured = {"seconds for the query": round(seconds, 1)}
    injected(
        "load",
        "a minute of an archive of fifty days",
        1,
        {
            "records in the archive": source.size(),
            "files read": 1,
            "records of the minute, decoded": sum(count for count, _ in counts.values()),
        },
        wrong=wrong,
        measured=measured,
    )
    assert counts == known
