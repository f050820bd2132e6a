"""Acknowledgements, share sessions and locks that end: what they change, and what is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import heappop
from itertools import groupby

from sharelag.whatif.partition.movement import move_start_offset
from sharelag.whatif.partition.state import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    InFlightBatch,
    Lock,
    OffsetRun,
    State,
)
from sharelag.whatif.partition.values import (
    AcknowledgeError,
    Acknowledgement,
    AcknowledgeType,
    InvalidAcknowledgementError,
    InvalidRecordStateError,
    StateNotWrittenError,
    WrittenRun,
)

_STATES = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


def acknowledge(state: State, member: str, acknowledgements: Sequence[Acknowledgement]) -> None:
    """Acknowledge records (``SharePartition.acknowledge``); see `SharePartition.acknowledge`."""
    _check(acknowledgements)
    transition = Transition(state)
    try:
        for acknowledgement in acknowledgements:
            if acknowledgement.last_offset >= state.start_offset:
                for batch in _batches(state, acknowledgement):
                    if batch.last >= state.start_offset:
                        _acknowledge_batch(transition, member, acknowledgement, batch)
    except AcknowledgeError:
        transition.undo()
        raise
    transition.finish()


def check_held(state: State, member: str, acknowledgements: Sequence[Acknowledgement]) -> None:
    """Raise as `acknowledge` would for what the member has not acquired, and change nothing."""
    _check(acknowledgements)
    for acknowledgement in acknowledgements:
        low = max(acknowledgement.first_offset, state.start_offset)
        if acknowledgement.last_offset >= low:
            for batch in _batches(state, acknowledgement):
                for run in batch.runs:
                    if run.last >= low and run.first <= acknowledgement.last_offset:
                        _check_owner(run, member)


def release_session(state: State, member: str) -> None:
    """Give back all that a member has acquired (``releaseAcquiredRecords``)."""
    transition = Transition(state)
    for batch in list(state.batches):
        if not batch.split and batch.whole.member == member and state.holds_start_offset(batch):
            state.split(batch)
        held = [run for run in batch.runs if run.state == ACQUIRED and run.member == member]
        pieces = [piece for run in held for piece in _at_start_offset(run, state.start_offset)]
        transition.apply(batch, [(run, released(state, run)) for run in pieces])
    transition.finish()


def released(state: State, run: OffsetRun) -> OffsetRun:
    """An acquired run given back: available, or archived after the last attempt."""
    over = run.deliveries >= state.limits.delivery_count_limit or run.last < state.start_offset
    return OffsetRun(run.first, run.last, ARCHIVED if over else AVAILABLE, run.deliveries)


class Transition:
    """Changes of one request: they are written together, and undone together when that fails."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.written: list[WrittenRun] = []
        self.changed: list[tuple[InFlightBatch, list[OffsetRun]]] = []
        self.complete_before = state.delivery_complete_count

    def apply(self, batch: InFlightBatch, changes: Sequence[tuple[OffsetRun, OffsetRun]]) -> None:
        """Put the new runs in the place of the old ones of one batch, in offset order."""
        if not changes:
            return
        self.changed.append((batch, [old for old, _ in changes]))
        batch.put([new for _, new in changes])
        for _, new in changes:
            self.written.append(WrittenRun(*new[:4], batch.split))
            self.state.count_complete(new)

    def undo(self) -> None:
        """Acquired as before, with the same locks; renewed locks and split batches stay so."""
        for batch, runs in reversed(self.changed):
            batch.put(runs)
        self.state.delivery_complete_count = self.complete_before

    def finish(self) -> None:
        """Write, then let the start offset move. Nothing to write is nothing to do."""
        if not self.written:
            return
        try:
            self.state.write(self.written)
        except StateNotWrittenError:
            self.undo()
            raise
        for run in self.written:
            if run.delivery_state == AVAILABLE:
                self.state.redeliver_from(run.first_offset)
        move_start_offset(self.state)


def _check(acknowledgements: Sequence[Acknowledgement]) -> None:
    """Check what the broker checks first (``KafkaApis.validateAcknowledgementBatches``)."""
    before = -1
    for first, last, types in acknowledgements:
        listed = (types,) if isinstance(types, int) else types
        if first > last or first < before:
            raise InvalidAcknowledgementError(
                f"{first}..{last} ends before it begins, or before {before}: sort them"
            )
        if len(listed) != 1 and len(listed) != last - first + 1:
            raise InvalidAcknowledgementError(
                f"{len(listed)} types for {first}..{last}: give one, or one an offset"
            )
        if min(listed) < AcknowledgeType.GAP or max(listed) > AcknowledgeType.RENEW:
            raise InvalidAcknowledgementError(
                f"a type of {first}..{last} is not one of 0..{AcknowledgeType.RENEW:d}"
            )
        before = last


def _batches(state: State, acknowledgement: Acknowledgement) -> list[InFlightBatch]:
    """The batches in flight that it is about (``fetchSubMapForAcknowledgementBatch``)."""
    first, last, _ = acknowledgement
    at = state.floor(first)
    if at < 0 and first < state.start_offset:
        at = state.floor(state.start_offset)
    if at < 0:
        raise InvalidRecordStateError(
            f"{first}..{last} is not in flight; fetch it again before it is acknowledged"
        )
    batches = state.between(state.firsts[at], last)
    if batches[-1].last < last:
        raise InvalidAcknowledgementError(
            f"{first}..{last} goes past {batches[-1].last}, the last acquired offset; "
            f"acknowledge what was delivered"
        )
    return batches


