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


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches up to so many rows, or as many bytes as a batch should have.

    A batch ends where its row group ends, and what is done with one costs the same for a single
    row as for thousands.
    """
    found: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if found and (count + batch.num_rows > rows or size + batch.nbytes > _BYTES):
            yield _joined(found)
            found, count, size = [], 0, 0
        found.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
    if found:
        yield _joined(found)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else one_batch(pa.Table.from_batches(batches))
