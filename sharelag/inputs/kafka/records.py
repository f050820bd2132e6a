"""Single records of topics and their timestamps, read with minimal fetches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec

from sharelag import schemas
from sharelag.errors import ClusterError, InputError, NoLeaderError, list_names
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.client import Connection, consumer, is_of_group
from sharelag.inputs.kafka.config import READING, ClientConfig
from sharelag.inputs.kafka.failures import (
    first_refusal,
    latest_reason,
    silence_error,
    translate_error,
)

#: Topic and partition.
Place = tuple[str, int]
#: Topic, partition, offset.
_Position = tuple[str, int, int]
#: Offset and milliseconds of a record.
_First = tuple[int | None, int | None]

_LOG = logging.getLogger(__name__)
_PARTITIONS_A_ROUND = 300
_AT_ONCE = 100  # messages
_WAIT = 0.1  # seconds
_HIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
}

#: Settings to read one record per partition: what the broker sends beyond it is discarded.
FRUGAL = {
    "fetch.message.max.bytes": 32 << 10,  # per partition; a larger record batch comes alone
    "fetch.max.bytes": 4 << 20,  # per response
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 0,  # otherwise the client pauses after every record batch
    "fetch.wait.max.ms": 50,
    "auto.offset.reset": "earliest",  # positions below the log start
}


def record_times(
    config: ClientConfig, positions: pa.Table, read_committed: bool = False
) -> pa.Table:
    """Return `sharelag.schemas.TIMES`: the first record at or after each position, in their order.

    ``positions`` has the columns ``topic``, ``topic_id``, ``partition`` and ``asked_offset``; rows
    with a null are ignored. Below the log start it is the first record; without a record at or
    after the position (end of the log, only transaction markers) the offset is null. A position
    that could not be read (topic deleted or not authorized, no leader) has no row.
    ``read_committed`` means the records that a read_committed group receives: none of aborted
    transactions, none after the first open one starts. One fetch of 32 KiB per partition, or one
    record batch if that is larger.
    """
    names = ["topic", "topic_id", "partition", "asked_offset"]
    requested = positions.select(names).drop_null().to_pylist()
    wanted = sorted({(row["topic"], row["partition"], row["asked_offset"]) for row in requested})
    found = _first_records(config, wanted, read_committed) if wanted else {}
    rows = []
    for row in requested:
        place = (row["topic"], row["partition"], row["asked_offset"])
        if place in found:
            rows.append(row | dict(zip(("offset", "timestamp"), found[place], strict=True)))
    return pa.Table.from_pylist(rows, schema=schemas.TIMES)


def _first_records(
    config: ClientConfig, wanted: Sequence[_Position], read_committed: bool
) -> dict[_Position, _First]:
    connection = Connection(config)
    partitions = kafka.partitions_of(connection, sorted({topic for topic, _, _ in wanted}))
    answers = kafka.answers(connection, dict.fromkeys(partitions, OffsetSpec.latest()))
    ends = {(p.topic, p.partition): answer.offset for p, answer in answers.items() if answer}
    found: dict[_Position, _First] = {}
    left = [at for at in wanted if at[:2] in ends]
    heard: list[KafkaError] = []
    silent: dict[str, ClusterError] = {}
    isolation = {"isolation.level": "read_committed"} if read_committed else {}
    with closing(consumer(config, error_cb=heard.append, **FRUGAL, **isolation)) as client:
        while left:
            pending: dict[Place, int] = {}
            later = []
            for topic, partition, offset in left:
                if offset >= ends[topic, partition]:
                    found[topic, partition, offset] = (None, None)
                elif len(pending) < _PARTITIONS_A_ROUND and (topic, partition) not in pending:
                    pending[topic, partition] = offset
                else:
                    later.append((topic, partition, offset))
            found |= _one_round(client, config, heard, pending, silent)
            left = later
    _warn(silent)
    return found


def _warn(silent: Mapping[str, ClusterError]) -> None:
    for kind in {type(error): None for error in silent.values()}:
        topics = [topic for topic, error in silent.items() if type(error) is kind]
        more = f" (and {list_names(topics[1:])} likewise)" if len(topics) > 1 else ""
        its = "their" if len(topics) > 1 else "its"
        _LOG.warning("%s%s; continuing without %s timestamps", silent[topics[0]], more, its)


def _one_round(
    client: Any,
    config: ClientConfig,
    heard: Sequence[KafkaError],
    pending: dict[Place, int],
    silent: dict[str, ClusterError],
) -> dict[_Position, _First]:
    """Return the first record of each partition from its position on; empties ``pending``.

    Adds to ``silent`` the topics that cannot be read, and why.
    """
    found: dict[_Position, _First] = {}

    def hide(place: Place, said: ClusterError) -> None:
        silent.setdefault(place[0], said)
        # An error of a whole topic has no partition.
        for hidden in [p for p in pending if p[0] == place[0] and place[1] in (p[1], -1)]:
            del pending[hidden]

    client.assign([Partition(*place, offset) for place, offset in pending.items()])
    for messages in until_done(client, config, heard, lambda: not pending, _AT_ONCE):
        for place, message, is_end in place_messages(messages, config, _HIDDEN, hide):
            if place in pending and message.offset() >= pending[place]:
                kind, time = message.timestamp()
                first = (None, None) if is_end else (message.offset(), time if kind else None)
                found[(*place, pending.pop(place))] = first
                client.incremental_unassign([Partition(*place)])
    return found


# ---- reading -------------------------------------------------------------------------------------


def until_done(
    client: Any,
    config: ClientConfig,
    heard: Sequence[KafkaError],
    is_done: Callable[[], bool | int],
    at_once: int,
) -> Iterator[list[Message]]:
    """Yield what an assigned consumer delivers until the caller has enough.

    It is a ClusterError if the credentials are refused, or nothing arrives within the timeout.
    """
    waited = 0.0
    while not is_done():
        begun = time.monotonic()
        messages = client.consume(at_once, timeout=_WAIT)
        errors = (message.error() for message in messages)
        is_of_leaders = any(error is None or not is_of_group(error) for error in errors)
        waited = 0.0 if is_of_leaders else waited + time.monotonic() - begun
        yield messages
        if wrong := first_refusal(heard):
            raise translate_error(wrong, "records", config)
        if waited > max(config.patience.left(), min(READING, config.timeout)):
            config.patience.lose(waited)
            raise silence_error(config, "records", latest_reason(heard))


def place_messages(
    messages: Iterable[Message],
    config: ClientConfig,
    hidden: Collection[int] = (),
    hide: Callable[[Place, ClusterError], None] | None = None,
) -> Iterator[tuple[Place, Message, bool]]:
    """Yield messages with their topics and partitions, and whether each is the end of its log.

    An error is raised, unless its code is one of ``hidden``: then ``hide`` takes it.
    """
    for message in messages:
        place, error = (message.topic(), message.partition()), message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            yield place, message, error is not None
        elif not is_of_group(error):
            said = translate_error(error, place[0], config)
            if hide is None or error.code() not in hidden:
                raise said
            hide(place, said)


# ---- one record ---------------------------------------------------------------------------------


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
    """Read the record at an offset; where there is none, the InputError says why.

    One fetch of 32 KiB, or one record batch if that is larger. Records of aborted transactions are
    read, too: share groups that read uncommitted records receive them.
    """
    connection = Connection(config)
    place = Partition(topic, partition)
    described = kafka.descriptions(connection, [topic]).get(topic)
    known = {one.id: one for one in described.partitions} if described else {}
    if partition not in known:
        raise InputError(f"topic {topic!r} has no partition {partition}: check the number")
    if known[partition].leader is None:
        replicas = known[partition].replicas
        where, which = ("brokers", "one of them") if len(replicas) > 1 else ("broker", "it")
        raise NoLeaderError(
            f"partition {partition} of {topic} has no leader: its replicas are on {where} "
            f"{', '.join(str(node.id) for node in replicas)}; start {which}, and ask again"
        )
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
    kind, milliseconds = found.timestamp()
    return TopicRecord(
        topic,
        partition,
        offset,
        datetime.fromtimestamp(milliseconds / 1000, UTC) if kind in _TIMESTAMPS else None,
        _TIMESTAMPS.get(kind),
        found.key(),
        found.value(),
        tuple(found.headers() or ()),
    )


def _first(config: ClientConfig, topic: str, partition: int, offset: int) -> Message | None:
    """Return the first record at an offset or later; None where there are only markers."""
    heard: list[KafkaError] = []
    found: list[Message | None] = []
    with closing(consumer(config, error_cb=heard.append, **FRUGAL)) as client:
        client.assign([Partition(topic, partition, offset)])
        for messages in until_done(client, config, heard, found.__len__, 1):
            found += [
                None if is_end else one for _, one, is_end in place_messages(messages, config)
            ]
    return found[0]
