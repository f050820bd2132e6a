"""Encode the values of many records as Kafka writes them: whole columns at once.

The same bytes as `sharelag.wire.encode.encode_record`, from the same field tables, for kinds whose
values have numbers and lists of numbers alone, as those of the state topic do.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.wire.encode import unsigned_varint
from sharelag.wire.fields import INT_SIZES, VALUE_VERSION, Field, RecordKind


def encode_values(
    kind: RecordKind, rows: pa.StructArray, named: Callable[[Field], str] = attrgetter("column")
) -> pa.BinaryArray:
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


def _struct(
    fields: tuple[Field, ...], rows: pa.StructArray, named: Callable[[Field], str]
) -> list[pa.Array]:
    """Return the parts of each row's bytes, in their order."""
    parts, tagged = [], []
    count = np.zeros(len(rows), np.int64)
    for field in fields:
        column = rows.field(named(field))
        if field.fields:
            sizes = pc.list_value_length(column)
            inner = _joined(*_struct(field.fields, column.flatten(), named))
            parts += [_varints(pc.add(sizes, 1)), _grouped(inner, sizes)]
            continue
        numbers = _numbers(field, column)
        if field.tag is None:
            parts.append(_fixed(field, numbers))
        else:
            there = pc.not_equal(numbers, field.default)
            count += there.to_numpy(zero_copy_only=False)
            head = unsigned_varint(field.tag) + unsigned_varint(INT_SIZES[field.type])
            whole = _joined(_same(head, len(rows)), _fixed(field, numbers))
            tagged.append(pc.if_else(there, whole, pa.scalar(b"")))
    return [*parts, _varints(pa.array(count)), *tagged]


def _numbers(field: Field, column: pa.Array) -> pa.Array:
    if column.null_count == 0:
        return column
    if field.unknown is None:
        raise ValueError(f"{field.name} must not be null")
    return column.fill_null(field.unknown)


def _fixed(field: Field, numbers: pa.Array) -> pa.Array:
    """Return numbers as big-endian bytes."""
    size = INT_SIZES[field.type]
    sign = "u" if field.type.startswith("u") else "i"
    octets = numbers.to_numpy(zero_copy_only=False).astype(f">{sign}{size}")
    of_size = pa.binary(size)
    plain = pa.Array.from_buffers(of_size, len(numbers), [None, pa.py_buffer(octets.tobytes())])
    return plain.cast(pa.binary())


def _varints(numbers: pa.Array) -> pa.Array:
    """Return unsigned varints, of which there are few different ones."""
    coded = numbers.dictionary_encode()
    different = [unsigned_varint(number) for number in coded.dictionary.to_pylist()]
    return pa.array(different, pa.binary()).take(coded.indices)


def _grouped(items: pa.Array, sizes: pa.Array) -> pa.Array:
    """Return the bytes of each list's items."""
    ends = np.concatenate([[0], np.cumsum(sizes.to_numpy(zero_copy_only=False))])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items), b"")


def _same(octets: bytes, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(octets), count)


def _joined(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b""))
