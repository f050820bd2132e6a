"""States of share partitions that go on from one batch of decoded records to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compiled, kernel
from sharelag.model.versions import Told
from sharelag.replay import layout as k
from sharelag.replay.columns import read_only, windows_table
from sharelag.replay.kernels import put_states, replay_rows
from sharelag.replay.states import new_heap
from sharelag.schemas.arrow import flat
from sharelag.wire.columns import StateColumns
from sharelag.wire.interpreter import all_equal
from sharelag.wire.keys import ShareKeys

# Where the records of a share partition stand: their partition of the state topic, the offset of
# the last one, and offset and time of the last one that counted, and whether it has a time.
_PARTITION, _OFFSET, _LAST_OFFSET, _LAST_TIME, _HAS_TIME = range(5)
_NEW = np.array([-1, -1, 0, 0, 0])


class NotInOrderError(Exception):
    """The records need to be sorted, or read in another way."""


class RunningStates:
    """States after all records so far; `keys` numbers their share partitions."""

    def __init__(self) -> None:
        self.keys = ShareKeys()
        self._state, self._heap = np.zeros(0, np.int64), compiled(new_heap)()
        self._stand = np.empty((0, len(_NEW)), np.int64)
        self._topic: str | None = None

    @property
    def nbytes(self) -> int:
        """How much memory the states take."""
        return int(self._state.nbytes + self._heap.nbytes + self._stand.nbytes)

    def apply(self, found: StateColumns, walk: NDArray[np.int64]) -> None:
        """Replay some rows of a batch that was decoded with `keys`.

        Raises
        ------
        NotInOrderError
            When they cannot be replayed as they stand. The states are useless then.
        """
        self._grow()
        self._check_topic(flat(found.position["topic"]))
        place, offset = (found.position[name] for name in ("record_partition", "offset"))
        if place.null_count or offset.null_count:
            raise NotInOrderError
        offsets = offset.to_numpy()
        if not compiled(is_in_order)(walk, found.key, place.to_numpy(), offsets, self._stand):
            raise NotInOrderError
        numbers = self._state.reshape(-1, k.STATE_COLUMNS)
        numbers[:, k.LAST_ROW] = -1
        self._heap = compiled(replay_rows)(
            walk, found.key, _kernel_columns(found), self._state, self._heap
        )
        touched = np.flatnonzero(numbers[:, k.LAST_ROW] >= 0)
        rows = numbers[touched, k.LAST_ROW]
        times = flat(found.position["timestamp"]).cast(schemas.TIMESTAMP).take(pa.array(rows))
        self._stand[touched, _LAST_OFFSET] = offsets[rows]
        self._stand[touched, _LAST_TIME] = times.view(pa.int64()).fill_null(0).to_numpy()
        self._stand[touched, _HAS_TIME] = times.is_valid().to_numpy(zero_copy_only=False)

    def windows(self, kafka_version: Told = None) -> pa.RecordBatch:
        """Return `sharelag.schemas.WINDOWS`, sorted by group, topic id, partition.

        Parameters
        ----------
        kafka_version : str or callable, optional
            As for `sharelag.replay.replay_arrow`.
        """
        used = self._state[: len(self.keys) * k.STATE_COLUMNS]
        lists = compiled(put_states)(used, self._heap)
        numbers = used.reshape(-1, k.STATE_COLUMNS)
        alive = np.flatnonzero(numbers[:, k.EXISTS])
        names, stand = self.keys.table().take(pa.array(alive)), self._stand[alive]
        times = pa.array(stand[:, _LAST_TIME], mask=stand[:, _HAS_TIME] == 0)
        last = {
            "topic": pa.repeat(pa.scalar(self._topic, pa.string()), len(alive)),
            "record_partition": pa.array(stand[:, _PARTITION].astype(np.int32)),
            **dict(zip(names.schema.names, names.columns, strict=True)),
            "offset": pa.array(stand[:, _LAST_OFFSET]),
            "timestamp": times.view(schemas.TIMESTAMP),
        }
        known = pa.RecordBatch.from_pydict(last)
        windows = windows_table(known, numbers, *lists, kafka_version=kafka_version)
        return windows.sort_by([(name, "ascending") for name in names.schema.names])

    def _grow(self) -> None:
        known = len(self._stand)
        if len(self.keys) > known:
            more = max(len(self.keys), 2 * known) - known
            self._state = np.append(self._state, np.zeros(more * k.STATE_COLUMNS, np.int64))
            self._stand = np.append(self._stand, np.tile(_NEW, (more, 1)), axis=0)

    def _check_topic(self, topics: pa.Array) -> None:
        topic = topics[0].as_py()
        self._topic = topic if self._topic is None else self._topic
        if topic != self._topic or not all_equal(topics.cast(pa.string())):
            raise NotInOrderError


@kernel
def is_in_order(walk: Any, key: Any, place: Any, offset: Any, stand: Any) -> bool:
    """Whether each share partition's records go on in the order of one state partition."""
    for x in range(walk.size):
        i = walk[x]
        mine = key[i]
        is_elsewhere = stand[mine, _PARTITION] != place[i] and stand[mine, _OFFSET] >= 0
        if is_elsewhere or offset[i] < stand[mine, _OFFSET]:
            return False
        stand[mine, _PARTITION], stand[mine, _OFFSET] = place[i], offset[i]
    return True


def _kernel_columns(found: StateColumns) -> k.Columns:
    """Return decoded columns as the kernels read them."""
    kind = (found.record_type == k.UPDATE).view(np.int8)
    if found.tombstone.any():
        kind = kind + 2 * found.tombstone.astype(np.int8)
    numbers, batches = found.numbers, found.batches
    return k.Columns(
        *(
            read_only(column, column.dtype)
            for column in (
                kind,
                numbers["snapshot_epoch"],
                numbers["state_epoch"],
                numbers["leader_epoch"],
                numbers["start_offset"],
                numbers["delivery_complete_count"],
                numbers["create_timestamp"],
                numbers["write_timestamp"],
                found.batch_at,
                batches["first_offset"],
                batches["last_offset"],
                batches["delivery_state"],
                batches["delivery_count"],
            )
        )
    )
