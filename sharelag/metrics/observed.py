"""History of a span of time, summed up: one row a share partition instead of thousands.

    history   first row         breaks: not follows, or partial             end
              |                     |                                        |
    ----------?-----x---x------x----?--------------x-------x---x------x------+
                        |<-------------------- over ------------------------>|
                        begin: later, where the history begins later

The sums are exact for the span from ``begin`` to ``end`` unless there are ``breaks``; then they are
lower bounds.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import bools, known_times, numbers
from sharelag.model import milliseconds
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat

#: Into how many equal parts the span is cut, to see how much the rate of finishing varies.
BINS = 10

#: A share partition's state is one of its own in each topic and partition that its records stand
#: in.
_STATE = ("group_id", "topic_id", "partition", "record_topic", "record_partition")
_CHANGES = ("finished", "archived", "released", "redelivered")
#: The columns that `observe` reads; the others need not be there.
HISTORY_COLUMNS = [
    *_STATE,
    *(
        "record_timestamp",
        "snapshot_epoch",
        "start_offset",
        "effective_start_offset",
        "delivery_complete_count",
    ),
    *(
        "max_delivery_count",
        "head_delivery_count",
        *_CHANGES,
        "replaced",
        "from_snapshot",
        "follows",
    ),
]


def observe(history: Arrow, end: datetime, over: timedelta) -> pa.RecordBatch:
    """What the history says about the span that ends at a moment.

    Parameters
    ----------
    history : pyarrow.RecordBatch or pyarrow.Table
        `HISTORY_COLUMNS` of `sharelag.schemas.HISTORY`: all rows of some share partitions, those of
        each together and in the order of the log. Rows later than ``end`` do not count.
    end : datetime
    over : timedelta
        How long the span is.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.OBSERVED`, a row a share partition that exists at ``end``, in the order of
        the history. ``begin`` is later than asked for where what happened is known only from then
        on: from the share partition's first row, or, if its state was not whole by then, from the
        first that is.

    Raises
    ------
    InputError
        When the span is empty, or a column is missing.
    """
    schemas.require(
        history, pa.schema([schemas.HISTORY.field(name) for name in HISTORY_COLUMNS]), "history"
    )
    until = milliseconds(end)
    since = until - over // timedelta(milliseconds=1)
    if since >= until:
        raise InputError(f"a span of {over} holds nothing: ask for a millisecond or more")
    rows = _Rows(as_table(history).select(HISTORY_COLUMNS), until)
    if not rows.size:
        return pa.RecordBatch.from_pylist([], schema=schemas.OBSERVED)
    lead = _lead(rows)
    begin = np.maximum(since, rows.time[lead])
    inside = rows.time > since
    values, known = zip(*[rows.numbers(name) for name in _CHANGES], strict=True)
    finished, released = inside & known[0] & (values[0] > 0), inside & known[2] & (values[2] > 0)
    break_ = (
        inside & (rows.place > lead[rows.share]) & (~rows.follows | ~rows.bools("from_snapshot"))
    )
    arrays = {
        name: flat(rows.table.column(name).take(pa.array(rows.last)))
        for name in schemas.OBSERVED.names[:3]
    }
    arrays |= {
        "begin": known_times(begin, np.ones(len(begin), bool)),
        "end": known_times(np.full(len(begin), until), np.ones(len(begin), bool)),
        "records": rows.count(inside),
        "breaks": rows.count(break_),
        "replacements": rows.count(inside & rows.replaced),
        **{
            name: rows.sum(v, inside & k)
            for name, v, k in zip(_CHANGES, values, known, strict=True)
        },
        "finished_bins": _bins(rows, values[0], finished, begin, until),
        "last_finished": rows.time_of_last(known[0] & (values[0] > 0)),
        "last_released": rows.time_of_last(known[2] & (values[2] > 0)),
        "release_every_ms": _median_distance(rows, released),
        **_head(rows),
        "max_delivery_count": rows.at_last("max_delivery_count"),
        **_fallen(rows, inside),
    }
    columns = [arrays[field.name].cast(field.type) for field in schemas.OBSERVED]
    exists = pa.array(rows.numbers("snapshot_epoch")[1][rows.last])
    return pa.RecordBatch.from_arrays(columns, schema=schemas.OBSERVED).filter(exists)


class _Rows:
    """The rows that count as numbers, and what can be asked of each share partition's own."""

    def __init__(self, table: pa.Table, until: int) -> None:
        time, timed = numbers(table, "record_timestamp")
        counts = timed & (time <= until)
        self.table = table.filter(pa.array(counts))
        self.time = time[counts]
        self.size = len(self.time)
        self.place = np.arange(self.size)
        begins = np.zeros(self.size, bool)
        begins[:1] = True
        for name in _STATE:
            codes = (
                flat(self.table.column(name)).dictionary_encode().indices.fill_null(-1).to_numpy()
            )
            begins[1:] |= codes[1:] != codes[:-1]
        self.begins = begins
        self.first = np.flatnonzero(begins)
        self.last = np.append(self.first[1:], self.size) - 1
        self.share = np.cumsum(begins) - 1  # which of the share partitions a row is of
        self.replaced = self.bools("replaced")
        # Where a clock went back, a row between two others may be left out: what it changed is
        # missing then.
        self.follows = self.bools("follows") & np.append(True, counts[:-1])[counts]

    def numbers(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        return numbers(self.table, name)

    def bools(self, name: str) -> NDArray[np.bool_]:
        return bools(self.table, name)

    def at_last(self, name: str) -> pa.Array:
        return flat(self.table.column(name).take(pa.array(self.last)))

    def sum(self, values: NDArray[np.int64], chosen: NDArray[np.bool_]) -> pa.Array:
        return pa.array(np.add.reduceat(np.where(chosen, values, 0), self.first))

    def count(self, chosen: NDArray[np.bool_]) -> pa.Array:
        return pa.array(np.add.reduceat(chosen.astype(np.int64), self.first))

    def time_of_last(self, chosen: NDArray[np.bool_]) -> pa.Array:
        row = np.maximum.reduceat(np.where(chosen, self.place, -1), self.first)
        return known_times(self.time[row], row >= 0)


def _lead(rows: _Rows) -> NDArray[np.int64]:
    """The row of each share partition from which on it is known what happened.

    What the first row changed is not known, unless it created the state. Nor is what the next ones
    did if the state is partial, up to the first snapshot, or has no start offset yet.
    """
    _, known = rows.numbers("finished")
    _, exists = rows.numbers("snapshot_epoch")
    _, has_start = rows.numbers("start_offset")
    blind = exists & ~known & ~(rows.replaced & has_start)
    sees = np.minimum.reduceat(np.where(blind, rows.size, rows.place), rows.first)
    return np.asarray(np.maximum(np.minimum(sees - 1, rows.last), rows.first))


def _bins(
    rows: _Rows,
    finished: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    begin: NDArray[np.int64],
    until: int,
) -> pa.Array:
    """What was finished in each of the equal parts of the span, of which each holds its end and not its beginning."""
    share = rows.share[chosen]
    span = np.maximum(until - begin, 1)[share]
    part = -((begin[share] - rows.time[chosen]) * BINS // span) - 1
    sums = np.zeros((len(begin), BINS), np.int64)
    np.add.at(sums, (share, np.clip(part, 0, BINS - 1)), finished[chosen])
    return pa.ListArray.from_arrays(
        pa.array(np.arange(len(begin) + 1, dtype=np.int32) * BINS), pa.array(sums.ravel())
    )


def _median_distance(rows: _Rows, chosen: NDArray[np.bool_]) -> pa.Array:
    """Median time between the chosen rows of a share partition, null for fewer than three."""
    share, time = rows.share[chosen], rows.time[chosen]
    same = share[1:] == share[:-1]
    share, distance = share[1:][same], np.abs(np.diff(time))[same]
    distance = distance[np.lexsort((distance, share))]
    counts = np.bincount(share, minlength=len(rows.first))
    at = np.cumsum(counts) - counts
    # Two distances at least, so both middle ones are there; the others' places only have to exist.
    enough = counts >= 2
    lower, upper = (
        np.where(enough, at + (counts - 1) // 2, 0),
        np.where(enough, at + counts // 2, 0),
    )
    distance = np.append(distance, 0)
    return pa.array((distance[lower] + distance[upper]) // 2, mask=~enough)


def _head(rows: _Rows) -> dict[str, pa.Array]:
    """Since when the effective start offset is what it is, and what became of that offset."""
    head, known = rows.numbers("effective_start_offset")
    begins = rows.begins | rows.replaced | ~rows.follows
    begins[1:] |= (head[1:] != head[:-1]) | (known[1:] != known[:-1])
    since = np.maximum.accumulate(np.where(begins, rows.place, 0))[rows.last]
    known = known[rows.last]
    older = ~rows.replaced & (rows.begins | ~rows.follows)
    return {
        "head_offset": rows.at_last("effective_start_offset"),
        "head_since": known_times(rows.time[since], known),
        "head_is_older": pa.array(older[since], mask=~known),
        "head_delivery_count": rows.at_last("head_delivery_count"),
    }


def _fallen(rows: _Rows, inside: NDArray[np.bool_]) -> dict[str, pa.Array]:
    """How often the start offset, and with it or without it the count, went back although nobody asked for it."""
    start, has_start = rows.numbers("start_offset")
    count, has_count = rows.numbers("delivery_complete_count")
    compares = inside & rows.follows & ~rows.begins & ~rows.replaced
    arrays: dict[str, pa.Array] = {}
    for name, value, known in (
        ("start", start, has_start),
        ("count", start + count, has_start & has_count),
    ):
        fell = compares & known
        fell[1:] &= known[:-1] & (value[1:] < value[:-1])
        arrays |= {f"{name}_back": rows.count(fell), f"{name}_back_at": rows.time_of_last(fell)}
    return arrays
