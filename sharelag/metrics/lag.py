"""Share-partition lag, term by term (KIP-1226).

    lag = end_offset - start_offset - delivery_complete_count                       (KIP-1226)

as Kafka computes it from the persisted state; like Kafka's command, unknown where that is negative.
The window breaks the distance
down; for every row with known terms

    end_offset - start_offset = unread + window_available + window_unknown + window_complete

(if the end offset is older than the window, ``unread`` is 0 and the sum exceeds the distance). So
lag is the sum of unread, available and unknown, unless the broker's count differs from its batches.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.columns import bools, numbers, present
from sharelag.metrics.runs import TERMINAL, Runs
from sharelag.model import DeliveryState
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys, one_batch
from sharelag.tables.reasons import (
    ARCHIVING,
    COUNT_DIFFERS,
    NEGATIVE_LAG,
    NO_COMPLETE_COUNT,
    NO_END_OFFSET,
    NO_END_OFFSET_THEN,
    NO_START_OFFSET,
    PARTIAL_STATE,
    RECORDS_MISSING,
    REJECTED_RECORDS,
    START_BELOW_LOG_START,
    UNKNOWN_TOPIC,
)

#: The columns of offsets that `lag_columns` needs in addition to those of windows.
OFFSET_KEYS = ["topic_id", "partition"]
OFFSET_COLUMNS = [*OFFSET_KEYS, "topic", "log_start_offset", "end_offset", "as_of"]
#: Lag with nothing but what Kafka computes it from: columns of `sharelag.schemas.LAG`.
BRIEF = pa.schema(
    [
        schemas.LAG.field(name)
        for name in (
            *("group_id", "topic", "topic_id", "partition", "leader_epoch", "start_offset"),
            *("log_start_offset", "end_offset", "delivery_complete_count"),
            *("lag", "lag_reason", "as_of"),
        )
    ]
)
_NO_BATCHES = {
    "runs": pa.scalar([], schemas.WINDOWS.field("runs").type),
    "from_snapshot": pa.scalar(True),
}
ROLLUP_KEYS = {"group": ["group_id"], "topic": ["group_id", "topic", "topic_id"]}
#: Column of the roll-up, column of the lag table, aggregate.
ROLLUP_SUMS = [
    ("unknown_lags", "unknown_lags", "sum"),
    ("lag", "lag", "sum"),
    ("max_lag", "lag", "max"),
    ("effective_lag", "effective_lag", "sum"),
    ("unread", "unread", "sum"),
    ("window_available", "window_available", "sum"),
    ("window_unknown", "window_unknown", "sum"),
    ("window_complete", "window_complete", "sum"),
    ("as_of", "as_of", "min"),
]


def lag_arrow(windows: Arrow, offsets: Arrow) -> pa.RecordBatch:
    """Return the lag of every share partition.

    Parameters
    ----------
    windows : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.WINDOWS`, read before the offsets; otherwise the lag could be negative.
    offsets : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OFFSETS`, one row per topic partition.

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.LAG`, one row per window, sorted by group, topic, partition.
    """
    schemas.require(windows, schemas.WINDOWS, "windows")
    schemas.require(offsets, schemas.OFFSETS, "offsets")
    lag = lag_columns(_join(as_table(windows).select(schemas.WINDOWS.names), as_table(offsets)))
    return lag.sort_by(
        [(name, "ascending") for name in ("group_id", "topic", "topic_id", "partition")]
    )


def brief_arrow(positions: Arrow, offsets: Arrow) -> pa.RecordBatch:
    """Return the lag of every share partition, without what its batches say.

    Parameters
    ----------
    positions : pyarrow.RecordBatch or pyarrow.Table
        Columns of `sharelag.schemas.WINDOWS`, or those that
        `sharelag.replay.positions.latest_positions` gives.
    offsets : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OFFSETS`.

    Returns
    -------
    pyarrow.RecordBatch
        `BRIEF`: the columns of the same name of what `lag_arrow` gives of the windows.
    """
    windows = as_table(positions)
    for field in schemas.WINDOWS:
        if field.name not in windows.column_names:
            # No column of `BRIEF` rests on these.
            empty = pa.repeat(
                _NO_BATCHES.get(field.name, pa.scalar(None, field.type)), len(windows)
            )
            windows = windows.append_column(field, empty)
    return lag_arrow(windows, offsets).select(BRIEF.names)


def with_unknown_terms(brief: pa.Table) -> pa.Table:
    """Return `BRIEF` as `sharelag.schemas.LAG`, where all other columns are null."""
    for field in schemas.LAG:
        if field.name not in brief.column_names:
            brief = brief.append_column(field, pa.nulls(len(brief), field.type))
    return brief.select(schemas.LAG.names).cast(schemas.LAG)


def lag_columns(joined: Arrow) -> pa.RecordBatch:
    """Return the lag of windows joined with their offsets (the part that Spark distributes).

    Parameters
    ----------
    joined : pyarrow.RecordBatch or pyarrow.Table
        The columns of `sharelag.schemas.WINDOWS`, joined by ``topic_id`` and ``partition`` with
        `OFFSET_COLUMNS`; the latter are null without a match.
    """
    if joined.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=schemas.LAG)
    n = _Numbers(joined)
    lag = n.end - n.start - n.count
    known = n.has_start & n.has_count & n.has_end
    runs = Runs(joined.column("runs"))
    low = np.maximum(n.start, n.log_start)
    finished = runs.sum(TERMINAL, low) + np.maximum(n.effective - low, 0)
    complete = runs.sum(TERMINAL) + n.effective - n.start
    available = runs.sum((int(DeliveryState.AVAILABLE),))
    window = np.maximum(n.window_end - n.start, 0)
    sized = n.has_start & n.has_end
    columns = {
        "lag": (lag, known & (lag >= 0)),
        # What a start offset beyond the end of the log leaves to do is not known, nor is the lag.
        "effective_lag": (
            np.maximum(np.maximum(n.end, n.window_end) - low - finished, 0),
            sized & ((n.start <= n.end) | (n.window_end > n.start)),
        ),
        "unread": (np.maximum(n.end - np.maximum(n.window_end, n.start), 0), sized),
        "window_available": (available, n.has_start),
        "window_unknown": (window - available - complete, n.has_start),
        "window_complete": (complete, n.has_start),
    }
    notes = {
        START_BELOW_LOG_START: n.has_start & n.has_log_start & (n.effective < n.log_start),
        COUNT_DIFFERS: n.has_start & n.has_count & (n.count != complete),
        PARTIAL_STATE: ~n.is_whole,
        ARCHIVING: runs.sum((int(DeliveryState.ARCHIVING),)) > 0,
        REJECTED_RECORDS: n.rejected > 0,
    }
    arrays: dict[str, pa.Array] = {
        name: pa.array(v, mask=~mask) for name, (v, mask) in columns.items()
    }
    effective = pa.array(np.maximum(n.effective, n.log_start), mask=~n.has_start)
    arrays["effective_start_offset"] = effective
    # Like Kafka's command, which shows nothing until the start offset is known.
    epoch = flat(joined.column("leader_epoch"))
    arrays["leader_epoch"] = pc.if_else(pa.array(n.has_start), epoch, pa.scalar(None, epoch.type))
    arrays["lag_reason"] = _reasons(
        n, present(joined, "topic"), present(joined, "as_of"), known & (lag < 0)
    )
    arrays["notes"] = _lists(notes)
    arrays |= {name: flat(joined.column(name)) for name in schemas.LAG.names if name not in arrays}
    chosen = [arrays[field.name].cast(field.type) for field in schemas.LAG]
    return pa.RecordBatch.from_arrays(chosen, schema=schemas.LAG)


def rollup_keys(by: str) -> list[str]:
    """Return the key columns for ``"group"`` or ``"topic"``; other values are an InputError."""
    if by not in ROLLUP_KEYS:
        raise InputError(f"cannot sum lag by {by!r}: choose one of {', '.join(ROLLUP_KEYS)}")
    return ROLLUP_KEYS[by]


def rollup_arrow(lag: Arrow, by: str) -> pa.RecordBatch:
    """Sum lag by group, or by group and topic; unknown lags are counted, not summed as zero.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    by : {"group", "topic"}

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.ROLLUP`, sorted by its keys. ``lag`` is that of the known ones, and null
        with ``max_lag`` where they have none and others are unknown: that nothing waits is not
        known then.
    """
    keys = rollup_keys(by)
    table = as_table(lag).append_column(
        "unknown_lags", pc.is_null(lag.column("lag")).cast(pa.int64())
    )
    wanted = [
        (column, how, pc.ScalarAggregateOptions(min_count=1)) for _, column, how in ROLLUP_SUMS
    ]
    grouped = table.group_by(keys).aggregate([("partition", "count"), *wanted])
    columns = {name: grouped.column(f"{column}_{how}") for name, column, how in ROLLUP_SUMS}
    is_known = pc.or_(pc.greater(columns["lag"], 0), pc.equal(columns["unknown_lags"], 0))
    for name in ("lag", "max_lag"):
        columns[name] = pc.if_else(is_known, columns[name], None)
    columns |= {key: grouped.column(key) for key in keys} | {
        "partitions": grouped.column("partition_count")
    }
    empty = pa.nulls(grouped.num_rows)
    rolled = pa.Table.from_arrays(
        [columns.get(field.name, empty).cast(field.type) for field in schemas.ROLLUP],
        schema=schemas.ROLLUP,
    )
    return one_batch(rolled.sort_by([(key, "ascending") for key in keys]))


# ---- columns as numbers --------------------------------------------------------------------------


class _Numbers:
    """The terms as int64, 0 where unknown, with masks of known values."""

    def __init__(self, joined: Arrow) -> None:
        self.start, self.has_start = numbers(joined, "start_offset")
        self.effective, _ = numbers(joined, "effective_start_offset")
        self.window_end, _ = numbers(joined, "window_end_offset")
        self.count, self.has_count = numbers(joined, "delivery_complete_count")
        self.end, self.has_end = numbers(joined, "end_offset")
        self.log_start, self.has_log_start = numbers(joined, "log_start_offset")
        self.is_whole = bools(joined, "from_snapshot")
        self.rejected, _ = numbers(joined, "rejected_records")


def _join(windows: pa.Table, ends: pa.Table) -> pa.Table:
    """Join offsets to windows. Arrow's own join does not support lists and is slow to load."""
    partners = beside(keys(windows, OFFSET_KEYS), ends, OFFSET_KEYS)
    for name in OFFSET_COLUMNS:
        if name not in OFFSET_KEYS:
            windows = windows.append_column(name, partners.column(name))
    return windows


def _reasons(
    n: _Numbers,
    has_topic: NDArray[np.bool_],
    has_moment: NDArray[np.bool_],
    is_negative: NDArray[np.bool_],
) -> pa.Array:
    cases = [
        (~n.has_start & ~n.is_whole, RECORDS_MISSING),
        (~n.has_start, NO_START_OFFSET),
        (~n.has_count, NO_COMPLETE_COUNT),
        (~has_topic, UNKNOWN_TOPIC),
        (~n.has_end & ~has_moment, NO_END_OFFSET_THEN),
        (~n.has_end, NO_END_OFFSET),
        (is_negative, NEGATIVE_LAG),
    ]
    return pc.case_when(
        pc.make_struct(*[pa.array(condition) for condition, _ in cases]),
        *[pa.scalar(reason) for _, reason in cases],
        pa.scalar(None, pa.string()),
    )


def _lists(notes: dict[str, NDArray[np.bool_]]) -> pa.Array:
    matrix = np.stack(list(notes.values()), axis=1)
    offsets = np.concatenate([[0], np.cumsum(matrix.sum(axis=1))]).astype(np.int32)
    names = pa.array(list(notes), pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(np.nonzero(matrix)[1])))
