"""`sharelag.offsets` is what the cluster reports about its topics, now and in the past."""

import gc
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Uuid
from pyspark.sql import DataFrame, SparkSession

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.model import milliseconds
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import (
    create_topics,
    delete_below,
    end_offsets,
    log_start_offsets,
    numbered,
    produce,
    topic_ids,
)

#: Record n of a partition was written n seconds later.
BEGUN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
COUNT, DELETED = 20, 4


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker) -> str:
    """Two partitions of 20 records, the first four of one deleted; and a topic without any."""
    name = f"offsets-{uuid4().hex[:8]}"
    # Its records are years old: retention would delete them as soon as it looks.
    create_topics(broker.bootstrap_servers, {name: 2, f"{name}-empty": 1}, {"retention.ms": "-1"})
    times = [milliseconds(BEGUN + timedelta(seconds=n // 2)) for n in range(2 * COUNT)]
    produce(broker.bootstrap_servers, name, numbered(2 * COUNT, 2), times=times)
    delete_below(broker.bootstrap_servers, name, {1: DELETED})
    return name


def _rows(frame: DataFrame) -> list[tuple[object, ...]]:
    """All but the time of the request, sorted."""
    schemas.require(frame, schemas.OFFSETS, "offsets")
    return sorted(tuple(row)[:-1] for row in frame.select(schemas.OFFSETS.names).collect())


def test_they_are_what_kafka_reports(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    servers, names = broker.bootstrap_servers, [topic, f"{topic}-empty"]
    rows = _rows(sharelag.offsets(spark, servers, topics=names))
    first, end = log_start_offsets(servers, names), end_offsets(servers, names)
    ids = topic_ids(servers, names)
    told = [row[:5] for row in rows]
    assert told == sorted((name, ids[name], p, first[name, p], end[name, p]) for name, p in end)
    assert [row[3:5] for row in rows] == [(0, COUNT), (DELETED, COUNT), (0, 0)]
    assert {row[5] for row in rows} == {0}  # the leader epoch
    config, before = client_config(servers), datetime.now(UTC) - timedelta(milliseconds=1)
    gone = {f"{topic}-gone": "J" * 22}  # a topic that vanishes takes no other with it
    found = kafka.list_offsets(config, {one: kafka.topic_ids(config)[one] for one in names} | gone)
    assert found.schema == schemas.OFFSETS
    assert all(before <= at <= datetime.now(UTC) for at in found.column("as_of").to_pylist())
    assert rows == sorted(tuple(row.values())[:-1] for row in found.to_pylist())


def test_an_exporter_that_asks_for_years_keeps_no_topic_ids(
    broker: KafkaBroker, topic: str
) -> None:
    def count() -> int:
        gc.collect()
        return sum(isinstance(one, Uuid) for one in gc.get_objects())

    config, before = client_config(broker.bootstrap_servers), count()
    for _ in range(3):
        assert len(kafka.topic_ids(config, [topic, f"{topic}-empty"])) == 2
    assert count() == before


def test_topics_are_chosen(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    servers = broker.bootstrap_servers
    one = _rows(sharelag.offsets(spark, servers, topics=topic))
    assert [row[0] for row in one] == [topic, topic]
    whole = _rows(sharelag.offsets(spark, servers))
    assert {row[0] for row in whole} == set(kafka.topic_ids(client_config(servers)))
    assert set(one) < set(whole)
    assert _rows(sharelag.offsets(spark, client_config(servers), topics=[topic])) == one
    with pytest.raises(InputError, match=f"there is no topic '{topic}-gone'"):
        sharelag.offsets(spark, servers, topics=[topic, f"{topic}-gone"])


def test_of_the_past(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    servers, then = broker.bootstrap_servers, BEGUN + timedelta(seconds=9.5)
    frame = sharelag.offsets(spark, servers, topics=topic, as_of=then)
    # Where a log began then is not known; ten records had been written to each partition.
    assert [row[2:5] for row in _rows(frame)] == [(0, None, 10), (1, None, 10)]
    moments = {row.ms for row in frame.selectExpr("unix_millis(as_of) as ms").collect()}
    assert moments == {int(then.timestamp() * 1000)}
    deleted = sharelag.offsets(spark, servers, topics=topic, as_of=BEGUN + timedelta(seconds=1.5))
    assert [row[4] for row in _rows(deleted)] == [2, None]
    with pytest.raises(InputError, match="has no time zone"):
        sharelag.offsets(spark, servers, topics=topic, as_of=then.replace(tzinfo=None))
    given: Any = {0: 1200}
    with pytest.raises(InputError, match="offsets of state partitions, which have no end offsets"):
        sharelag.offsets(spark, servers, topics=topic, as_of=given)
