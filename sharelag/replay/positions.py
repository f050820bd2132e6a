"""Where share partitions stand after their records, without the batches: for Kafka's lag alone.

    lag = end offset - start offset - delivery complete count

The coordinator takes these numbers of a record whatever its batches hold, unless it cannot merge
them. Where that may be, and where records are not in the order of their log, there is no answer
here, and the windows must be replayed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compiled, kernel
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT, UNINITIALIZED_START_OFFSET
from sharelag.model.versions import Told
from sharelag.replay.layout import SNAPSHOT
from sharelag.tables.arrow import flat, one_batch
from sharelag.wire.columns import decode_columns
from sharelag.wire.decode import has_older
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import control_mask
from sharelag.wire.interpreter import all_equal, of_topic
from sharelag.wire.keys import ShareKeys

#: What `latest_positions` gives: columns of `sharelag.schemas.WINDOWS`.
POSITIONS = pa.schema(
    [
        schemas.WINDOWS.field(name)
        for name in (
            *("group_id", "topic_id", "partition"),
            *("leader_epoch", "start_offset", "delivery_complete_count"),
            *("from_snapshot", "record_partition"),
        )
    ]
)
#: What Kafka's lag needs of a record.
_NUMBERS = ("leader_epoch", "start_offset", "delivery_complete_count")
#: About so many bytes of records are shared out among the threads at a time.
_ROUND_BYTES = 64 << 20
#: Columns of a state; ALIVE is WHOLE after a snapshot, PLACE is its state partition, AT the offset
#: of its last record.
_ALIVE, _LEADER_EPOCH, _START_OFFSET, _COUNT, _PLACE, _AT = range(6)
_WHOLE = 2
_NEW = np.array([0, 0, UNINITIALIZED_START_OFFSET, UNINITIALIZED_DELIVERY_COMPLETE_COUNT, -2, -1])


class Positions(NamedTuple):
    """Where share partitions stand."""

    table: pa.RecordBatch
    """`POSITIONS`, sorted by group, topic id, partition."""
    rejected: int
    """Records that could not be decoded."""
    repeated: int = 0
    """Records that repeat another one and were left out."""


def latest_positions(
    raw: Iterable[pa.RecordBatch], threads: int | None = None, kafka_version: Told = None
) -> Positions | None:
    """Return where every share partition stands after these records.

    Parameters
    ----------
    raw : iterable of pyarrow.RecordBatch
        `sharelag.schemas.RAW`; rows of other topics are left out. A few batches are held at a time.
    threads : int, optional
        State partitions are shared out among so many; by default one a core.
    kafka_version : str or callable, optional
        As for `sharelag.wire.decode_arrow`.

    Returns
    -------
    Positions or None
        The columns of the same name of what `replay_arrow` gives of the same records; None: they
        cannot be known without the batches, so the windows must be replayed.
    """
    count = threads or os.cpu_count() or 1
    lanes, topics = [_Lane(kafka_version) for _ in range(count)], set[str]()
    with ThreadPoolExecutor(count) as pool:
        mapped = pool.map if count > 1 else map
        for some in _rounds(raw):
            shared = _shared_out(some, count, topics)
            if shared is None or not all(mapped(_Lane.scan, lanes, shared)):
                return None
    found = one_batch(pa.Table.from_batches([lane.positions() for lane in lanes], POSITIONS))
    ordered = found.sort_by([(name, "ascending") for name in POSITIONS.names[:3]])
    return Positions(ordered, sum(lane.rejected for lane in lanes))


def _rounds(raw: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield some batches at a time."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in raw:
        schemas.require(batch, schemas.RAW, "raw records")
        held.append(batch)
        size += batch.nbytes
        if size >= _ROUND_BYTES:
            yield held
            held, size = [], 0
    yield held


def _shared_out(
    raw: Sequence[pa.RecordBatch], count: int, topics: set[str]
) -> list[list[pa.RecordBatch]] | None:
    """Share batches out by state partition; None: they come from several topics."""
    lanes: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    for batch in raw:
        chosen = of_topic(batch, STATE_TOPIC)
        if chosen.num_rows < batch.num_rows and control_mask(batch).any():
            return None
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


class _Lane:
    """The states of the share partitions of some state partitions."""

    def __init__(self, kafka_version: Told) -> None:
        self._keys, self._states = ShareKeys(), np.tile(_NEW, (1, 1))
        self._kafka_version = kafka_version
        self.rejected = 0

    def scan(self, batches: list[pa.RecordBatch]) -> bool:
        """Fold records into states; False: their batches matter, or their order or format."""
        return all(self._scan(batch) for batch in batches)

    def _scan(self, batch: pa.RecordBatch) -> bool:
        found = decode_columns(batch, self._keys, self._kafka_version)
        ends_before_it_begins = found.batches["first_offset"] > found.batches["last_offset"]
        if has_older(found.strange) or ends_before_it_begins[: found.batch_at[-1]].any():
            return False
        self.rejected += found.rejects.num_rows
        if len(self._keys) > len(self._states):
            more = np.tile(_NEW, (2 * len(self._keys) - len(self._states), 1))
            self._states = np.concatenate([self._states, more])
        place, offset = (found.position[name] for name in ("record_partition", "offset"))
        leader_epoch, start_offset, count = (found.numbers[name] for name in _NUMBERS)
        return compiled(fold)(
            found.key, found.record_type, found.tombstone, place.to_numpy(), offset.to_numpy(),
            leader_epoch, start_offset, count, self._states,
        )  # fmt: skip

    def positions(self) -> pa.RecordBatch:
        """Return `POSITIONS`, in any order."""
        states = self._states[: len(self._keys)]
        alive = np.flatnonzero(states[:, _ALIVE])
        names = self._keys.table().take(pa.array(alive))
        chosen = states[alive]
        numbers = [
            pa.array(chosen[:, _LEADER_EPOCH]),
            _known(chosen[:, _START_OFFSET], UNINITIALIZED_START_OFFSET),
            _known(chosen[:, _COUNT], UNINITIALIZED_DELIVERY_COMPLETE_COUNT),
            pa.array(chosen[:, _ALIVE] == _WHOLE),
            _known(chosen[:, _PLACE], -1),
        ]
        arrays = [*names.columns, *numbers]
        return pa.RecordBatch.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, POSITIONS, strict=True)],
            schema=POSITIONS,
        )


def _places(batch: pa.RecordBatch) -> NDArray[np.int32]:
    """Return the state partition of each record, -1 where it is null."""
    column = batch.column("partition")
    known = column.fill_null(-1) if column.null_count else column
    return np.asarray(known.to_numpy(), np.int32)


@kernel
def fold(
    key: Any, record_type: Any, tombstone: Any, place: Any, offset: Any,
    leader_epoch: Any, start_offset: Any, count: Any, states: Any,
) -> bool:  # fmt: skip
    """Apply records to the states of their share partitions, as the coordinator does.

    Returns
    -------
    bool
        False: the records of a share partition are not in the order of one state partition.
    """
    for i in range(key.size):
        k = key[i]  # a row of states would be a separate object, whose references are counted
        is_elsewhere = states[k, _PLACE] != place[i] and states[k, _PLACE] != -2
        if is_elsewhere or offset[i] < states[k, _AT]:
            return False
        states[k, _PLACE], states[k, _AT] = place[i], offset[i]
        if tombstone[i]:
            # Kafka never writes that of an update, and cannot load it.
            if record_type[i] == SNAPSHOT:
                states[k, _ALIVE] = 0
        elif record_type[i] == SNAPSHOT or states[k, _ALIVE] == 0:
            states[k, _ALIVE] = _WHOLE if record_type[i] == SNAPSHOT else 1
            states[k, _LEADER_EPOCH] = leader_epoch[i]
            states[k, _START_OFFSET], states[k, _COUNT] = start_offset[i], count[i]
        else:
            if start_offset[i] != UNINITIALIZED_START_OFFSET:
                states[k, _START_OFFSET] = start_offset[i]
            if leader_epoch[i] != -1:
                states[k, _LEADER_EPOCH] = leader_epoch[i]
            states[k, _COUNT] = count[i]
    return True


def _known(values: NDArray[np.int64], unknown: int) -> pa.Array:
    return pa.array(values, mask=values == unknown)
