"""Tell older records from the beginnings of today's, which a damaged log may hold.

Read by an older layout, the beginning of one of today's records has today's timestamps, counts and
epochs where that layout has offsets and counts. With state batches they become numbers that nobody
writes: in a snapshot of Kafka 4.0 the first delivery count would be 256 or more, in an update the
first offset 2**48 or more, and a checkpoint would have 65,536 batches. Without batches an older
record is unmistakable if one of today's would need a leader or state epoch of 65,536 or more.

A checkpoint without batches may also be the beginning of a snapshot of Kafka 4.0: then its start
offset is two epochs. A delta of control records without batches may be the beginning of one with a
back offset. What may be either is taken for an older record only beside unmistakable ones.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat
from sharelag.wire.fields import smallest_size
from sharelag.wire.generations.layouts import SHARE_DELTA, SNAPSHOT, Layout
from sharelag.wire.interpreter import Rows

#: The array of every record of an older generation.
BATCHES = "state_batches"
#: Delivery states that are ever written.
_WRITTEN = (0, 2, 4)
_BATCH = ("first_offset", "last_offset", "delivery_state", "delivery_count")
#: No offset reaches this, no delivery count that, whatever a cluster's settings.
_OFFSET_END, _COUNT_END = 2**47, 256
#: Numbers below it fill the upper half of four bytes with zeros.
_HALF = 2**16
#: From which numbers on a varint has a byte more.
_VARINT = np.array([2**7, 2**14, 2**21, 2**28])


def plausible(layout: Layout, rows: Rows, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each good row has numbers that are written, and no bytes that are not.

    Parameters
    ----------
    layout : Layout
    rows : Rows
    counts : int64[good rows]
        How many state batches each has; 0 where the value is null.
    """
    every = slice(0, int(counts.sum()))
    first, last, state, count = (
        rows.slot(rows.program.slots[f"{BATCHES}.{name}"], every) for name in _BATCH
    )
    odd = ~np.isin(state, _WRITTEN) | (count < 0) | (count >= _COUNT_END)
    odd |= (first < 0) | (last < first) | (last >= _OFFSET_END)
    record = np.repeat(np.arange(len(counts)), counts)
    if layout.record_type == SNAPSHOT:  # what is written of a window: sorted, and disjoint
        odd[1:] |= (record[1:] == record[:-1]) & (first[1:] <= last[:-1])
    fine = np.bincount(record[odd], minlength=len(counts)) == 0
    for name, least, end in (
        ("start_offset", -1, _OFFSET_END),
        ("state_epoch", 0, 2**31),
        ("leader_epoch", -1, 2**31),
    ):
        number = _number(rows, name)
        fine &= rows.value_null[rows.good] | ((number >= least) & (number < end))
    if "back_offset" in rows.program.slots:
        back, own = _number(rows, "back_offset"), flat(rows.batch.column("offset"))
        fine &= (back >= 0) & (back < own.fill_null(_OFFSET_END).to_numpy()[rows.good])
    return np.asarray(fine & (rows.value_null[rows.good] | _exact(layout, rows, counts)))


def _exact(layout: Layout, rows: Rows, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether values have no tags, and no count in more bytes than it needs."""
    if not layout.kind.flexible:
        return np.ones(len(counts), bool)
    (batch,) = (field for field in layout.kind.value if field.fields)
    size = 2 + smallest_size(layout.kind.value) + counts * smallest_size(batch.fields)
    size += np.searchsorted(_VARINT, counts + 1, side="right")
    sizes = pc.binary_length(flat(rows.batch.column("value")).cast(pa.binary())).fill_null(0)
    return np.asarray(size == sizes.to_numpy(zero_copy_only=False)[rows.good])


def unmistakable(layout: Layout, rows: Rows, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each good row, if it is `plausible`, cannot begin a record of another format."""
    found = rows.value_null[rows.good] | (counts > 0)
    if (layout.generation, layout.control) == (1, SHARE_DELTA):
        return np.asarray(found)
    if layout.control is not None or "delta_index" in rows.program.slots:
        return np.ones(len(counts), bool)  # the keys of other formats are others
    start = _number(rows, "start_offset")
    found |= start == -1
    if layout.generation == 2:
        leader = start % 2**32  # in a snapshot of Kafka 4.0, whose state epoch is before it
        epochs = (leader < _HALF) | (leader == 2**32 - 1)
        return np.asarray(found | ((start % _HALF != 0) & ~epochs))
    for name in ("state_epoch", "leader_epoch"):
        epoch = _number(rows, name)
        found |= (epoch > 0) & (epoch < _HALF)
    return np.asarray(found)


def _number(rows: Rows, name: str) -> NDArray[np.int64]:
    """Return a field of the good rows, 0 where the format does not have it."""
    slot = rows.program.slots.get(name)
    return np.zeros(len(rows.good), np.int64) if slot is None else rows.slot(slot, rows.good)


def supported(
    batch: Arrow,
    candidates: NDArray[np.int64],
    generation: NDArray[np.int64],
    sure: NDArray[np.bool_],
    today: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Whether the state partition of each candidate has records that show its generation.

    There is an unmistakable one of its generation, and none of Kafka 4.0 or of today's format
    before it: a cluster that was upgraded does not go back. Deltas with and without back offsets
    are not in one log.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RAW`.
    candidates : int64[rows]
        Places in the batch.
    generation : int64[rows]
        Of each candidate; -1: none, or a control record that is the same in several.
    sure : bool[rows]
        Which of them are unmistakable.
    today : int64[rows]
        Places of today's records in the batch.
    """
    topics = flat(batch.column("topic")).cast(pa.string()).dictionary_encode()
    partition = flat(batch.column("partition")).fill_null(-1).cast(pa.int64()).to_numpy()
    offset = flat(batch.column("offset")).fill_null(-1).to_numpy()
    topic = topics.indices.fill_null(-1).cast(pa.int64()).to_numpy()
    _, place = np.unique(topic * 2**32 + partition, return_inverse=True)
    shown = np.zeros((5, len(place)), bool)
    known = (generation >= 0) & sure
    shown[generation[known], place[candidates[known]]] = True
    here = place[candidates]
    found = shown[generation, here] & ~((generation == 1) & shown[0, here])
    kafkas = candidates[known & (generation == 3)]
    for later, older in ((today, 4), (kafkas, 3)):
        first = np.full(len(place), np.iinfo(np.int64).max)
        np.minimum.at(first, place[later], offset[later])
        found &= (generation >= older) | (offset[candidates] < first[here])
    return np.asarray(found)
