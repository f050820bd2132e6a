"""Logs of the cluster: last stable offsets, retention, and past end offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from sharelag import schemas
from sharelag.errors import AuthorizationError, InputError, TopicMissingError
from sharelag.model import milliseconds
from sharelag.sources.kafka import topics as kafka
from sharelag.sources.kafka.client import Connection
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.scan import scan
from sharelag.sources.kafka.times import record_times

__all__ = ["logs", "past_offsets", "record_times", "scan"]

_TOPICS_A_REQUEST = 500


def logs(config: ClientConfig, topics: Mapping[str, str]) -> pa.Table:
    """Return last stable offsets and retention of topics.

    Parameters
    ----------
    config : ClientConfig
    topics : mapping of name to id
        As returned by `sharelag.sources.kafka.topics.topic_ids`.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.LOGS`, one row per partition. Settings are null without DESCRIBE_CONFIGS
        on the topic, and so is the offset of a partition whose leader does not answer.
    """
    connection = Connection(config)
    partitions = kafka.partitions_of(connection, list(topics))
    requested = datetime.now(UTC)
    latest = dict.fromkeys(partitions, OffsetSpec.latest())
    stable = kafka.ask_offsets(connection, latest, IsolationLevel.READ_COMMITTED)
    settings = _topic_settings(connection, list(dict.fromkeys(p.topic for p in partitions)))
    rows = []
    for p in partitions:
        answer, of_topic = kafka.answered(connection, stable[p]), settings.get(p.topic, {})
        retention = {name: of_topic.get(f"retention.{name}") for name in ("ms", "bytes")}
        rows.append(
            {
                "topic": p.topic,
                "topic_id": topics[p.topic],
                "partition": p.partition,
                "last_stable_offset": answer and answer.offset,
                "cleanup_policy": of_topic.get("cleanup.policy"),
                "retention_ms": None if retention["ms"] is None else int(retention["ms"]),
                "retention_bytes": None if retention["bytes"] is None else int(retention["bytes"]),
                "as_of": requested,
            }
        )
    return pa.Table.from_pylist(rows, schema=schemas.LOGS)


def _topic_settings(connection: Connection, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the effective settings of each topic that we are authorized to describe."""
    found = {}
    for begin in range(0, len(topics), _TOPICS_A_REQUEST):
        requested = [
            ConfigResource(ResourceType.TOPIC, name)
            for name in topics[begin : begin + _TOPICS_A_REQUEST]
        ]
        answers = connection.admin.describe_configs(requested, request_timeout=connection.within)
        for resource, future in answers.items():
            try:
                entries = connection.result(future, resource.name)
            except (AuthorizationError, TopicMissingError):
                continue
            found[resource.name] = {name: entry.value for name, entry in entries.items()}
    return found


# ---- ends of the past ----------------------------------------------------------------------------


class _Then(NamedTuple):
    """One past end offset."""

    servers: str
    topic_id: str
    partition: int
    milliseconds: int


#: Final answers: the first record after the moment exists, and nothing is ever written before it.
#: They stay valid when retention deletes that record and the cluster can no longer answer.
_ENDS: dict[_Then, int] = {}
_ENDS_KEPT = 500_000


def past_offsets(
    config: ClientConfig, topics: Mapping[str, str], moments: Sequence[datetime]
) -> pa.Table:
    """Return the end offsets of logs at past moments.

    Parameters
    ----------
    config : ClientConfig
    topics : mapping of name to id
    moments : sequence of datetime
        With a time zone. Rounded down to the millisecond; duplicates are ignored.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.OFFSETS`, one row per partition and moment, with the moment in ``as_of``.
        The end offset is that of the first record after the moment, or the current end if there is
        none. It is null if adjacent records were deleted since, or the leader does not answer. Past
        log starts and leader epochs are unknown. If timestamps do not ascend (set by producers) or
        offsets were compacted, the end is an estimate.

    Notes
    -----
    Each moment is one ListOffsets request per leader. Answers are cached by topic id, partition and
    moment once a later record exists, since they no longer change then.
    """
    if any(moment.tzinfo is None for moment in moments):
        raise InputError("a moment has no time zone: add one, such as datetime.UTC")
    connection = Connection(config)
    partitions = kafka.partitions_of(connection, list(topics))
    times = sorted({milliseconds(moment) for moment in moments})
    keys = {(p, time): _Then(config.bootstrap_servers, topics[p.topic], p.partition, time)
            for time in times for p in partitions}  # fmt: skip
    requested = {place: key for place, key in keys.items() if key not in _ENDS}
    ends = {key: _ENDS[key] for key in keys.values() if key in _ENDS} | _ask_ends(
        connection, requested
    )
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
    # last: a record that was found and then deleted is not evidence of what was before it.
    now = milliseconds(datetime.now(UTC))
    latest = kafka.ask_offsets(connection, dict.fromkeys(partitions, OffsetSpec.latest()))
    end = {p: kafka.answered(connection, future) for p, future in latest.items()}
    then: dict[tuple[Partition, int], kafka.Answer] = {}
    for time in sorted({time for _, time in requested}):
        specs = {p: OffsetSpec.for_timestamp(time + 1) for p, at in requested if at == time}
        answers = kafka.ask_offsets(connection, specs)
        then |= {(p, time): kafka.answered(connection, future) for p, future in answers.items()}
    earliest = kafka.ask_offsets(connection, dict.fromkeys(partitions, OffsetSpec.earliest()))
    start = {p: kafka.answered(connection, future) for p, future in earliest.items()}
    ends = {}
    for (p, time), key in requested.items():
        found = then[p, time]
        ends[key] = kafka.end_then(start[p], end[p], found, time < now)
        if found is not None and found.offset >= 0 and (known := ends[key]) is not None:
            _ENDS[key] = known
    while len(_ENDS) > _ENDS_KEPT:
        _ENDS.pop(next(iter(_ENDS)))  # the oldest
    return ends
