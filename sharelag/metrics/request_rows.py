"""Rows of a log of requests in the order in which a rule looks at them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.schemas.arrow import flat, keys

#: When something happened, and where it stands in the log.
ORDER = ("timestamp", "source", "position")


def series(
    rows: pa.Table, by: Sequence[str], order: Sequence[str] = ORDER
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Sort rows of one key by time; tell which is the first of its key."""
    table = rows.sort_by([(name, "ascending") for name in (*by, *order)])
    texts = keys(table, by).fill_null("")
    first = np.ones(table.num_rows, dtype=bool)
    if table.num_rows:
        first[1:] = np.asarray(pc.not_equal(texts[1:], texts[:-1]).to_numpy(False), bool)
    return table, first


def integers(rows: pa.Table, name: str) -> NDArray[np.int64]:
    """Return a column as integers, 0 where it is null."""
    column = flat(rows.column(name)).cast(pa.int64()).fill_null(0)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
