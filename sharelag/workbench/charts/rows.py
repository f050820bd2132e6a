"""The share partitions of a table that are drawn, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import NAMED_SHARE_PARTITION, SHARE_PARTITION, Arrow
from sharelag.schemas.arrow import as_table, flat
from sharelag.tables.reasons import NO_END_OFFSET_THEN
from sharelag.workbench.charts import text

_NAMES = [name for name, _ in NAMED_SHARE_PARTITION]


def codes(table: Arrow) -> pa.DictionaryArray:
    """The share partition of each row, numbered in the order of their first rows."""
    # A group may hold any text, so it comes first: topic ids and numbers hold no colon.
    columns = (flat(table.column(name)).cast(pa.string()) for name in SHARE_PARTITION)
    texts = [pc.coalesce(column, "") for column in columns]
    return pc.binary_join_element_wise(*texts, ":").dictionary_encode()


def largest(table: pa.Table, column: str, most: int) -> tuple[pa.Table, int]:
    """Of the share partitions in a table those with the largest value in any row, largest first.

    Parameters
    ----------
    table : pyarrow.Table
    column : str
        Unknown values come last.
    most : int

    Returns
    -------
    pyarrow.Table
        The rows of the chosen ones, with their place from 0 in ``row``, sorted by it; else in their
        order.
    int
        How many share partitions are left out.
    """
    number, peak, _ = _values(table, column)
    return _chosen(table, number, np.argsort(-peak, kind="stable")[:most])


def largest_at_last(table: pa.Table, column: str, most: int) -> tuple[pa.Table, int]:
    """The share partitions with the largest last value, the worst of each group among them.

    Parameters
    ----------
    table : pyarrow.Table
        The rows of each share partition in the order of ``as_of``.
    column : str
        What was largest at any time comes first among equals; what was never known, or is gone by
        now, comes last.
    most : int
        No second share partition of a group is chosen before the first of another.

    Returns
    -------
    pyarrow.Table, int
        As `largest` gives them.
    """
    number, peak, last = _values(table, column)
    ends = np.zeros(len(last), np.int64)
    np.maximum.at(ends, number, floats(table, "as_of").astype(np.int64))
    last[ends < ends.max(initial=0)] = -1  # it was deleted since
    order = np.lexsort((-peak, -last))
    group = np.empty(len(order), np.int64)
    group[number] = flat(table.column("group_id")).dictionary_encode().indices.to_numpy()
    is_worst = np.zeros(len(order), bool)
    is_worst[np.unique(group[order], return_index=True)[1]] = True
    is_worst &= last[order] >= 0
    kept = np.sort(np.argsort(~is_worst, kind="stable")[:most])
    return _chosen(table, number, order[kept])


def _values(table: pa.Table, column: str) -> tuple[Any, Any, Any]:
    """The number of each row's share partition, with its largest and last value; -1: not known."""
    code = codes(table)
    number, value = code.indices.to_numpy(), floats(table, column)
    known = ~np.isnan(value)
    peak, last = (np.full(len(code.dictionary), -1.0) for _ in range(2))
    np.maximum.at(peak, number[known], value[known])
    last[number[known]] = value[known]
    return number, peak, last


def _chosen(table: pa.Table, number: Any, order: Any) -> tuple[pa.Table, int]:
    """The rows of these share partitions in that order, and how many others there are."""
    size = int(number.max(initial=-1)) + 1
    place = np.full(size, size)
    place[order] = np.arange(len(order))
    row = place[number]
    kept = np.flatnonzero(row < len(order))
    kept = kept[np.argsort(row[kept], kind="stable")]
    return table.take(pa.array(kept)).append_column("row", pa.array(row[kept])), size - len(order)


def labels(table: pa.Table, width: int | None = text.LABEL) -> list[str]:
    """The name of each ``row`` of what `largest` gave; with the group where there are several."""
    first = np.unique(table.column("row").to_numpy(), return_index=True)[1]
    named = table.select(_NAMES).take(pa.array(first)).to_pylist()
    several = len({row["group_id"] for row in named}) > 1
    return [text.share_partition(row, several, width) for row in named]


def key(row: Mapping[str, Any]) -> list[Any]:
    """A share partition's key for ``customdata``: picking its point picks it in other views."""
    return [row[name] for name in SHARE_PARTITION]


def groups_of(table: Arrow) -> str:
    """The groups of a table as part of a sentence."""
    return text.listed(text.name(one) for one in pc.unique(table.column("group_id")).to_pylist())


def latest(table: Arrow, column: str = "as_of") -> datetime | None:
    """The last moment in a table."""
    at: datetime | None = pc.max(table.column(column)).as_py()
    return at


def conformed(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """Columns as a table of a schema."""
    arrays = [columns[field.name] for field in schema]
    cast = [
        flat(a).cast(field.type)
        if isinstance(a, pa.Array | pa.ChunkedArray)
        else pa.array(a, field.type)
        for a, field in zip(arrays, schema, strict=True)
    ]
    return pa.Table.from_arrays(cast, schema=schema)


def names_of(table: Arrow) -> dict[str, Any]:
    """The columns that name share partitions."""
    rows = as_table(table)
    return {name: rows.column(name) for name in _NAMES}


def left_out(count: int, of: str, why: str) -> tuple[str, ...]:
    """The fact that some rows are not drawn; none if all are."""
    return (f"Not drawn: {text.counted(count, of)} {why}.",) if count else ()


def floats(table: Arrow, name: str) -> Any:
    """A column as float64, NaN where unknown; times in milliseconds."""
    column = flat(table.column(name))
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), float)


def optional(values: Any) -> list[float | None]:
    """Numbers for plotly: None where unknown, which is a gap."""
    return [None if value != value else float(value) for value in values]


def at_known_ends(table: pa.Table) -> pa.Table:
    """Rows of a timeline without moments that lie between two at which the log's end was read.

    Parameters
    ----------
    table : pyarrow.Table
        With ``lag`` and ``lag_reason``, sorted by share partition and moment.
    """
    place, code = np.arange(len(table)), codes(table).indices.to_numpy()
    known = table.column("lag").is_valid().to_numpy()
    before = np.maximum.accumulate(np.where(known, place, -1)) if len(table) else place
    after = np.minimum.accumulate(np.where(known, place, len(table))[::-1])[::-1]
    within = (before >= 0) & (after < len(table))
    within &= (code[before] == code) & (code[np.minimum(after, len(table) - 1)] == code)
    unasked = pc.equal(table.column("lag_reason"), NO_END_OFFSET_THEN).fill_null(False)
    return table.filter(pa.array(~(within & ~known & unasked.to_numpy(zero_copy_only=False))))
