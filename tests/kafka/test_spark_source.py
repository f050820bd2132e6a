"""Does ``format("sharelag_kafka")`` read what Spark's own Kafka source would, with every one of its options?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.sources import kafka
from sharelag.sources.config import client_config
from sharelag.sources.spark_kafka import read_kafka, register
from tests.kafka.broker import KafkaBroker
from tests.kafka.workload import create_topics

#: Record n of a partition was written at this time (milliseconds) plus n seconds.
BEGUN = 1_700_000_000_000
#: Written to each of the two partitions; the first ten of partition 1 have been deleted.
COUNT = 100
KEPT = {0: range(COUNT), 1: range(10, COUNT)}


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker, spark: SparkSession) -> str:
    register(spark)
    name = f"spark-{uuid4().hex[:8]}"
    create_topics(broker.bootstrap_servers, {name: 2, f"{name}-empty": 1, f"{name}-other": 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for n in range(COUNT):
        for partition in (0, 1):
            producer.produce(name, b"value %d" % n, b"key %d" % n, partition, timestamp=BEGUN + n * 1000)
    producer.produce(f"{name}-other", None, b"deleted", 0)
    producer.flush(30)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(name, 1, 10)]).values():
        done.result(timeout=30)
    return name


def _frame(spark: SparkSession, broker: KafkaBroker, **options: str) -> DataFrame:
    reader = spark.read.format("sharelag_kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return reader.options(**options).load()


def _offsets(frame: DataFrame) -> dict[int, list[int]]:
    """Offsets by partition, sorted."""
    rows = frame.select("partition", "offset").collect()
    return {p: sorted(row.offset for row in rows if row.partition == p) for p in {row.partition for row in rows}}


def _as_lists(ranges: dict[int, range]) -> dict[int, list[int]]:
    return {partition: list(offsets) for partition, offsets in ranges.items() if offsets}


def test_schema_and_rows(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    frame = _frame(spark, broker, subscribe=topic)
    # As the documentation of Spark's Kafka source has it.
    assert [(name, kind) for name, kind in frame.dtypes] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    schemas.require(frame, schemas.RAW, "the source")
    read = sorted(
        frame.selectExpr("*", "unix_millis(timestamp) as ms").collect(), key=lambda r: (r.partition, r.offset)
    )
    assert [(bytes(r.key), bytes(r.value), r.topic, r.partition, r.offset, r.ms, r.timestampType) for r in read] == [
        (b"key %d" % n, b"value %d" % n, topic, p, n, BEGUN + n * 1000, 0) for p, kept in KEPT.items() for n in kept
    ]


def test_several_topics_and_a_null_value(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    counts = _frame(spark, broker, subscribe=f"{topic}, {topic}-other").groupBy("topic").count().collect()
    assert {row.topic: row["count"] for row in counts} == {topic: 190, f"{topic}-other": 1}
    (deleted,) = _frame(spark, broker, subscribe=f"{topic}-other").collect()
    assert (bytes(deleted.key), deleted.value) == (b"deleted", None)


def test_nothing_to_read(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    assert _frame(spark, broker, subscribe=f"{topic}-empty").collect() == []


def test_subscribe_pattern_is_of_the_whole_name(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    found = _frame(spark, broker, subscribePattern=f"{topic}(-o.*)?").select("topic").distinct().collect()
    assert {row.topic for row in found} == {topic, f"{topic}-other"}


def test_assign(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    assert _offsets(_frame(spark, broker, assign=json.dumps({topic: [1]}))) == _as_lists({1: KEPT[1]})


_OPTIONS = [
    ({"startingOffsets": "earliest", "endingOffsets": "latest"}, KEPT),
    ({"startingOffsets": {"0": 90, "1": -2}}, {0: range(90, 100), 1: KEPT[1]}),
    ({"endingOffsets": {"0": 5, "1": -1}}, {0: range(5), 1: KEPT[1]}),
    ({"startingOffsets": {"0": 20, "1": 20}, "endingOffsets": {"0": 21, "1": 20}}, {0: range(20, 21)}),
    ({"startingOffsetsByTimestamp": {"0": BEGUN + 89_001, "1": BEGUN + 1}}, {0: range(90, 100), 1: KEPT[1]}),
    ({"endingOffsetsByTimestamp": {"0": BEGUN + 20_000, "1": BEGUN + 10**9}}, {0: range(20), 1: KEPT[1]}),
    # Named twice, the time wins.
    ({"startingOffsets": "earliest", "startingOffsetsByTimestamp": {"0": BEGUN + 98_000, "1": BEGUN + 99_000}},
     {0: range(98, 100), 1: range(99, 100)}),
    ({"startingOffsets": {"0": 0, "1": 0}, "failOnDataLoss": "false"}, KEPT),
    ({"endingOffsets": {"0": 1000, "1": 1000}, "failOnDataLoss": "false"}, KEPT),
    ({"kafka.client.id": "me", "kafka.fetch.max.wait.ms": "10", "kafka.key.deserializer": "any.Java"}, KEPT),
]  # fmt: skip


@pytest.mark.parametrize(("options", "kept"), _OPTIONS, ids=lambda given: ",".join(map(str, given)))
def test_offsets(
    spark: SparkSession,
    broker: KafkaBroker,
    topic: str,
    options: dict[str, str | dict[str, int]],
    kept: dict[int, range],
) -> None:
    texts = {name: it if isinstance(it, str) else json.dumps({topic: it}) for name, it in options.items()}
    assert _offsets(_frame(spark, broker, subscribe=topic, **texts)) == _as_lists(kept)


@pytest.mark.parametrize(("at_least", "tasks"), [("1", 2), ("2", 2), ("6", 6)])
def test_min_partitions(spark: SparkSession, broker: KafkaBroker, topic: str, at_least: str, tasks: int) -> None:
    frame = _frame(spark, broker, subscribe=topic, minPartitions=at_least)
    assert tasks <= frame.rdd.getNumPartitions() <= tasks + 1
    assert _offsets(frame) == _as_lists(KEPT)


_REFUSED = [
    ({}, "one of subscribe, subscribePattern and assign"),
    ({"subscribe": "TOPIC", "assign": "{}"}, "one of subscribe, subscribePattern and assign"),
    ({"subscribe": "TOPIC", "includeHeaders": "true"}, "includeHeaders"),
    ({"subscribe": "TOPIC", "startingOfsets": "earliest"}, "startingofsets"),
    ({"subscribe": "TOPIC", "startingOffsets": "latest"}, "startingOffsets cannot be latest"),
    ({"subscribe": "TOPIC", "startingOffsets": '{"TOPIC":{"0":1}}'}, "leave out partition 1"),
    ({"subscribe": "TOPIC", "startingOffsets": '{"TOPIC":{"0":0,"1":0}}'}, "holds offsets 10 to 100"),
    ({"subscribe": "TOPIC", "endingOffsets": '{"TOPIC":{"0":101,"1":100}}'}, "holds offsets 0 to 100"),
    ({"subscribe": "TOPIC-gone"}, "the cluster has no topic"),
    ({"subscribePattern": "TOPIC-x.*"}, "no topic matches"),
    ({"assign": '{"TOPIC":[7]}'}, "has no partition 7"),
    ({"subscribe": "TOPIC", "kafka.sasl.jaas.config": "hunter2"}, "sasl.jaas.config cannot be read"),
    ({"subscribe": "TOPIC", "kafka.no.such.setting": "1"}, "no.such.setting"),
    ({"subscribe": "TOPIC", "kafka.isolation.level": "read_committed"}, "read_uncommitted"),
    ({"subscribe": "TOPIC", "kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "1000"},
     "no broker answers at 127.0.0.1:1 within 1 s"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words"), _REFUSED, ids=[words for _, words in _REFUSED])
def test_what_cannot_be_read_says_so(
    spark: SparkSession, broker: KafkaBroker, topic: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=r"sharelag\.errors\.\w+: ") as refusal:
        _frame(spark, broker, **{name: text.replace("TOPIC", topic) for name, text in options.items()}).collect()
    assert words in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.fixture(scope="module")
def secure_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(secure=True) as running:
        yield running


def test_a_whole_configuration_and_no_secret_in_the_plan(
    spark: SparkSession, secure_broker: KafkaBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = f"secret-{uuid4().hex[:8]}"
    create_topics(secure_broker.bootstrap_servers, {topic: 1})
    producer = Producer(secure_broker.client_config())
    producer.produce(topic, b"v", b"k")
    producer.flush(30)
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username='admin' password='admin-secret';"
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    config = client_config(secure_broker.secure_bootstrap_servers, None, properties)
    frame = read_kafka(spark, config, topic)
    assert frame.count() == 1
    assert kafka.record_count(config, topic) == 1
    raw = {f"kafka.{name}": value for name, value in properties.items()}
    given = spark.read.format("sharelag_kafka").options(subscribe=topic, **raw)
    direct = given.option("kafka.bootstrap.servers", secure_broker.secure_bootstrap_servers).load()
    assert direct.count() == 1
    for one in (frame, direct):
        one.explain("formatted")
        one.explain(True)
        shown = capfd.readouterr().out + repr(one) + str(one._jdf.queryExecution())
        assert "sharelag_kafka" in shown
        assert "admin-secret" not in shown
