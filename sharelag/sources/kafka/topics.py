"""Records and offsets of a cluster, read with confluent-kafka in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa
from confluent_kafka import IsolationLevel, TopicCollection
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import OffsetSpec

from sharelag import schemas
from sharelag.errors import AuthenticationError, ClusterError, NoLeaderError, TopicMissingError
from sharelag.model import milliseconds, topic_id_text
from sharelag.sources.kafka.client import Connection
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.fetch import Ranges, read_ranges
from sharelag.wire.fields import STATE_TOPIC

Answer: TypeAlias = Any  # confluent_kafka's ListOffsetsResultInfo, or None

_TOPICS_A_REQUEST = 500


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
        Whether to fail when records of the ranges are pruned before they were read. Share-group
        state is pruned all the time, and what is pruned is superseded.

    Yields
    ------
    pyarrow.RecordBatch
        `sharelag.schemas.RAW`; the records of a partition come in their order. Transaction markers
        and compacted offsets are not among them.

    Raises
    ------
    ClusterError
        One of its children: no broker, wrong password, no permission, no such topic, records gone.
    """
    yield from read_ranges(
        config, topic, offset_ranges(config, topic) if ranges is None else ranges, fail_on_data_loss
    )


def offset_ranges(config: ClientConfig, topic: str) -> dict[int, tuple[int, int]]:
    """First and end offset of every partition of a topic, as they are now.

    A topic that was just created gets its leaders within moments; until then it is asked again.
    """
    try:
        return _offset_ranges(Connection(config), topic)
    except NoLeaderError:
        from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

        again = Retrying(
            retry=retry_if_exception_type(NoLeaderError),
            stop=stop_after_delay(config.timeout),
            wait=wait_fixed(0.1),
            reraise=True,
        )
        return again(_offset_ranges, Connection(config), topic)


def _offset_ranges(connection: Connection, topic: str) -> dict[int, tuple[int, int]]:
    description = connection.result(_describe(connection, [topic])[topic], topic)
    partitions = [Partition(topic, p.id) for p in description.partitions]
    first = ask_offsets(connection, dict.fromkeys(partitions, OffsetSpec.earliest()))
    end = ask_offsets(connection, dict.fromkeys(partitions, OffsetSpec.latest()))
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
    found = connection.result(
        connection.admin.describe_cluster(request_timeout=config.timeout), "the cluster"
    )
    return str(found.cluster_id)


def topic_names(config: ClientConfig) -> list[str]:
    """All topics that we are allowed to see, sorted."""
    return Connection(config).topic_names()


def topic_ids(config: ClientConfig) -> dict[str, str]:
    """Ids of all topics that we are allowed to see, by name; Kafka's internal ones are not among them."""
    connection = Connection(config)
    described = descriptions(connection, connection.topic_names())
    return {
        name: _id_text(found.topic_id) for name, found in described.items() if not found.is_internal
    }


def offsets_for_times(config: ClientConfig, topic: str, times: Mapping[int, int]) -> dict[int, int]:
    """First offset at or after a time (milliseconds) in each partition; the end where no record is so late."""
    connection = Connection(config)
    at = {
        Partition(topic, partition): OffsetSpec.for_timestamp(moment)
        for partition, moment in times.items()
    }
    found = connection.results(ask_offsets(connection, at), topic)
    end = connection.results(ask_offsets(connection, dict.fromkeys(at, OffsetSpec.latest())), topic)
    return {
        p.partition: answer.offset if answer.offset >= 0 else end[p].offset
        for p, answer in found.items()
    }


def list_offsets(
    config: ClientConfig, topics: Mapping[str, str], at: datetime | None = None
) -> pa.Table:
    """Log start and end offsets of topics.

    Parameters
    ----------
    config : ClientConfig
    topics : mapping of name to id
        As `topic_ids` gives them.
    at : datetime, optional
        As of when. Kafka finds the first record at or after a time, so an end offset of the past is
        that of the records written before; log starts of the past are not known.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.OFFSETS`, a row a partition. Ends are high watermarks (read_uncommitted).
        A partition whose leader does not answer has null offsets.
    """
    connection = Connection(config)
    partitions = partitions_of(connection, list(topics))
    later = OffsetSpec.for_timestamp(milliseconds(at) + 1) if at else None
    then = ask_offsets(connection, dict.fromkeys(partitions, later)) if later else {}
    first = ask_offsets(connection, dict.fromkeys(partitions, OffsetSpec.earliest()))
    asked = datetime.now(UTC)
    latest = ask_offsets(connection, dict.fromkeys(partitions, OffsetSpec.latest()))
    is_past = at is not None and milliseconds(at) < milliseconds(asked)
    rows = []
    for p in partitions:
        start, end = answered(connection, first[p]), answered(connection, latest[p])
        end_offset = (
            end_then(start, end, answered(connection, then[p]), is_past)
            if at
            else end and end.offset
        )
        rows.append(
            {
                "topic": p.topic,
                "topic_id": topics[p.topic],
                "partition": p.partition,
                "log_start_offset": start.offset if start and not at else None,
                "end_offset": end_offset,
                "leader_epoch": end and end.leader_epoch,
                "as_of": at or asked,
            }
        )
    return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)


def end_then(start: Answer, end: Answer, then: Answer, is_past: bool = True) -> int | None:
    """The end offset at a time, from the first record that is not older; null where that may have been deleted."""
    if start is None or end is None or then is None:
        return None
    found = (
        end.offset if then.offset < 0 else then.offset
    )  # no record is so late: all there are had been written
    # What the log begins with now says nothing of where it ended before: older records may have
    # been deleted.
    return None if found <= start.offset and start.offset > 0 and is_past else int(found)


# ---- asking --------------------------------------------------------------------------------------


def descriptions(connection: Connection, topics: Sequence[str]) -> dict[str, Any]:
    """The descriptions of those topics that are still there when they are asked for."""
    found = {}
    for begin in range(0, len(topics), _TOPICS_A_REQUEST):
        for name, future in _describe(
            connection, topics[begin : begin + _TOPICS_A_REQUEST]
        ).items():
            try:
                found[name] = connection.result(future, name)
            except TopicMissingError:
                continue  # deleted since we learned its name
    return found


def partitions_of(connection: Connection, topics: Sequence[str]) -> list[Partition]:
    """All partitions of those topics that are still there."""
    described = descriptions(connection, topics)
    return [Partition(name, p.id) for name, found in described.items() for p in found.partitions]


def _describe(connection: Connection, topics: Sequence[str]) -> dict[str, Any]:
    collection = TopicCollection(list(topics))
    answers: dict[str, Any] = connection.admin.describe_topics(
        collection, request_timeout=connection.config.timeout
    )
    return answers


def ask_offsets(
    connection: Connection,
    specs: Mapping[Partition, OffsetSpec],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Partition, Any]:
    """Ask for one offset of each partition; the answers are futures. READ_COMMITTED ends at the last stable offset."""
    if not specs:
        return {}
    answers: dict[Partition, Any] = connection.admin.list_offsets(
        dict(specs), isolation_level=isolation, request_timeout=connection.config.timeout
    )
    return answers


def answered(connection: Connection, future: Any) -> Answer:
    """One partition's answer; None when its leader has none, or does not answer (others just did)."""
    try:
        return connection.result(future, "offsets")
    except AuthenticationError:
        raise
    except ClusterError:
        return None


def _id_text(found: Any) -> str:
    halves = (found.get_most_significant_bits(), found.get_least_significant_bits())
    return topic_id_text(
        b"".join((half & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big") for half in halves)
    )
