"""What the share coordinator writes in a run, in order; made into records when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from sharelag.model import UNINITIALIZED_START_OFFSET, SharePartition, Window
from sharelag.whatif.partition.values import Write
from sharelag.whatif.records import StateTopic

#: What is called of a `StateTopic`, and with what.
Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


class StateLog:
    """The calls of a `StateTopic`, made when their outcome is needed.

    Attributes
    ----------
    begins
        By place, the start offset and the delivery complete count as written last: what Kafka's lag
        is made of. Not of share partitions whose start offset is not known yet.
    """

    def __init__(self, keys: list[SharePartition]) -> None:
        self.keys = keys
        self.begins: dict[int, tuple[int, int]] = {}
        self._topic = StateTopic()
        self._calls: list[Call] = []

    def initialize(self, place: int, start: int, now: int) -> None:
        """A share partition that is new to its group; -1: no start offset yet."""
        if start != UNINITIALIZED_START_OFFSET:
            self.begins[place] = start, 0
        self._calls.append((self._topic.initialize, (self.keys[place], now, 0, start)))

    def adopt(self, place: int, window: Window, now: int) -> None:
        """A state that is there at the begin."""
        if window.start_offset != UNINITIALIZED_START_OFFSET:
            self.begins[place] = window.start_offset, window.delivery_complete_count
        self._calls.append((self._topic.adopt, (self.keys[place], window, now)))

    def write(self, place: int, write: Write) -> None:
        """A write of a share partition's leader."""
        self.begins[place] = write.start_offset, write.delivery_complete_count
        self._calls.append((self._topic.write, (self.keys[place], write)))

    def snapshot_cold(self, now: int) -> None:
        """The share coordinator's timer."""
        self._calls.append((self._topic.snapshot_cold, (now,)))

    def read(self, place: int, leader_epoch: int, now: int) -> Window:
        """What a new leader loads."""
        return self._made().read(self.keys[place], leader_epoch, now)

    def window(self, place: int) -> Window | None:
        """What is persisted."""
        return self._made().window(self.keys[place])

    def records(self) -> pa.RecordBatch:
        """All records, as `sharelag.schemas.RAW`."""
        return self._made().records()

    def waiting(self) -> Iterator[Call]:
        """Yield the calls that were not made yet, in order; equal ones make equal records."""
        yield from self._calls

    def _made(self) -> StateTopic:
        for call, arguments in self.waiting():
            call(*arguments)
        self._calls.clear()
        return self._topic
