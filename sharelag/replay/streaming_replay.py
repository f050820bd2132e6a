"""Final windows out of raw records: each batch is decoded and replayed while it is in the cache.

States stay from batch to batch, so memory is bounded by them and a batch, however long the stream
is. Where that cannot be done (records of a share partition out of order, in several state
partitions, of several topics or of older generations), or the records are too few to be worth
compiled kernels, they become tables first: the answer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.compiled import compile_kernel, is_worth_it, kernel
from sharelag.model import StateBatch
from sharelag.model.versions import Told
from sharelag.replay import layout as k
from sharelag.replay.columns import read_only, windows_table
from sharelag.replay.kernels import new_heap, put_states, replay_rows
from sharelag.replay.state import latest, replay_arrow
from sharelag.schemas import Arrow, Ints
from sharelag.tables.arrow import ascending, flat
from sharelag.wire.columns import ShareKeys, StateColumns, decode_columns
from sharelag.wire.decode import decode_arrow, has_older, of_state
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import TODAY, control_mask
from sharelag.wire.interpreter import all_equal, of_topic

#: Leaves some rows of a batch that has the columns of a position and of a share partition.
Choose = Callable[[Arrow], Arrow]
_ROW = "_row"


class Latest(NamedTuple):
    """What is known after some raw records."""

    windows: pa.RecordBatch
    """`sharelag.schemas.WINDOWS`, sorted by group, topic id, partition."""
    records: int
    rejected: int
    first: int | None
    """When the first and the last of the records were written, in milliseconds."""
    last: int | None


def latest_windows(
    raw: Iterable[pa.RecordBatch],
    choose: Choose | None = None,
    generation: int | None = None,
    until: Choose | None = None,
    kafka_version: Told = None,
) -> Latest:
    """Return the state of every share partition after some raw records, and counts of these.

    Parameters
    ----------
    raw : iterable of pyarrow.RecordBatch
        `sharelag.schemas.RAW`; rows of other topics are left out. It may be read twice, so an
        iterator is a TypeError.
    choose : callable, optional
        Which of the records count. It sees a batch with the columns ``topic record_partition
        offset timestamp group_id topic_id partition`` among others, and returns some of its rows.
    generation, kafka_version
        As for `sharelag.wire.decode_arrow`.
    until : callable, optional
        Which of the records had been written at the moment, in the same way; of these are the
        first and the last time, so that they are the same whichever groups are chosen.
    """
    if isinstance(raw, Iterator):
        raise TypeError("raw records may be read twice: give an iterable that begins anew")
    if generation not in (None, TODAY):
        return _by_tables(raw, choose, generation, until, kafka_version)
    held: list[pa.RecordBatch] = []
    size = 0
    batches = iter(raw)
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if is_worth_it(size, count=False):  # counted when it is decoded
            try:
                whole = _chain(held, batches)
                return _streamed(whole, choose, generation, until, kafka_version)
            except NotInOrderError:
                return _by_tables(raw, choose, generation, until, kafka_version)
    return _by_tables(held, choose, generation, until, kafka_version)


def _chain(held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while held:
        yield held.pop(0)
    yield from rest


def _by_tables(
    raw: Iterable[pa.RecordBatch],
    choose: Choose | None,
    generation: int | None,
    until: Choose | None,
    kafka_version: Told,
) -> Latest:
    records = rejected = 0
    span = _Span()

    def chosen() -> Iterator[pa.RecordBatch]:
        nonlocal records, rejected
        for batch in raw:
            state = of_state(batch, generation)
            decoded = decode_arrow(state, STATE_TOPIC, generation, kafka_version)
            written = decoded.records if until is None else until(decoded.records)
            found = written if choose is None else choose(written)
            records, rejected = records + found.num_rows, rejected + decoded.rejects.num_rows
            span.add(written.column("timestamp"))
            yield found

    windows = replay_arrow(latest(chosen(), schemas.RECORDS), kafka_version)
    return Latest(windows, records, rejected, span.first, span.last)


def _streamed(
    raw: Iterable[pa.RecordBatch],
    choose: Choose | None,
    generation: int | None,
    until: Choose | None,
    kafka_version: Told,
) -> Latest:
    states, span = RunningStates(), _Span()
    records = rejected = 0
    for batch in raw:
        found = decode_columns(_of_one_topic(batch, generation), states.keys, kafka_version)
        if generation is None and has_older(found.strange):
            raise NotInOrderError
        written = _chosen(found, until)
        walk = written if choose is None else np.intersect1d(written, _chosen(found, choose))
        times = found.position["timestamp"]
        span.add(times if until is None else times.take(pa.array(written)))
        records, rejected = records + len(walk), rejected + found.rejects.num_rows
        if len(walk):
            states.apply(found, walk)
    return Latest(states.windows(kafka_version), records, rejected, span.first, span.last)


def _of_one_topic(batch: pa.RecordBatch, generation: int | None) -> Arrow:
    schemas.require(batch, schemas.RAW, "raw records")
    chosen = of_topic(batch, STATE_TOPIC)
    others = batch.num_rows - chosen.num_rows
    if others and generation is None and control_mask(batch).any():
        raise NotInOrderError
    return chosen


def _chosen(found: StateColumns, choose: Choose | None) -> Ints:
    """Return the rows that count."""
    rows = np.arange(len(found.key))
    if choose is None:
        return rows
    names = found.keys.table().take(pa.array(found.key))
    columns = found.position | dict(zip(names.schema.names, names.columns, strict=True))
    chosen = choose(pa.RecordBatch.from_pydict(columns | {_ROW: pa.array(rows)}))
    # A copy, as `arange` may be written to: for what may only be read, kernels are compiled anew.
    return np.array(flat(chosen.column(_ROW)).to_numpy(), np.int64)


class _Span:
    """The first and the last of some times."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None

    def add(self, times: pa.Array) -> None:
        milliseconds = flat(times).cast(schemas.TIMESTAMP, safe=False)  # Spark has microseconds
        found = pc.min_max(milliseconds.view(pa.int64())).as_py()
        if found["min"] is not None:
            self.first = min(found["min"], found["min"] if self.first is None else self.first)
            self.last = max(found["max"], found["max"] if self.last is None else self.last)


