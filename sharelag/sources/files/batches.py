"""How many records of a file to read at once: memory is bounded by their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sharelag.schemas.arrow import one_batch

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


def grouped(
    batches: Iterable[pa.RecordBatch], rows: int, size: int
) -> Iterator[list[pa.RecordBatch]]:
    """Put consecutive batches together, up to so many rows and bytes unless one alone has more."""
    found: list[pa.RecordBatch] = []
    count = total = 0
    for batch in batches:
        if found and (count + batch.num_rows > rows or total + batch.nbytes > size):
            yield found
            found, count, total = [], 0, 0
        found.append(batch)
        count, total = count + batch.num_rows, total + batch.nbytes
    if found:
        yield found


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches up to so many rows, or as many bytes as a batch should have.

    A batch ends where its row group ends, and what is done with one costs the same for a single
    row as for thousands.
    """
    for found in grouped(batches, rows, _BYTES):
        yield found[0] if len(found) == 1 else one_batch(pa.Table.from_batches(found))
