"""Logs of the cluster: last stable offsets, retention, and past end offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec, ResourceType

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.client import Connection
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.model import milliseconds


def logs(config: ClientConfig, topics: Mapping[str, str]) -> pa.Table:
    """Return `sharelag.schemas.LOGS`, one row per partition of topics, given with their ids.

    Settings are null without DESCRIBE_CONFIGS on the topic, and so is the last stable offset of a
    partition whose leader does not answer.
    """
    connection = Connection(config)
    partitions = kafka.partitions_of(connection, list(topics))
    requested = datetime.now(UTC)
    latest = dict.fromkeys(partitions, OffsetSpec.latest())
    stable = kafka.ask_offsets(connection, latest, IsolationLevel.READ_COMMITTED)
    names = list(dict.fromkeys(p.topic for p in partitions))
    settings = {
        name: {setting: entry.value for setting, entry in (entries or {}).items()}
        for name, entries in connection.describe_configs(ResourceType.TOPIC, names, at_once=500)
    }
    rows = []
    for p in partitions:
        answer, of_topic = kafka.answer_of(connection, stable[p]), settings.get(p.topic, {})
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


# ---- ends of the past ----------------------------------------------------------------------------


class _Then(NamedTuple):
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
    """Return the end offsets of logs at past moments, which have a time zone.

    Return `sharelag.schemas.OFFSETS`, one row per partition and moment, with the moment in
    ``as_of``, rounded down to the millisecond. The end offset is that of the first record after the
    moment, or the current end if there is none. It is null if adjacent records were deleted since,
    or the leader does not answer. Past log starts and leader epochs are unknown. If timestamps do
    not ascend (set by producers) or offsets were compacted, the end is an estimate.

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
    end = kafka.answers(connection, dict.fromkeys(partitions, OffsetSpec.latest()))
    then: dict[tuple[Partition, int], kafka.Answer] = {}
    for time in sorted({time for _, time in requested}):
        specs = {p: OffsetSpec.for_timestamp(time + 1) for p, at in requested if at == time}
        then |= {(p, time): found for p, found in kafka.answers(connection, specs).items()}
    start = kafka.answers(connection, dict.fromkeys(partitions, OffsetSpec.earliest()))
    ends = {}
    for (p, time), key in requested.items():
        found = then[p, time]
        ends[key] = _end_then(start[p], end[p], found, time < now)
        if found is not None and found.offset >= 0 and (known := ends[key]) is not None:
            _ENDS[key] = known
    while len(_ENDS) > _ENDS_KEPT:
        _ENDS.pop(next(iter(_ENDS)))  # the oldest
    return ends


def _end_then(
    start: kafka.Answer, end: kafka.Answer, then: kafka.Answer, is_past: bool
) -> int | None:
    """Return a past end offset from the first later record; None if that may have been deleted."""
    if start is None or end is None or then is None:
        return None
    # no later record: everything was written before
    found = end.offset if then.offset < 0 else then.offset
    # The current log start says nothing about the past end: older records may have been deleted.
    return None if found <= start.offset and start.offset > 0 and is_past else int(found)
