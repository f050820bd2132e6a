"""The ways from raw records to lag on Spark, held equal to what one process finds.

A test calls `compare` for a source of records and a way. What came of it goes where
`tests.support.seen_ways` says.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import sharelag
from sharelag import schemas
from sharelag.engine.spark.packing import collect
from sharelag.errors import SetupError
from sharelag.inputs.spark import is_connect
from tests.support.kafka.jars import delta_jars
from tests.support.seen_ways import WAY
from tests.support.spark.settings import set_for
from tools.ways_page import WAYS

LAKE, LAKE_PACKAGE = "Delta table, `sharelag.open`", "Delta table, Delta's package"


@dataclass(frozen=True)
class Source:
    """Raw records of one place, as a batch and as a stream, with their end offsets.

    ``name``: what the page calls it. ``raw``, ``stream``: read the records. ``ends``: the offsets
    as `sharelag.stream.lag` takes them.
    """

    name: str
    raw: Callable[[], DataFrame]
    stream: Callable[[], DataFrame]
    offsets: Any
    ends: Any


@dataclass(frozen=True)
class Missing:
    """The error of a way that does not exist, and how the page says that."""

    error: type[Exception]
    said: str
    words: str


def missing(source: str, way: str) -> Missing | None:
    """Return why a way from a source does not exist on this pyspark; None where it does."""
    if source == LAKE_PACKAGE and not delta_jars():
        return Missing(Exception, "DATA_SOURCE_NOT_FOUND", "no package of Delta fits it yet")
    if way != "stream":
        return None
    if source == LAKE:
        return Missing(Exception, "are not a stream", "needs Delta's package")
    major, minor = map(int, metadata.version("pyspark").split(".")[:2])
    if source == "Kafka, `sharelag_kafka`" and (major, minor) < (4, 2):
        return Missing(SetupError, r"4\.2", "needs pyspark 4.2")
    return None


def compare(
    spark: SparkSession,
    source: Source,
    way: str,
    wanted: pa.Table,
    note: Callable[[str, object], None],
) -> None:
    """Hold the rows of a way equal to those wanted, or the way to say why it does not exist.

    ``way``: one of `tools.ways_page.WAYS`. ``wanted``: `sharelag.schemas.LAG` of some groups;
    columns left out are not compared. ``note``: the fixture ``record_property``.
    """
    absent = missing(source.name, way)
    seen = {
        "pyspark": metadata.version("pyspark"),
        "kind": "Connect" if is_connect(spark) else "classic",
        "input": source.name,
        "way": way,
        "saw": absent.words if absent else wanted.num_rows,
        "as_of": datetime.now(UTC).date().isoformat(),
    }
    note(WAY, json.dumps(seen))
    if absent:
        with pytest.raises(absent.error, match=absent.said):
            _find(spark, source, way)
    else:
        found = _find(spark, source, way)
        groups = pc.unique(wanted.column("group_id"))
        mine = found.filter(pc.is_in(found.column("group_id"), groups))
        assert wanted.num_rows
        assert _rows(mine.select(wanted.schema.names)) == _rows(wanted)


def _find(spark: SparkSession, source: Source, way: str) -> pa.Table:
    functions, frames, sql, _ = WAYS
    if way == functions:
        return collect(sharelag.lag(source.raw(), source.offsets), schemas.LAG)
    if way == frames:
        with sharelag.open(raw=source.raw(), offsets=source.offsets) as bench:
            return collect(bench.frames.lag, schemas.LAG)
    if way == sql:
        with sharelag.open(raw=source.raw(), offsets=source.offsets) as bench:
            return collect(bench.sql("select * from lag"), schemas.LAG)
    return _stream(spark, source)


def _stream(spark: SparkSession, source: Source) -> pa.Table:
    """Run a stream until all records are read; the table that its changes make."""
    changes = sharelag.stream.lag(sharelag.stream.windows(source.stream()), source.ends)
    name = f"lag_{uuid4().hex}"
    with set_for(spark, {"spark.sql.shuffle.partitions": "2"}):
        sink = changes.writeStream.format("memory").queryName(name).outputMode("update")
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
    rows = spark.table(name).toArrow()
    spark.catalog.dropTempView(name)
    return sharelag.stream.updated(schemas.LAG.empty_table(), rows)


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))
