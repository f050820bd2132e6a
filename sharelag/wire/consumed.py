r"""Parse output of consumers: lines of console consumers, and events of the verifiable consumer.

``kafka-console-share-consumer.sh`` and ``kafka-console-consumer.sh`` print the fields of
``--formatter-property`` in this order: ``CreateTime:5\tPartition:0\tOffset:110\tDelivery:2``, then
headers, key and value (``DefaultMessageFormatter`` of Kafka 4.3.1). Payloads are not kept.
``kafka-verifiable-share-consumer.sh`` prints a JSON object per event; ``offsets_acknowledged`` is
the result that its acknowledgement callback received (`VerifiableShareConsumer`).
"""

from __future__ import annotations

import re
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import DELIVERIES, OUTCOMES, OUTPUT_REJECTS
from sharelag.tables.arrow import ascending, keys, one_batch, table_of
from sharelag.wire.interpreter import possible_times
from sharelag.wire.json_rows import json_rows

_DELIVERED, _ACKNOWLEDGED = "records_consumed", "offsets_acknowledged"
_EVENT = r'^\{.*"name": ?"(?P<name>records_consumed|offsets_acknowledged)"'
_PARTITION = pa.struct(
    [("topic", pa.string()), ("partition", pa.int32()), ("offsets", pa.list_(pa.int64()))]
)
_EVENTS = pa.schema(
    [
        ("timestamp", pa.int64()),
        ("name", pa.string()),
        ("partitions", pa.list_(_PARTITION)),
        ("success", pa.bool_()),
        ("error", pa.string()),
    ]
)
_NOT_COUNTED = "NOT_PRESENT"
#: Maximum number of digits of Kafka's numbers.
_DIGITS = {"partition": 9, "offset": 18, "count": 4, "time": 15}


class Printed(NamedTuple):
    """The contents of some lines: ``total`` counts the rows of the tables and skipped lines."""

    total: int
    skipped: int
    deliveries: pa.RecordBatch
    outcomes: pa.RecordBatch
    rejects: pa.RecordBatch


def read_consumed(
    lines: pa.Array, positions: pa.Array, source: str = "", separator: str = "\t"
) -> Printed:
    """Parse lines that consumers printed, with the position of each in the file in bytes.

    ``source`` is the name of the file in tables, ``separator`` the formatter's ``key.separator``.
    """
    names = pc.struct_field(pc.extract_regex(lines, _EVENT), "name")
    is_event = names.is_valid()
    rows, good = json_rows(lines.filter(is_event), _EVENTS, _is_whole)
    at = positions.filter(is_event)
    events = rows.append_column("position", at.filter(good))
    text, place = (column.filter(pc.invert(is_event)) for column in (lines, positions))
    printed, is_printed, is_broken = _console(text, place, source, separator)
    consumed = pc.equal(events.column("name"), _DELIVERED)
    bad = [
        (at.filter(pc.invert(good)), "it is not the JSON of such an event"),
        (place.filter(is_broken), "it has a number that is impossible in Kafka"),
    ]
    rejects = pa.concat_tables(_rejects(where, source, why) for where, why in bad)
    delivered = pa.concat_tables([_deliveries(events.filter(consumed), source), printed])
    kept = events.num_rows + is_printed.true_count + rejects.num_rows
    return Printed(
        len(lines),
        len(lines) - kept,
        one_batch(delivered.sort_by("position")),
        one_batch(_outcomes(events.filter(pc.invert(consumed)), source)),
        one_batch(rejects),
    )


def unread(positions: pa.Array, source: str, why: str) -> Printed:
    """Return unreadable lines, each as a reject."""
    deliveries, outcomes = (
        pa.RecordBatch.from_pylist([], schema=schema) for schema in (DELIVERIES, OUTCOMES)
    )
    rejects = one_batch(_rejects(positions, source, why))
    return Printed(len(positions), 0, deliveries, outcomes, rejects)


def _rejects(where: pa.Array, source: str, why: str) -> pa.Table:
    return table_of({"position": where, "source": source, "reason": why}, OUTPUT_REJECTS)


# ---- console consumers ---------------------------------------------------------------------------


