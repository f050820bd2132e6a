"""A running cluster: its state topic to lag, against Kafka's own tools and a bare fetch."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition

from benchmarks.generate import STATE_PARTITIONS, record_batches
from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side
from benchmarks.processes import command, cpu_seconds, own_python
from sharelag.metrics.lag import lag_arrow
from sharelag.quick import QuickReading
from sharelag.replay import replay_arrow
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.kafka import topics
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.library import consumer
from sharelag.wire import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import kafka_jars
from tests.support.kafka.jvm import find_java, java_command
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    topic_ids,
)

_TOPICS, _KEYS = 4, 200
_FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
# What kafka-run-class.sh starts Java with.
_SCRIPT_OPTIONS = [
    *("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
]


class Cluster(NamedTuple):
    """A broker with a filled state topic, and the right answer."""

    config: ClientConfig
    records: int
    lag: pa.Table


@contextmanager
def filled(bench: Bench) -> Iterator[Cluster]:
    """Start a broker and write a million state records, as its own coordinator would."""
    count = bench.size(1_000_000, 100_000)
    properties = {"share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS)}
    with KafkaBroker(properties=properties, heap="1g") as broker:
        servers = broker.bootstrap_servers
        names = [f"bench-{n}" for n in range(_TOPICS)]
        create_topics(servers, dict.fromkeys(names, 50) | {"warm": 1})
        ids = topic_ids(servers, names)
        # A first share group makes the broker create the state topic.
        produce(servers, "warm", numbered(10, 1))
        set_group_config(servers, "warm", share_auto_offset_reset="earliest")
        share_consume(servers, "warm", ["warm"], accept, until=10)
        raw = list(record_batches("light", count, _KEYS, list(ids.values())))
        append_state(servers, raw)
        config = ClientConfig({"bootstrap.servers": servers})
        windows = replay_arrow(
            pa.Table.from_batches([decode_arrow(batch).records for batch in raw])
        )
        offsets = topics.list_offsets(config, topics.topic_ids(config))
        yield Cluster(config, count, pa.Table.from_batches([lag_arrow(windows, offsets)]))


def append_state(servers: str, batches: list[pa.RecordBatch]) -> None:
    """Append raw records to the state topic: brokers let this client alone do so."""
    settings = {
        "linger.ms": 50,
        "batch.num.messages": 10_000,
        "queue.buffering.max.messages": 10**6,
    }
    producer = Producer(
        {"bootstrap.servers": servers, "client.id": "__admin_client", "max.in.flight": 1} | settings
    )
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("key", "value", "partition"))
        for key, value, partition in zip(*columns, strict=True):
            producer.produce(STATE_TOPIC, value, key, partition)
        if producer.flush(120):
            raise GateError("the state records could not be written")


def lag_now(cluster: Cluster) -> pa.Table:
    """Read the topic and ask for the ends, as `sharelag lag` does."""
    return QuickReading(KafkaInput(cluster.config), history=False).table("lag")


def bare_fetch(cluster: Cluster) -> int:
    """Take all messages from the same client with the same settings, and look at none."""
    ranges = topics.offset_ranges(cluster.config, STATE_TOPIC)
    left = sum(end - first for first, end in ranges.values())
    client = consumer(cluster.config, **{"enable.partition.eof": False})
    client.assign([TopicPartition(STATE_TOPIC, p, OFFSET_BEGINNING) for p in ranges])
    count = 0
    while count < left:
        count += len(client.consume(min(2_000, left - count), timeout=10))
    client.close()
    return count


def console_consumer(cluster: Cluster, count: int) -> Measured:
    """Let Kafka's formatter print records; not counted is the first fifth, when the JVM starts."""
    options = ["--bootstrap-server", cluster.config.bootstrap_servers, "--topic", STATE_TOPIC]
    options += ["--from-beginning", "--max-messages", str(count), "--formatter", _FORMATTER]
    main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    line = java_command([kafka_jars() / "*"], main, *options, heap="1g", flags=())
    sizes, marks = [0], [(time.perf_counter(), 0.0)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        while chunk := os.read(process.stdout.fileno(), 1 << 20):
            alive = cpu_seconds([process.pid]) - cpu_seconds()  # of the JVM alone
            sizes.append(sizes[-1] + len(chunk))
            marks.append((time.perf_counter(), alive))
    if process.returncode:
        raise GateError(f"the console consumer failed with {process.returncode}")
    first = next(n for n, size in enumerate(sizes) if size >= sizes[-1] / 5)
    share = 1 - sizes[first] / sizes[-1]
    wall, cpu = (end - begin for begin, end in zip(marks[first], marks[-1], strict=True))
    return Measured(sizes[-1], wall, cpu, units=share * count)


@contextmanager
def against_console_consumer(bench: Bench) -> Iterator[Contest]:
    cluster = bench.keep("cluster", partial(filled, bench))
    part = bench.size(300_000, 60_000)

    def check(ours: pa.Table, printed: int) -> None:
        _same_lag(cluster, ours)
        if printed < 100 * part:
            raise GateError(f"the console consumer printed {printed} bytes only")

    yield Contest(
        Side("sharelag: topic to lag", lambda: lag_now(cluster), units=cluster.records),
        Side("console consumer with formatter", lambda: console_consumer(cluster, part)),
        check,
    )


@contextmanager
def against_fetch(bench: Bench) -> Iterator[Contest]:
    cluster = bench.keep("cluster", partial(filled, bench))

    def check(ours: pa.Table, fetched: int) -> None:
        _same_lag(cluster, ours)
        if fetched < cluster.records:
            raise GateError(f"{fetched} records were fetched, {cluster.records} written")

    yield Contest(
        Side("sharelag: topic to lag", lambda: lag_now(cluster), units=cluster.records),
        Side("confluent-kafka: consume alone", lambda: bare_fetch(cluster), units=cluster.records),
        check,
    )


@contextmanager
def against_rows(bench: Bench) -> Iterator[Contest]:
    """On Spark: the lag of a topic, and nothing but its rows."""
    from benchmarks.rows.spark import count, keep_session, living
    from sharelag.pipeline.reading import SparkReading
    from sharelag.sources.spark.data_source import read_topic

    cluster, spark = bench.keep("cluster", partial(filled, bench)), keep_session(bench)

    def lag() -> pa.Table:
        reading = SparkReading(KafkaInput(cluster.config), spark=spark)
        try:
            return reading.table("lag")
        finally:
            reading.close()

    def check(ours: pa.Table, fetched: int) -> None:
        _same_lag(cluster, ours)
        if fetched < cluster.records:
            raise GateError(f"{fetched} records were counted, {cluster.records} written")

    yield Contest(
        Side("Spark: topic to lag", lag, cluster.records, living=living(spark)),
        Side(
            "Spark: rows of the topic counted",
            lambda: count(read_topic(spark, cluster.config, STATE_TOPIC)),
            cluster.records, living=living(spark),
        ),
        check,
    )  # fmt: skip


def _same_lag(cluster: Cluster, found: pa.Table) -> None:
    names = ["group_id", "topic_id", "partition", "start_offset", "lag"]
    order = [(name, "ascending") for name in names[:3]]
    ours = found.filter(pc.not_equal(found.column("group_id"), "warm")).select(names).sort_by(order)
    if ours != cluster.lag.select(names).sort_by(order) or len(ours) != _KEYS:
        raise GateError("the lag is not that of the records that were written")


# ---- one look at twelve share partitions ---------------------------------------------------------


@contextmanager
def consumed() -> Iterator[KafkaBroker]:
    """Start a broker with one group that consumed a half of twelve partitions."""
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {"bench": 12})
        produce(servers, "bench", numbered(2400, 12))
        set_group_config(servers, "bench", share_auto_offset_reset="earliest")
        share_consume(servers, "bench", ["bench"], accept, until=1500)
        yield broker


