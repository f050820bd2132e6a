"""Load persisted state batches, as a new leader does."""

from __future__ import annotations

from collections.abc import Iterable

from sharelag.errors import InputError
from sharelag.model import TERMINAL_STATES, StateBatch
from sharelag.whatif.partition.movement import move_start_offset
from sharelag.whatif.partition.state import AVAILABLE, InFlightBatch, Run, State


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
                f"after offset {before}; "
                "take the batches as replay gives them"
            )
        if gap is None and first > before + 1:
            gap = before + 1
        before = last
        run = Run(first, last, delivery_state, count)
        state.add(InFlightBatch(first, last, [run]))
        state.count_complete(run)
    if not state.batches:
        return
    state.find_next_fetch_offset = True
    state.end_offset = before
    if gap is not None:
        state.gap_window_end, state.gap_window_start = before, gap
    move_start_offset(state)
