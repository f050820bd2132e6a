"""The layout of records and states in the kernels' arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Kinds of records.
SNAPSHOT = 0
UPDATE = 1
TOMBSTONE = 2
UPDATE_TOMBSTONE = 3  # Kafka never writes it and cannot load it

# Numbers of a state: persisted ones,
SNAPSHOT_EPOCH, STATE_EPOCH, LEADER_EPOCH, START_OFFSET, COMPLETE_COUNT, CREATED, WRITTEN = range(7)
# numbers derived from its batches,
EFFECTIVE_START, WINDOW_END, FROM_SNAPSHOT, REJECTED, LAST_ROW = range(7, 12)
AVAILABLE, COMPLETE, RUNS, MAX_COUNT, HEAD_COUNT = range(12, 17)
# whether it exists, whether the last record changed it, whether its batches are a list that
# `merge_rows` can extend, the part of its place that they and their seams occupy, whether
# its history has had any, whether they were merged since they were written; and its place: the
# start in the heap, and its capacity in batches.
EXISTS, UPDATED, PLAIN, BEGIN, END, SEAM, SEAM_END, IS_FULL, MERGED, PLACE, ROOM = range(17, 28)
STATE_COLUMNS = 28

# Counts of changes by an update: offsets archived, released, and deliveries beyond the first.
ARCHIVED, RELEASED, REDELIVERED = range(3)

# Columns of a record: the first seven numbers of a state, its kind, and its number of batches.
KIND, BATCHES = 7, 8
RECORD_COLUMNS = 9


class Columns(NamedTuple):
    """Records for the kernels: Arrow's own buffers, with Kafka's sentinels instead of nulls."""

    kind: NDArray[np.int8]
    snapshot_epoch: NDArray[np.int32]
    state_epoch: NDArray[np.int32]
    leader_epoch: NDArray[np.int32]
    start_offset: NDArray[np.int64]
    complete_count: NDArray[np.int32]
    created: NDArray[np.int64]
    written: NDArray[np.int64]
    #: The start of each record's batches, and their four columns.
    batch_at: NDArray[np.int32]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    delivery_state: NDArray[np.int8]
    delivery_count: NDArray[np.int16]


def work_of(records: Columns, states: int = 0) -> int:
    """Return the work of replaying records and storing this many states, for `ready`."""
    return 100 * (len(records.kind) + states) + 20 * len(records.first)
