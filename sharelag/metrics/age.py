"""Age of the lag: how long the oldest unfinished record of each share partition has been waiting.

Its time is that of the record at the effective start offset if that record was read; otherwise it
is interpolated between the moments at which the end offset of the topic partition is known. If only
transaction markers or compacted offsets are left, or the log is empty, no record is waiting and the
age is 0, as it is without lag. Records of a transaction that is still open wait, too: of a group
that may not read them the age is interpolated.

Times are record timestamps: of the producer's clock with ``message.timestamp.type=CreateTime``, of
the broker's with ``LogAppendTime``. A record from the future has an age of 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.metrics.columns import numbers
from sharelag.metrics.ends import PARTITION, Ends, time_of
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys

RECORD = "record"
INTERPOLATED = "interpolated"
#: Number of intervals of an unfinished range of a compacted topic; offsets between are sampled.
SAMPLED = 16


@dataclass(frozen=True)
class Oldest:
    """The oldest unfinished offset of each row of a lag table; numbers are 0 where unknown."""

    offset: NDArray[np.int64]
    unfinished: NDArray[np.bool_]  # whether there is one
    idle: NDArray[np.bool_]  # it is known that no record is left to deliver
    timestamp: NDArray[np.int64]  # milliseconds
    dated: NDArray[np.bool_]  # whether its time is known
    interpolated: NDArray[np.bool_]


def oldest_offsets(lag: Arrow) -> pa.Table:
    """Return the offsets whose times `oldest` needs, each once.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.

    Returns
    -------
    pyarrow.Table
        ``topic topic_id partition asked_offset`` of `sharelag.schemas.TIMES`.
    """
    waiting = as_table(lag).filter(pc.greater(lag.column("effective_lag"), 0))
    names = ["topic", "topic_id", "partition", "effective_start_offset"]
    distinct = waiting.select(names).group_by(names, use_threads=False).aggregate([])
    return distinct.select(names).rename_columns(schemas.TIMES.names[:4])


def requested_offsets(lag: Arrow, logs: Arrow) -> pa.Table:
    """Return the offsets an investigation looks up: oldest unfinished and first unread ones.

    For compacted topics it adds a sample of the others, to see how many still have a record.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    logs : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LOGS`.

    Returns
    -------
    pyarrow.Table
        As `oldest_offsets`.
    """
    names = schemas.TIMES.names[:4]
    place = ["topic", "topic_id", "partition"]
    table = as_table(lag)
    unread = table.filter(pc.greater(table.column("unread"), 0))
    policy = beside(keys(table, PARTITION), logs, PARTITION).column("cleanup_policy")
    is_compacted = pc.match_substring(flat(policy).cast(pa.string()), "compact").fill_null(False)
    compacted = table.filter(pc.and_(is_compacted, pc.greater(table.column("effective_lag"), 0)))
    tables = [
        oldest_offsets(table),
        unread.select([*place, "window_end_offset"]).rename_columns(names),
    ]
    start, end = (numbers(compacted, name)[0] for name in ("effective_start_offset", "end_offset"))
    for n in range(1, SAMPLED):
        offsets = pa.array(start + (end - start) * n // SAMPLED)
        tables.append(compacted.select(place).append_column("asked_offset", offsets))
    return pa.concat_tables(tables).group_by(names, use_threads=False).aggregate([]).select(names)


def oldest(lag: Arrow, times: Arrow, ends: Ends, stable: Arrow | None = None) -> Oldest:
    """Return the oldest unfinished offset of each share partition, and its record's time.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    times : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.TIMES` of `oldest_offsets`, as far as they could be read. Where the offset
        was compacted away, the time is that of the next record: if that one is finished, the oldest
        unfinished record is younger, never older.
    ends : Ends
        Of the same lag table.
    stable : pyarrow.RecordBatch or pyarrow.Table, optional
        `sharelag.schemas.LOGS` where only committed records are read: what lies between the last
        stable offset and the end waits, though nothing could be read there.
    """
    left, left_known = numbers(lag, "effective_lag")
    offset, _ = numbers(lag, "effective_start_offset")
    unfinished = left_known & (left > 0)
    names = ["topic_id", "partition", "asked_offset"]
    requested = keys(
        as_table(lag).append_column("asked_offset", lag.column("effective_start_offset")), names
    )
    found = beside(requested, times, names)
    there, has_record = numbers(found, "offset")
    timestamp, timed = numbers(found, "timestamp")
    was_read = unfinished & flat(found.column("asked_offset")).is_valid().to_numpy(
        zero_copy_only=False
    )
    (end, ended), (log_start, has_log_start) = (
        numbers(lag, "end_offset"),
        numbers(lag, "log_start_offset"),
    )
    # A record beyond the end at that moment arrived later, so none was left then either.
    only_markers = was_read & (
        ~has_record | (there >= np.maximum(end, numbers(lag, "window_end_offset")[0]))
    )
    if stable is not None:
        limit, limited = numbers(
            beside(keys(lag, PARTITION), stable, PARTITION), "last_stable_offset"
        )
        only_markers &= ~(limited & ended & (limit < end))
    # Wherever a group starts that has not fetched yet: in an empty log no record is waiting.
    empty = ~left_known & ended & has_log_start & (end <= log_start)
    dated = was_read & ~only_markers & timed & (timestamp >= 0)  # -1: a record without a time
    between, interpolated = time_of(ends, offset)
    interpolated &= unfinished & ~only_markers & ~dated
    return Oldest(
        offset=offset,
        unfinished=unfinished,
        idle=(left_known & (left == 0)) | only_markers | empty,
        timestamp=np.where(dated, timestamp, np.where(interpolated, between, 0)),
        dated=dated | interpolated,
        interpolated=interpolated,
    )


def age_columns(found: Oldest, as_of: int) -> dict[str, pa.Array]:
    """Return the age columns of `sharelag.schemas.PROGRESS` at a moment in milliseconds."""
    source = np.where(found.interpolated, INTERPOLATED, RECORD)
    age = np.where(found.idle, 0, np.maximum(as_of - found.timestamp, 0))
    return {
        "oldest_offset": pa.array(found.offset, mask=~found.unfinished),
        "oldest_timestamp": pa.array(found.timestamp, mask=~found.dated).view(schemas.TIMESTAMP),
        "oldest_from": pa.array(
            source, pa.string(), mask=~(found.dated | (found.unfinished & found.idle))
        ),
        "age_ms": pa.array(age, mask=~(found.dated | found.idle)),
    }
