"""Read offset ranges of a topic with confluent-kafka, one batch of columns at a time.

The end of a range can be a transaction marker or a compacted offset. So a partition is complete
when a record at or after its end has been read, or when the broker reports the end of the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError

from sharelag.compiled import is_worth_it
from sharelag.errors import DataLossError, NoLeaderError
from sharelag.inputs.kafka.client import Failed, MessagesWithHeaders, PlainMessages, is_of_group
from sharelag.inputs.kafka.config import READING, ClientConfig
from sharelag.inputs.kafka.failures import (
    first_refusal,
    latest_reason,
    silent_leaders,
    translate_error,
    unreachable_error,
)

if TYPE_CHECKING:
    from sharelag.inputs.kafka.native import NativeMessages

    Messages: TypeAlias = PlainMessages | NativeMessages

#: First and end offset (exclusive) to read, by partition.
Ranges = Mapping[int, tuple[int, int]]

_LOG = logging.getLogger(__name__)
# Larger batches than elsewhere, because decoding has a cost per batch.
_BATCH_ROWS = 20_000
_BATCH_BYTES = 32 << 20
#: Minimum bytes of a state record, with its key.
_RECORD_BYTES = 100
_WAIT = 0.1  # seconds after which an incomplete batch is yielded


def read_ranges(
    config: ClientConfig,
    topic: str,
    ranges: Ranges,
    fail_on_data_loss: bool = False,
    lost: list[tuple[int, int, int]] | None = None,
    with_headers: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read some offset ranges of a topic; see `sharelag.inputs.kafka.topics.read_topic`.

    Without ``fail_on_data_loss``, ranges that were pruned before they could be read are appended to
    ``lost``: partition, first offset, end offset (exclusive). Without ``lost``, a log that ends
    before its range is an error, because its missing last records would go unnoticed.
    ``with_headers`` returns `sharelag.schemas.WITH_HEADERS`.
    """
    reading = _Reading(config, topic, ranges, fail_on_data_loss, lost)
    if not reading.open_ends:
        return
    errors: list[KafkaError] = []
    with closing(_client(config, topic, errors, reading.left(), with_headers)) as client:
        client.assign(reading.positions)
        waited = 0.0  # our own waiting, without the caller's time
        gathered: list[pa.RecordBatch] = []
        while reading.open_ends:
            # At most the remaining number: otherwise the client would wait after the last record.
            started = time.monotonic()
            taken = client.take(min(client.at_once, reading.left()), _WAIT)
            is_idle = taken.records is None and not taken.failed
            if taken.is_of_leaders:
                config.patience.note_answer(waited)
                waited = 0.0
            else:
                waited += time.monotonic() - started
            if taken.records is not None:
                gathered.append(reading.take(client, taken.records))
            # Process errors of a partition after its records, because they mark their end.
            for failed in taken.failed:
                reading.handle_error(client, failed)
            rows = sum(batch.num_rows for batch in gathered)
            octets = sum(batch.nbytes for batch in gathered)
            is_enough = rows >= _BATCH_ROWS or octets >= _BATCH_BYTES
            if is_enough or (gathered and (is_idle or not reading.open_ends)):
                yield pa.concat_batches(gathered)
                gathered = []
            if wrong := first_refusal(errors):
                raise translate_error(wrong, topic, config)
            if waited > max(config.patience.left(), min(READING, config.timeout)):
                config.patience.lose(waited)
                reading.give_up(errors)


