"""Records of one share partition, brought together: they are far apart in their columns.

Reading many of them at once lets the processor wait for all at the same time; replaying each as it
comes would wait for every one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sharelag.compiled import kernel
from sharelag.replay.layout import (
    BATCHES,
    BATCHES_END,
    COMPLETE_COUNT,
    CREATED,
    KIND,
    LEADER_EPOCH,
    RECORD_COLUMNS,
    SNAPSHOT_EPOCH,
    START_OFFSET,
    STATE_EPOCH,
    WRITTEN,
)
from sharelag.replay.merge import FIRST, LAST, RANK, rank_of

#: How many records are gathered at once.
BLOCK = 128


@kernel
def room() -> Any:
    """Return the two arrays that `gather` fills; it returns a larger second one when needed."""
    return np.empty((BLOCK, RECORD_COLUMNS), np.int64), np.empty((3, 4096), np.int64)


@kernel
def gather(order: Any, begin: int, end: int, c: Any, records: Any, batches: Any) -> Any:
    """Copy records ``order[begin:end]``, at most `BLOCK` of them.

    Returns
    -------
    batches
        The matrix, which may have grown.
    """
    size = 0
    for x in range(begin, end):
        i = order[x]
        now = records[x - begin]
        now[SNAPSHOT_EPOCH], now[STATE_EPOCH] = c.snapshot_epoch[i], c.state_epoch[i]
        now[LEADER_EPOCH], now[START_OFFSET] = c.leader_epoch[i], c.start_offset[i]
        now[COMPLETE_COUNT], now[CREATED] = c.complete_count[i], c.created[i]
        now[WRITTEN], now[KIND] = c.written[i], c.kind[i]
        now[BATCHES] = c.batch_at[i]
        now[BATCHES_END] = c.batch_at[i + 1]
        size += now[BATCHES_END] - now[BATCHES]
    if size > batches.shape[1]:
        batches = np.empty((3, 2 * size), np.int64)
    first, last, rank = batches[FIRST], batches[LAST], batches[RANK]
    at = 0
    for x in range(end - begin):
        here = at
        for b in range(records[x, BATCHES], records[x, BATCHES_END]):
            first[at], last[at] = c.first[b], c.last[b]
            rank[at] = rank_of(c.delivery_state[b], c.delivery_count[b])
            at += 1
        records[x, BATCHES], records[x, BATCHES_END] = here, at
    return batches
