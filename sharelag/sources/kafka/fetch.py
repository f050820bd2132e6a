"""Read offset ranges of a topic with confluent-kafka, one batch of columns at a time.

The end of a range can be a transaction marker or a compacted offset. So a partition is done when a
record at or after its end has been read, or when the broker reports the end of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message
from confluent_kafka import TopicPartition as Partition

from sharelag import schemas
from sharelag.errors import DataLossError
from sharelag.sources.kafka.client import consumer, explain, refused, unreachable
from sharelag.sources.kafka.config import ClientConfig

#: First and end offset (exclusive) to read, by partition.
Ranges = Mapping[int, tuple[int, int]]

_LOG = logging.getLogger(__name__)
_ASKED = 2_000  # messages; more at once are slower, as they exceed the CPU caches
# Batches are larger, since decoding has a cost per batch.
_BATCH_ROWS = 20_000
_BATCH_BYTES = 32 << 20
_NO_ERROR = frozenset([type(None)])
_WAIT = 0.1  # seconds; a batch that is not full is yielded after that


def read_ranges(
    config: ClientConfig,
    topic: str,
    ranges: Ranges,
    fail_on_data_loss: bool = False,
    lost: list[tuple[int, int, int]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read some offset ranges of a topic; see `sharelag.sources.kafka.topics.read_topic`.

    Without ``fail_on_data_loss``, ranges that were gone before they could be read are appended to
    ``lost``: partition, first offset, end offset (exclusive).
    """
    reading = _Reading(config, topic, ranges, fail_on_data_loss, [] if lost is None else lost)
    if not reading.open_ends:
        return
    heard: list[KafkaError] = []
    client = consumer(config, error_cb=heard.append)
    try:
        client.assign([Partition(topic, p, ranges[p][0]) for p in reading.open_ends])
        waited = 0.0  # only our own waiting, not the time of the caller
        gathered: list[pa.RecordBatch] = []
        while reading.open_ends:
            # At most the remaining number, or the client would wait although the last one arrived.
            messages = client.consume(min(_ASKED, reading.left()), timeout=_WAIT)
            waited = 0.0 if messages else waited + _WAIT
            gathered += reading.take(client, messages)
            if _is_enough(gathered) or (gathered and not (messages and reading.open_ends)):
                yield pa.concat_batches(gathered)
                gathered = []
            if wrong := refused(heard):
                raise explain(wrong, topic, config)
            if waited > config.timeout:
                reading.give_up(heard[-1] if heard else None)
    finally:
        client.close()


