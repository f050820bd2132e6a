"""One record of a topic, read by a consumer that joins no group and commits nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec

from sharelag.errors import InputError, NoLeaderError
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.client import Connection
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.failures import explain, missing
from sharelag.sources.kafka.library import consumer, is_of_group
from sharelag.sources.kafka.times import FRUGAL, until_done

_TIMESTAMPS = {1: "CreateTime", 2: "LogAppendTime"}


@dataclass(frozen=True)
class TopicRecord:
    """A record as Kafka stores it; its repr shows no payload."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    timestamp_type: str | None  # CreateTime or LogAppendTime
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: tuple[tuple[str, bytes | None], ...] = field(repr=False)


def record_at(config: ClientConfig, topic: str, partition: int, offset: int) -> TopicRecord:
    """Read the record at an offset.

    One fetch of 32 KiB, or one record batch if that is larger. Records of aborted transactions are
    read, too: share groups that read uncommitted records receive them.

    Raises
    ------
    InputError
        There is no record at that offset; the message says why, as far as Kafka tells.
    NoLeaderError
        The partition has no leader.
    ClusterError
        The topic may not be read, or no broker answers.
    """
    connection = Connection(config)
    place = Partition(topic, partition)
    described = kafka.descriptions(connection, [topic]).get(topic)
    known = {one.id: one for one in described.partitions} if described else {}
    if partition not in known:
        raise InputError(f"topic {topic!r} has no partition {partition}: check the number")
    if known[partition].leader is None:
        raise NoLeaderError(_leaderless(topic, partition, known[partition].replicas))
    first, end = (
        kafka.offset_of(
            connection, kafka.ask_offsets(connection, {place: spec})[place], f"offsets of {topic}"
        )
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    at = f"{topic}:{partition}:{offset}"
    if offset >= end:
        raise InputError(f"no record at {at} yet: the log ends at {end}")
    if offset < first:
        raise InputError(
            f"the record at {at} is gone: the log begins at {first}; retention or a deletion of "
            "records removed it"
        )
    found = _first(config, topic, partition, offset)
    if found is None or found.offset() != offset:
        following = "" if found is None else f"; the next record is at {found.offset()}"
        raise InputError(
            f"no record at {at}: it is the marker of a transaction, or the topic is compacted and "
            f"a later record has the same key{following}"
        )
    return _record(found)


def _leaderless(topic: str, partition: int, replicas: Sequence[Any]) -> str:
    brokers = ", ".join(str(node.id) for node in replicas)
    where, which = ("brokers", "one of them") if len(replicas) > 1 else ("broker", "it")
    return (
        f"partition {partition} of {topic} has no leader: its replicas are on {where} {brokers}; "
        f"start {which}, and ask again"
    )


def _first(config: ClientConfig, topic: str, partition: int, offset: int) -> Message | None:
    """Return the first record at an offset or later; None where there are only markers."""
    heard: list[KafkaError] = []
    found: list[Message | None] = []
    client = consumer(config, error_cb=heard.append, **FRUGAL)
    try:
        client.assign([Partition(topic, partition, offset)])
        for messages in until_done(client, config, heard, found.__len__, 1):
            found.extend(_among(messages, config))
    finally:
        client.close()
    return found[0]


def _among(messages: Sequence[Message], config: ClientConfig) -> list[Message | None]:
    taken: list[Message | None] = []
    for message in messages:
        error = message.error()
        if error is None:
            taken.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            taken.append(None)
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise missing(str(message.topic()))
        elif not is_of_group(error):
            raise explain(error, str(message.topic()), config)
    return taken


def _record(message: Any) -> TopicRecord:
    kind, milliseconds = message.timestamp()
    return TopicRecord(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=datetime.fromtimestamp(milliseconds / 1000, UTC) if kind in _TIMESTAMPS else None,
        timestamp_type=_TIMESTAMPS.get(kind),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )
