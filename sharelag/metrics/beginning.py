"""When the lag of each share partition began."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag.metrics.columns import numbers
from sharelag.metrics.ends import known_ends
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.observed import BINS, parts_of
from sharelag.metrics.rates import arrived_in_parts

#: A lag has not begun while it is less than this part of today's.
_LITTLE = 0.05


def lag_began(
    evidence: Evidence, observed: pa.Table, now: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return when the lag of each share partition began.

    It began after the last part of the span before which there was almost none, at the moment from
    which on what was left at its end had grown as fast as in the part that follows.

    Parameters
    ----------
    evidence : Evidence
        With ``lag`` and ``past_offsets``.
    observed : pyarrow.Table
        `sharelag.schemas.OBSERVED` in the row order of the lag table.
    now : int
        Milliseconds; later ends are ignored.

    Returns
    -------
    float64[rows], bool[rows]
        Milliseconds, NaN where nothing was observed; and whether it may have begun earlier: at the
        beginning of the span there was lag, or it is unknown.
    """
    (begin, seen), (end, _) = numbers(observed, "begin"), numbers(observed, "end")
    seen &= end > begin
    span = np.where(seen, end - begin, 1)
    ends = known_ends(evidence.lag, evidence.past_offsets, now)
    growth = arrived_in_parts(evidence.lag, ends, begin, span) - parts_of(observed, "finished_bins")
    left, known = numbers(evidence.lag, "effective_lag")
    lag = np.where(known, left, np.nan)[:, np.newaxis]
    at_edges = lag - np.cumsum(growth[:, ::-1], axis=1)[:, ::-1]
    # Where it is not known, there may have been lag.
    is_little = at_edges <= _LITTLE * lag
    quiet = BINS - 1 - np.argmax(is_little[:, ::-1], axis=1)
    rows, after = np.arange(len(left)), np.minimum(quiet + 1, BINS - 1)
    back = at_edges[rows, after] / np.maximum(growth[rows, after], 1)
    back = np.where(quiet + 1 < BINS, np.clip(back, 0, 1), 1)
    is_older = ~is_little.any(axis=1)
    began = np.where(is_older, begin, begin + span * (quiet + 1 - back) / BINS)
    return np.where(seen, began, np.nan), seen & is_older
