"""Selection and labels of the rows that a chart draws."""

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
from sharelag.tables.arrow import flat
from sharelag.tables.gaps import NO_END_OFFSET_THEN

_NAMES = [name for name, _ in NAMED_SHARE_PARTITION]


def codes(table: Arrow) -> pa.DictionaryArray:
    """Return the share partition of each row, numbered in the order of their first rows."""
    # The group comes first, as it may contain colons, which topic ids and numbers cannot.
    every = (flat(table.column(name)).cast(pa.string()) for name in SHARE_PARTITION)
    texts = [pc.coalesce(column, "") for column in every]
    return pc.binary_join_element_wise(*texts, ":").dictionary_encode()


def largest(table: pa.Table, column: str, most: int) -> tuple[pa.Table, int]:
    """Choose the share partitions with the largest value in any row, and count those left out.

    ``row`` has the rank of the share partition from 0, largest first; rows are sorted by it and
    otherwise keep their order. Unknown values come last.
    """
    number, peak, _ = _values(table, column)
    return _chosen(table, number, np.argsort(-peak, kind="stable")[:most])


def largest_at_last(table: pa.Table, column: str, most: int) -> tuple[pa.Table, int]:
    """Choose the share partitions with the largest last value, the worst of each group first.

    Rows of a share partition are sorted by ``as_of``. Equal ones are sorted by their largest value
    at any time; unknown and deleted share partitions come last. The result is that of `largest`.
    """
    number, peak, last = _values(table, column)
    ends = np.zeros(len(last), np.int64)
    np.maximum.at(ends, number, floats(table, "as_of").astype(np.int64))
    last[ends < ends.max(initial=0)] = -1  # deleted since
    order = np.lexsort((-peak, -last))
    group = np.empty(len(order), np.int64)
    group[number] = flat(table.column("group_id")).dictionary_encode().indices.to_numpy()
    is_worst = np.zeros(len(order), bool)
    is_worst[np.unique(group[order], return_index=True)[1]] = True
    is_worst &= last[order] >= 0
    kept = np.sort(np.argsort(~is_worst, kind="stable")[:most])
    return _chosen(table, number, order[kept])


def _values(table: pa.Table, column: str) -> tuple[Any, Any, Any]:
    """Return each row's share partition by number, and its largest and last value; -1: unknown."""
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
    """Return the label of each chosen ``row``, with its group if there are several."""
    first = np.unique(table.column("row").to_numpy(), return_index=True)[1]
    named = table.select(_NAMES).take(pa.array(first)).to_pylist()
    several = len({row["group_id"] for row in named}) > 1
    return [text.share_partition(row, several, width) for row in named]


def key(row: Mapping[str, Any]) -> list[Any]:
    """Return the key of a share partition for ``customdata``, to pick it in linked views."""
    return [row[name] for name in SHARE_PARTITION]


def groups_of(table: Arrow) -> str:
    """Return the groups of a table as part of a sentence."""
    return text.list_names(map(text.name, pc.unique(table.column("group_id")).to_pylist()))


def has_several_groups(table: Arrow) -> bool:
    """Return whether a table has several groups, so that labels need theirs."""
    return len(pc.unique(table.column("group_id"))) > 1


def latest(table: Arrow) -> datetime | None:
    """Return the last moment in a table."""
    at: datetime | None = pc.max(table.column("as_of")).as_py()
    return at


def names_of(table: Arrow) -> dict[str, Any]:
    """Return the key columns of share partitions; ``topic`` is null if the table lacks it."""
    has_topic = "topic" in table.schema.names
    topic = table.column("topic") if has_topic else pa.nulls(table.num_rows, pa.string())
    return {name: table.column(name) for name in SHARE_PARTITION} | {"topic": topic}


def left_out(count: int, of: str, why: str) -> tuple[str, ...]:
    """Return a sentence on rows that are not drawn, if any."""
    return (f"Not drawn: {text.pluralize(count, of)} {why}.",) if count else ()


def floats(table: Arrow, name: str) -> Any:
    """Return a column as float64, NaN where unknown; times in milliseconds."""
    return columns.floats(table.column(name))


def spans(table: Arrow) -> Any:
    """Return the width of each window in offsets, NaN if its start is unknown.

    A window without batches ends at its start, or earlier if the log start has moved on.
    """
    head, end = (floats(table, name) for name in ("effective_start_offset", "window_end_offset"))
    return np.where(np.isnan(head), np.nan, np.maximum(np.nan_to_num(end) - head, 0))


def axis_times(milliseconds: Any) -> list[str]:
    """Return times for an axis, in the form of `text.axis_time`."""
    return [str(at).replace("T", " ") for at in milliseconds.astype("datetime64[ms]")]


def optional(values: Iterable[float | None]) -> list[float | None]:
    """Return numbers for plotly; None, a gap, where unknown."""
    return [None if value is None or value != value else float(value) for value in values]


def at_known_ends(table: pa.Table) -> pa.Table:
    """Leave out moments between two at which the log's end was read.

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