def _acknowledge_batch(
    transition: Transition, member: str, acknowledgement: Acknowledgement, batch: InFlightBatch
) -> None:
    state, (first, last, types) = transition.state, acknowledgement
    if not batch.split:
        _check_owner(batch.whole, member)
        one = types if isinstance(types, int) else types[0] if len(types) == 1 else None
        if (
            one is not None
            and first <= batch.first
            and batch.last <= last
            and not state.holds_start_offset(batch)
        ):
            if one != AcknowledgeType.RENEW:
                transition.apply(batch, [(batch.whole, _acknowledged(state, batch.whole, one))])
            else:
                _check_renewal(state)
                batch.runs = [_renewed(state, batch, batch.whole)]
            return
        state.split(batch)
    _acknowledge_offsets(transition, member, acknowledgement, batch)


def _acknowledge_offsets(
    transition: Transition, member: str, acknowledgement: Acknowledgement, batch: InFlightBatch
) -> None:
    state, renewed, changes = transition.state, [], []
    low = max(acknowledgement.first_offset, state.start_offset)
    try:
        for run in batch.runs:
            begin, end = max(run.first, low), min(run.last, acknowledgement.last_offset)
            if begin > end:
                continue
            _check_owner(run, member)
            for first, last, one in _types(acknowledgement, begin, end):
                old = run.cut(first, last)
                if one != AcknowledgeType.RENEW:
                    changes.append((old, _acknowledged(state, old, one)))
                else:
                    _check_renewal(state)
                    renewed.append(_renewed(state, batch, old))
    finally:  # Kafka does not take back a renewal when a later offset makes the request fail
        batch.put(renewed)
    transition.apply(batch, changes)


def _types(
    acknowledgement: Acknowledgement, first: int, last: int
) -> Iterator[tuple[int, int, int]]:
    """The types of the offsets ``first..last``, equal neighbours together."""
    types = acknowledgement.types
    if isinstance(types, int) or len(types) == 1:
        yield first, last, types if isinstance(types, int) else types[0]
        return
    begin = first
    skip = acknowledgement.first_offset
    for one, group in groupby(types[first - skip : last - skip + 1]):
        end = begin + sum(1 for _ in group)
        yield begin, end - 1, one
        begin = end


def _acknowledged(state: State, run: OffsetRun, one: int) -> OffsetRun:
    if one == AcknowledgeType.RELEASE:
        return released(state, run)
    return OffsetRun(run.first, run.last, _STATES[AcknowledgeType(one)], run.deliveries)


def _renewed(state: State, batch: InFlightBatch, run: OffsetRun) -> OffsetRun:
    return state.locked(batch, run._replace(deadline=state.now + state.limits.lock_duration_ms))


def _check_owner(run: OffsetRun, member: str) -> None:
    if run.state != ACQUIRED or run.member != member:
        raise InvalidRecordStateError(
            f"{run.first}..{run.last} is not acquired by {member} any more; "
            "what was not finished will be delivered again"
        )


def _check_renewal(state: State) -> None:
    if not state.limits.renew_enabled:
        raise InvalidRecordStateError(
            "renewing locks is not enabled; set share.renew.acknowledge.enable of the group"
        )


def _at_start_offset(run: OffsetRun, start: int) -> list[OffsetRun]:
    """A run, cut where the start offset lies inside: before it the log has no records any more."""
    if run.first < start <= run.last:
        return [run.cut(run.first, start - 1), run.cut(start, run.last)]
    return [run]


def advance(state: State, now: int) -> None:
    """Let locks expire that end until ``now``, in the order of their ends."""
    while state.locks and state.locks[0].deadline <= now:
        lock = heappop(state.locks)
        held = _held(lock)
        if held:
            state.now = max(state.now, lock.deadline)
            _expire(state, lock, held)
    state.now = max(state.now, now)


def next_end(state: State) -> int | None:
    """When the next lock ends, in ms; None while nothing is acquired."""
    while state.locks and not _held(state.locks[0]):
        heappop(state.locks)
    return state.locks[0].deadline if state.locks else None


def _held(lock: Lock) -> list[OffsetRun]:
    """The runs that a lock still holds: not acknowledged, renewed, or locked anew since."""
    if lock.batch.split != lock.per_offset:
        return []
    # The same difference elsewhere in the batch belongs to the next lock.
    return [
        run
        for run in lock.batch.runs
        if run.state == ACQUIRED
        and run.lock - run.first == lock.number - lock.first
        and run.first <= lock.last
        and run.last >= lock.first
    ]


def _expire(state: State, lock: Lock, held: list[OffsetRun]) -> None:
    """``releaseAcquisitionLockOnTimeout``: a write a batch, or an offset of a split batch."""
    batch = lock.batch
    if not lock.per_offset:
        if state.holds_start_offset(batch):
            state.split(batch)  # and yet it is one write, since it was one lock
            start = state.start_offset
            _release(
                state,
                batch,
                [batch.whole.cut(batch.first, start - 1), batch.whole.cut(start, batch.last)],
            )
        else:
            _release(state, batch, [batch.whole])
        return
    for run in held:
        for offset in range(run.first, run.last + 1):
            _release(state, batch, [run.cut(offset, offset)])


def _release(state: State, batch: InFlightBatch, runs: list[OffsetRun]) -> None:
    pieces = [released(state, run) for run in runs]
    batch.put(pieces)
    for piece in pieces:
        state.count_complete(piece)
        if piece.state != ARCHIVED:
            state.redeliver_from(piece.first)
    with suppress(StateNotWrittenError):  # the lock is over whether or not the coordinator knows
        state.write(WrittenRun(*piece[:4], batch.split) for piece in pieces)
    move_start_offset(state)
