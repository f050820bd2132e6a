"""The state of every share partition at many moments, from one replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import kernel, ready
from sharelag.model.versions import Told
from sharelag.replay import layout as k
from sharelag.replay.columns import kernel_columns, last_records, windows_table
from sharelag.replay.kernels import apply, put_state
from sharelag.replay.layout import work_of
from sharelag.replay.moment import up_to
from sharelag.replay.order import by_share_partition
from sharelag.replay.state import replay_arrow
from sharelag.replay.states import has_room, load, most_pieces, new_heap, new_work, with_room
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import one_batch

#: `sharelag.schemas.WINDOWS` with the moment of each row.
WINDOWS_AT = schemas.WINDOWS.append(pa.field("as_of", schemas.TIMESTAMP))
_ORDER = [(name, "ascending") for name in ("as_of", "group_id", "topic_id", "partition")]


def replay_at(records: Arrow, moments: NDArray[np.int64], kafka_version: Told = None) -> pa.Table:
    """Return what `replay_arrow` of the records up to each moment returns.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`, in any order. Records without a timestamp are left out.
    moments : int64[moments]
        Milliseconds, ascending.
    kafka_version : str or callable, optional
        As for `replay_arrow`.

    Returns
    -------
    pyarrow.Table
        `WINDOWS_AT`, sorted by moment, group, topic id, partition.
    """
    table = one_batch(records.filter(pc.is_valid(records.column("timestamp"))))
    if not table.num_rows or not len(moments):
        return WINDOWS_AT.empty_table()
    order, bounds = by_share_partition(table)
    times = table.column("timestamp").cast(schemas.TIMESTAMP).view(pa.int64()).to_numpy()
    steps = np.searchsorted(moments, times[order])
    back = _going_back(steps, bounds)
    apart = np.repeat(back, np.diff(bounds))
    kept = np.concatenate([[0], np.cumsum(np.diff(bounds)[~back])])
    columns, count = kernel_columns(table, order, bounds), len(moments)
    work = work_of(columns, len(kept) * count)
    state = np.zeros((len(kept) - 1) * count * k.STATE_COLUMNS, np.int64)
    lists = ready(replay_steps, work)(order[~apart], kept, steps[~apart], count, columns, state)
    states = state.reshape(-1, k.STATE_COLUMNS), *lists
    there = np.flatnonzero(states[0][:, k.EXISTS])
    last = last_records(table, states[0])
    windows = windows_table(last, *states, kafka_version=kafka_version)
    parts = [_with_moment(windows, moments[there % len(moments)])]
    if back.any():
        parts += _one_by_one(table.take(pa.array(order[apart])), moments, kafka_version)
    return pa.concat_tables(parts).sort_by(_ORDER)


def _going_back(steps: NDArray[np.int64], bounds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the share partitions whose timestamps go back: clocks of brokers can be set back."""
    back = np.append(False, steps[1:] < steps[:-1])
    back[bounds[:-1]] = False
    return np.asarray(np.logical_or.reduceat(back, bounds[:-1]))


def _one_by_one(
    records: pa.RecordBatch, moments: NDArray[np.int64], kafka_version: Told
) -> list[pa.Table]:
    """Replay once per moment, for records whose timestamps go back."""
    times = pa.array(moments).view(schemas.TIMESTAMP).to_pylist()
    windows = [replay_arrow(up_to(records, time), kafka_version) for time in times]
    return [
        _with_moment(then, np.full(then.num_rows, at, np.int64))
        for at, then in zip(moments, windows, strict=True)
    ]


def _with_moment(windows: pa.RecordBatch, moments: NDArray[np.int64]) -> pa.Table:
    at = pa.array(moments).view(schemas.TIMESTAMP)
    return pa.Table.from_arrays([*windows.columns, at], schema=WINDOWS_AT)


@kernel
def replay_steps(order: Any, bounds: Any, step: Any, count: int, c: Any, state: Any) -> Any:
    """Replay each share partition's records and store its state after each of ``count`` steps.

    Parameters
    ----------
    order : int64[records]
        Row numbers, share partition by share partition, each in the order of the log.
    bounds : int64[share partitions + 1]
        Where in ``order`` each share partition begins.
    step : int64[records]
        The first step that includes each record, in the order of ``order``, ascending within a
        share partition; ``count`` if no step includes it.
    c : Columns
    state : int64[share partitions * count * STATE_COLUMNS]
        Zeros, which become ``count`` states a share partition.

    Returns
    -------
    raw, raw_at, runs, runs_at
        As from `put_states`.
    """
    keys = bounds.size - 1
    (
        kind, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete_count, created,
        written, batch_at, first, last, delivery_state, delivery_count,
    ) = c  # fmt: skip
    raw, raw_at = np.empty((3, 1024), np.int64), np.zeros(keys * count + 1, np.int64)
    runs, runs_at = np.empty((3, 1024), np.int64), np.zeros(keys * count + 1, np.int64)
    heap, work, changes = new_heap(), new_work(), np.zeros(3, np.int64)
    now, record = np.zeros(k.STATE_COLUMNS, np.int64), np.empty(k.RECORD_COLUMNS, np.int64)
    for key in range(keys):
        for number in range(k.PLACE):
            now[number] = 0
        x = bounds[key]
        for at in range(key * count, (key + 1) * count):
            while x < bounds[key + 1] and step[x] <= at - key * count:
                i = order[x]
                pieces = most_pieces(now, 0, batch_at[i + 1] - batch_at[i])
                if not has_room(pieces, heap, work):
                    heap, work = with_room(pieces, heap, work)
                load(
                    i, record, work, kind, snapshot_epoch, state_epoch, leader_epoch, start_offset,
                    complete_count, created, written, batch_at, first, last, delivery_state,
                    delivery_count,
                )  # fmt: skip
                apply(record, now, 0, heap, work, False, changes)
                if now[k.UPDATED] == 1:
                    now[k.UPDATED], now[k.LAST_ROW] = 0, i
                x += 1
            raw, runs = put_state(at, now, 0, heap, work, raw, raw_at, runs, runs_at)
            for number in range(k.STATE_COLUMNS):
                state[k.STATE_COLUMNS * at + number] = now[number]
    return raw, raw_at, runs, runs_at
