"""Records of aborted transactions that a group with ``read_committed`` acquires."""

from __future__ import annotations

from collections.abc import Sequence

from sharelag.whatif.partition.movement import archive
from sharelag.whatif.partition.state import ACQUIRED, State
from sharelag.whatif.partition.values import Acquired, LogBatch


def without_aborted(
    state: State, acquired: list[Acquired], aborted: Sequence[LogBatch]
) -> list[Acquired]:
    """Archive aborted record batches as they are acquired, and leave them out of what is delivered.

    Who holds them: records that another member has acquired are archived as well.
    """
    for batch in aborted:
        at = state.floor(batch.base_offset)
        if at < 0:
            return []  # Kafka fails this fetch: the records stay acquired until their locks expire
        within = state.between(state.firsts[at], batch.last_offset)
        archive(state, within, batch.base_offset, batch.last_offset, ACQUIRED, counted=True)
    return [part for run in acquired for part in _outside(run, aborted)]


def _outside(run: Acquired, aborted: Sequence[LogBatch]) -> list[Acquired]:
    parts, begin = [], run.first_offset
    for base, last in aborted:
        if last < begin or base > run.last_offset:
            continue
        if base > begin:
            parts.append(Acquired(begin, base - 1, run.delivery_count))
        begin = last + 1
    if begin <= run.last_offset:
        parts.append(Acquired(begin, run.last_offset, run.delivery_count))
    return parts
