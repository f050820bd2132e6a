"""The rows of a table that are drawn, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.charts import text
from sharelag.metrics import columns
from sharelag.schemas import NAMED_SHARE_PARTITION, SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, flat
from sharelag.tables.gaps import NO_END_OFFSET_THEN

_NAMES = [name for name, _ in NAMED_SHARE_PARTITION]


def codes(table: Arrow) -> pa.DictionaryArray:
    """Return the share partition of each row, numbered in the order of their first rows."""
    # A group may hold any text, so it comes first: topic ids and numbers hold no colon.
    every = (flat(table.column(name)).cast(pa.string()) for name in SHARE_PARTITION)
    texts = [pc.coalesce(column, "") for column in every]
    return pc.binary_join_element_wise(*texts, ":").dictionary_encode()


def largest(table: pa.Table, column: str, most: int) -> tuple[pa.Table, int]:
    """Choose the share partitions with the largest value in any row, and count those left out.

    Their rows have their place from 0 in ``row``, largest first, and are sorted by it; else in
    their order. Unknown values come last.
    """
    number, peak, _ = _values(table, column)
    return _chosen(table, number, np.argsort(-peak, kind="stable")[:most])


def largest_at_last(table: pa.Table, column: str, most: int) -> tuple[pa.Table, int]:
    """Choose the share partitions with the largest last value, the worst of each group first.

    Rows of a share partition are in the order of ``as_of``. What was largest at any time comes
    first among equals; what was never known, or is no longer there, comes last. Returns what
    `largest` does.
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
    """Number each row's share partition; return its largest and last value, too; -1: unknown."""
    code = codes(table)
    number, value = code.indices.to_numpy(), floats(table, column)
    known = ~np.isnan(value)
    peak, last = (np.full(len(code.dictionary), -1.0) for _ in range(2))
    np.maximum.at(peak, number[known], value[known])
    last[number[known]] = value[known]
    return number, peak, last


def _chosen(table: pa.Table, number: Any, order: Any) -> tuple[pa.Table, int]:
    size = int(number.max(initial=-1)) + 1
    place = np.full(size, size)
    place[order] = np.arange(len(order))
    row = place[number]
    kept = np.flatnonzero(row < len(order))
    kept = kept[np.argsort(row[kept], kind="stable")]
    return table.take(pa.array(kept)).append_column("row", pa.array(row[kept])), size - len(order)


def labels(table: pa.Table, width: int | None = text.LABEL) -> list[str]:
    """Return the name of each ``row`` that was chosen; with the group where there are several."""
    first = np.unique(table.column("row").to_numpy(), return_index=True)[1]
    named = table.select(_NAMES).take(pa.array(first)).to_pylist()
    several = len({row["group_id"] for row in named}) > 1
    return [text.share_partition(row, several, width) for row in named]


def key(row: Mapping[str, Any]) -> list[Any]:
    """Return a share partition for ``customdata``: picking its point picks it in other views."""
    return [row[name] for name in SHARE_PARTITION]


def groups_of(table: Arrow) -> str:
    """Return the groups of a table as part of a sentence."""
    return text.list_names(
        text.name(one) for one in pc.unique(table.column("group_id")).to_pylist()
    )


def has_several_groups(table: Arrow) -> bool:
    """Return whether names of share partitions need their group."""
    return len(pc.unique(table.column("group_id"))) > 1


def latest(table: Arrow) -> datetime | None:
    """Return the last moment in a table."""
    at: datetime | None = pc.max(table.column("as_of")).as_py()
    return at


def conform(given: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return columns as a table of a schema."""
    arrays = [
        flat(one).cast(field.type)
        if isinstance(one := given[field.name], pa.Array | pa.ChunkedArray)
        else pa.array(one, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def names_of(table: Arrow) -> dict[str, Any]:
    """Return the columns that name share partitions; ``topic`` is null where there is none."""
    rows = as_table(table)
    if "topic" not in rows.column_names:
        rows = rows.append_column("topic", pa.nulls(len(rows), pa.string()))
    return {name: rows.column(name) for name in _NAMES}


def left_out(count: int, of: str, why: str) -> tuple[str, ...]:
    """Return the fact that some rows are not drawn; none if all are."""
    return (f"Not drawn: {text.counted(count, of)} {why}.",) if count else ()


def floats(table: Arrow, name: str) -> Any:
    """Return a column as float64, NaN where unknown; times in milliseconds."""
    return columns.floats(table.column(name))


def spans(table: Arrow) -> Any:
    """Return the width of each window in offsets, NaN where its start is not known.

    A window without batches ends where it began, or earlier when the log start has moved on.
    """
    head, end = (floats(table, name) for name in ("effective_start_offset", "window_end_offset"))
    return np.where(np.isnan(head), np.nan, np.maximum(np.nan_to_num(end) - head, 0))


def axis_times(milliseconds: Any) -> list[str]:
    """Return times for an axis, as `text.axis_time` has them."""
    return [str(at).replace("T", " ") for at in milliseconds.astype("datetime64[ms]")]


def optional(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers for plotly: None where unknown, which is a gap."""
    return [None if value is None or value != value else float(value) for value in values]


def at_known_ends(table: pa.Table) -> pa.Table:
    """Leave out moments that lie between two at which the log's end was read.

    The table has ``lag`` and ``lag_reason``, sorted by share partition and moment.
    """
    place, code = np.arange(len(table)), codes(table).indices.to_numpy()
    known = table.column("lag").is_valid().to_numpy()
    before = np.maximum.accumulate(np.where(known, place, -1)) if len(table) else place
    after = np.minimum.accumulate(np.where(known, place, len(table))[::-1])[::-1]
    within = (before >= 0) & (after < len(table))
    within &= (code[before] == code) & (code[np.minimum(after, len(table) - 1)] == code)
    unasked = pc.equal(table.column("lag_reason"), NO_END_OFFSET_THEN).fill_null(False)
    return table.filter(pa.array(~(within & ~known & unasked.to_numpy(zero_copy_only=False))))
