"""Which state do these records leave behind? The same answer as Kafka's share coordinator, in Arrow.

`replay` is for a handful of records in hand, `replay_arrow` for whole tables, and `drop_superseded` throws
away what cannot matter any more, in any subset of the records and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.arrow import one_batch, without_timestamps
from sharelag.errors import ReplayError
from sharelag.model import (
    NO_TIMESTAMP,
    UNINITIALIZED_START_OFFSET,
    SharePartition,
    StateBatch,
    Window,
)
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT as _NO_COUNT
from sharelag.replay import kernels as k
from sharelag.schemas import Arrow
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC

#: Records to gather before they are thinned out together.
_THIN_EVERY = 250_000

#: What tells one share partition from another; records of one normally share the state partition.
KEY = ("topic", "record_partition", "group_id", "topic_id", "partition")


def replay(
    records: Iterable[tuple[int, bytes | None, bytes | None]], strict: bool = False
) -> dict[SharePartition, Window]:
    """Replay raw records of one state partition, as the share coordinator does when it loads it.

    Parameters
    ----------
    records : iterable of (offset, key, value or None)
        In the order of the log.
    strict : bool
        Fail where Kafka's load would fail. Otherwise such a record is left out and the rest goes on.

    Returns
    -------
    dict of SharePartition to Window
        Share partitions that a tombstone removed are not in it.

    Raises
    ------
    ReplayError
        With ``strict`` only: the first record that Kafka could not load, and why.
    """
    offsets, keys, values = zip(*records, strict=True) if (records := list(records)) else ((), (), ())
    count = len(offsets)
    raw = pa.RecordBatch.from_pydict(
        {
            "key": list(keys),
            "value": list(values),
            "topic": [STATE_TOPIC] * count,
            "partition": [0] * count,
            "offset": list(offsets),
            "timestamp": [None] * count,
            "timestampType": [0] * count,
        },
        schema=schemas.RAW,
    )
    decoded = decode_arrow(raw)
    if strict:
        _fail_as_kafka_does(decoded.rejects, decoded.records)
    windows = replay_arrow(decoded.records)
    if strict and pc.any(pc.greater(windows.column("rejected_records"), 0)).as_py():
        raise ReplayError(
            "Kafka would not finish loading this state partition: a state batch that ends before it begins cannot be "
            "merged. Replay without strict to leave such records out."
        )
    return dict(window_items(windows))


def replay_arrow(records: Arrow) -> pa.RecordBatch:
    """The state of every share partition after these records.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`, in any order: they are sorted by offset here. All records of a share
        partition since its last snapshot must be among them.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.WINDOWS`, a row a share partition that exists, sorted by group, topic id, partition.
    """
    table = one_batch(records)
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=schemas.WINDOWS)
    order, bounds = by_share_partition(table)
    alive, state, raw, raw_at, runs, runs_at = k.replay_rows(order, bounds, *kernel_columns(table))
    windows = windows_table(table, state[alive], raw, raw_at, runs, runs_at, np.flatnonzero(alive))
    return windows.sort_by([(name, "ascending") for name in ("group_id", "topic_id", "partition")])


def drop_superseded(records: Arrow) -> pa.RecordBatch:
    """Leave out the records that a later snapshot or tombstone of the same share partition replaces.

    Right for any subset of the records, so each Spark task and each chunk can do it on its own. The order
    of the rows stays.
    """
    table = one_batch(records)
    if table.num_rows == 0:
        return table
    order, bounds = by_share_partition(table)
    resets = np.isin(_kinds(table)[order], (k.SNAPSHOT, k.TOMBSTONE))
    place = np.arange(len(order))
    last_reset = np.maximum.reduceat(np.where(resets, place, -1), bounds[:-1])
    keep = place >= np.repeat(last_reset, np.diff(bounds))
    return table.take(pa.array(np.sort(order[keep])))


def latest(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    thin: Callable[[Arrow], pa.RecordBatch] = drop_superseded,
) -> pa.RecordBatch:
    """What is not superseded in a stream of records, holding no more than about twice that at a time.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        `sharelag.schemas.RECORDS`, or the columns of it that replay reads.
    schema : pyarrow.Schema
        That of the answer when there are none.
    thin : callable
        Leaves out what is superseded in any subset of the records.
    """
    gathered: list[pa.RecordBatch] = []
    rows = kept = 0
    for batch in batches:
        gathered.append(thin(batch))
        rows += gathered[-1].num_rows
        if rows > max(_THIN_EVERY, 2 * kept):
            gathered = [thin(pa.Table.from_batches(gathered))]
            rows = kept = gathered[0].num_rows
    return thin(pa.Table.from_batches(gathered, None if gathered else schema))


def split_last_key(pending: pa.RecordBatch | None, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Put two pieces of a table sorted by share partition together, and part them before the last one.

    Returns
    -------
    complete, pending : pyarrow.RecordBatch
        Share partitions of which no more can come, and the last one, without what is superseded in it.
    """
    table = batch if pending is None else one_batch(pa.Table.from_batches([pending, batch]))
    if table.num_rows == 0:
        return table, table
    pending = last_key(table)
    return table.slice(0, table.num_rows - pending.num_rows), drop_superseded(pending)


