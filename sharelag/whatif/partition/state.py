"""What a share partition holds in memory.

As in ``kafka.server.share.SharePartition``: in-flight batches in offset order, each with one state
for all its offsets or, once it was split, a state for every offset. Here a split batch keeps runs
of equal neighbours, so that an event costs by the runs it touches and not by the offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappush
from typing import NamedTuple

from sharelag.model import DeliveryState
from sharelag.whatif.partition.values import (
    Limits,
    Persist,
    StateNotWrittenError,
    Write,
    WrittenRun,
    written,
)

AVAILABLE, ACQUIRED = int(DeliveryState.AVAILABLE), int(DeliveryState.ACQUIRED)
ACKNOWLEDGED, ARCHIVED = int(DeliveryState.ACKNOWLEDGED), int(DeliveryState.ARCHIVED)


class OffsetRun(NamedTuple):
    """Offsets ``first..last`` of one in-flight batch in one state.

    ``lock`` numbers the acquisition lock in the order of scheduling. In a split batch every offset
    has its own lock, and ``lock`` is that of ``first``, the next offset's one more. Member and
    lock mean something only while the run is acquired.
    """

    first: int
    last: int
    state: int
    deliveries: int  # the delivery count
    member: str | None = None
    deadline: int = 0
    lock: int = 0

    def cut(self, first: int, last: int) -> OffsetRun:
        """The part of a split batch's run from ``first`` to ``last``."""
        lock = self.lock + first - self.first if self.state == ACQUIRED else 0
        return OffsetRun(first, last, self.state, self.deliveries, self.member, self.deadline, lock)


@dataclass(slots=True, eq=False)
class InFlightBatch:
    """``InFlightBatch``: offsets first acquired together, or loaded as one state batch."""

    first: int
    last: int
    runs: list[OffsetRun]
    split: bool = False

    @property
    def whole(self) -> OffsetRun:
        """The one state of a batch that is not split."""
        return self.runs[0]

    def put(self, pieces: Sequence[OffsetRun]) -> None:
        """Overlay parts of the present runs, in offset order; each lies within one of them."""
        if not pieces:
            return
        if pieces[0][:2] == (self.first, self.last):
            self.runs = list(pieces)
            return
        runs: list[OffsetRun] = []
        at, n = 0, len(pieces)
        for run in self.runs:
            begin = run.first
            while at < n and pieces[at].first <= run.last:
                piece = pieces[at]
                if piece.first > begin:
                    _append(runs, run.cut(begin, piece.first - 1))
                _append(runs, piece)
                begin = piece.last + 1
                at += 1
            if begin <= run.last:
                _append(runs, run if begin == run.first else run.cut(begin, run.last))
        self.runs = runs


def _append(runs: list[OffsetRun], run: OffsetRun) -> None:
    if runs:
        last = runs[-1]
        same = last.state == run.state and last.deliveries == run.deliveries
        if same and (run.state != ACQUIRED or _one_lock(last, run)):
            runs[-1] = OffsetRun(last.first, run.last, *last[2:])
            return
    runs.append(run)


def _one_lock(last: OffsetRun, run: OffsetRun) -> bool:
    """Whether two neighbours were acquired together: their locks are numbered on, end together."""
    return last[4:6] == run[4:6] and last.lock - last.first == run.lock - run.first


class Lock(NamedTuple):
    """A scheduled acquisition lock; void once the run it names has another or none."""

    deadline: int
    number: int
    batch: InFlightBatch
    first: int
    last: int
    per_offset: bool


@dataclass(slots=True, eq=False)
class State:
    """The fields of ``SharePartition``, Kafka's names in snake_case."""

    start_offset: int
    # the last offset that was acquired; the next one to fetch while nothing is in flight
    end_offset: int
    limits: Limits
    leader_epoch: int
    state_epoch: int
    persist: Persist
    now: int = 0
    delivery_complete_count: int = 0
    find_next_fetch_offset: bool = False
    none_available_before: int = 0  # where the search for what is available begins
    # offsets up to here may have been fetched before the load, and forgotten ...
    gap_window_end: int | None = None
    gap_window_start: int = -1  # ... from here on
    batches: list[InFlightBatch] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)  # the first offset of each batch
    locks: list[Lock] = field(default_factory=list)  # a heap; no two have one number
    lock_number: int = 0

    # ---- in-flight batches by offset ----

    def floor(self, offset: int) -> int:
        """The place of the last batch that begins at or before an offset; -1 when there is none."""
        return bisect_right(self.firsts, offset) - 1

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin in ``first..last``."""
        return self.batches[bisect_left(self.firsts, first) : bisect_right(self.firsts, last)]

    def add(self, batch: InFlightBatch) -> None:
        """Put a batch in its place; one that begins at the same offset is replaced."""
        if not self.firsts or batch.first > self.firsts[-1]:
            self.firsts.append(batch.first)
            self.batches.append(batch)
            return
        at = bisect_left(self.firsts, batch.first)
        if self.firsts[at] == batch.first:
            self.batches[at] = batch
        else:
            self.firsts.insert(at, batch.first)
            self.batches.insert(at, batch)

    def holds_start_offset(self, batch: InFlightBatch) -> bool:
        """Whether the start offset lies inside a batch, but not at its begin."""
        return batch.first < self.start_offset <= batch.last

    def redeliver_from(self, offset: int) -> None:
        """Offsets from one on may be available again: the next fetch looks for them."""
        self.find_next_fetch_offset = True
        self.none_available_before = min(self.none_available_before, offset)

    @property
    def gap_window_active(self) -> bool:
        """Whether holes between batches may be first deliveries under way at the load."""
        return self.gap_window_end == self.end_offset

    # ---- acquisition locks ----

    def acquired(
        self, batch: InFlightBatch, first: int, last: int, count: int, member: str
    ) -> OffsetRun:
        """An acquired run with new locks: one an offset of a split batch, else one for all."""
        return self.locked(
            batch,
            OffsetRun(
                first, last, ACQUIRED, count, member, self.now + self.limits.lock_duration_ms
            ),
        )

    def locked(self, batch: InFlightBatch, run: OffsetRun) -> OffsetRun:
        """The same run with new locks that end when its own do."""
        number = self.lock_number
        self.lock_number += run.last - run.first + 1 if batch.split else 1
        heappush(self.locks, Lock(run.deadline, number, batch, run.first, run.last, batch.split))
        return run._replace(lock=number)

    def split(self, batch: InFlightBatch) -> None:
        """Give every offset of a batch its own state and lock; there is no way back."""
        if not batch.split:
            batch.split = True
            if batch.whole.state == ACQUIRED:
                batch.runs = [self.locked(batch, batch.whole)]

    # ---- what is written ----

    def write(self, runs: Iterable[WrittenRun]) -> None:
        """Hand states to the share coordinator, with the start offset and the count as of now.

        Raises
        ------
        StateNotWrittenError
            It does not accept them.
        """
        write = Write(
            self.now,
            self.start_offset,
            self.delivery_complete_count,
            self.leader_epoch,
            self.state_epoch,
            written(runs),
        )
        if not self.persist(write):
            raise StateNotWrittenError(
                f"the share coordinator refused the write at {self.now} ms; "
                "acknowledge again, or load the share partition anew"
            )

    def count_complete(self, run: OffsetRun) -> None:
        """Count offsets that have just become terminal, unless the start offset has passed them."""
        if run.state in (ACKNOWLEDGED, ARCHIVED):
            self.delivery_complete_count += max(run.last - max(run.first, self.start_offset) + 1, 0)
