"""The compiled history: the state of each share partition after each record, and what changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import kernel, ready
from sharelag.model import UNINITIALIZED_START_OFFSET
from sharelag.replay import layout as k
from sharelag.replay.gather import BLOCK, gather, room
from sharelag.replay.kernels import apply, new_matrix
from sharelag.replay.layout import work_of
from sharelag.replay.measures import compare, measure, runs_of

# What is said of a record beside the numbers: bits.
EXISTS, REFUSED, REPLACED, CHANGE_KNOWN, FROM_SNAPSHOT = 1, 2, 4, 8, 16


class History(NamedTuple):
    """States after each record; zeros where there is none. What changed is since the row before."""

    flags: NDArray[np.uint8]
    snapshot_epoch: NDArray[np.int32]
    state_epoch: NDArray[np.int32]
    leader_epoch: NDArray[np.int32]
    start_offset: NDArray[np.int64]
    effective_start_offset: NDArray[np.int64]
    window_end_offset: NDArray[np.int64]
    delivery_complete_count: NDArray[np.int32]
    window_available: NDArray[np.int64]
    window_complete: NDArray[np.int64]
    runs: NDArray[np.int32]
    max_delivery_count: NDArray[np.int16]
    head_delivery_count: NDArray[np.int16]
    finished: NDArray[np.int64]
    archived: NDArray[np.int64]
    released: NDArray[np.int64]
    redelivered: NDArray[np.int64]


def history_rows(order: NDArray[np.int64], bounds: NDArray[np.int64], c: k.Columns) -> History:
    """Return the state of each share partition after each of its records, in their ``order``.

    The arguments are those of `replay_rows`.
    """
    columns = {
        name: np.zeros(len(order), schemas.HISTORY.field(name).type.to_pandas_dtype())
        for name in History._fields[1:]
    }
    history = History(np.zeros(len(order), np.uint8), **columns)
    ready(fill_history, work_of(c))(order, bounds, c, history)
    return history


@kernel
def fill_history(order: Any, bounds: Any, c: Any, history: Any) -> None:
    """Replay each share partition's records and write what `History` has of each."""
    rows, old, own = new_matrix(), np.empty((3, 512), np.int64), np.empty((3, 512), np.int64)
    records, batches = room()
    now, before = np.zeros(k.STATE_COLUMNS, np.int64), np.zeros(k.STATE_COLUMNS, np.int64)
    changes = np.zeros(3, np.int64)
    for key in range(bounds.size - 1):
        now[:] = 0
        was_empty = True
        for begin in range(bounds[key], bounds[key + 1], BLOCK):
            end = min(begin + BLOCK, bounds[key + 1])
            batches = gather(order, begin, end, c, records, batches)
            for x in range(begin, end):
                record = records[x - begin]
                before[:], changes[:] = now, 0
                rows, old, n_old = apply(record, batches, now, rows, True, changes, old)
                refused = record[k.KIND] == k.UPDATE_TOMBSTONE or (
                    now[k.EXISTS] == 1 and now[k.REJECTED] > before[k.REJECTED]
                )
                flags = REFUSED if refused else 0
                if now[k.EXISTS] == 0:
                    history.flags[x] = flags
                    was_empty = True
                    continue
                empty = now[k.BEGIN] == now[k.END]
                if now[k.PLAIN] == 1:
                    measure(rows, now[k.BEGIN], now[k.END], now)
                if now[k.PLAIN] == 0 or n_old >= 0:
                    own, n = runs_of(rows, now, own)
                    measure(own, 0, n, now)
                    if n_old >= 0:
                        compare(old, 0, n_old, own, n, changes)
                    empty = n == 0
                existed = before[k.EXISTS] == 1
                replaced = record[k.KIND] == k.SNAPSHOT and not (
                    existed and not _is_another(before, now)
                )
                if existed and not replaced:
                    flags |= _finished(before, now, was_empty, x, history)
                    history.archived[x] = changes[k.ARCHIVED]
                    history.released[x] = changes[k.RELEASED]
                    history.redelivered[x] = changes[k.REDELIVERED]
                flags |= REPLACED if replaced else 0
                flags |= FROM_SNAPSHOT if now[k.FROM_SNAPSHOT] == 1 else 0
                history.flags[x] = flags | EXISTS
                _write(now, x, history)
                was_empty = empty


@kernel
def _finished(before: Any, now: Any, was_empty: bool, x: int, history: Any) -> int:
    """Store how many offsets were finished, and return the flag that it is known, or 0."""
    done = now[k.START_OFFSET] + now[k.COMPLETE] - before[k.START_OFFSET] - before[k.COMPLETE]
    has_start = before[k.START_OFFSET] != UNINITIALIZED_START_OFFSET
    if not has_start and before[k.FROM_SNAPSHOT] == 1 and was_empty:
        # Until its first write a share partition has no start offset and nothing finished.
        has_start = now[k.START_OFFSET] != UNINITIALIZED_START_OFFSET
        done = now[k.COMPLETE]
    history.finished[x] = done
    # A start offset that goes back is a broker bug; no record becomes unfinished by it.
    return CHANGE_KNOWN if has_start and done >= 0 else 0


@kernel
def _write(now: Any, x: int, history: Any) -> None:
    history.snapshot_epoch[x] = now[k.SNAPSHOT_EPOCH]
    history.state_epoch[x] = now[k.STATE_EPOCH]
    history.leader_epoch[x] = now[k.LEADER_EPOCH]
    history.start_offset[x] = now[k.START_OFFSET]
    history.effective_start_offset[x] = now[k.EFFECTIVE_START]
    history.window_end_offset[x] = now[k.WINDOW_END]
    history.delivery_complete_count[x] = now[k.COMPLETE_COUNT]
    history.window_available[x] = now[k.AVAILABLE]
    history.window_complete[x] = now[k.COMPLETE]
    history.runs[x] = now[k.RUNS]
    history.max_delivery_count[x] = now[k.MAX_COUNT]
    history.head_delivery_count[x] = now[k.HEAD_COUNT]


@kernel
def _is_another(before: Any, now: Any) -> bool:
    """Whether a snapshot replaces the state: initialised again, or its start offset altered.

    The group coordinator then sends a new state epoch. It can equal the old one (two resets of an
    empty group), but no other snapshot has no batches, leader epoch 0 and a new creation time.
    """
    if now[k.STATE_EPOCH] != before[k.STATE_EPOCH]:
        # A state that started with an update has none.
        return before[k.FROM_SNAPSHOT] == 1
    forgot = (
        now[k.START_OFFSET] != before[k.START_OFFSET]
        or before[k.WINDOW_END] > before[k.START_OFFSET]
    )
    return (
        now[k.BEGIN] == now[k.END]
        and now[k.LEADER_EPOCH] == 0
        and now[k.CREATED] > before[k.CREATED] > 0
        and forgot
    )
