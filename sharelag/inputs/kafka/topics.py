"""Topics of a cluster: records, offsets and logs, read with confluent-kafka."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from sys import getrefcount
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from confluent_kafka import OFFSET_INVALID, ConsumerGroupType, IsolationLevel, TopicCollection
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec, ResourceType

from sharelag import schemas
from sharelag.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClusterError,
    ConfigError,
    InputError,
    NoLeaderError,
    TopicMissingError,
)
from sharelag.inputs.kafka.client import Connection, until_answered
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.kafka.failures import silent_leaders
from sharelag.inputs.kafka.fetch import Ranges, read_ranges
from sharelag.model import milliseconds, topic_id_text

Answer: TypeAlias = Any  # confluent_kafka's ListOffsetsResultInfo, or None

_TOPICS_A_REQUEST = 500
#: Minimum seconds to wait for descriptions of topics, which every answer needs.
_DESCRIPTIONS = 0.5


def read_topic(
    config: ClientConfig, topic: str, ranges: Ranges | None = None, fail_on_data_loss: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read a topic from its beginning to its current end, or some ranges of it.

    It yields `sharelag.schemas.RAW`; the records of a partition are in log order, without
    transaction markers and compacted offsets. ``fail_on_data_loss`` says whether to fail when
    records of the ranges are pruned before they are read. The share group state is pruned
    continuously, and pruned records are superseded. A log that ends before a range, as a new
    leader's may, is a ClusterError.
    """
    ranges = offset_ranges(config, topic) if ranges is None else ranges
    yield from read_ranges(config, topic, ranges, fail_on_data_loss)


def offset_ranges(
    config: ClientConfig, topic: str, only: Collection[int] | None = None
) -> dict[int, tuple[int, int]]:
    """Return the current first and end offset of every partition of a topic, or of some.

    Partitions whose leader moves or does not answer are queried again until the timeout. Then they
    are a NoLeaderError, because the other ranges would seem complete; those are its ``answered``. A
    partition that the topic lacks is a ConfigError.
    """
    return until_answered(config, lambda connection: _offset_ranges(connection, topic, only))


def _offset_ranges(
    connection: Connection, topic: str, only: Collection[int] | None
) -> dict[int, tuple[int, int]]:
    there = _leaders(connection, topic)
    leaders = {Partition(topic, p): there[p] for p in choose_partitions(topic, there, only)}
    first = ask_offsets(connection, dict.fromkeys(leaders, OffsetSpec.earliest()))
    end = ask_offsets(connection, dict.fromkeys(leaders, OffsetSpec.latest()))
    ranges: dict[int, tuple[int, int]] = {}
    silent = {}
    for p, leader in leaders.items():
        try:
            found = tuple(offset_of(connection, of[p], topic) for of in (first, end))
            if min(found) < 0:  # no log has such an end: the leader does not know it
                raise NoLeaderError(topic)
            ranges[p.partition] = found[0], found[1]
        except (NoLeaderError, BrokerUnreachableError):
            silent[p.partition] = leader
    if silent:
        error = silent_leaders(connection.config, topic, silent)
        error.answered = ranges
        raise error
    return ranges


def _leaders(connection: Connection, topic: str) -> dict[int, Any]:
    """Return the leader of each partition; None without a leader."""
    try:  # leave half of the time to find out what is wrong with a topic
        described = _describe(connection, [topic], connection.within / 2)[topic]
        return {p.id: p.leader for p in connection.result(described, topic).partitions}
    except (BrokerUnreachableError, NoLeaderError):
        return connection.leaders(topic)


def choose_partitions(
    topic: str, there: Collection[int], only: Collection[int] | None
) -> list[int]:
    """Return these partitions of a topic, or all, sorted; ConfigError if the topic lacks one."""
    only = there if only is None else only
    if unknown := set(only) - set(there):
        raise ConfigError(f"{topic} has no partition {min(unknown)}: it has 0 to {max(there)}")
    return sorted(only)


