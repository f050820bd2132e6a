"""Conversions of Arrow tables, and lookups of rows of one table in another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.errors import InputError
from sharelag.tables.conform import Arrow
from sharelag.tables.table import TIMESTAMP

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, whatever its chunks."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def as_table(rows: Arrow) -> pa.Table:
    """Convert a table or a batch to a table."""
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])


def one_batch(rows: Arrow) -> pa.RecordBatch:
    """Convert a table or a batch to one batch.

    A column of texts or lists that is too large for a batch is an error: Arrow would return several
    batches, and a caller that uses the first would lose the others.
    """
    if isinstance(rows, pa.RecordBatch):
        return rows
    batches = rows.combine_chunks().to_batches()
    if len(batches) > 1:
        raise InputError(
            "the strings of one table exceed 2 GiB: replay it on Spark, or in smaller pieces"
        )
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def with_columns(rows: Arrow, columns: Mapping[str, Any]) -> Arrow:
    """Replace columns of rows, keeping their types; a single value is repeated in each row."""
    for name, values in columns.items():
        field = rows.schema.field(name)
        column = _column(values, field.type, rows.num_rows)
        rows = rows.set_column(rows.schema.get_field_index(name), field, column)
    return rows


def _column(values: Any, kind: pa.DataType, rows: int) -> Any:
    """Return a column of a type, or one that repeats a single value."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values if values.type == kind else values.cast(kind)
    if values is None or not rows:  # Arrow cannot repeat a list 0 times
        return pa.nulls(rows, kind)
    return pa.repeat(pa.scalar(values, kind), rows)


def of_distinct(
    values: pa.Array, function: Callable[[Any], Any], kind: pa.DataType | None = None
) -> pa.Array:
    """Apply a function to each distinct value of a column that has few of them."""
    coded = values.dictionary_encode()
    return pa.array(map(function, coded.dictionary.to_pylist()), kind).take(coded.indices)


def table_of(columns: Mapping[str, Any], schema: pa.Schema, pad: bool = False) -> pa.Table:
    """Return columns in the order and with the types of a schema; the first has the row count.

    Any other may be a single value, which is repeated in each row. With ``pad``, missing columns
    are null; otherwise all are required.
    """
    return pa.Table.from_arrays(_of_schema(columns, schema, pad), schema=schema)


def _of_schema(columns: Mapping[str, Any], schema: pa.Schema, pad: bool) -> list[Any]:
    rows = len(next(iter(columns.values())))
    found = []
    for field in schema:
        given = columns.get(field.name) if pad else columns[field.name]
        found.append(_column(given, field.type, rows))
    return found


def batch_of(columns: Mapping[str, Any], schema: pa.Schema, pad: bool = False) -> pa.RecordBatch:
    """Return the same as one batch."""
    arrays = _of_schema(columns, schema, pad)
    if all(isinstance(one, pa.Array) for one in arrays):
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return one_batch(pa.Table.from_arrays(arrays, schema=schema))


def ascending(*names: str) -> list[tuple[str, str]]:
    """Return the argument of `pyarrow.Table.sort_by` for an ascending sort by these columns."""
    return [(name, "ascending") for name in names]


def integers(rows: Arrow, name: str) -> Ints:
    """Return a column as integers, 0 for null; times in the column's own unit."""
    column = flat(rows.column(name)).cast(pa.int64()).fill_null(0)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def changes(*columns: NDArray[Any]) -> Bools:
    """Return which rows differ from the previous one in any column; the first row does."""
    changed = np.ones(len(columns[0]), bool)
    changed[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return changed


def each_offset(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return every offset of some ranges, after the index of its range."""
    length = np.maximum(last - first + 1, 0)
    of = np.repeat(np.arange(len(first)), length)
    return of, np.arange(len(of)) + np.repeat(first - (np.cumsum(length) - length), length)


def lists_of(counts: NDArray[Any], values: pa.Array) -> pa.ListArray:
    """Divide values into lists of given lengths."""
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(counts)), pa.int32()), values)


def rows_by_group(
    table: Arrow, names: Sequence[str] = ()
) -> defaultdict[str, list[dict[str, Any]]]:
    """Return the rows of each group as mappings, in their order; a group without rows has none."""
    groups: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.select(list(names) or table.schema.names).to_pylist():
        groups[row["group_id"]].append(row)
    return groups


def sum_known(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return the sum of a column; None without rows, or if a value is unknown."""
    values = [row[name] for row in rows]
    return None if None in values or not values else float(sum(values))


def keys(table: Arrow, names: Sequence[str]) -> pa.Array:
    """Return one text key per row for several columns, of which one may contain any text.

    Topics, their ids and numbers have no colons, so keys of the same number of columns are unique.
    """
    columns = [flat(table.column(name)).cast(pa.string()) for name in names]
    return flat(pc.binary_join_element_wise(*columns, ":"))


def beside(rows: pa.Array, table: Arrow, names: Sequence[str]) -> pa.Table:
    """Return the matching row of another table for each key; its columns are null without a match.

    Keys are those that `keys` makes of the named columns of ``table``. Of several rows with the
    same key, the first matches.
    """
    return as_table(table).take(pc.index_in(rows, keys(table, names)))


def without_timestamps(rows: Arrow) -> pa.Table:
    """Convert top-level timestamps to milliseconds: records may have times beyond any calendar."""
    table = as_table(rows)
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            column = table.column(index).cast(TIMESTAMP).cast(pa.int64())
            table = table.set_column(index, field.name, column)
    return table


def for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to a Spark task's form: timestamps in microseconds, null for missing columns.

    Milliseconds beyond the range of Spark's timestamps become null. Timestamps in microseconds are
    unchanged.
    """
    arrays, fields = [], []
    for field in schema:
        is_there, kind = field.name in batch.schema.names, field.type
        column = batch.column(field.name) if is_there else pa.nulls(len(batch), kind)
        if pa.types.is_timestamp(kind):
            column, kind = _microseconds(column), pa.timestamp("us", tz="UTC")
        arrays.append(column)
        fields.append(pa.field(field.name, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _microseconds(column: pa.Array) -> pa.Array:
    if column.type == pa.timestamp("us", tz="UTC"):
        return column
    last = (2**63 - 1) // 1000
    numbers = column.cast(TIMESTAMP, safe=False).view(pa.int64())
    is_time = pc.and_(pc.less(numbers, last), pc.greater(numbers, -last))
    milliseconds = pc.if_else(is_time, numbers, pa.scalar(None, pa.int64()))
    return milliseconds.view(TIMESTAMP).cast(pa.timestamp("us", tz="UTC"))
