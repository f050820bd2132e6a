"""What does Kafka make of the state batches it has and the batches that arrive?

A port of ``PersisterStateBatchCombiner`` (Kafka 4.3.1), down to the batches it leaves unmerged. `combine` is
the readable form; `combine_rows` is the same algorithm over an integer matrix, compiled, for replay.

Batches are ordered by (first, last, count, state). The *rank* of a batch is (count, state). Old and new
batches are not told apart: where two overlap, the higher rank wins, whatever came later.

    lower rank first            higher rank first           equal rank
    a  -----------              a  ===========              a  -----
    b      =====                b      -----------          b     ------
       ----=====--                 ===========----             ---------

    (a strictly around b: three pieces; b reaching or passing a's end: two; equal ranks also join when they
    only touch)
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Any, TypeAlias

import numba

from sharelag.model import StateBatch

# Columns of the matrix that `combine_rows` works on: the order of comparison.
FIRST, LAST, COUNT, STATE = range(4)
_Row: TypeAlias = tuple[int, int, int, int]


def combine(existing: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int = -1) -> list[StateBatch]:
    """Merge state batches as Kafka's share coordinator does.

    Parameters
    ----------
    existing, new : iterables of StateBatch
        In any order.
    start_offset : int
        Offsets below are dropped; -1 keeps all.

    Returns
    -------
    list of StateBatch
        Sorted and disjoint, but not always maximally merged: what stands before a merged pair is final, even
        if the merge makes it touch an equal neighbour. With fewer than two batches left nothing is sorted.

    Raises
    ------
    ValueError
        When a batch ends before it begins, and Kafka's merge would therefore never end.
    """
    batches = [StateBatch(*batch) for batch in (*existing, *new)]
    kept = [
        StateBatch(max(b[0], start_offset) if start_offset != -1 else b[0], *b[1:])
        for b in batches
        if start_offset == -1 or b[1] >= start_offset
    ]
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
    return [StateBatch(first, last, state, count) for first, last, count, state in todo]


def _sortable(batch: StateBatch) -> _Row:
    return batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state


def _merge(a: _Row, b: _Row) -> list[_Row]:
    """The pieces that an overlapping or touching pair becomes; a stands before b."""
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


@numba.njit(cache=True)
def _merges_allowed(n: int) -> int:
    """More than any list of n batches needs; only one with a batch that ends before it begins gets there."""
    return 1000 + 8 * n


# ---- compiled -----------------------------------------------------------------------------------------


@numba.njit(cache=True)
def combine_rows(rows: Any, n: int, start: int) -> int:
    """Combine ``rows[:n]`` in place and return how many rows there are now; -1 where `combine` raises.

    The matrix needs room for ``2 * n + 1`` rows: that many pieces can n intervals be cut into.
    """
    inverted = False
    for i in range(n):
        inverted |= rows[i, LAST] < rows[i, FIRST]
    if start != -1:
        kept = 0
        for i in range(n):
            if rows[i, LAST] >= start:
                rows[kept] = rows[i]
                rows[kept, FIRST] = max(rows[i, FIRST], start)
                kept += 1
        n = kept
    if n < 2:
        return n
    n = _sort(rows, n)
    at, merges = 0, _merges_allowed(n)
    while at + 1 < n:
        a0, a1, a2, a3 = rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3]
        b0, b1, b2, b3 = rows[at + 1, 0], rows[at + 1, 1], rows[at + 1, 2], rows[at + 1, 3]
        equal = a2 == b2 and a3 == b3
        if b0 > a1 and not (equal and b0 == a1 + 1):
            at += 1
            continue
        merges -= 1
        if inverted and (merges < 0 or n + 1 > rows.shape[0]):
            return -1
        n = _remove_two(rows, n, at)
        if equal:
            n = _insert(rows, n, at, a0, max(a1, b1), a2, a3)
        elif b2 < a2 or (b2 == a2 and b3 < a3):
            n = _insert(rows, n, at, a0, a1, a2, a3)
            if b1 > a1:
                n = _insert(rows, n, at, a1 + 1, b1, b2, b3)
        else:
            n = _insert(rows, n, at, b0, b1, b2, b3)
            if b0 > a0:
                n = _insert(rows, n, at, a0, b0 - 1, a2, a3)
            if b1 < a1:
                n = _insert(rows, n, at, b1 + 1, a1, a2, a3)
    return n


@numba.njit(cache=True)
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


@numba.njit(cache=True)
def _insert(rows: Any, n: int, low: int, first: int, last: int, count: int, state: int) -> int:
    """Put a row in its place at or after ``low``, unless it is there already."""
    at = n
    while at > low:
        order = _compare(rows, at - 1, first, last, count, state)
        if order == 0:
            return n
        if order < 0:
            break
        at -= 1
    for i in range(n, at, -1):
        rows[i] = rows[i - 1]
    rows[at, FIRST], rows[at, LAST], rows[at, COUNT], rows[at, STATE] = first, last, count, state
    return n + 1


@numba.njit(cache=True)
def _remove_two(rows: Any, n: int, at: int) -> int:
    for i in range(at, n - 2):
        rows[i] = rows[i + 2]
    return n - 2


@numba.njit(cache=True)
def _sort(rows: Any, n: int) -> int:
    """Insertion sort without duplicates: the old batches come sorted, so little moves."""
    size = 0
    for i in range(n):
        size = _insert(rows, size, 0, rows[i, FIRST], rows[i, LAST], rows[i, COUNT], rows[i, STATE])
    return size
