"""Spark's own Kafka source, live: what it reads gives the lag of Kafka's own command, every way."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import sharelag
from sharelag import schemas
from sharelag.engine.local import QuickReading
from sharelag.engine.spark import tasks
from sharelag.engine.spark.reading import SparkReading
from sharelag.errors import TopicMissingError
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.replay.moment import Choice
from sharelag.tables.gaps import KAFKA_SETTING
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support.connect import connect_server, no_session
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.connector import add_connector
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.jars import NEWEST_CONNECTOR, connector_jars, connector_version
from tests.support.kafka.workload import numbered, produce, read_in_part
from tests.support.spark.settings import set_for

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "data" / "examples" / "spark-kafka"
#: Start offset and lag by topic and partition.
Told = Mapping[tuple[str, int], tuple[int | None, int | None]]


@pytest.fixture(scope="module")
def connector(spark: SparkSession) -> SparkSession:
    """The session, with Spark's own Kafka source."""
    return add_connector(spark)


@pytest.fixture
def internal_topics(connector: SparkSession) -> Iterator[None]:
    """The session has the setting without which the source leaves internal topics out."""
    with set_for(connector, {KAFKA_SETTING: "true"}):
        yield


@pytest.fixture(scope="module")
def group(broker: KafkaBroker) -> str:
    name = f"connector-{uuid4().hex[:8]}"
    read_in_part(broker.bootstrap_servers, name, f"{name}-orders", partitions=3, read=60, left=7)
    read_in_part(broker.bootstrap_servers, name, f"{name}-refunds", partitions=2, read=10, left=4)
    return name


def _told(broker: KafkaBroker, group: str) -> Told:
    rows = parse_describe(broker.share_groups_describe(group))
    return {(r["topic"], r["partition"]): (r["start_offset"], r["lag"]) for r in rows}


def _lag(rows: pa.Table, group: str) -> Told:
    mine = (r for r in rows.to_pylist() if r["group_id"] == group)
    return {(r["topic"], r["partition"]): (r["start_offset"], r["lag"]) for r in mine}


def _raw(spark: SparkSession, broker: KafkaBroker, stream: bool = False) -> DataFrame:
    """What the source gives, with headers, another column of the user's, and in another order."""
    reader = (spark.readStream if stream else spark.read).format("kafka")
    frame = reader.options(
        **{"kafka.bootstrap.servers": broker.bootstrap_servers},
        subscribe=f"{STATE_TOPIC},{GROUP_TOPIC}",
        startingOffsets="earliest",
        includeHeaders="true",
    ).load()
    found = frame.schema["headers"].dataType.simpleString()
    assert found == "array<struct<key:string,value:binary>>"
    return frame.select("headers", F.lit("ours").alias("origin"), *reversed(schemas.RAW.names))