@contextmanager
def against_command(bench: Bench, more: int = 0) -> Iterator[Contest]:
    """Run both commands from their start; ``more`` state records say again what is there."""
    broker = bench.keep("consumed", consumed)
    config = ClientConfig({"bootstrap.servers": broker.bootstrap_servers})
    if more:
        known = list(topics.read_topic(config, STATE_TOPIC))
        again = more // sum(batch.num_rows for batch in known) + 1
        append_state(broker.bootstrap_servers, known * again)
    ours = own_python(
        "from sharelag.cli import main; main()", "lag", "--engine", "local",
        "--bootstrap-server", broker.bootstrap_servers,
    )  # fmt: skip
    options = ["--describe", "--all-groups", "--offsets", "--verbose"]
    theirs = [
        *(str(find_java()), *_SCRIPT_OPTIONS, "-cp", f"{kafka_jars()}/*"),
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--bootstrap-server", broker.bootstrap_servers, *options),
    ]
    yield Contest(
        Side("sharelag lag", lambda: command(ours), unit="runs"),
        Side("ShareGroupCommand", lambda: command(theirs), unit="runs"),
        _same_rows,
    )


def _same_rows(ours: str, theirs: str) -> None:
    # People get the largest lag first, Kafka's command has its own order.
    mine = sorted(line.split()[:6] for line in ours.splitlines()[1:])
    kafkas = sorted(line.split()[:6] for line in theirs.splitlines() if line.startswith("bench"))
    if mine != kafkas or len(mine) != 12:
        raise GateError(f"the rows differ:\n{mine}\n{kafkas}")


