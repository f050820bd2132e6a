"""History: the state of each share partition after every one of its records.

Gaps are never hidden: where records are missing, the changes are null and the state is marked
partial until the next snapshot, which makes it complete again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT, UNINITIALIZED_START_OFFSET
from sharelag.replay import changes as c
from sharelag.replay import layout as k
from sharelag.replay.columns import KEY, by_share_partition, in_log_order, kernel_columns
from sharelag.replay.generations import UNKNOWN_EPOCH, delta_jumps
from sharelag.replay.state import drop_superseded
from sharelag.schemas import Arrow, Bools, Ints
from sharelag.tables.arrow import as_table, batch_of, one_batch

#: Sort order of a history.
HISTORY_KEY = (*("record_topic" if name == "topic" else name for name in KEY), "record_offset")

_IS_NEW = "_is_new"
_TIMES = ("create_timestamp", "write_timestamp")
_NO_TIME = -(2**63)
#: What a snapshot that changes nothing leaves as it was.
_UNCHANGED = (
    *("state_epoch", "leader_epoch", "start_offset", "effective_start_offset"),
    *("window_end_offset", "delivery_complete_count", "window_available", "window_complete"),
    *("runs", "max_delivery_count", "head_delivery_count"),
)
_KINDS = ("snapshot", "update", "tombstone", "rejected")
_FLAGS = {
    "exists": c.EXISTS,
    "refused": c.REFUSED,
    "replaced": c.REPLACED,
    "change_known": c.CHANGE_KNOWN,
    "from_snapshot": c.FROM_SNAPSHOT,
}


def history_arrow(records: Arrow, gaps: Arrow | None = None) -> pa.RecordBatch:
    """Return the state of every share partition after each record, and what the record changed.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`, in any order. The state of a share partition before its first
        record counts as unknown, unless that record is its very first snapshot.
    gaps : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.GAPS`: missing offsets of the state topic, as `LogOrder` finds them.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.HISTORY`, one row per record, sorted by share partition, then offset.
    """
    table = one_batch(records)
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=schemas.HISTORY)
    order, bounds = by_share_partition(table)
    columns = kernel_columns(table, order, bounds)
    walk, key = in_log_order(order, bounds)
    rows = c.history_rows(walk, key, columns, len(bounds) - 1)
    history = c.History._make(column.take(order) for column in rows)
    kinds = columns.kind[order]
    broken = _breaks(table, order, gaps) | delta_jumps(table, order, bounds)
    return _table(table, order, bounds, history, kinds, broken)


def next_history(
    known: pa.RecordBatch | None, records: pa.RecordBatch, gaps: Arrow | None = None
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Extend a history by records that are later in each share partition than those before.

    Return the rows of these records, sorted, and the records since each share partition's last
    snapshot, which are ``known`` in the next step. ``gaps`` are those of `history_arrow`.
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


def _breaks(table: pa.RecordBatch, order: Ints, gaps: Arrow | None) -> Bools:
    """Whether offsets are missing between each row and the previous one of its state partition."""
    broken = np.zeros(table.num_rows, bool)
    if gaps is None or gaps.num_rows == 0:
        return broken
    table = table.select(["topic", "record_partition", "offset"]).take(pa.array(order))
    offsets = table.column("offset").to_numpy()
    topics, partitions = table.column("topic"), table.column("record_partition").to_numpy()
    place = ["topic", "partition"]
    for row in as_table(gaps).group_by(place).aggregate([("end_offset", "list")]).to_pylist():
        ends = np.sort(row["end_offset_list"])
        is_topic = pc.equal(topics, row["topic"]).to_numpy(zero_copy_only=False)
        mine = np.flatnonzero(is_topic & (partitions == row["partition"]))
        passed = np.searchsorted(ends, offsets[mine], side="right")
        # Rows of a share partition are contiguous; the first of each is handled separately.
        broken[mine[1:]] |= passed[1:] > passed[:-1]
    return broken


def _table(
    table: pa.RecordBatch,
    order: Ints,
    bounds: Ints,
    history: c.History,
    kinds: NDArray[np.int8],
    broken: Bools,
) -> pa.RecordBatch:
    known = {name: history.flags & flag != 0 for name, flag in _FLAGS.items()}
    exists, replaced = known["exists"], known["replaced"]
    first = np.zeros(len(order), bool)
    first[bounds[:-1]] = True
    created = replaced & (history.snapshot_epoch == 0)
    follows = np.where(first, created, ~broken)
    whole = _whole(known["from_snapshot"], kinds, first, broken & ~first)
    # What a snapshot adds to a partial state can have been finished long before.
    was_whole = np.append(True, whole[:-1])
    changed = exists & known["change_known"] & follows & whole & was_whole
    has_start = exists & (history.start_offset != UNINITIALIZED_START_OFFSET)
    valid = dict.fromkeys(("snapshot_epoch", "runs"), exists)
    for name in ("state_epoch", "leader_epoch"):
        valid[name] = exists & (getattr(history, name) != UNKNOWN_EPOCH)
    valid["window_end_offset"] = exists & (history.window_end_offset != UNINITIALIZED_START_OFFSET)
    valid["delivery_complete_count"] = exists & (
        history.delivery_complete_count != UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    )
    valid |= dict.fromkeys(("finished", "archived", "released", "redelivered"), changed)
    values: dict[str, pa.Array] = {
        "record_offset": pa.array(table.column("offset").to_numpy()[order]),
        "record_timestamp": table.column("timestamp").take(pa.array(order)),
        "record_kind": _kinds_of(kinds, known["refused"]),
        "replaced": _bits(replaced),
        "rewritten": pa.array(
            _rewritten(_times(table, order), history, kinds, bounds), mask=~changed
        ),
        "leader_changed": _leader_changed(
            history.leader_epoch, first, valid["leader_epoch"] & ~_by_no_leader(table, order, kinds)
        ),
        "from_snapshot": _bits(whole),
        "follows": _bits(follows),
    }
    for name in KEY:
        label = "record_topic" if name == "topic" else name
        column = table.column(name).take(pa.array(order[bounds[:-1]]))
        runs = column.cast(schemas.HISTORY.field(label).type)  # may be of a dictionary
        values[label] = pc.run_end_decode(
            pa.RunEndEncodedArray.from_arrays(pa.array(bounds[1:]), runs)
        )
    for name in c.History._fields[1:]:
        field, numbers = schemas.HISTORY.field(name), getattr(history, name)
        buffers = [_bitmap(valid.get(name, has_start)), pa.py_buffer(numbers)]
        values[name] = pa.Array.from_buffers(field.type, len(order), buffers)
    return batch_of(values, schemas.HISTORY)


def _by_no_leader(table: pa.RecordBatch, order: Ints, kinds: NDArray[np.int8]) -> Bools:
    """Whether each record may be the group coordinator's, which initialises and alters states.

    Its snapshots have leader epoch 0, as those of a topic's first leader, and are written when
    their state is created (``ShareCoordinatorShard.initializeState``).
    """
    is_new = pc.and_(
        pc.equal(table.column("create_timestamp"), table.column("write_timestamp")),
        pc.equal(table.column("leader_epoch"), 0),
    )
    found = is_new.fill_null(False).to_numpy(zero_copy_only=False)[order]
    return np.asarray((kinds == k.SNAPSHOT) & found, bool)


def _times(table: pa.RecordBatch, order: Ints) -> tuple[Ints, Ints]:
    """When each state was created and written, in milliseconds; the least number where unknown."""
    columns = [table.column(name).cast(pa.int64()) for name in _TIMES]
    created, written = (column.fill_null(_NO_TIME).to_numpy()[order] for column in columns)
    return created, written


def _rewritten(
    times: tuple[Ints, Ints], history: c.History, kinds: NDArray[np.int8], bounds: Ints
) -> Bools:
    """Whether each is a snapshot of the state before it, of the same creation, written later."""
    is_snapshot = kinds == k.SNAPSHOT
    created, written = times
    place = np.arange(len(kinds))
    last = np.append(-1, np.maximum.accumulate(np.where(is_snapshot, place, -1))[:-1])
    begins = np.repeat(bounds[:-1], np.diff(bounds))
    same = is_snapshot & (last >= begins) & (created != _NO_TIME)
    same &= (created == created[last]) & (written > written[last])
    for name in _UNCHANGED:
        values = getattr(history, name)
        same &= values == np.append(values[:1], values[:-1])
    for name in ("finished", "archived", "released", "redelivered"):
        same &= getattr(history, name) == 0
    return np.asarray(same, bool)


def _leader_changed(epoch: NDArray[np.int32], first: Bools, by_leader: Bools) -> pa.Array:
    """Whether each state has another leader's epoch than the one before; null: not known."""
    known = by_leader & np.append(False, by_leader[:-1]) & ~first
    return pa.array(epoch != np.append(0, epoch[:-1]), mask=~known)


def _bitmap(bits: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def _bits(bits: Bools) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(bits), [None, _bitmap(bits)])


def _kinds_of(kinds: NDArray[np.int8], refused: Bools) -> pa.Array:
    kind = np.where(refused, 3, np.minimum(kinds, k.TOMBSTONE))
    return pa.array(_KINDS).take(pa.array(kind))


def _whole(from_snapshot: Bools, kinds: NDArray[np.int8], first: Bools, broken: Bools) -> Bools:
    """Whether the state after each row follows a snapshot with nothing missing since."""
    if not broken.any():
        return from_snapshot
    place = np.arange(len(kinds))
    begin = np.maximum.accumulate(np.where(first, place, 0))
    last_reset = np.maximum.accumulate(
        np.where((kinds == k.SNAPSHOT) | (kinds == k.TOMBSTONE), place, -1)
    )
    last_break = np.maximum.accumulate(np.where(broken, place, -1))
    return np.asarray(from_snapshot & ((last_break < begin) | (last_reset >= last_break)))