# ---- states that go on from one batch to the next ------------------------------------------------


# Where the records of a share partition stand: their partition of the state topic, the offset of
# the last one, and offset and time of the last one that counted, and whether it has a time.
_PARTITION, _OFFSET, _LAST_OFFSET, _LAST_TIME, _HAS_TIME = range(5)
_NEW = np.array([-1, -1, 0, 0, 0])
#: Numbers of a record, in the order of `sharelag.replay.layout.Columns`.
_NUMBERS = (
    *("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset"),
    *("delivery_complete_count", "create_timestamp", "write_timestamp"),
)


class NotInOrderError(Exception):
    """The records need to be sorted, or read in another way."""


class RunningStates:
    """States after all records so far; `keys` numbers their share partitions."""

    def __init__(self) -> None:
        self.keys = ShareKeys()
        self._state, self._heap = np.zeros(0, np.int64), compile_kernel(new_heap)()
        self._stand = np.empty((0, len(_NEW)), np.int64)
        self._topic: str | None = None

    @property
    def nbytes(self) -> int:
        """How much memory the states take."""
        return int(self._state.nbytes + self._heap.nbytes + self._stand.nbytes)

    def apply(self, found: StateColumns, walk: Ints) -> None:
        """Replay some rows of a batch that was decoded with `keys`.

        It is a NotInOrderError when they cannot be replayed as they stand: the states are useless
        then.
        """
        self._grow()
        self._check_topic(flat(found.position["topic"]))
        place, offset = (found.position[name] for name in ("record_partition", "offset"))
        if place.null_count or offset.null_count:
            raise NotInOrderError
        offsets = offset.to_numpy()
        if not compile_kernel(is_in_order)(walk, found.key, place.to_numpy(), offsets, self._stand):
            raise NotInOrderError
        numbers = self._state.reshape(-1, k.STATE_COLUMNS)
        numbers[:, k.LAST_ROW] = -1
        self._heap = compile_kernel(replay_rows)(
            walk, found.key, _kernel_columns(found), self._state, self._heap
        )
        touched = np.flatnonzero(numbers[:, k.LAST_ROW] >= 0)
        rows = numbers[touched, k.LAST_ROW]
        times = flat(found.position["timestamp"]).cast(schemas.TIMESTAMP).take(pa.array(rows))
        self._stand[touched, _LAST_OFFSET] = offsets[rows]
        self._stand[touched, _LAST_TIME] = times.view(pa.int64()).fill_null(0).to_numpy()
        self._stand[touched, _HAS_TIME] = times.is_valid().to_numpy(zero_copy_only=False)

    def windows(self, kafka_version: Told = None) -> pa.RecordBatch:
        """Return `sharelag.schemas.WINDOWS`, sorted by group, topic id, partition."""
        used = self._state[: len(self.keys) * k.STATE_COLUMNS]
        lists = compile_kernel(put_states)(used, self._heap)
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
        return windows.sort_by(ascending(*names.schema.names))

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
    numbers = (found.numbers[name] for name in _NUMBERS)
    batches = (found.batches[name] for name in StateBatch._fields)
    columns = (kind, *numbers, found.batch_at, *batches)
    return k.Columns(*(read_only(column, column.dtype) for column in columns))
