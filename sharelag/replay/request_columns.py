"""Columns of requests as numbers."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag.schemas.arrow import flat

Ints: TypeAlias = NDArray[np.int64]


def codes(columns: list[pa.Array]) -> list[Ints]:
    """Number the texts of several columns: equal texts have equal numbers."""
    both = pa.concat_arrays([column.cast(pa.string()) for column in columns])
    numbers = both.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    ends = np.cumsum([len(column) for column in columns])
    return np.split(numbers, ends[:-1])


def ints(table: pa.Table, name: str) -> Ints:
    """Return a column of integers, 0 where null."""
    column = flat(table.column(name)).cast(pa.int64()).fill_null(0)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def micros(table: pa.Table, name: str) -> Ints:
    """Return times in microseconds since 1970."""
    return np.asarray(
        flat(table.column(name)).cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64
    )
