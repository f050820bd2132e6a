"""What a compiled run leaves: counters, what was finished, and what was sent to the coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sharelag.model import SharePartition
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.partition.values import Write, WrittenRun
from sharelag.whatif.records import Call, StateLog, StateTopic
from sharelag.whatif.simulation.streams import Longs
from sharelag.whatif.simulation.tables import COUNTS, Tally

_NONE = [np.zeros((0, at.WROTE), np.int64)], [np.zeros((0, at.RUN), np.int64)]


class CompiledTally(Tally):
    """Counters of a run, read from its memory when it is over."""

    _finished: Longs

    def read(self, core: Core, finished: Longs) -> None:
        """Take over what was counted."""
        a, members = core.a, len(core.members)
        begin = core[at.COUNTS_AT]
        counts = a[begin : begin + len(core.places) * members * at.COUNTS]
        rows = counts.reshape(members, len(core.places), at.COUNTS)
        for member, number in np.argwhere(rows[:, :, at.COUNTED] > 0).tolist():
            self.counts[number, member] = rows[member, number, : len(COUNTS)].tolist()
        self.archived = [core[p + at.ARCHIVES] for p in core.places]
        self.expired = [core[p + at.EXPIRED] for p in core.places]
        self.given_back = core[at.GIVEN_BACK]
        self.drained_at = a[core[at.DRAINED_AT] :][: core[at.DRAINS]].tolist()
        self._finished = finished

    def finished_rows(self) -> Longs:
        """As of the class above, without a list of them."""
        return self._finished


class CompiledStates(StateLog):
    """The writes of a run, made when their outcome is needed."""

    def __init__(self, keys: list[SharePartition], core: Core) -> None:
        super().__init__(keys)
        self._core = core
        self.epochs: list[tuple[int, int]] = []  # of leader and state, by place
        self._snapshots: list[tuple[int, int]] = []  # how many writes are before, and the time
        self._parts = _NONE

    def keep(self) -> None:
        """Keep what was written, and let go of the memory of the run."""
        self._parts = self._core.writes, self._core.runs
        del self._core

    def snapshot_cold(self, now: int) -> None:
        """The share coordinator's timer."""
        self._snapshots.append((self._core.written, now))

    def waiting(self) -> Iterator[Call]:
        """As of the class above, with the writes of the run when it is over."""
        yield from super().waiting()
        writes, runs = (np.concatenate(part) for part in self._parts)
        snapshots = [*self._snapshots, (len(writes), None)]
        first = begin = 0
        for until, now in snapshots:
            for place, _, time_ms, start, complete, end in writes[first:until].tolist():
                made = tuple(
                    WrittenRun(first_offset, last, state, count, bool(split))
                    for first_offset, last, state, count, split in runs[begin:end].tolist()
                )
                leader_epoch, state_epoch = self.epochs[place]
                write = Write(time_ms, start, complete, leader_epoch, state_epoch, made)
                yield self._topic.write, (self.keys[place], write)
                begin = end
            first = until
            if now is not None:
                yield self._topic.snapshot_cold, (now,)

    def _made(self) -> StateTopic:
        topic = super()._made()
        self._parts = _NONE
        self._snapshots.clear()
        return topic
