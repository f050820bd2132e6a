"""Records in the shape of Kafka's formatters, one after another: what whole columns must give."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from sharelag.tables.arrow import without_timestamps
from sharelag.wire.fields import Field, RecordKind, kinds_of
from sharelag.wire.generations import layout_of

Row = Mapping[str, Any]


def formatted(decoded: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield what a formatter prints of each record."""
    for row in without_timestamps(decoded).to_pylist():
        kind, fields = _kind_of(row)
        value = None if row["tombstone"] else {"version": 0, "data": _struct(kind.value, fields)}
        older = {} if row.get("generation") is None else {"generation": row["generation"]}
        key = {"type": kind.type, "data": _struct(kind.key, fields), **older}
        yield {"key": key, "value": value, **_place(row)}


def formatted_rejects(rejects: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield what `sharelag decode` prints of each reject."""
    for row in rejects.to_pylist():
        raw = {part: None if row[part] is None else row[part].hex() for part in ("key", "value")}
        yield {"reject": {"reason": row["reason"], **raw}, **_place(row)}


def _kind_of(row: Row) -> tuple[RecordKind, Row]:
    if row.get("generation") is None:
        return {kind.type: kind for kind in kinds_of(row["topic"])}[row["record_type"]], row
    layout = layout_of(row["generation"], row["record_type"])
    return layout.kind, {"control_type": layout.control, **row, **dict(row["older_fields"] or ())}


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
