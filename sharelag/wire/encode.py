"""Encode records as Kafka does, by its field tables: whole columns, or single records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.model import topic_id_bytes
from sharelag.schemas import Arrow
from sharelag.tables.arrow import batch_of, of_distinct, one_batch, without_timestamps
from sharelag.wire.fields import INT_SIZES, STATE_TOPIC, VALUE_VERSION, Field, RecordKind, kinds_of
from sharelag.wire.generations import layout_of

#: Maximum length of a classic string.
_LONGEST = 2**15 - 1
_VERSION = VALUE_VERSION.to_bytes(2, "big")


def encode(records: Arrow, topic: str = STATE_TOPIC) -> pa.RecordBatch:
    """Encode decoded records as raw ones.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`, or `GROUP_RECORDS` for ``topic="__consumer_offsets"``. Records
        of an older generation are encoded in its format.
    topic : str

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.RAW`, in the same order, in Kafka's canonical form: tagged fields equal
        to their defaults are omitted, tags ascend.

    Raises
    ------
    ValueError
        A record type is unknown, or a text cannot be encoded.
    """
    rows = one_batch(without_timestamps(records))
    kinds = {kind.type: kind for kind in kinds_of(topic)}
    types = rows.column("record_type")
    odd = _is_odd(rows)
    keys, values = [pa.array([], pa.binary())], [pa.array([], pa.binary())]
    places = [np.zeros(0, np.int64)]
    for number in pc.unique(types.filter(pc.invert(odd))).to_pylist():
        kind = _kind(kinds, number)
        mine = pc.and_(pc.equal(types, number), pc.invert(odd))
        own = rows.filter(mine)
        keys.append(_keys(kind, own))
        values.append(_values(kind, own))
        places.append(np.flatnonzero(mine))
    pairs = [
        encode_record(_kind(kinds, row["record_type"]), row)
        if row.get("generation") is None
        else encode_older(row)
        for row in rows.filter(odd).to_pylist()
    ]
    keys.append(pa.array([key for key, _ in pairs], pa.binary()))
    values.append(pa.array([value for _, value in pairs], pa.binary()))
    places.append(np.flatnonzero(odd))
    order = pa.array(np.argsort(np.concatenate(places)))
    columns = {
        "key": pa.concat_arrays(keys).take(order),
        "value": pa.concat_arrays(values).take(order),
        "topic": rows.column("topic"),
        "partition": rows.column("record_partition"),
        "offset": rows.column("offset"),
        "timestamp": rows.column("timestamp").view(schemas.TIMESTAMP),
        "timestampType": 0,
    }
    return batch_of(columns, schemas.RAW)


def _is_odd(rows: pa.RecordBatch) -> pa.BooleanArray:
    """Return whether records have another format, or fields that today's does not have."""
    odd = pa.array(np.zeros(len(rows), bool))
    if "generation" in rows.schema.names:
        odd = rows.column("generation").is_valid()
    if "unknown_tags" in rows.schema.names:
        tags = pc.list_value_length(rows.column("unknown_tags")).fill_null(0)
        odd = pc.or_(odd, pc.greater(tags, 0))
    return odd


def _kind(kinds: dict[int, RecordKind], number: int) -> RecordKind:
    if number not in kinds:
        raise ValueError(f"record type {number} is not one of {sorted(kinds)}")
    return kinds[number]


def _keys(kind: RecordKind, rows: pa.RecordBatch) -> pa.BinaryArray:
    parts = [_repeat(kind.type.to_bytes(2, "big", signed=True), len(rows))]
    for field in kind.key:
        column = rows.column(field.column)
        if field.type != "string":
            parts += _plain(field, column)
            continue
        size = pc.binary_length(column)
        if column.null_count or pc.any(pc.greater(size, _LONGEST)).as_py():
            raise ValueError(f"{field.name} must be a text of at most {_LONGEST:,} bytes")
        parts += [_fix(Field(field.name, "int16"), size), column.cast(pa.binary())]
    return _join(*parts)


def _values(kind: RecordKind, rows: pa.RecordBatch) -> pa.BinaryArray:
    """Encode values; a null becomes the sentinel for unknown, or a ValueError without one."""
    there = pc.invert(rows.column("tombstone").fill_null(False))
    left = pa.StructArray.from_arrays(rows.filter(there).columns, fields=list(rows.schema))
    values = _join(_repeat(_VERSION, len(left)), *_struct(kind.value, left))
    place = pc.cumulative_sum(there.cast(pa.int64()))
    return values.take(pc.if_else(there, pc.subtract(place, 1), None))


def _struct(fields: tuple[Field, ...], rows: pa.StructArray) -> list[pa.Array]:
    """Return the parts of each row's bytes, in order."""
    parts, tagged = [], []
    count = np.zeros(len(rows), np.int64)
    for field in fields:
        column = rows.field(field.column)
        if field.type.startswith("[]"):
            _require_all(field, column)
            sizes, items = pc.list_value_length(column), column.flatten()
            inner = _struct(field.fields, items) if field.fields else []
            if field.element is not None:
                inner = _plain(field.element, items)
            ends = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
            joined = pc.binary_join(pa.ListArray.from_arrays(ends, _join(*inner)), b"")
            parts += [_varints(pc.add(sizes, 1)), joined]
        elif field.tag is None:
            parts += _plain(field, column)
        else:
            numbers = _numbers(field, column)
            there = pc.not_equal(numbers, field.default)
            count += np.asarray(there)
            head = encode_varint(field.tag) + encode_varint(INT_SIZES[field.type])
            whole = _join(_repeat(head, len(rows)), _fix(field, numbers))
            tagged.append(pc.if_else(there, whole, pa.scalar(b"")))
    return [*parts, _varints(pa.array(count)), *tagged]


