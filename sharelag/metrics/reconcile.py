"""Reconcile several measures of the same lag: each difference is a sum of reasons.

    described = lag + ...        Kafka's command, against the same formula on the persisted state
    naive     = lag + ...        end - start, as for a consumer group that committed the start
    effective = lag + ...        unfinished offsets, by the batches, that are still in the log
    true      = effective + ...  records that are not aborted

The dots are the ``differences`` of the row with that ``number``; if both numbers are known they add
up exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.columns import numbers, present
from sharelag.schemas import SHARE_PARTITION, Arrow, Bools, Ints
from sharelag.tables.arrow import (
    as_table,
    ascending,
    batch_of,
    beside,
    flat,
    keys,
    lists_of,
    table_of,
)

DESCRIBED_LAG, NAIVE, EFFECTIVE, TRUE = "described", "naive", "effective", "true"

# Reasons for differences.
COMPLETE_IN_WINDOW = "complete_in_window"
COUNT_DIFFERS = "count_differs"
BELOW_LOG_START = "below_log_start"
STALE_END_OFFSET = "stale_end_offset"
MARKERS_OR_COMPACTED = "markers_or_compacted"
ABORTED = "aborted"
ANOTHER_MOMENT = "another_moment"
NO_STATE = "no_state"
NOT_DESCRIBED = "not_described"
NO_LAG = "no_lag"
UNKNOWN = "unknown"
REASONS = {
    COMPLETE_IN_WINDOW: "offsets after the start offset with complete delivery, by the broker",
    COUNT_DIFFERS: "the delivery complete count differs from the state batches' finished offsets",
    BELOW_LOG_START: "records below the log start were deleted; Kafka still counts them",
    STALE_END_OFFSET: "the end offset is older than the state",
    MARKERS_OR_COMPACTED: "offsets without a record: transaction markers, or removed by compaction",
    ABORTED: "records of aborted transactions; only read_uncommitted groups receive them",
    ANOTHER_MOMENT: "the two were measured at different times",
    NO_STATE: "the records have no state of this share partition",
    NOT_DESCRIBED: "Kafka's command printed no row for this share partition",
    NO_LAG: "Kafka's command printed a dash, or no column LAG, as before Kafka 4.2",
    UNKNOWN: "unexplained",
}

#: Key columns of Kafka's command.
_PRINTED = ("group_id", "topic", "partition")


def reconcile_arrow(
    lag: Arrow, described: Arrow | None = None, scanned: Arrow | None = None
) -> pa.RecordBatch:
    """Return the lag of every share partition by five definitions, and why they differ.

    The result is `sharelag.schemas.RECONCILED`: one row per share partition of ``lag``, and one for
    each that only Kafka ``described``; sorted by group, topic, partition. ``scanned`` belongs to
    the same windows and offsets. The true lag of a read_uncommitted group excludes aborted records,
    although the group receives them; the difference has their count.
    """
    schemas.require(lag, schemas.LAG, "lag")
    rows = as_table(lag).select(schemas.LAG.names)
    if described is not None:
        schemas.require(described, schemas.DESCRIBED, "described")
        rows = _with_rows_of(rows, as_table(described))
    if scanned is not None:
        schemas.require(scanned, schemas.SCANNED, "scanned")
    theirs = schemas.DESCRIBED.empty_table() if described is None else described
    kafkas = beside(keys(rows, _PRINTED), theirs, _PRINTED)
    counts = schemas.SCANNED.empty_table() if scanned is None else scanned
    seen = beside(keys(rows, SHARE_PARTITION), counts, SHARE_PARTITION)
    terms = _Terms(rows)
    read, undecided = _number(seen, "records"), _number(seen, "undecided")
    true = _Known(read.values + undecided.values, read.known & undecided.known)
    differences = [*_naive(terms), *_effective(terms), *_true(terms, seen, true)]
    if described is not None:
        differences += _kafkas_differences(terms, kafkas)
    ways = {"described_lag": _number(kafkas, "lag"), "naive_lag": terms.naive, "true_lag": true}
    columns: dict[str, pa.Array] = {name: number.array() for name, number in ways.items()}
    lag, theirs = terms.lag, _number(kafkas, "lag")
    same = lag.known & (lag.values == theirs.values)
    columns["matches"] = pa.array(same, mask=~theirs.known)
    columns["differences"] = _lists(differences)
    columns |= {
        name: flat(rows.column(name)) for name in schemas.RECONCILED.names if name not in columns
    }
    order = ascending("group_id", "topic", "topic_id", "partition")
    return batch_of(columns, schemas.RECONCILED).sort_by(order)


class _Known(NamedTuple):
    """One number per row, 0 where unknown."""

    values: Ints
    known: Bools

    def array(self) -> pa.Array:
        return pa.array(self.values, mask=~self.known)


class _Difference(NamedTuple):
    """One reason, in the rows where it applies; its size is null if unknown."""

    number: str
    reason: str
    offsets: _Known
    holds: Bools


class _Terms:
    """The terms of the formulas, 0 where unknown."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.start, self.end = _number(rows, "start_offset"), _number(rows, "end_offset")
        self.count = _number(rows, "delivery_complete_count")
        self.lag, self.effective = _number(rows, "lag"), _number(rows, "effective_lag")
        self.complete = _number(rows, "window_complete")
        self.log_start = _number(rows, "log_start_offset")
        self.naive = _Known(self.end.values - self.start.values, self.end.known & self.start.known)
        #: Offsets by which the lag formula is below 0, where Kafka prints a dash.
        below = np.maximum(self.count.values - self.naive.values, 0)
        self.below = np.where(self.naive.known & self.count.known, below, 0)
        #: Offsets of the window beyond the end offset.
        self.beyond = np.maximum(_number(rows, "window_end_offset").values - self.end.values, 0)


