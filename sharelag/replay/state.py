"""Replay records to the resulting state, as Kafka's share coordinator does, in Arrow.

`replay` is for a few records, `replay_arrow` for whole tables, and `drop_superseded` drops records
without an effect, in any subset of the records and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import compile_kernel, is_worth_it, kernel, ready
from sharelag.errors import ReplayError
from sharelag.model import (
    NO_TIMESTAMP,
    UNINITIALIZED_START_OFFSET,
    SharePartition,
    StateBatch,
    Window,
)
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT as _NO_COUNT
from sharelag.model.versions import Version, require_version
from sharelag.replay import layout as k
from sharelag.replay.columns import (
    by_share_partition,
    in_log_order,
    kernel_columns,
    kinds_of,
    last_records,
    read_only,
    windows_table,
)
from sharelag.replay.kernels import new_heap, put_states, replay_rows
from sharelag.replay.moment import up_to
from sharelag.schemas import Arrow, Bools, Ints
from sharelag.tables.arrow import ascending, each_offset, flat, one_batch, without_timestamps
from sharelag.wire.decode import (
    ShareKeys,
    StateColumns,
    decode_arrow,
    decode_columns,
    of_state,
)
from sharelag.wire.fields import STATE_TOPIC
from sharelag.wire.generations import TODAY, control_mask
from sharelag.wire.interpreter import all_equal, of_topic

#: Stands for an unknown epoch.
NO_EPOCH = -1
#: Number of records to collect before superseded ones are dropped.
_THIN_EVERY = 250_000


def replay(
    records: Iterable[tuple[int, bytes | None, bytes | None]],
    strict: bool = False,
    kafka_version: str | None = None,
) -> dict[SharePartition, Window]:
    """Replay raw records of one state partition, as the share coordinator does on load.

    Parameters
    ----------
    records : iterable of (offset, key, value or None)
        In log order.
    strict : bool
        Fail if Kafka's load would fail. Otherwise skip such a record.
    kafka_version : str, optional
        Version of the coordinator, as for `combine`; it also reads the records.

    Returns
    -------
    dict of SharePartition to Window
        Without share partitions whose last record is a tombstone.

    Raises
    ------
    ReplayError
        Only with ``strict``: the first record that Kafka could not load, and why.
    """
    place = {"topic": STATE_TOPIC, "partition": 0, "timestampType": 0}
    rows = [place | {"offset": at, "key": key, "value": value} for at, key, value in records]
    raw = pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)
    decoded = decode_arrow(raw, kafka_version=kafka_version)
    if strict:
        _fail_as_kafka_does(decoded.rejects, decoded.records)
    windows = replay_arrow(decoded.records, kafka_version)
    if strict and pc.any(pc.greater(windows.column("rejected_records"), 0)).as_py():
        raise ReplayError(
            "Kafka would not finish loading this state partition: a state batch that ends before "
            "it begins cannot be merged. Replay without strict to skip such records."
        )
    return dict(window_items(windows))


def replay_arrow(records: Arrow, kafka_version: Version = None) -> pa.RecordBatch:
    """Return the state of every share partition after these records.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`, in any order. They must include all records of a share partition
        since its last snapshot.
    kafka_version : str or callable, optional
        Version of the coordinator, such as ``4.3.1``, or what finds it out if it matters; the
        newest if there is none.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.WINDOWS`, one row per share partition that exists, sorted by group, topic
        id, partition.
    """
    require_version(kafka_version)
    table = one_batch(records)
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=schemas.WINDOWS)
    order, bounds = by_share_partition(table)
    walk, key = in_log_order(order, bounds)
    columns = kernel_columns(table, order, bounds)
    work = k.work_of(columns)
    numbers = np.zeros((len(bounds) - 1) * k.STATE_COLUMNS, np.int64)
    heap = ready(replay_rows, work)(walk, key, columns, numbers, new_heap())
    lists = ready(put_states, work)(numbers, heap)
    state = numbers.reshape(-1, k.STATE_COLUMNS)
    windows = windows_table(last_records(table, state), state, *lists, kafka_version=kafka_version)
    return windows.sort_by(ascending(*schemas.SHARE_PARTITION))


def drop_superseded(records: Arrow) -> pa.RecordBatch:
    """Drop the records that a later snapshot or tombstone of the share partition replaces.

    Correct for any subset of the records, so each Spark task and each chunk can apply it. Keeps the
    order of the rows.
    """
    table = one_batch(records)
    if table.num_rows == 0:
        return table
    order, bounds = by_share_partition(table)
    kinds = kinds_of(table)[order]
    resets = np.flatnonzero((kinds == k.SNAPSHOT) | (kinds == k.TOMBSTONE))
    begins = bounds[:-1].copy()
    np.maximum.at(begins, np.searchsorted(bounds, resets, side="right") - 1, resets)
    _, kept = each_offset(begins, bounds[1:] - 1)
    return table if len(kept) == len(order) else table.take(pa.array(np.sort(order[kept])))


def latest(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    thin: Callable[[Arrow], pa.RecordBatch] = drop_superseded,
) -> pa.RecordBatch:
    """Return the records of a stream that are not superseded, with about twice these in memory.

    ``schema`` is that of the result if the stream is empty; ``thin`` drops superseded records in
    any subset of the records.
    """
    gathered: list[pa.RecordBatch] = []
    rows = kept = 0
    for batch in batches:
        gathered.append(thin(batch))
        rows += gathered[-1].num_rows
        if rows > max(_THIN_EVERY, 2 * kept):
            gathered = [thin(pa.Table.from_batches(gathered))]
            rows = kept = gathered[0].num_rows
    return thin(pa.Table.from_batches(gathered, None if gathered else schema))


def window_items(windows: Arrow) -> list[tuple[SharePartition, Window]]:
    """Return the rows of a windows table as values, with Kafka's sentinels instead of nulls."""
    found = []
    for row in without_timestamps(windows).to_pylist():
        key = SharePartition(row["group_id"], row["topic_id"], row["partition"])
        window = Window(
            row["snapshot_epoch"],
            NO_EPOCH if row["state_epoch"] is None else row["state_epoch"],
            NO_EPOCH if row["leader_epoch"] is None else row["leader_epoch"],
            UNINITIALIZED_START_OFFSET if row["start_offset"] is None else row["start_offset"],
            _NO_COUNT if row["delivery_complete_count"] is None else row["delivery_complete_count"],
            row["create_timestamp"] or NO_TIMESTAMP,
            row["write_timestamp"] or NO_TIMESTAMP,
            tuple(StateBatch(**batch) for batch in row["batches"]),
        )
        found.append((key, window))
    return found


