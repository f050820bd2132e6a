"""Move the start offset and archive on the way; load what is persisted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharelag.errors import InputError
from sharelag.model import TERMINAL_STATES, StateBatch
from sharelag.whatif.partition.state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    InFlightBatch,
    OffsetRun,
    State,
)

_TERMINAL = (ACKNOWLEDGED, ARCHIVED)


def move_start_offset(state: State) -> bool:
    """Move the start over finished offsets (``maybeUpdateCachedStateAndOffsets``).

    After a complete batch it jumps to the next batch, since what lies between has no data, but not
    over a hole that may have been fetched before the load. Only complete batches leave memory.
    Returns whether it moved, or could have.
    """
    if not _can_move(state):
        return False
    finished, terminal = _finished(state)
    if finished == -1:
        return False
    last = state.batches[-1].last
    if finished == last:
        # Also when the log start moved beyond: then this moves the start offset back, as in Kafka.
        state.start_offset = state.end_offset = last + 1
        state.batches.clear()
        state.firsts.clear()
        state.delivery_complete_count = 0
        return True
    at = state.floor(finished)
    if finished == state.batches[at].last:
        at += 1
        state.start_offset = max(state.start_offset, state.firsts[at])
        if state.gap_window_active:
            state.start_offset = min(state.start_offset, state.gap_window_start)
    else:
        state.start_offset = max(state.start_offset, finished + 1)
    state.delivery_complete_count -= terminal
    del state.batches[:at], state.firsts[:at]
    return True


def move_log_start(state: State, offset: int) -> None:
    """Follow the log start offset after records were deleted (``updateCacheAndOffsets``).

    Available records before it are archived, acquired ones stay with their member. Nothing is
    written.
    """
    if offset <= state.start_offset:
        return
    if not state.batches:
        state.start_offset = state.end_offset = offset
        state.delivery_complete_count = 0
        return
    passed = _terminal_between(state, state.start_offset, offset - 1)
    if archive(state, state.batches, state.start_offset, offset - 1, AVAILABLE, counted=False):
        state.find_next_fetch_offset = True
    state.start_offset = offset
    state.delivery_complete_count -= passed
    state.end_offset = max(state.end_offset, offset)


def archive_stale(state: State, fetch_offset: int, base_offset: int) -> None:
    """Archive available records that the log lost: a fetch began at ``base_offset`` instead."""
    if not state.batches or fetch_offset >= base_offset:
        return
    at = state.floor(fetch_offset)
    first = state.firsts[at] if at >= 0 and state.batches[at].last >= fetch_offset else fetch_offset
    if archive(
        state,
        state.between(first, base_offset - 1),
        fetch_offset,
        base_offset - 1,
        AVAILABLE,
        counted=True,
    ):
        state.find_next_fetch_offset = True


def archive(
    state: State,
    batches: Sequence[InFlightBatch],
    first: int,
    last: int,
    initial: int,
    *,
    counted: bool,
) -> bool:
    """Archive what is in the state ``initial`` in ``first..last`` (``archiveRecords``).

    ``batches`` say where to look, in offset order. Where ``counted``, the delivery complete count
    grows; Kafka then counts what lies before the start offset, too. Returns whether anything was
    archived.
    """
    archived = False
    for batch in batches:
        if batch.first > last:
            break
        if not batch.split:
            if batch.whole.state != initial:
                continue
            if batch.first < first or batch.last > last:
                state.split(batch)
        pieces = [
            OffsetRun(max(run.first, first), min(run.last, last), ARCHIVED, run.deliveries)
            for run in batch.runs
            if run.state == initial and run.first <= last and run.last >= first
        ]
        if pieces:
            archived = True
            batch.put(pieces)
            if counted:
                state.delivery_complete_count += sum(
                    piece.last - piece.first + 1 for piece in pieces
                )
    return archived


def _can_move(state: State) -> bool:
    """Whether the state at the start offset is terminal (``canMoveStartOffset``)."""
    at = state.floor(state.start_offset)
    if at < 0:  # nothing in flight, or an unknown hole at the start offset
        return False
    batch = state.batches[at]
    if not batch.split:
        return batch.whole.state in _TERMINAL
    # Kafka fails here, and leaves it at that, when the log start moved beyond a split batch.
    return any(
        run.first <= state.start_offset <= run.last and run.state in _TERMINAL for run in batch.runs
    )


def _finished(state: State) -> tuple[int, int]:
    """The last finished offset at the front, or -1, and how many of them count as complete."""
    finished, terminal = -1, 0
    for batch in state.batches:
        if state.gap_window_active and batch.last >= state.gap_window_start:
            break
        for run in batch.runs:
            if run.state not in _TERMINAL:
                return finished, terminal
            finished = run.last
            terminal += max(run.last - max(run.first, state.start_offset) + 1, 0)
    return finished, terminal


def _terminal_between(state: State, first: int, last: int) -> int:
    return sum(
        max(min(run.last, last) - max(run.first, first) + 1, 0)
        for batch in state.batches
        if batch.first <= last
        for run in batch.runs
        if run.state in _TERMINAL
    )


def take_over(state: State, batches: Iterable[StateBatch]) -> None:
    """Put persisted batches in flight, without owners (``SharePartition.maybeInitialize``).

    Raises
    ------
    InputError
        Batches that Kafka cannot load: before the start offset, overlapping, or in a state it does
        not write.
    """
    before, gap = state.start_offset - 1, None
    for first, last, delivery_state, count in batches:
        if first <= before or last < first or delivery_state not in (AVAILABLE, *TERMINAL_STATES):
            raise InputError(
                f"Kafka cannot load the state batch {first}..{last} in state {delivery_state} "
                f"after offset {before}; take the batches as replay gives them"
            )
        if gap is None and first > before + 1:
            gap = before + 1
        before = last
        run = OffsetRun(first, last, delivery_state, count)
        state.add(InFlightBatch(first, last, [run]))
        state.count_complete(run)
    if not state.batches:
        return
    state.find_next_fetch_offset = True
    state.end_offset = before
    if gap is not None:
        state.gap_window_end, state.gap_window_start = before, gap
    move_start_offset(state)
