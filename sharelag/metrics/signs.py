"""Signs of trouble in a span of history: releases, archived records, resets, with first times."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.schemas import SHARE_PARTITION, SHARE_PARTITION_COLUMNS, TIMESTAMP, Arrow
from sharelag.schemas.arrow import as_table

_TIMES = ("first_released", "first_archived", "first_reset", "last_finished")
_SUMS = ("released", "archived", "finished")

#: What happened to one share partition since a moment. Times are null if it did not happen.
SIGNS = pa.schema(
    [
        *SHARE_PARTITION_COLUMNS,
        *[(name, pa.int64()) for name in _SUMS],  # offsets; null where unknown
        *[(name, TIMESTAMP) for name in _TIMES],
        ("first_record", TIMESTAMP),
        ("last_record", TIMESTAMP),
        ("is_born", pa.bool_()),  # created by the first record in the span
        # records with others possibly missing before them, or with unknown changes
        ("missing", pa.int64()),
    ]
)


def signs_arrow(history: Arrow, since: datetime) -> pa.Table:
    """Return what happened to each share partition in a span of history.

    Parameters
    ----------
    history : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HISTORY`: all rows of some share partitions, each in log order.
    since : datetime
        Earlier rows are ignored.

    Returns
    -------
    pyarrow.Table
        `SIGNS`, one row per share partition with records in the span.
    """
    schemas.require(history, schemas.HISTORY, "history")
    table = as_table(history).select(schemas.HISTORY.names).cast(schemas.HISTORY)
    time = table.column("record_timestamp")
    table = table.filter(pc.greater_equal(time, pa.scalar(since)))
    time = table.column("record_timestamp")
    happened = {
        "first_released": pc.greater(table.column("released"), 0),
        "first_archived": pc.greater(table.column("archived"), 0),
        "first_reset": is_reset(table),
        "last_finished": pc.greater(table.column("finished"), 0),
    }
    for name, where in happened.items():
        table = table.append_column(
            name, pc.if_else(where.fill_null(False), time, pa.scalar(None, TIMESTAMP))
        )
    table = table.append_column("missing", _is_missing(table, since).cast(pa.int64()))
    ends = [(name, "max" if name == "last_finished" else "min") for name in _TIMES]
    firsts = [
        ("replaced", "first"),
        ("snapshot_epoch", "first"),
        ("record_timestamp", "min"),
        ("record_timestamp", "max"),
    ]
    requested = [*((name, "sum") for name in (*_SUMS, "missing")), *ends, *firsts]
    # Threads would change the order.
    found = table.group_by(list(SHARE_PARTITION), use_threads=False).aggregate(requested)
    born = pc.and_(
        found.column("replaced_first"), pc.equal(found.column("snapshot_epoch_first"), 0)
    )
    columns = {name: found.column(name) for name in SHARE_PARTITION}
    columns["is_born"] = born.fill_null(False)
    columns |= {name: found.column(f"{name}_sum") for name in (*_SUMS, "missing")}
    columns |= {name: found.column(f"{name}_{how}") for name, how in ends}
    columns["first_record"] = found.column("record_timestamp_min")
    columns["last_record"] = found.column("record_timestamp_max")
    return pa.table([columns[name] for name in SIGNS.names], names=SIGNS.names).cast(SIGNS)


def is_reset(history: pa.Table) -> pa.ChunkedArray:
    """Whether a state was replaced; unknown for the first remaining record of a share partition."""
    # A share partition starts with epoch 0.
    later = pc.greater(history.column("snapshot_epoch"), 0)
    return pc.and_(pc.and_(history.column("replaced"), history.column("follows")), later)


def _is_missing(history: pa.Table, begin: datetime) -> pa.ChunkedArray:
    """Whether records may be missing before a row of the span, or its changes are unknown."""
    later = pc.greater(history.column("record_timestamp"), pa.scalar(begin))
    exists = pc.not_equal(history.column("record_kind"), "tombstone")
    # Changes are unknown before the first remaining record of a share partition, and while a state
    # is partial.
    missing = pc.invert(pc.and_(history.column("follows"), history.column("from_snapshot")))
    # Without a start offset nothing was fetched yet, so replacing the state releases nothing.
    counts = pc.and_not(history.column("start_offset").is_valid(), history.column("replaced"))
    changes = pc.and_(history.column("released").is_valid(), history.column("archived").is_valid())
    found = pc.or_(missing, pc.and_not(counts, changes))
    return pc.and_(pc.and_(later, exists), found).fill_null(False)
