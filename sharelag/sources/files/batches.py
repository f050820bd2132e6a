"""How many records of a file to read at once: memory is bounded by their bytes."""

from __future__ import annotations

#: Bytes of a batch. What is made of a batch while it is read and decoded takes several times as
#: much, and all of it should still be in the processor's cache when it is replayed.
_BYTES = 8 << 20


def rows_at_once(most: int, rows: int, size: int) -> int:
    """Return how many rows to read at once.

    Parameters
    ----------
    most : int
        So many where records are small.
    rows, size : int
        How many records a file or a part of it has, and their bytes, without compression.
    """
    return max(1, min(most, _BYTES * rows // max(size, 1)))