@pytest.mark.exhaustive
def test_without_the_setting_it_reads_nothing_and_the_answers_say_so(
    connector: SparkSession, broker: KafkaBroker, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw = _raw(connector, broker)
    with set_for(connector, {KAFKA_SETTING: "false"}), caplog.at_level(logging.WARNING, "sharelag"):
        assert raw.count() == 0
        bench = sharelag.open(raw=raw)
        assert KAFKA_SETTING in caplog.text
        for answer in (bench.lag(), bench.history()):
            assert not len(answer)
            assert KAFKA_SETTING in "".join(answer.notes)
            assert KAFKA_SETTING in answer.to_text()
        with pytest.raises(sharelag.ShareLagError, match="no share group has state"):
            bench.explain(group)
    caplog.clear()
    with set_for(connector, {KAFKA_SETTING: "true"}):
        assert len(sharelag.open(raw=_raw(connector, broker)).lag())
    assert not caplog.records


def test_every_way_gives_the_lag_of_kafkas_command(
    connector: SparkSession, broker: KafkaBroker, group: str, internal_topics: None
) -> None:
    raw = _raw(connector, broker).cache()  # read once, whatever is asked of it
    bench = sharelag.open(raw=raw, offsets=sharelag.offsets(connector, broker.bootstrap_servers))
    wanted = _told(broker, group)
    assert sum(lag or 0 for _, lag in wanted.values()) == 11
    records = sharelag.decode(raw).records
    windows = sharelag.windows(records)
    offsets = sharelag.offsets(connector, broker.bootstrap_servers)
    ways: dict[str, Callable[[], pa.Table]] = {
        "answer": lambda: bench.lag(group).table,
        "frame": lambda: bench.frames.lag.toArrow(),
        "sql": lambda: bench.sql(
            "select group_id, topic, partition, start_offset, lag from lag where group_id = :mine",
            {"mine": group},
        ).toArrow(),
        "functions": lambda: sharelag.lag(windows, offsets).toArrow(),
    }
    for name, way in ways.items():
        assert _lag(way(), group) == wanted, name
    mine = F.col("group_id") == group
    assert sharelag.history(records).where(mine).count() >= len(wanted)
    of_groups = sharelag.decode(raw, GROUP_TOPIC).records
    assert sharelag.groups(of_groups).where(mine).count() == 1
    assert sharelag.members(of_groups).where(mine).count() == 0  # who read has left
    (health,) = sharelag.health(raw).agg(F.sum("records").alias("records")).collect()
    assert health.records == records.count()
    raw.unpersist()


@pytest.mark.exhaustive  # of files: `tests/spark/test_one_pass.py`
@pytest.mark.usefixtures("internal_topics")
def test_tasks_that_scan_whole_partitions_exchange_nothing(
    connector: SparkSession,
    broker: KafkaBroker,
    group: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offsets = sharelag.offsets(connector, broker.bootstrap_servers)
    whole = _raw(connector, broker).where("offset >= 0")
    split = connector.read.format("kafka").options(
        **{"kafka.bootstrap.servers": broker.bootstrap_servers, "minPartitions": "24"},
        subscribe=f"{STATE_TOPIC},{GROUP_TOPIC}",
        startingOffsets="earliest",
    )
    wanted = _told(broker, group)
    given = {"whole": whole, "split": split.load(), "dealt out": whole.repartition(3)}
    for name, raw in given.items():
        sharelag.windows(raw).explain()
        assert ("Exchange" in capsys.readouterr().out) == (name != "whole")
        assert _lag(sharelag.lag(raw, offsets).toArrow(), group) == wanted, name
    most = 2 * connector.sparkContext.defaultParallelism
    assert whole.rdd.getNumPartitions() > most >= sharelag.windows(whole).rdd.getNumPartitions()
    monkeypatch.setattr(tasks, "_HELD_BYTES", 0)  # each task packs what it has
    assert _lag(sharelag.lag(whole, offsets).toArrow(), group) == wanted


@pytest.mark.parametrize(
    "source",  # all other tests here ask Spark's own for batches
    [pytest.param("kafka", marks=pytest.mark.exhaustive), "sharelag_kafka"],
)
def test_one_call_reads_both_topics_up_to_now(
    connector: SparkSession,
    broker: KafkaBroker,
    group: str,
    source: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = broker.bootstrap_servers
    asking = AdminClient({"bootstrap.servers": servers})  # one that nobody holds drops its answers
    others = {one.group_id for one in asking.list_consumer_groups().result(30).valid}
    with set_for(connector, {KAFKA_SETTING: str(source == "kafka").lower()}):
        before = connector.conf.get(KAFKA_SETTING)
        raw = sharelag.read_kafka(connector, servers)
        assert (connector.conf.get(KAFKA_SETTING), raw.columns) == (before, schemas.RAW.names)
        wanted = _told(broker, group)
        later = f"later-{uuid4().hex[:8]}"
        read_in_part(servers, later, f"{later}-orders", partitions=1, read=3, left=1)
        produce(servers, f"{group}-orders", numbered(5, 1))
        # Offsets that are asked for after it are never before its windows.
        bench = sharelag.open(raw=raw, offsets=sharelag.offsets(connector, servers))
        lag = _lag(bench.lag().table, group)
        grown = (f"{group}-orders", 0)
        start, behind = wanted[grown]
        assert lag == {**wanted, grown: (start, (behind or 0) + 5)}
        assert later not in bench.groups
        of_groups = sharelag.groups(sharelag.decode(raw, GROUP_TOPIC).records)
        assert group in {row.group_id for row in of_groups.collect()}
        only = sharelag.read_kafka(connector, servers, topics=STATE_TOPIC)
        assert {row.topic for row in only.select("topic").distinct().collect()} == {STATE_TOPIC}
        # By whichever source, the tasks that replay the records fetch them.
        sharelag.windows(raw).explain()
        assert "Scan" not in capsys.readouterr().out
    listed = {one.group_id for one in asking.list_consumer_groups().result(30).valid}
    assert not [name for name in listed - others if "spark" in name]


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", ["kafka", "sharelag_kafka"])
def test_one_call_gives_a_stream_of_both_topics(
    connector: SparkSession, broker: KafkaBroker, group: str, source: str, tmp_path: Path
) -> None:
    with set_for(connector, {KAFKA_SETTING: str(source == "kafka").lower()}):
        raw = sharelag.read_kafka(connector, broker.bootstrap_servers, stream=True)
        assert raw.columns == schemas.RAW.names
        name = f"raw_{uuid4().hex[:8]}"
        sink = raw.writeStream.format("memory").queryName(name)
        query = sink.trigger(availableNow=True).option("checkpointLocation", str(tmp_path)).start()
        query.awaitTermination()
        wanted = sharelag.read_kafka(connector, broker.bootstrap_servers)
        for topic in (STATE_TOPIC, GROUP_TOPIC):
            of_topic = F.col("topic") == topic
            assert connector.table(name).where(of_topic).count() == wanted.where(of_topic).count()


def test_it_names_a_topic_not_there(connector: SparkSession, secure_broker: KafkaBroker) -> None:
    with pytest.raises(TopicMissingError, match=STATE_TOPIC):
        sharelag.read_kafka(connector, secure_broker.bootstrap_servers)


# ---- the example, and what the pages say of it -------------------------------------------------
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["spark-submit", "without jars", "connect"])
def test_it_runs_as_on_its_page(broker: KafkaBroker, group: str, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "lag"
    (command,) = re.findall(r"^    (spark-submit .*)$", _page(EXAMPLE / "README.md"), re.M)
    jars = ",".join(map(str, connector_jars()))
    environment = no_session() | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    arguments = command.split()
    program, packages, conf = arguments[:1], arguments[1:3], arguments[3:5]
    job = [str(EXAMPLE / "job.py"), broker.bootstrap_servers, str(folder)]
    assert arguments[5:] == ["job.py", "broker:9092", "lag"]
    assert packages == ["--packages", _coordinates(NEWEST_CONNECTOR)]
    assert conf == ["--conf", f"{KAFKA_SETTING}=true"]
    submit = [str(Path(sys.executable).with_name(program[0])), "--master", "local[2]"]
    if kind == "spark-submit":
        _run([*submit, "--jars", jars, *conf, *job], environment)
    elif kind == "without jars":
        _run([*submit, *job], environment)
    else:
        with connect_server(settings={"spark.jars": jars, KAFKA_SETTING: "true"}) as address:
            _run([sys.executable, *job], environment | {"SPARK_REMOTE": address})
    assert _lag(pq.read_table(folder), group) == _told(broker, group)


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    path = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    env = {**environment, "PYTHONPATH": path}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Why is there lag?" in done.stdout


@pytest.mark.parametrize(
    "page",
    [
        "docs/frames.md",
        "notebooks/11_dataframes_and_sql.ipynb",
        "data/examples/spark-kafka/README.md",
    ],
)
def test_pages_name_the_connector_that_is_tested(page: str) -> None:
    text = _page(ROOT / page)
    assert f"--packages {_coordinates(NEWEST_CONNECTOR)}" in text
    assert f"--conf {KAFKA_SETTING}=true" in text
    if page == "docs/frames.md":
        assert _coordinates(connector_version()) in text


def _coordinates(version: str) -> str:
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"


def _page(path: Path) -> str:
    return path.read_text("utf-8")


def source_of(broker: KafkaBroker) -> KafkaInput:
    return KafkaInput(ClientConfig({"bootstrap.servers": broker.bootstrap_servers}))


def test_lag_is_kafkas_none_is_kept(broker: KafkaBroker, group: str, spark: SparkSession) -> None:
    choice = Choice(frozenset({group}))
    begun = SparkReading(source_of(broker), choice=choice, spark=spark)
    lag = begun.table("lag")
    assert ("frame", "raw") not in begun.once
    told = _told(broker, group)
    assert _lag(lag, group) == told
    assert sum(lag_of or 0 for _, lag_of in told.values()) >= 11
    wanted = QuickReading(source_of(broker), choice=choice).table("windows")
    assert begun.table("windows").equals(wanted)


def test_tables_end_at_the_same_ones(broker: KafkaBroker, group: str, spark: SparkSession) -> None:
    """What is written after the first question is in none of the answers."""
    begun = SparkReading(source_of(broker), spark=spark)
    counted = begun.record_counts
    other = f"spark-{uuid4().hex[:8]}"
    read_in_part(broker.bootstrap_servers, other, f"{other}-orders", partitions=2, read=20, left=3)
    produce(broker.bootstrap_servers, f"{group}-orders", numbered(1, 1))
    history = begun.history()
    assert history.total == counted.records
    assert other not in set(history.table.column("group_id").to_pylist())
    assert begun.frames.records.count() == counted.records
