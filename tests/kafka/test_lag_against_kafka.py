"""`sharelag lag` prints what kafka-share-groups.sh prints, after everything consumers do."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import AcknowledgeType, Message
from pyspark.sql import SparkSession

import sharelag as api
from sharelag import schemas
from sharelag.sources.inputs import KafkaInput
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.config import client_config
from sharelag.sources.kafka.described import described_offsets
from sharelag.wire import decode_arrow, state_partition
from sharelag.wire.fields import STATE_TOPIC
from sharelag.workbench import engine
from tests.support.command import sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.since import SHARE_CONSUMERS
from tests.support.kafka.workload import (
    Delivery,
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

pytestmark = SHARE_CONSUMERS
ORDERS, PAYMENTS, HOSTILE = "live-orders", "live-payments", "live_<b>&'quoted'"


@pytest.fixture(scope="module")
def worked(broker: KafkaBroker) -> KafkaBroker:
    """A broker whose groups accepted, released, rejected, let locks expire, lag, or never began."""
    servers = broker.bootstrap_servers
    create_topics(servers, {ORDERS: 12, PAYMENTS: 2})
    for topic, count, partitions in ((ORDERS, 1200, 12), (PAYMENTS, 200, 2)):
        produce(servers, topic, numbered(count, partitions))
    for group in ("live-mixed", "live-locked", HOSTILE):
        lock = {"share.record.lock.duration.ms": "15000"} if group == "live-locked" else {}
        set_group_config(servers, group, **{"share.auto.offset.reset": "earliest", **lock})
    share_consume(servers, "live-mixed", [ORDERS], _mixed, until=900)
    share_consume(servers, HOSTILE, [PAYMENTS], accept, until=50)
    share_consume(
        servers,
        "live-locked",
        [PAYMENTS],
        _first_left_alone(),
        until=120,
        wait_for_locks=_locks_ended(servers),
    )
    _quiet(broker)
    return broker


def _mixed(message: Message) -> AcknowledgeType:
    if message.offset() % 10 == 3 and message.delivery_count() == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if message.offset() % 10 == 7 else AcknowledgeType.ACCEPT


def _first_left_alone() -> Any:
    left: list[int] = []

    def decide(message: Message) -> AcknowledgeType | None:
        if len(left) < 5:
            left.append(message.offset())
            return None
        return AcknowledgeType.ACCEPT

    return decide


def _locks_ended(servers: str) -> Any:
    def wait(held: list[Delivery]) -> None:
        """A lock that ends is written: released batches appear in the state topic."""

        def released() -> bool:
            windows = engine.windows(KafkaInput(client_config(servers)), "local").table.to_pylist()
            return any(
                run["delivery_state"] == 0 and run["delivery_count"] == 1
                for window in windows
                if window["group_id"] == "live-locked"
                for run in window["runs"]
            )

        wait_until(released, f"the locks of {len(held)} records have ended")

    return wait


def _quiet(broker: KafkaBroker) -> None:
    """Wait until the command prints the same twice, with the state topic unchanged in between."""
    config = client_config(broker.bootstrap_servers)

    def unchanged() -> bool:
        before, text = kafka.offset_ranges(config, STATE_TOPIC), broker.share_groups_describe()
        return (
            broker.share_groups_describe() == text
            and kafka.offset_ranges(config, STATE_TOPIC) == before
        )

    wait_until(unchanged, "the state topic is quiet", every=1)


def kafkas(broker: KafkaBroker) -> list[tuple[Any, ...]]:
    rows = parse_describe(broker.share_groups_describe())
    return sorted(tuple(row.values()) for row in rows)


def ours(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("group_id", "topic", "partition", "leader_epoch", "start_offset", "lag")
    return sorted(tuple(row[name] for name in names) for row in rows)


def test_every_row_is_kafkas(worked: KafkaBroker) -> None:
    answer = sharelag("lag", "--bootstrap-server", worked.bootstrap_servers, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    theirs = kafkas(worked)
    assert ours(rows) == theirs
    assert {row["group_id"] for row in rows} >= {"live-mixed", "live-locked", HOSTILE}
    live = [row for row in rows if row["topic"] in (ORDERS, PAYMENTS)]
    assert any(row["lag"] for row in live)
    assert any(row["window_available"] for row in live)


def test_people_see_the_same_lines(worked: KafkaBroker) -> None:
    answer = sharelag(
        "lag", "--bootstrap-server", worked.bootstrap_servers, "--group", "live-mixed"
    )
    lines = [line.split()[:6] for line in answer.stdout.splitlines()]
    theirs = worked.share_groups_describe("live-mixed").splitlines()
    assert lines[0] == ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
    wanted = [line.split() for line in theirs if line.startswith("live-mixed")]
    assert sorted(lines[1:], key=lambda line: int(line[2])) == wanted  # numbers, not texts
    worst_first = [-1 if line[5] == "-" else int(line[5]) for line in lines[1:]]
    assert worst_first == sorted(worst_first, reverse=True)


def test_describe_without_a_sub_action_is_that_of_offsets(worked: KafkaBroker) -> None:
    plain, offsets, verbose = (
        described_offsets(worked.share_groups("--describe", "--group", "live-mixed", *more))
        for more in ((), ("--offsets",), ("--offsets", "--verbose"))
    )
    assert plain.num_rows > 0
    assert plain.equals(offsets)
    assert plain.drop_columns("leader_epoch").equals(verbose.drop_columns("leader_epoch"))


def test_spark_reads_the_live_cluster_as_the_local_engine_does(
    worked: KafkaBroker, spark: SparkSession
) -> None:
    source = KafkaInput(client_config(worked.bootstrap_servers))
    local, on_spark = engine.lag(source, "local").table, engine.lag(source, "spark").table
    assert on_spark.drop(["as_of"]).to_pylist() == local.drop(["as_of"]).to_pylist()
    raw = pa.Table.from_batches(kafka.read_topic(source.config, STATE_TOPIC), schemas.RAW)
    decoded = api.decode(spark.createDataFrame(raw))
    windows = api.windows(decoded.records).toArrow()
    assert windows.num_rows == engine.windows(source, "local").table.num_rows


def test_every_record_is_where_kafkas_hash_puts_it(worked: KafkaBroker) -> None:
    config = client_config(worked.bootstrap_servers)
    partitions = len(kafka.offset_ranges(config, STATE_TOPIC))
    for batch in kafka.read_topic(config, STATE_TOPIC):
        for row in decode_arrow(batch).records.to_pylist():
            key = api.SharePartition(row["group_id"], row["topic_id"], row["partition"])
            assert row["record_partition"] == state_partition(key, partitions)


def test_a_capture_gives_what_the_cluster_gave(worked: KafkaBroker, tmp_path: Any) -> None:
    made = sharelag(
        "capture", "--bootstrap-server", worked.bootstrap_servers, str(tmp_path / "live")
    )
    assert made.returncode == 0, made.stderr
    answer = sharelag("lag", "--capture", str(tmp_path / "live"), "-o", "json")
    assert ours([json.loads(line) for line in answer.stdout.splitlines()]) == kafkas(worked)
