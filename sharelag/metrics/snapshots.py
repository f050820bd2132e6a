"""The last snapshot of each share partition: what a new coordinator begins with.

Kafka calls it a snapshot; the drafts call it a checkpoint, and its offset the share checkpoint
offset (KIP-932, "Recovering share-partition state and interactions with log cleaning").
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.metrics.columns import STATE, begins, present
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat

#: Columns that are those of its last record, and of its last snapshot.
_OF_LAST = (*STATE, "from_snapshot", "record_offset", "record_timestamp")
_OF_SNAPSHOT = {
    "snapshot_offset": "record_offset",
    "snapshot_timestamp": "record_timestamp",
    "snapshot_epoch": "snapshot_epoch",
}
#: What is counted behind the snapshot, and the kind of record that it is.
_SINCE = {"updates_since": "update", "rejected_since": "rejected"}


def snapshots_arrow(history: Arrow) -> pa.RecordBatch:
    """Return the last snapshot of each share partition, and how many records followed it.

    Parameters
    ----------
    history : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HISTORY`: all rows of some share partitions, each contiguous and in log
        order.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.SNAPSHOTS`, one row per share partition that exists, in the order of the
        history. Where no snapshot was seen its columns are null, and the counts are those of all
        records that were seen.
    """
    table = as_table(history)
    if not table.num_rows:
        return pa.RecordBatch.from_pylist([], schema=schemas.SNAPSHOTS)
    first = np.flatnonzero(begins(table))
    last = np.append(first[1:], table.num_rows) - 1
    exists = present(table, "snapshot_epoch")
    removed = _last_of(~exists, first)
    snapshot = _last_of(exists & _mask(pc.equal(table.column("record_kind"), "snapshot")), first)
    seen = snapshot > removed
    after = np.maximum(np.maximum(snapshot, removed), first - 1)
    rows = {name: flat(table.column(name)).take(pa.array(last)) for name in _OF_LAST}
    place = pa.array(snapshot, mask=~seen)
    rows |= {name: flat(table.column(of)).take(place) for name, of in _OF_SNAPSHOT.items()}
    for name, kind in _SINCE.items():
        total = np.append(0, np.cumsum(_mask(pc.equal(table.column("record_kind"), kind))))
        rows[name] = pa.array(total[last + 1] - total[after + 1])
    columns = [rows[field.name].cast(field.type) for field in schemas.SNAPSHOTS]
    found = pa.RecordBatch.from_arrays(columns, schema=schemas.SNAPSHOTS)
    return found.filter(pa.array(exists[last]))


def _last_of(chosen: NDArray[np.bool_], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the last chosen row of each share partition, or -1."""
    places = np.where(chosen, np.arange(len(chosen)), -1)
    return np.asarray(np.maximum.reduceat(places, first))


def _mask(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(flat(column).fill_null(False).to_numpy(zero_copy_only=False), bool)
