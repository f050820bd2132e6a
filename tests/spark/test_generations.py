"""Do Spark's tasks read older generations of the format as this process does?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import sharelag
from sharelag import schemas
from sharelag.workbench.bench import Workbench
from tests.support.generations import raw_of
from tests.support.log_directory import user_log, write
from tests.support.older_records import control, raw
from tests.support.records import KEY
from tests.support.walk import WALK


def both(path: Path, spark: SparkSession) -> list[Workbench]:
    return [
        sharelag.open(path, engine="spark", spark=spark, bars=False),
        sharelag.open(path, engine="local"),
    ]


def same(path: Path, spark: SparkSession) -> None:
    ours, local = both(path, spark)
    columns = ["effective_start_offset", "window_end_offset", "leader_epoch", "runs"]
    for question in ("windows", "history", "health"):
        tables = [getattr(bench, question)().table for bench in (ours, local)]
        names = [name for name in columns if name in tables[1].column_names] or ["generations"]
        assert tables[0].num_rows == tables[1].num_rows > 0
        assert tables[0].select(names).to_pylist() == tables[1].select(names).to_pylist()


def test_control_records_of_a_log_directory(spark: SparkSession, tmp_path: Path) -> None:
    same(write(tmp_path, user_log(raw(control(0))), topic_id=KEY.topic_id), spark)


def test_files_with_an_older_generation_each(spark: SparkSession, tmp_path: Path) -> None:
    for generation in (2, 3):
        folder = tmp_path / f"g{generation}"
        folder.mkdir()
        rows = pa.Table.from_batches([raw_of(WALK.values(), generation)])
        pq.write_table(rows.cast(schemas.RAW), folder / "part-0.parquet")
        same(folder, spark)
