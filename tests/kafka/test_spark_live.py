"""A running cluster on Spark: tasks fetch the state topic themselves, up to one moment."""

from __future__ import annotations

from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from sharelag.metrics.lag import BRIEF
from sharelag.pipeline.reading import SparkReading
from sharelag.quick import QuickReading
from sharelag.reading import reading
from sharelag.replay.moment import Choice
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.kafka.config import ClientConfig
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.workload import numbered, produce, read_in_part


@pytest.fixture(scope="module")
def group(broker: KafkaBroker) -> str:
    name = f"spark-{uuid4().hex[:8]}"
    read_in_part(broker.bootstrap_servers, name, f"{name}-orders", partitions=3, read=60, left=7)
    return name


def source_of(broker: KafkaBroker) -> KafkaInput:
    return KafkaInput(ClientConfig({"bootstrap.servers": broker.bootstrap_servers}))


def test_lag_is_kafkas_and_no_record_is_kept(
    broker: KafkaBroker, group: str, spark: SparkSession
) -> None:
    choice = Choice(frozenset({group}))
    begun = SparkReading(source_of(broker), choice=choice, spark=spark)
    lag = begun.table("lag")
    assert ("frame", "raw") not in begun.once
    told = {
        row["partition"]: (row["start_offset"], row["lag"])
        for row in parse_describe(broker.share_groups_describe(group))
    }
    assert {row["partition"]: (row["start_offset"], row["lag"]) for row in lag.to_pylist()} == told
    assert sum(lag_of or 0 for _, lag_of in told.values()) == 7
    wanted = QuickReading(source_of(broker), choice=choice).table("windows")
    assert begun.table("windows").equals(wanted)


@pytest.mark.parametrize("scanned", [True, False])
def test_lag_alone_is_scanned_where_records_are_many(
    broker: KafkaBroker,
    group: str,
    spark: SparkSession,
    scanned: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "SCAN_FROM_RECORDS", 0 if scanned else 1 << 40)
    begun = SparkReading(source_of(broker), choice=Choice(frozenset({group})), spark=spark)
    brief = begun.brief.table
    assert (("table", "windows") in begun.once) is not scanned
    assert brief.drop_columns("as_of").equals(
        begun.table("lag").select(BRIEF.names).drop_columns("as_of")
    )


def test_all_tables_end_at_the_same_records(
    broker: KafkaBroker, group: str, spark: SparkSession
) -> None:
    """What is written after the first question is in none of the answers."""
    begun = SparkReading(source_of(broker), spark=spark)
    counted = begun.counted
    other = f"spark-{uuid4().hex[:8]}"
    read_in_part(broker.bootstrap_servers, other, f"{other}-orders", partitions=2, read=20, left=3)
    produce(broker.bootstrap_servers, f"{group}-orders", numbered(1, 1))
    history = begun.history()
    assert history.total == counted.records
    assert other not in set(history.table.column("group_id").to_pylist())
    assert begun.frames.records.count() == counted.records
