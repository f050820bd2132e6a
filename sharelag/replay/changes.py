"""The compiled history: the state of each share partition after each record, and what changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import kernel, part, ready
from sharelag.model import UNINITIALIZED_START_OFFSET
from sharelag.replay import layout as k
from sharelag.replay.kernels import (
    apply,
    has_room,
    load,
    most_pieces,
    new_heap,
    new_work,
    with_room,
)
from sharelag.replay.merge import OLD, OWN, SIZE, compare, measure, place_of, runs_of
from sharelag.schemas import Ints

# What is said of a record beside the numbers: bits.
EXISTS, REFUSED, REPLACED, CHANGE_KNOWN, FROM_SNAPSHOT = 1, 2, 4, 8, 16


class History(NamedTuple):
    """States after each record; zeros where there is none. What changed is since the row before.

    Kernels have the columns of each type as rows of a matrix, in this order; see `history_rows`.
    """

    flags: NDArray[np.uint8]
    snapshot_epoch: NDArray[np.int32]
    state_epoch: NDArray[np.int32]
    leader_epoch: NDArray[np.int32]
    start_offset: Ints
    effective_start_offset: Ints
    window_end_offset: Ints
    delivery_complete_count: NDArray[np.int32]
    window_available: Ints
    window_complete: Ints
    runs: NDArray[np.int32]
    max_delivery_count: NDArray[np.int16]
    head_delivery_count: NDArray[np.int16]
    finished: Ints
    archived: Ints
    released: Ints
    redelivered: Ints


def _of_type(kind: pa.DataType) -> tuple[str, ...]:
    return tuple(n for n in History._fields[1:] if schemas.HISTORY.field(n).type == kind)


_WIDE, _MIDDLE, _NARROW = _of_type(pa.int64()), _of_type(pa.int32()), _of_type(pa.int16())
_FINISHED, _ARCHIVED, _RELEASED, _REDELIVERED = range(5, 9)


def history_rows(walk: Ints, key: NDArray[Any], c: k.Columns, keys: int) -> History:
    """Return the state of each share partition after each of its records, row by row.

    The arguments are those of `replay_rows`, and how many share partitions there are.
    """
    size = len(walk)
    flags = np.zeros(size, np.uint8)
    wide, middle, narrow = (
        np.zeros((len(names), size), kind)
        for names, kind in ((_WIDE, np.int64), (_MIDDLE, np.int32), (_NARROW, np.int16))
    )
    state = np.zeros(keys * k.STATE_COLUMNS, np.int64)
    fill = ready(fill_history, k.work_of(c))
    fill(walk, key, c, state, new_heap(), flags, wide, middle, narrow)
    columns = zip((*_WIDE, *_MIDDLE, *_NARROW), (*wide, *middle, *narrow), strict=True)
    return History(flags, **dict(columns))


@kernel
def fill_history(
    walk: Any, key: Any, c: Any, state: Any, heap: Any,
    flags: Any, wide: Any, middle: Any, narrow: Any,
) -> Any:  # fmt: skip
    """Replay records and write what `History` has of each; other parameters as `replay_rows`."""
    (
        kind, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete_count, created,
        written, batch_at, first, last, delivery_state, delivery_count,
    ) = c  # fmt: skip
    work, changes, record = new_work(), np.zeros(3, np.int64), np.empty(k.RECORD_COLUMNS, np.int64)
    before = np.zeros(k.PLACE, np.int64)
    for x in range(walk.size):
        i = walk[x]
        s = k.STATE_COLUMNS * key[i]
        pieces = most_pieces(state, s, batch_at[i + 1] - batch_at[i])
        if not has_room(pieces, heap, work):
            heap, work = with_room(pieces, heap, work)
        load(
            i, record, work, kind, snapshot_epoch, state_epoch, leader_epoch, start_offset,
            complete_count, created, written, batch_at, first, last, delivery_state, delivery_count,
        )  # fmt: skip
        for number in range(k.PLACE):
            before[number] = state[s + number]
        changes[0] = changes[1] = changes[2] = 0
        n_old = apply(record, state, s, heap, work, True, changes)
        refused = record[k.KIND] == k.UPDATE_TOMBSTONE or (
            state[s + k.EXISTS] == 1 and state[s + k.REJECTED] > before[k.REJECTED]
        )
        said = REFUSED if refused else 0
        if state[s + k.EXISTS] == 0:
            flags[i] = said
            continue
        size = state[s + k.END] - state[s + k.BEGIN]
        if state[s + k.PLAIN] == 1 and n_old < 0:
            measure(heap, place_of(state, s), size, state, s)
        else:
            own = OWN * (work.size // 4)
            size = runs_of(state, s, heap, work, OWN)
            measure(work, own, size, state, s)
            if n_old >= 0:
                old = OLD * (work.size // 4)
                compare(work, old, old + SIZE * n_old, work, own, size, changes)
        was_empty = before[k.IS_FULL] == 0
        state[s + k.IS_FULL] = size > 0
        existed = before[k.EXISTS] == 1
        replaced = record[k.KIND] == k.SNAPSHOT and not (
            existed and not _is_another(before, state, s)
        )
        if existed and not replaced:
            said |= _finished(before, state, s, was_empty, i, wide)
            wide[_ARCHIVED, i] = changes[k.ARCHIVED]
            wide[_RELEASED, i] = changes[k.RELEASED]
            wide[_REDELIVERED, i] = changes[k.REDELIVERED]
        said |= REPLACED if replaced else 0
        said |= FROM_SNAPSHOT if state[s + k.FROM_SNAPSHOT] == 1 else 0
        flags[i] = said | EXISTS
        _write(state, s, i, wide, middle, narrow)
    return heap


@part
def _finished(before: Any, state: Any, s: int, was_empty: bool, i: int, wide: Any) -> int:
    """Store how many offsets were finished, and return the flag that it is known, or 0."""
    done = state[s + k.START_OFFSET] + state[s + k.COMPLETE]
    done -= before[k.START_OFFSET] + before[k.COMPLETE]
    has_start = before[k.START_OFFSET] != UNINITIALIZED_START_OFFSET
    if not has_start and before[k.FROM_SNAPSHOT] == 1 and was_empty:
        # Until its first write a share partition has no start offset and nothing finished.
        has_start = state[s + k.START_OFFSET] != UNINITIALIZED_START_OFFSET
        done = state[s + k.COMPLETE]
    wide[_FINISHED, i] = done
    # A start offset that goes back is a broker bug; no record becomes unfinished by it.
    return CHANGE_KNOWN if has_start and done >= 0 else 0


@part
def _write(state: Any, s: int, i: int, wide: Any, middle: Any, narrow: Any) -> None:
    """Write the numbers of a state, in the order of the columns of each type."""
    wide[0, i], wide[1, i] = state[s + k.START_OFFSET], state[s + k.EFFECTIVE_START]
    wide[2, i], wide[3, i] = state[s + k.WINDOW_END], state[s + k.AVAILABLE]
    wide[4, i] = state[s + k.COMPLETE]
    middle[0, i], middle[1, i] = state[s + k.SNAPSHOT_EPOCH], state[s + k.STATE_EPOCH]
    middle[2, i], middle[3, i] = state[s + k.LEADER_EPOCH], state[s + k.COMPLETE_COUNT]
    middle[4, i] = state[s + k.RUNS]
    narrow[0, i], narrow[1, i] = state[s + k.MAX_COUNT], state[s + k.HEAD_COUNT]


@part
def _is_another(before: Any, state: Any, s: int) -> bool:
    """Whether a snapshot replaces the state: initialised again, or its start offset altered.

    The group coordinator then sends a new state epoch. It can equal the old one (two resets of an
    empty group), but no other snapshot has no batches, leader epoch 0 and a new creation time.
    """
    if state[s + k.STATE_EPOCH] != before[k.STATE_EPOCH]:
        # A state that started with an update has none.
        return before[k.FROM_SNAPSHOT] == 1
    start = before[k.START_OFFSET]
    forgot = state[s + k.START_OFFSET] != start or before[k.WINDOW_END] > start
    return (
        state[s + k.BEGIN] == state[s + k.END]
        and state[s + k.LEADER_EPOCH] == 0
        and state[s + k.CREATED] > before[k.CREATED] > 0
        and forgot
    )
