"""Brokers' own metrics of share partitions.

Counts grow while a broker runs; two readings of the same broker yield rates. A reading describes a
moment only if it is close to it. `measured_arrow` separates acquired offsets from those that were
never delivered, which the state topic does not distinguish.

``InFlightMessageCount`` is the length of the window in the leader's memory, including finished
offsets (``SharePartition.numInFlightRecords``). Offsets up to its end may be acquired without a
persisted state; offsets beyond it were never delivered.

A broker of Kafka 4.3.1 keeps the gauges of the first load of a share partition (KAFKA-21096). It
loads the share partition again when its group has members again, but the gauges keep the old
values. So a gauge counts only if the broker has loaded each of its share partitions once, by
``PartitionLoadTimeMs``, or if it changed between two readings without a load in between. Brokers
without that defect remove all metrics of a share partition when they unload it: their gauges are
current, and expired locks are counted since the last load.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.columns import floats, mask, numbers, series
from sharelag.model.defects import is_affected
from sharelag.schemas import MEASURED, SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, beside, flat, keys, table_of
from sharelag.tables.words import per_second, pluralize

#: Types of acknowledgement that Kafka counts; later versions may add others.
_TYPES = ("accept", "release", "reject", "renew")
#: Metrics that are listed first.
_ACKNOWLEDGED, _IN_FLIGHT = "RecordAcknowledgementsPerSec", "InFlightMessageCount"
_EXPIRED, _BATCHES = "AcquisitionLockTimeoutPerSec", "InFlightBatchCount"
_FIRST = (_ACKNOWLEDGED, _IN_FLIGHT, _EXPIRED, _BATCHES)
_MAIN = ("Value", "Count", "Mean", "Max")
_SHARE = "protocol=share"
#: Brokers' counts of a group's dead letters, since Kafka 4.4.
_LETTERS = {
    "DeadLetterQueueRecordCount": "written",
    "DeadLetterQueueTotalProduceRequestsPerSec": "requests",
    "DeadLetterQueueFailedProduceRequestsPerSec": "failed requests",
}
#: Maximum number of groups whose letters have a note each.
_MOST_NOTES = 10
_BEANS = (
    "kafka.server:type=ShareGroupMetrics",
    "kafka.server:type=SharePartitionMetrics",
    "kafka.server:type=ShareSessionCache",
    "kafka.server:type=share-coordinator-metrics",
)


def about_share_groups(table: pa.Table) -> pa.Table:
    """Return the figures about share groups: value, count, mean and maximum of each metric.

    Acknowledgements, in-flight records and expired locks come first; otherwise the order stays.
    """
    tags = pc.binary_join(table.column("tags"), "\n").fill_null("")
    of_bean = pc.is_in(table.column("mbean"), pa.array(_BEANS))
    of_coordinator = pc.match_substring(tags, _SHARE)
    of_kind = pc.match_substring_regex(table.column("metric"), "^(share-|record-ack)")
    coordinated = pc.match_substring(table.column("mbean"), "group-coordinator").fill_null(False)
    of_share = pc.or_(of_bean, pc.and_(coordinated, pc.or_(of_coordinator, of_kind)))
    main = pc.is_in(table.column("attribute"), pa.array(_MAIN))
    found = table.filter(pc.and_(of_share, main))
    place = pc.index_in(found.column("metric"), pa.array(_FIRST)).fill_null(len(_FIRST))
    order = np.argsort(place.to_numpy(), kind="stable")
    return found.take(pa.array(order))


def readings(table: pa.Table, metric: str, attribute: str, names: list[str]) -> pa.Table:
    """Return the last reading of a metric, and its rate since the reading before.

    ``names`` are columns of `sharelag.schemas.BROKER_METRICS` that identify its figures on one
    broker. The result has ``of`` (the broker, else the source), the names, ``as_of``, ``figure``,
    ``change`` since the reading before, the same as ``increase``, and ``rate`` per second. All
    three are null with one reading; the last two also if the count fell, because it was
    reset.
    """
    chosen = pc.and_(
        pc.equal(table.column("metric"), metric), pc.equal(table.column("attribute"), attribute)
    )
    rows = table.filter(pc.and_(chosen.fill_null(False), pc.is_valid(table.column("figure"))))
    of = pc.coalesce(rows.column("broker"), rows.column("read_from"))
    columns = {"of": of} | {name: rows.column(name) for name in (*names, "as_of", "figure")}
    rows, first = series(pa.table(columns), ("of", *names), ("as_of",))
    at, figure = floats(rows.column("as_of")), floats(rows.column("figure"))
    seconds = np.diff(at, prepend=at[:1]) / 1000
    increase = np.diff(figure, prepend=figure[:1])
    has_before = ~first & (seconds > 0)
    follows = has_before & (increase >= 0)
    rate = np.where(follows, increase, 0) / np.where(follows, seconds, 1)
    rows = rows.append_column("change", pa.array(increase, mask=~has_before))
    rows = rows.append_column("increase", pa.array(increase, mask=~follows))
    rows = rows.append_column("rate", pa.array(rate, mask=~follows))
    return rows.filter(pa.array(np.append(first[1:], True)[: len(first)]))


def acknowledgement_words(table: pa.Table) -> list[str]:
    """Summarize acknowledgements on each broker: accept, release, reject, renew.

    Kafka counts them by broker, for all share groups together.
    """
    rows = readings(table, _ACKNOWLEDGED, "Count", ["ack_type"]).to_pylist()
    brokers: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda one: (one["of"], _place(one["ack_type"]))):
        words = f"{row['figure']:,.0f} {_place(row['ack_type'])[1]}"
        if row["rate"] is not None:
            words += f" (+{row['increase']:,.0f}, {per_second(row['rate'])})"
        brokers.setdefault(row["of"], []).append(words)
    named = set(table.column("broker").to_pylist())  # others are named by their source
    return [
        "acknowledgements since the start of "
        f"{'broker' if broker in named else 'the broker of'} {broker}, of all share groups: "
        + ", ".join(said)
        for broker, said in brokers.items()
    ]


def letter_words(table: pa.Table, groups: Collection[str] | None = None) -> list[str]:
    """Summarize the dead letters that brokers wrote for each group (KIP-1191).

    A broker counts the letters of the share partitions that it leads, since the first one of a
    group; the result sums all brokers that were read. ``groups`` restricts it.
    """
    found = {name: readings(table, name, "Count", ["group_id"]).to_pylist() for name in _LETTERS}
    # After the first letter of a group a broker has all counts, but exporters may leave some out.
    exporting = {metric: {row["of"] for row in rows} for metric, rows in found.items()}
    by_group: dict[str | None, set[str]] = {}
    counts: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for metric, row in ((metric, row) for metric, rows in found.items() for row in rows):
        by_group.setdefault(row["group_id"], set()).add(row["of"])
        counts.setdefault((metric, row["group_id"]), []).append(row)
    sentences = [
        f"dead letters of {group or 'a group without a name'}, by the brokers that were read: "
        + ", ".join(
            _letters_so_far(
                words, counts.get((metric, group), []), by_group[group] <= exporting[metric]
            )
            for metric, words in _LETTERS.items()
        )
        for group in sorted(by_group, key=lambda one: one or "")
        if groups is None or group in groups
    ]
    if (left := len(sentences) - _MOST_NOTES) > 0:
        rest = pluralize(left, "more group")
        sentences[_MOST_NOTES:] = [f"dead letters of {rest}: see the counts of -o json"]
    return sentences


def _letters_so_far(words: str, rows: list[dict[str, Any]], is_exported: bool) -> str:
    """Describe a sum over brokers; ``is_exported``: all of them export this count."""
    if not rows and not is_exported:
        return f"{words} not exported (or none yet)"
    total = sum(row["figure"] for row in rows)
    is_whole = bool(rows) and all(row["increase"] is not None for row in rows)
    more = f" (+{sum(row['increase'] for row in rows):,.0f})" if is_whole else ""
    least = "" if is_exported else "at least "
    return f"{words} {least}{total:,.0f}{more}"


def _place(kind: str | None) -> tuple[int, str]:
    name = kind or "of no type"
    return (_TYPES.index(name) if name in _TYPES else len(_TYPES), name)


#: Maximum distance between a reading and a moment that it describes.
CLOSE = timedelta(seconds=60)
_NAMES = ["group_id", "topic", "partition"]
_STALE_GAUGES = "KAFKA-21096"
_TERMS = (
    *("start_offset", "effective_start_offset", "window_end_offset", "end_offset"),
    *("unread", "window_unknown"),
)
#: Columns other than keys.
COLUMNS = tuple(name for name in MEASURED.names if name not in SHARE_PARTITION)


def measured_arrow(
    lag: Arrow, metrics: pa.Table, as_of: datetime, kafka_version: str | None = None
) -> pa.Table:
    """Return brokers' metrics of share partitions at the moment of their lag.

    Readings further than `CLOSE` from ``as_of`` are ignored; ``kafka_version`` is that of the
    brokers, if known. The result is `sharelag.schemas.MEASURED`, a row for each row of lag. All
    values are null if no broker or several have them, because only one leads. Gauges are null if
    they may be of an earlier load, rates if counts may start with a load, and bounds also if the
    gauge contradicts the persisted window, because one was read later.
    """
    rows = as_table(lag)
    near = metrics.filter(pc.less_equal(metrics.column("as_of"), pa.scalar(as_of + CLOSE)))
    loads = readings(near, "PartitionLoadTimeMs", "Count", [])
    found = (
        readings(near, metric, attribute, _NAMES)
        for metric, attribute in ((_IN_FLIGHT, "Value"), (_BATCHES, "Value"), (_EXPIRED, "Count"))
    )
    # Leave out figures that the last reading of their broker lacks: they were removed.
    gauges, of_batches, timeouts = (
        one.filter(pc.equal(one.column("as_of"), last).fill_null(True))
        for one in found
        for last in [flat(beside(flat(one.column("of")), loads, ["of"]).column("as_of"))]
    )
    span, batches, expired = (_of(rows, one, as_of) for one in (gauges, of_batches, timeouts))
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
    return table_of(columns, MEASURED)


def _of(rows: pa.Table, found: pa.Table, as_of: datetime) -> pa.Table:
    """Return the reading of each row at that moment; null if there are none or several."""
    found = found.filter(pc.greater_equal(found.column("as_of"), pa.scalar(as_of - CLOSE)))
    found = found.append_column("key", keys(found, _NAMES))
    single = found.group_by("key").aggregate([("key", "count")])
    single = single.filter(pc.equal(single.column("key_count"), 1)).column("key")
    found = found.filter(pc.is_in(found.column("key"), flat(single)))
    return beside(keys(rows, _NAMES), found, _NAMES)


def _is_current(gauges: pa.Table, loads: pa.Table, span: pa.Table) -> pa.Array:
    """Return whether gauges certainly describe the share partitions as loaded now."""
    of, counts = flat(span.column("of")), gauges.group_by("of").aggregate([("figure", "count")])
    loaded, count = beside(of, loads, ["of"]), beside(of, counts, ["of"])
    once = pc.less_equal(flat(loaded.column("figure")), flat(count.column("figure_count")))
    without_load = pc.equal(flat(loaded.column("change")), 0)
    moved = pc.not_equal(flat(span.column("change")), 0)
    return pc.or_(once.fill_null(False), pc.and_(without_load, moved).fill_null(False))


def _where(is_current: pa.Array, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pc.if_else(is_current, flat(values), pa.scalar(None, values.type))


def _bounds(lag: pa.Table, span: pa.Table, is_current: pa.Array) -> dict[str, pa.Array]:
    """Return bounds of acquired and of never delivered offsets from the window in memory.

    That window begins between the persisted start offset, which may lag behind, and the first
    unfinished offset; its end is known within that difference.
    """
    terms, known = zip(*(numbers(lag, name) for name in _TERMS), strict=True)
    start, first, window_end, end, unread, holes = terms
    length, has_length = numbers(span, "figure")
    low, high = np.maximum(start + length, window_end), first + length
    known = (*known, has_length, mask(is_current), high >= window_end, low <= end)
    is_known = np.logical_and.reduce(known)
    acquired_low, acquired_high = (np.clip(at - (end - unread), 0, unread) for at in (low, high))
    found = {
        "acquired_low": acquired_low,
        "acquired_high": holes + acquired_high,
        "never_delivered_low": unread - acquired_high,
        "never_delivered_high": unread - acquired_low,
    }
    return {name: pa.array(values, mask=~is_known) for name, values in found.items()}


def add_measured(table: pa.Table, measured: pa.Table) -> pa.Table:
    """Add `sharelag.schemas.MEASURED` to a table of share partitions, if it has rows."""
    if not measured.num_rows:
        return table
    found = beside(keys(table, SHARE_PARTITION), measured, SHARE_PARTITION)
    for name in COLUMNS:
        table = table.append_column(MEASURED.field(name), found.column(name))
    return table


def describe_measured(measured: pa.Table) -> dict[tuple[Any, ...], str]:
    """Return brokers' metrics of each share partition in words, without unknown ones."""
    rows = {tuple(row[name] for name in SHARE_PARTITION): row for row in measured.to_pylist()}
    return {key: words for key, row in rows.items() if (words := _words(row))}


def _words(row: Mapping[str, Any]) -> str:
    parts = []
    if row["acquired_low"] is not None:
        parts.append(f"{_range(row, 'acquired')} acquired")
        parts.append(f"{_range(row, 'never_delivered')} never delivered")
    if row["in_flight_offsets"] is not None:
        parts.append(f"{row['in_flight_offsets']:,} in flight")
    if row["lock_timeouts"] is not None:
        rate = row["lock_timeout_rate"]
        each = "" if rate is None else f" ({per_second(rate)})"
        parts.append(f"{row['lock_timeouts']:,} locks expired{each}")
    return ", ".join(parts)


def _range(row: Mapping[str, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
