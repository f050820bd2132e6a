"""Which records of older generations count, by the rule of each.

G2: a delta counts if its checkpoint epoch is that of the checkpoint before it. G0 and G1: likewise;
and G0's deltas are those of the chain that leads back from the last one to the checkpoint. What
does not count is treated like a record that Kafka refuses. G3 is replayed like today's records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.compiled import kernel
from sharelag.replay import layout as k
from sharelag.schemas import Bools, Ints

#: An epoch that the format does not have.
UNKNOWN_EPOCH = -(2**31)
#: The last generation whose deltas name their checkpoint.
_BY_EPOCH = 2


def is_older(table: pa.RecordBatch) -> bool:
    """Whether some of the records are of an older generation."""
    column = table.column("generation")
    return bool(column.null_count < len(column))


def kinds_by_rule(
    table: pa.RecordBatch, order: Ints, bounds: Ints, kinds: NDArray[np.int8]
) -> NDArray[np.int8]:
    """Return the kind of each record; those that do not count are tombstones of updates.

    ``order`` and ``bounds`` are those of `sharelag.replay.columns.by_share_partition`.
    """
    generation = table.column("generation").fill_null(127).to_numpy()[order]
    epochs = table.column("snapshot_epoch").fill_null(-1).to_numpy()[order]
    offsets = table.column("offset").to_numpy()[order]
    sorted_kinds = kinds[order]
    deltas = (generation <= _BY_EPOCH) & (sorted_kinds == k.UPDATE)
    ignored = deltas & ~_of_last_checkpoint(sorted_kinds, epochs, bounds)
    chained = deltas & (generation == 0)
    if chained.any():
        back = _older_field(table, "back_offset")[order]
        ignored |= chained & ~on_chain(bounds, sorted_kinds, offsets, back, chained & ~ignored)
    ruled = kinds.copy()
    ruled[order[ignored]] = k.UPDATE_TOMBSTONE
    return ruled


def _of_last_checkpoint(kinds: NDArray[np.int8], epochs: NDArray[Any], bounds: Ints) -> Bools:
    """Whether each record has the epoch of its share partition's last checkpoint before it."""
    place = np.arange(len(kinds))
    resets = (kinds == k.SNAPSHOT) | (kinds == k.TOMBSTONE)
    last = np.maximum.accumulate(np.where(resets, place, -1))
    begins = np.repeat(bounds[:-1], np.diff(bounds))
    there = (last >= begins) & (kinds[last] == k.SNAPSHOT)
    return np.asarray(there & (epochs[last] == epochs))


def delta_jumps(table: pa.RecordBatch, order: Ints, bounds: Ints) -> Bools:
    """Return before which records, in order, a delta of G2 is missing, by the indices in keys.

    An index is that of the delta before plus one, whatever checkpoints are between; after the last
    of the range, which is 255 at most, it begins with 0 again.
    """
    jumps = np.zeros(len(order), bool)
    if not is_older(table):
        return jumps
    index = _older_field(table, "delta_index")[order]
    generation = table.column("generation").fill_null(127).to_numpy()[order]
    gone = table.column("tombstone").to_numpy(zero_copy_only=False)[order]
    there = np.flatnonzero((index >= 0) & (generation == _BY_EPOCH) & ~gone)
    # A share partition that was removed and created again begins anew.
    life = np.searchsorted(bounds, there, side="right") + np.cumsum(gone & (index < 0))[there]
    same = life[1:] == life[:-1]
    now, before = index[there[1:]], index[there[:-1]]
    jumps[there[1:]] = same & (now != before + 1) & (now != 0)
    return jumps


def _older_field(table: pa.RecordBatch, name: str) -> Ints:
    """Return a field that only an older design has, -1 where a record has none."""
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