def _fail_as_kafka_does(rejects: pa.RecordBatch, records: pa.RecordBatch) -> None:
    failures = [(row["offset"], row["reason"]) for row in rejects.to_pylist()]
    lost = pc.and_(records.column("tombstone"), pc.equal(records.column("record_type"), 1))
    failures += [
        (offset, "a tombstone of an update, which Kafka never writes")
        for offset in records.column("offset").filter(lost).to_pylist()
    ]
    if failures:
        offset, reason = min(failures)
        raise ReplayError(
            f"Kafka would not load this state partition: record at offset {offset}: {reason}. "
            "Replay without strict to skip such records."
        )


# ---- at many moments -----------------------------------------------------------------------------


#: `sharelag.schemas.WINDOWS` with the moment of each row.
WINDOWS_AT = schemas.WINDOWS.append(pa.field("as_of", schemas.TIMESTAMP))
#: Their order; records of one share partition may be in several state topics.
WINDOWS_ORDER = ascending("as_of", *schemas.SHARE_PARTITION, "record_topic", "record_partition")


def replay_at(records: Arrow, moments: Ints, kafka_version: Version = None) -> pa.Table:
    """Return the `replay_arrow` of the records up to each moment, as `WINDOWS_AT`.

    The moments are milliseconds, ascending. Records without a timestamp are left out. The rows are
    sorted by moment, group, topic id, partition.
    """
    table = one_batch(records.filter(pc.is_valid(records.column("timestamp"))))
    if not table.num_rows or not len(moments):
        return WINDOWS_AT.empty_table()
    order, bounds = by_share_partition(table)
    times = table.column("timestamp").cast(schemas.TIMESTAMP).view(pa.int64()).to_numpy()
    steps = np.searchsorted(moments, times)
    back = going_back(steps[order], bounds)
    apart = np.repeat(back, np.diff(bounds))
    walk, key = in_log_order(order, bounds)
    # Each step continues with the states of the previous one, if possible.
    walk = walk[~back[key[walk]]]
    walk = walk[np.argsort(steps[walk], kind="stable")]
    ends = np.searchsorted(steps[walk], np.arange(len(moments)), side="right")
    columns = kernel_columns(table, order, bounds)
    work = k.work_of(columns, len(back) * len(moments))
    replay_on, put = ready(replay_rows, work), ready(put_states, work)
    numbers, heap = np.zeros(len(back) * k.STATE_COLUMNS, np.int64), new_heap()
    states, lists = [], []
    for begin, end in pairwise([0, *ends.tolist()]):
        heap = replay_on(walk[begin:end], key, columns, numbers, heap)
        lists.append(put(numbers, heap))
        states.append(numbers.reshape(-1, k.STATE_COLUMNS).copy())
    whole = np.concatenate(states)
    at = np.flatnonzero(whole[:, k.EXISTS]) // len(back)
    raw, raw_at, runs, runs_at = zip(*lists, strict=True)
    joined = *_end_to_end(raw, raw_at), *_end_to_end(runs, runs_at)
    windows = windows_table(last_records(table, whole), whole, *joined, kafka_version=kafka_version)
    parts = [_with_moment(windows, moments[at])]
    if back.any():
        parts += _one_by_one(table.take(pa.array(order[apart])), moments, kafka_version)
    return pa.concat_tables(parts).sort_by(WINDOWS_ORDER)


