"""What brokers measure themselves, beside what the records say.

Counts grow while a broker runs; two readings of the same broker give rates. A reading says
something of a moment only where it is close to it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Types of acknowledgement, as Kafka counts them; a broker may count another in future.
_TYPES = ("accept", "release", "reject", "renew")
#: What people look for comes first.
_FIRST = (
    *("RecordAcknowledgementsPerSec", "InFlightMessageCount"),
    *("AcquisitionLockTimeoutPerSec", "InFlightBatchCount"),
)
_MAIN = ("Value", "Count", "Mean", "Max")
_SHARE = "protocol=share"
#: How brokers count what they do with letters of a group, since Kafka 4.4.
_LETTERS = {
    "DeadLetterQueueRecordCount": "written",
    "DeadLetterQueueTotalProduceRequestsPerSec": "requests",
    "DeadLetterQueueFailedProduceRequestsPerSec": "failed requests",
}
_BEANS = (
    "kafka.server:type=ShareGroupMetrics",
    "kafka.server:type=SharePartitionMetrics",
    "kafka.server:type=ShareSessionCache",
    "kafka.server:type=share-coordinator-metrics",
)


def about_share_groups(table: pa.Table) -> pa.Table:
    """Return the figures about share groups: of each metric its value, count, mean and maximum.

    Acknowledgements, in-flight records and expired locks come first, else the order stays.

    Parameters
    ----------
    table : pyarrow.Table
        `sharelag.schemas.BROKER_METRICS`.
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

    Parameters
    ----------
    table : pyarrow.Table
        `sharelag.schemas.BROKER_METRICS`.
    metric, attribute : str
    names : list of str
        Columns that tell its figures apart on one broker.

    Returns
    -------
    pyarrow.Table
        ``of`` (the broker, else the place that was read), the names, ``as_of``, ``figure``,
        ``change`` since the reading before, which is null with one reading,
        ``increase`` since the reading before, and ``rate`` per second; null with one reading, or
        where the count became smaller, because the broker began to count again.
    """
    chosen = pc.and_(
        pc.equal(table.column("metric"), metric), pc.equal(table.column("attribute"), attribute)
    )
    rows = table.filter(pc.and_(chosen.fill_null(False), pc.is_valid(table.column("figure"))))
    of = pc.coalesce(rows.column("broker"), rows.column("read_from"))
    columns = {"of": of} | {name: rows.column(name) for name in (*names, "as_of", "figure")}
    order = [(name, "ascending") for name in ("of", *names, "as_of")]
    rows = pa.table(columns).sort_by(order)
    same = np.ones(max(rows.num_rows - 1, 0), bool)
    for name in ("of", *names):
        codes = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode").indices
        values = codes.to_numpy()
        same &= values[1:] == values[:-1]
    at = rows.column("as_of").cast(pa.int64()).to_numpy()
    figure = rows.column("figure").to_numpy()
    seconds, more = np.diff(at) / 1000, np.diff(figure)
    has_before = np.append(False, same & (seconds > 0))[: rows.num_rows]
    is_last = np.append(~same, True)[: rows.num_rows]
    follows = np.append(False, same & (seconds > 0) & (more >= 0))[: rows.num_rows]
    increase = np.append(0.0, more)[: rows.num_rows]
    rate = np.divide(
        increase, np.append(1.0, seconds)[: rows.num_rows], where=follows, out=np.zeros(len(figure))
    )
    rows = rows.append_column("change", pa.array(increase, mask=~has_before))
    rows = rows.append_column("increase", pa.array(increase, mask=~follows))
    rows = rows.append_column("rate", pa.array(rate, mask=~follows))
    return rows.filter(pa.array(is_last))


def acknowledgement_words(table: pa.Table) -> list[str]:
    """Say how members acknowledged records on each broker: accept, release, reject, renew.

    Kafka counts them by broker, of all share groups together.
    """
    rows = readings(table, "RecordAcknowledgementsPerSec", "Count", ["ack_type"]).to_pylist()
    brokers: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda one: (one["of"], _place(one["ack_type"]))):
        rate = "" if row["rate"] is None else f" (+{row['increase']:,.0f}, {row['rate']:.3g}/s)"
        brokers.setdefault(row["of"], []).append(
            f"{row['figure']:,.0f} {_place(row['ack_type'])[1]}{rate}"
        )
    return [
        f"acknowledgements since the start of {_named(broker, table)}, of all share groups: "
        + ", ".join(said)
        for broker, said in brokers.items()
    ]


def letter_words(table: pa.Table, groups: Collection[str] | None = None) -> list[str]:
    """Say how brokers wrote letters of each group to its dead-letter queue (KIP-1191).

    A broker counts the letters of the share partitions that it leads, since it wrote the first one
    of a group; here all brokers that were read are summed up.

    Parameters
    ----------
    table : pyarrow.Table
        `sharelag.schemas.BROKER_METRICS`.
    groups : collection of str, optional
        Only these; else all that have letters.
    """
    found = {
        metric: readings(table, metric, "Count", ["group_id"]).to_pylist() for metric in _LETTERS
    }
    # A broker has each count of a group from the first one on, and its exporter may leave it out.
    exporting = {metric: {row["of"] for row in rows} for metric, rows in found.items()}
    told: dict[str | None, set[str]] = {}
    for row in (row for rows in found.values() for row in rows):
        told.setdefault(row["group_id"], set()).add(row["of"])
    return [
        f"dead letters of {group or 'a group without a name'}, by the brokers that were read: "
        + ", ".join(
            _letters_so_far(
                words,
                [row for row in found[metric] if row["group_id"] == group],
                told[group] <= exporting[metric],
            )
            for metric, words in _LETTERS.items()
        )
        for group in sorted(told, key=lambda one: one or "")
        if groups is None or group in groups
    ]


def _letters_so_far(words: str, rows: list[dict[str, Any]], is_exported: bool) -> str:
    """Say one sum over brokers; ``is_exported``: each of them shows this count of some group."""
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


def _named(of: str, table: pa.Table) -> str:
    """``broker 1``, or the broker of a place that does not name it."""
    is_name = pc.any(pc.equal(table.column("broker"), of)).as_py()
    return f"broker {of}" if is_name else f"the broker of {of}"
