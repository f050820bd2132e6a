"""Ten thousand share partitions on two cores with 4 GB, and an archive of fifty million records."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from sharelag.wire.fields import STATE_TOPIC
from tests.support.reliability import Inject
from tests.support.synthetic import capture_of

GROUPS, PARTITIONS, UPDATES = 200, 50, 500
DAYS, A_DAY = 50, 1_000_000
_SPARK = "--master local[2] --driver-memory 4g pyspark-shell"


def printed(capture: Path, engine: str, spark: str) -> tuple[str, float]:
    """Return what the lag command prints in a process with a driver of its own, and the seconds."""
    begun = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from sharelag.cli import main; main()", "lag"),
            *("--capture", str(capture), "--engine", engine, "-o", "json"),
        ],
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": spark},
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
    assert len(on_spark.splitlines()) == GROUPS * PARTITIONS
    assert on_spark == here
    injected(
        "load",
        f"{GROUPS * PARTITIONS:,} share partitions with {UPDATES} updates each, on local[2] with "
        "a driver of 4 GB",
        1,
        {"records": source.size(), "share partitions with equal rows on both engines": 10_000},
        measured={"seconds on Spark": round(seconds)},
    )


@pytest.mark.exhaustive
def test_a_day_of_an_archive_of_50_million_records_reads_that_day(
    spark: SparkSession, tmp_path: Path, injected: Inject
) -> None:
    """Its days are folders: who asks for one opens the files of that one."""
    source = capture_of(tmp_path / "capture", 40, PARTITIONS, UPDATES)
    assert source.size() == A_DAY
    (file,) = (tmp_path / "capture" / "records").glob("*.parquet")
    records = tmp_path / "archive" / "data" / "records"
    for number in range(DAYS):
        day = (
            records
            / f"source={STATE_TOPIC}"
            / f"day=2026-{9 + number // 25:02d}-{number % 25 + 1:02d}"
        )
        day.mkdir(parents=True)
        os.link(file, day / f"{number:012d}-00000.parquet")
    archive = spark.read.parquet(str(records))
    assert (
        sum(pq.ParquetFile(one).metadata.num_rows for one in records.rglob("*.parquet"))
        == DAYS * A_DAY
    )
    one_day = archive.where((sf.col("source") == STATE_TOPIC) & (sf.col("day") == "2026-10-07"))
    plan = explained(one_day)
    (filters,) = re.findall(r"PartitionFilters: \[(.*?)\]", plan)
    assert "day" in filters
    read = {row[0] for row in one_day.select(sf.input_file_name()).distinct().collect()}
    assert len(read) == 1
    assert "day=2026-10-07" in read.pop()
    assert one_day.count() == A_DAY
    told = {"records in the archive": DAYS * A_DAY, "files read": 1}
    injected("load", "a day of an archive of fifty days", 1, told)


def explained(frame: object) -> str:
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as text:
        frame.explain("formatted")  # type: ignore[attr-defined]
    return text.getvalue()
