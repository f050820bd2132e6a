"""Leaders, replicas, racks and coordinators of three brokers are those of Kafka's own tools."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

import sharelag
from sharelag.model import SharePartition
from sharelag.wire import STATE_TOPIC, state_partition
from tests.support.command import ask
from tests.support.command import sharelag as command_line
from tests.support.kafka.broker import RACKS, KafkaCluster
from tests.support.kafka.describe import DescribedPartition, parse_topics
from tests.support.kafka.workload import (
    Delivery,
    accept,
    create_placed,
    end_offsets,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("placed")

PARTITIONS = 6
GROUPS = ("billing", "audit", "<b>:0:'x'")


@pytest.fixture(scope="module", name="placed")
def groups_on_three_brokers(cluster: KafkaCluster) -> KafkaCluster:
    """Groups that have read six partitions, each of which two of the three brokers have."""
    servers = cluster.bootstrap_servers
    replicas = [[1 + p % 3, 1 + (p + 1) % 3] for p in range(PARTITIONS)]
    create_placed(servers, "orders", replicas)
    produce(servers, "orders", numbered(10 * PARTITIONS, PARTITIONS))
    for group in GROUPS:
        set_group_config(servers, group, share_auto_offset_reset="earliest")
        share_consume(servers, group, ["orders"], accept, until=10 * PARTITIONS)
    return cluster


def describe(cluster: KafkaCluster) -> dict[tuple[str, int], DescribedPartition]:
    """Return what ``kafka-topics.sh --describe`` prints of each partition."""
    return parse_topics(cluster.brokers[0].ask_tool("TopicCommand", "--describe"))


def epochs(cluster: KafkaCluster) -> dict[tuple[str, int], int]:
    """Return each partition's leader epoch by the controller's own log."""
    log = cluster.brokers[0].log_dir / "__cluster_metadata-0" / f"{0:020}.log"
    words = ("--cluster-metadata-decoder", "--files", str(log))
    done = cluster.brokers[0].run_tool("org.apache.kafka.tools.DumpLogSegments", *words)
    assert done.returncode == 0, done.stderr
    names: dict[str, str] = {}
    found: dict[tuple[str, int], int] = {}
    for text in re.findall(r"payload: (\{.*\})", done.stdout):
        record = json.loads(text)
        data = record["data"]
        if record["type"] == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
        elif record["type"] == "PARTITION_RECORD":
            found[names[data["topicId"]], data["partitionId"]] = data["leaderEpoch"]
        elif record["type"] == "PARTITION_CHANGE_RECORD" and data.get("leader") is not None:
            # A change of the leader raises the epoch; -2, the default, leaves both as they are.
            found[names[data["topicId"]], data["partitionId"]] += data["leader"] != -2
    return found


def rows_of(cluster: KafkaCluster, command: str, *more: str) -> list[dict[str, Any]]:
    """Rows about the groups of this module: other tests share the cluster."""
    rows = ask(command, *more, at=cluster.bootstrap_servers)
    return [row for row in rows if row["group_id"] in GROUPS]


@pytest.mark.row("FND-05")
@pytest.mark.row("PSC-02")
def test_brokers_are_those_of_kafkas_own_tools(cluster: KafkaCluster) -> None:
    by_kafka, by_log = describe(cluster), epochs(cluster)
    found = rows_of(cluster, "brokers")
    assert len(found) == PARTITIONS * len(GROUPS)
    for row in found:
        place = row["topic"], row["partition"]
        assert {
            "leader_id": row["leader_id"],
            "replicas": row["replicas"],
            "in_sync_replicas": sorted(row["in_sync_replicas"]),
        } == by_kafka[place]
        assert row["leader_rack"] == RACKS[row["leader_id"] - 1]
        assert row["racks"] == [RACKS[number - 1] for number in row["replicas"]]
        assert row["current_leader_epoch"] == row["leader_epoch"] == by_log[place]
        keeper = by_kafka[STATE_TOPIC, row["state_partition"]]
        assert row["share_coordinator"] == keeper["leader_id"]
    assert len({row["share_coordinator"] for row in found}) == 3


def led_by_the_third(cluster: KafkaCluster) -> set[int]:
    found = describe(cluster)
    return {p for p in range(PARTITIONS) if found["orders", p]["leader_id"] == 3}


@contextmanager
def without_the_third(cluster: KafkaCluster) -> Iterator[None]:
    """Broker 3 is killed meanwhile; afterwards it is in sync, and leads nothing."""
    cluster.brokers[2].kill()
    try:
        wait_until(
            lambda: all(
                row["leader_id"] in (1, 2) or row["replicas"] == [3]
                for row in describe(cluster).values()
            ),
            "the other brokers lead what they have",
        )
        yield
    finally:
        cluster.brokers[2].start()
    wait_until(
        lambda: all((3 in row["replicas"]) <= (3 in row["in_sync_replicas"])
                    for row in describe(cluster).values()),
        "broker 3 is in sync",
    )  # fmt: skip


@pytest.mark.row("FND-07")
@pytest.mark.exhaustive
def test_a_leader_that_goes_is_an_event_of_partitions_that_it_led(cluster: KafkaCluster) -> None:
    servers, alone = cluster.bootstrap_servers, "alone-on-3"
    create_placed(servers, alone, [[3]])
    set_group_config(servers, "one", share_auto_offset_reset="earliest")
    produce(servers, alone, numbered(5, 1))
    share_consume(servers, "one", [alone], accept, until=5)
    before, lost = epochs(cluster), led_by_the_third(cluster)
    assert lost
    with without_the_third(cluster):
        see_leaders(cluster, before, lost)
        see_no_leader(servers, alone)
    cluster.brokers[0].share_groups("--delete", "--group", "one")
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.delete_topics([alone])[alone].result(timeout=30)


def see_leaders(cluster: KafkaCluster, before: dict[tuple[str, int], int], lost: set[int]) -> None:
    servers, after = cluster.bootstrap_servers, epochs(cluster)
    where = ("--bootstrap-server", servers)
    moved = {p for p in range(PARTITIONS) if after["orders", p] > before["orders", p]}
    assert moved == lost
    for row in rows_of(cluster, "brokers"):
        # The new leader has not written yet: the state has the epoch of the one before.
        assert row["current_leader_epoch"] == after["orders", row["partition"]]
        assert row["leader_epoch"] == before["orders", row["partition"]]
        assert row["in_sync_replicas"] == [row["leader_id"]] or 3 not in row["replicas"]

    produce(servers, "orders", numbered(10 * PARTITIONS, PARTITIONS))
    written = sum(end_offsets(servers, ["orders"]).values())
    for group in GROUPS:
        share_consume(servers, group, ["orders"], accept, until=written - 10 * PARTITIONS)
    changed = [row for row in rows_of(cluster, "history") if row["leader_changed"]]
    events = Counter((row["group_id"], row["partition"], row["leader_epoch"]) for row in changed)
    assert events == {(g, p, after["orders", p]): 1 for g in GROUPS for p in lost}
    for row in rows_of(cluster, "brokers"):
        assert row["current_leader_epoch"] == row["leader_epoch"]
        assert row["leader_id"] != 3
    shown = command_line("history", *where, "--group", "billing").stdout
    assert shown.count("new leader") == len(lost)
    names = ("leader_epoch_before", "leader_epoch", "leader_id")
    told = {
        (row["group_id"], row["partition"]): tuple(row[name] for name in names)
        for row in rows_of(cluster, "history --events")
        if row["event"] == "new leader"
    }
    now = describe(cluster)
    assert told == {
        (g, p): (before["orders", p], after["orders", p], now["orders", p]["leader_id"])
        for g in GROUPS
        for p in lost
    }


def see_no_leader(servers: str, topic: str) -> None:
    """A share partition without a leader is named with the broker of its replica."""
    server = ("--bootstrap-server", servers, "--timeout", "20s")
    peek = command_line("peek", *server, "one", f"{topic}:0:0", code=3)
    explain = command_line("explain", *server, "--group", "one")
    brokers = command_line("brokers", *server, "--group", "one")
    said = f"sharelag: partition 0 of {topic} has no leader: its replicas are on broker 3; start it"
    assert (peek.stdout, peek.stderr) == ("", f"{said}, and try again\n")
    said = f"not known: where {topic}:0 ends: it has no leader; start a broker with a replica (3)"
    assert (explain.stderr.count(said), brokers.stderr.count(said)) == (1, 1)
    assert "DESCRIBE on the topic" not in brokers.stderr


@pytest.mark.row("RPC-18")
def test_the_leader_a_member_was_sent_to_is_in_the_log_of_requests(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    """Broker 3, which is preferred now, leads, while a member still asks the broker before it."""
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": cluster.brokers[0].bootstrap_servers})
    # Of one broker: whom it sends elsewhere asks for all leaders, and no other broker in vain.
    places = [TopicPartition("orders", p) for p in (1, 4)]
    preferred = [{"topic": "orders", "partition": p.partition, "replicas": [3, 2]} for p in places]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": preferred}))
    words = ("--reassignment-json-file", str(plan), "--execute")
    cluster.brokers[0].ask_tool("reassign.ReassignPartitionsCommand", *words)
    every = set(range(PARTITIONS))
    moved: set[int] = set()
    before = 0

    def read_again(deliveries: list[Delivery]) -> bool:
        nonlocal before
        if not moved:
            if {one.partition for one in deliveries} < every:
                return False
            elected = admin.elect_leaders(ElectionType.PREFERRED, places).result(timeout=30)
            moved.update(place.partition for place, error in elected.items() if error is None)
            before = len(deliveries)
            produce(servers, "orders", numbered(PARTITIONS, PARTITIONS))
        return {one.partition for one in deliveries[before:]} == every

    produce(servers, "orders", numbered(PARTITIONS, PARTITIONS))
    share_consume(servers, "billing", ["orders"], accept, until=read_again)
    by_log = epochs(cluster)
    assert moved
    named: set[tuple[int, int, int]] = set()
    for broker in cluster.brokers:
        for row in ask("requests --show current_leaders", str(broker.request_log)):
            if row["group_id"] in GROUPS:
                named.add((row["partition"], row["leader_id"], row["current_leader_epoch"]))
    found = {row for row in named if row[2] == by_log["orders", row[0]]}
    assert {partition for partition, *_ in found} == moved
    assert {leader for _, leader, _ in found} == {3}


@pytest.mark.row("CFG-22")
def test_state_partitions_are_those_of_the_topic_else_by_default(cluster: KafkaCluster) -> None:
    """50 without metadata; the cluster here was made with 12, where Kafka writes the state."""
    name = "share.coordinator.state.topic.num.partitions"
    (row,) = ask("settings --set", f"{name}=50")
    assert (row["default"], row["problem"]) == ("50", None)
    keys = [SharePartition("billing", "A" * 22, number) for number in range(2000)]
    assert {state_partition(key) for key in keys} == set(range(50))
    bench = sharelag.open(cluster.bootstrap_servers, engine="local")
    placed = {
        SharePartition(row["group_id"], row["topic_id"], row["partition"]): row["state_partition"]
        for row in bench.brokers().table.to_pylist()
    }
    assert placed == {key: state_partition(key, 12) for key in placed}
    assert placed != {key: state_partition(key) for key in placed}
    windows = bench.windows().table.to_pylist()
    assert placed == {
        SharePartition(row["group_id"], row["topic_id"], row["partition"]): row["record_partition"]
        for row in windows
    }


@pytest.mark.row("ADM-09")
def test_coordinators_list_what_kafkas_tool_prints(cluster: KafkaCluster, tmp_path: Path) -> None:
    """By the request logs of three brokers, each of which lists the groups that it has."""
    listed = cluster.brokers[0].ask_tool("GroupsCommand", "--list")
    printed = [line.split() for line in listed.splitlines()[1:]]
    kinds = {words[0]: words[-2] for words in printed if words[0] in GROUPS}
    assert kinds == dict.fromkeys(GROUPS, "Share")
    found: dict[str, str] = {}
    for number, broker in enumerate(cluster.brokers):
        log = tmp_path / f"{number}.log"
        log.write_bytes(broker.request_log.read_bytes())
        rows = ask("requests --show listings", str(log))
        assert not any(row["error_code"] for row in rows)
        found |= {row["group_id"]: row["type"] for row in rows if row["group_id"] in GROUPS}
    assert found == dict.fromkeys(GROUPS, "Share")