def _naive(t: _Terms) -> list[_Difference]:
    both = t.lag.known & t.naive.known
    return [
        _with_size(NAIVE, COMPLETE_IN_WINDOW, t.count.values, both),
        _with_size(NAIVE, STALE_END_OFFSET, -t.below, t.below > 0),
    ]


def _effective(t: _Terms) -> list[_Difference]:
    both = t.lag.known & t.effective.known
    differs = t.count.values - t.complete.values
    rest = t.effective.values - t.lag.values - t.beyond - differs
    # Only the batches, which the lag table lacks, show how many deleted offsets were finished.
    deleted = np.clip(rest, np.minimum(t.start.values - t.log_start.values, 0), 0)
    return [
        _with_size(EFFECTIVE, STALE_END_OFFSET, t.beyond, both),
        _with_size(EFFECTIVE, COUNT_DIFFERS, differs, both),
        _with_size(EFFECTIVE, BELOW_LOG_START, deleted, both),
        _with_size(EFFECTIVE, UNKNOWN, rest - deleted, both),
    ]


def _true(t: _Terms, seen: pa.Table, true: _Known) -> list[_Difference]:
    both = t.effective.known & true.known
    terms = {
        MARKERS_OR_COMPACTED: -_number(seen, "no_record").values,
        ABORTED: -_number(seen, "aborted").values,
        BELOW_LOG_START: -_number(seen, "deleted").values,
    }
    rest = true.values - t.effective.values - np.sum(list(terms.values()), axis=0)
    elsewhen = _differ(t.rows, seen, "as_of")
    return [
        *(_with_size(TRUE, reason, offsets, both) for reason, offsets in terms.items()),
        _with_size(TRUE, ANOTHER_MOMENT, rest, both & elsewhen),
        _with_size(TRUE, UNKNOWN, rest, both & ~elsewhen),
    ]


def _kafkas_differences(t: _Terms, kafkas: pa.Table) -> list[_Difference]:
    lag = _number(kafkas, "lag")
    there = _number(kafkas, "partition").known
    ours = present(t.rows, "topic_id")  # not a row that only Kafka has
    both = lag.known & t.lag.known
    elsewhen = _differ(t.rows, kafkas, "as_of") | _differ(t.rows, kafkas, "start_offset")
    rest = lag.values - t.lag.values
    # If only one side has a lag or a row, the reason has no size.
    one_sided = ours & lag.known & ~t.lag.known
    negative = one_sided & (t.below > 0)  # Kafka saw another end offset
    return [
        _with_size(DESCRIBED_LAG, ANOTHER_MOMENT, rest, both & elsewhen),
        _with_size(DESCRIBED_LAG, UNKNOWN, rest, both & ~elsewhen),
        _without_size(DESCRIBED_LAG, STALE_END_OFFSET, negative),
        _without_size(DESCRIBED_LAG, ANOTHER_MOMENT, one_sided & ~negative & elsewhen),
        _without_size(DESCRIBED_LAG, UNKNOWN, one_sided & ~negative & ~elsewhen),
        _without_size(DESCRIBED_LAG, NO_STATE, ~ours & lag.known),
        _without_size(DESCRIBED_LAG, NO_LAG, there & ~lag.known),
        _without_size(DESCRIBED_LAG, NOT_DESCRIBED, ~there),
    ]


def _with_rows_of(lag: pa.Table, described: pa.Table) -> pa.Table:
    """Return the lag rows, followed by those that only Kafka's command printed."""
    only = described.filter(pc.invert(pc.is_in(keys(described, _PRINTED), keys(lag, _PRINTED))))
    columns = {name: only.column(name) for name in (*_PRINTED, "as_of")}
    return pa.concat_tables([lag.cast(schemas.LAG), table_of(columns, schemas.LAG, pad=True)])


def _with_size(number: str, reason: str, offsets: Ints, both: Bools) -> _Difference:
    return _Difference(number, reason, _Known(offsets, both), both & (offsets != 0))


def _without_size(number: str, reason: str, holds: Bools) -> _Difference:
    none = _Known(np.zeros(len(holds), np.int64), np.zeros(len(holds), np.bool_))
    return _Difference(number, reason, none, holds)


def _lists(differences: list[_Difference]) -> pa.Array:
    holds = np.stack([d.holds for d in differences], axis=1)
    rows, which = np.nonzero(holds)
    sizes = np.stack([d.offsets.values for d in differences], axis=1)[rows, which]
    known = np.stack([d.offsets.known for d in differences], axis=1)[rows, which]
    names = ([d.number for d in differences], [d.reason for d in differences])
    taken = [pa.array(some, pa.string()).take(pa.array(which)) for some in names]
    taken.append(pa.array(sizes, pa.int64(), mask=~known))
    structs = pa.StructArray.from_arrays(taken, fields=list(schemas.DIFFERENCE))
    return lists_of(holds.sum(axis=1), structs)


def _number(table: pa.Table, name: str) -> _Known:
    return _Known(*numbers(table, name))


def _differ(one: pa.Table, other: pa.Table, name: str) -> Bools:
    """Return which rows have two known values that differ."""
    a, b = _number(one, name), _number(other, name)
    return np.asarray(a.known & b.known & (a.values != b.values), bool)
