"""Log that could be deleted: offsets that every share group has finished.

KIP-932 leaves log cleaning by start offsets to the future: Kafka deletes only by retention,
whatever share groups have finished. Consumer groups and other readers of a topic are unknown here,
so the result is valid only for topics that only share groups read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import numbers
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, one_batch

#: One topic partition.
RECLAIMABLE = pa.schema(
    [
        ("topic", pa.string()),  # null: no offsets for the topic id
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("groups", pa.int64()),  # share groups that have a state of it
        ("log_start_offset", pa.int64()),
        # the lowest among them; null: that of one of them is unknown
        ("start_offset", pa.int64()),
        ("group_id", pa.string()),  # the group with that offset; of several the first by name
        ("reclaimable", pa.int64()),  # offsets from the log start to there
        ("as_of", schemas.TIMESTAMP),
    ]
)
_PLACE = ["topic", "topic_id", "partition"]
_AGGREGATES = {
    "groups": ("group_id", "count_distinct"),
    "group_id": ("group_id", "first"),
    "start_offset": ("start_offset", "min"),
    "log_start_offset": ("log_start_offset", "max"),
    "as_of": ("as_of", "min"),
}


def reclaimable_arrow(lag: Arrow) -> pa.RecordBatch:
    """Return the offsets of each topic partition below the start offsets of all share groups.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG` of all share groups: a missing one could still need these records.

    Returns
    -------
    pyarrow.RecordBatch
        `RECLAIMABLE`, sorted by topic and partition. Offsets, not bytes: record sizes are unknown.
        Null if a group has fetched nothing yet: its ``share.auto.offset.reset`` decides where it
        starts.
    """
    schemas.require(lag, schemas.LAG, "lag")
    table = as_table(lag).sort_by([("start_offset", "ascending"), ("group_id", "ascending")])
    unknown_counts = pc.ScalarAggregateOptions(skip_nulls=False)
    wanted = [
        (name, how, unknown_counts if how == "min" else None) for name, how in _AGGREGATES.values()
    ]
    grouped = table.group_by(_PLACE, use_threads=False).aggregate(wanted)
    columns = {
        name: grouped.column(f"{column}_{how}") for name, (column, how) in _AGGREGATES.items()
    }
    columns |= {name: grouped.column(name) for name in _PLACE}
    lowest = pc.is_valid(columns["start_offset"])
    columns["group_id"] = pc.if_else(lowest, columns["group_id"], pa.scalar(None, pa.string()))
    found = pa.table(columns)
    (start, has_start), (begin, has_begin) = (
        numbers(found, "start_offset"),
        numbers(found, "log_start_offset"),
    )
    passed = pa.array(np.maximum(start - begin, 0), mask=~(has_start & has_begin))
    found = found.append_column("reclaimable", passed).select(RECLAIMABLE.names).cast(RECLAIMABLE)
    return one_batch(found.sort_by([(name, "ascending") for name in _PLACE]))