@dataclass
class _Reading:
    config: ClientConfig
    topic: str
    ranges: Ranges
    fail_on_data_loss: bool
    lost: list[tuple[int, int, int]] | None  # partition, first offset, end offset
    open_ends: dict[int, int] = field(init=False)
    positions: dict[int, int] = field(init=False)  # partition: next offset
    logs_end: dict[int, int] = field(default_factory=dict)  # by partition, as reported by brokers
    pruned_from: dict[int, int] = field(default_factory=dict)  # partition: start of a lost range

    def __post_init__(self) -> None:
        self.open_ends = {p: end for p, (first, end) in self.ranges.items() if end > first}
        self.positions = {p: self.ranges[p][0] for p in self.open_ends}

    def left(self) -> int:
        return sum(end - self.positions[p] for p, end in self.open_ends.items())

    def give_up(self, errors: Sequence[KafkaError]) -> None:
        """Raise after a timeout: the log ends before the range, or no broker answered."""
        if silent := self.open_ends.keys() - self.logs_end.keys():
            # Brokers have just answered with the ranges: so only leaders are silent.
            are_down = any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in errors)
            is_any_read = bool(self.ranges.keys() - silent)
            raise (
                unreachable_error(self.config, latest_reason(errors))
                if are_down and not is_any_read
                else silent_leaders(self.config, self.topic, dict.fromkeys(silent))
            )
        if self.lost is None and not self.fail_on_data_loss:
            partition, end = min(self.open_ends.items())
            raise NoLeaderError(
                f"partition {partition} of {self.topic} ends at offset "
                f"{self.logs_end[partition]}, before {end}, where it ended a moment ago: its "
                "leader has changed, and the new one may not know its end yet. Try again; "
                "--timeout waits longer"
            )
        for partition, end in self.open_ends.items():
            ends = self.logs_end[partition]
            self._lost(partition, f"the log ends at offset {ends}, before {end}")
            self._note_gap(partition, end)
        self.open_ends.clear()

    def take(self, client: Messages, batch: pa.RecordBatch) -> pa.RecordBatch:
        partitions = batch.column("partition").to_numpy()
        offsets = batch.column("offset").to_numpy()
        is_mine = np.zeros(len(offsets), np.bool_)
        for p in np.unique(partitions).tolist():
            of_p = partitions == p
            first, end = self.ranges[p]
            is_mine |= of_p & (offsets >= first) & (offsets < end)
            self._note_gap(p, int(offsets[of_p][0]))
            self._seen(client, p, int(offsets[of_p][-1]) + 1)
        return batch if is_mine.all() else batch.filter(pa.array(is_mine))

    def handle_error(self, client: Messages, failed: Failed) -> None:
        error, partition, offset = failed
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self.logs_end[partition] = offset
            self._note_gap(partition, offset)
            self._seen(client, partition, max(offset, self.positions.get(partition, 0)))
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if partition in self.open_ends:
                self._lost(partition, "records were pruned before they were read")
                client.rewind(partition)
        elif not is_of_group(error):
            raise translate_error(error, self.topic, self.config)

    def _seen(self, client: Messages, partition: int, upto: int) -> None:
        self.positions[partition] = upto
        if upto >= self.open_ends.get(partition, upto + 1):
            del self.open_ends[partition]
            client.leave(partition)

    def _note_gap(self, partition: int, at: int) -> None:
        first = self.pruned_from.pop(partition, at)
        end = min(at, self.ranges[partition][1])
        if end > first and self.lost is not None:
            self.lost.append((partition, first, end))

    def _lost(self, partition: int, what: str) -> None:
        where = f"{self.topic} partition {partition}: {what}"
        if self.fail_on_data_loss:
            raise DataLossError(
                f"{where}; start from earliest, or set failOnDataLoss to false to skip them"
            )
        _LOG.warning("%s; continuing with the remaining records", where)
        self.pruned_from.setdefault(partition, self.positions[partition])


def _client(
    config: ClientConfig, topic: str, errors: list[KafkaError], count: int, with_headers: bool
) -> Messages:
    """Return a client for about ``count`` messages: compiled kernels pay off for many."""
    if with_headers:
        return MessagesWithHeaders(config, topic, errors)
    if is_worth_it(count * _RECORD_BYTES, count=False):
        from sharelag.inputs.kafka import native

        if native.is_usable(config):
            return native.NativeMessages(config, topic, errors)
    return PlainMessages(config, topic, errors)