_FETCHED = (
    "fetching is less than a half of our CPU time, the rest is decoding and replay. Done: messages "
    "gathered into columns where the client library has them, without a Python object and six "
    "calls each (1.8 to 0.8 CPU-seconds a million records). Next: see P3 light."
)
_IMPORTS = (
    "imports are four fifths of our CPU time: numpy and pyarrow the half of them, our own modules "
    "a fifth. Done: commands and readings import what they use, pandas is hidden from pyarrow, "
    "asyncio is not loaded for the Kafka client (15 ms); a request opens the connection before "
    "topics are listed, since the client looks only every 50 ms for one to list them (54 to 3 "
    "ms). All waiting together is 15 ms now. Tried: one connection for all requests, where there "
    "are four (no difference in CPU time). Next: without pyarrow's functions, whose import takes "
    "0.02 CPU-seconds."
)
_COMPILER = (
    "that many records are worth the compiled kernels, and loading numba (0.16 CPU-seconds) and "
    "their machine code is half of all we do; 12 share partitions take a third of Kafka's time "
    "already, so 3x leaves nothing for the records. Done: messages as columns; scipy and cffi are "
    "hidden from numba (0.1 to 0.2 CPU-seconds). Tried: Python's garbage collector kept from "
    "running meanwhile (a twelfth less). Numba imported in a thread meanwhile would gain "
    "the waiting at most, which is 15 ms. Next: machine code that is loaded without numba; what "
    "numba caches are objects to be linked, so that takes a linker where it is installed, or one "
    "of our own."
)

ROWS = (
    Row("P8", "live topic of state records to lag", "console consumer with Kafka's formatter, "
        "steady state", 4, 10, against_console_consumer, note=_FETCHED),
    Row("P9", "live topic of state records to lag", "bare fetch by the same client", 0.7, 0.9,
        against_fetch, note=_FETCHED),
    Row("P9", "Spark: live topic of state records to lag", "its rows by our Spark source, counted",
        1, 2, against_rows, "spark"),
    Row("P10", "`sharelag lag`, 12 share partitions", "kafka-share-groups.sh", 3, 5,
        against_command, by=("wall",), note=_IMPORTS),
    Row("P10", "`sharelag lag`, 12 share partitions", "kafka-share-groups.sh", 3, 5,
        partial(against_command, more=100_000), "with 100,000 state records", by=("wall",),
        note=_COMPILER),
)  # fmt: skip
