"""When the lag of each share partition began."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sharelag.metrics.columns import numbers
from sharelag.metrics.ends import Ends
from sharelag.metrics.observed import BINS, parts_of
from sharelag.metrics.rates import arrived_in_parts
from sharelag.schemas import Arrow

#: A lag has not begun while it is less than this part of today's.
_LITTLE = 0.05


def lag_began(
    lag: Arrow, observed: Arrow, ends: Ends
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return when the lag of each share partition began.

    It began after the last part of the span before which there was almost none, at the moment from
    which on what was left at its end had grown as fast as in the part that follows.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    observed : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OBSERVED` in the row order of the lag table.
    ends : Ends
        Of the same lag table.

    Returns
    -------
    float64[rows], bool[rows]
        Milliseconds, NaN where nothing was observed; and whether it may have begun earlier: at the
        beginning of the span there was lag, or it is unknown.
    """
    (begin, seen), (end, _) = numbers(observed, "begin"), numbers(observed, "end")
    seen &= end > begin
    span = np.where(seen, end - begin, 1)
    growth = arrived_in_parts(lag, ends, begin, span) - parts_of(observed, "finished_bins")
    left, known = numbers(lag, "effective_lag")
    waiting = np.where(known, left, np.nan)[:, np.newaxis]
    at_edges = waiting - np.cumsum(growth[:, ::-1], axis=1)[:, ::-1]
    # Where it is not known, there may have been lag.
    is_little = at_edges <= _LITTLE * waiting
    quiet = BINS - 1 - np.argmax(is_little[:, ::-1], axis=1)
    rows, after = np.arange(len(left)), np.minimum(quiet + 1, BINS - 1)
    back = at_edges[rows, after] / np.maximum(growth[rows, after], 1)
    back = np.where(quiet + 1 < BINS, np.clip(back, 0, 1), 1)
    is_older = ~is_little.any(axis=1)
    began = np.where(is_older, begin, begin + span * (quiet + 1 - back) / BINS)
    return np.where(seen, began, np.nan), seen & is_older
