"""Replay records to the resulting state, as Kafka's share coordinator does, in Arrow.

`replay` is for a few records, `replay_arrow` for whole tables, and `drop_superseded` drops records
without an effect, in any subset of the records and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import ready
from sharelag.errors import ReplayError
from sharelag.model import (
    NO_TIMESTAMP,
    UNINITIALIZED_START_OFFSET,
    SharePartition,
    StateBatch,
    Window,
)
from sharelag.model import UNINITIALIZED_DELIVERY_COMPLETE_COUNT as _NO_COUNT
from sharelag.model.versions import Told, require_version
from sharelag.replay import layout as k
from sharelag.replay.columns import (
    by_share_partition,
    in_log_order,
    kernel_columns,
    kinds_of,
    last_records,
    windows_table,
)
from sharelag.replay.kernels import new_heap, put_states, replay_rows
from sharelag.replay.moment import up_to
from sharelag.schemas import Arrow, Bools, Ints
from sharelag.tables.arrow import ascending, each_offset, one_batch, without_timestamps
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC

#: An epoch that is not known.
NO_EPOCH = -1
#: Records to collect before superseded ones are dropped.
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
        In the order of the log.
    strict : bool
        Fail where Kafka's load would fail. Otherwise such a record is skipped.
    kafka_version : str, optional
        Of the coordinator, as for `combine`; it also reads the records.

    Returns
    -------
    dict of SharePartition to Window
        Without the share partitions that a tombstone removed.

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


def replay_arrow(records: Arrow, kafka_version: Told = None) -> pa.RecordBatch:
    """Return the state of every share partition after these records.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`, in any order: they are sorted by offset here. They must include
        all records of a share partition since its last snapshot.
    kafka_version : str or callable, optional
        Of the coordinator, such as ``4.3.1``, or what finds it out if it matters; the newest if
        there is none.

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
    """Return what is not superseded in a stream, with at most about twice that much in memory.

    ``schema`` is that of the result if the stream is empty; ``thin`` drops what is superseded in
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
    """Return the rows of a windows table as values, with Kafka's sentinels in place of nulls."""
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
#: Their order; the records of one share partition may stand in several state topics.
WINDOWS_ORDER = ascending("as_of", *schemas.SHARE_PARTITION, "record_topic", "record_partition")


def replay_at(records: Arrow, moments: Ints, kafka_version: Told = None) -> pa.Table:
    """Return what `replay_arrow` of the records up to each moment returns, as `WINDOWS_AT`.

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
    # Step by step, each as far as it goes on with the states of the one before.
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
    """Return the share partitions whose timestamps go back: clocks of brokers can be set back."""
    back = np.append(False, steps[1:] < steps[:-1])
    back[bounds[:-1]] = False
    return np.asarray(np.logical_or.reduceat(back, bounds[:-1]))


def _one_by_one(records: pa.RecordBatch, moments: Ints, kafka_version: Told) -> list[pa.Table]:
    """Replay once per moment, for records whose timestamps go back."""
    found = []
    times = pa.array(moments).view(schemas.TIMESTAMP).to_pylist()
    for at, time in zip(moments, times, strict=True):
        then = replay_arrow(up_to(records, time), kafka_version)
        found.append(_with_moment(then, np.full(then.num_rows, at, np.int64)))
    return found


def _with_moment(windows: pa.RecordBatch, moments: Ints) -> pa.Table:
    at = pa.array(moments).view(schemas.TIMESTAMP)
    return pa.Table.from_arrays([*windows.columns, at], schema=WINDOWS_AT)
