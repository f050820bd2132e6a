"""Convert records to the inputs of the compiled state machine, and its output to a table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import kernel
from sharelag.model import NO_TIMESTAMP, UNINITIALIZED_START_OFFSET
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT as _NO_COUNT
from sharelag.model.versions import Version
from sharelag.replay import layout as k
from sharelag.replay.merge import FIRST, LAST, RANK, joins_neighbours
from sharelag.schemas import Bools, Ints
from sharelag.tables.arrow import batch_of, changes
from sharelag.wire.interpreter import all_equal

#: Columns that identify a share partition, whose records are normally in one state partition.
KEY = ("topic", "record_partition", "group_id", "topic_id", "partition")

#: Stands for an epoch that the format does not have.
UNKNOWN_EPOCH = -(2**31)
#: The last generation whose deltas name their checkpoint.
_BY_EPOCH = 2
_OF_LAST_RECORD = [*KEY, "offset", "timestamp"]


def kernel_columns(table: pa.RecordBatch, order: Ints, bounds: Ints) -> k.Columns:
    """Return records as columns for the kernels, without copying Arrow data in the right form.

    ``order`` and ``bounds`` are those of `by_share_partition`.
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
    """Return epochs; if older records have none, a snapshot's is unknown and an update keeps it."""
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
    """Return numbers as read-only arrays, as Arrow's are, so that kernels are compiled once."""
    values = np.asarray(values, kind)
    values.setflags(write=False)
    return values


def _batches(column: pa.ListArray) -> tuple[NDArray[np.int32], pa.StructArray]:
    if not column.null_count:
        return read_only(column.offsets.to_numpy(), np.int32), column.values
    counts = pc.list_value_length(column).fill_null(0).to_numpy()
    return read_only(np.append(0, np.cumsum(counts)), np.int32), column.flatten()


