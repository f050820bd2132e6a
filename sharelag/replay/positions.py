"""Where share partitions stand after their records, without the batches: for Kafka's lag alone.

    lag = end offset - start offset - delivery complete count

The coordinator takes these numbers of a record whatever its batches hold, unless it cannot merge
them. Where that may be, and where records are not in the order of their log, the windows are
replayed as always: the answer is the same, it only takes longer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compiled, kernel
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT, UNINITIALIZED_START_OFFSET
from sharelag.replay.layout import SNAPSHOT
from sharelag.replay.state import replay_arrow
from sharelag.schemas.arrow import flat
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.interpreter import all_equal, of_topic
from sharelag.wire.keys import ShareKeys
from sharelag.wire.positions import decode_positions

#: What `latest_positions` gives: columns of `sharelag.schemas.WINDOWS`.
POSITIONS = pa.schema(
    [
        schemas.WINDOWS.field(name)
        for name in (
            *("group_id", "topic_id", "partition"),
            *("leader_epoch", "start_offset", "delivery_complete_count"),
        )
    ]
)
_KEY = POSITIONS.names[:3]
#: Columns of a state; PLACE is its state partition, AT the offset of its last record.
_ALIVE, _LEADER_EPOCH, _START_OFFSET, _COUNT, _PLACE, _AT = range(6)
_NEW = np.array([0, 0, UNINITIALIZED_START_OFFSET, UNINITIALIZED_DELIVERY_COMPLETE_COUNT, -2, -1])


def latest_positions(raw: Sequence[pa.RecordBatch], threads: int | None = None) -> pa.RecordBatch:
    """Return where every share partition stands after these records.

    Parameters
    ----------
    raw : sequence of pyarrow.RecordBatch
        `sharelag.schemas.RAW`; rows of other topics are left out.
    threads : int, optional
        State partitions are shared out among so many; by default one a core.

    Returns
    -------
    pyarrow.RecordBatch
        `POSITIONS`: the columns of the same name of what `replay_arrow` gives of the same records,
        sorted by group, topic id, partition.
    """
    for batch in raw:
        schemas.require(batch, schemas.RAW, "raw records")
    lanes = _lanes(raw, threads or os.cpu_count() or 1)
    found = None if lanes is None else _in_threads(lanes)
    if found is None:
        records = decode_arrow(pa.Table.from_batches(raw, None if raw else schemas.RAW)).records
        return replay_arrow(records).select(POSITIONS.names)
    return _sorted(pa.Table.from_batches(found, POSITIONS))


def _lanes(raw: Sequence[pa.RecordBatch], count: int) -> list[list[pa.RecordBatch]] | None:
    """Share batches out by state partition; None: the records are of more than one topic."""
    lanes: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    topics = set()
    for batch in raw:
        chosen = of_topic(batch, STATE_TOPIC)
        if not chosen.num_rows:
            continue
        if not all_equal(flat(chosen.column("topic")).cast(pa.string())):
            return None
        topics.add(chosen.column("topic")[0].as_py())
        lane = _places(chosen) % count
        if (lane == lane[0]).all():
            lanes[lane[0]].append(chosen)
        else:
            for number in np.unique(lane):
                lanes[number].append(chosen.filter(pa.array(lane == number)))
    return lanes if len(topics) < 2 else None


def _in_threads(lanes: list[list[pa.RecordBatch]]) -> list[pa.RecordBatch] | None:
    used = [lane for lane in lanes if lane]
    if len(used) < 2:
        found = [_scan(lane) for lane in used]
    else:
        with ThreadPoolExecutor(len(used)) as pool:
            found = list(pool.map(_scan, used))
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _scan(batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Fold records into states; None: the batches matter, or the order is another."""
    keys, states = ShareKeys(), np.tile(_NEW, (1, 1))
    for batch in batches:
        if batch.column("offset").null_count:
            return None
        found = decode_positions(batch, keys)
        if len(keys) > len(states):
            more = np.tile(_NEW, (2 * len(keys) - len(states), 1))
            states = np.concatenate([states, more])
        place = _places(batch)
        offset = batch.column("offset").to_numpy()
        if found.row is not None:
            place, offset = place[found.row], offset[found.row]
        leader_epoch, start_offset, count = found.numbers.values()
        if not compiled(fold)(
            found.key, found.record_type, found.tombstone, found.turned, place, offset,
            leader_epoch, start_offset, count, states,
        ):  # fmt: skip
            return None
    return _positions(keys, states[: len(keys)])


def _places(batch: pa.RecordBatch) -> NDArray[np.int32]:
    """Return the state partition of each record, -1 where it is null."""
    column = batch.column("partition")
    known = column.fill_null(-1) if column.null_count else column
    return np.asarray(known.to_numpy(), np.int32)


@kernel
def fold(
    key: Any, record_type: Any, tombstone: Any, turned: Any, place: Any, offset: Any,
    leader_epoch: Any, start_offset: Any, count: Any, states: Any,
) -> bool:  # fmt: skip
    """Apply records to the states of their share partitions, as the coordinator does.

    Returns
    -------
    bool
        False: a state batch ends before it begins, or the records of a share partition are not in
        the order of one state partition.
    """
    for i in range(key.size):
        k = key[i]  # a row of states would be an object of its own, whose references are counted
        is_elsewhere = states[k, _PLACE] != place[i] and states[k, _PLACE] != -2
        if turned[i] or is_elsewhere or offset[i] < states[k, _AT]:
            return False
        states[k, _PLACE], states[k, _AT] = place[i], offset[i]
        if tombstone[i]:
            # Kafka never writes that of an update, and cannot load it.
            if record_type[i] == SNAPSHOT:
                states[k, _ALIVE] = 0
        elif record_type[i] == SNAPSHOT or states[k, _ALIVE] == 0:
            states[k, _ALIVE], states[k, _LEADER_EPOCH] = 1, leader_epoch[i]
            states[k, _START_OFFSET], states[k, _COUNT] = start_offset[i], count[i]
        else:
            if start_offset[i] != UNINITIALIZED_START_OFFSET:
                states[k, _START_OFFSET] = start_offset[i]
            if leader_epoch[i] != -1:
                states[k, _LEADER_EPOCH] = leader_epoch[i]
            states[k, _COUNT] = count[i]
    return True


def _positions(keys: ShareKeys, states: NDArray[np.int64]) -> pa.RecordBatch:
    alive = np.flatnonzero(states[:, _ALIVE])
    names = keys.table().take(pa.array(alive))
    chosen = states[alive]
    numbers = [
        pa.array(chosen[:, _LEADER_EPOCH]),
        _known(chosen[:, _START_OFFSET], UNINITIALIZED_START_OFFSET),
        _known(chosen[:, _COUNT], UNINITIALIZED_DELIVERY_COMPLETE_COUNT),
    ]
    arrays = [*names.columns, *numbers]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, POSITIONS, strict=True)],
        schema=POSITIONS,
    )


def _known(values: NDArray[np.int64], unknown: int) -> pa.Array:
    return pa.array(values, mask=values == unknown)


def _sorted(table: pa.Table) -> pa.RecordBatch:
    ordered = table.sort_by([(name, "ascending") for name in _KEY]).combine_chunks()
    batches = ordered.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=POSITIONS)
