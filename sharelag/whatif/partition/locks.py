"""Acquisition locks that expire, and when the next one is due."""

from __future__ import annotations

from contextlib import suppress
from heapq import heappop

from sharelag.whatif.partition.acknowledge import released
from sharelag.whatif.partition.movement import move_start_offset
from sharelag.whatif.partition.state import ACQUIRED, ARCHIVED, InFlightBatch, Lock, Run, State
from sharelag.whatif.partition.values import StateNotWrittenError, WrittenRun


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


def _held(lock: Lock) -> list[Run]:
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


def _expire(state: State, lock: Lock, held: list[Run]) -> None:
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


def _release(state: State, batch: InFlightBatch, runs: list[Run]) -> None:
    pieces = [released(state, run) for run in runs]
    batch.put(pieces)
    for piece in pieces:
        state.count_complete(piece)
        if piece.state != ARCHIVED:
            state.redeliver_from(piece.first)
    with suppress(StateNotWrittenError):  # the lock is over whether or not the coordinator knows
        state.write(WrittenRun(*piece[:4], batch.split) for piece in pieces)
    move_start_offset(state)
