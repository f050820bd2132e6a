"""Messages of an assigned topic as columns: by confluent-kafka's objects, one for each message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message
from confluent_kafka import TopicPartition as Partition

from sharelag import schemas
from sharelag.inputs.kafka.client import consumer, is_of_group
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.schemas import WITH_HEADERS

_NO_ERROR = frozenset([type(None)])


class Failed(NamedTuple):
    """An error in place of a record, such as the end of a partition."""

    error: KafkaError
    partition: int
    offset: int


class Taken(NamedTuple):
    """What arrived: the records as `sharelag.schemas.RAW`, None without any, and the errors."""

    records: pa.RecordBatch | None
    failed: Sequence[Failed] = ()

    @property
    def is_of_leaders(self) -> bool:
        """Whether a leader has answered, with records or with an error."""
        return self.records is not None or not all(is_of_group(one.error) for one in self.failed)


class PlainMessages:
    """Messages by confluent-kafka's consumer: without a start-up cost, slow where they are many."""

    #: How many messages are best taken at a time: more are slower, as they exceed the CPU caches.
    at_once = 2_000

    def __init__(self, config: ClientConfig, topic: str, heard: list[KafkaError]) -> None:
        self._topic = topic
        self._client = consumer(config, error_cb=heard.append)

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions, from these offsets on."""
        self._client.assign([Partition(self._topic, p, at) for p, at in offsets.items()])

    def leave(self, partition: int) -> None:
        self._client.incremental_unassign([Partition(self._topic, partition)])

    def rewind(self, partition: int) -> None:
        """Read a partition from the first offset that is still there."""
        self.leave(partition)
        again = Partition(self._topic, partition, OFFSET_BEGINNING)
        self._client.incremental_assign([again])

    def take(self, most: int, timeout: float) -> Taken:
        """Wait for so many messages, or so many seconds."""
        messages = self._client.consume(most, timeout=timeout)
        # Calls into the client dominate the cost: each accessor is mapped once over all messages.
        errors = list(map(Message.error, messages))
        records, failed = messages, list[Failed]()
        # By their types: the client's errors refuse to be compared with None.
        if not _NO_ERROR.issuperset(map(type, errors)):
            both = list(zip(errors, messages, strict=True))
            records = [message for error, message in both if error is None]
            failed = [Failed(e, m.partition(), m.offset()) for e, m in both if e is not None]
        return Taken(self._columns(records) if records else None, failed)

    def close(self) -> None:
        self._client.close()

    def _columns(self, records: Sequence[Message]) -> pa.RecordBatch:
        pairs = chain.from_iterable(map(Message.timestamp, records))  # kind, milliseconds
        times = np.fromiter(pairs, np.int64, 2 * len(records)).reshape(-1, 2)
        return raw_batch(
            self._topic,
            pa.array(list(map(Message.key, records)), pa.binary()),
            pa.array(list(map(Message.value, records)), pa.binary()),
            np.fromiter(map(Message.partition, records), np.int32, len(records)),
            np.fromiter(map(Message.offset, records), np.int64, len(records)),
            times[:, 1],
            times[:, 0],
        )


class MessagesWithHeaders(PlainMessages):
    """The same with headers, as `sharelag.schemas.WITH_HEADERS`."""

    def _columns(self, records: Sequence[Message]) -> pa.RecordBatch:
        batch = super()._columns(records)
        headers = [headers or [] for headers in map(Message.headers, records)]
        column = pa.array(headers, WITH_HEADERS.field("headers").type)
        return pa.RecordBatch.from_arrays([*batch.columns, column], schema=WITH_HEADERS)


def raw_batch(
    topic: str, keys: pa.Array, values: pa.Array, partitions: Any, offsets: Any, times: Any,
    kinds: Any,
) -> pa.RecordBatch:  # fmt: skip
    """Return `sharelag.schemas.RAW` of columns with librdkafka's numbers of timestamp types."""
    columns = [
        keys,
        values,
        pa.repeat(pa.scalar(topic, pa.string()), len(keys)),
        pa.array(partitions),
        pa.array(offsets),
        pa.array(times, pa.int64(), mask=kinds == 0).view(schemas.TIMESTAMP),
        # Spark's numbers for the timestamp type are one less than librdkafka's: none, create,
        # append.
        pa.array(kinds - 1).cast(pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schemas.RAW)
