"""Lag alone on Spark: the numbers of the whole answer, without a window replayed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag.engine import reading
from sharelag.engine.local import QuickReading
from sharelag.engine.spark.reading import SparkReading
from sharelag.inputs import CaptureInput, RawInput
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.lag import BRIEF
from sharelag.wire.fields import STATE_KINDS
from tests.support import generators
from tests.support.records import raw


@pytest.fixture(autouse=True)
def scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan however few records there are."""
    monkeypatch.setattr(reading, "SCAN_FROM_RECORDS", 0)


@pytest.mark.parametrize("name", ["chapters", "demo", "poison"])
def test_tasks_scan_files_and_no_window_is_replayed(name: str, spark: SparkSession) -> None:
    source = CaptureInput(folder_of(name))
    begun = SparkReading(source, spark=spark)
    found = begun.brief
    assert ("table", "windows") not in begun.once
    wanted = QuickReading(source, history=False)
    assert found.table.equals(wanted.table("lag").select(BRIEF.names))
    assert found.rejected == wanted.counted.rejected


def test_records_whose_batches_matter_are_replayed_by_their_task(
    tmp_path: Path, spark: SparkSession
) -> None:
    random = Random(4)
    records = [generators.record(random, STATE_KINDS[n % 2]) for n in range(300)]
    pq.write_table(
        pa.Table.from_batches([raw([*records, (b"\0\1", b"")])]), tmp_path / "turned.parquet"
    )
    source = RawInput(str(tmp_path / "turned.parquet"))
    wanted = QuickReading(source, history=False)
    found = SparkReading(source, spark=spark).brief
    assert found.table.equals(wanted.table("lag").select(BRIEF.names))
    assert found.rejected == wanted.counted.rejected > 0


def test_sql_has_it_as_a_table(spark: SparkSession) -> None:
    bench = sharelag.open("chapters", spark=spark)
    query = "select group_id, sum(lag) as lag from {} group by 1 order by 1"
    brief = bench.sql(query.format("brief_lag")).toArrow()
    assert brief.equals(bench.sql(query.format("lag")).toArrow())
    assert sum(one or 0 for one in brief.column("lag").to_pylist()) > 0
