"""History: the state of each share partition after every one of its records.

Gaps are never hidden: after missing records, changes are null and the state is marked partial until
the next snapshot, which makes it complete again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import kernel, part, ready
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT, UNINITIALIZED_START_OFFSET
from sharelag.replay import layout as k
from sharelag.replay.columns import (
    KEY,
    UNKNOWN_EPOCH,
    by_share_partition,
    delta_jumps,
    in_log_order,
    kernel_columns,
)
from sharelag.replay.kernels import (
    apply,
    has_room,
    load,
    most_pieces,
    new_heap,
    new_work,
    with_room,
)
from sharelag.replay.merge import OLD, OWN, SIZE, compare, measure, place_of, runs_of
from sharelag.replay.state import drop_superseded
from sharelag.schemas import Arrow, Bools, Ints
from sharelag.tables.arrow import as_table, batch_of, one_batch

#: Sort order of a history.
HISTORY_KEY = (*("record_topic" if name == "topic" else name for name in KEY), "record_offset")

_IS_NEW = "_is_new"
_TIMES = ("create_timestamp", "write_timestamp")
_NO_TIME = -(2**63)
#: Columns that a snapshot without changes leaves unchanged.
_UNCHANGED = (
    *("state_epoch", "leader_epoch", "start_offset", "effective_start_offset"),
    *("window_end_offset", "delivery_complete_count", "window_available", "window_complete"),
    *("runs", "max_delivery_count", "head_delivery_count"),
)
_KINDS = ("snapshot", "update", "tombstone", "rejected")
# Flags of a record.
EXISTS, REFUSED, REPLACED, CHANGE_KNOWN, FROM_SNAPSHOT = 1, 2, 4, 8, 16
_FLAGS = {
    "exists": EXISTS,
    "refused": REFUSED,
    "replaced": REPLACED,
    "change_known": CHANGE_KNOWN,
    "from_snapshot": FROM_SNAPSHOT,
}


def history_arrow(records: Arrow, gaps: Arrow | None = None) -> pa.RecordBatch:
    """Return the state of every share partition after each record, and the record's changes.

    That is `sharelag.schemas.HISTORY`, one row per record, sorted by share partition, then offset.
    ``records`` are `sharelag.schemas.RECORDS`, in any order. The state of a share partition before
    its first record counts as unknown, unless that is its very first snapshot. ``gaps`` are
    `sharelag.schemas.GAPS`: missing offsets of the state topic, as `LogOrder` finds them.
    """
    table = one_batch(records)
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=schemas.HISTORY)
    order, bounds = by_share_partition(table)
    columns = kernel_columns(table, order, bounds)
    walk, key = in_log_order(order, bounds)
    rows = history_rows(walk, key, columns, len(bounds) - 1)
    history = History._make(column.take(order) for column in rows)
    kinds = columns.kind[order]
    broken = _find_breaks(table, order, gaps) | delta_jumps(table, order, bounds)
    return _table(table, order, bounds, history, kinds, broken)


def next_history(
    known: pa.RecordBatch | None, records: pa.RecordBatch, gaps: Arrow | None = None
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Extend a history by later records.

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


def _find_breaks(table: pa.RecordBatch, order: Ints, gaps: Arrow | None) -> Bools:
    """Return whether offsets are missing between each row and the previous one in its partition."""
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
    history: History,
    kinds: NDArray[np.int8],
    broken: Bools,
) -> pa.RecordBatch:
    known = {name: history.flags & flag != 0 for name, flag in _FLAGS.items()}
    exists, replaced = known["exists"], known["replaced"]
    first = np.zeros(len(order), bool)
    first[bounds[:-1]] = True
    created = replaced & (history.snapshot_epoch == 0)
    follows = np.where(first, created, ~broken)
    whole = _find_whole(known["from_snapshot"], kinds, first, broken & ~first)
    # What a snapshot adds to a partial state may have been finished long before.
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
    by_leader = valid["leader_epoch"] & ~_find_initial(table, order, kinds)
    comparable = by_leader & np.append(False, by_leader[:-1]) & ~first
    epoch, kind = (
        history.leader_epoch,
        np.where(known["refused"], 3, np.minimum(kinds, k.TOMBSTONE)),
    )
    values: dict[str, pa.Array] = {
        "record_offset": pa.array(table.column("offset").to_numpy()[order]),
        "record_timestamp": table.column("timestamp").take(pa.array(order)),
        "record_kind": pa.array(_KINDS).take(pa.array(kind)),
        "replaced": _bits(replaced),
        "rewritten": pa.array(_find_rewritten(table, order, history, kinds, bounds), mask=~changed),
        "leader_changed": pa.array(epoch != np.append(0, epoch[:-1]), mask=~comparable),
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
    for name in History._fields[1:]:
        field, numbers = schemas.HISTORY.field(name), getattr(history, name)
        buffers = [_bitmap(valid.get(name, has_start)), pa.py_buffer(numbers)]
        values[name] = pa.Array.from_buffers(field.type, len(order), buffers)
    return batch_of(values, schemas.HISTORY)


def _find_initial(table: pa.RecordBatch, order: Ints, kinds: NDArray[np.int8]) -> Bools:
    """Return whether each record may be the group coordinator's, which creates and alters states.

    Its snapshots have leader epoch 0, like those of a topic's first leader, and are written when
    their state is created (``ShareCoordinatorShard.initializeState``).
    """
    is_new = pc.and_(
        pc.equal(table.column("create_timestamp"), table.column("write_timestamp")),
        pc.equal(table.column("leader_epoch"), 0),
    )
    found = is_new.fill_null(False).to_numpy(zero_copy_only=False)[order]
    return np.asarray((kinds == k.SNAPSHOT) & found, bool)


def _find_rewritten(
    table: pa.RecordBatch, order: Ints, history: History, kinds: NDArray[np.int8], bounds: Ints
) -> Bools:
    """Return whether each row is a later snapshot of the previous state, with the same creation."""
    is_snapshot = kinds == k.SNAPSHOT
    columns = [table.column(name).cast(pa.int64()) for name in _TIMES]
    created, written = (column.fill_null(_NO_TIME).to_numpy()[order] for column in columns)
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


def _bitmap(bits: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def _bits(bits: Bools) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(bits), [None, _bitmap(bits)])


def _find_whole(
    from_snapshot: Bools, kinds: NDArray[np.int8], first: Bools, broken: Bools
) -> Bools:
    """Return whether the state after each row follows a snapshot without gaps since."""
    if not broken.any():
        return from_snapshot
    place = np.arange(len(kinds))
    begin = np.maximum.accumulate(np.where(first, place, 0))
    last_reset = np.maximum.accumulate(
        np.where((kinds == k.SNAPSHOT) | (kinds == k.TOMBSTONE), place, -1)
    )
    last_break = np.maximum.accumulate(np.where(broken, place, -1))
    return np.asarray(from_snapshot & ((last_break < begin) | (last_reset >= last_break)))


# ---- compiled ------------------------------------------------------------------------------------


class History(NamedTuple):
    """States after each record; zeros for missing states. Changes are relative to the previous row.

    Kernels have the columns of each type as rows of a matrix, in this order; see `history_rows`.
    """

    flags: NDArray[np.uint8]
    snapshot_epoch: NDArray[np.int32]
    state_epoch: NDArray[np.int32]
    leader_epoch: NDArray[np.int32]
    start_offset: Ints
    effective_start_offset: Ints
    window_end_offset: Ints
    delivery_complete_count: NDArray[np.int32]
    window_available: Ints
    window_complete: Ints
    runs: NDArray[np.int32]
    max_delivery_count: NDArray[np.int16]
    head_delivery_count: NDArray[np.int16]
    finished: Ints
    archived: Ints
    released: Ints
    redelivered: Ints


def _of_type(kind: pa.DataType) -> tuple[str, ...]:
    return tuple(n for n in History._fields[1:] if schemas.HISTORY.field(n).type == kind)


_WIDE, _MIDDLE, _NARROW = _of_type(pa.int64()), _of_type(pa.int32()), _of_type(pa.int16())
_FINISHED, _ARCHIVED, _RELEASED, _REDELIVERED = range(5, 9)


def history_rows(walk: Ints, key: NDArray[Any], c: k.Columns, keys: int) -> History:
    """Return the state of each share partition after each of its records, row by row.

    Parameters are those of `replay_rows`, and the number of share partitions.
    """
    size = len(walk)
    flags = np.zeros(size, np.uint8)
    wide, middle, narrow = (
        np.zeros((len(names), size), kind)
        for names, kind in ((_WIDE, np.int64), (_MIDDLE, np.int32), (_NARROW, np.int16))
    )
    state = np.zeros(keys * k.STATE_COLUMNS, np.int64)
    fill = ready(fill_history, k.work_of(c))
    fill(walk, key, c, state, new_heap(), flags, wide, middle, narrow)
    columns = zip((*_WIDE, *_MIDDLE, *_NARROW), (*wide, *middle, *narrow), strict=True)
    return History(flags, **dict(columns))


@kernel
def fill_history(
    walk: Any, key: Any, c: Any, state: Any, heap: Any,
    flags: Any, wide: Any, middle: Any, narrow: Any,
) -> Any:  # fmt: skip
    """Replay records and write `History` for each; other parameters as for `replay_rows`."""
    (
        kind, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete_count, created,
        written, batch_at, first, last, delivery_state, delivery_count,
    ) = c  # fmt: skip
    work, changes, record = new_work(), np.zeros(3, np.int64), np.empty(k.RECORD_COLUMNS, np.int64)
    before = np.zeros(k.PLACE, np.int64)
    for x in range(walk.size):
        i = walk[x]
        s = k.STATE_COLUMNS * key[i]
        pieces = most_pieces(state, s, batch_at[i + 1] - batch_at[i])
        if not has_room(pieces, heap, work):
            heap, work = with_room(pieces, heap, work)
        load(
            i, record, work, kind, snapshot_epoch, state_epoch, leader_epoch, start_offset,
            complete_count, created, written, batch_at, first, last, delivery_state, delivery_count,
        )  # fmt: skip
        for number in range(k.PLACE):
            before[number] = state[s + number]
        changes[0] = changes[1] = changes[2] = 0
        n_old = apply(record, state, s, heap, work, True, changes)
        refused = record[k.KIND] == k.UPDATE_TOMBSTONE or (
            state[s + k.EXISTS] == 1 and state[s + k.REJECTED] > before[k.REJECTED]
        )
        flag = REFUSED if refused else 0
        if state[s + k.EXISTS] == 0:
            flags[i] = flag
            continue
        size = state[s + k.END] - state[s + k.BEGIN]
        if state[s + k.PLAIN] == 1 and n_old < 0:
            measure(heap, place_of(state, s), size, state, s)
        else:
            own = OWN * (work.size // 4)
            size = runs_of(state, s, heap, work, OWN)
            measure(work, own, size, state, s)
            if n_old >= 0:
                old = OLD * (work.size // 4)
                compare(work, old, old + SIZE * n_old, work, own, size, changes)
        was_empty = before[k.IS_FULL] == 0
        state[s + k.IS_FULL] = size > 0
        existed = before[k.EXISTS] == 1
        replaced = record[k.KIND] == k.SNAPSHOT and not (
            existed and not _is_replaced(before, state, s)
        )
        if existed and not replaced:
            flag |= _store_finished(before, state, s, was_empty, i, wide)
            wide[_ARCHIVED, i] = changes[k.ARCHIVED]
            wide[_RELEASED, i] = changes[k.RELEASED]
            wide[_REDELIVERED, i] = changes[k.REDELIVERED]
        flag |= REPLACED if replaced else 0
        flag |= FROM_SNAPSHOT if state[s + k.FROM_SNAPSHOT] == 1 else 0
        flags[i] = flag | EXISTS
        _write(state, s, i, wide, middle, narrow)
    return heap


@part
def _store_finished(before: Any, state: Any, s: int, was_empty: bool, i: int, wide: Any) -> int:
    """Store the number of finished offsets, and return the flag that it is known, or 0."""
    done = state[s + k.START_OFFSET] + state[s + k.COMPLETE]
    done -= before[k.START_OFFSET] + before[k.COMPLETE]
    has_start = before[k.START_OFFSET] != UNINITIALIZED_START_OFFSET
    if not has_start and before[k.FROM_SNAPSHOT] == 1 and was_empty:
        # Before its first write a share partition has no start offset and nothing finished.
        has_start = state[s + k.START_OFFSET] != UNINITIALIZED_START_OFFSET
        done = state[s + k.COMPLETE]
    wide[_FINISHED, i] = done
    # A start offset that goes back is a broker bug, which does not make records unfinished.
    return CHANGE_KNOWN if has_start and done >= 0 else 0


@part
def _write(state: Any, s: int, i: int, wide: Any, middle: Any, narrow: Any) -> None:
    """Write the numbers of a state, in the order of the columns of each type."""
    wide[0, i], wide[1, i] = state[s + k.START_OFFSET], state[s + k.EFFECTIVE_START]
    wide[2, i], wide[3, i] = state[s + k.WINDOW_END], state[s + k.AVAILABLE]
    wide[4, i] = state[s + k.COMPLETE]
    middle[0, i], middle[1, i] = state[s + k.SNAPSHOT_EPOCH], state[s + k.STATE_EPOCH]
    middle[2, i], middle[3, i] = state[s + k.LEADER_EPOCH], state[s + k.COMPLETE_COUNT]
    middle[4, i] = state[s + k.RUNS]
    narrow[0, i], narrow[1, i] = state[s + k.MAX_COUNT], state[s + k.HEAD_COUNT]


@part
def _is_replaced(before: Any, state: Any, s: int) -> bool:
    """Return whether a snapshot replaces the state: a new one, or with an altered start offset.

    The group coordinator then sends a new state epoch. It can equal the old one (two resets of an
    empty group), but no other snapshot has no batches, leader epoch 0 and a new creation time.
    """
    if state[s + k.STATE_EPOCH] != before[k.STATE_EPOCH]:
        # A state that started with an update has no creation time.
        return bool(before[k.FROM_SNAPSHOT] == 1)
    start = before[k.START_OFFSET]
    forgot = state[s + k.START_OFFSET] != start or before[k.WINDOW_END] > start
    return bool(
        state[s + k.BEGIN] == state[s + k.END]
        and state[s + k.LEADER_EPOCH] == 0
        and state[s + k.CREATED] > before[k.CREATED] > 0
        and forgot
    )
