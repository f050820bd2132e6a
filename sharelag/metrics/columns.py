"""How do columns become numbers, and how does a row of one table find its partner in another?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.arrow import as_table, flat
from sharelag.schemas import Arrow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(moment: datetime) -> int:
    """A time as Kafka counts them; what is below a millisecond is cut off."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def numbers(table: Arrow, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A column as int64, zero where unknown, beside what is known; timestamps in milliseconds."""
    column = flat(table.column(name))
    if pa.types.is_timestamp(column.type):
        column = column.cast(schemas.TIMESTAMP).view(pa.int64())
    known = column.is_valid().to_numpy(zero_copy_only=False)
    return column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), np.asarray(known, bool)


def present(table: Arrow, name: str) -> NDArray[np.bool_]:
    """Where a column is known."""
    return np.asarray(flat(table.column(name)).is_valid().to_numpy(zero_copy_only=False), bool)


def bools(table: Arrow, name: str) -> NDArray[np.bool_]:
    """A column of truths; unknown is false."""
    return np.asarray(flat(table.column(name)).fill_null(False).to_numpy(zero_copy_only=False), bool)


def known_times(values: NDArray[np.int64], known: NDArray[np.bool_]) -> pa.Array:
    """Milliseconds as a column of timestamps, null where not known."""
    return pa.array(values, mask=~known).view(schemas.TIMESTAMP)


def keys(table: Arrow, names: Sequence[str]) -> pa.Array:
    """One text a row of several columns. A group may hold any text, so it has to come first.

    Topic ids and numbers hold no colon, so no two keys of as many columns look the same.
    """
    return flat(pc.binary_join_element_wise(*[flat(table.column(name)).cast(pa.string()) for name in names], ":"))


def beside(rows: pa.Array, table: Arrow, names: Sequence[str]) -> pa.Table:
    """The partner of each row in another table; all its columns are null where there is none.

    Parameters
    ----------
    rows : pyarrow.Array
        A key a row, as `keys` makes them.
    table : pyarrow.RecordBatch or pyarrow.Table
        Should a key be there more than once, its first row is the partner.
    names : sequence of str
        The columns of ``table`` that its keys are made of.
    """
    return as_table(table).take(pc.index_in(rows, keys(table, names)))
