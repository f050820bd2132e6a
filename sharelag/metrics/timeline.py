"""The lag of every share partition at several moments, from its history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.metrics.columns import bools, numbers
from sharelag.model import milliseconds
from sharelag.replay.history import HISTORY_KEY
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.tables.reasons import (
    NEGATIVE_LAG,
    NO_COMPLETE_COUNT,
    NO_END_OFFSET_THEN,
    NO_START_OFFSET,
    RECORDS_MISSING,
)

_STATE = ("start_offset", "effective_start_offset", "window_end_offset", "delivery_complete_count")
_KEPT = (
    "group_id",
    "topic_id",
    "partition",
    *_STATE,
    "window_available",
    "window_complete",
    "max_delivery_count",
)


def timeline_arrow(history: Arrow, past_offsets: Arrow, moments: Sequence[datetime]) -> pa.Table:
    """Return the lag of every share partition at several moments.

    Parameters
    ----------
    history : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.HISTORY`, in the order of `history_arrow`.
    past_offsets : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OFFSETS`, one row per topic partition and moment; other moments are
        ignored.
    moments : sequence of datetime

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.TIMELINE`, one row per moment and share partition that existed then,
        sorted by share partition, then moment. Lag is null if the end offset at the moment is
        unknown, or before what was finished, or if earlier records are missing.
    """
    wanted = np.unique(np.array([milliseconds(moment) for moment in moments], np.int64))
    if history.num_rows == 0 or not len(wanted):
        return schemas.TIMELINE.empty_table()
    table = as_table(history)
    rows, at = _last_rows(table, wanted)
    then = table.select([*_KEPT, "record_kind", "from_snapshot"]).take(pa.array(rows))
    alive = pc.not_equal(then.column("record_kind"), "tombstone").to_numpy(zero_copy_only=False)
    then, at = then.filter(pa.array(alive)), at[alive]
    offsets = as_table(past_offsets)
    ids = pc.unique(flat(then.column("topic_id")))
    moment, noted = numbers(offsets, "as_of")
    nearest = np.minimum(np.searchsorted(wanted, moment), len(wanted) - 1)
    there = np.where(noted & (wanted[nearest] == moment), nearest, -1)
    place = pc.index_in(
        _places(then, ids, at, len(wanted)), _places(offsets, ids, there, len(wanted))
    )
    ends = offsets.select(["topic", "end_offset"]).take(place)
    return _lagged(then, ends, pa.array(wanted[at]).view(schemas.TIMESTAMP))


def _places(table: pa.Table, ids: pa.Array, moment: NDArray[np.int64], moments: int) -> pa.Array:
    """Return one number per topic partition and moment; a null one where one is not known."""
    topic = pc.index_in(flat(table.column("topic_id")), ids).fill_null(-1).to_numpy()
    partition, known = numbers(table, "partition")
    number = (topic.astype(np.int64) * 2**31 + partition) * moments + moment
    return pa.array(number, mask=~known | (topic < 0) | (moment < 0))


def _last_rows(
    table: pa.Table, moments: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each share partition's last row up to each moment, and the moment's number."""
    codes = keys(table, [*(name for name in HISTORY_KEY[:-1] if name != "group_id"), "group_id"])
    code = codes.dictionary_encode().indices.to_numpy().astype(np.int64)
    time, _ = numbers(table, "record_timestamp")
    begins = np.flatnonzero(np.diff(code, prepend=-1))
    # Brokers' clocks may differ: a record counts once all before it do.
    low = min(int(time.min()), int(moments[0]))
    width = max(int(time.max()), int(moments[-1])) - low + 2
    place = np.arange(len(begins), dtype=np.int64).repeat(np.diff(np.append(begins, len(code))))
    sorted_by = np.maximum.accumulate(place * width + (time - low))
    requested = (
        np.arange(len(begins), dtype=np.int64)[:, None] * width + (moments - low)[None, :]
    ).ravel()
    found = np.searchsorted(sorted_by, requested, side="right") - 1
    there = found >= np.repeat(begins, len(moments))
    return found[there], np.tile(np.arange(len(moments)), len(begins))[there]


def _lagged(then: pa.Table, ends: pa.Table, as_of: pa.Array) -> pa.Table:
    (start, has_start), (count, has_count) = (
        numbers(then, "start_offset"),
        numbers(then, "delivery_complete_count"),
    )
    (end, has_end), (window_end, _) = (
        numbers(ends, "end_offset"),
        numbers(then, "window_end_offset"),
    )
    is_whole = bools(then, "from_snapshot")
    lag = end - start - count
    cases = {
        RECORDS_MISSING: is_whole,
        NO_START_OFFSET: has_start,
        NO_COMPLETE_COUNT: has_count,
        NO_END_OFFSET_THEN: has_end,
        NEGATIVE_LAG: lag >= 0,
    }
    reasons = pc.case_when(
        pc.make_struct(*[pa.array(~is_known) for is_known in cases.values()]),
        *map(pa.scalar, cases),
        pa.scalar(None, pa.string()),
    )
    columns = {name: flat(then.column(name)) for name in _KEPT} | {
        "topic": flat(ends.column("topic")),
        "as_of": as_of,
        "end_offset": flat(ends.column("end_offset")),
        "lag": pa.array(lag, mask=~np.all(list(cases.values()), axis=0)),
        "unread": pa.array(
            np.maximum(end - np.maximum(window_end, start), 0), mask=~(has_start & has_end)
        ),
        "lag_reason": reasons,
    }
    arrays = [columns[field.name].cast(field.type) for field in schemas.TIMELINE]
    return pa.Table.from_arrays(arrays, schema=schemas.TIMELINE)
