"""What is in flight, and the state of any offset."""

from __future__ import annotations

from typing import NamedTuple

from sharelag.model import DeliveryState
from sharelag.whatif.partition.state import ACQUIRED, Run, State


class InFlight(NamedTuple):
    """Offsets ``first_offset..last_offset`` that are in flight in one state."""

    first_offset: int
    last_offset: int
    delivery_state: DeliveryState
    delivery_count: int
    member: str | None  # who has acquired them
    lock_ends_ms: int | None  # when they are taken back


def in_flight(state: State) -> list[InFlight]:
    """See `SharePartition.in_flight`."""
    found: list[InFlight] = []
    for batch in state.batches:
        for run in batch.runs:
            if run.last >= state.start_offset:
                part = _as_in_flight(run, max(run.first, state.start_offset))
                last = found[-1] if found else None
                if last and (last.last_offset, *last[2:]) == (part.first_offset - 1, *part[2:]):
                    part = part._replace(first_offset=found.pop().first_offset)
                found.append(part)
    return found


def acquired_count(state: State) -> int:
    """See `SharePartition.acquired_count`."""
    start = state.start_offset
    return sum(
        run.last - max(run.first, start) + 1
        for batch in state.batches
        for run in batch.runs
        if run.state == ACQUIRED and run.last >= start
    )


def state_of(state: State, offset: int) -> DeliveryState:
    """See `SharePartition.state_of`."""
    if offset < state.start_offset:
        return DeliveryState.ARCHIVED
    at = state.floor(offset)
    if at >= 0 and state.batches[at].last >= offset:
        return next(
            DeliveryState(run.state)
            for run in state.batches[at].runs
            if run.first <= offset <= run.last
        )
    beyond = not state.batches or offset > state.end_offset
    unknown = state.gap_window_active and offset >= state.gap_window_start
    return DeliveryState.AVAILABLE if beyond or unknown else DeliveryState.ARCHIVED


def _as_in_flight(run: Run, first: int) -> InFlight:
    state = DeliveryState(run.state)
    if state != ACQUIRED:
        return InFlight(first, run.last, state, run.deliveries, None, None)
    return InFlight(first, run.last, state, run.deliveries, run.member, run.deadline)
