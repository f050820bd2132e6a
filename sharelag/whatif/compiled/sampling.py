"""Rows of the timeline."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import part
from sharelag.whatif.compiled.acquiring import batch_at
from sharelag.whatif.compiled.batches import held_in
from sharelag.whatif.compiled.ends import log_end
from sharelag.whatif.compiled.layout import (
    BATCHES,
    COMPLETE,
    END,
    IN_MEMORY,
    LOG_START,
    NOW,
    PLACE,
    PLACES,
    PLACES_AT,
    SAMPLE,
    SAMPLE_AT,
    START,
    TIMES_AT,
)


@part
def sample(a: Any) -> None:
    """Fill in a row for each place as of now."""
    for number in range(a[PLACES]):
        p, row = a[PLACES_AT] + number * PLACE, a[SAMPLE_AT] + number * SAMPLE
        end = log_end(a, p)
        lag = end - a[p + START] - a[p + COMPLETE]
        a[row], a[row + 1], a[row + 2] = (
            a[p + LOG_START],
            a[p + START],
            a[p + END] + a[p + IN_MEMORY],
        )
        a[row + 3], a[row + 4], a[row + 5], a[row + 6] = a[p + COMPLETE], held_in(a, p), end, lag
        a[row + 7] = max(a[NOW] - _appended(a, p, a[p + START]), 0) // 1000 if lag > 0 else 0


@part
def _appended(a: Any, p: Any, offset: Any) -> Any:
    """When the record at an offset was appended."""
    last = a[p + BATCHES]
    batch = min(max(batch_at(a, p, offset, 0, last), 0), last - 1)
    return a[a[p + TIMES_AT] + batch] if last else 0
