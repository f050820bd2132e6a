"""Encode many records as Kafka writes them: whole columns at once.

The same bytes as `sharelag.wire.encode` makes of each record, from the same field tables.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.model import topic_id_bytes
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import one_batch, without_timestamps
from sharelag.wire.encode import encode_older, encode_record, unsigned_varint
from sharelag.wire.fields import (
    INT_SIZES,
    STATE_TOPIC,
    VALUE_VERSION,
    Field,
    RecordKind,
    kinds_of,
)

_Name = Callable[[Field], str]
_COLUMN: _Name = attrgetter("column")
#: The longest text that a classic string holds.
_LONGEST = 2**15 - 1


def encode(records: Arrow, topic: str = STATE_TOPIC) -> pa.RecordBatch:
    """Encode decoded records as raw ones.

    Parameters
    ----------
    records : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.RECORDS`, or `GROUP_RECORDS` for ``topic="__consumer_offsets"``. Records
        of an older generation are written as that has them.
    topic : str

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.RAW`, in the same order, in Kafka's canonical form: tagged fields equal
        to their defaults are omitted, tags ascend.

    Raises
    ------
    ValueError
        When a record type is unknown, or a text cannot be encoded.
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
        values.append(_values_or_null(kind, own))
        places.append(np.flatnonzero(mine.to_numpy(zero_copy_only=False)))
    pairs = [
        encode_record(_kind(kinds, row["record_type"]), row)
        if row.get("generation") is None
        else encode_older(row)
        for row in rows.filter(odd).to_pylist()
    ]
    keys.append(pa.array([key for key, _ in pairs], pa.binary()))
    values.append(pa.array([value for _, value in pairs], pa.binary()))
    places.append(np.flatnonzero(odd.to_numpy(zero_copy_only=False)))
    order = pa.array(np.argsort(np.concatenate(places)))
    columns = {
        "key": pa.concat_arrays(keys).take(order),
        "value": pa.concat_arrays(values).take(order),
        "topic": rows.column("topic"),
        "partition": rows.column("record_partition"),
        "offset": rows.column("offset"),
        "timestamp": rows.column("timestamp").view(schemas.TIMESTAMP),
        "timestampType": pa.array(np.zeros(len(rows), np.int32)),
    }
    return pa.RecordBatch.from_arrays([*columns.values()], schema=schemas.RAW)


def encode_values(kind: RecordKind, rows: pa.StructArray, named: _Name = _COLUMN) -> pa.BinaryArray:
    """Encode the values of records of one kind.

    Parameters
    ----------
    kind : RecordKind
        Of today's format.
    rows : pyarrow.StructArray
        A row a record, without null rows. A null field is written as the number that means unknown.
    named : callable
        What the struct calls a field.

    Returns
    -------
    pyarrow.BinaryArray
        Of the same length.

    Raises
    ------
    ValueError
        When a field is null that has no number for unknown.
    """
    version = VALUE_VERSION.to_bytes(2, "big")
    return _joined(_same(version, len(rows)), *_struct(kind.value, rows, named))


def _is_odd(rows: pa.RecordBatch) -> pa.BooleanArray:
    """Whether records are of another format, or have fields that today's does not know."""
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
    """Return keys, in the encoding before there were tags."""
    parts = [_same(kind.type.to_bytes(2, "big", signed=True), len(rows))]
    for field in kind.key:
        column = rows.column(field.column)
        if field.type != "string":
            parts += _plain(field, column)
            continue
        size = pc.binary_length(column)
        if column.null_count or pc.any(pc.greater(size, _LONGEST)).as_py():
            raise ValueError(f"{field.name} must be a text of at most {_LONGEST:,} bytes")
        parts += [_fixed(Field(field.name, "int16"), size), column.cast(pa.binary())]
    return _joined(*parts)


def _values_or_null(kind: RecordKind, rows: pa.RecordBatch) -> pa.BinaryArray:
    """Return values; null for tombstones."""
    there = pc.invert(rows.column("tombstone").fill_null(False))
    left = pa.StructArray.from_arrays(rows.filter(there).columns, fields=list(rows.schema))
    place = pc.cumulative_sum(there.cast(pa.int64()))
    return encode_values(kind, left).take(pc.if_else(there, pc.subtract(place, 1), None))


def _struct(fields: tuple[Field, ...], rows: pa.StructArray, named: _Name) -> list[pa.Array]:
    """Return the parts of each row's bytes, in their order."""
    parts, tagged = [], []
    count = np.zeros(len(rows), np.int64)
    for field in fields:
        column = rows.field(named(field))
        if field.type.startswith("[]"):
            _require_all(field, column)
            sizes, items = pc.list_value_length(column), column.flatten()
            inner = _struct(field.fields, items, named) if field.fields else []
            if field.element is not None:
                inner = _plain(field.element, items)
            parts += [_varints(pc.add(sizes, 1)), _grouped(_joined(*inner), sizes)]
        elif field.tag is None:
            parts += _plain(field, column)
        else:
            numbers = _numbers(field, column)
            there = pc.not_equal(numbers, field.default)
            count += there.to_numpy(zero_copy_only=False)
            head = unsigned_varint(field.tag) + unsigned_varint(INT_SIZES[field.type])
            whole = _joined(_same(head, len(rows)), _fixed(field, numbers))
            tagged.append(pc.if_else(there, whole, pa.scalar(b"")))
    return [*parts, _varints(pa.array(count)), *tagged]


def _plain(field: Field, column: pa.Array) -> list[pa.Array]:
    """Return numbers, ids, or texts behind their lengths."""
    if field.type in INT_SIZES:
        return [_fixed(field, _numbers(field, column))]
    if field.type == "uuid":
        _require_all(field, column)
        return [_coded(column, topic_id_bytes)]
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


def _fixed(field: Field, numbers: pa.Array) -> pa.Array:
    """Return numbers as big-endian bytes."""
    size = INT_SIZES[field.type]
    sign = "u" if field.type.startswith("u") else "i"
    octets = numbers.to_numpy(zero_copy_only=False).astype(f">{sign}{size}")
    of_size = pa.binary(size)
    plain = pa.Array.from_buffers(of_size, len(numbers), [None, pa.py_buffer(octets.tobytes())])
    return plain.cast(pa.binary())


def _varints(numbers: pa.Array) -> pa.Array:
    return _coded(numbers, unsigned_varint)


def _coded(values: pa.Array, octets: Callable[[Any], bytes]) -> pa.Array:
    """Return the bytes of values, of which there are few different ones."""
    coded = values.dictionary_encode()
    different = [octets(value) for value in coded.dictionary.to_pylist()]
    return pa.array(different, pa.binary()).take(coded.indices)


def _grouped(items: pa.Array, sizes: pa.Array) -> pa.Array:
    """Return the bytes of each list's items."""
    ends = np.concatenate([[0], np.cumsum(sizes.to_numpy(zero_copy_only=False))])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items), b"")


def _same(octets: bytes, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(octets), count)


def _joined(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b""))
