"""A running cluster: its state topic to lag, compared with Kafka's own tools and a bare fetch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

import sharelag
from benchmarks.bare_fetch import fetch
from benchmarks.generate import STATE_PARTITIONS, STATE_TOPIC, record_batches
from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side
from benchmarks.processes import command, cpu_seconds, own_python
from benchmarks.sessions import keep_session, lag_by_frames, lag_by_function, living
from sharelag.replay import replay_arrow
from sharelag.wire import decode_arrow
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import connector_jars, kafka_jars
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
#: Without it Spark's Kafka source omits internal topics.
_SETTING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
# Java options of kafka-run-class.sh.
_SCRIPT_OPTIONS = [
    *("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
]


class Cluster(NamedTuple):
    """A broker with a filled state topic, and the expected start offsets by share partition."""

    servers: str
    records: int
    starts: dict[tuple[str, str, int], int | None]


@contextmanager
def filled(bench: Bench, full: int = 1_000_000) -> Iterator[Cluster]:
    """Start a broker and write state records like its own coordinator."""
    count = bench.size(full, 20_000)
    properties = {"share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS)}
    with KafkaBroker(properties=properties, heap="1g") as broker:
        servers = broker.bootstrap_servers
        names = [f"bench-{n}" for n in range(_TOPICS)]
        create_topics(servers, dict.fromkeys(names, 50) | {"warm": 1})
        ids = topic_ids(servers, names)
        # The first share group makes the broker create the state topic.
        produce(servers, "warm", numbered(10, 1))
        set_group_config(servers, "warm", share_auto_offset_reset="earliest")
        share_consume(servers, "warm", ["warm"], accept, until=10)
        raw = list(record_batches("light", count, _KEYS, list(ids.values())))
        append_state(servers, raw)
        records = pa.Table.from_batches([decode_arrow(batch).records for batch in raw])
        yield Cluster(servers, count, _starts(pa.Table.from_batches([replay_arrow(records)])))


def append_state(servers: str, batches: list[pa.RecordBatch]) -> None:
    """Append raw records to the state topic, which brokers allow only this client."""
    settings: dict[str, str | int | float | bool] = {
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


def read_state(servers: str) -> pa.RecordBatch:
    """Return keys, values and partitions of the state topic."""
    found = [message for some in fetch(servers) for message in some]
    rows = [{"key": m.key(), "value": m.value(), "partition": m.partition()} for m in found]
    return pa.RecordBatch.from_pylist(rows)


def lag_now(cluster: Cluster) -> pa.Table:
    """Run `sharelag lag` as a whole process."""
    ours = [sys.executable, "-m", "sharelag", "lag", "--engine", "local", "-o", "json"]
    lines = command([*ours, "--bootstrap-server", cluster.servers]).splitlines()
    return pa.Table.from_pylist([json.loads(line) for line in lines])


def bare_fetch(cluster: Cluster) -> int:
    """Run a program that only fetches, as a whole process."""
    return int(command([sys.executable, "-m", "benchmarks.bare_fetch", cluster.servers]))


def console_consumer(cluster: Cluster, count: int) -> Measured:
    """Print records with Kafka's formatter, except the first fifth, when the JVM starts."""
    options = ["--bootstrap-server", cluster.servers, "--topic", STATE_TOPIC]
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
    part = bench.size(300_000, 10_000)

    def check(ours: pa.Table, printed: int) -> None:
        _same_lag(cluster, ours)
        if printed < 100 * part:
            raise GateError(f"the console consumer printed {printed} bytes only")

    yield Contest(
        Side("sharelag lag", lambda: lag_now(cluster), units=cluster.records),
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
        Side("sharelag lag", lambda: lag_now(cluster), units=cluster.records),
        Side("a program that only fetches", lambda: bare_fetch(cluster), units=cluster.records),
        check,
    )


@contextmanager
def on_spark(bench: Bench, connector: bool) -> Iterator[Contest]:
    """Compute the lag of a topic on Spark, or only count it, with our source or Spark's own."""
    cluster, spark = bench.keep("cluster", partial(filled, bench)), keep_session(bench)
    if connector:
        for jar in connector_jars():
            spark.sql(f"ADD JAR '{jar}'")
        spark.conf.set(_SETTING, "true")
    read = partial(_by_spark if connector else _by_sharelag, spark, cluster.servers)
    # Both functions return the lag that one process finds.
    wanted = _terms(lag_now(cluster))
    for ask in (lag_by_function, lag_by_frames):
        found = ask(read(), sharelag.offsets(spark, cluster.servers))
        if _terms(found) != wanted:
            raise GateError(f"{ask.__name__} gives another lag than `sharelag lag`")

    def check(ours: pa.Table, fetched: int) -> None:
        _same_lag(cluster, ours)
        if fetched < cluster.records:
            raise GateError(f"{fetched} records were counted, {cluster.records} written")

    yield Contest(
        Side(
            "sharelag.lag(raw, offsets)",
            lambda: lag_by_function(read(), sharelag.offsets(spark, cluster.servers)),
            cluster.records, living=living(spark),
        ),
        Side("raw.count()", lambda: read().count(), cluster.records, living=living(spark)),
        check,
    )  # fmt: skip
    spark.conf.unset(_SETTING)


