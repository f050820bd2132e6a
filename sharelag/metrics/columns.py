"""Arrow columns as NumPy arrays of numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat

#: A share partition has a separate state in each topic and partition that has records of it.
STATE = ("group_id", "topic_id", "partition", "record_topic", "record_partition")


def numbers(table: Arrow, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a column as int64, 0 where null, and a mask of non-nulls; times in milliseconds."""
    column = flat(table.column(name))
    if pa.types.is_timestamp(column.type):
        column = column.cast(schemas.TIMESTAMP).view(pa.int64())
    known = column.is_valid().to_numpy(zero_copy_only=False)
    return column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), np.asarray(
        known, bool
    )


def present(table: Arrow, name: str) -> NDArray[np.bool_]:
    """Return a mask of the non-null values of a column."""
    return np.asarray(flat(table.column(name)).is_valid().to_numpy(zero_copy_only=False), bool)


def bools(table: Arrow, name: str) -> NDArray[np.bool_]:
    """Return a boolean column; null is false."""
    return np.asarray(
        flat(table.column(name)).fill_null(False).to_numpy(zero_copy_only=False), bool
    )


def begins(table: Arrow) -> NDArray[np.bool_]:
    """Return which rows of a history are the first of their state; each state is contiguous."""
    first = np.zeros(table.num_rows, bool)
    first[:1] = True
    for name in STATE:
        codes = flat(table.column(name)).dictionary_encode().indices.fill_null(-1).to_numpy()
        first[1:] |= codes[1:] != codes[:-1]
    return first


def known_times(values: NDArray[np.int64], known: NDArray[np.bool_]) -> pa.Array:
    """Return milliseconds as a timestamp column, null where unknown."""
    return pa.array(values, mask=~known).view(schemas.TIMESTAMP)