def cluster_id(config: ClientConfig) -> str:
    """Return the cluster id."""
    return str(Connection(config).describe_cluster().cluster_id)


def topic_ids(config: ClientConfig, names: Sequence[str] | None = None) -> dict[str, str]:
    """Return the topic ids of existing topics by name: of some, or of all but internal ones."""
    connection = Connection(config)
    described = descriptions(connection, connection.topic_names() if names is None else names)
    return {
        name: id_text(found.topic_id)
        for name, found in described.items()
        if names is not None or not found.is_internal
    }


def consumer_groups(config: ClientConfig) -> dict[str, str]:
    """Return the type of each consumer group that we may describe: ``Classic``, ``Consumer``."""
    # Groups of all types share one namespace. The client library does not list share groups.
    connection = Connection(config)
    future = connection.admin.list_consumer_groups(request_timeout=connection.within)
    found = connection.result(future, "the list of groups")
    kinds = {ConsumerGroupType.CONSUMER: "Consumer"}
    return {one.group_id: kinds.get(one.type, "Classic") for one in found.valid}


def list_offsets(config: ClientConfig, topics: Mapping[str, str]) -> pa.Table:
    """Return log start and end offsets of topics, given with their ids.

    The result is `sharelag.schemas.OFFSETS`, one row per partition. Ends are high watermarks
    (read_uncommitted). A partition whose leader does not answer has null offsets.
    """
    connection = Connection(config)
    partitions = partitions_of(connection, list(topics))
    first = ask_offsets(connection, dict.fromkeys(partitions, OffsetSpec.earliest()))
    requested = datetime.now(UTC)
    latest = ask_offsets(connection, dict.fromkeys(partitions, OffsetSpec.latest()))
    rows = []
    for p in partitions:
        start, end = answer_of(connection, first[p]), answer_of(connection, latest[p])
        rows.append(
            {
                "topic": p.topic,
                "topic_id": topics[p.topic],
                "partition": p.partition,
                "log_start_offset": start and start.offset,
                "end_offset": end and end.offset,
                "leader_epoch": end and end.leader_epoch,
                "as_of": requested,
            }
        )
    return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)


# ---- requests ------------------------------------------------------------------------------------


def descriptions(
    connection: Connection,
    topics: Sequence[str],
    without: tuple[type[ClusterError], ...] = (TopicMissingError,),
) -> dict[str, Any]:
    """Return descriptions of topics, except those that fail with an error of ``without``."""
    found: dict[str, Any] = {}
    for begin in range(0, len(topics), _TOPICS_A_REQUEST):
        some = topics[begin : begin + _TOPICS_A_REQUEST]
        try:
            found |= _descriptions(connection, some, without, connection.within / 2)
        except (NoLeaderError, BrokerUnreachableError):
            connection.leave_controller()
            found |= _descriptions(connection, some, without, connection.within)
    return found


def _descriptions(
    connection: Connection,
    topics: Sequence[str],
    without: tuple[type[ClusterError], ...],
    within: float,
) -> dict[str, Any]:
    found = {}
    for name, future in _describe(connection, topics, max(within, _DESCRIPTIONS)).items():
        try:
            found[name] = connection.result(future, name)
        except without:
            continue  # such as a topic deleted since it was listed
        _free_id_of(found[name])
    return found


def _free_id_of(description: Any) -> None:
    """Drop the reference that the client library leaks, so that the topic id ends with its owner.

    Otherwise an exporter grows by 95 bytes for each topic and collection (confluent-kafka 2.16).
    An id that is not leaked has as many references as an object that only we have.
    """
    ours = SimpleNamespace(topic_id=object())
    if getrefcount(description.topic_id) == getrefcount(ours.topic_id) + 1:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(description.topic_id))


def partitions_of(connection: Connection, topics: Sequence[str]) -> list[Partition]:
    """Return all partitions of the topics that still exist."""
    described = descriptions(connection, topics)
    return [Partition(name, p.id) for name, found in described.items() for p in found.partitions]


