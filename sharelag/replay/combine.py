"""Combine existing state batches with new ones, as Kafka's ``PersisterStateBatchCombiner`` does.

A port of ``PersisterStateBatchCombiner`` (Kafka 4.3.1), including the batches it leaves unmerged.
`combine` is the readable form; `combine_rows` is the same algorithm over an integer matrix,
compiled, for replay. Kafka 4.4 gives each offset the same state and also joins equal neighbours
(KAFKA-20691): what comes out is joined once, at the end, where `joins_neighbours` says so.

Batches are ordered by (first, last, count, state). The *rank* of a batch is (count, state). Old and
new batches are treated the same: where two overlap, the higher rank wins, whichever is newer.

    lower rank first            higher rank first           equal rank
    a  -----------              a  ===========              a  -----
    b      =====                b      -----------          b     ------
       ----=====--                 ===========----             ---------

    (a strictly around b: three pieces; b reaching or passing a's end: two; equal ranks also join
    when they only touch)
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Any, TypeAlias

from sharelag.compiled import part
from sharelag.model import StateBatch
from sharelag.model.versions import Told, has_reached

# Columns of the matrix that `combine_rows` works on, in the order of comparison.
FIRST, LAST, COUNT, STATE = range(4)
_Row: TypeAlias = tuple[int, int, int, int]


def combine(
    existing: Iterable[StateBatch],
    new: Iterable[StateBatch],
    start_offset: int = -1,
    kafka_version: str | None = None,
) -> list[StateBatch]:
    """Merge state batches as Kafka's share coordinator does.

    Parameters
    ----------
    existing, new : iterables of StateBatch
        In any order.
    start_offset : int
        Lower offsets are dropped; -1 keeps all.
    kafka_version : str, optional
        Of the coordinator, such as ``4.3.1``; the newest if there is none.

    Returns
    -------
    list of StateBatch
        Sorted and disjoint. Before Kafka 4.4 not always maximally merged: what comes before a
        merged pair is final, even if the merge makes it touch an equal neighbour. So a boundary
        between equal neighbours means nothing. Fewer than two batches are not sorted.

    Raises
    ------
    ValueError
        When a batch ends before it begins, and Kafka's merge would therefore never end.
    """
    kept = [StateBatch(*batch) for batch in (*existing, *new)]
    if start_offset != -1:
        left = (one for one in kept if one.last_offset >= start_offset)
        kept = [StateBatch(max(one[0], start_offset), *one[1:]) for one in left]
    if len(kept) < 2:
        return kept
    todo: list[_Row] = sorted({_sortable(batch) for batch in kept})
    at, merges = 0, _merges_allowed(len(todo))
    while at + 1 < len(todo):
        a, b = todo[at], todo[at + 1]
        touching = b[FIRST] == a[LAST] + 1 and b[COUNT:] == a[COUNT:]
        if b[FIRST] > a[LAST] and not touching:
            at += 1
            continue
        if (merges := merges - 1) < 0 and any(batch[LAST] < batch[FIRST] for batch in todo):
            raise ValueError("a state batch ends before it begins, and merging it would never end")
        del todo[at : at + 2]
        for piece in _merge(a, b):
            if piece not in todo[at:]:
                insort(todo, piece, lo=at)
    found = [StateBatch(first, last, state, count) for first, last, count, state in todo]
    return join_neighbours(found) if joins_neighbours(kafka_version) else found


def joins_neighbours(kafka_version: Told) -> bool:
    """Whether a version's coordinator joins equal neighbours; None stands for the newest."""
    return has_reached(kafka_version, "4.4")


