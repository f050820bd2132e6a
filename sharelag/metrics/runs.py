"""Sum over the runs of many windows at once: count the offsets in some states."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.model import TERMINAL_STATES

TERMINAL = tuple(map(int, TERMINAL_STATES))


class Runs:
    """The runs of all windows, concatenated.

    Parameters
    ----------
    column : pyarrow.Array
        ``runs`` of `sharelag.schemas.WINDOWS`; null means no runs.
    """

    def __init__(self, column: pa.Array) -> None:
        counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        self.at = np.concatenate([[0], np.cumsum(counts)])
        self.window = np.repeat(np.arange(len(counts)), counts)
        runs = pc.list_flatten(column)
        fields = [pc.struct_field(runs, i).to_numpy(zero_copy_only=False) for i in range(3)]
        self.first, self.end, self.state = fields[0], fields[1] + 1, fields[2]

    def sum(
        self,
        states: tuple[int, ...],
        low: NDArray[np.int64] | None = None,
        end: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Count the offsets of each window in these states, in ``low <= offset < end`` if given."""
        first = self.first if low is None else np.maximum(self.first, low[self.window])
        last = self.end if end is None else np.minimum(self.end, end[self.window])
        sizes = np.where(np.isin(self.state, states), np.maximum(last - first, 0), 0)
        total = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return np.asarray(total[self.at[1:]] - total[self.at[:-1]])
