"""Columns of Arrow as arrays of numbers and back, runs of rows, and sums over those of windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from sharelag import schemas
from sharelag.model import TERMINAL_STATES
from sharelag.schemas import Arrow, Bools, Floats, Ints
from sharelag.tables.arrow import ascending, changes, flat
from sharelag.wire.fields import STATE_TOPIC

#: Key columns of a topic partition.
PARTITION = ("topic_id", "partition")
#: A share partition has a separate state in each topic and partition that has records of it.
STATE = ("group_id", "topic_id", "partition", "record_topic", "record_partition")


def names_by_place(states: Arrow) -> pa.Array:
    """Return the topics in which states are themselves, as control records; null elsewhere."""
    place = flat(states.column("record_topic")).cast(pa.string())
    return pc.if_else(pc.ends_with(place, STATE_TOPIC), None, place)


def numbers(table: Arrow, name: str) -> tuple[Ints, Bools]:
    """Return a column as int64, 0 where null, and a mask of non-nulls; times in milliseconds."""
    column = flat(table.column(name))
    if pa.types.is_timestamp(column.type):
        column = column.cast(schemas.TIMESTAMP).view(pa.int64())
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return values, mask(column.is_valid())


def floats(column: pa.Array | pa.ChunkedArray) -> Floats:
    """Return a column as float64, NaN where null; times in milliseconds."""
    values = flat(column)
    if pa.types.is_timestamp(values.type):
        values = values.cast(schemas.TIMESTAMP).view(pa.int64())
    values = values.cast(pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def mask(column: pa.Array | pa.ChunkedArray) -> Bools:
    """Return a boolean column; null is false."""
    return np.asarray(flat(column).fill_null(False).to_numpy(zero_copy_only=False), bool)


def present(table: Arrow, name: str) -> Bools:
    """Return a mask of the non-null values of a column."""
    return mask(table.column(name).is_valid())


def bools(table: Arrow, name: str) -> Bools:
    """Return a boolean column; null is false."""
    return mask(table.column(name))


def first_reason(reasons: Mapping[str, Bools]) -> pa.Array:
    """Return the first reason that applies to each row; null where none does."""
    cases = pc.make_struct(*map(pa.array, reasons.values()))
    return pc.case_when(cases, *map(pa.scalar, reasons), pa.scalar(None, pa.string()))


def codes(column: pa.Array | pa.ChunkedArray) -> Ints:
    """Return a number for each distinct value of a column, including null."""
    encoded = flat(column).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def begins(table: Arrow, names: Sequence[str] = STATE) -> Bools:
    """Return which rows are the first of their key, by default of a state in a history.

    Rows of one key are contiguous.
    """
    return changes(*(codes(table.column(name)) for name in names))


def last_of(chosen: Bools, first: Ints) -> Ints:
    """Return the last chosen row of each run of rows, by their first ones, or -1."""
    return np.asarray(np.maximum.reduceat(np.where(chosen, np.arange(len(chosen)), -1), first))


def known_times(values: Ints, known: Bools) -> pa.Array:
    """Return milliseconds as a timestamp column, null where unknown."""
    return pa.array(values, mask=~known).view(schemas.TIMESTAMP)


TERMINAL = tuple(map(int, TERMINAL_STATES))


class Runs:
    """The runs of all windows, concatenated: ``runs`` of `sharelag.schemas.WINDOWS`.

    Null means no runs.
    """

    def __init__(self, column: pa.Array) -> None:
        counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        self.at = np.concatenate([[0], np.cumsum(counts)])
        self.window = np.repeat(np.arange(len(counts)), counts)
        runs = pc.list_flatten(column)
        fields = [pc.struct_field(runs, i).to_numpy(zero_copy_only=False) for i in range(3)]
        self.first, self.end, self.state = fields[0], fields[1] + 1, fields[2]

    def sum(
        self, states: tuple[int, ...], low: Ints | None = None, end: Ints | None = None
    ) -> Ints:
        """Count the offsets of each window in these states, in ``low <= offset < end`` if given."""
        first = self.first if low is None else np.maximum(self.first, low[self.window])
        last = self.end if end is None else np.minimum(self.end, end[self.window])
        sizes = np.where(np.isin(self.state, states), np.maximum(last - first, 0), 0)
        total = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return np.asarray(total[self.at[1:]] - total[self.at[:-1]])


def evenly_spaced(values: ArrayLike, most: int) -> list[int]:
    """Choose evenly spaced distinct values, sorted, including the first and the last."""
    ordered = np.sort(np.asarray(values, np.int64))
    places = np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(np.int64)
    return [int(ordered[place]) for place in np.unique(places)]


#: Time and position of a row in the request log.
ORDER = ("timestamp", "source", "position")


def series(
    rows: pa.Table, by: Sequence[str], order: Sequence[str] = ORDER
) -> tuple[pa.Table, Bools]:
    """Sort rows of one key by time; tell which is the first of its key."""
    table = rows.sort_by(ascending(*by, *order))
    return table, begins(table, by)