def _console(
    lines: pa.Array, positions: pa.Array, source: str, separator: str
) -> tuple[pa.Table, pa.Array, pa.Array]:
    """Return deliveries, a mask of their lines, and a mask of lines that only resemble them."""
    then = re.escape(separator)
    pattern = (
        rf"^(?:(?:(?:CreateTime|LogAppendTime):(?P<time>-?\d+)|NO_TIMESTAMP){then})?"
        rf"(?:Partition:(?P<partition>-?\d+){then})?Offset:(?P<offset>-?\d+)"
        rf"(?:{then}Delivery:(?P<count>-?\d+|{_NOT_COUNTED}))?(?:{then}|\r?\n?$)"
    )
    found = pc.extract_regex(lines, pattern)
    parts = {name: pc.struct_field(found, name) for name in _DIGITS}
    texts = {name: pc.if_else(pc.equal(text, ""), None, text) for name, text in parts.items()}
    texts["count"] = pc.if_else(pc.equal(texts["count"], _NOT_COUNTED), None, texts["count"])
    possible = [
        pc.match_substring_regex(texts[name], rf"^\d{{1,{digits}}}$").fill_null(True)
        for name, digits in _DIGITS.items()
        if name != "time"
    ]
    looks = found.is_valid()
    good = reduce(pc.and_, possible, looks)
    chosen = {name: text.filter(good) for name, text in texts.items()}
    time = chosen["time"]
    time = pc.if_else(pc.greater(pc.utf8_length(time), _DIGITS["time"]), None, time)
    columns = {
        "position": positions.filter(good),
        "source": source,
        "timestamp": _times(time.cast(pa.int64())),
        "partition": chosen["partition"],
        "offset": chosen["offset"],
        "delivery_count": chosen["count"],
    }
    return table_of(columns, DELIVERIES, pad=True), good, pc.and_not(looks, good)


def _times(milliseconds: pa.Array) -> pa.Array:
    times = possible_times(milliseconds.cast(pa.timestamp("ms", tz="UTC")))
    return times.cast(DELIVERIES.field("timestamp").type)


# ---- events --------------------------------------------------------------------------------------


def _is_whole(table: pa.Table) -> bool:
    """Return whether each event has its partitions, and each acknowledgement its result."""
    fared = pc.or_(pc.equal(table.column("name"), _DELIVERED), table.column("success").is_valid())
    whole = table.column("partitions").null_count == 0 and pc.all(fared).as_py() is not False
    parts = pc.list_flatten(table.column("partitions").combine_chunks()) if whole else None
    names = ("topic", "partition", "offsets")
    if parts is None or any(pc.struct_field(parts, name).null_count for name in names):
        return False
    offsets = pc.list_flatten(pc.struct_field(parts, "offsets"))
    least = pc.min(offsets).as_py()
    return offsets.null_count == 0 and bool(least is None or least >= 0)


class _Offsets(NamedTuple):
    """Offsets of events, with the event and the topic partition of each."""

    event: pa.Array
    topic: pa.Array
    partition: pa.Array
    offset: pa.Array


def _offsets(events: pa.Table) -> _Offsets:
    column = events.column("partitions").combine_chunks()
    parent, parts = pc.list_parent_indices(column), pc.list_flatten(column)
    lists = pc.struct_field(parts, "offsets")
    of = pc.list_parent_indices(lists)
    return _Offsets(
        parent.take(of),
        pc.struct_field(parts, "topic").take(of),
        pc.struct_field(parts, "partition").take(of),
        pc.list_flatten(lists),
    )


def _deliveries(events: pa.Table, source: str) -> pa.Table:
    found = _offsets(events)
    rows = events.take(found.event)
    # The tool does not print delivery counts.
    columns = _of_lines(rows, source) | found._asdict()
    return table_of(columns, DELIVERIES, pad=True)


def _of_lines(rows: pa.Table, source: str) -> dict[str, Any]:
    times = _times(rows.column("timestamp").combine_chunks())
    return {"position": rows.column("position"), "timestamp": times, "source": source}


def _outcomes(events: pa.Table, source: str) -> pa.Table:
    """Return runs of consecutive offsets of each event."""
    found = _offsets(events)
    table = pa.table(list(found), names=list(_Offsets._fields))
    order = ascending(*_Offsets._fields)
    table = table.sort_by(order).combine_chunks()
    offset = table.column("offset").to_numpy()
    begins = np.ones(len(offset), bool)
    place = keys(table, ("event", "topic", "partition")).dictionary_encode().indices.to_numpy()
    begins[1:] = (np.diff(place) != 0) | (np.diff(offset) > 1)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(offset))[: len(first)] - 1
    runs = table.take(pa.array(first))
    rows = events.take(runs.column("event"))
    columns = _of_lines(rows, source) | {
        "topic": runs.column("topic"),
        "partition": runs.column("partition"),
        "first_offset": pa.array(offset[first]),
        "last_offset": pa.array(offset[last]),
        "succeeded": rows.column("success"),
        "error_message": rows.column("error"),
    }
    return table_of(columns, OUTCOMES)