@dataclass
class _Reading:
    """The progress of each partition."""

    config: ClientConfig
    topic: str
    ranges: Ranges
    fail_on_data_loss: bool
    lost: list[tuple[int, int, int]]  # partition, first offset, end offset
    open_ends: dict[int, int] = field(init=False)
    positions: dict[int, int] = field(init=False)  # partition: next offset
    logs_end: dict[int, int] = field(
        default_factory=dict
    )  # partition: end of its log, as reported by the broker
    pruned_from: dict[int, int] = field(default_factory=dict)  # partition: start of a lost range

    def __post_init__(self) -> None:
        self.open_ends = {p: end for p, (first, end) in self.ranges.items() if end > first}
        self.positions = {p: self.ranges[p][0] for p in self.open_ends}

    def left(self) -> int:
        """Maximum number of remaining offsets."""
        return sum(end - self.positions[p] for p, end in self.open_ends.items())

    def take(self, client: Any, messages: Sequence[Message]) -> list[pa.RecordBatch]:
        """Make columns of the records, and handle the errors among them."""
        # Calls into the client dominate the cost: each accessor is mapped once over all messages.
        errors = list(map(Message.error, messages))
        failed: list[tuple[KafkaError, Message]] = []
        records = messages
        # By their types: the client's errors refuse to be compared with None.
        if not _NO_ERROR.issuperset(map(type, errors)):
            both = list(zip(errors, messages, strict=True))
            records = [message for error, message in both if error is None]
            failed = [(error, message) for error, message in both if error is not None]
        batches = [self._rows(client, records)] if records else []
        # Handle errors of a partition after its records: they tell where the records end.
        for error, message in failed:
            self._handle_error(client, error, message)
        return batches

    def give_up(self, last_heard: KafkaError | None) -> None:
        """Raise after a timeout: the log ends before the range, or no broker answered."""
        if self.open_ends.keys() - self.logs_end.keys():
            raise unreachable(self.config, last_heard)
        for partition, end in self.open_ends.items():
            self._lost(
                partition, f"the log ends at offset {self.logs_end[partition]}, before {end}"
            )
            self.pruned_from.setdefault(partition, self.positions[partition])
            self._note_gap(partition, end)
        self.open_ends.clear()

    def _rows(self, client: Any, records: Sequence[Message]) -> pa.RecordBatch:
        partitions = np.fromiter(map(Message.partition, records), np.int32, len(records))
        offsets = np.fromiter(map(Message.offset, records), np.int64, len(records))
        batch = _columns(self.topic, records, partitions, offsets)
        wanted = np.zeros(len(records), np.bool_)
        for p in np.unique(partitions).tolist():
            of_p = partitions == p
            first, end = self.ranges[p]
            wanted |= of_p & (offsets >= first) & (offsets < end)
            self._note_gap(p, int(offsets[of_p][0]))
            self._seen(client, p, int(offsets[of_p][-1]) + 1)
        return batch if wanted.all() else batch.filter(pa.array(wanted))

    def _handle_error(self, client: Any, error: KafkaError, message: Message) -> None:
        code, partition = error.code(), message.partition()
        if code == KafkaError._PARTITION_EOF:
            self.logs_end[partition] = message.offset()
            self._note_gap(partition, message.offset())
            self._seen(client, partition, max(message.offset(), self.positions.get(partition, 0)))
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if partition in self.open_ends:
                self._lost(partition, "records were pruned before they were read")
                self.pruned_from.setdefault(partition, self.positions[partition])
                client.incremental_unassign([Partition(self.topic, partition)])
                client.incremental_assign([Partition(self.topic, partition, OFFSET_BEGINNING)])
        elif code != KafkaError.GROUP_AUTHORIZATION_FAILED:
            # The client looks for the coordinator of its group although it never joins it: no
            # permission needed.
            raise explain(error, self.topic, self.config)

    def _seen(self, client: Any, partition: int, upto: int) -> None:
        self.positions[partition] = upto
        if upto >= self.open_ends.get(partition, upto + 1):
            del self.open_ends[partition]
            client.incremental_unassign([Partition(self.topic, partition)])

    def _note_gap(self, partition: int, at: int) -> None:
        """Record the range lost before this offset, if any."""
        first = self.pruned_from.pop(partition, at)
        end = min(at, self.ranges[partition][1])
        if end > first:
            self.lost.append((partition, first, end))

    def _lost(self, partition: int, what: str) -> None:
        where = f"{self.topic} partition {partition}: {what}"
        if self.fail_on_data_loss:
            raise DataLossError(
                f"{where}; start from earliest, or set failOnDataLoss to false to skip them"
            )
        _LOG.warning("%s; continuing with the remaining records", where)


def _is_enough(gathered: Sequence[pa.RecordBatch]) -> bool:
    rows = sum(batch.num_rows for batch in gathered)
    return bool(rows >= _BATCH_ROWS or sum(batch.nbytes for batch in gathered) >= _BATCH_BYTES)


def _columns(
    topic: str, records: Sequence[Message], partitions: Any, offsets: Any
) -> pa.RecordBatch:
    pairs = chain.from_iterable(map(Message.timestamp, records))  # kind, milliseconds
    times = np.fromiter(pairs, np.int64, 2 * len(records)).reshape(-1, 2)
    unknown = times[:, 0] == 0
    columns = [
        pa.array(list(map(Message.key, records)), pa.binary()),
        pa.array(list(map(Message.value, records)), pa.binary()),
        pa.repeat(pa.scalar(topic, pa.string()), len(records)),
        pa.array(partitions),
        pa.array(offsets),
        pa.array(times[:, 1], pa.int64(), mask=unknown).view(schemas.TIMESTAMP),
        # Spark's numbers for the timestamp type are one less than librdkafka's: none, create,
        # append.
        pa.array(times[:, 0] - 1).cast(pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schemas.RAW)
