"""Group records give the members, assignments, epochs and states of kafka-share-groups.sh."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, ShareConsumer

from sharelag import schemas
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.replay.members import groups_arrow, members_arrow
from sharelag.wire import GROUP_TOPIC, decode_arrow
from tests.support.command import ask, rows_of, sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.since import SHARE_CONSUMERS
from tests.support.kafka.workload import create_topics, share_consumer, wait_until

pytestmark = SHARE_CONSUMERS
ORDERS, RETURNS = "members-orders", "members-returns"
CROWD, LEFT, DELETED = (f"members-{name}" for name in ("crowd", "left", "deleted"))


@pytest.fixture(scope="module")
def groups(first: KafkaBroker) -> Iterator[KafkaBroker]:
    """Groups with two members, with none left, and deleted."""
    servers = first.bootstrap_servers
    create_topics(servers, {ORDERS: 3, RETURNS: 2}, copies=3)

    def settle(consumer: ShareConsumer, group: str, members: int, assigned: int) -> None:
        def has_settled() -> bool:
            consumer.poll(0.2)
            done = sharelag(
                "members", "--group", group, "--bootstrap-server", servers, "-o", "json"
            )
            rows = rows_of(done)  # none while nobody has written of the group, or nobody leads yet
            return (len(rows), sum(row["assigned"] for row in rows)) == (members, assigned)

        wait_until(has_settled, f"{members} members of {group} have their partitions")

    for group in (LEFT, DELETED):
        with closing(share_consumer(servers, group, [ORDERS])) as gone:
            settle(gone, group, 1, 3)
    first.share_groups("--delete", "--group", DELETED)
    with (
        closing(share_consumer(servers, CROWD, [ORDERS, RETURNS])) as one,
        closing(share_consumer(servers, CROWD, ["members-nothing"])) as idle,
    ):
        idle.poll(0.2)
        settle(one, CROWD, 2, 5)
        yield first


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
        **dict.fromkeys((CROWD, LEFT), "Share"),
    }
    assert {row["type"] for row in ask("groups", at=groups.bootstrap_servers)} == {"Share"}
