"""What brokers' gauges say of each share partition: UNKNOWN as acquired, or as never delivered.

``InFlightMessageCount`` is the length of the window in the memory of the leader, finished offsets
within it included (``SharePartition.numInFlightRecords``). Where that window ends, members have
offsets that no state was written of yet; what comes after it was never delivered.

A broker of Kafka 4.3.1 keeps the gauges of the first time that it loaded a share partition
(KAFKA-21096). It loads it again when a group has members again, and they keep showing what was
there before. So a gauge counts only where the broker has loaded each of its share partitions once,
by ``PartitionLoadTimeMs``, or where it changed between two readings without a load between them.
Brokers without that defect remove all metrics of a share partition when they unload it: a gauge
shows the present, and locks that expired are counted since the last load.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.columns import numbers
from sharelag.metrics.measured import readings
from sharelag.model.defects import is_affected
from sharelag.schemas import MEASURED, SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, beside, flat, keys

#: A reading counts for a moment that it is at most so far from.
CLOSE = timedelta(seconds=60)
_NAMES = ["group_id", "topic", "partition"]
_STALE_GAUGES = "KAFKA-21096"
_TERMS = (
    *("start_offset", "effective_start_offset", "window_end_offset", "end_offset"),
    *("unread", "window_unknown"),
)
#: Columns beside those of share partitions.
COLUMNS = tuple(name for name in MEASURED.names if name not in SHARE_PARTITION)


def measured_arrow(
    lag: Arrow, metrics: pa.Table, as_of: datetime, kafka_version: str | None = None
) -> pa.Table:
    """Return what brokers measured of share partitions at the moment of their lag.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    metrics : pyarrow.Table
        `sharelag.schemas.BROKER_METRICS`.
    as_of : datetime
        The moment of the lag; readings further away than `CLOSE` say nothing of it.
    kafka_version : str, optional
        Version or release of the brokers; None: not known.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.MEASURED`, a row for each row of lag. All is null where no broker tells,
        or several do, since one alone leads. Gauges are null where they may be of an earlier load,
        rates where counts may begin with one; bounds also where the gauge contradicts the persisted
        window, as one was read later.
    """
    rows = as_table(lag)
    near = _until(metrics, as_of)
    loads = readings(near, "PartitionLoadTimeMs", "Count", [])
    gauges = _last(readings(near, "InFlightMessageCount", "Value", _NAMES), loads)
    span = _of(rows, gauges, as_of)
    batches = _of(rows, _last(readings(near, "InFlightBatchCount", "Value", _NAMES), loads), as_of)
    expired = readings(near, "AcquisitionLockTimeoutPerSec", "Count", _NAMES)
    expired = _of(rows, _last(expired, loads), as_of)
    is_stale = is_affected(_STALE_GAUGES, kafka_version)
    is_current = pc.is_valid(flat(span.column("figure")))
    if is_stale is not False:
        is_current = _is_current(gauges, loads, span)
    rate = flat(expired.column("rate"))
    if is_stale is not True:
        more = flat(beside(flat(expired.column("of")), loads, ["of"]).column("change"))
        rate = _where(pc.equal(more, 0).fill_null(True), rate)
    columns: dict[str, Any] = {name: flat(rows.column(name)) for name in SHARE_PARTITION}
    columns |= {
        "in_flight_offsets": _where(is_current, span.column("figure")),
        "in_flight_batches": _where(is_current, batches.column("figure")),
        "lock_timeouts": expired.column("figure"),
        "lock_timeout_rate": rate,
    }
    columns |= _bounds(rows, span, is_current)
    return pa.table({name: columns[name] for name in MEASURED.names}).cast(MEASURED)


def _until(metrics: pa.Table, as_of: datetime) -> pa.Table:
    return metrics.filter(pc.less_equal(metrics.column("as_of"), pa.scalar(as_of + CLOSE)))


def _of(rows: pa.Table, found: pa.Table, as_of: datetime) -> pa.Table:
    """The reading of each row at that moment; null where there are none or several."""
    found = found.filter(pc.greater_equal(found.column("as_of"), pa.scalar(as_of - CLOSE)))
    found = found.append_column("key", keys(found, _NAMES))
    single = found.group_by("key").aggregate([("key", "count")])
    single = single.filter(pc.equal(single.column("key_count"), 1)).column("key")
    found = found.filter(pc.is_in(found.column("key"), flat(single)))
    return beside(keys(rows, _NAMES), found, _NAMES)


def _last(found: pa.Table, loads: pa.Table) -> pa.Table:
    """Without figures that the last reading of their broker has no more: it removed them."""
    last = flat(beside(flat(found.column("of")), loads, ["of"]).column("as_of"))
    return found.filter(pc.equal(found.column("as_of"), last).fill_null(True))


def _is_current(gauges: pa.Table, loads: pa.Table, span: pa.Table) -> pa.Array:
    """Whether the gauges are sure to describe the share partitions that are loaded now."""
    count = gauges.group_by("of").aggregate([("figure", "count")])
    of = flat(span.column("of"))
    loaded = beside(of, loads, ["of"])
    count = beside(of, count, ["of"])
    once = pc.less_equal(flat(loaded.column("figure")), flat(count.column("figure_count")))
    without_load = pc.equal(flat(loaded.column("change")), 0)
    moved = pc.not_equal(flat(span.column("change")), 0)
    return pc.or_(once.fill_null(False), pc.and_(without_load, moved).fill_null(False))


def _where(is_current: pa.Array, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pc.if_else(is_current, flat(values), pa.scalar(None, values.type))


def _bounds(lag: pa.Table, span: pa.Table, is_current: pa.Array) -> dict[str, pa.Array]:
    """Bounds of what is acquired and of what was never delivered, by the window in memory.

    That window begins between the start offset, which is written with the next change of state, and
    the first offset that is not finished; so its end is known to that difference.
    """
    terms, known = zip(*(numbers(lag, name) for name in _TERMS), strict=True)
    start, first, window_end, end, unread, holes = terms
    length, has_length = numbers(span, "figure")
    low, high = np.maximum(start + length, window_end), first + length
    current = np.asarray(is_current.to_numpy(zero_copy_only=False), bool)
    is_known = np.logical_and.reduce((*known, has_length, current, high >= window_end, low <= end))
    begin = end - unread
    acquired_low = np.clip(low - begin, 0, unread)
    acquired_high = np.clip(high - begin, 0, unread)
    found = {
        "acquired_low": acquired_low,
        "acquired_high": holes + acquired_high,
        "never_delivered_low": unread - acquired_high,
        "never_delivered_high": unread - acquired_low,
    }
    return {name: pa.array(values, mask=~is_known) for name, values in found.items()}


def with_measured(table: pa.Table, measured: pa.Table) -> pa.Table:
    """Return a table of share partitions with what brokers measured; as it is where there is none.

    Parameters
    ----------
    table : pyarrow.Table
        With the columns of a share partition.
    measured : pyarrow.Table
        `sharelag.schemas.MEASURED`; no rows: no metrics were given.
    """
    if not measured.num_rows:
        return table
    found = beside(keys(table, SHARE_PARTITION), measured, SHARE_PARTITION)
    for name in COLUMNS:
        table = table.append_column(MEASURED.field(name), found.column(name))
    return table


def measured_by(measured: pa.Table) -> dict[tuple[Any, ...], str]:
    """Return what brokers measured of each share partition, in words; without those unknown."""
    rows = {tuple(row[name] for name in SHARE_PARTITION): row for row in measured.to_pylist()}
    return {key: words for key, row in rows.items() if (words := _words(row))}


def _words(row: Mapping[str, Any]) -> str:
    said = []
    if row["acquired_low"] is not None:
        said.append(f"{_range(row, 'acquired')} acquired")
        said.append(f"{_range(row, 'never_delivered')} never delivered")
    if row["in_flight_offsets"] is not None:
        said.append(f"{row['in_flight_offsets']:,} in flight")
    if row["lock_timeouts"] is not None:
        rate = row["lock_timeout_rate"]
        each = "" if rate is None else f" ({rate:.3g}/s)"
        said.append(f"{row['lock_timeouts']:,} locks expired{each}")
    return ", ".join(said)


def _range(row: Mapping[str, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