def _end_to_end(rows: Iterable[NDArray[Any]], at: Sequence[Ints]) -> tuple[NDArray[Any], Ints]:
    used = [some[:, : ends[-1]] for some, ends in zip(rows, at, strict=True)]
    counts = np.concatenate([*map(np.diff, at)])
    return np.concatenate(used, axis=1), np.append(0, np.cumsum(counts))


def going_back(steps: Ints, bounds: Ints) -> Bools:
    """Return the share partitions whose timestamps go back: brokers' clocks can be set back."""
    back = np.append(False, steps[1:] < steps[:-1])
    back[bounds[:-1]] = False
    return np.asarray(np.logical_or.reduceat(back, bounds[:-1]))


def _one_by_one(records: pa.RecordBatch, moments: Ints, kafka_version: Version) -> list[pa.Table]:
    found = []
    times = pa.array(moments).view(schemas.TIMESTAMP).to_pylist()
    for at, time in zip(moments, times, strict=True):
        then = replay_arrow(up_to(records, time), kafka_version)
        found.append(_with_moment(then, np.full(then.num_rows, at, np.int64)))
    return found


def _with_moment(windows: pa.RecordBatch, moments: Ints) -> pa.Table:
    at = pa.array(moments).view(schemas.TIMESTAMP)
    return pa.Table.from_arrays([*windows.columns, at], schema=WINDOWS_AT)


# ---- windows of raw records, batch by batch ------------------------------------------------------
# Each batch is decoded and replayed while it is in the cache. States are kept between batches, so
# memory is bounded by them and a batch, regardless of the length of the stream. If this is not
# possible (records of a share partition out of order, in several state partitions or topics, or of
# older generations), or there are too few records for compiled kernels, records become tables
# first, with the same result.


#: Filters a batch with the columns of a position and of a share partition.
Choose = Callable[[Arrow], Arrow]
_ROW = "_row"


class Latest(NamedTuple):
    """The result of replaying raw records."""

    windows: pa.RecordBatch
    """`sharelag.schemas.WINDOWS`, sorted by group, topic id, partition."""
    deleted: pa.RecordBatch
    """`DELETED`: share partitions whose last record is a tombstone."""
    records: int
    rejected: int
    first: int | None
    """When the first and the last of the records were written, in milliseconds."""
    last: int | None


#: A share partition whose state was deleted, and when.
DELETED = pa.schema(
    [
        schemas.WINDOWS.field(n)
        for n in (*schemas.SHARE_PARTITION, "record_topic", "record_timestamp")
    ]
)


