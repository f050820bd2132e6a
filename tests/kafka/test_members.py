"""Group records give the members, assignments, epochs and states of kafka-share-groups.sh."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, ShareConsumer

from sharelag import schemas
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.replay.members import groups_arrow, members_arrow
from sharelag.wire import GROUP_TOPIC, decode_arrow
from tests.support.command import ask
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jvm import RigError
from tests.support.kafka.since import SHARE_CONSUMERS
from tests.support.kafka.workload import create_topics, end_offsets, share_consumer, wait_until

pytestmark = SHARE_CONSUMERS
ORDERS, RETURNS = "members-orders", "members-returns"
CROWD, LEFT, RESET, DELETED, HOSTILE = (
    f"members-{name}" for name in ("crowd", "left", "reset", "deleted", "<b>&'x':0:")
)


@pytest.fixture(scope="module")
def groups(first: KafkaBroker) -> Iterator[KafkaBroker]:
    """Groups with members that share partitions, with none left, made by a reset, and deleted."""
    servers = first.bootstrap_servers
    create_topics(servers, {ORDERS: 3, RETURNS: 2}, copies=3)
    wait_until(lambda: _is_reset(first), "the group's coordinator knows the new topic")
    wait_until(lambda: _is_led(servers), f"all partitions of {GROUP_TOPIC} have their leader")
    for group in (LEFT, DELETED):
        with closing(share_consumer(servers, group, [ORDERS])) as gone:
            _settle(first, [gone], {group: (1, 3)})
    first.share_groups("--delete", "--group", DELETED)
    with ExitStack() as open_consumers:
        # Five members on five partitions, of different subscriptions; one is there for nothing that
        # exists. With Kafka's assignor each partition has as many members as its topic has members
        # for each, rounded up.
        subscriptions = [(CROWD, [ORDERS, RETURNS])] * 3
        subscriptions += [(CROWD, [RETURNS]), (CROWD, ["members-nothing"])]
        consumers = [
            open_consumers.enter_context(
                closing(share_consumer(servers, group, topics, **{"client.id": "c-1"}))
            )
            for group, topics in [*subscriptions, (HOSTILE, [RETURNS])]
        ]
        _settle(first, consumers, {CROWD: (5, 7), HOSTILE: (1, 2)})
        yield first


def _is_led(servers: str) -> bool:
    """Its first use creates the topic, and a partition can be known before its leader is ready."""
    try:
        return bool(end_offsets(servers, [GROUP_TOPIC]))
    except KafkaException as error:
        if error.args[0].code() not in (
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.LEADER_NOT_AVAILABLE,
        ):
            raise
        return False


def _is_reset(broker: KafkaBroker) -> bool:
    """Reset a group's offsets; brokers hear of new topics one after the other."""
    options = ("--reset-offsets", "--group", RESET, "--topic", ORDERS, "--to-earliest", "--execute")
    try:
        broker.share_groups(*options)
    except RigError as error:
        if "does not host this topic-partition" in str(error):
            return False
        raise
    return True


def _settle(
    broker: KafkaBroker, consumers: list[ShareConsumer], expected: dict[str, tuple[int, int]]
) -> None:
    """Poll until the groups have so many members and partitions, and all targets are delivered."""

    def settled() -> bool:
        for consumer in consumers:
            consumer.poll(0.2)
        table = records(broker)
        members = [m for m in members_arrow(table).to_pylist() if m["group_id"] in expected]
        epochs = {g["group_id"]: g["group_epoch"] for g in groups_arrow(table).to_pylist()}
        sizes = {
            group: (len(own), sum(len(_flat(m["assigned_partitions"])) for m in own))
            for group in expected
            for own in [[m for m in members if m["group_id"] == group]]
        }
        return sizes == expected and all(
            _flat(m["assigned_partitions"]) == _flat(m["target_partitions"])
            and m["member_epoch"] == epochs[m["group_id"]]
            for m in members
        )

    wait_until(settled, f"the members of {', '.join(expected)} have their partitions")


def _flat(topics: list[dict[str, Any]]) -> set[tuple[str, int]]:
    return {(topic["topic_id"], partition) for topic in topics for partition in topic["partitions"]}


def records(broker: KafkaBroker) -> pa.Table:
    batches = kafka.read_topic(client_config(broker.bootstrap_servers), GROUP_TOPIC)
    return pa.Table.from_batches(
        [decode_arrow(b, GROUP_TOPIC).records for b in batches], schemas.GROUP_RECORDS
    )


@pytest.mark.row("GRP-11")
def test_a_member_is_there_from_its_first_record_until_its_tombstone(groups: KafkaBroker) -> None:
    table = records(groups)
    deleted = [row for row in table.to_pylist() if row["group_id"] == DELETED]
    # Through all its heartbeats and epochs it has one id.
    assert len({row["member_id"] for row in deleted} - {None}) == 1
    assert len({row["member_epoch"] for row in deleted} - {None}) > 1
    first = min(row["timestamp"] for row in deleted)
    away = min(row["timestamp"] for row in deleted if row["record_type"] == 10 and row["tombstone"])
    before = members_arrow(table, first).to_pylist()
    assert [row["joined"] for row in before if row["group_id"] == DELETED] == [first]
    after = groups_arrow(table, away).to_pylist()
    (empty,) = [row for row in after if row["group_id"] == DELETED]
    assert (empty["state"], empty["members"], empty["emptied"]) == ("Empty", 0, away)
    now = {row["group_id"]: row for row in groups_arrow(table, datetime.now(UTC)).to_pylist()}
    assert DELETED not in now
    assert [now[name]["emptied"] is None for name in (LEFT, CROWD)] == [False, True]
    initialized = {t["topic_name"]: t["partitions"] for t in now[CROWD]["initialized_topics"]}
    assert initialized == {ORDERS: [0, 1, 2], RETURNS: [0, 1]}


def test_types_of_groups_are_the_other_commands(groups: KafkaBroker, tmp_path: Path) -> None:
    servers = groups.bootstrap_servers
    with closing(Consumer({"bootstrap.servers": servers, "group.id": "members-classic"})) as other:
        other.subscribe([ORDERS])
        wait_until(lambda: other.poll(0.2) is None and bool(other.assignment()), "it has joined")
        listed = groups.ask_tool("GroupsCommand", "--list")
    file = tmp_path / "printed.txt"
    file.write_text(listed, "utf-8")
    theirs = {row["group_id"]: row["type"] for row in ask("groups --kafka-output", str(file))}
    assert {name: kind for name, kind in theirs.items() if name.startswith("members-")} == {
        "members-classic": "Classic",
        **dict.fromkeys((CROWD, HOSTILE, LEFT, RESET), "Share"),
    }
    assert {row["type"] for row in ask("groups", at=groups.bootstrap_servers)} == {"Share"}
