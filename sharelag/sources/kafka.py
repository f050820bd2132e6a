"""What does the cluster hold? Records and offsets, read with confluent-kafka in this process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec

from sharelag import schemas
from sharelag.errors import DataLossError
from sharelag.model import topic_id_text
from sharelag.sources.client import Connection, consumer, explain, unreachable
from sharelag.sources.config import ClientConfig
from sharelag.wire.fields import STATE_TOPIC

#: First and end offset (exclusive) to read, by partition.
Ranges = Mapping[int, tuple[int, int]]

_BATCH = 10_000
_TOPICS_A_REQUEST = 500
# Spark's numbers for the kind of a timestamp are one less than librdkafka's (not available, create, append).
_TIMESTAMP_TYPE = -1


def read_topic(
    config: ClientConfig, topic: str, ranges: Ranges | None = None, fail_on_data_loss: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read a topic from its beginning to where it ends now, or some ranges of it.

    Parameters
    ----------
    config : ClientConfig
    topic : str
    ranges : mapping of partition to (first offset, end offset), optional
        Without it, all that is there now.
    fail_on_data_loss : bool
        Whether to fail when records of the ranges are pruned before they were read. Share-group state is
        pruned all the time, and what is pruned is superseded.

    Yields
    ------
    pyarrow.RecordBatch
        `sharelag.schemas.RAW`; the records of a partition come in their order. Transaction markers and
        compacted offsets are not among them.

    Raises
    ------
    ClusterError
        One of its children: no broker, wrong password, no permission, no such topic, records gone.
    """
    ranges = offset_ranges(config, topic) if ranges is None else ranges
    open_ends = {partition: end for partition, (first, end) in ranges.items() if end > first}
    if not open_ends:
        return
    client = consumer(config)
    try:
        client.assign([Partition(topic, p, ranges[p][0]) for p in open_ends])
        last_progress = time.monotonic()
        while open_ends:
            messages = client.consume(_BATCH, timeout=0.2)
            records = [message for message in messages if message.error() is None]
            _close_ends(client, config, topic, messages, open_ends, fail_on_data_loss)
            if messages:
                last_progress = time.monotonic()
            elif time.monotonic() - last_progress > config.timeout:
                raise unreachable(config)
            if records:
                yield _within(_arrow(records), ranges)
    finally:
        client.close()


def offset_ranges(config: ClientConfig, topic: str) -> dict[int, tuple[int, int]]:
    """First and end offset of every partition of a topic, as they are now."""
    connection = Connection(config)
    description = connection.result(_describe(connection, [topic])[topic], topic)
    partitions = [Partition(topic, p.id) for p in description.partitions]
    first = _list(connection, partitions, OffsetSpec.earliest())
    end = _list(connection, partitions, OffsetSpec.latest())
    return {
        p.partition: (
            connection.result(first[p], topic).offset,
            connection.result(end[p], topic).offset,
        )
        for p in partitions
    }


def record_count(config: ClientConfig, topic: str = STATE_TOPIC) -> int:
    """How many offsets a topic spans; an upper bound of its records."""
    return sum(end - first for first, end in offset_ranges(config, topic).values())


def cluster_id(config: ClientConfig) -> str:
    """Kafka's id of the cluster."""
    connection = Connection(config)
    found = connection.result(connection.admin.describe_cluster(request_timeout=config.timeout), "the cluster")
    return str(found.cluster_id)


def topic_names(config: ClientConfig) -> list[str]:
    """All topics that we are allowed to see, sorted."""
    try:
        return sorted(Connection(config).admin.list_topics(timeout=config.timeout).topics)
    except KafkaException as error:
        raise explain(error.args[0], "the list of topics", config) from error


def topic_ids(config: ClientConfig) -> dict[str, str]:
    """Ids of all topics that we are allowed to see, by name; Kafka's internal ones are not among them."""
    connection = Connection(config)
    names = [name for name in topic_names(config) if not name.startswith("__")]
    ids = {}
    for begin in range(0, len(names), _TOPICS_A_REQUEST):
        for name, future in _describe(connection, names[begin : begin + _TOPICS_A_REQUEST]).items():
            found = connection.result(future, name).topic_id
            ids[name] = _id_text(found)
    return ids


def offsets_for_times(config: ClientConfig, topic: str, times: Mapping[int, int]) -> dict[int, int]:
    """First offset at or after a time (milliseconds) in each partition; the end where no record is so late."""
    connection = Connection(config)
    found = {}
    for partition, moment in times.items():
        one = Partition(topic, partition)
        answer = connection.result(_list(connection, [one], OffsetSpec.for_timestamp(moment))[one], topic)
        if answer.offset < 0:
            answer = connection.result(_list(connection, [one], OffsetSpec.latest())[one], topic)
        found[partition] = answer.offset
    return found