def _by_spark(spark: SparkSession, servers: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", STATE_TOPIC).option("failOnDataLoss", "false").load()


def _by_sharelag(spark: SparkSession, servers: str) -> DataFrame:
    return sharelag.read_kafka(spark, servers, topics=STATE_TOPIC)


def _same_lag(cluster: Cluster, found: pa.Table) -> None:
    if _starts(found) != cluster.starts or len(cluster.starts) != _KEYS:
        raise GateError("the start offsets are not those of the records that were written")


def _starts(found: pa.Table) -> dict[tuple[str, str, int], int | None]:
    return {key: start for key, (start, _) in _terms(found).items()}


def _terms(found: pa.Table) -> dict[tuple[str, str, int], tuple[int | None, int | None]]:
    """Return start offset and lag by share partition, except for the first group."""
    return {
        (row["group_id"], row["topic_id"], row["partition"]): (row["start_offset"], row.get("lag"))
        for row in found.to_pylist()
        if row["group_id"] != "warm"
    }


# ---- a single query of twelve share partitions ---------------------------------------------------


@contextmanager
def consumed() -> Iterator[KafkaBroker]:
    """Start a broker with one group that consumed half of twelve partitions."""
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, {"bench": 12})
        produce(servers, "bench", numbered(2400, 12))
        set_group_config(servers, "bench", share_auto_offset_reset="earliest")
        share_consume(servers, "bench", ["bench"], accept, until=1500)
        yield broker


@contextmanager
def against_command(bench: Bench, more: int = 0) -> Iterator[Contest]:
    """Run both commands as whole processes; ``more`` state records repeat existing ones."""
    broker = bench.keep("consumed", consumed)
    if more:
        known = read_state(broker.bootstrap_servers)
        append_state(broker.bootstrap_servers, [known] * (more // known.num_rows + 1))
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
    # By default the largest lag is first; Kafka's command has its own order.
    mine = sorted(line.split()[:6] for line in ours.splitlines()[1:])
    kafkas = sorted(line.split()[:6] for line in theirs.splitlines() if line.startswith("bench"))
    if mine != kafkas or len(mine) != 12:
        raise GateError(f"the rows differ:\n{mine}\n{kafkas}")


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

_COUNT = (
    "`count()` needs no column of a record. On a busy machine it took 3.5 CPU-seconds, 2.1 of them "
    "in Java's tasks and 0.8 in Java's compiler. Whatever Python is to see has to become Arrow "
    "first, which took Java's tasks another 1.8: a mapInArrow that only counts has 0.64x. Decoding "
    "and replay took Python 0.65, and the driver 0.1, so 0.7x is out of reach while Java "
    "fetches. Done: nothing is exchanged, as each task has whole state partitions (0.30 to 0.40); "
    "end offsets go along with the tasks, a task reads several partitions, and nothing is packed "
    "(0.41 to 0.58 in the same hour). Next: tasks that fetch the topic themselves, as those of "
    '`sharelag.open("broker:9092")` do; but then another client than the chosen one would connect.'
)
_FETCH = (
    "of 2.6 CPU-seconds for a million records, 1.5 are the client's, which is all that the rival "
    "does; imports take 0.6 (numba half of it), compiled kernels until they are loaded 0.3, "
    "decoding and replay 0.2. Done: neither kafka-python nor jinja2 is imported (0.3). Tried: "
    "numba imported while the client fetches already (no gain on two processors)."
)
ROWS = (
    Row("P8", "`sharelag lag` of a live topic of state records", "console consumer with Kafka's "
        "formatter, steady state", 4, 10, against_console_consumer),
    Row("P9", "`sharelag lag` of a live topic of state records", "bare fetch by the same client",
        0.7, 0.9, against_fetch, note=_FETCH),
    Row("P9", "Spark's Kafka source, live, to lag", "Spark's own count of the same", 0.7, 1,
        partial(on_spark, connector=True), "connector", note=_COUNT),
    Row("P9", "`sharelag.read_kafka` without jars, live, to lag", "Spark's own count of the same",
        0.7, 1, partial(on_spark, connector=False), "without jars"),
    Row("P10", "`sharelag lag`, 12 share partitions", "kafka-share-groups.sh", 3, 5,
        against_command, by=("wall",), note=_IMPORTS),
    Row("P10", "`sharelag lag`, 12 share partitions", "kafka-share-groups.sh", 3, 5,
        partial(against_command, more=100_000), "with 100,000 state records", by=("wall",),
        note=_COMPILER),
)  # fmt: skip
