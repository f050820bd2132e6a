"""Evidence of earlier moments, from one more reading of the records.

So a single run knows how long a level has been exceeded, and nothing is kept between runs. Where
the records do not go back far enough, a bound is used if there is one: finished records stay
finished, so an earlier start offset was at most the first known one, and the lag at least the
distance from there to the end offset of that moment, which Kafka can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.engine import Reading
from sharelag.metrics.causes.inputs import Bools, CauseInputs
from sharelag.metrics.columns import PARTITION, numbers
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.observed import observe
from sharelag.metrics.progress import progress_of
from sharelag.model import milliseconds
from sharelag.schemas import SHARE_PARTITION
from sharelag.tables.arrow import as_table, beside, flat, keys
from sharelag.tables.gaps import NO_END_OFFSET_THEN
from sharelag.workbench.questions.timeline import known_moments, lags_at

_STATE = (
    *("start_offset", "effective_start_offset", "window_end_offset", "delivery_complete_count"),
    *("window_available", "window_complete"),
)


@dataclass(frozen=True)
class Then:
    """One moment; one row per share partition, in the order of the lag table as of now."""

    facts: CauseInputs
    bounded: Bools  # lag and age are lower bounds: records or log starts of then are not known
    absent: Bools  # known: the share partition did not exist yet

    @property
    def at(self) -> int:
        """The moment in milliseconds."""
        return milliseconds(self.facts.evidence.as_of)


def as_of_now(evidence: Evidence) -> Then:
    """Return the moment that the evidence was gathered for."""
    nowhere = np.zeros(evidence.lag.num_rows, bool)
    return Then(CauseInputs(evidence), nowhere, nowhere)


def past(
    begun: Reading, moments: Sequence[datetime], over: timedelta, rates: bool = True
) -> list[Then]:
    """Gather the evidence of moments before a reading's: one per moment, ascending, each once.

    Where the input recorded end offsets at other moments, the last of those before each is used.
    Rates are measured ``over`` a span before each moment; they take one more pass per moment, if
    needed.
    """
    evidence = begun.evidence
    ids = sorted(pc.unique(evidence.lag.column("topic_id")).to_pylist())
    if not moments or not ids:
        return []
    ends = begun.source.past_offsets(ids, [min(moments) - over, *moments])
    chosen = known_moments(ends, moments)
    observed = schemas.OBSERVED.empty_table()
    if rates:
        observed = begun.over_history(
            partial(_observe, moments=chosen, over=over), schemas.OBSERVED
        )
    timeline = lags_at(begun, ends, chosen)
    first = begun.over_history(_first, schemas.HISTORY)
    found = []
    for at in chosen:
        seen = observed.filter(pc.equal(observed.column("end"), pa.scalar(at, schemas.TIMESTAMP)))
        found.append(_then(evidence, timeline, first, ends, at, seen, over))
    return found


def _observe(history: pa.RecordBatch, moments: Sequence[datetime], over: timedelta) -> pa.Table:
    """Observe the spans before several moments; the column ``end`` names the moment."""
    return pa.Table.from_batches([observe(history, at, over) for at in moments], schemas.OBSERVED)


def _then(
    evidence: Evidence,
    timeline: pa.Table,
    first: pa.Table,
    ends: pa.Table,
    at: datetime,
    observed: pa.Table,
    over: timedelta,
) -> Then:
    mine = keys(evidence.lag, SHARE_PARTITION)
    here = timeline.filter(pc.equal(timeline.column("as_of"), pa.scalar(at, schemas.TIMESTAMP)))
    known = beside(mine, here, SHARE_PARTITION)
    is_known = flat(known.column("group_id")).is_valid().to_numpy(zero_copy_only=False)
    windows = beside(mine, evidence.windows, SHARE_PARTITION)
    made, has_made = numbers(windows, "create_timestamp")
    absent = np.asarray(~is_known & has_made & (made > milliseconds(at)), bool)
    lag, bounded = _lag(
        evidence.lag, known, beside(mine, first, SHARE_PARTITION), _ends(evidence.lag, ends, at), at
    )
    earlier = ends.filter(pc.less_equal(ends.column("as_of"), pa.scalar(at, schemas.TIMESTAMP)))
    earlier = earlier.filter(
        pc.greater_equal(earlier.column("as_of"), pa.scalar(at - over, schemas.TIMESTAMP))
    )
    known_then = {"as_of": at, "lag": lag, "observed": observed, "past_offsets": earlier}
    # Groups without members both now and then; earlier members are unknown.
    groups = evidence.groups
    emptied = pc.less_equal(groups.column("emptied"), pa.scalar(at, schemas.TIMESTAMP))
    empty = groups.filter(pc.and_(pc.equal(groups.column("members"), 0), emptied))
    moment = Evidence(
        **known_then,
        progress=progress_of(replace(evidence, **known_then, groups=empty)),
        settings=evidence.settings,
        logs=evidence.logs,
        engine=evidence.engine,
        patience=evidence.patience,
    )
    return Then(CauseInputs(moment), np.asarray(bounded & ~absent, bool), absent)


def _lag(
    now: pa.Table, known: pa.Table, first: pa.Table, end: pa.Array, at: datetime
) -> tuple[pa.Table, Bools]:
    """Compute the lag at a moment; unknown states are replaced by the first one known since."""
    is_known = flat(known.column("group_id")).is_valid()
    columns: dict[str, pa.Array] = {}
    for name in _STATE:
        columns[name] = pc.if_else(is_known, flat(known.column(name)), flat(first.column(name)))
    columns["end_offset"] = pc.if_else(is_known, flat(known.column("end_offset")), end)
    table = pa.table(columns)
    (start, a), (count, b), (stop, c) = (
        numbers(table, name) for name in ("start_offset", "delivery_complete_count", "end_offset")
    )
    (window_end, _), (complete, d), (waiting, _) = (
        numbers(table, name)
        for name in ("window_end_offset", "window_complete", "window_available")
    )
    # A log's start never goes back: from that of now on, at least, there were records.
    columns["log_start_offset"] = flat(now.column("log_start_offset"))
    log_start, _ = numbers(now, "log_start_offset")
    was_known = is_known.to_numpy(zero_copy_only=False)
    bound = pa.array(np.maximum(stop - start - count, 0), mask=~(a & b & c))
    columns["lag"] = pc.if_else(is_known, flat(known.column("lag")), bound)
    # The window may have been narrower then than in the first known state.
    reach = np.where(was_known, np.maximum(stop, window_end), stop)
    columns["effective_lag"] = pa.array(np.maximum(reach - start - complete, 0), mask=~(a & c & d))
    columns["unread"] = pa.array(np.maximum(stop - np.maximum(window_end, start), 0), mask=~(a & c))
    held = np.maximum(window_end - start, 0) - waiting - complete
    columns["window_unknown"] = pa.array(held, mask=~(a & d & was_known))
    for name in ("window_end_offset", "window_available", "window_complete"):
        columns[name] = pc.if_else(is_known, columns[name], pa.scalar(None, columns[name].type))
    columns["as_of"] = pa.array([at] * now.num_rows, schemas.TIMESTAMP)
    columns["lag_reason"] = pc.if_else(
        is_known, flat(known.column("lag_reason")), pa.scalar(NO_END_OFFSET_THEN, pa.string())
    )
    columns |= {
        name: flat(now.column(name)) for name in ("group_id", "topic", "topic_id", "partition")
    }
    empty = pa.nulls(now.num_rows)
    arrays = [columns.get(field.name, empty).cast(field.type) for field in schemas.LAG]
    bounded = np.where(was_known, ~a & (log_start > 0), a & b & c)
    return pa.Table.from_arrays(arrays, schema=schemas.LAG), np.asarray(bounded, bool)


def _first(history: pa.RecordBatch) -> pa.Table:
    """Select each share partition's first row that is a complete state."""
    whole = pc.and_(
        history.column("from_snapshot"), pc.not_equal(history.column("record_kind"), "tombstone")
    )
    rows = history.filter(whole)
    codes = keys(rows, SHARE_PARTITION).dictionary_encode().indices.to_numpy()
    first = pa.array(np.unique(codes, return_index=True)[1])
    return as_table(rows).take(first).select(schemas.HISTORY.names)


def _ends(lag: pa.Table, ends: pa.Table, at: datetime) -> pa.Array:
    then = ends.filter(pc.equal(ends.column("as_of"), pa.scalar(at, schemas.TIMESTAMP)))
    return flat(beside(keys(lag, PARTITION), then, PARTITION).column("end_offset"))


def before(evidence: Evidence, spans: Sequence[timedelta], parts: int) -> list[datetime]:
    """Return evenly spaced moments within spans before now, their beginnings included."""
    return sorted(
        {evidence.as_of - span * n / parts for span in spans if span for n in range(1, parts + 1)}
    )
