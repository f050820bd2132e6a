"""Age, rates, forecast and retention of the lag of each share partition.

`sharelag.metrics.age` and `sharelag.metrics.rates` compute the first three; retention is computed
here.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.metrics.age import Oldest, age_columns, oldest
from sharelag.metrics.columns import known_times, numbers
from sharelag.metrics.ends import PARTITION, known_ends
from sharelag.metrics.rates import drain_columns, rate_columns, rates
from sharelag.model import milliseconds
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys

#: Kafka's default of ``group.share.record.lock.duration.ms``: how long a member may process an
#: acquired record.
PATIENCE = timedelta(seconds=30)

_MS = timedelta(milliseconds=1)
_LONGEST = 2**61  # milliseconds, so that two of them can be added


def progress_arrow(
    lag: Arrow,
    observed: Arrow,
    past_offsets: Arrow,
    times: Arrow,
    logs: Arrow,
    as_of: datetime,
    patience: timedelta | NDArray[np.float64] = PATIENCE,
    groups: Arrow | None = None,
    reads_committed: bool = False,
) -> pa.RecordBatch:
    """Return age, rates, drain and retention of every share partition.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG` at the moment ``as_of``.
    observed : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OBSERVED` of the span before. A share partition with several states counts
        as not observed, because it is unknown which of them the lag belongs to.
    past_offsets : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OFFSETS` of earlier moments: the beginning of the span for arrivals,
        others for ages.
    times : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.TIMES` of `sharelag.metrics.age.oldest_offsets`.
    logs : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LOGS`.
    as_of : datetime
    patience : timedelta, or float64[rows] of milliseconds
        The time without finished records after which there is no forecast and a share partition
        with lag can count as stalled.
    groups : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.GROUPS`; the lag of groups without members has no forecast.
    reads_committed : bool
        Whether the groups read only committed records: those of an open transaction wait.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.PROGRESS`, one row per row of the lag table, in its order.
    """
    tables = {
        "LAG": lag,
        "OBSERVED": observed,
        "OFFSETS": past_offsets,
        "TIMES": times,
        "LOGS": logs,
    }
    for name, table in tables.items():
        schemas.require(table, getattr(schemas, name), name.lower())
    now = milliseconds(as_of)
    ends = known_ends(lag, past_offsets, now)
    old = oldest(lag, times, ends, logs if reads_committed else None)
    seen = beside(keys(lag, SHARE_PARTITION), _unambiguous(observed), SHARE_PARTITION)
    found = rates(lag, seen, ends)
    columns = {name: flat(lag.column(name)) for name in (*SHARE_PARTITION, "topic")}
    columns["as_of"] = known_times(np.full(lag.num_rows, now), np.ones(lag.num_rows, bool))
    columns |= (
        age_columns(old, now)
        | rate_columns(found)
        | drain_columns(
            lag,
            old,
            found,
            now,
            patience // _MS
            if isinstance(patience, timedelta)
            else np.nan_to_num(patience, nan=PATIENCE // _MS),
            _empty(lag, groups),
        )
    )
    columns |= _retention(old, beside(keys(lag, PARTITION), logs, PARTITION), now) | {
        "lost": _lost(lag)
    }
    columns["breaks"] = flat(seen.column("breaks"))
    return pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in schemas.PROGRESS],
        schema=schemas.PROGRESS,
    )


def usual_rates(lag: Arrow, observed: Arrow, past_offsets: Arrow, as_of: datetime) -> pa.Table:
    """Return the rates of every share partition over the whole span, whatever has changed in it.

    Parameters
    ----------
    lag, observed, past_offsets, as_of
        As for `progress_arrow`.

    Returns
    -------
    pyarrow.Table
        The share partition and the rate columns of `sharelag.schemas.PROGRESS`, in the order of the
        lag table.
    """
    ends = known_ends(lag, past_offsets, milliseconds(as_of))
    seen = beside(keys(lag, SHARE_PARTITION), _unambiguous(observed), SHARE_PARTITION)
    columns = {name: flat(lag.column(name)) for name in SHARE_PARTITION}
    return pa.table(columns | rate_columns(rates(lag, seen, ends, since_change=False)))


def _empty(lag: Arrow, groups: Arrow | None) -> NDArray[np.bool_]:
    """Whether each row's group is known to have no members."""
    if groups is None:
        return np.zeros(lag.num_rows, bool)
    schemas.require(groups, schemas.GROUPS, "groups")
    names = as_table(groups).filter(pc.equal(groups.column("members"), 0)).column("group_id")
    found = pc.is_in(flat(lag.column("group_id")), flat(names))
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _unambiguous(observed: Arrow) -> pa.Table:
    codes = keys(observed, SHARE_PARTITION).dictionary_encode().indices.to_numpy()
    return (
        as_table(observed).filter(pa.array(np.bincount(codes)[codes] == 1))
        if len(codes)
        else as_table(observed)
    )


def _retention(old: Oldest, logs: pa.Table, as_of: int) -> dict[str, pa.Array]:
    """Return when retention by time may delete the oldest unfinished record.

    Kafka deletes whole segments, by the time of their youngest record, so it may stay longer;
    retention by size (``retention.bytes``) may delete it sooner.
    """
    retention, known = numbers(logs, "retention_ms")
    policy = flat(logs.column("cleanup_policy"))
    deletes = (
        pc.match_substring_regex(policy, r"\bdelete\b")
        .fill_null(False)
        .to_numpy(zero_copy_only=False)
    )
    limited = known & deletes & (retention >= 0) & old.dated
    margin = np.minimum(old.timestamp, _LONGEST) + np.minimum(retention, _LONGEST) - as_of
    return {
        "retention_ms": pa.array(retention, mask=~known),
        "margin_ms": pa.array(np.maximum(margin, 0), mask=~limited),
    }


def _lost(lag: Arrow) -> pa.Array:
    """Return the unfinished offsets below the log start offset."""
    names = (
        "start_offset",
        "end_offset",
        "window_end_offset",
        "log_start_offset",
        "window_complete",
        "effective_lag",
    )
    (start, end, window_end, _, complete, left), known = zip(
        *[numbers(lag, name) for name in names], strict=True
    )
    unfinished = np.maximum(end, window_end) - start - complete
    return pa.array(unfinished - left, mask=~np.logical_and.reduce(known))