def _describe(connection: Connection, topics: Sequence[str], within: float) -> dict[str, Any]:
    collection = TopicCollection(list(topics))
    answers: dict[str, Any] = connection.admin.describe_topics(collection, request_timeout=within)
    connection.note_requests()
    return answers


def ask_offsets(
    connection: Connection,
    specs: Mapping[Partition, OffsetSpec],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Partition, Any]:
    """Request one offset per partition, as futures; READ_COMMITTED gives the last stable offset."""
    if not specs:
        return {}
    answers: dict[Partition, Any] = connection.admin.list_offsets(
        dict(specs), isolation_level=isolation, request_timeout=connection.within
    )
    connection.note_requests()
    return answers


def offset_of(connection: Connection, future: Any, what: str) -> int:
    """Return the offset from a partition's leader, -1 for none; NoLeaderError without an answer."""
    return int(_require_known(connection.result(future, what), what).offset)


def answer_of(connection: Connection, future: Any) -> Answer:
    """Return one partition's answer; None if its leader has none or does not answer."""
    try:
        return _require_known(connection.result(future, "offsets"), "offsets")
    except AuthenticationError:
        raise
    except ClusterError:
        return None


def answers(
    connection: Connection,
    specs: Mapping[Partition, OffsetSpec],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Partition, Answer]:
    """Request one offset per partition and wait; None for leaders that do not answer."""
    futures = ask_offsets(connection, specs, isolation)
    return {p: answer_of(connection, future) for p, future in futures.items()}


def _require_known(answer: Answer, what: str) -> Answer:
    if answer.offset == OFFSET_INVALID:
        raise NoLeaderError(f"the leader of a partition did not answer: {what}")
    return answer


def id_text(found: Any) -> str:
    """Return a topic id of the client as Kafka prints it."""
    halves = (found.get_most_significant_bits(), found.get_least_significant_bits())
    return topic_id_text(b"".join((half % 2**64).to_bytes(8, "big") for half in halves))


def logs(config: ClientConfig, topics: Mapping[str, str]) -> pa.Table:
    """Return `sharelag.schemas.LOGS`, one row per partition of topics, given with their ids.

    Settings are null without DESCRIBE_CONFIGS on the topic, and so is the last stable offset of a
    partition whose leader does not answer.
    """
    connection = Connection(config)
    partitions = partitions_of(connection, list(topics))
    requested = datetime.now(UTC)
    latest = dict.fromkeys(partitions, OffsetSpec.latest())
    stable = ask_offsets(connection, latest, IsolationLevel.READ_COMMITTED)
    names = list(dict.fromkeys(p.topic for p in partitions))
    settings = {
        name: {setting: entry.value for setting, entry in (entries or {}).items()}
        for name, entries in connection.describe_configs(ResourceType.TOPIC, names, at_once=500)
    }
    rows = []
    for p in partitions:
        answer, of_topic = answer_of(connection, stable[p]), settings.get(p.topic, {})
        retention = [of_topic.get(f"retention.{unit}") for unit in ("ms", "bytes")]
        numbers = [None if text is None else int(text) for text in retention]
        rows.append(
            {
                "topic": p.topic,
                "topic_id": topics[p.topic],
                "partition": p.partition,
                "last_stable_offset": answer and answer.offset,
                "cleanup_policy": of_topic.get("cleanup.policy"),
                "retention_ms": numbers[0],
                "retention_bytes": numbers[1],
                "as_of": requested,
            }
        )
    return pa.Table.from_pylist(rows, schema=schemas.LOGS)


def timed_by_producers(config: ClientConfig, topics: Sequence[str]) -> list[str]:
    """Return the topics with timestamps from producers, and those whose setting is unknown.

    Their past ends are estimates; see `past_offsets`.
    """
    settings: dict[str, Any] = {}
    with suppress(ClusterError):  # then any topic may be one of them
        settings |= Connection(config).describe_configs(ResourceType.TOPIC, topics, at_once=500)
    kinds = {name: (some or {}).get("message.timestamp.type") for name, some in settings.items()}
    by_brokers = {name for name, kind in kinds.items() if kind and kind.value == "LogAppendTime"}
    return [topic for topic in topics if topic not in by_brokers]


