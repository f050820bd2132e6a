"""What `sharelag.read_kafka` reads without jars is fetched by the tasks that replay it."""

from collections.abc import Callable
from uuid import uuid4

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import sharelag
from sharelag.engine.spark import tasks
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support.connect import QUICK, connect_server
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.workload import read_in_part
from tests.support.own_process import run_python

_SHARE = ["group_id", "topic_id", "partition"]
#: What makes a table of raw records, and the columns that tell its rows apart.
TABLES: dict[str, tuple[Callable[[DataFrame], DataFrame], list[str]]] = {
    "history": (sharelag.history, [*_SHARE, "record_offset"]),
    "decoded": (lambda raw: sharelag.windows(sharelag.decode(raw).records), _SHARE),
    "health": (sharelag.health, ["partition"]),
    "groups": (sharelag.groups, ["group_id"]),
}
#: What one reading of both topics gives.
TOGETHER = ("lag", "members", "groups", "gaps", "health", "observed")


@pytest.fixture(scope="module")
def group(broker: KafkaBroker) -> str:
    name = f"fetched-{uuid4().hex[:8]}"
    read_in_part(broker.bootstrap_servers, name, f"{name}-orders", partitions=3, read=60, left=7)
    return name


@pytest.fixture(scope="module")
def raw(spark: SparkSession, broker: KafkaBroker, group: str) -> DataFrame:
    topics = (STATE_TOPIC, GROUP_TOPIC, f"{group}-orders")  # the last has no record of ours
    return sharelag.read_kafka(spark, broker.bootstrap_servers, topics=topics)


@pytest.fixture(scope="module")
def offsets(spark: SparkSession, broker: KafkaBroker, raw: DataFrame) -> DataFrame:
    return sharelag.offsets(spark, broker.bootstrap_servers)


def _through_java(raw: DataFrame) -> DataFrame:
    """The same rows, of which Spark knows no better than to read them with its sources."""
    return raw.where("offset >= 0")


def _plan(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_the_path_through_java(
    raw: DataFrame, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "health":  # which takes the records twice: each time they are fetched
        monkeypatch.setattr(tasks, "_HELD_BYTES", 0)
    make, order = TABLES[name]
    fetched, through = make(raw), make(_through_java(raw))
    assert "sharelag_kafka" not in _plan(fetched, capsys)
    assert "sharelag_kafka" in _plan(through, capsys)
    keys = [(column, "ascending") for column in order]
    rows = fetched.toArrow().sort_by(keys)
    assert rows.num_rows
    assert rows == through.toArrow().sort_by(keys)


def test_answers_are_those_of_kafka_and_of_the_path_through_java(
    raw: DataFrame, offsets: DataFrame, broker: KafkaBroker, group: str
) -> None:
    told = parse_describe(broker.share_groups_describe(group))
    wanted = {(row["topic"], row["partition"]): row["lag"] for row in told}
    assert sum(lag or 0 for lag in wanted.values()) == 7
    with (
        sharelag.open(raw=raw, offsets=offsets) as bench,
        sharelag.open(raw=_through_java(raw), offsets=offsets) as other,
    ):
        lag = bench.lag(group)
        assert {(r["topic"], r["partition"]): r["lag"] for r in lag.table.to_pylist()} == wanted
        assert lag.notes == other.lag(group).notes
        assert bench.progress(group).notes == other.progress(group).notes
        for name in TOGETHER:
            assert bench.reading.table(name) == other.reading.table(name), name


def test_chosen_rows_are_those_chosen_and_cached_ones_are_not_fetched(
    raw: DataFrame, spark: SparkSession, broker: KafkaBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    every = raw.toArrow()
    state = every.filter(pc.equal(every.column("topic"), STATE_TOPIC))
    number = state.column("partition")[-1].as_py()
    some = state.filter(pc.equal(state.column("partition"), number))
    wanted = sharelag.windows(some).toArrow()
    chosen = sharelag.windows(raw.where(f"partition = {number}"))
    assert "sharelag_kafka" in _plan(chosen, capsys)
    order = [(column, "ascending") for column in _SHARE]
    assert chosen.toArrow().sort_by(order) == wanted.sort_by(order)
    assert 0 < wanted.num_rows < sharelag.windows(raw).count()
    cached = sharelag.read_kafka(spark, broker.bootstrap_servers).cache()
    assert "InMemoryTableScan" in _plan(sharelag.windows(cached), capsys)
    cached.unpersist()


_ON_CONNECT = """
import sys
import sharelag
from sharelag.inputs.spark import session
spark = session()
raw = sharelag.read_kafka(spark, sys.argv[1])
offsets = sharelag.offsets(spark, sys.argv[1])
order = [(name, "ascending") for name in ("group_id", "topic_id", "partition")]
found = []
for each in (raw, raw.where("offset >= 0")):
    lag = sharelag.lag(each, offsets)
    lag.explain()
    found.append(lag.toArrow().sort_by(order))
    with sharelag.open(raw=each, offsets=offsets) as bench:
        found.append(bench.reading.table("lag").select(found[0].schema.names).sort_by(order))
mine = [row for row in found[0].to_pylist() if row["group_id"] == sys.argv[2]]
print("equal:", all(one.cast(found[0].schema) == found[0] for one in found))
print("lag:", sum(row["lag"] for row in mine))
"""


@pytest.mark.exhaustive
def test_tasks_fetch_on_spark_connect_too(broker: KafkaBroker, group: str) -> None:
    job = ("-c", _ON_CONNECT, broker.bootstrap_servers, group)
    with connect_server(settings=QUICK) as remote:  # the tests around it need none
        done = run_python(*job, SPARK_REMOTE=remote)
    plans, equal = done.stdout.split("equal:")
    assert "True" in equal, done.stderr[-3000:]
    fetched, through = plans.split("== Physical Plan ==")[1:]
    assert "sharelag_kafka" not in fetched
    assert "sharelag_kafka" in through
    assert "lag: 7" in equal
