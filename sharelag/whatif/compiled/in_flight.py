"""What a share partition holds in memory, read from that of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sharelag.model import DeliveryState
from sharelag.whatif.compiled import batches
from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.memory import Core


class InFlight(NamedTuple):
    """Offsets ``first_offset..last_offset`` that are in flight in one state."""

    first_offset: int
    last_offset: int
    delivery_state: DeliveryState
    delivery_count: int
    member: str | None  # who has acquired them
    lock_ends_ms: int | None  # when they are taken back


class Batch(NamedTuple):
    """Offsets first acquired together, or loaded as one state batch (``InFlightBatch``).

    Once it was split, each offset has its own state; ``runs`` are equal neighbours.
    """

    first_offset: int
    last_offset: int
    is_split: bool
    runs: list[InFlight]


def batches_in(core: Core, p: int, members: Sequence[str]) -> list[Batch]:
    """Return the batches in flight of a place; ``members`` are ids by the number of a life."""
    found: list[Batch] = []
    offset = core[p + at.FIRST]
    while core[p + at.IN_MEMORY] and offset <= core[p + at.LAST]:
        batch = batches.slot_of(core, p, offset)
        last, is_split = core[batch + at.BATCH_LAST], core[batch + at.SPLIT] == 1
        runs: list[InFlight] = []
        for first in range(offset, last + 1) if is_split else (offset,):
            slot = batches.slot_of(core, p, first)
            state = DeliveryState(core[slot + at.STATE])
            is_held = state == DeliveryState.ACQUIRED
            run = InFlight(
                first,
                first if is_split else last,
                state,
                core[slot + at.COUNT],
                members[core[slot + at.OWNER]] if is_held else None,
                core[slot + at.DEADLINE] if is_held else None,
            )
            _append(runs, run)
        found.append(Batch(offset, last, is_split, runs))
        offset = batches.after_hole(core, p, last + 1)
    return found


def in_flight(core: Core, p: int, members: Sequence[str]) -> list[InFlight]:
    """Return the offsets in flight from the start offset on, equal neighbours together."""
    found: list[InFlight] = []
    start = core[p + at.START]
    for batch in batches_in(core, p, members):
        for run in batch.runs:
            if run.last_offset >= start:
                _append(found, run._replace(first_offset=max(run.first_offset, start)))
    return found


def _append(runs: list[InFlight], run: InFlight) -> None:
    last = runs[-1] if runs else None
    if last and (last.last_offset, *last[2:]) == (run.first_offset - 1, *run[2:]):
        run = run._replace(first_offset=runs.pop().first_offset)
    runs.append(run)
