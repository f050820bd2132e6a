"""How many records of a batch that failed before are delivered together.

A batch that failed often is delivered in ever smaller parts, so that one bad record does not
archive its neighbours (poison records), and a record at its last attempt is delivered alone.
"""

from __future__ import annotations

from sharelag.whatif.partition.state import AVAILABLE, InFlightBatch, Run, State
from sharelag.whatif.partition.values import Acquired


def throttled(state: State, batch: InFlightBatch, first: int, last: int) -> bool:
    """Whether an available record failed too often (``shouldThrottleRecordsDelivery``)."""
    limit = state.limits.throttled_from
    if not batch.split:
        return batch.whole.state == AVAILABLE and batch.whole.deliveries >= limit
    within = (run for run in batch.runs if run.first <= last and run.last >= first)
    return any(run.state == AVAILABLE and run.deliveries >= limit for run in within)


def acquire_offsets(
    state: State,
    member: str,
    batch: InFlightBatch,
    first: int,
    last: int,
    limit: int | None,
    acquired: list[Acquired],
) -> int:
    """Acquire available offsets in ``first..last`` (``acquireSubsetBatchRecords``).

    Parameters
    ----------
    state : State
    member : str
    batch : InFlightBatch
    first, last : int
        What was fetched.
    limit : int or None
        A limit of offsets; None in mode ``batch_optimized``, where only the throttle
        counts.
    acquired : list of Acquired
        Grows by what was acquired, neighbours of one count as one.

    Returns
    -------
    int
        How many offsets were acquired.
    """
    attempts = state.limits.delivery_count_limit
    ceiling: int | None = None
    pieces: list[Run] = []
    taken = 0
    for run in batch.runs:
        begin, end = max(run.first, first), min(run.last, last)
        if run.state != AVAILABLE or begin > end:
            continue
        last_attempt = attempts > 2 and run.deliveries == attempts - 1
        if last_attempt and taken:
            break
        excess = run.deliveries - state.limits.throttled_from
        if excess >= 0 and ceiling is None:
            ceiling = max(1, (batch.last - batch.first + 1) >> (excess + 1))
        allowed = [1] if last_attempt else []
        # Kafka compares for equality: more taken before the first record that failed often means no
        # ceiling.
        allowed += [most - taken for most in (limit, ceiling) if most is not None and most > taken]
        number = min([end - begin + 1, *allowed])
        pieces.append(state.acquired(batch, begin, begin + number - 1, run.deliveries + 1, member))
        taken += number
        if number in allowed:
            break
    batch.put(pieces)
    acquired += _joined(pieces)
    return taken


def _joined(pieces: list[Run]) -> list[Acquired]:
    joined: list[Acquired] = []
    for piece in pieces:
        if joined and joined[-1][1:] == (piece.first - 1, piece.deliveries):
            joined[-1] = joined[-1]._replace(last_offset=piece.last)
        else:
            joined.append(Acquired(piece.first, piece.last, piece.deliveries))
    return joined
