"""``format("sharelag_kafka")`` reads what Spark's own Kafka source would, with every option."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader

from sharelag import schemas
from sharelag.errors import DataLossError
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.spark import is_connect
from sharelag.inputs.spark.data_source import (
    OffsetRange,
    ShareLagKafka,
    StreamReader,
    read_options,
    read_topic,
    register,
)
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import create_topics, delete_below, numbered, produce

#: Record n of a partition was written at this time (milliseconds) plus n seconds.
BEGUN = 1_700_000_000_000
#: Written to each of the two partitions; the first ten of partition 1 have been deleted.
COUNT = 100
KEPT = {0: range(COUNT), 1: range(10, COUNT)}


@pytest.fixture(scope="module", autouse=True)
def _source(spark: SparkSession) -> None:
    """The session knows the source, whichever test is first."""
    register(spark)


@pytest.fixture(scope="module")
def topic(broker: KafkaBroker) -> str:
    name = f"spark-{uuid4().hex[:8]}"
    topics = {name: 2, f"{name}-empty": 1, f"{name}-other": 1}
    # Its records are years old: retention would delete them as soon as it looks.
    create_topics(broker.bootstrap_servers, topics, {"retention.ms": "-1"})
    records = [(p, b"key %d" % n, b"value %d" % n) for n in range(COUNT) for p in (0, 1)]
    times = [BEGUN + n * 1000 for n in range(COUNT) for _ in (0, 1)]
    produce(broker.bootstrap_servers, name, records, times=times)
    produce(broker.bootstrap_servers, f"{name}-other", [(0, b"deleted", None)])
    delete_below(broker.bootstrap_servers, name, {1: 10})
    return name


def _frame(spark: SparkSession, broker: KafkaBroker, **options: str) -> DataFrame:
    reader = spark.read.format("sharelag_kafka").option(
        "kafka.bootstrap.servers", broker.bootstrap_servers
    )
    return reader.options(**options).load()


def _offsets(frame: DataFrame) -> dict[int, list[int]]:
    """Offsets by partition, sorted."""
    rows = frame.select("partition", "offset").collect()
    return {
        p: sorted(r.offset for r in rows if r.partition == p) for p in {r.partition for r in rows}
    }


def _task_offsets(broker: KafkaBroker, **options: str) -> list[tuple[int, list[int]]]:
    """Partition and offsets of each task that the source plans, all of them in this process."""
    source = ShareLagKafka({"kafka.bootstrap.servers": broker.bootstrap_servers, **options})
    reader = source.reader(source.schema())
    return [
        (task.partition, [n for rows in _batches(reader, task) for n in rows["offset"].to_pylist()])
        for task in reader.partitions()
        if isinstance(task, OffsetRange)
    ]


def _batches(reader: DataSourceReader, task: OffsetRange) -> Iterator[pa.RecordBatch]:
    for rows in reader.read(task):
        assert isinstance(rows, pa.RecordBatch)
        yield rows


def _as_lists(ranges: dict[int, range]) -> dict[int, list[int]]:
    return {partition: list(offsets) for partition, offsets in ranges.items() if offsets}


def test_schema_and_rows(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    frame = _frame(spark, broker, subscribe=topic)
    # As the documentation of Spark's Kafka source has it.
    assert [(name, kind) for name, kind in frame.dtypes] == [
        *(("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int")),
        *(("offset", "bigint"), ("timestamp", "timestamp"), ("timestampType", "int")),
    ]
    schemas.require(frame, schemas.RAW, "the source")
    rows = frame.selectExpr("*", "unix_millis(timestamp) as ms").collect()
    read = sorted(rows, key=lambda r: (r.partition, r.offset))
    assert [
        (bytes(r.key), bytes(r.value), r.topic, r.partition, r.offset, r.ms, r.timestampType)
        for r in read
    ] == [
        (b"key %d" % n, b"value %d" % n, topic, p, n, BEGUN + n * 1000, 0)
        for p, kept in KEPT.items()
        for n in kept
    ]


def test_some_topics_and_a_null_value(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    frame = _frame(spark, broker, subscribe=f"{topic}, {topic}-other")
    counts = frame.groupBy("topic").count().collect()
    assert {row.topic: row["count"] for row in counts} == {topic: 190, f"{topic}-other": 1}
    (deleted,) = _frame(spark, broker, subscribe=f"{topic}-other").collect()
    assert (bytes(deleted.key), deleted.value) == (b"deleted", None)


def test_nothing_to_read(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    assert _frame(spark, broker, subscribe=f"{topic}-empty").collect() == []


# Other offsets: `tests/unit/inputs/test_spark_options.py`.
def test_pruned_offsets_are_passed_over_on_request(broker: KafkaBroker, topic: str) -> None:
    starting = json.dumps({topic: {"0": 0, "1": 0}})
    found = _task_offsets(broker, subscribe=topic, startingOffsets=starting, failOnDataLoss="false")
    assert found == list(_as_lists(KEPT).items())


def test_spark_passes_options_on(spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
    """It hands their names over in lower case."""
    frame = _frame(
        spark,
        broker,
        assign=json.dumps({topic: [0, 1]}),
        startingOffsets=json.dumps({topic: {"0": 90, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 20}}),
        failOnDataLoss="true",
        **{"kafka.client.id": "me", "kafka.key.deserializer": "any.Java"},
    )
    assert _offsets(frame) == _as_lists({0: range(90, 100), 1: range(10, 20)})


# All that is refused: `tests/unit/inputs/test_spark_options.py`.
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": '{"TOPIC":{"0":0,"1":0}}'}, "has offsets 10 to 100"),
        ({"subscribe": "TOPIC-gone"}, "the cluster has no topic"),
        ({"kafka.sasl.jaas.config": "hunter2"}, "sasl.jaas.config cannot be parsed"),
    ],
    ids=["offsets", "topic", "login"],
)
def test_what_cannot_be_read_says_so(
    spark: SparkSession, broker: KafkaBroker, topic: str, options: dict[str, str], words: str
) -> None:
    given = {name: text.replace("TOPIC", topic) for name, text in options.items()}
    with pytest.raises(Exception, match=r"sharelag\.errors\.\w+: ") as refusal:
        _frame(spark, broker, **{"subscribe": topic} | given).collect()
    assert words in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_a_whole_configuration_and_no_secret_in_the_plan(
    spark: SparkSession, secure_broker: KafkaBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = f"secret-{uuid4().hex[:8]}"
    create_topics(secure_broker.bootstrap_servers, {topic: 1})
    producer = Producer(secure_broker.client_config())
    producer.produce(topic, b"v", b"k")
    producer.flush(30)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f"{module} required username='admin' password='admin-secret';"
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    properties["sasl.jaas.config"] = jaas
    config = client_config(secure_broker.secure_bootstrap_servers, None, properties)
    frame = read_topic(spark, config, topic)
    assert (frame.count(), kafka.offset_ranges(config, topic)) == (1, {0: (0, 1)})
    raw = {f"kafka.{name}": value for name, value in properties.items()}
    given = spark.read.format("sharelag_kafka").options(subscribe=topic, **raw)
    direct = given.option("kafka.bootstrap.servers", secure_broker.secure_bootstrap_servers).load()
    assert direct.count() == 1
    for one in (frame, direct):
        one.explain("formatted")
        one.explain(True)
        plan = "" if is_connect(spark) else str(one._jdf.queryExecution())
        shown = capfd.readouterr().out + repr(one) + plan
        assert "sharelag_kafka" in shown
        assert "admin-secret" not in shown


# ---- streams -------------------------------------------------------------------------------------
@pytest.fixture
def growing(broker: KafkaBroker) -> str:
    name = f"stream-{uuid4().hex[:8]}"
    create_topics(broker.bootstrap_servers, {name: 2})
    produce(broker.bootstrap_servers, name, numbered(100, 2))
    return name


def test_what_is_pruned_while_it_is_read_is_a_gap_too(broker: KafkaBroker, growing: str) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": growing}
    reader = StreamReader(
        read_options(options | {"failOnDataLoss": "false", "includeGaps": "true"}, stream=True)
    )
    begin, end = ({growing: {"0": n, "1": n}} for n in (0, 50))
    planned = reader.partitions(begin, end)
    assert planned == [OffsetRange(growing, p, 0, 50) for p in (0, 1)]
    delete_below(broker.bootstrap_servers, growing, {0: 20, 1: 50})
    rows = [
        [(r["offset"], r["gapEnd"]) for b in reader.read(one) for r in b.to_pylist()]
        for one in planned
    ]
    assert rows == [[(n, None) for n in range(20, 50)] + [(0, 20)], [(0, 50)]]
    strict = StreamReader(read_options(options, stream=True))
    with pytest.raises(DataLossError, match="records were pruned before they were read"):
        list(strict.read(planned[0]))
