"""Format records as Kafka's own formatters do: the same JSON, one object per record.

The shape is that of ``ShareGroupStateMessageFormatter`` and ``ShareGroupMessageFormatter``, plus
the position of the record; a tagged field at its default is omitted, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sharelag.schemas import Arrow
from sharelag.schemas.arrow import without_timestamps
from sharelag.wire.fields import VALUE_VERSION, Field, RecordKind, kinds_of
from sharelag.wire.generations.layouts import layout_of

Row = Mapping[str, Any]


def kafka_json(decoded: Arrow) -> Iterator[dict[str, Any]]:
    """Yield the records of a decoded table in the shape of Kafka's formatters.

    Parameters
    ----------
    decoded : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS` or `GROUP_RECORDS`.

    Yields
    ------
    dict
        ``{"key": {"type", "data"}, "value": {"version", "data"} or None, "topic", "partition",
        "offset"}``; the key of an older generation's record has ``"generation"``, too.
    """
    for row in without_timestamps(decoded).to_pylist():
        kind, row = _kind_of(row)
        value = (
            None
            if row["tombstone"]
            else {"version": VALUE_VERSION, "data": _struct(kind.value, row)}
        )
        generation = {} if row.get("generation") is None else {"generation": row["generation"]}
        key = {"type": kind.type, "data": _struct(kind.key, row), **generation}
        yield {"key": key, "value": value, **_place(row)}


def _kind_of(row: Row) -> tuple[RecordKind, Row]:
    """Return the kind of a record, and its fields by column."""
    if row.get("generation") is None:
        return {kind.type: kind for kind in kinds_of(row["topic"] or "")}[row["record_type"]], row
    layout = layout_of(row["generation"], row["record_type"])
    own = {"control_type": layout.control}
    return layout.kind, {**own, **row, **dict(row["older_fields"] or ())}


def reject_json(rejects: Arrow) -> Iterator[dict[str, Any]]:
    """Yield ``{"reject": {"reason", "key", "value"}, "topic", "partition", "offset"}``, in hex."""
    for row in without_timestamps(rejects).to_pylist():
        raw = {part: None if row[part] is None else row[part].hex() for part in ("key", "value")}
        yield {"reject": {"reason": row["reason"], **raw}, **_place(row)}


def _place(row: Row) -> dict[str, Any]:
    return {"topic": row["topic"], "partition": row["record_partition"], "offset": row["offset"]}


def _struct(fields: tuple[Field, ...], row: Row) -> dict[str, Any]:
    printed = {}
    for field in fields:
        value: Any = field.unknown if row[field.column] is None else row[field.column]
        if field.tag is None or value != field.default:
            items = [_struct(field.fields, item) for item in value] if field.fields else value
            printed[field.json_name] = items
    return printed