def list_offsets(config: ClientConfig, topics: Mapping[str, str], at: datetime | None = None) -> pa.Table:
    """Log start and end offsets of topics.

    Parameters
    ----------
    config : ClientConfig
    topics : mapping of name to id
        As `topic_ids` gives them.
    at : datetime, optional
        As of when. Kafka finds the first record at or after a time, so an end offset of the past is that of
        the records written before; log starts of the past are not known.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.OFFSETS`, a row a partition. Ends are high watermarks (read_uncommitted). A partition
        whose leader does not answer has null offsets.
    """
    connection = Connection(config)
    described = connection.results(_describe(connection, list(topics)), "topics") if topics else {}
    partitions = [Partition(name, p.id) for name, d in described.items() for p in d.partitions]
    first = {} if at else _list(connection, partitions, OffsetSpec.earliest())
    asked = datetime.now(UTC)
    end = _list(connection, partitions, OffsetSpec.latest())
    then = _list(connection, partitions, OffsetSpec.for_timestamp(int(at.timestamp() * 1000))) if at else {}
    rows = []
    for p in partitions:
        latest = _offset(connection, end[p])
        past = _offset(connection, then[p]) if at else None
        rows.append(
            {
                "topic": p.topic,
                "topic_id": topics[p.topic],
                "partition": p.partition,
                "log_start_offset": getattr(_offset(connection, first[p]), "offset", None) if first else None,
                # No record at or after the time: all there are were written before.
                "end_offset": getattr(past if past and past.offset >= 0 else latest, "offset", None),
                "leader_epoch": getattr(latest, "leader_epoch", None),
                "as_of": at or asked,
            }
        )
    return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)


# ---- reading ------------------------------------------------------------------------------------------


def _close_ends(
    client: Any,
    config: ClientConfig,
    topic: str,
    messages: Iterable[Message],
    open_ends: dict[int, int],
    fail_on_data_loss: bool,
) -> None:
    """Take out of ``open_ends`` the partitions that have been read to their end.

    The last offsets of a range need not be records (transaction markers, compacted ones): then a record
    beyond the end, or the end of the partition, says that all has been seen.
    """
    for message in messages:
        error, partition = message.error(), message.partition()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            seen = message.offset() + (error is None)
            if partition in open_ends and seen >= open_ends[partition]:
                del open_ends[partition]
                client.incremental_unassign([Partition(topic, partition)])
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if fail_on_data_loss:
                raise DataLossError(
                    f"records of {topic} partition {partition} are gone before they were read ({error.str()}): start "
                    "from earliest, or set failOnDataLoss to false to go on without them"
                )
            client.seek(Partition(topic, partition, OFFSET_BEGINNING))
        else:
            raise explain(error, topic, config)


def _arrow(messages: Sequence[Message]) -> pa.RecordBatch:
    times = [message.timestamp() for message in messages]
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array([message.topic() for message in messages], pa.string()),
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([moment if kind else None for kind, moment in times], pa.int64()).view(schemas.TIMESTAMP),
        pa.array([kind + _TIMESTAMP_TYPE for kind, _ in times], pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schemas.RAW)


def _within(batch: pa.RecordBatch, ranges: Ranges) -> pa.RecordBatch:
    """Without what was written after the ends were taken."""
    import pyarrow.compute as pc

    partitions = pa.array(list(ranges), pa.int32())
    ends = pa.array([end for _, end in ranges.values()], pa.int64())
    end = ends.take(pc.index_in(batch.column("partition"), partitions))
    return batch.filter(pc.less(batch.column("offset"), end))


# ---- asking -------------------------------------------------------------------------------------------


def _describe(connection: Connection, topics: Sequence[str]) -> dict[str, Any]:
    collection = TopicCollection(list(topics))
    answers: dict[str, Any] = connection.admin.describe_topics(collection, request_timeout=connection.config.timeout)
    return answers


def _list(connection: Connection, partitions: Sequence[Partition], spec: OffsetSpec) -> dict[Partition, Any]:
    if not partitions:
        return {}
    answers: dict[Partition, Any] = connection.admin.list_offsets(
        dict.fromkeys(partitions, spec),
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=connection.config.timeout,
    )
    return answers


def _offset(connection: Connection, future: Any) -> Any:
    """One partition's answer, None when its leader has none."""
    deadline = time.monotonic() + connection.config.timeout
    while not future.done():
        connection.admin.poll(0.05)
        if time.monotonic() > deadline:
            return None
    return None if future.exception() else future.result()


def _id_text(found: Any) -> str:
    halves = (found.get_most_significant_bits(), found.get_least_significant_bits())
    return topic_id_text(b"".join((half & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big") for half in halves))
