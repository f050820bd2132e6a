"""How the kernels see records and states: which number stands where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Kinds of records.
SNAPSHOT = 0
UPDATE = 1
TOMBSTONE = 2
UPDATE_TOMBSTONE = 3  # Kafka never writes it and cannot load it

# The numbers of a state: as persisted ...
SNAPSHOT_EPOCH, STATE_EPOCH, LEADER_EPOCH, START_OFFSET, COMPLETE_COUNT, CREATED, WRITTEN = range(7)
# ... what follows from its batches ...
EFFECTIVE_START, WINDOW_END, FROM_SNAPSHOT, REJECTED, LAST_ROW = range(7, 12)
AVAILABLE, COMPLETE, RUNS, MAX_COUNT, HEAD_COUNT = range(12, 17)
# ... whether there is one, whether the last record changed it, whether its batches are a list that
# `merge_rows` can extend, which part of its place they and their seams are, whether a history saw
# any, whether they were merged since they were written; and the place: where in the heap it begins,
# and how many batches fit.
EXISTS, UPDATED, PLAIN, BEGIN, END, SEAM, SEAM_END, IS_FULL, MERGED, PLACE, ROOM = range(17, 28)
STATE_COLUMNS = 28

# What an update changed: offsets archived, given back, and deliveries that ended beyond the first.
ARCHIVED, RELEASED, REDELIVERED = range(3)

# Columns of a record: the first seven numbers of a state, its kind, and how many batches it has.
KIND, BATCHES = 7, 8
RECORD_COLUMNS = 9


class Columns(NamedTuple):
    """Records as the kernels read them: Arrow's own buffers, with Kafka's values for nulls."""

    kind: NDArray[np.int8]
    snapshot_epoch: NDArray[np.int32]
    state_epoch: NDArray[np.int32]
    leader_epoch: NDArray[np.int32]
    start_offset: NDArray[np.int64]
    complete_count: NDArray[np.int32]
    created: NDArray[np.int64]
    written: NDArray[np.int64]
    #: Where the batches of each record begin, and their four columns.
    batch_at: NDArray[np.int32]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    delivery_state: NDArray[np.int8]
    delivery_count: NDArray[np.int16]


def work_of(records: Columns, states: int = 0) -> int:
    """Return how much it is to replay records and store so many states, for `ready`."""
    return 100 * (len(records.kind) + states) + 20 * len(records.first)
