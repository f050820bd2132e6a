"""History: the state of each share partition after every one of its records.

Gaps are never hidden: where records are missing, the changes are null and the state is marked
partial until the next snapshot, which makes it complete again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT, UNINITIALIZED_START_OFFSET
from sharelag.replay import changes as c
from sharelag.replay import kernels as k
from sharelag.replay.columns import KEY, by_share_partition, kernel_columns
from sharelag.replay.state import drop_superseded, last_key
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, one_batch

#: Sort order of a history.
HISTORY_KEY = (*("record_topic" if name == "topic" else name for name in KEY), "record_offset")

_IS_NEW = "_is_new"
_KINDS = ("snapshot", "update", "tombstone", "rejected")


def history_arrow(records: Arrow, gaps: Arrow | None = None) -> pa.RecordBatch:
    """Return the state of every share partition after each record, and what the record changed.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`, in any order. The state of a share partition before its first
        record counts as unknown, unless that record is its very first snapshot.
    gaps : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.GAPS`: offsets of the state topic that are missing; see `missing_offsets`.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.HISTORY`, one row per record, sorted by share partition, then offset.
    """
    table = one_batch(records)
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=schemas.HISTORY)
    order, bounds = by_share_partition(table)
    kinds, numbers, batches, batch_at = kernel_columns(table)
    rows = c.history_rows(order, bounds, kinds, numbers, batches, batch_at)
    table = table.take(pa.array(order))
    return _table(table, kinds[order], rows, bounds[:-1], _breaks(table, gaps))


def histories(
    batches: Iterable[pa.RecordBatch], gaps: Arrow | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield `history_arrow` of a stream of records sorted by share partition, then offset.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        `sharelag.schemas.RECORDS`.
    gaps : pyarrow.RecordBatch or pyarrow.Table, optional
        As for `history_arrow`.

    Yields
    ------
    pyarrow.RecordBatch
        `sharelag.schemas.HISTORY`, in the same order.
    """
    known = None
    for batch in batches:
        if batch.num_rows:
            history, known = next_history(known, batch, gaps)
            known = last_key(known)
            yield history


def next_history(
    known: pa.RecordBatch | None, records: pa.RecordBatch, gaps: Arrow | None = None
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Extend a history by some records.

    Parameters
    ----------
    known : pyarrow.RecordBatch or None
        What the previous step returned; None at first.
    records : pyarrow.RecordBatch
        `sharelag.schemas.RECORDS`, later in each share partition than the previous ones.
    gaps : pyarrow.RecordBatch or pyarrow.Table, optional
        As for `history_arrow`; only those among or before these records are used.

    Returns
    -------
    history, known : pyarrow.RecordBatch
        The rows of these records, sorted; and the records since each share partition's last
        snapshot, which the next step needs.
    """
    fresh = records.append_column(_IS_NEW, pa.repeat(pa.scalar(True), records.num_rows))
    table = fresh if known is None else one_batch(pa.Table.from_batches([known, fresh]))
    history = history_arrow(table, gaps)
    if table.num_rows == 0:
        return history, table
    order, _ = by_share_partition(table)
    history = history.filter(table.column(_IS_NEW).take(pa.array(order)))
    known = drop_superseded(table)
    old = pa.repeat(pa.scalar(False), known.num_rows)
    return history, known.set_column(known.schema.get_field_index(_IS_NEW), _IS_NEW, old)


def missing_offsets(positions: Arrow) -> pa.Table:
    """Return the offsets of the state topic that are missing between records.

    The topic has neither transaction markers nor compaction, so its offsets have no gaps unless
    records are missing.

    Parameters
    ----------
    positions : pyarrow.RecordBatch or pyarrow.Table
        Columns ``topic partition offset`` of all records, rejects included, in any order.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.GAPS`, in order.
    """
    place = [(name, "ascending") for name in ("topic", "partition", "offset")]
    table = one_batch(as_table(positions).select(["topic", "partition", "offset"]).sort_by(place))
    if table.num_rows == 0:
        return schemas.GAPS.empty_table()
    before, after = table.slice(0, table.num_rows - 1), table.slice(1)
    same = pc.and_(
        *[pc.equal(after.column(name), before.column(name)) for name in ("topic", "partition")]
    )
    first = pc.add(before.column("offset"), 1)
    after = after.append_column("first_offset", first)
    missing = after.filter(pc.and_(same, pc.greater(after.column("offset"), first)))
    columns = [missing.column(name) for name in ("topic", "partition", "first_offset", "offset")]
    return pa.Table.from_arrays(columns, schema=schemas.GAPS)


def _breaks(table: pa.RecordBatch, gaps: Arrow | None) -> NDArray[np.bool_]:
    """Whether offsets are missing between each row and the previous one of its state partition."""
    broken = np.zeros(table.num_rows, bool)
    if gaps is None or gaps.num_rows == 0:
        return broken
    offsets = table.column("offset").to_numpy()
    topics, partitions = table.column("topic"), table.column("record_partition").to_numpy()
    for gap in (
        pa.table(gaps)
        .select(["topic", "partition"])
        .group_by(["topic", "partition"])
        .aggregate([])
        .to_pylist()
    ):
        here = pc.and_(
            pc.equal(gaps.column("topic"), gap["topic"]),
            pc.equal(gaps.column("partition"), gap["partition"]),
        )
        ends = np.sort(gaps.filter(here).column("end_offset").to_numpy())
        mine = np.flatnonzero(
            pc.equal(topics, gap["topic"]).to_numpy(zero_copy_only=False)
            & (partitions == gap["partition"])
        )
        passed = np.searchsorted(ends, offsets[mine], side="right")
        # Rows of a share partition are contiguous; the first of each is handled separately.
        broken[mine[1:]] |= passed[1:] > passed[:-1]
    return broken


def _table(
    table: pa.RecordBatch,
    kinds: NDArray[np.int8],
    rows: NDArray[np.int64],
    firsts: NDArray[np.int64],
    broken: NDArray[np.bool_],
) -> pa.RecordBatch:
    exists = rows[:, c.EXISTS] == 1
    first = np.zeros(len(rows), bool)
    first[firsts] = True
    created = (rows[:, c.REPLACED] == 1) & (rows[:, k.SNAPSHOT_EPOCH] == 0)
    follows = np.where(first, created, ~broken)
    whole = _whole(rows, kinds, first, broken & ~first)
    # What a snapshot adds to a partial state can have been finished long before.
    was_whole = np.append(True, whole[:-1])
    changed = exists & (rows[:, c.CHANGE_KNOWN] == 1) & follows & whole & was_whole
    start = rows[:, k.START_OFFSET]
    has_start = exists & (start != UNINITIALIZED_START_OFFSET)
    count = rows[:, k.COMPLETE_COUNT]
    kind = np.where(rows[:, c.REFUSED] == 1, 3, np.minimum(kinds, k.TOMBSTONE))
    values: dict[str, Any] = {
        "record_topic": table.column("topic"),
        "record_offset": table.column("offset"),
        "record_timestamp": table.column("timestamp"),
        "record_kind": pa.array(_KINDS).take(pa.array(kind)),
        "snapshot_epoch": (rows[:, k.SNAPSHOT_EPOCH], exists),
        "state_epoch": (rows[:, k.STATE_EPOCH], exists),
        "leader_epoch": (rows[:, k.LEADER_EPOCH], exists),
        "start_offset": (start, has_start),
        "effective_start_offset": (rows[:, k.EFFECTIVE_START], has_start),
        "window_end_offset": (
            rows[:, k.WINDOW_END],
            exists & (rows[:, k.WINDOW_END] != UNINITIALIZED_START_OFFSET),
        ),
        "delivery_complete_count": (
            count,
            exists & (count != UNINITIALIZED_DELIVERY_COMPLETE_COUNT),
        ),
        "window_available": (rows[:, c.AVAILABLE], has_start),
        "window_complete": (rows[:, c.COMPLETE], has_start),
        "runs": (rows[:, c.RUNS], exists),
        "max_delivery_count": (rows[:, c.MAX_COUNT], has_start),
        "head_delivery_count": (rows[:, c.HEAD_COUNT], has_start),
        "finished": (rows[:, c.FINISHED], changed),
        "archived": (rows[:, c.ARCHIVED], changed),
        "released": (rows[:, c.RELEASED], changed),
        "redelivered": (rows[:, c.REDELIVERED], changed),
        "replaced": pa.array(rows[:, c.REPLACED] == 1),
        "from_snapshot": pa.array(whole),
        "follows": pa.array(follows),
    }
    arrays = []
    for field in schemas.HISTORY:
        value = values[field.name] if field.name in values else table.column(field.name)
        column = pa.array(value[0], mask=~value[1]) if isinstance(value, tuple) else value
        arrays.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schemas.HISTORY)


def _whole(
    rows: NDArray[np.int64],
    kinds: NDArray[np.int8],
    first: NDArray[np.bool_],
    broken: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Whether the state after each row follows a snapshot with nothing missing since."""
    place = np.arange(len(rows))
    begin = np.maximum.accumulate(np.where(first, place, 0))
    last_reset = np.maximum.accumulate(
        np.where((kinds == k.SNAPSHOT) | (kinds == k.TOMBSTONE), place, -1)
    )
    last_break = np.maximum.accumulate(np.where(broken, place, -1))
    return np.asarray(
        (rows[:, k.FROM_SNAPSHOT] == 1) & ((last_break < begin) | (last_reset >= last_break))
    )
