"""Runs of offsets, cut so that each piece has one story, and joined again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sharelag.replay.hold_events import Events
from sharelag.replay.hold_kernel import ACQUIRED, WRITTEN
from sharelag.replay.request_columns import Ints


class Pieces(NamedTuple):
    """Events cut where any event of their share partition begins or ends, in their order."""

    segment: Ints
    time: Ints
    kind: Ints
    member: Ints
    deliveries: Ints
    lock: Ints
    type: Ints
    of: Ints
    first: Ints
    end: Ints


def pieces_of(events: Events) -> Pieces:
    """Cut events where any event of their share partition begins or ends."""
    place = np.concatenate([events.place, events.place])
    offset = np.concatenate([events.first, events.end])
    order = np.lexsort((offset, place))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(place[order]) != 0) | (np.diff(offset[order]) != 0)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(is_new) - 1
    offsets = offset[order][is_new]
    begin, end = number[: len(events.first)], number[len(events.first) :]
    counts = np.maximum(end - begin, 0)
    row = np.repeat(np.arange(len(counts)), counts)
    segment = begin[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    # At one moment: acknowledgements, what is written, then what is acquired.
    rank = np.where(events.kind == ACQUIRED, 2, events.kind == WRITTEN)
    sorted_by = np.lexsort((rank[row], events.time[row], segment))
    row, segment = row[sorted_by], segment[sorted_by]
    return Pieces(
        segment=segment,
        time=events.time[row],
        kind=events.kind[row],
        member=events.member[row],
        deliveries=events.deliveries[row],
        lock=events.lock[row],
        type=events.type[row],
        of=events.of[row],
        first=offsets[segment],
        end=offsets[segment + 1],
    )


class Found(NamedTuple):
    """Runs of acquisitions, until when each was held, and what ended it."""

    of: Ints
    first: Ints
    end: Ints
    until: Ints
    cause: Ints
    locked: Ints


def merged(
    pieces: Pieces, held: NDArray[np.bool_], ends: Ints, causes: Ints, locked: Ints
) -> Found:
    """Join neighbours of one acquisition that ended in the same way."""
    chosen = np.flatnonzero(held)
    chosen = chosen[np.lexsort((pieces.segment[chosen], pieces.of[chosen]))]
    same = np.ones(len(chosen), dtype=bool)
    for column in (pieces.of, ends, causes, locked):
        same[1:] &= column[chosen][1:] == column[chosen][:-1]
    begins = same.copy()
    begins[0], begins[1:] = True, ~same[1:]
    first = np.flatnonzero(begins)
    last = np.concatenate([first[1:] - 1, [len(chosen) - 1]])
    of, to = chosen[first], chosen[last]
    return Found(pieces.of[of], pieces.first[of], pieces.end[to], ends[of], causes[of], locked[of])
