"""Columns of a table for the browser: bytes that typed arrays can map, with a small JSON header.

A number is a float64 (NaN: unknown), a time is milliseconds, and texts are codes with a list of the
distinct texts. Arrow's format would need its reader in every page, ten times the size of a view.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.errors import InputError
from sharelag.tables.arrow import flat

#: Accepted tables: Arrow, pandas, Spark, or arrays by name.
Rows: TypeAlias = Any

#: The largest exact integer of JavaScript's numbers.
LARGEST = 2**53
_MAGIC = b"SLC1"
_TYPES = {"float64": "f64", "int32": "i32", "uint32": "u32", "uint16": "u16", "uint8": "u8"}
_WORTH_PACKING = 1 << 12


class Column(NamedTuple):
    """Values of one of `_TYPES`; with ``texts`` they are indexes into those, -1: unknown."""

    values: NDArray[Any]
    kind: str = "number"  # or time, text
    texts: tuple[str, ...] | None = None


def table_of(rows: Rows) -> pa.Table:
    """Return rows of Arrow, pandas, Spark, or arrays by name as an Arrow table.

    Spark has to collect them, so select and limit the rows first.
    """
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "toArrow"):
        return rows.toArrow()
    if isinstance(rows, Mapping):
        return pa.table(dict(rows))
    if hasattr(rows, "dtypes") and hasattr(rows, "columns"):
        return pa.Table.from_pandas(rows, preserve_index=False)
    raise InputError(
        f"{type(rows).__name__} is not a table: give an Arrow table, a pandas or Spark DataFrame, "
        "or arrays by name"
    )


def require(rows: pa.Table, names: Iterable[str], what: str = "the table", more: str = "") -> None:
    """Raise `InputError` if a column is missing; ``what`` and ``more`` extend the message."""
    there = rows.schema.names
    if missing := [name for name in names if name not in there]:
        has = f"it has {', '.join(there)}"
        raise InputError(f"{what} has no column {', '.join(missing)}; {has}{more}")


def column_of(values: pa.ChunkedArray | pa.Array, is_exact: bool = True) -> Column:
    """Convert a column for the browser.

    An integer beyond `LARGEST` makes it one of texts, unless colours and bars need no exact ones.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if pa.types.is_timestamp(kind):
        return Column(floats(values), "time")
    if pa.types.is_boolean(kind):
        return _texts(pc.if_else(values, "yes", "no"))
    if pa.types.is_integer(kind):
        ends = pc.min_max(values).as_py().values()
        if is_exact and any(abs(end) > LARGEST for end in ends if end is not None):
            return _texts(values.cast(pa.string()))
        return Column(floats(values))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Column(floats(values))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _texts(values.cast(pa.string()))
    texts = [None if value is None else _text(value) for value in values.to_pylist()]
    return _texts(pa.array(texts, pa.string()))


def pack(columns: Mapping[str, Column]) -> bytes:
    """Pack columns as bytes, which ``columns.js`` unpacks."""
    head: list[dict[str, Any]] = []
    arrays = [np.ascontiguousarray(column.values) for column in columns.values()]
    for (name, column), array in zip(columns.items(), arrays, strict=True):
        entry = {"name": name, "type": _TYPES[array.dtype.name], "length": len(array)}
        texts = {} if column.texts is None else {"texts": column.texts}
        head.append(entry | {"kind": column.kind, "at": 10**10} | texts)
    # The header has the positions of the arrays, so its length is fixed first: spaces pad it.
    start = -(-(4 + len(json.dumps(head))) // 8) * 8
    at = start
    for entry, array in zip(head, arrays, strict=True):
        entry["at"] = at
        at += -(-array.nbytes // 8) * 8
    text = json.dumps(head).encode().ljust(start - 4)
    padded = (array.tobytes() + b"\0" * (-array.nbytes % 8) for array in arrays)
    body = b"".join([len(text).to_bytes(4, "little"), text, *padded])
    if len(body) < _WORTH_PACKING:
        return _MAGIC + b"\0" * 4 + body
    return _MAGIC + b"\1\0\0\0" + gzip.compress(body, 3, mtime=0)


def smallest(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return integers >= 0 as uint32, or as float64 if one is too large."""
    return numbers.astype(np.uint32 if numbers.size == 0 or numbers.max() < 2**32 else np.float64)


def floats(values: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Return numbers, and times as milliseconds, as float64; NaN where null."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("ms", values.type.tz), safe=False).cast(pa.int64())
    numbers = flat(values).cast(pa.float64(), safe=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def _texts(values: Any) -> Column:
    coded = flat(values).dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Column(codes.astype(np.int32), "text", tuple(coded.dictionary.to_pylist()))


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "; ".join(value)
    is_nested = isinstance(value, list | dict)
    return json.dumps(value, default=str, ensure_ascii=False) if is_nested else str(value)
