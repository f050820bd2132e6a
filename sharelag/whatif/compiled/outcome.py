"""The results of a run: counters, finished offsets, and writes to the share coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sharelag.model import UNINITIALIZED_START_OFFSET, SharePartition, Window
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.records import StateTopic, Write, WrittenRun
from sharelag.whatif.simulation.streams import Longs
from sharelag.whatif.simulation.tables import COUNTS, Tally


class CoreTally(Tally):
    """Counters of a run, read from its memory at the end."""

    def __init__(self, places: int, step: int, core: Core) -> None:
        super().__init__(places, step)
        self._core: Core | None = core

    def read(self, core: Core) -> None:
        """Copy the counters from the memory of the run."""
        a, members = core.a, len(core.members)
        begin = core[at.COUNTS_AT]
        counts = a[begin : begin + len(core.places) * members * at.COUNTS]
        rows = counts.reshape(members, len(core.places), at.COUNTS)
        for member, number in np.argwhere(rows[:, :, at.COUNTED] > 0).tolist():
            counted = rows[member, number, : len(COUNTS)].tolist()
            self.counts[number, member].update(dict(zip(COUNTS, counted, strict=True)))
        self.archived = [core[p + at.ARCHIVES] for p in core.places]
        self.expired = [core[p + at.EXPIRED] for p in core.places]
        self.lost = [core[p + at.LOST] for p in core.places]
        self.given_back = core[at.GIVEN_BACK]
        self.drained_at = a[core[at.DRAINED_AT] :][: core[at.DRAINS]].tolist()
        self._runs = core.runs()
        self._core = None

    def list_finished(self) -> Longs:
        """Return the offsets that are finished."""
        parts = self._runs if self._core is None else self._core.runs()
        done = (runs.compress(runs[:, at.RUN_STATE] != at.S_AVAILABLE, axis=0) for runs in parts)
        return np.concatenate([runs[:, : at.RUN_STATE] for runs in done])


#: A method of `StateTopic`, and its arguments.
Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


class Writes:
    """Requests of a run to the share coordinator, made when their outcome is needed.

    ``begins`` has the initial start offset and delivery complete count of each place, which Kafka's
    lag is computed from. Share partitions without a start offset are absent.
    """

    def __init__(self, keys: list[SharePartition], core: Core) -> None:
        self.keys, self._topic = keys, StateTopic()
        self.begins: dict[int, tuple[int, int]] = {}
        self._core: Core | None = core
        self.state_epochs = [0] * len(keys)
        self._waiting: list[Callable[[], Iterable[Call]]] = []  # what makes calls, in order

    def keep(self) -> None:
        """Keep the writes, and release the memory of the run."""
        self._take()
        self._core = None

    def written(self, place: int) -> tuple[int, int] | None:
        """Return the start offset and the delivery complete count of the last write."""
        if self._core is not None:
            p = self._core.places[place]
            if self._core[p + at.WRITTEN_START] >= 0:
                return self._core[p + at.WRITTEN_START], self._core[p + at.WRITTEN_COMPLETE]
        return self.begins.get(place)

    def initialize(self, place: int, start: int, now: int) -> None:
        """Initialise a share partition that is new to its group; -1: no start offset yet."""
        if start != UNINITIALIZED_START_OFFSET:
            self.begins[place] = start, 0
        self._call(self._topic.initialize, self.keys[place], now, 0, start)

    def adopt(self, place: int, window: Window, now: int) -> None:
        """Take over an initial state."""
        if window.start_offset != UNINITIALIZED_START_OFFSET:
            self.begins[place] = window.start_offset, window.delivery_complete_count
        self._call(self._topic.adopt, self.keys[place], window, now)
        self.state_epochs[place] = window.state_epoch

    def snapshot_cold(self, now: int) -> None:
        """Run the share coordinator's snapshot timer."""
        self._call(self._topic.snapshot_cold, now)

    def read(self, place: int, leader_epoch: int, now: int) -> Window:
        """Return the window that a new leader of the partition loads."""
        return self._made().read(self.keys[place], leader_epoch, now)

    def window(self, place: int) -> Window | None:
        """Return the persisted window of a share partition, or None."""
        return self._made().window(self.keys[place])

    def records(self) -> pa.RecordBatch:
        """Return all state records, as `sharelag.schemas.RAW`."""
        return self._made().records()

    def _call(self, call: Callable[..., object], *arguments: Any) -> None:
        self._take()
        self._waiting.append(lambda: [(call, arguments)])

    def _take(self) -> None:
        if self._core is not None:
            self._waiting += (partial(self._unpack, *part) for part in self._core.take_writes())

    def _unpack(self, writes: Longs, runs: Longs) -> Iterator[Call]:
        """Yield the calls of writes, as rows of the layout."""
        begin, of_writes = 0, runs.tolist()
        for place, _, time, start, complete, epoch, end in writes.tolist():
            own = of_writes[begin:end]
            parts = tuple(WrittenRun._make((*run[1:3], *run[4:6], bool(run[6]))) for run in own)
            write = Write(time, start, complete, epoch, self.state_epochs[place], parts)
            yield self._topic.write, (self.keys[place], write)
            begin = end

    def waiting(self) -> Iterator[Call]:
        """Yield the calls that were not made yet, in order; equal calls make equal records."""
        self._take()
        for calls in self._waiting:
            yield from calls()

    def _made(self) -> StateTopic:
        for call, arguments in self.waiting():
            call(*arguments)
        self._waiting.clear()
        return self._topic