def whole_keys(batches: Iterable[pa.RecordBatch], key: Sequence[str] = KEY) -> Iterator[pa.RecordBatch]:
    """Cut a table that is sorted by share partition anew, so that no share partition is in two pieces."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        tail = last_key(batch, key) if batch.num_rows else batch
        ready = batch.slice(0, batch.num_rows - tail.num_rows)
        if pending and batch.num_rows and (ready.num_rows or not _same_key(pending[0], batch, key)):
            # Of the first rows nobody knows yet whether they belong to what is pending: they come along.
            yield one_batch(pa.Table.from_batches([*pending, ready]))
            pending = []
        elif ready.num_rows:
            yield ready
        pending += [tail] if tail.num_rows else []
    if pending:
        yield one_batch(pa.Table.from_batches(pending))


def _same_key(first: pa.RecordBatch, then: pa.RecordBatch, key: Sequence[str]) -> bool:
    return all(first.column(name)[0] == then.column(name)[0] for name in key)


def last_key(table: pa.RecordBatch, key: Sequence[str] = KEY) -> pa.RecordBatch:
    """The rows at the end that are of one share partition."""
    codes = [_codes(table.column(name)) for name in key]
    same = np.logical_and.reduce([code == code[-1] for code in codes])
    begin = table.num_rows - int(np.argmin(same[::-1])) if not same.all() else 0
    return table.slice(begin)


def window_items(windows: Arrow) -> list[tuple[SharePartition, Window]]:
    """The rows of a windows table as values, with Kafka's sentinels in place of nulls."""
    found = []
    for row in without_timestamps(windows).to_pylist():
        key = SharePartition(row["group_id"], row["topic_id"], row["partition"])
        window = Window(
            row["snapshot_epoch"],
            row["state_epoch"],
            row["leader_epoch"],
            UNINITIALIZED_START_OFFSET if row["start_offset"] is None else row["start_offset"],
            _NO_COUNT if row["delivery_complete_count"] is None else row["delivery_complete_count"],
            row["create_timestamp"] or NO_TIMESTAMP,
            row["write_timestamp"] or NO_TIMESTAMP,
            tuple(StateBatch(**batch) for batch in row["batches"]),
        )
        found.append((key, window))
    return found


def _fail_as_kafka_does(rejects: pa.RecordBatch, records: pa.RecordBatch) -> None:
    failures = [(row["offset"], row["reason"]) for row in rejects.to_pylist()]
    lost = pc.and_(records.column("tombstone"), pc.equal(records.column("record_type"), 1))
    failures += [
        (offset, "a tombstone of an update, which Kafka never writes")
        for offset in records.column("offset").filter(lost).to_pylist()
    ]
    if failures:
        offset, reason = min(failures)
        raise ReplayError(
            f"Kafka would not load this state partition: record at offset {offset}: {reason}. "
            "Replay without strict to leave such records out."
        )


# ---- columns for the kernel ---------------------------------------------------------------------------


def kernel_columns(table: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Records as the compiled state machine takes them: kinds, numbers, batches, and where those of each begin."""
    return _kinds(table), _numbers(table), *_batches(table.column("state_batches"))


def by_share_partition(table: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers sorted by share partition, then offset; and where each share partition begins."""
    codes = [_codes(table.column(name)) for name in KEY]
    order = np.lexsort((table.column("offset").to_numpy(), *reversed(codes)))
    changed = np.zeros(len(order), bool)
    changed[0] = True
    for code in codes:
        changed[1:] |= code[order[1:]] != code[order[:-1]]
    return order, np.append(np.flatnonzero(changed), len(order))


def _codes(column: pa.Array) -> NDArray[np.int64]:
    """Numbers that sort as the values do."""
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    encoded = column.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    return np.asarray(ranks[encoded.indices.to_numpy()])


def _kinds(table: pa.RecordBatch) -> NDArray[np.int8]:
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


# ---- the kernel's answer as a table -------------------------------------------------------------------


def windows_table(
    table: pa.RecordBatch, state: NDArray[Any], raw: Any, raw_at: Any, runs: Any, runs_at: Any, alive: Any
) -> pa.RecordBatch:
    """`sharelag.schemas.WINDOWS` of what `replay_rows` returned; a row a state, in their order."""
    last = table.take(pa.array(state[:, k.LAST_ROW]))
    columns = {
        **{name: last.column(name) for name in ("group_id", "topic_id", "partition", "record_partition")},
        "record_topic": last.column("topic"),
        "snapshot_epoch": _numbers_column(state, k.SNAPSHOT_EPOCH),
        "state_epoch": _numbers_column(state, k.STATE_EPOCH),
        "leader_epoch": _numbers_column(state, k.LEADER_EPOCH),
        "start_offset": _numbers_column(state, k.START_OFFSET, UNINITIALIZED_START_OFFSET),
        "effective_start_offset": _numbers_column(state, k.EFFECTIVE_START, UNINITIALIZED_START_OFFSET),
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
    # Share partitions that are gone have no rows, so the rows of the others stand one after another.
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
