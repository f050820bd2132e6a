"""Age, rates, forecast and retention of the lag of each share partition.

`sharelag.metrics.age` and `sharelag.metrics.rates` compute the first three; retention is computed
here. `progress_of` takes what it needs from the evidence.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

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
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, ascending, batch_of, beside, flat, keys

#: Kafka's default of ``group.share.record.lock.duration.ms``, in milliseconds.
_PATIENCE = 30_000
_LONGEST = 2**61  # milliseconds, so that two of them can be added


def usual_rates(lag: Arrow, observed: Arrow, past_offsets: Arrow, as_of: datetime) -> pa.Table:
    """Return the rates of every share partition over the whole span, whatever has changed in it.

    Parameters are `sharelag.schemas.LAG`, `OBSERVED` of the span before it, `OFFSETS` of earlier
    moments, and the moment. The result has the share partition and the rate columns of
    `sharelag.schemas.PROGRESS`, in the order of the lag table.
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
    parts = [
        _progress(replace(evidence, lag=lag), is_committed)
        for is_committed, lag in _by_isolation(evidence).items()
        if lag.num_rows
    ]
    return pa.Table.from_batches(parts, schemas.PROGRESS).sort_by(
        ascending("group_id", "topic", "topic_id", "partition")
    )


def _progress(evidence: Evidence, is_committed: bool) -> pa.RecordBatch:
    """Return the progress of groups with one isolation level, in the order of the lag table.

    A share partition with several states counts as not observed, because it is unknown which of
    them the lag belongs to.
    """
    lag, logs, groups = evidence.lag, evidence.logs, evidence.groups
    times = evidence.committed if is_committed else evidence.times
    now = milliseconds(evidence.as_of)
    given = (lag, evidence.observed, evidence.past_offsets, times, logs, groups)
    names = ("lag", "observed", "offsets", "times", "logs", "groups")
    for name, table in zip(names, given, strict=True):
        schemas.require(table, getattr(schemas, name.upper()), name)
    ends = known_ends(lag, evidence.past_offsets, now)
    # The records of an open transaction wait for groups that read committed ones.
    old = oldest(lag, times, ends, logs if is_committed else None)
    seen = beside(keys(lag, SHARE_PARTITION), unambiguous(evidence.observed), SHARE_PARTITION)
    found = rates(lag, seen, ends)
    columns = {name: flat(lag.column(name)) for name in (*SHARE_PARTITION, "topic")}
    columns["as_of"] = known_times(np.full(lag.num_rows, now), np.ones(lag.num_rows, bool))
    columns |= age_columns(old, now) | rate_columns(found)
    patience = np.nan_to_num(CauseInputs(evidence).patience, nan=_PATIENCE)
    empty = as_table(groups).filter(pc.equal(groups.column("members"), 0)).column("group_id")
    is_empty = mask(pc.is_in(lag.column("group_id"), flat(empty)))
    columns |= drain_columns(lag, old, found, now, patience, is_empty)
    columns |= _retention(old, beside(keys(lag, PARTITION), logs, PARTITION), now)
    columns |= {"lost": _lost(lag), "breaks": seen.column("breaks")}
    return batch_of(columns, schemas.PROGRESS)


def _by_isolation(evidence: Evidence) -> dict[bool, pa.Table]:
    groups = pa.array(sorted(evidence.reads_committed), pa.string())
    committed = pc.is_in(evidence.lag.column("group_id"), groups)
    return {False: evidence.lag.filter(pc.invert(committed)), True: evidence.lag.filter(committed)}