def _plain(field: Field, column: pa.Array) -> list[pa.Array]:
    """Return numbers, ids, or texts with their lengths."""
    if field.type in INT_SIZES:
        return [_fix(field, _numbers(field, column))]
    if field.type == "uuid":
        _require_all(field, column)
        return [of_distinct(column, topic_id_bytes, pa.binary())]
    sizes = pc.add(pc.binary_length(column), 1).fill_null(0)
    return [_varints(sizes), column.cast(pa.binary()).fill_null(b"")]


def _numbers(field: Field, column: pa.Array) -> pa.Array:
    if field.unknown is None:
        _require_all(field, column)
        return column
    return column.fill_null(field.unknown)


def _require_all(field: Field, column: pa.Array) -> None:
    if column.null_count:
        raise ValueError(f"{field.name} must not be null")


def _fix(field: Field, numbers: pa.Array) -> pa.Array:
    size = INT_SIZES[field.type]
    octets = np.asarray(numbers).astype(f">{'u' if field.type.startswith('u') else 'i'}{size}")
    buffers = [None, pa.py_buffer(octets.tobytes())]
    return pa.Array.from_buffers(pa.binary(size), len(numbers), buffers).cast(pa.binary())


def _varints(numbers: pa.Array) -> pa.Array:
    return of_distinct(numbers, encode_varint, pa.binary())


def _repeat(octets: bytes, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(octets), count)


def _join(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b""))


# ---- one record at a time ------------------------------------------------------------------------


Row = Mapping[str, Any]


def encode_record(kind: RecordKind, row: Row) -> tuple[bytes, bytes | None]:
    """Encode key and value of one record; ``row`` has the columns of the decoded table."""
    key = kind.type.to_bytes(2, "big", signed=True) + _row_classic(kind.key, row)
    if row.get("tombstone"):
        return key, None
    if not kind.flexible:
        return key, _VERSION + _row_classic(kind.value, row)
    return key, _VERSION + _row_struct(kind.value, row, "", None, row.get("unknown_tags") or [])


def encode_older(row: Row) -> tuple[bytes, bytes | None]:
    """Encode a record of the older generation in its column ``generation``.

    Raises ValueError if that has no such record, or the record lacks a required field.
    """
    layout = layout_of(row["generation"], row["record_type"])
    # The end of the window, which a checkpoint of the older designs repeats.
    start = -1 if row["start_offset"] is None else row["start_offset"]
    end = max([start, *(batch["last_offset"] + 1 for batch in row["state_batches"] or ())])
    own = {"control_type": layout.control, "end_offset": end}
    return encode_record(layout.kind, {**own, **row, **dict(row["older_fields"] or ())})


def encode_varint(number: int) -> bytes:
    """Encode an unsigned varint: 7 bits per byte, low group first (``ByteUtils``)."""
    number &= 0xFFFFFFFF
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(octets: bytes, at: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most five bytes; return the value and its end."""
    number = 0
    for n, octet in enumerate(octets[at : at + 5]):
        number |= (octet & 127) << 7 * n
        if octet < 128:
            return number, at + n + 1
    raise ValueError("a varint of more than 5 bytes")


def _row_struct(
    fields: Iterable[Field], row: Row, path: str, element: int | None, unknown: list[Row]
) -> bytes:
    body = bytearray()
    tags = {t["tag"]: t["data"] for t in unknown if t["path"] == path and t["element"] == element}
    for field in fields:
        value = row[field.column]
        if field.tag is None:
            body += _row_value(field, value, f"{path}.{field.column}".lstrip("."), unknown)
        elif _row_number(field, value) != field.default:
            tags[field.tag] = _row_value(field, value, path, unknown)
    body += encode_varint(len(tags))
    for tag in sorted(tags):
        body += encode_varint(tag) + encode_varint(len(tags[tag])) + tags[tag]
    return bytes(body)


def _row_value(field: Field, value: Any, path: str, unknown: list[Row]) -> bytes:
    if field.type in INT_SIZES:
        signed = not field.type.startswith("u")
        return _row_number(field, value).to_bytes(INT_SIZES[field.type], "big", signed=signed)
    if field.type == "uuid":
        return topic_id_bytes(value)
    if field.type == "string":
        raw = b"" if value is None else value.encode()
        return b"\0" if value is None else encode_varint(len(raw) + 1) + raw
    element = field.element
    items = [
        _row_value(element, item, path, unknown)
        if element
        else _row_struct(field.fields, item, path, index, unknown)
        for index, item in enumerate(value)
    ]
    return encode_varint(len(items) + 1) + b"".join(items)


def _row_number(field: Field, value: Any) -> int:
    if value is None:
        if field.unknown is None:
            raise ValueError(f"{field.name} must not be null")
        return field.unknown
    return int(value)


def _row_classic(fields: Iterable[Field], row: Row) -> bytes:
    """Encode a struct in the classic format, without tags."""
    missing = [field.name for field in fields if field.column not in row]
    if missing:
        raise ValueError(f"the record has no {missing[0]}")
    return b"".join(_classic(field, row[field.column]) for field in fields)


def _classic(field: Field, value: Any) -> bytes:
    if field.type == "string":
        raw: bytes = value.encode()
        return len(raw).to_bytes(2, "big", signed=True) + raw
    if field.type == "[]struct":
        items = [_row_classic(field.fields, item) for item in value]
        return len(items).to_bytes(4, "big") + b"".join(items)
    return _row_value(field, value, field.column, [])
