"""Records that a group coordinator writes: members join, leave, and groups are deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.wire import GROUP_TOPIC

MEMBER, GROUP, ASSIGNMENT_EPOCH, TARGET, CURRENT, TOPICS = range(10, 16)
START = datetime(2026, 11, 21, tzinfo=UTC)
TOPIC_ID = "A" * 22


def at(offset: int) -> datetime:
    return START + timedelta(seconds=offset)


def partitions(*numbers: int) -> list[dict[str, Any]]:
    return [{"topic_id": TOPIC_ID, "partitions": list(numbers)}] if numbers else []


def record(kind: int, group: str, member: str | None = None, **value: Any) -> dict[str, Any]:
    """One row of the group records; without a value it is a tombstone."""
    key = {"record_type": kind, "group_id": group, "member_id": member}
    return key | {"tombstone": not value} | value


def log(rows: list[dict[str, Any]], partition: int = 0) -> pa.Table:
    """The rows as one partition of the topic, a second apart."""
    placed = [
        row | {"topic": GROUP_TOPIC, "record_partition": partition, "offset": n, "timestamp": at(n)}
        for n, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(placed, schema=schemas.GROUP_RECORDS)


def join(group: str, member: str, epoch: int, *assigned: int) -> list[dict[str, Any]]:
    """What the coordinator writes when a member joins and is given partitions at once."""
    client: dict[str, Any] = {"client_id": "c", "client_host": "/h"}
    return [
        record(MEMBER, group, member, **client, subscribed_topic_names=["orders"]),
        record(GROUP, group, epoch=epoch, metadata_hash=7),
        record(TARGET, group, member, topic_partitions=partitions(*assigned)),
        record(ASSIGNMENT_EPOCH, group, assignment_epoch=epoch),
        assign(group, member, epoch, *assigned),
    ]


def assign(group: str, member: str, epoch: int, *assigned: int) -> dict[str, Any]:
    values = {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": 0}
    return record(CURRENT, group, member, assigned_partitions=partitions(*assigned), **values)


def leave(group: str, member: str, epoch: int) -> list[dict[str, Any]]:
    tombstones = [record(kind, group, member) for kind in (CURRENT, TARGET, MEMBER)]
    return [*tombstones, record(GROUP, group, epoch=epoch, metadata_hash=7)]


def delete(group: str) -> list[dict[str, Any]]:
    return [record(kind, group) for kind in (TOPICS, ASSIGNMENT_EPOCH, GROUP)]
