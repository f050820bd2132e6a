"""Age, rates, forecast and retention of the lag of each share partition.

`sharelag.metrics.age` and `sharelag.metrics.rates` compute the first three; retention is computed
here. `progress_of` takes what it needs from the evidence.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.age import Oldest, age_columns, known_ends, oldest, request_offsets
from sharelag.metrics.causes.inputs import CauseInputs
from sharelag.metrics.columns import PARTITION, known_times, mask, numbers
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.observed import unambiguous
from sharelag.metrics.rates import drain_columns, rate_columns, rates
from sharelag.model import milliseconds
from sharelag.schemas import SHARE_PARTITION, Arrow, Floats
from sharelag.tables.arrow import as_table, ascending, batch_of, beside, flat, keys

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
    patience: timedelta | Floats = PATIENCE,
    groups: Arrow | None = None,
    reads_committed: bool = False,
) -> pa.RecordBatch:
    """Return age, rates, drain and retention of every share partition.

    Parameters
    ----------
    lag, observed : Arrow
        `sharelag.schemas.LAG` at the moment ``as_of``, and `OBSERVED` of the span before. A share
        partition with several states counts as not observed, because it is unknown which of them
        the lag belongs to.
    past_offsets : Arrow
        `sharelag.schemas.OFFSETS` of earlier moments: the beginning of the span for arrivals,
        others for ages.
    times, logs : Arrow
        `sharelag.schemas.TIMES` of `sharelag.metrics.age.oldest_offsets`, and `LOGS`.
    as_of : datetime
    patience : timedelta, or float64[rows] of milliseconds
        The time without finished records after which there is no forecast and a share partition
        with lag can count as stalled.
    groups : Arrow, optional
        `sharelag.schemas.GROUPS`; the lag of groups without members has no forecast.
    reads_committed : bool
        Whether the groups read only committed records: those of an open transaction wait.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.PROGRESS`, one row per row of the lag table, in its order.
    """
    given = (lag, observed, past_offsets, times, logs)
    for name, table in zip(("lag", "observed", "offsets", "times", "logs"), given, strict=True):
        schemas.require(table, getattr(schemas, name.upper()), name)
    now = milliseconds(as_of)
    ends = known_ends(lag, past_offsets, now)
    old = oldest(lag, times, ends, logs if reads_committed else None)
    seen = beside(keys(lag, SHARE_PARTITION), unambiguous(observed), SHARE_PARTITION)
    found = rates(lag, seen, ends)
    columns = {name: flat(lag.column(name)) for name in (*SHARE_PARTITION, "topic")}
    columns["as_of"] = known_times(np.full(lag.num_rows, now), np.ones(lag.num_rows, bool))
    if isinstance(patience, timedelta):
        stalls_after: int | Floats = patience // _MS
    else:
        stalls_after = np.nan_to_num(patience, nan=PATIENCE // _MS)
    columns |= age_columns(old, now) | rate_columns(found)
    is_empty = np.zeros(lag.num_rows, bool)
    if groups is not None:
        schemas.require(groups, schemas.GROUPS, "groups")
        names = as_table(groups).filter(pc.equal(groups.column("members"), 0)).column("group_id")
        is_empty = mask(pc.is_in(lag.column("group_id"), flat(names)))
    columns |= drain_columns(lag, old, found, now, stalls_after, is_empty)
    columns |= _retention(old, beside(keys(lag, PARTITION), logs, PARTITION), now)
    columns |= {"lost": _lost(lag), "breaks": seen.column("breaks")}
    return batch_of(columns, schemas.PROGRESS)


def usual_rates(lag: Arrow, observed: Arrow, past_offsets: Arrow, as_of: datetime) -> pa.Table:
    """Return the rates of every share partition over the whole span, whatever has changed in it.

    Parameters are those of `progress_arrow`; the result has the share partition and the rate
    columns of `sharelag.schemas.PROGRESS`, in the order of the lag table.
    """
    ends = known_ends(lag, past_offsets, milliseconds(as_of))
    seen = beside(keys(lag, SHARE_PARTITION), unambiguous(observed), SHARE_PARTITION)
    columns = {name: flat(lag.column(name)) for name in SHARE_PARTITION}
    return pa.table(columns | rate_columns(rates(lag, seen, ends, since_change=False)))


def _retention(old: Oldest, logs: pa.Table, as_of: int) -> dict[str, pa.Array]:
    """Return when retention by time may delete the oldest unfinished record.

    Kafka deletes whole segments, by the time of their youngest record, so it may stay longer;
    retention by size (``retention.bytes``) may delete it sooner.
    """
    retention, known = numbers(logs, "retention_ms")
    deletes = mask(pc.match_substring_regex(logs.column("cleanup_policy"), r"\bdelete\b"))
    limited = known & deletes & (retention >= 0) & old.dated
    margin = np.minimum(old.timestamp, _LONGEST) + np.minimum(retention, _LONGEST) - as_of
    return {
        "retention_ms": pa.array(retention, mask=~known),
        "margin_ms": pa.array(np.maximum(margin, 0), mask=~limited),
    }


def _lost(lag: Arrow) -> pa.Array:
    """Return the unfinished offsets below the log start offset."""
    names = "start_offset end_offset window_end_offset window_complete effective_lag"
    each = [*names.split(), "log_start_offset"]
    terms, known = zip(*(numbers(lag, name) for name in each), strict=True)
    start, end, window_end, complete, left, _ = terms
    unfinished = np.maximum(end, window_end) - start - complete
    return pa.array(unfinished - left, mask=~np.logical_and.reduce(known))


def request_times(evidence: Evidence) -> dict[bool, pa.Table]:
    """Return the records whose times determine the age of the lag.

    They are positions for `sharelag.inputs.Input.times`: False for read_uncommitted groups,
    True for read_committed ones, whose oldest record differs where transactions were aborted. The
    evidence needs ``lag``, ``logs`` and ``settings``.
    """
    parts = _by_isolation(evidence).items()
    return {is_committed: request_offsets(lag, evidence.logs) for is_committed, lag in parts}


def progress_of(evidence: Evidence) -> pa.Table:
    """Return age, rates, drain and retention of every share partition, by the evidence.

    It needs ``lag``, ``observed``, ``past_offsets``, ``times``, ``committed``, ``logs``, ``groups``
    and ``settings``, for all share partitions of some groups. The result is
    `sharelag.schemas.PROGRESS`, sorted by group, topic and partition.
    """
    parts = []
    for is_committed, lag in _by_isolation(evidence).items():
        if lag.num_rows:
            times = evidence.committed if is_committed else evidence.times
            known = evidence.observed, evidence.past_offsets, times, evidence.logs, evidence.as_of
            patience = CauseInputs(replace(evidence, lag=lag)).patience
            parts.append(progress_arrow(lag, *known, patience, evidence.groups, is_committed))
    return pa.Table.from_batches(parts, schemas.PROGRESS).sort_by(
        ascending("group_id", "topic", "topic_id", "partition")
    )


def _by_isolation(evidence: Evidence) -> dict[bool, pa.Table]:
    groups = pa.array(sorted(evidence.reads_committed), pa.string())
    committed = pc.is_in(evidence.lag.column("group_id"), groups)
    return {False: evidence.lag.filter(pc.invert(committed)), True: evidence.lag.filter(committed)}
