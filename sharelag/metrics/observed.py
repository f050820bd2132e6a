"""Summarize the history of a time span: one row per share partition instead of thousands.

    history   first row         breaks: not follows, or partial             end
              |                     |                                        |
    ----------?-----x---x------x----?--------------x-------x---x------x------+
                        |<-------------------- over ------------------------>|
                        begin: later, where the history begins later

The sums are exact for the span from ``begin`` to ``end``; if there are ``breaks`` they are lower
bounds.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import STATE, begins, bools, known_times, last_of, mask, numbers
from sharelag.model import milliseconds
from sharelag.schemas import SHARE_PARTITION, Arrow, Bools, Floats, Ints
from sharelag.tables.arrow import as_table, batch_of, changes, flat, keys, lists_of

#: Number of equal parts of the span, to measure how much the completion rate varies.
BINS = 10

_CHANGES = ("finished", "archived", "released", "redelivered")
#: The columns that `observe` reads; the others may be missing.
HISTORY_COLUMNS = [
    *(*STATE, "record_offset", "record_timestamp", "snapshot_epoch"),
    *("start_offset", "effective_start_offset", "delivery_complete_count"),
    *("max_delivery_count", "head_delivery_count", *_CHANGES),
    *("replaced", "from_snapshot", "follows"),
]


def observe(history: Arrow, end: datetime, over: timedelta) -> pa.RecordBatch:
    """Summarize the ``history`` of the span ``over`` that ends at a moment, as `OBSERVED`.

    The history has `HISTORY_COLUMNS` of all rows of some share partitions, each contiguous and in
    log order; rows later than ``end`` are ignored. There is one row per share partition that exists
    at ``end``, in the order of the history. ``begin`` is later than requested if the changes are
    known only from then on: from the share partition's first row with a complete state.
    """
    schemas.require(
        history, pa.schema([schemas.HISTORY.field(name) for name in HISTORY_COLUMNS]), "history"
    )
    until = milliseconds(end)
    since = until - over // timedelta(milliseconds=1)
    if since >= until:
        raise InputError(f"the span must be at least one millisecond, not {over}")
    rows = _Rows(as_table(history).select(HISTORY_COLUMNS), until)
    if not rows.size:
        return pa.RecordBatch.from_pylist([], schema=schemas.OBSERVED)
    lead = _lead(rows)
    begin = np.maximum(since, rows.time[lead])
    inside = rows.time > since
    values, known = zip(*[numbers(rows.table, name) for name in _CHANGES], strict=True)
    finishes, releases = (known[n] & (values[n] > 0) for n in (0, 2))
    finished, released = inside & finishes, inside & releases
    exists = numbers(rows.table, "snapshot_epoch")[1]  # a deletion leaves nothing unknown
    is_unsure = ~rows.follows | (exists & ~bools(rows.table, "from_snapshot"))
    break_ = inside & (rows.place > lead[rows.share]) & is_unsure
    arrays = {name: rows.at_last(name) for name in schemas.OBSERVED.names[:3]}
    arrays |= {
        "begin": pa.array(begin).view(schemas.TIMESTAMP),
        "end": pa.repeat(until, len(begin)).view(schemas.TIMESTAMP),
        "records": rows.count(inside),
        "breaks": rows.count(break_),
        "replacements": rows.count(inside & rows.replaced),
        "finished_bins": _bins(rows, values[0], finished, begin, until),
        "released_bins": _bins(rows, values[2], released, begin, until),
        "last_finished": rows.time_of_last(finishes),
        "last_released": rows.time_of_last(releases),
        "release_every_ms": _median_distance(rows, released),
        **_head(rows),
        "max_delivery_count": rows.at_last("max_delivery_count"),
        **_fallen(rows, inside),
    }
    for name, value, is_known in zip(_CHANGES, values, known, strict=True):
        arrays[name] = rows.sum(value, inside & is_known)
    return batch_of(arrays, schemas.OBSERVED).filter(pa.array(exists[rows.last]))


def parts_of(observed: Arrow, name: str) -> Floats:
    """Return changes in each part of the span; 0 where nothing was observed.

    The column is ``finished_bins`` or ``released_bins``; the result is ``[rows, BINS]``.
    """
    column = flat(observed.column(name))
    known = mask(column.is_valid())
    parts = np.zeros((len(column), BINS))
    parts[known] = column.drop_null().flatten().to_numpy().reshape(-1, BINS)
    return parts


def unambiguous(observed: Arrow) -> pa.Table:
    """Leave out share partitions with several states: it is unknown which of them counts."""
    codes = keys(observed, SHARE_PARTITION).dictionary_encode().indices.to_numpy()
    return as_table(observed).filter(pa.array(np.bincount(codes)[codes] == 1))


class _Rows:
    """The included rows as numbers, with aggregates per share partition."""

    def __init__(self, table: pa.Table, until: int) -> None:
        time, timed = numbers(table, "record_timestamp")
        counts = timed & (time <= until)
        self.table = table.filter(pa.array(counts))
        self.time = time[counts]
        self.size = len(self.time)
        self.place = np.arange(self.size)
        self.begins = begins(self.table)
        self.first = np.flatnonzero(self.begins)
        self.last = np.append(self.first[1:], self.size) - 1
        self.share = np.cumsum(self.begins) - 1  # number of the share partition of each row
        self.replaced = bools(self.table, "replaced")
        # If a clock went back, a row between two others may be excluded, and its changes are
        # missing.
        self.follows = bools(self.table, "follows") & np.append(True, counts[:-1])[counts]

    def at_last(self, name: str) -> pa.Array:
        return flat(self.table.column(name).take(pa.array(self.last)))

    def sum(self, values: Ints, chosen: Bools) -> pa.Array:
        return pa.array(np.add.reduceat(np.where(chosen, values, 0), self.first))

    def count(self, chosen: Bools) -> pa.Array:
        return pa.array(np.add.reduceat(chosen.astype(np.int64), self.first))

    def time_of_last(self, chosen: Bools) -> pa.Array:
        row = last_of(chosen, self.first)
        return known_times(self.time[row], row >= 0)

    def record_of_last(self, chosen: Bools) -> pa.Array:
        """Return ``partition:offset`` of the last chosen row of each share partition."""
        row = last_of(chosen, self.first)
        place = ("record_partition", "record_offset")
        return keys(self.table.select(place).take(pa.array(row, mask=row < 0)), place)


def _lead(rows: _Rows) -> Ints:
    """Return the row of each share partition from which on its changes are known.

    The changes of the first row are unknown unless it created the state; so are those of the next
    rows while the state is partial (up to the first snapshot) or has no start offset.
    """
    _, known = numbers(rows.table, "finished")
    _, exists = numbers(rows.table, "snapshot_epoch")
    _, has_start = numbers(rows.table, "start_offset")
    blind = exists & ~known & ~(rows.replaced & has_start)
    sees = np.minimum.reduceat(np.where(blind, rows.size, rows.place), rows.first)
    return np.asarray(np.maximum(np.minimum(sees - 1, rows.last), rows.first))


def _bins(rows: _Rows, changes: Ints, chosen: Bools, begin: Ints, until: int) -> pa.Array:
    """Sum changes over the parts of the span; a part excludes its beginning."""
    share = rows.share[chosen]
    span = np.maximum(until - begin, 1)[share]
    part = -((begin[share] - rows.time[chosen]) * BINS // span) - 1
    sums = np.zeros((len(begin), BINS), np.int64)
    np.add.at(sums, (share, np.clip(part, 0, BINS - 1)), changes[chosen])
    return lists_of(np.full(len(begin), BINS), pa.array(sums.ravel()))


def _median_distance(rows: _Rows, chosen: Bools) -> pa.Array:
    """Return the median time between chosen rows of a share partition; null for fewer than 3."""
    share, time = rows.share[chosen], rows.time[chosen]
    same = share[1:] == share[:-1]
    share, distance = share[1:][same], np.abs(np.diff(time))[same]
    distance = distance[np.lexsort((distance, share))]
    counts = np.bincount(share, minlength=len(rows.first))
    at = np.cumsum(counts) - counts
    # With two or more distances both middle ones exist; other rows only need valid indices.
    enough = counts >= 2
    lower = np.where(enough, at + (counts - 1) // 2, 0)
    upper = np.where(enough, at + counts // 2, 0)
    distance = np.append(distance, 0)
    return pa.array((distance[lower] + distance[upper]) // 2, mask=~enough)


def _head(rows: _Rows) -> dict[str, pa.Array]:
    """Return since when the effective start offset is unchanged, and what happened to it."""
    head, known = numbers(rows.table, "effective_start_offset")
    is_new = rows.begins | rows.replaced | ~rows.follows | changes(head, known)
    since = np.maximum.accumulate(np.where(is_new, rows.place, 0))[rows.last]
    known = known[rows.last]
    older = ~rows.replaced & (rows.begins | ~rows.follows)
    return {
        "head_offset": rows.at_last("effective_start_offset"),
        "head_since": known_times(rows.time[since], known),
        "head_is_older": pa.array(older[since], mask=~known),
        "head_delivery_count": rows.at_last("head_delivery_count"),
    }


def _fallen(rows: _Rows, inside: Bools) -> dict[str, pa.Array]:
    """Count how often the start offset, and the count with it, went back without a reset."""
    start, has_start = numbers(rows.table, "start_offset")
    count, has_count = numbers(rows.table, "delivery_complete_count")
    compares = inside & rows.follows & ~rows.begins & ~rows.replaced
    arrays: dict[str, pa.Array] = {}
    for name, value, known in (
        ("start", start, has_start),
        ("count", start + count, has_start & has_count),
    ):
        fell = compares & known
        fell[1:] &= known[:-1] & (value[1:] < value[:-1])
        arrays |= {
            f"{name}_back": rows.count(fell),
            f"{name}_back_at": rows.time_of_last(fell),
            f"{name}_back_record": rows.record_of_last(fell),
        }
    return arrays
