"""Spark as users have it: a session with Spark's own settings, and DataFrames of stored data."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import sharelag
from benchmarks.harness import Bench
from sharelag import schemas

MASTER = "local[2]"
#: The order in which tables of share partitions are compared.
ORDER = [(name, "ascending") for name in ("group_id", "topic_id", "partition")]


def start_session(master: str = MASTER) -> SparkSession:
    """Start a session with Spark's own settings, such as 1 GB for Java, but without its web UI."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("benchmarks")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _session() -> Iterator[SparkSession]:
    spark = start_session()
    yield spark
    spark.stop()


def keep_session(bench: Bench) -> SparkSession:
    """Return the session of the run."""
    return bench.keep("spark", _session)


def living(spark: SparkSession) -> Callable[[], Sequence[int]]:
    """Return the JVM, the ancestor of the workers."""
    return lambda: (spark.sparkContext._gateway.proc.pid,)  # type: ignore[union-attr]


def raw_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Return a new DataFrame of the records of a capture, as of any other Parquet files."""
    return spark.read.parquet(str(folder / "records"))


def offsets_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Return a new DataFrame of end offsets."""
    return spark.read.parquet(str(folder / "offsets.parquet"))


def lag_by_function(raw: DataFrame, offsets: DataFrame) -> pa.Table:
    """Ask `sharelag.lag` of a DataFrame."""
    return sharelag.lag(raw, offsets).toArrow()


def lag_by_frames(raw: DataFrame, offsets: DataFrame) -> pa.Table:
    """Open a DataFrame and ask for the table of this name."""
    with sharelag.open(raw=raw, offsets=offsets) as bench:
        return bench.frames.lag.toArrow()


def progress_of(raw: DataFrame, offsets: DataFrame) -> pa.Table:
    """Open a DataFrame and ask for ages, rates and forecasts: the whole history, summarized."""
    with sharelag.open(raw=raw, offsets=offsets) as bench:
        return bench.frames.progress.toArrow()


def in_one_process(folder: Path, schema: pa.Schema = schemas.LAG) -> pa.Table:
    """Return the lag or the progress of a capture by the other engine."""
    with sharelag.open(folder, engine="local") as bench:
        found = bench.lag() if schema is schemas.LAG else bench.progress()
    return conform(found.table, schema)


def conform(found: pa.Table, schema: pa.Schema = schemas.LAG) -> pa.Table:
    """Return the columns of a table in one order, so that two engines can be compared."""
    return found.select(schema.names).cast(schema).sort_by(ORDER).combine_chunks()