# ---- past end offsets ----------------------------------------------------------------------------


class _Then(NamedTuple):
    servers: str
    topic_id: str
    partition: int
    milliseconds: int


#: Final answers: a first record after the moment exists, and nothing can be written before it. They
#: stay valid when retention deletes that record and the cluster can no longer answer.
_ENDS: dict[_Then, int] = {}
_ENDS_KEPT = 500_000


def past_offsets(
    config: ClientConfig, topics: Mapping[str, str], moments: Sequence[datetime]
) -> pa.Table:
    """Return the end offsets of logs at past moments, which have a time zone.

    Return `sharelag.schemas.OFFSETS`, one row per partition and moment, with the moment in
    ``as_of``, rounded down to the millisecond. The end offset is that of the first record after the
    moment, or the current end if there is none. It is null if adjacent records were deleted since,
    or the leader does not answer. Past log starts and leader epochs are unknown. If timestamps are
    not ascending (set by producers) or offsets were compacted, the end is an estimate.

    Each moment takes one ListOffsets request per leader. Answers are cached by topic id, partition
    and moment once a later record exists, because they can no longer change.
    """
    if any(moment.tzinfo is None for moment in moments):
        raise InputError("a moment has no time zone: add one, such as datetime.UTC")
    connection = Connection(config)
    partitions = partitions_of(connection, list(topics))
    times = sorted({milliseconds(moment) for moment in moments})
    keys = {(p, time): _Then(config.bootstrap_servers, topics[p.topic], p.partition, time)
            for time in times for p in partitions}  # fmt: skip
    requested = {place: key for place, key in keys.items() if key not in _ENDS}
    ends: dict[_Then, int | None] = {key: _ENDS[key] for key in keys.values() if key in _ENDS}
    ends |= _ask_ends(connection, requested)
    rows = [
        {
            "topic": p.topic,
            "topic_id": key.topic_id,
            "partition": p.partition,
            "end_offset": ends.get(key),
            "as_of": time,
        }
        for (p, time), key in keys.items()
    ]
    return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)


def _ask_ends(
    connection: Connection, requested: Mapping[tuple[Partition, int], _Then]
) -> dict[_Then, int | None]:
    partitions = list(dict.fromkeys(p for p, _ in requested))
    # Current ends first: a record that arrives in between is later than all moments. Log starts
    # last: a record that was found and then deleted proves nothing about those before it.
    now = milliseconds(datetime.now(UTC))
    end = answers(connection, dict.fromkeys(partitions, OffsetSpec.latest()))
    then: dict[tuple[Partition, int], Answer] = {}
    for time in sorted({time for _, time in requested}):
        specs = {p: OffsetSpec.for_timestamp(time + 1) for p, at in requested if at == time}
        then |= {(p, time): found for p, found in answers(connection, specs).items()}
    start = answers(connection, dict.fromkeys(partitions, OffsetSpec.earliest()))
    ends = {}
    for (p, time), key in requested.items():
        found = then[p, time]
        known = ends[key] = _end_then(start[p], end[p], found, time < now)
        if found is not None and found.offset >= 0 and known is not None:
            _ENDS[key] = known
    while len(_ENDS) > _ENDS_KEPT:
        _ENDS.pop(next(iter(_ENDS)))  # the oldest
    return ends


def _end_then(start: Answer, end: Answer, then: Answer, is_past: bool) -> int | None:
    """Return a past end offset from the first later record; None if that may have been deleted."""
    if start is None or end is None or then is None:
        return None
    # Without a later record, all records were written before the moment.
    found = end.offset if then.offset < 0 else then.offset
    # The current log start says nothing about the past end: older records may have been deleted.
    return None if found <= start.offset and start.offset > 0 and is_past else int(found)
