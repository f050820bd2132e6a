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
from sharelag.model.versions import Told
from sharelag.replay import layout as k
from sharelag.replay.combine import joins_neighbours
from sharelag.replay.generations import UNKNOWN_EPOCH, is_older, kinds_by_rule
from sharelag.replay.merge import FIRST, LAST, RANK

#: Identifies a share partition; its records normally are in one state partition.
KEY = ("topic", "record_partition", "group_id", "topic_id", "partition")

_OF_LAST_RECORD = [*KEY, "offset", "timestamp"]


def kernel_columns(
    table: pa.RecordBatch, order: NDArray[np.int64], bounds: NDArray[np.int64]
) -> k.Columns:
    """Return records as the kernels read them; nothing that Arrow holds in that form is copied.

    Parameters
    ----------
    table : pyarrow.RecordBatch
        `sharelag.schemas.RECORDS`.
    order, bounds
        As from `sharelag.replay.order.by_share_partition`.
    """
    batch_at, elements = _batches(table.column("state_batches"))
    kinds, older = kinds_of(table), is_older(table)
    if older:
        kinds = read_only(kinds_by_rule(table, order, bounds, kinds), np.int8)
    return k.Columns(
        kinds,
        _numbers(table, "snapshot_epoch", 0, np.int32),
        _epochs(table, "state_epoch", kinds, older),
        _epochs(table, "leader_epoch", kinds, older),
        _numbers(table, "start_offset", UNINITIALIZED_START_OFFSET, np.int64),
        _numbers(table, "delivery_complete_count", _NO_COUNT, np.int32),
        _numbers(table, "create_timestamp", NO_TIMESTAMP, np.int64),
        _numbers(table, "write_timestamp", NO_TIMESTAMP, np.int64),
        batch_at,
        *(
            read_only(elements.field(i).to_numpy(), kind)
            for i, kind in enumerate((np.int64, np.int64, np.int8, np.int16))
        ),
    )


def kinds_of(table: pa.RecordBatch) -> NDArray[np.int8]:
    """Return the kind of every record: a snapshot, an update, a tombstone of either."""
    kinds = (table.column("record_type").to_numpy() == k.UPDATE).view(np.int8)
    tombstones = table.column("tombstone")
    if tombstones.true_count:
        kinds = kinds + 2 * tombstones.to_numpy(zero_copy_only=False).astype(np.int8)
    return read_only(kinds, np.int8)


def _epochs(
    table: pa.RecordBatch, name: str, kinds: NDArray[np.int8], older: bool
) -> NDArray[np.int32]:
    """Return epochs; where older records have none, a snapshot's is unknown, an update keeps it."""
    epochs = _numbers(table, name, 0, np.int32)
    if not older:
        return epochs
    known = table.column("generation").is_null().to_numpy(zero_copy_only=False)
    known |= table.column(name).is_valid().to_numpy(zero_copy_only=False)
    absent = np.where(kinds == k.SNAPSHOT, UNKNOWN_EPOCH, -1)
    return read_only(np.where(known, epochs, absent), np.int32)


def _numbers(table: pa.RecordBatch, name: str, unknown: int, kind: Any) -> NDArray[Any]:
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(schemas.TIMESTAMP).view(pa.int64())
    if column.null_count:
        column = column.fill_null(unknown)
    return read_only(column.to_numpy(), kind)


def read_only(values: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Return numbers as arrays of Arrow are: one form, for which kernels are compiled once."""
    values = np.asarray(values, kind)
    values.setflags(write=False)
    return values


def _batches(column: pa.ListArray) -> tuple[NDArray[np.int32], pa.StructArray]:
    if not column.null_count:
        return read_only(column.offsets.to_numpy(), np.int32), column.values
    counts = pc.list_value_length(column).fill_null(0).to_numpy()
    return read_only(np.append(0, np.cumsum(counts)), np.int32), column.flatten()


def last_records(table: pa.RecordBatch, state: NDArray[Any]) -> pa.RecordBatch:
    """Return the last record of each state that exists: share partition, offset and time."""
    alive = np.flatnonzero(state[:, k.EXISTS])
    return table.select(_OF_LAST_RECORD).take(pa.array(state[alive, k.LAST_ROW]))


def windows_table(
    last: pa.RecordBatch,
    state: NDArray[Any],
    raw: Any,
    raw_at: Any,
    runs: Any,
    runs_at: Any,
    *,
    kafka_version: Told = None,
) -> pa.RecordBatch:
    """Return `sharelag.schemas.WINDOWS`, one row per state that exists.

    Parameters
    ----------
    last
        As from `last_records`.
    state : int64[states, STATE_COLUMNS]
    raw, raw_at, runs, runs_at
        As from `put_states`.
    kafka_version : str or callable, optional
        Of the coordinator whose batches these are, or what finds it out if it matters; the newest
        if there is none.
    """
    joined = _joined(raw, raw_at, state[:, k.MERGED] == 1)
    if joined is not None and joins_neighbours(kafka_version):
        raw, raw_at = joined
    alive = np.flatnonzero(state[:, k.EXISTS])
    state = state[alive]
    columns = {
        **{
            name: last.column(name)
            for name in ("group_id", "topic_id", "partition", "record_partition")
        },
        "record_topic": last.column("topic"),
        "snapshot_epoch": _numbers_column(state, k.SNAPSHOT_EPOCH),
        "state_epoch": _numbers_column(state, k.STATE_EPOCH, UNKNOWN_EPOCH),
        "leader_epoch": _numbers_column(state, k.LEADER_EPOCH, UNKNOWN_EPOCH),
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


def _joined(
    rows: NDArray[Any], at: NDArray[Any], merged: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Join equal neighbours of each list of batches that was merged; None: there are none.

    A list that was written, and not merged since, is held by every version as it was written.
    """
    used = rows[:, : at[-1]]
    begins = used[LAST] < used[FIRST]  # what ends before it begins has no neighbours
    begins[1:] |= begins[:-1]
    begins[1:] |= used[FIRST, 1:] != used[LAST, :-1] + 1
    begins[1:] |= used[RANK, 1:] != used[RANK, :-1]
    begins[at[:-1][at[:-1] < at[-1]]] = True
    begins |= ~np.repeat(merged, np.diff(at))
    if begins.all():
        return None
    first = np.flatnonzero(begins)
    last = used[LAST, np.append(first[1:], at[-1]) - 1]
    joined = np.stack([used[FIRST, first], last, used[RANK, first]])
    return joined, np.append(0, np.cumsum(begins))[at]


def _batch_lists(rows: NDArray[Any], at: NDArray[Any], alive: NDArray[Any]) -> pa.Array:
    # Deleted share partitions have no rows, so the rows of the others are contiguous.
    offsets = np.append(at[alive], at[-1]).astype(np.int32)
    used = rows[:, : at[-1]]
    struct = pa.StructArray.from_arrays(
        [
            pa.array(used[FIRST]),
            pa.array(used[LAST]),
            pa.array(((used[RANK] & 255) - 128).astype(np.int8)),
            pa.array((used[RANK] >> 8).astype(np.int16)),
        ],
        fields=list(schemas.STATE_BATCH),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), struct)