def find_deleted(records: Arrow) -> pa.RecordBatch:
    """Return `DELETED`: the share partitions whose last record is a tombstone."""
    table = one_batch(records)
    kinds = kinds_of(table)
    if not (kinds == k.TOMBSTONE).any():
        return pa.RecordBatch.from_pylist([], DELETED)
    table = table.filter(pa.array(kinds != k.UPDATE_TOMBSTONE))
    order, bounds = by_share_partition(table)
    last = table.take(pa.array(order[bounds[1:] - 1]))
    return _as_deleted(last.filter(last.column("tombstone")))


def _as_deleted(last: pa.RecordBatch) -> pa.RecordBatch:
    names = [*schemas.SHARE_PARTITION, "topic", "timestamp"]
    return last.select(names).rename_columns(DELETED.names).cast(DELETED)


def latest_windows(
    raw: Iterable[pa.RecordBatch],
    choose: Choose | None = None,
    generation: int | None = None,
    until: Choose | None = None,
    kafka_version: Version = None,
) -> Latest:
    """Return the state of every share partition after some raw records, and counts of these.

    Rows of other topics are ignored. The records may be read twice, so an iterator is a TypeError.
    ``choose`` filters batches with the columns ``topic record_partition offset timestamp group_id
    topic_id partition`` and others. ``until`` filters them by the moment; the first and the last
    time are those of its results, regardless of the chosen groups. ``generation`` and
    ``kafka_version`` are those of `sharelag.wire.decode_arrow`.
    """
    if isinstance(raw, Iterator):
        raise TypeError(
            "raw records may be read twice: give an iterable that can be iterated twice"
        )
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
                return _replay_stream(whole, choose, generation, until, kafka_version)
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
    kafka_version: Version,
) -> Latest:
    count = Count()

    def chosen() -> Iterator[pa.RecordBatch]:
        for batch in raw:
            state = of_state(batch, generation)
            decoded = decode_arrow(state, STATE_TOPIC, generation, kafka_version)
            written = decoded.records if until is None else until(decoded.records)
            found = written if choose is None else choose(written)
            count.add(found, decoded.rejects, written.column("timestamp"))
            yield found

    last = latest(chosen(), schemas.RECORDS)
    return Latest(replay_arrow(last, kafka_version), find_deleted(last), **vars(count))


def _replay_stream(
    raw: Iterable[pa.RecordBatch],
    choose: Choose | None,
    generation: int | None,
    until: Choose | None,
    kafka_version: Version,
) -> Latest:
    states, count = RunningStates(), Count()
    for batch in raw:
        found = decode_columns(_of_one_topic(batch, generation), states.keys, kafka_version)
        if generation is None and found.has_older:
            raise NotInOrderError
        written = _chosen(found, until)
        walk = written if choose is None else np.intersect1d(written, _chosen(found, choose))
        times = found.position["timestamp"]
        times = times if until is None else times.take(pa.array(written))
        count.add(walk, found.rejects, times)
        if len(walk):
            states.apply(found, walk)
    return Latest(states.windows(kafka_version), states.find_deleted(), **vars(count))


def _of_one_topic(batch: pa.RecordBatch, generation: int | None) -> Arrow:
    schemas.require(batch, schemas.RAW, "raw records")
    chosen = of_topic(batch, STATE_TOPIC)
    others = batch.num_rows - chosen.num_rows
    if others and generation is None and control_mask(batch).any():
        raise NotInOrderError
    return chosen


def _chosen(found: StateColumns, choose: Choose | None) -> Ints:
    rows = np.arange(len(found.key))
    if choose is None:
        return rows
    names = found.keys.table().take(pa.array(found.key))
    columns = found.position | dict(zip(names.schema.names, names.columns, strict=True))
    chosen = choose(pa.RecordBatch.from_pydict(columns | {_ROW: pa.array(rows)}))
    # A copy, because `arange` is writable, and kernels are compiled for read-only arrays.
    return np.array(flat(chosen.column(_ROW)).to_numpy(), np.int64)


