"""Convert records to the inputs of the compiled state machine, and its output to a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.model import NO_TIMESTAMP, UNINITIALIZED_START_OFFSET
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT as _NO_COUNT
from sharelag.replay import kernels as k

#: Identifies a share partition; its records normally are in one state partition.
KEY = ("topic", "record_partition", "group_id", "topic_id", "partition")


def kernel_columns(
    table: pa.RecordBatch,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return kinds, numbers and batches of records, and where the batches of each begin."""
    return kinds_of(table), _numbers(table), *_batches(table.column("state_batches"))


def by_share_partition(table: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row numbers sorted by share partition and offset, and where each partition begins."""
    codes = [codes_of(table.column(name)) for name in KEY]
    order = np.lexsort((table.column("offset").to_numpy(), *reversed(codes)))
    changed = np.zeros(len(order), bool)
    changed[0] = True
    for code in codes:
        changed[1:] |= code[order[1:]] != code[order[:-1]]
    return order, np.append(np.flatnonzero(changed), len(order))


def codes_of(column: pa.Array) -> NDArray[np.int64]:
    """Return numbers that sort like the values of a column."""
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    encoded = column.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    return np.asarray(ranks[encoded.indices.to_numpy()])


def kinds_of(table: pa.RecordBatch) -> NDArray[np.int8]:
    """Return the kind of every record: a snapshot, an update, a tombstone of either."""
    update = table.column("record_type").to_numpy() == k.UPDATE
    tombstone = table.column("tombstone").to_numpy(zero_copy_only=False)
    return np.asarray(update + 2 * tombstone.astype(np.int8), np.int8)


def _numbers(table: pa.RecordBatch) -> NDArray[np.int64]:
    columns = {
        k.SNAPSHOT_EPOCH: ("snapshot_epoch", 0),
        k.STATE_EPOCH: ("state_epoch", 0),
        k.LEADER_EPOCH: ("leader_epoch", 0),
        k.START_OFFSET: ("start_offset", UNINITIALIZED_START_OFFSET),
        k.COMPLETE_COUNT: ("delivery_complete_count", _NO_COUNT),
        k.CREATED: ("create_timestamp", NO_TIMESTAMP),
        k.WRITTEN: ("write_timestamp", NO_TIMESTAMP),
    }
    numbers = np.empty((table.num_rows, len(columns)), np.int64)
    for index, (name, unknown) in columns.items():
        column = table.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(schemas.TIMESTAMP).view(pa.int64())
        numbers[:, index] = column.cast(pa.int64()).fill_null(unknown).to_numpy()
    return numbers


def _batches(column: pa.ListArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    counts = pc.list_value_length(column).fill_null(0).to_numpy()
    elements = column.flatten()
    batches = np.stack([elements.field(i).to_numpy().astype(np.int64) for i in range(4)], axis=1)
    return np.ascontiguousarray(batches), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def windows_table(
    table: pa.RecordBatch,
    state: NDArray[Any],
    raw: Any,
    raw_at: Any,
    runs: Any,
    runs_at: Any,
    alive: Any,
) -> pa.RecordBatch:
    """Return `sharelag.schemas.WINDOWS` of the result of `replay_rows`, one row per state."""
    last = table.take(pa.array(state[:, k.LAST_ROW]))
    columns = {
        **{
            name: last.column(name)
            for name in ("group_id", "topic_id", "partition", "record_partition")
        },
        "record_topic": last.column("topic"),
        "snapshot_epoch": _numbers_column(state, k.SNAPSHOT_EPOCH),
        "state_epoch": _numbers_column(state, k.STATE_EPOCH),
        "leader_epoch": _numbers_column(state, k.LEADER_EPOCH),
        "start_offset": _numbers_column(state, k.START_OFFSET, UNINITIALIZED_START_OFFSET),
        "effective_start_offset": _numbers_column(
            state, k.EFFECTIVE_START, UNINITIALIZED_START_OFFSET
        ),
        "window_end_offset": _numbers_column(state, k.WINDOW_END, UNINITIALIZED_START_OFFSET),
        "delivery_complete_count": _numbers_column(state, k.COMPLETE_COUNT, _NO_COUNT),
        "create_timestamp": _numbers_column(state, k.CREATED, NO_TIMESTAMP),
        "write_timestamp": _numbers_column(state, k.WRITTEN, NO_TIMESTAMP),
        "batches": _batch_lists(raw, raw_at, alive),
        "runs": _batch_lists(runs, runs_at, alive),
        "from_snapshot": pa.array(state[:, k.FROM_SNAPSHOT] == 1),
        "rejected_records": _numbers_column(state, k.REJECTED),
        "record_offset": last.column("offset"),
        "record_timestamp": last.column("timestamp"),
    }
    arrays = []
    for field in schemas.WINDOWS:
        column = columns[field.name]
        if pa.types.is_timestamp(field.type) and pa.types.is_int64(column.type):
            column = column.view(field.type)
        arrays.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schemas.WINDOWS)


def _numbers_column(state: NDArray[Any], column: int, unknown: int | None = None) -> pa.Array:
    values = np.ascontiguousarray(state[:, column])
    return pa.array(values, mask=None if unknown is None else values == unknown)


def _batch_lists(rows: NDArray[Any], at: NDArray[Any], alive: NDArray[Any]) -> pa.Array:
    # Deleted share partitions have no rows, so the rows of the others are contiguous.
    offsets = np.append(at[alive], at[-1]).astype(np.int32)
    used = rows[: at[-1]]
    struct = pa.StructArray.from_arrays(
        [
            pa.array(np.ascontiguousarray(used[:, 0])),
            pa.array(np.ascontiguousarray(used[:, 1])),
            pa.array(used[:, 3].astype(np.int8)),
            pa.array(used[:, 2].astype(np.int16)),
        ],
        fields=list(schemas.STATE_BATCH),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), struct)
