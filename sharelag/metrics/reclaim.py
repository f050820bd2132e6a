"""Log that could be deleted: offsets that every share group has finished.

KIP-932 leaves log cleaning by start offsets to the future: Kafka deletes only by retention,
whatever share groups have finished. Consumer groups and other readers of a topic are unknown here,
so the result is valid only for topics that only share groups read.

`archived_by_ttl` estimates the lag that would be archived if share groups had a record TTL, which
KIP-932 leaves to the future as well; Kafka archives by the delivery count limit and by retention.
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

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.age import Ends, end_at, known_ends
from sharelag.metrics.columns import TERMINAL, Runs, numbers
from sharelag.model import milliseconds
from sharelag.schemas import ARCHIVED, RECLAIMABLE, SHARE_PARTITION, Arrow, Bools, Ints
from sharelag.tables.arrow import as_table, ascending, batch_of, beside, flat, keys, table_of

_PLACE = ["topic", "topic_id", "partition"]
_AGGREGATES = {
    "groups": ("group_id", "count_distinct"),
    "group_id": ("group_id", "first"),
    "start_offset": ("start_offset", "min"),
    "log_start_offset": ("log_start_offset", "max"),
    "as_of": ("as_of", "min"),
}


def reclaimable_arrow(lag: Arrow) -> pa.RecordBatch:
    """Return the offsets of each topic partition below the start offsets of all share groups.

    ``lag`` covers all share groups: a missing one could still need these records. The result is
    `RECLAIMABLE`, sorted by topic and partition. Offsets, not bytes: record sizes are unknown. Null
    if a group has fetched nothing yet: its ``share.auto.offset.reset`` decides where it starts.
    """
    schemas.require(lag, schemas.LAG, "lag")
    table = as_table(lag).sort_by([("start_offset", "ascending"), ("group_id", "ascending")])
    known = pc.ScalarAggregateOptions(skip_nulls=False)
    sums = [(name, how, known if how == "min" else None) for name, how in _AGGREGATES.values()]
    grouped = table.group_by(_PLACE, use_threads=False).aggregate(sums)
    columns = {name: grouped.column("_".join(of)) for name, of in _AGGREGATES.items()}
    columns |= {name: grouped.column(name) for name in _PLACE}
    lowest = pc.is_valid(columns["start_offset"])
    columns["group_id"] = pc.if_else(lowest, columns["group_id"], None)
    passed = pc.subtract(columns["start_offset"], columns["log_start_offset"])
    columns["reclaimable"] = pc.max_element_wise(passed, 0, skip_nulls=False)
    return batch_of(columns, RECLAIMABLE).sort_by(ascending(*_PLACE))


def archived_by_ttl(
    lag: Arrow, windows: Arrow, past_offsets: Arrow, times: Arrow, as_of: datetime, ttl: timedelta
) -> pa.RecordBatch:
    """Count unfinished offsets that are older than a TTL, by share partition, as `ARCHIVED`.

    ``lag`` describes the moment ``as_of``, and ``windows`` the same share partitions, since
    finished offsets are not lag; ``past_offsets`` have earlier moments, and with that of ``as_of -
    ttl`` the result is exact. Rows are in the order of the lag table; null where the effective lag
    is unknown. A TTL has to be positive.
    """
    if ttl <= timedelta():
        raise InputError(f"the record TTL must be positive, not {ttl}")
    tables = {"LAG": lag, "WINDOWS": windows, "OFFSETS": past_offsets, "TIMES": times}
    for name, table in tables.items():
        schemas.require(table, getattr(schemas, name), name.lower())
    then = milliseconds(as_of - ttl)
    past = as_table(past_offsets).select(schemas.OFFSETS.names).cast(schemas.OFFSETS)
    ends = known_ends(lag, pa.concat_tables([past, _marks(times, then)]), milliseconds(as_of))
    (low, has_low), (high, has_high) = _bounds(ends, then)
    about, between = end_at(ends, np.full(lag.num_rows, then))
    ours = keys(lag, SHARE_PARTITION)
    every, is_known = numbers(lag, "effective_lag")
    runs = Runs(flat(beside(ours, windows, SHARE_PARTITION).column("runs")))
    start, end, window_end = (
        numbers(lag, name)[0]
        for name in ("effective_start_offset", "end_offset", "window_end_offset")
    )
    last = np.maximum(np.maximum(end, window_end), start)

    def below(offset: Ints) -> Ints:
        """Count unfinished offsets below an end, by the batches."""
        upto = np.clip(offset, start, last)
        return np.asarray(upto - start - runs.sum(TERMINAL, start, upto))

    none = is_known & has_high & (below(high) == 0)  # then the others are 0 as well
    bounds = is_known & has_low & has_high
    counts = {
        "effective_lag": (every, is_known),
        "archived": (below(np.clip(about, low, high)), (bounds & between) | none),
        "archived_low": (below(low), bounds | none),
        "archived_high": (below(high), is_known & has_high),
    }
    columns = {name: flat(lag.column(name)) for name in (*SHARE_PARTITION, "topic", "as_of")}
    columns |= {name: pa.array(values, mask=~known) for name, (values, known) in counts.items()}
    return batch_of(columns, ARCHIVED)


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
    return table_of(columns, schemas.OFFSETS, pad=True).filter(pa.array(known))


def _bounds(ends: Ends, then: int) -> tuple[tuple[Ints, Bools], tuple[Ints, Bools]]:
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
