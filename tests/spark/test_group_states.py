"""Groups and members on Spark are those of one process."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import sharelag
from tests.support.chapters import CAPTURE

IDLE = CAPTURE.parent / "scenarios" / "idle_members"


@pytest.mark.parametrize("question", ["group_states", "members"])
def test_spark_says_what_one_process_says(spark: SparkSession, question: str) -> None:
    on_spark, local = (
        getattr(sharelag.open(IDLE, engine=engine), question)() for engine in ("spark", "local")
    )
    assert on_spark.table.cast(local.table.schema).to_pylist() == local.table.to_pylist()
    assert len(local) > 0
    assert on_spark.to_spark().count() == len(local)
    assert on_spark.columns == local.columns