class Count:
    """Numbers of chosen and undecodable records, and the first and last time of any record."""

    def __init__(self) -> None:
        self.records = self.rejected = 0
        self.first: int | None = None
        self.last: int | None = None

    def add(self, chosen: Sized, rejects: Sized, times: pa.Array) -> None:
        """Count records; the times are those of all records, regardless of the chosen groups."""
        self.records, self.rejected = self.records + len(chosen), self.rejected + len(rejects)
        milliseconds = flat(times).cast(schemas.TIMESTAMP, safe=False)  # Spark has microseconds
        found = pc.min_max(milliseconds.view(pa.int64())).as_py()
        if found["min"] is not None:
            self.first = min(found["min"], found["min"] if self.first is None else self.first)
            self.last = max(found["max"], found["max"] if self.last is None else self.last)


# ---- states that are kept between batches --------------------------------------------------------


# The position of a share partition's records: their partition of the state topic, the last offset,
# offset and time of the last one that counts, and whether that has a time.
_PARTITION, _OFFSET, _LAST_OFFSET, _LAST_TIME, _HAS_TIME = range(5)
_NEW = np.array([-1, -1, -1, 0, 0])
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
        """Memory of the states in bytes."""
        return int(self._state.nbytes + self._heap.nbytes + self._stand.nbytes)

    def apply(self, found: StateColumns, walk: Ints) -> None:
        """Replay some rows of a batch that was decoded with `keys`.

        Raises NotInOrderError if they cannot be replayed in this order; the states are then
        invalid.
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

    def windows(self, kafka_version: Version = None) -> pa.RecordBatch:
        """Return `sharelag.schemas.WINDOWS`, sorted by group, topic id, partition."""
        used = self._state[: len(self.keys) * k.STATE_COLUMNS]
        lists = compile_kernel(put_states)(used, self._heap)
        numbers = used.reshape(-1, k.STATE_COLUMNS)
        last = self._last_records(np.flatnonzero(numbers[:, k.EXISTS]))
        windows = windows_table(last, numbers, *lists, kafka_version=kafka_version)
        return windows.sort_by(ascending(*schemas.SHARE_PARTITION))

    def find_deleted(self) -> pa.RecordBatch:
        """Return `DELETED`: the share partitions whose last replayed record is a tombstone."""
        is_gone = self._state.reshape(-1, k.STATE_COLUMNS)[:, k.EXISTS] == 0
        is_gone &= self._stand[:, _LAST_OFFSET] >= 0
        return _as_deleted(self._last_records(np.flatnonzero(is_gone)))

    def _last_records(self, states: Ints) -> pa.RecordBatch:
        names, stand = self.keys.table().take(pa.array(states)), self._stand[states]
        times = pa.array(stand[:, _LAST_TIME], mask=stand[:, _HAS_TIME] == 0)
        last = {
            "topic": pa.repeat(pa.scalar(self._topic, pa.string()), len(states)),
            "record_partition": pa.array(stand[:, _PARTITION].astype(np.int32)),
            **dict(zip(names.schema.names, names.columns, strict=True)),
            "offset": pa.array(stand[:, _LAST_OFFSET]),
            "timestamp": times.view(schemas.TIMESTAMP),
        }
        return pa.RecordBatch.from_pydict(last)

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
    """Return whether records of each share partition continue in order of one state partition."""
    for x in range(walk.size):
        i = walk[x]
        mine = key[i]
        is_elsewhere = stand[mine, _PARTITION] != place[i] and stand[mine, _OFFSET] >= 0
        if is_elsewhere or offset[i] < stand[mine, _OFFSET]:
            return False
        stand[mine, _PARTITION], stand[mine, _OFFSET] = place[i], offset[i]
    return True


def _kernel_columns(found: StateColumns) -> k.Columns:
    kind = (found.record_type == k.UPDATE).view(np.int8)
    if found.tombstone.any():
        kind = kind + 2 * found.tombstone.astype(np.int8)
    numbers = (found.numbers[name] for name in _NUMBERS)
    batches = (found.batches[name] for name in StateBatch._fields)
    columns = (kind, *numbers, found.batch_at, *batches)
    return k.Columns(*(read_only(column, column.dtype) for column in columns))
