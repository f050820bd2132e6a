"""Lag that would be archived if share groups had a record TTL.

KIP-932 leaves a record TTL to the future; Kafka archives by the delivery count limit and by the
log's retention.

The age of a record is known for few offsets: for those that were looked up, and, where the end of
the topic partition at a moment is known, all before it are older. So the result is an estimate
between two certain bounds. It assumes that timestamps ascend in a log, which is exact with
``message.timestamp.type=LogAppendTime`` and approximate with producers' timestamps.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import numbers
from sharelag.metrics.ends import Ends, end_at, known_ends
from sharelag.metrics.runs import TERMINAL, Runs
from sharelag.model import milliseconds
from sharelag.schemas import NAMED_SHARE_PARTITION, SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys

#: One share partition.
ARCHIVED = pa.schema(
    [
        *NAMED_SHARE_PARTITION,
        # unfinished offsets in the log; the following are part of them
        ("effective_lag", pa.int64()),
        # estimate of those as old as the TTL or older; null: no earlier end is known
        ("archived", pa.int64()),
        ("archived_low", pa.int64()),  # lower bound; null: nothing is known about such old records
        ("archived_high", pa.int64()),  # upper bound
        ("as_of", schemas.TIMESTAMP),
    ]
)
_Longs = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def archived_by_ttl(
    lag: Arrow, windows: Arrow, past_offsets: Arrow, times: Arrow, as_of: datetime, ttl: timedelta
) -> pa.RecordBatch:
    """Count the unfinished offsets of each share partition that are older than a TTL.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG` at the moment ``as_of``.
    windows : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.WINDOWS` of the same share partitions: finished offsets are not lag.
    past_offsets : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OFFSETS` of earlier moments. With that of ``as_of - ttl`` the result is
        exact.
    times : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.TIMES` of any records.
    as_of : datetime
    ttl : timedelta

    Returns
    -------
    pyarrow.RecordBatch
        `ARCHIVED`, one row per row of the lag table, in its order. Null where the effective lag is
        unknown, and where a share partition has several states, so that it is unknown which of them
        the lag belongs to.

    Raises
    ------
    InputError
        When the TTL is not positive, or a table has the wrong columns.
    """
    if ttl <= timedelta():
        raise InputError(f"the record TTL must be positive, not {ttl}")
    tables = {"LAG": lag, "WINDOWS": windows, "OFFSETS": past_offsets, "TIMES": times}
    for name, table in tables.items():
        schemas.require(table, getattr(schemas, name), name.lower())
    then = milliseconds(as_of - ttl)
    ends = known_ends(
        lag, pa.concat_tables([_ends_then(past_offsets), _marks(times, then)]), milliseconds(as_of)
    )
    (low, has_low), (high, has_high) = _bounds(ends, then)
    about, between = end_at(ends, np.full(lag.num_rows, then))
    left = _Left(lag, windows)
    none = left.known & has_high & (left.below(high) == 0)  # then the others are 0 as well
    bounds = left.known & has_low & has_high
    counts = {
        "effective_lag": (left.all, left.counted),
        "archived": (left.below(np.clip(about, low, high)), (bounds & between) | none),
        "archived_low": (left.below(low), bounds | none),
        "archived_high": (left.below(high), left.known & has_high),
    }
    columns = {name: flat(lag.column(name)) for name in (*SHARE_PARTITION, "topic", "as_of")}
    columns |= {name: pa.array(values, mask=~known) for name, (values, known) in counts.items()}
    return pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in ARCHIVED], schema=ARCHIVED
    )


def _ends_then(past_offsets: Arrow) -> pa.Table:
    return as_table(past_offsets).select(schemas.OFFSETS.names).cast(schemas.OFFSETS)


def _marks(times: Arrow, then: int) -> pa.Table:
    """Turn records with known times into ends: after an older record, before a younger one."""
    time, timed = numbers(times, "timestamp")
    offset, _ = numbers(times, "offset")  # known where the time is
    old = time <= then
    # Several records can have the same millisecond: one of exactly that time bounds nothing.
    at = np.where(old, np.minimum(time, then - 1), time)
    known = timed & (time >= 0)  # -1: a record without a time
    columns = {name: flat(times.column(name)) for name in ("topic", "topic_id", "partition")}
    columns["end_offset"] = pa.array(offset + old, pa.int64())
    columns["as_of"] = pa.array(at, pa.int64()).view(schemas.TIMESTAMP)
    rows = pa.table(columns)
    for field in schemas.OFFSETS:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(schemas.OFFSETS.names).cast(schemas.OFFSETS).filter(pa.array(known))


def _bounds(ends: Ends, then: int) -> tuple[tuple[_Longs, _Bools], tuple[_Longs, _Bools]]:
    """Return the last end known up to a time and the first known after it, for each row."""
    places = int(max(ends.place.max(initial=-1), ends.rows.max(initial=-1))) + 1
    lowest, highest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    low, high = np.full(places, lowest), np.full(places, highest)
    before, after = ends.time <= then, ends.time >= then
    np.maximum.at(low, ends.place[before], ends.end[before])
    np.minimum.at(high, ends.place[after], ends.end[after])
    first, last = low[ends.rows], high[ends.rows]
    known, bounded = first != lowest, last != highest
    first = np.where(known, first, 0)
    return (first, known), (np.where(bounded, np.maximum(last, first), 0), bounded)


class _Left:
    """The unfinished offsets of each share partition, by the batches."""

    def __init__(self, lag: Arrow, windows: Arrow) -> None:
        ours, theirs = keys(lag, SHARE_PARTITION), keys(windows, SHARE_PARTITION)
        states = pc.value_counts(theirs)
        once = states.field("values").filter(pc.equal(states.field("counts"), 1))
        self.all, self.counted = numbers(lag, "effective_lag")
        self.known = self.counted & pc.is_in(ours, once).to_numpy(zero_copy_only=False)
        self._runs = Runs(flat(beside(ours, windows, SHARE_PARTITION).column("runs")))
        self._start = numbers(lag, "effective_start_offset")[0]
        self._end = np.maximum(numbers(lag, "end_offset")[0], numbers(lag, "window_end_offset")[0])

    def below(self, end: _Longs) -> _Longs:
        """Count unfinished offsets below an end."""
        upto = np.clip(end, self._start, np.maximum(self._end, self._start))
        return upto - self._start - self._runs.sum(TERMINAL, self._start, upto)
