"""Encode a record as Kafka writes it, from the field tables that decode it.

Tests, synthetic data and simulations use it; nothing is ever written to a cluster.
`encode_columns` encodes many records at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sharelag.model import topic_id_bytes
from sharelag.wire.fields import INT_SIZES, VALUE_VERSION, Field, RecordKind
from sharelag.wire.generations.layouts import layout_of

Row = Mapping[str, Any]


def encode_record(kind: RecordKind, row: Row) -> tuple[bytes, bytes | None]:
    """Encode key and value of one record; ``row`` has the columns of the decoded table."""
    key = kind.type.to_bytes(2, "big", signed=True) + _plain(kind.key, row)
    if row.get("tombstone"):
        return key, None
    tags = row.get("unknown_tags") or []
    value = _struct(kind.value, row, "", None, tags) if kind.flexible else _plain(kind.value, row)
    return key, VALUE_VERSION.to_bytes(2, "big") + value


def encode_older(row: Row) -> tuple[bytes, bytes | None]:
    """Encode a record of the older generation that its column ``generation`` names.

    Raises
    ------
    ValueError
        When there is no such record, or it does not have a field that it needs.
    """
    layout = layout_of(row["generation"], row["record_type"])
    own = {"control_type": layout.control, "end_offset": _end_offset(row)}
    return encode_record(layout.kind, {**own, **row, **dict(row["older_fields"] or ())})


def _end_offset(row: Row) -> int:
    """Return the end of the window, which a checkpoint of the older designs repeats."""
    last: list[int] = [batch["last_offset"] for batch in row["state_batches"] or ()]
    start: int = -1 if row["start_offset"] is None else row["start_offset"]
    return max([start, *(offset + 1 for offset in last)])


def unsigned_varint(number: int) -> bytes:
    """Encode an unsigned varint: 7 bits per byte, low group first (``ByteUtils``)."""
    number &= 0xFFFFFFFF
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _struct(
    fields: Iterable[Field], row: Row, path: str, element: int | None, unknown: list[Row]
) -> bytes:
    body = bytearray()
    tags = {t["tag"]: t["data"] for t in unknown if t["path"] == path and t["element"] == element}
    for field in fields:
        value = row[field.column]
        if field.tag is None:
            body += _value(field, value, f"{path}.{field.column}".lstrip("."), unknown)
        elif _number(field, value) != field.default:
            tags[field.tag] = _value(field, value, path, unknown)
    body += unsigned_varint(len(tags))
    for tag in sorted(tags):
        body += unsigned_varint(tag) + unsigned_varint(len(tags[tag])) + tags[tag]
    return bytes(body)


def _value(field: Field, value: Any, path: str, unknown: list[Row]) -> bytes:
    if field.type in INT_SIZES:
        signed = not field.type.startswith("u")
        return _number(field, value).to_bytes(INT_SIZES[field.type], "big", signed=signed)
    if field.type == "uuid":
        return topic_id_bytes(value)
    if field.type == "string":
        raw = None if value is None else value.encode()
        return b"\0" if raw is None else unsigned_varint(len(raw) + 1) + raw
    if field.element:
        items = [_value(field.element, item, path, unknown) for item in value]
    else:
        items = [
            _struct(field.fields, item, path, index, unknown) for index, item in enumerate(value)
        ]
    return unsigned_varint(len(items) + 1) + b"".join(items)


def _number(field: Field, value: Any) -> int:
    if value is None:
        if field.unknown is None:
            raise ValueError(f"{field.name} must not be null")
        return field.unknown
    return int(value)


def _plain(fields: Iterable[Field], row: Row) -> bytes:
    """Encode a struct as it was before there were tags."""
    missing = [field.name for field in fields if field.column not in row]
    if missing:
        raise ValueError(f"the record has no {missing[0]}")
    return b"".join(_classic(field, row[field.column]) for field in fields)


def _classic(field: Field, value: Any) -> bytes:
    if field.type == "string":
        raw: bytes = value.encode()
        return len(raw).to_bytes(2, "big", signed=True) + raw
    if field.type == "[]struct":
        items = [_plain(field.fields, item) for item in value]
        return len(items).to_bytes(4, "big") + b"".join(items)
    return _value(field, value, field.column, [])