def last_records(table: pa.RecordBatch, state: NDArray[Any]) -> pa.RecordBatch:
    """Return the last record of each existing state: share partition, offset and time."""
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
    kafka_version: Version = None,
) -> pa.RecordBatch:
    """Return `sharelag.schemas.WINDOWS`, one row per existing state.

    ``last`` is the result of `last_records`, the lists are those of `put_states`. ``kafka_version``
    is the version of the coordinator that wrote the batches, or a function that determines it.
    """
    joined = _join(raw, raw_at, state[:, k.MERGED] == 1)
    if joined is not None and joins_neighbours(kafka_version):
        raw, raw_at = joined
    alive = np.flatnonzero(state[:, k.EXISTS])
    state = state[alive]
    columns = {name: last.column(name) for name in KEY[1:]} | {
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
    return batch_of(columns, schemas.WINDOWS)


def _numbers_column(state: NDArray[Any], column: int, unknown: int | None = None) -> pa.Array:
    values = np.ascontiguousarray(state[:, column])
    return pa.array(values, mask=None if unknown is None else values == unknown)


def _join(
    rows: NDArray[Any], at: NDArray[Any], merged: Bools
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Join equal neighbours of each merged list of batches; None if there are none.

    A list that was not merged since it was written is the same in every version.
    """
    used = rows[:, : at[-1]]
    begins = used[LAST] < used[FIRST]  # an inverted batch has no neighbours
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
    states, counts = ((used[RANK] & 255) - 128).astype(np.int8), (used[RANK] >> 8).astype(np.int16)
    columns = [pa.array(column) for column in (used[FIRST], used[LAST], states, counts)]
    struct = pa.StructArray.from_arrays(columns, fields=list(schemas.STATE_BATCH))
    return pa.ListArray.from_arrays(pa.array(offsets), struct)


# ---- records by share partition, in log order ----------------------------------------------------


def by_share_partition(table: pa.RecordBatch) -> tuple[Ints, Ints]:
    """Return row numbers sorted by share partition and offset, and the start of each partition."""
    code = one_code([codes_of(table.column(name)) for name in KEY])
    offsets = table.column("offset").to_numpy()
    order, sorted_code = _sort(code)
    changed = changes(sorted_code)
    sorted_offsets = offsets[order]
    if not (changed[1:] | (sorted_offsets[1:] >= sorted_offsets[:-1])).all():
        order = np.lexsort((offsets, code))
    return order, np.append(np.flatnonzero(changed), len(order))


def cut_by_share_partition(records: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Cut records into parts of about this many rows; a share partition is in a single part."""
    if records.num_rows <= rows:
        yield records
        return
    order, bounds = by_share_partition(records)
    cuts = bounds[np.searchsorted(bounds, np.arange(0, len(order), rows))]
    for begin, end in pairwise(np.unique([*cuts, len(order)]).tolist()):
        yield records.take(pa.array(order[begin:end]))


def in_log_order(order: Ints, bounds: Ints) -> tuple[Ints, NDArray[np.int32]]:
    """Return an order of rows for the replay, and the number of each row's share partition.

    Usually the rows are in log order and are replayed in place, which reads memory sequentially.
    """
    key = np.empty(len(order), np.int32)
    key[order] = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    ascends = np.append(order[1:] > order[:-1], True)
    ascends[bounds[1:] - 1] = True
    return np.arange(len(order)) if ascends.all() else order, key


def codes_of(column: pa.Array) -> Ints:
    """Return numbers that sort like the values of a column."""
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    if column.type == pa.string() and len(column) and not column.null_count and all_equal(column):
        return np.zeros(len(column), np.int64)
    is_coded = pa.types.is_dictionary(column.type)
    encoded = column if is_coded else column.dictionary_encode(null_encoding="encode")
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    return np.asarray(ranks[encoded.indices.to_numpy()])


def one_code(codes: list[Ints]) -> Ints:
    """Return one number per row that sorts like the combination of several."""
    whole, values = np.zeros(len(codes[0]), np.int64), 1
    for code in codes:
        least, greatest = int(code.min()), int(code.max())
        if least == greatest:
            continue
        if values * (greatest - least + 1) >= 2**63:
            _, whole = np.unique(whole, return_inverse=True)
            values = int(whole.max()) + 1
        if values * (greatest - least + 1) >= 2**63:
            _, code = np.unique(code, return_inverse=True)
            least, greatest = 0, int(code.max())
        values *= greatest - least + 1
        whole = whole * (greatest - least + 1) + (code - least)
    return whole


def _sort(code: Ints) -> tuple[Ints, Ints]:
    """Return the stable sort order of numbers, and the sorted numbers."""
    bits = max(len(code) - 1, 1).bit_length()
    if int(code.max()) >> (63 - bits):
        order = np.argsort(code, kind="stable")
        return order, code[order]
    # Sorting numbers is several times faster than an indirect sort, so number and place are sorted
    # as one number.
    both = (code << bits) | np.arange(len(code))
    both.sort()
    return both & ((1 << bits) - 1), both >> bits


# ---- validity of records of older generations, by the rules of each ------------------------------

# G2: a delta is valid if its checkpoint epoch is that of the preceding checkpoint. G0 and G1: the
# same, and in G0 only deltas on the chain that leads back from the last one to the checkpoint are
# valid. Invalid records are treated like records that Kafka refuses. G3 is replayed like today's
# records.


def is_older(table: pa.RecordBatch) -> bool:
    """Return whether some of the records belong to an older generation."""
    column = table.column("generation")
    return bool(column.null_count < len(column))


def kinds_by_rule(
    table: pa.RecordBatch, order: Ints, bounds: Ints, kinds: NDArray[np.int8]
) -> NDArray[np.int8]:
    """Return the kind of each record; invalid ones become tombstones of updates.

    ``order`` and ``bounds`` are those of `by_share_partition`.
    """
    generation = table.column("generation").fill_null(127).to_numpy()[order]
    epochs = table.column("snapshot_epoch").fill_null(-1).to_numpy()[order]
    offsets = table.column("offset").to_numpy()[order]
    sorted_kinds = kinds[order]
    deltas = (generation <= _BY_EPOCH) & (sorted_kinds == k.UPDATE)
    ignored = deltas & ~_has_last_checkpoint(sorted_kinds, epochs, bounds)
    chained = deltas & (generation == 0)
    if chained.any():
        back = _older_field(table, "back_offset")[order]
        ignored |= chained & ~on_chain(bounds, sorted_kinds, offsets, back, chained & ~ignored)
    ruled = kinds.copy()
    ruled[order[ignored]] = k.UPDATE_TOMBSTONE
    return ruled


def _has_last_checkpoint(kinds: NDArray[np.int8], epochs: NDArray[Any], bounds: Ints) -> Bools:
    """Return whether each record has the epoch of its share partition's preceding checkpoint."""
    place = np.arange(len(kinds))
    resets = (kinds == k.SNAPSHOT) | (kinds == k.TOMBSTONE)
    last = np.maximum.accumulate(np.where(resets, place, -1))
    begins = np.repeat(bounds[:-1], np.diff(bounds))
    there = (last >= begins) & (kinds[last] == k.SNAPSHOT)
    return np.asarray(there & (epochs[last] == epochs))


def delta_jumps(table: pa.RecordBatch, order: Ints, bounds: Ints) -> Bools:
    """Return the records, in order, before which a delta of G2 is missing, by the indices in keys.

    An index is that of the previous delta plus one, regardless of checkpoints in between; after the
    end of the range, at most 255, it starts at 0 again.
    """
    jumps = np.zeros(len(order), bool)
    if not is_older(table):
        return jumps
    index = _older_field(table, "delta_index")[order]
    generation = table.column("generation").fill_null(127).to_numpy()[order]
    gone = table.column("tombstone").to_numpy(zero_copy_only=False)[order]
    there = np.flatnonzero((index >= 0) & (generation == _BY_EPOCH) & ~gone)
    # A share partition that was removed and created again starts over.
    life = np.searchsorted(bounds, there, side="right") + np.cumsum(gone & (index < 0))[there]
    same = life[1:] == life[:-1]
    now, before = index[there[1:]], index[there[:-1]]
    jumps[there[1:]] = same & (now != before + 1) & (now != 0)
    return jumps


def _older_field(table: pa.RecordBatch, name: str) -> Ints:
    """Return a field that only an older design has; -1 if a record lacks it."""
    column = table.column("older_fields")
    found = np.full(len(column), -1, np.int64)
    counts = column.offsets.to_numpy()
    row = np.repeat(np.arange(len(column)), np.diff(counts))
    here = slice(int(counts[0]), int(counts[-1]))
    named = pc.equal(column.keys, name).to_numpy(zero_copy_only=False)[here]
    found[row[named]] = column.items.to_numpy(zero_copy_only=False)[here][named]
    return found


@kernel
def on_chain(bounds: Any, kinds: Any, offsets: Any, back: Any, deltas: Any) -> Any:
    """Return the deltas on the chain back from the last whole one before each checkpoint."""
    whole = np.zeros(len(kinds), np.bool_)
    found = np.zeros(len(kinds), np.bool_)
    for key in range(bounds.size - 1):
        begin = bounds[key]
        for i in range(bounds[key], bounds[key + 1]):
            if kinds[i] == k.SNAPSHOT or kinds[i] == k.TOMBSTONE:
                begin, whole[i] = i, kinds[i] == k.SNAPSHOT
            elif deltas[i]:
                j = begin + np.searchsorted(offsets[begin:i], back[i])
                whole[i] = j < i and offsets[j] == back[i] and whole[j]
        wanted = np.int64(-1)
        for i in range(bounds[key + 1] - 1, bounds[key] - 1, -1):
            if kinds[i] == k.SNAPSHOT or kinds[i] == k.TOMBSTONE:
                wanted = np.int64(-1)
            elif whole[i] and (wanted == -1 or offsets[i] == wanted):
                found[i], wanted = True, back[i]
    return found
