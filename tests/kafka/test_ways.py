"""Functions, frames, SQL and streams give one process's lag of a live broker, by both sources."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import sharelag
from sharelag.tables.gaps import KAFKA_SETTING
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.connector import add_connector
from tests.support.kafka.workload import read_in_part
from tests.support.spark.settings import set_for
from tests.support.ways import Source, compare
from tools.ways_page import WAYS

pytestmark = pytest.mark.exhaustive
#: Spark's own source as users call it, and what `sharelag.read_kafka` reads without its setting.
SOURCES = ("Kafka, Spark's source", "Kafka, `sharelag_kafka`")


def read(spark: SparkSession, servers: str, name: str, stream: bool = False) -> DataFrame:
    if name != SOURCES[0]:
        return sharelag.read_kafka(spark, servers, stream=stream)
    reader = (spark.readStream if stream else spark.read).format("kafka")
    reader.option("kafka.bootstrap.servers", servers).option("startingOffsets", "earliest")
    return reader.option("subscribe", f"{STATE_TOPIC},{GROUP_TOPIC}").load()


@pytest.fixture(scope="module", params=SOURCES)
def source(
    request: pytest.FixtureRequest, spark: SparkSession, broker: KafkaBroker, wanted: pa.Table
) -> Iterator[Source]:
    servers, name = broker.bootstrap_servers, request.param
    with set_for(add_connector(spark), {KAFKA_SETTING: str(name == SOURCES[0]).lower()}):
        yield Source(
            name,
            lambda: read(spark, servers, name),
            lambda: read(spark, servers, name, stream=True),
            offsets := sharelag.offsets(spark, servers),
            offsets,
        )


@pytest.fixture(scope="module")
def wanted(broker: KafkaBroker) -> pa.Table:
    """The lag that one process finds, but for the moment of its end offsets."""
    servers, group = broker.bootstrap_servers, f"ways-{uuid4().hex[:8]}"
    read_in_part(servers, group, f"{group}-orders", partitions=3, read=60, left=7)
    read_in_part(servers, group, f"{group}-refunds", partitions=2, read=10, left=4)
    with sharelag.open(servers, engine="local") as bench:
        lag = bench.reading.table("lag").drop_columns("as_of")
    mine = lag.filter(pc.equal(lag.column("group_id"), group))
    assert pc.sum(mine.column("lag")).as_py() == 11
    return mine


@pytest.mark.parametrize("way", WAYS)
def test_lag_is_that_of_one_process(
    spark: SparkSession,
    source: Source,
    way: str,
    wanted: pa.Table,
    record_property: Callable[[str, object], None],
) -> None:
    compare(spark, source, way, wanted, record_property)


def test_no_record_is_exchanged(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    sharelag.windows(source.raw()).explain()
    plan = capsys.readouterr().out
    assert "MapInArrow" in plan
    assert "Exchange" not in plan
