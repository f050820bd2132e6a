"""Ten thousand share partitions on two cores with 4 GB, and an archive of fifty million records."""

import json
import os
import re
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import sharelag
from sharelag import schemas
from sharelag.wire import STATE_TOPIC
from tests.support.reliability import Inject
from tests.support.synthetic import BEGIN, LASTS, STEP, UNREAD, archive_of, capture_of

GROUPS, PARTITIONS, UPDATES = 200, 50, 500
DAYS, A_DAY = 50, 1_000_000
_SPARK = "--master local[2] --driver-memory 4g pyspark-shell"


def printed(capture: Path, engine: str, spark: str) -> tuple[str, float]:
    """Return what the lag command prints in a process with a driver of its own, and the seconds."""
    begun = time.monotonic()
    env = os.environ | {"PYSPARK_SUBMIT_ARGS": spark}
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from sharelag.cli import main; main()", "lag"),
            *("--capture", str(capture), "--engine", engine, "-o", "json"),
        ],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, time.monotonic() - begun


@pytest.mark.exhaustive
def test_10000_share_partitions_of_500_updates(tmp_path: Path, injected: Inject) -> None:
    source = capture_of(tmp_path / "capture", GROUPS, PARTITIONS, UPDATES)
    assert source.size() == GROUPS * PARTITIONS * UPDATES
    on_spark, seconds = printed(tmp_path / "capture", "spark", _SPARK)
    here, _ = printed(tmp_path / "capture", "local", _SPARK)
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
    spark: SparkSession, tmp_path: Path, injected: Inject
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
    (filters,) = re.findall(r"PartitionFilters: \[(.*?)\]", explained(minute))
    assert "day" in filters
    read = {row[0] for row in minute.select(sf.input_file_name()).distinct().collect()}
    assert len(read) == 1
    assert f"day={since:%Y-%m-%d}" in read.pop()
    begun = time.monotonic()
    records = sharelag.decode(minute.select(schemas.RAW.names)).records
    counts = {
        row["group_id"]: (row["count"], row["first"])
        for row in records.groupBy("group_id")
        .agg(sf.count("*").alias("count"), sf.min("start_offset").alias("first"))
        .collect()
    }
    seconds = time.monotonic() - begun
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


def explained(frame: object) -> str:
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as text:
        frame.explain("formatted")  # type: ignore[attr-defined]
    return text.getvalue()
