"""Batches in flight of a place, in the order of their offsets, and the holes between them.

All offsets from the first batch in flight to the last have a slot in a ring. Between two batches
there may be a hole, of offsets that the log has no records for, or that were fetched before a
leader began and forgotten since.
"""

from __future__ import annotations

from typing import Any

from sharelag.compiled import part
from sharelag.whatif.compiled.layout import *


@part
def slot_of(a: Any, p: Any, offset: Any) -> Any:
    """Where an offset lies."""
    return a[p + WINDOW_AT] + ((offset & a[p + MASK]) << OFFSET_BITS)


@part
def batch_of(a: Any, p: Any, offset: Any) -> Any:
    """Where the first offset of its batch lies."""
    return slot_of(a, p, a[slot_of(a, p, offset) + BATCH])


@part
def is_hole(a: Any, p: Any, offset: Any) -> bool:
    """Whether an offset from the first batch to the last lies between two."""
    return bool(a[slot_of(a, p, offset) + BATCH] < 0)


@part
def after_hole(a: Any, p: Any, offset: Any) -> Any:
    """The first offset of a batch from one on that lies after another; or after all."""
    if offset <= a[p + LAST]:
        at = slot_of(a, p, offset)
        if a[at + BATCH] < 0:
            return a[at + HOLE_LAST] + 1
    return offset


@part
def from_batch(a: Any, p: Any, offset: Any) -> Any:
    """Where the batch begins that holds an offset, or else the next one; or after all."""
    if offset < a[p + FIRST]:
        return a[p + FIRST]
    if offset > a[p + LAST]:
        return a[p + LAST] + 1
    at = slot_of(a, p, offset)
    return a[at + HOLE_LAST] + 1 if a[at + BATCH] < 0 else a[at + BATCH]


@part
def floor(a: Any, p: Any, offset: Any) -> Any:
    """Where the last batch begins that begins at or before an offset; -1: there is none."""
    if not a[p + IN_MEMORY] or offset < a[p + FIRST]:
        return -1
    at = slot_of(a, p, min(offset, a[p + LAST]))
    if a[at + BATCH] < 0:
        at = slot_of(a, p, a[at + HOLE_FIRST] - 1)
    return a[at + BATCH]


@part
def put_batch(a: Any, p: Any, first: Any, last: Any, is_split: Any) -> None:
    """Put a batch in flight where none is."""
    if not a[p + IN_MEMORY]:
        a[p + IN_MEMORY], a[p + FIRST], a[p + LAST] = 1, first, last
    elif first > a[p + LAST]:
        _put_hole(a, p, a[p + LAST] + 1, first - 1)
        a[p + LAST] = last
    elif first < a[p + FIRST]:
        _put_hole(a, p, last + 1, a[p + FIRST] - 1)
        a[p + FIRST] = first
    else:
        hole = slot_of(a, p, first)
        begin, end = a[hole + HOLE_FIRST], a[hole + HOLE_LAST]
        _put_hole(a, p, begin, first - 1)
        _put_hole(a, p, last + 1, end)
    for offset in range(first, last + 1):
        a[slot_of(a, p, offset) + BATCH] = first
    batch = slot_of(a, p, first)
    a[batch + BATCH_LAST], a[batch + SPLIT] = last, is_split


@part
def _put_hole(a: Any, p: Any, first: Any, last: Any) -> None:
    for offset in range(first, last + 1):
        at = slot_of(a, p, offset)
        a[at + BATCH], a[at + HOLE_FIRST], a[at + HOLE_LAST] = -1, first, last


@part
def span(a: Any, p: Any) -> Any:
    """Offsets from start to end, finished ones and holes included."""
    return a[p + END] - a[p + START] + 1 if a[p + IN_MEMORY] else 0


@part
def has_gap(a: Any, p: Any) -> bool:
    """Whether holes may be first deliveries that were under way when the leader began."""
    return bool(a[p + GAP_END] == a[p + END])


@part
def held_in(a: Any, p: Any) -> Any:
    """Count the acquired offsets, but for those of deleted records, before the start offset."""
    held = a[p + HELD]
    if a[p + IN_MEMORY] and a[p + IS_BEHIND]:
        for offset in range(a[p + FIRST], min(a[p + START], a[p + LAST] + 1)):
            if not is_hole(a, p, offset):
                batch = batch_of(a, p, offset)
                at = slot_of(a, p, offset) if a[batch + SPLIT] else batch
                held -= a[at + STATE] == S_ACQUIRED
    return held
