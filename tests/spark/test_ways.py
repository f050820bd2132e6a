"""Functions, frames, SQL and streams give one process's lag, of files, tables of Spark and Delta.

`make test-versions` tries them on each version of pyspark, classic and Connect; `make test` tries
each way in the tests of its own, such as `test_frames.py` and `test_stream.py`. Those of Kafka are
in ``tests/kafka/test_ways.py``.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import sharelag
from sharelag import schemas
from tests.support.chapters import CAPTURE
from tests.support.ways import LAKE, LAKE_PACKAGE, Source, compare
from tools.ways_page import WAYS

pytestmark = pytest.mark.exhaustive

Make = Callable[[SparkSession, Path, ExitStack], Source]


def _parquet(spark: SparkSession, _: Path, __: ExitStack) -> Source:
    folder, ends = str(CAPTURE / "records"), str(CAPTURE / "offsets.parquet")
    stream = spark.readStream.schema(schemas.spark_schema(schemas.RAW))
    read, follow = partial(spark.read.parquet, folder), partial(stream.parquet, folder)
    return Source("Parquet files", read, follow, spark.read.parquet(ends), ends)


def _catalog(spark: SparkSession, folder: Path, at_end: ExitStack) -> Source:
    raw, ends = (f"ways_{name}_{uuid4().hex}" for name in ("raw", "ends"))
    for table, place in ((raw, "records"), (ends, "offsets.parquet")):
        rows = spark.read.parquet(str(CAPTURE / place))
        rows.write.option("path", str(folder / table)).saveAsTable(table)
        at_end.callback(spark.sql, f"drop table {table}")
    return Source(
        "table of the catalog",
        partial(spark.read.table, raw),
        partial(spark.readStream.table, raw),
        spark.read.table(ends),
        ends,
    )


def _written(folder: Path) -> tuple[str, str]:
    """Write both as Delta tables, of which the records have an older version, too."""
    raw, ends = str(folder / "raw"), str(folder / "ends")
    rows = _in_microseconds(pq.read_table(CAPTURE / "records"))
    write_deltalake(raw, rows.slice(0, len(rows) // 2))
    write_deltalake(raw, rows, mode="overwrite")
    write_deltalake(ends, _in_microseconds(pq.read_table(CAPTURE / "offsets.parquet")))
    return raw, ends


def _delta(spark: SparkSession, folder: Path, _: ExitStack) -> Source:
    raw, ends = _written(folder)
    frames = sharelag.open(raw, spark=spark).frames
    offsets = DeltaTable(ends).to_pyarrow_table()
    return Source(LAKE, lambda: frames.raw, lambda: frames.raw, offsets, ends)


def _delta_package(spark: SparkSession, folder: Path, _: ExitStack) -> Source:
    raw, ends = _written(folder)
    return Source(
        LAKE_PACKAGE,
        lambda: spark.read.format("delta").load(raw),
        lambda: spark.readStream.format("delta").load(raw),
        DeltaTable(ends).to_pyarrow_table(),
        ends,
    )


def _in_microseconds(table: pa.Table) -> pa.Table:
    """Times in Delta's only unit."""
    utc, is_time = pa.timestamp("us", "UTC"), pa.types.is_timestamp
    fields = [field.with_type(utc) if is_time(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))


SOURCES: dict[str, Make] = {"parquet": _parquet, "catalog": _catalog, "delta": _delta}
SOURCES |= {"delta-package": _delta_package}


@pytest.fixture(scope="module", params=SOURCES)
def source(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Source]:
    with ExitStack() as at_end:
        yield SOURCES[request.param](spark, tmp_path_factory.mktemp("ways"), at_end)


@pytest.fixture(scope="module")
def wanted() -> pa.Table:
    """The lag that one process finds."""
    return sharelag.open("chapters", engine="local").reading.table("lag")


@pytest.mark.parametrize("way", WAYS)
def test_lag_is_that_of_one_process(
    spark: SparkSession,
    source: Source,
    way: str,
    wanted: pa.Table,
    record_property: Callable[[str, object], None],
) -> None:
    compare(spark, source, way, wanted, record_property)
