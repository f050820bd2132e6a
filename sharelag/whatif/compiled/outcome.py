"""What a run leaves: counters, what was finished, and what was sent to the coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sharelag.model import SharePartition, Window
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.records import Call, StateLog, StateTopic, Write, WrittenRun
from sharelag.whatif.simulation.streams import Longs
from sharelag.whatif.simulation.tables import COUNTS, Tally


class Counted(Tally):
    """Counters of a run, read from its memory when it is over."""

    def __init__(self, places: int, step: int, core: Core) -> None:
        super().__init__(places, step)
        self._core: Core | None = core

    def read(self, core: Core) -> None:
        """Take over what was counted."""
        a, members = core.a, len(core.members)
        begin = core[at.COUNTS_AT]
        counts = a[begin : begin + len(core.places) * members * at.COUNTS]
        rows = counts.reshape(members, len(core.places), at.COUNTS)
        for member, number in np.argwhere(rows[:, :, at.COUNTED] > 0).tolist():
            self.counts[number, member] = rows[member, number, : len(COUNTS)].tolist()
        self.archived = [core[p + at.ARCHIVES] for p in core.places]
        self.expired = [core[p + at.EXPIRED] for p in core.places]
        self.lost = [core[p + at.LOST] for p in core.places]
        self.given_back = core[at.GIVEN_BACK]
        self.drained_at = a[core[at.DRAINED_AT] :][: core[at.DRAINS]].tolist()
        self._finished = core.finished()
        self._core = None

    def finished_since(self, count: int) -> Sequence[Sequence[int]]:
        """What was finished, without the first so many rows."""
        rows: list[list[int]] = self.finished_rows()[count:].tolist()
        return rows

    def finished_rows(self) -> Longs:
        """What was finished so far."""
        return self._finished if self._core is None else self._core.finished()


class Writes(StateLog):
    """The writes of a run, made when their outcome is needed."""

    def __init__(self, keys: list[SharePartition], core: Core) -> None:
        super().__init__(keys)
        self._core: Core | None = core
        self.state_epochs = [0] * len(keys)
        self._between: list[tuple[int, Call]] = []  # calls, and how many writes are before
        self._past = 0  # writes that were made
        self._writes = self._runs = np.zeros((0, 0), np.int64)

    def keep(self) -> None:
        """Keep what was written, and let go of the memory of the run."""
        if self._core is not None:
            self._writes, self._runs = self._core.take_writes()
        self._core = None

    def written(self, place: int) -> tuple[int, int] | None:
        """Return the start offset and the delivery complete count as written last."""
        if self._core is not None:
            p = self._core.places[place]
            if self._core[p + at.WRITTEN_START] >= 0:
                return self._core[p + at.WRITTEN_START], self._core[p + at.WRITTEN_COMPLETE]
        return self.begins.get(place)

    def initialize(self, place: int, start: int, now: int) -> None:
        """A share partition that is new to its group."""
        super().initialize(place, start, now)
        self._take_calls()

    def adopt(self, place: int, window: Window, now: int) -> None:
        """A state that is there at the begin."""
        super().adopt(place, window, now)
        self._take_calls()
        self.state_epochs[place] = window.state_epoch

    def snapshot_cold(self, now: int) -> None:
        """The share coordinator's timer."""
        super().snapshot_cold(now)
        self._take_calls()

    def _take_calls(self) -> None:
        """Note when the calls so far were made."""
        written = self._core.written if self._core is not None else self._past
        self._between += [(written, call) for call in self._calls]
        self._calls.clear()

    def waiting(self) -> Iterator[Call]:
        """Yield the calls that were not made yet, in order, with the writes of the run."""
        writes, runs = self._writes, self._runs
        if self._core is not None:
            writes, runs = self._core.take_writes()
            self._writes, self._runs = writes[:0], runs[:0]
        made, begin = 0, 0
        end: Any = None
        for until, call in [*self._between, (self._past + len(writes), end)]:
            for place, _, time, start, complete, epoch, last in writes[
                made : until - self._past
            ].tolist():
                parts = tuple(
                    WrittenRun(first_offset, last_offset, state, count, bool(split))
                    for first_offset, last_offset, state, count, split in runs[begin:last].tolist()
                )
                state_epoch = self.state_epochs[place]
                write = Write(time, start, complete, epoch, state_epoch, parts)
                yield self._topic.write, (self.keys[place], write)
                begin = last
            made = until - self._past
            if call is not None:
                yield call
        if self._core is not None:
            self._past += len(writes)
            self._between.clear()

    def _made(self) -> StateTopic:
        topic = super()._made()
        self._between.clear()
        self._writes, self._runs = self._writes[:0], self._runs[:0]
        return topic