def join_neighbours(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Join equal neighbours of sorted batches, as a coordinator of Kafka 4.4 does."""
    joined: list[StateBatch] = []
    for batch in batches:
        before = joined[-1] if joined else None
        if before and before[1] + 1 == batch[0] and before[2:] == batch[2:]:
            joined[-1] = before._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return joined


def _sortable(batch: StateBatch) -> _Row:
    return batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state


def _merge(a: _Row, b: _Row) -> list[_Row]:
    """Return the pieces of an overlapping or touching pair; a comes before b."""
    if b[COUNT:] == a[COUNT:]:
        return [(a[FIRST], max(a[LAST], b[LAST]), *a[2:])]
    if b[COUNT:] < a[COUNT:]:
        return [a, (a[LAST] + 1, b[LAST], *b[2:])] if b[LAST] > a[LAST] else [a]
    pieces = [b]
    if b[FIRST] > a[FIRST]:
        pieces.append((a[FIRST], b[FIRST] - 1, *a[2:]))
    if b[LAST] < a[LAST]:
        pieces.append((b[LAST] + 1, a[LAST], *a[2:]))
    return pieces


@part
def _merges_allowed(n: int) -> int:
    """Return an upper bound of merges for n valid batches; only an inverted batch exceeds it."""
    return 1000 + 8 * n


# ---- compiled ------------------------------------------------------------------------------------


@part
def combine_rows(rows: Any, n: int, start: int) -> int:
    """Combine ``rows[:n]`` in place and return the new number of rows; -1 where `combine` raises.

    The matrix needs room for ``2 * n + 2`` rows, the most pieces that n intervals can be cut into.
    """
    inverted = False
    for i in range(n):
        inverted |= rows[i, LAST] < rows[i, FIRST]
    if start != -1:
        kept = 0
        for i in range(n):
            if rows[i, LAST] >= start:
                _move(rows, kept, i)
                rows[kept, FIRST] = max(rows[i, FIRST], start)
                kept += 1
        n = kept
    if n < 2:
        return n
    n = _sort(rows, n)
    # Pending rows are at the end of the matrix, finished ones at its start, and pieces go back in
    # front of the pending rows: so a merge moves only the few batches that sort before its pieces.
    end = min(rows.shape[0], 2 * n + 2)
    head, done, merges = end - n, 0, _merges_allowed(n)
    for i in range(n - 1, -1, -1):
        _move(rows, head + i, i)
    while head + 1 < end:
        a0, a1, a2, a3 = rows[head, 0], rows[head, 1], rows[head, 2], rows[head, 3]
        b0, b1, b2, b3 = rows[head + 1, 0], rows[head + 1, 1], rows[head + 1, 2], rows[head + 1, 3]
        equal = a2 == b2 and a3 == b3
        if b0 > a1 and not (equal and b0 == a1 + 1):
            _move(rows, done, head)
            done, head = done + 1, head + 1
            continue
        merges -= 1
        if inverted and (merges < 0 or head - done < 2):
            return -1
        head += 2
        if equal:
            head = _put_back(rows, head, end, a0, max(a1, b1), a2, a3)
        elif b2 < a2 or (b2 == a2 and b3 < a3):
            head = _put_back(rows, head, end, a0, a1, a2, a3)
            if b1 > a1:
                head = _put_back(rows, head, end, a1 + 1, b1, b2, b3)
        else:
            head = _put_back(rows, head, end, b0, b1, b2, b3)
            if b0 > a0:
                head = _put_back(rows, head, end, a0, b0 - 1, a2, a3)
            if b1 < a1:
                head = _put_back(rows, head, end, b1 + 1, a1, a2, a3)
    _move(rows, done, head)
    return done + 1


@part
def _move(rows: Any, to: int, at: int) -> None:
    """Copy a row number by number: copying it as an array costs several times that."""
    rows[to, FIRST], rows[to, LAST] = rows[at, FIRST], rows[at, LAST]
    rows[to, COUNT], rows[to, STATE] = rows[at, COUNT], rows[at, STATE]


@part
def _compare(rows: Any, i: int, first: int, last: int, count: int, state: int) -> int:
    if rows[i, FIRST] != first:
        return -1 if rows[i, FIRST] < first else 1
    if rows[i, LAST] != last:
        return -1 if rows[i, LAST] < last else 1
    if rows[i, COUNT] != count:
        return -1 if rows[i, COUNT] < count else 1
    if rows[i, STATE] != state:
        return -1 if rows[i, STATE] < state else 1
    return 0


@part
def _put_back(rows: Any, head: int, end: int, first: int, last: int, count: int, state: int) -> int:
    """Insert a piece into sorted ``rows[head:end]`` unless it is there; return the new head."""
    at = head
    while at < end:
        order = _compare(rows, at, first, last, count, state)
        if order == 0:
            return head
        if order > 0:
            break
        at += 1
    for i in range(head, at):
        _move(rows, i - 1, i)
    rows[at - 1, FIRST], rows[at - 1, LAST] = first, last
    rows[at - 1, COUNT], rows[at - 1, STATE] = count, state
    return head - 1


@part
def _sort(rows: Any, n: int) -> int:
    """Sort by insertion, and remove duplicates: most lists are few sorted ones."""
    size = 0
    for i in range(n):
        first, last, count, state = rows[i, FIRST], rows[i, LAST], rows[i, COUNT], rows[i, STATE]
        at = size
        while at > 0 and _compare(rows, at - 1, first, last, count, state) > 0:
            at -= 1
        if at > 0 and _compare(rows, at - 1, first, last, count, state) == 0:
            continue
        for k in range(size, at, -1):
            _move(rows, k, k - 1)
        rows[at, FIRST], rows[at, LAST] = first, last
        rows[at, COUNT], rows[at, STATE] = count, state
        size += 1
    return size
