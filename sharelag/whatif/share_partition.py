"""The share partition as the broker that leads it runs it.

The state machine of ``kafka.server.share.SharePartition`` (Kafka 4.4, without a dead-letter queue;
4.3.1 has the same), with time passed in: no clock, no threads, no chance. Given the same calls it
answers, holds in memory and writes what Kafka's class does, with two simplifications: a write is
answered at once, and where Kafka's class fails with an internal error, a fetch gets nothing and an
acknowledgement is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sharelag.errors import InputError
from sharelag.model import UNINITIALIZED_START_OFFSET, DeliveryState, Window
from sharelag.whatif.partition.acknowledge import (
    acknowledge,
    advance,
    check_held,
    next_end,
    release_session,
)
from sharelag.whatif.partition.acquire import acquire, in_flight_span, next_fetch_offset
from sharelag.whatif.partition.movement import move_log_start, take_over
from sharelag.whatif.partition.state import ACQUIRED, State
from sharelag.whatif.partition.values import (
    Acknowledgement,
    Acquired,
    AcquireMode,
    Limits,
    LogBatch,
    Persist,
    Write,
)


class InFlight(NamedTuple):
    """Offsets ``first_offset..last_offset`` that are in flight in one state."""

    first_offset: int
    last_offset: int
    delivery_state: DeliveryState
    delivery_count: int
    member: str | None  # who has acquired them
    lock_ends_ms: int | None  # when they are taken back


def _accept(_: Write) -> bool:
    return True


class SharePartition:
    """One partition of one topic, as its leader serves it to one share group.

    All methods that take ``now`` (ms, never going back) first let the locks expire that ended
    until then.

    Parameters
    ----------
    start_offset : int
        Where delivery starts: the persisted start offset, or what ``share.auto.offset.reset`` says.
    limits : Limits
        May be replaced at any time (attribute ``limits``), as a group's settings may.
    leader_epoch, state_epoch : int
        Of the topic partition, and of the persisted state.
    persist : callable
        Gets each `Write` when the broker would send it, and says whether the share coordinator
        accepts it.
    """

    def __init__(
        self,
        start_offset: int,
        limits: Limits | None = None,
        leader_epoch: int = 0,
        state_epoch: int = 0,
        persist: Persist = _accept,
    ) -> None:
        self._state = State(
            start_offset, start_offset, limits or Limits(), leader_epoch, state_epoch, persist
        )

    @classmethod
    def load(
        cls,
        window: Window,
        now: int = 0,
        limits: Limits | None = None,
        leader_epoch: int = 0,
        persist: Persist = _accept,
        reset_to: int | None = None,
    ) -> SharePartition:
        """What a new leader makes of the persisted state (``SharePartition.maybeInitialize``).

        First deliveries that were under way are forgotten: their offsets are holes between the
        batches, and are delivered again with delivery count 1.

        Parameters
        ----------
        window : sharelag.model.Window
            Its batches have to ascend, as the share coordinator keeps them.
        now : int
            Time in ms.
        limits, leader_epoch, persist
            As for the class.
        reset_to : int, optional
            What ``share.auto.offset.reset`` says; needed when the window has no start offset yet.

        Raises
        ------
        InputError
            Kafka could not load this window either, or ``reset_to`` is missing.
        """
        start = (
            reset_to if window.start_offset == UNINITIALIZED_START_OFFSET else window.start_offset
        )
        if start is None:
            raise InputError(
                "the window has no start offset yet: "
                "give reset_to, what share.auto.offset.reset says"
            )
        loaded = cls(start, limits, leader_epoch, window.state_epoch, persist)
        loaded._state.now = now
        take_over(loaded._state, window.batches)
        return loaded

    # ---- fetching ----

    def next_fetch_offset(self) -> int:
        """Where the next fetch of the log begins: what is to be delivered again comes first."""
        return next_fetch_offset(self._state)

    def can_fetch(self) -> bool:
        """Whether a fetch may go on: there is something to deliver again, or room for new records.

        The room is a span: finished offsets and holes after the start offset take room, too.
        """
        state = self._state
        return (
            next_fetch_offset(state) != state.end_offset + 1
            or self.in_flight_span < state.limits.max_record_locks
        )

    def acquire(
        self,
        member: str,
        now: int,
        batches: Sequence[LogBatch],
        max_records: int = 500,
        batch_size: int | None = None,
        mode: AcquireMode = "batch_optimized",
        *,
        fetch_offset: int | None = None,
        aborted: Sequence[LogBatch] = (),
    ) -> list[Acquired]:
        """Acquire records for a member from what a fetch of the log brought.

        Parameters
        ----------
        member : str
        now : int
            Time in ms.
        batches : sequence of LogBatch
            The record batches fetched, ascending: from the one that holds the fetch offset, or the
            next one.
        max_records : int
            As the client asks; in mode ``batch_optimized`` a delivery extends to the end of the
            record batch.
        batch_size : int, optional
            Longer new spans are put in flight in pieces of at least this many offsets, at the
            bounds of record batches. As ``max_records`` when not given, which is what clients send.
        mode : {"batch_optimized", "record_limit"}
        fetch_offset : int, optional
            Where the fetch began; `next_fetch_offset` when not given.
        aborted : sequence of LogBatch
            Those of ``batches`` that belong to aborted transactions, for a ``read_committed``
            group.

        Returns
        -------
        list of Acquired
            What is delivered, ascending; empty when there is nothing to deliver or no room.
        """
        self._advance(now)
        size = max_records if batch_size is None else batch_size
        offset = self.next_fetch_offset() if fetch_offset is None else fetch_offset
        return acquire(
            self._state, member, batches, offset, max_records, size, mode == "record_limit", aborted
        )

    # ---- what members say, or fail to say ----

    def acknowledge(
        self, member: str, now: int, acknowledgements: Sequence[Acknowledgement]
    ) -> None:
        """Acknowledge what a member has acquired: all of it, or nothing when one offset is not its.

        Offsets before the start offset are passed over. Renewed locks are not written.

        Raises
        ------
        InvalidRecordStateError
            Some offset is not acquired by this member, e.g. since its lock expired.
        InvalidAcknowledgementError
            The acknowledgements are malformed, or go past what was delivered.
        StateNotWrittenError
            The share coordinator refused the write.
        """
        self._advance(now)
        acknowledge(self._state, member, acknowledgements)

    def check_held(
        self, member: str, now: int, acknowledgements: Sequence[Acknowledgement]
    ) -> None:
        """Raise as `acknowledge` would for what the member has not acquired; change nothing.

        Raises
        ------
        InvalidRecordStateError, InvalidAcknowledgementError
            As for `acknowledge`.
        """
        self._advance(now)
        check_held(self._state, member, acknowledgements)

    def release_session(self, member: str, now: int) -> None:
        """End a share session: what it acquired is available, or archived at the last attempt.

        Raises
        ------
        StateNotWrittenError
            The share coordinator refused the write, so the records stay acquired until their locks
            expire.
        """
        self._advance(now)
        release_session(self._state, member)

    def expire_locks(self, now: int) -> int | None:
        """Take back what was acquired too long ago, and write so, whatever the coordinator answers.

        A lock of 30,000 ms that was taken at 0 expires at 30,000. Each offset of a split batch has
        its own lock and write.

        Returns
        -------
        int or None
            When the next lock ends, in ms; None while nothing is acquired.
        """
        self._advance(now)
        return next_end(self._state)

    def log_start_moved(self, offset: int, now: int) -> None:
        """Follow the log start offset after a fetch found its records deleted; nothing is written.

        Available records before it are archived. Acquired ones stay with their member, who may
        acknowledge them without an error and without effect; they are archived when their locks
        expire.
        """
        self._advance(now)
        move_log_start(self._state, offset)

    # ---- what is in memory ----

    @property
    def limits(self) -> Limits:
        """The group's settings in force."""
        return self._state.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._state.limits = limits

    @property
    def start_offset(self) -> int:
        """SPSO: the first offset that may still be delivered."""
        return self._state.start_offset

    @property
    def end_offset(self) -> int:
        """Exclusive end of what was acquired so far (SPEO + 1)."""
        return self._state.end_offset + 1 if self._state.batches else self._state.end_offset

    @property
    def delivery_complete_count(self) -> int:
        """Finished offsets at or after the start offset."""
        return self._state.delivery_complete_count

    @property
    def in_flight_span(self) -> int:
        """Offsets from start to end, finished ones and holes included, as the lock limit has it."""
        return in_flight_span(self._state)

    @property
    def next_lock_ends_ms(self) -> int | None:
        """When the next lock ends; None while nothing is acquired."""
        return next_end(self._state)

    def in_flight(self) -> list[InFlight]:
        """The offsets in flight from the start offset on, equal neighbours together."""
        found: list[InFlight] = []
        start = self.start_offset
        for run in (run for batch in self._state.batches for run in batch.runs):
            if run.last >= start:
                held = (run.member, run.deadline) if run.state == ACQUIRED else (None, None)
                state = DeliveryState(run.state)
                part = InFlight(max(run.first, start), run.last, state, run.deliveries, *held)
                last = found[-1] if found else None
                if last and (last.last_offset, *last[2:]) == (part.first_offset - 1, *part[2:]):
                    part = part._replace(first_offset=found.pop().first_offset)
                found.append(part)
        return found

    @property
    def epochs(self) -> tuple[int, int]:
        """The leader epoch and the state epoch."""
        return self._state.leader_epoch, self._state.state_epoch

    @property
    def acquired_count(self) -> int:
        """Acquired offsets from the start offset on."""
        start = self.start_offset
        return sum(
            run.last - max(run.first, start) + 1
            for batch in self._state.batches
            for run in batch.runs
            if run.state == ACQUIRED and run.last >= start
        )

    def state_of(self, offset: int) -> DeliveryState:
        """The state of any offset: archived before the start offset, available after the end.

        An offset between batches in flight that the log does not have counts as archived.
        """
        state = self._state
        if offset < state.start_offset:
            return DeliveryState.ARCHIVED
        at = state.floor(offset)
        if at >= 0 and state.batches[at].last >= offset:
            runs = state.batches[at].runs
            return next(DeliveryState(run.state) for run in runs if run.first <= offset <= run.last)
        beyond = not state.batches or offset > state.end_offset
        unknown = state.gap_window_active and offset >= state.gap_window_start
        return DeliveryState.AVAILABLE if beyond or unknown else DeliveryState.ARCHIVED

    def _advance(self, now: int) -> None:
        if now < self._state.now:
            raise InputError(
                f"time goes from {self._state.now} ms back to {now} ms; pass times that ascend"
            )
        advance(self._state, now)
