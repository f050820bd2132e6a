"""Recorded offsets: of some topics, and as of another moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.tables.arrow import as_table, ascending, beside, flat, keys, with_columns
from sharelag.tables.conform import PLACE

_NO_TIME = -(2**63)


def of_moment(
    offsets: pa.Table, topic_ids: Sequence[str], noted: datetime, as_of: object
) -> pa.Table:
    """Return the offsets of some topics, which are known at one moment only."""
    offsets = of_topics(offsets, topic_ids)
    return offsets if is_noted(noted, as_of) else without_ends(offsets)


def without_ends(offsets: pa.Table) -> pa.Table:
    """Return the same topic partitions at a moment with unknown offsets."""
    return with_columns(offsets, dict.fromkeys(("end_offset", "log_start_offset", "as_of")))


def is_noted(noted: datetime, as_of: object) -> bool:
    """Return whether values of one moment apply to another: to now, or from that moment on."""
    return as_of is None or (isinstance(as_of, datetime) and as_of >= noted)


def latest_until(offsets: pa.Table, past: pa.Table, as_of: datetime) -> pa.Table:
    """Return the last ends of topic partitions before a moment, with their time in ``as_of``."""
    is_seen = pc.and_(
        pc.less_equal(past.column("as_of"), as_of), past.column("end_offset").is_valid()
    )
    then = beside(keys(offsets, PLACE), latest_ends(past.filter(is_seen)), PLACE)
    return with_columns(offsets, {name: then.column(name) for name in ("end_offset", "as_of")})


def latest_ends(offsets: pa.Table) -> pa.Table:
    """Return the last row of each topic partition; rows without a time come first.

    Of several rows at one time it is that of the largest end, because logs only grow: so the result
    does not depend on Spark's order, and a known end precedes an unknown one.
    """
    rows = offsets.cast(schemas.OFFSETS, safe=False)  # Spark has microseconds
    times = flat(rows.column("as_of")).view(pa.int64()).fill_null(_NO_TIME).to_numpy()
    ends = flat(rows.column("end_offset")).fill_null(-1).to_numpy()
    order = np.lexsort((ends, times))
    places = keys(rows, PLACE).dictionary_encode().indices.to_numpy()
    last = np.full(len(rows), -1)
    last[places[order]] = order
    return rows.take(pa.array(last[last >= 0]))


def fold_ends(batches: Iterable[pa.RecordBatch], find: Callable[[pa.Table], pa.Table]) -> pa.Table:
    """Reduce offsets some at a time, each together with the result for those before."""
    kept = schemas.OFFSETS.empty_table()
    fresh: list[pa.Table] = []
    for batch in batches:
        fresh.append(as_table(batch).cast(kept.schema, safe=False))
        # What is kept is read again each time: wait for at least as many new rows.
        if sum(map(len, fresh)) >= kept.num_rows:
            kept, fresh = find(pa.concat_tables([kept, *fresh])), []
    return find(pa.concat_tables([kept, *fresh])) if fresh else kept


def ends_as_of(offsets: pa.Table, topic_ids: Sequence[str], as_of: object) -> pa.Table:
    """Return the last known end of each partition of some topics, up to a moment."""
    rows = of_topics(offsets, topic_ids)
    is_time = isinstance(as_of, datetime)
    if is_time:
        rows = rows.filter(pc.less_equal(rows.column("as_of"), as_of))
    found = latest_ends(rows)
    # Offsets of the state topic do not determine a time, so no end offsets match them.
    return found if as_of is None or is_time else without_ends(found)


def ends_between(
    offsets: pa.Table, topic_ids: Sequence[str], moments: Sequence[datetime]
) -> pa.Table:
    """Return the first and the last known end of some topics between any two of these moments."""
    if not moments:
        return schemas.OFFSETS.empty_table()
    rows = of_topics(offsets, topic_ids).cast(schemas.OFFSETS, safe=False)
    times = flat(rows.column("as_of"))
    is_of_span = pc.and_(pc.greater_equal(times, min(moments)), pc.less_equal(times, max(moments)))
    return _first_and_last(rows.filter(is_of_span), moments)


def ends_around(
    offsets: pa.Table, topic_ids: Sequence[str], moments: Sequence[datetime]
) -> pa.Table:
    """Return those of the samples of some topics that `offsets_at` needs for these moments."""
    rows = of_topics(offsets, topic_ids)
    return _first_and_last(rows.filter(rows.column("end_offset").is_valid()), moments)


def _first_and_last(rows: pa.Table, moments: Sequence[datetime]) -> pa.Table:
    """Return the first and the last row of each topic partition before, between and after these."""
    known, times = np.sort(_milliseconds(pa.array(moments))), _milliseconds(flat(rows["as_of"]))
    places = keys(rows, PLACE).dictionary_encode().indices.to_numpy()
    step = np.searchsorted(known, times)
    order = np.lexsort((times, step, places))
    changed = (np.diff(places[order]) != 0) | (np.diff(step[order]) != 0)
    is_end = np.append(True, changed) | np.append(changed, True)
    return rows.take(pa.array(order[is_end[: len(order)]]))


def _milliseconds(times: pa.Array) -> NDArray[np.int64]:
    return np.asarray(times.cast(schemas.TIMESTAMP, safe=False).view(pa.int64()))


def of_topics(table: pa.Table, topic_ids: Sequence[str]) -> pa.Table:
    """Return the rows of some topics."""
    return table.filter(pc.is_in(table.column("topic_id"), pa.array(topic_ids, pa.string())))


# ---- between two samples ------------------------------------------------------------------------

# Milliseconds up to the year 2248, so that a partition number and a time fit into one int64.
_TIMES = 1 << 43


def offsets_at(samples: pa.Table, moments: Sequence[datetime]) -> pa.Table:
    """Return offsets at some moments by samples of any times, both `sharelag.schemas.OFFSETS`.

    One row per partition and moment, with the moment in ``as_of``. An offset is known if the
    samples before and after are equal, because offsets only grow; it is null if they differ, and
    before the first and after the last sample.
    """
    samples = samples.filter(samples.column("end_offset").is_valid())  # of leaders that answered
    samples = samples.sort_by(ascending("topic_id", "partition", "as_of"))
    if samples.num_rows == 0 or not moments:
        return schemas.OFFSETS.empty_table()
    # In this order, partitions are numbered by first appearance.
    places = keys(samples, PLACE).dictionary_encode().indices.to_numpy().astype(np.int64)
    count = int(places[-1]) + 1
    requested = pa.array(moments, schemas.TIMESTAMP)
    known = places * _TIMES + samples.column("as_of").cast(pa.int64()).to_numpy()
    key = np.repeat(np.arange(count), len(moments))
    target = key * _TIMES + np.tile(
        np.clip(requested.cast(pa.int64()).to_numpy(), 0, _TIMES - 1), count
    )
    before = np.searchsorted(known, target, "right") - 1
    after = np.searchsorted(known, target, "left")
    left, right = np.maximum(before, 0), np.minimum(after, len(known) - 1)
    between = (before >= 0) & (after < len(known)) & (places[left] == key) & (places[right] == key)
    row = pa.array(np.searchsorted(places, key))
    columns = {name: samples.column(name).take(row) for name in ("topic", "topic_id", "partition")}
    for name in ("log_start_offset", "end_offset", "leader_epoch"):
        one, other = (samples.column(name).take(pa.array(rows)) for rows in (left, right))
        same = pc.and_(pa.array(between), pc.equal(one, other).fill_null(False))
        columns[name] = pc.if_else(same, one, None)
    columns["as_of"] = requested.take(pa.array(np.tile(np.arange(len(moments)), count)))
    return pa.table([columns[name] for name in schemas.OFFSETS.names], schema=schemas.OFFSETS)


def without_moments(offsets: pa.Table) -> pa.Table:
    """Clear ``as_of`` for null end offsets, so that the reason for the null lag is the moment."""
    is_known = offsets.column("end_offset").is_valid()
    return with_columns(offsets, {"as_of": pc.if_else(is_known, offsets.column("as_of"), None)})
