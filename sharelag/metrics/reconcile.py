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
from sharelag.metrics.columns import floats, present
from sharelag.schemas import SHARE_PARTITION, Arrow, Bools, Floats
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
    terms = {name: floats(rows.column(name)) for name in _TERMS}
    naive = terms["end_offset"] - terms["start_offset"]
    # Offsets by which the lag formula is below 0, where Kafka prints a dash.
    below = np.nan_to_num(np.maximum(terms["delivery_complete_count"] - naive, 0))
    true = floats(seen.column("records")) + floats(seen.column("undecided"))
    differences = [
        _with_size(NAIVE, COMPLETE_IN_WINDOW, naive - terms["lag"]),
        _with_size(NAIVE, STALE_END_OFFSET, -below),
        *_effective(terms),
        *_true(terms["effective_lag"], true, seen, _differ(rows, seen, "as_of")),
    ]
    printed = floats(kafkas.column("lag"))
    if described is not None:
        differences += _kafkas_differences(rows, kafkas, terms["lag"], printed, below > 0)
    ways = {"described_lag": printed, "naive_lag": naive, "true_lag": true}
    columns = {name: pa.array(number, from_pandas=True) for name, number in ways.items()}
    columns["matches"] = pa.array(terms["lag"] == printed, mask=np.isnan(printed))
    columns["differences"] = _lists(differences)
    columns |= {
        name: flat(rows.column(name)) for name in schemas.RECONCILED.names if name not in columns
    }
    order = ascending("group_id", "topic", "topic_id", "partition")
    return batch_of(columns, schemas.RECONCILED).sort_by(order)


#: Columns of lag in the formulas; NaN where unknown.
_TERMS = (
    *("start_offset", "end_offset", "delivery_complete_count", "lag", "effective_lag"),
    *("window_complete", "window_end_offset", "log_start_offset"),
)


class _Difference(NamedTuple):
    """One reason, in the rows where it applies; its size is NaN if unknown."""

    number: str
    reason: str
    offsets: Floats
    holds: Bools


def _with_size(
    number: str, reason: str, offsets: Floats, where: Bools | bool = True
) -> _Difference:
    """Return a difference in the rows where its size is known and not 0."""
    return _Difference(number, reason, offsets, where & (np.nan_to_num(offsets) != 0))


def _effective(terms: dict[str, Floats]) -> list[_Difference]:
    start, end, count, lag, effective, complete, window_end, log_start = terms.values()
    both = ~np.isnan(lag + effective)
    beyond = np.maximum(np.nan_to_num(window_end) - end, 0)  # offsets of the window
    differs = count - complete
    rest = effective - lag - beyond - differs
    # Only the batches, which the lag table lacks, show how many deleted offsets were finished.
    deleted = np.clip(rest, np.minimum(start - np.nan_to_num(log_start), 0), 0)
    return [
        _with_size(EFFECTIVE, STALE_END_OFFSET, beyond, both),
        _with_size(EFFECTIVE, COUNT_DIFFERS, differs, both),
        _with_size(EFFECTIVE, BELOW_LOG_START, deleted),
        _with_size(EFFECTIVE, UNKNOWN, rest - deleted),
    ]


def _true(effective: Floats, true: Floats, seen: pa.Table, elsewhen: Bools) -> list[_Difference]:
    reasons = {"no_record": MARKERS_OR_COMPACTED, "aborted": ABORTED, "deleted": BELOW_LOG_START}
    terms = {why: -floats(seen.column(name)) for name, why in reasons.items()}
    rest = true - effective - sum(terms.values())
    both = ~np.isnan(rest)
    return [
        *(_with_size(TRUE, reason, offsets, both) for reason, offsets in terms.items()),
        _with_size(TRUE, ANOTHER_MOMENT, rest, elsewhen),
        _with_size(TRUE, UNKNOWN, rest, ~elsewhen),
    ]


def _kafkas_differences(
    rows: pa.Table, kafkas: pa.Table, lag: Floats, printed: Floats, is_below: Bools
) -> list[_Difference]:
    there, has_lag = present(kafkas, "partition"), ~np.isnan(printed)
    ours = present(rows, "topic_id")  # not a row that only Kafka has
    elsewhen = _differ(rows, kafkas, "as_of") | _differ(rows, kafkas, "start_offset")
    # If only one side has a lag or a row, the reason has no size.
    one_sided = ours & has_lag & np.isnan(lag)
    unclear = one_sided & ~is_below
    without_size = {
        STALE_END_OFFSET: one_sided & is_below,  # Kafka saw another end offset
        ANOTHER_MOMENT: unclear & elsewhen,
        UNKNOWN: unclear & ~elsewhen,
        NO_STATE: ~ours & has_lag,
        NO_LAG: there & ~has_lag,
        NOT_DESCRIBED: ~there,
    }
    unknown = np.full(len(lag), np.nan)
    return [
        _with_size(DESCRIBED_LAG, ANOTHER_MOMENT, printed - lag, elsewhen),
        _with_size(DESCRIBED_LAG, UNKNOWN, printed - lag, ~elsewhen),
        *(_Difference(DESCRIBED_LAG, why, unknown, at) for why, at in without_size.items()),
    ]


def _with_rows_of(lag: pa.Table, described: pa.Table) -> pa.Table:
    """Return the lag rows, followed by those that only Kafka's command printed."""
    only = described.filter(pc.invert(pc.is_in(keys(described, _PRINTED), keys(lag, _PRINTED))))
    columns = {name: only.column(name) for name in (*_PRINTED, "as_of")}
    return pa.concat_tables([lag.cast(schemas.LAG), table_of(columns, schemas.LAG, pad=True)])


def _lists(differences: list[_Difference]) -> pa.Array:
    holds = np.stack([d.holds for d in differences], axis=1)
    rows, which = np.nonzero(holds)
    sizes = np.stack([d.offsets for d in differences], axis=1)[rows, which]
    names = ([d.number for d in differences], [d.reason for d in differences])
    taken = [pa.array(some, pa.string()).take(pa.array(which)) for some in names]
    taken.append(pa.array(sizes, from_pandas=True).cast(pa.int64()))
    structs = pa.StructArray.from_arrays(taken, fields=list(schemas.DIFFERENCE))
    return lists_of(holds.sum(axis=1), structs)


def _differ(one: pa.Table, other: pa.Table, name: str) -> Bools:
    """Return which rows have two known values that differ."""
    by = floats(one.column(name)) - floats(other.column(name))
    return np.asarray(np.nan_to_num(by) != 0, bool)
