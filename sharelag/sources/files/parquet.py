"""How Parquet is written and read: with a checksum of each page, which every reader compares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag.sources.files.damage import reading_parquet

#: Key bytes repeat across records, values do not: zstd compresses both to a quarter. It does not
#: notice every flipped bit: without checksums, some are other numbers and names.
_WRITTEN = {"compression": "zstd", "write_page_checksum": True}
#: What compares them in pyarrow, and in Spark's own reader. Files without any are read as they are.
COMPARED = {"page_checksum_verification": True}
COMPARED_BY_SPARK = {"parquet.page.verify-checksum.enabled": "true"}


def writer(where: Path | Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Begin a file that others read later; where it is, or a file that is open for writing."""
    return pq.ParquetWriter(where, schema, **_WRITTEN)


def write_table(table: pa.Table, where: Path | Any) -> None:
    """Write a whole file."""
    pq.write_table(table, where, **_WRITTEN)


def opened(where: Path | Any, **options: Any) -> pq.ParquetFile:
    """Open a file, whose pages are compared with their checksums as they are read."""
    return pq.ParquetFile(where, **COMPARED, **options)


def count_rows(where: Path | str) -> int:
    """Return how many rows the footer of a file counts."""
    with reading_parquet(where):
        return int(pq.read_metadata(where).num_rows)


def whole(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches that are what their file promises.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
    rows : int
        How many rows the footer counts. No checksum covers the headers of pages: by a damaged one,
        pyarrow takes the column for shorter, and leaves out what the others have.

    Raises
    ------
    pyarrow.ArrowInvalid
        When rows are missing, or a text is not UTF-8, which pyarrow otherwise finds only when
        somebody looks at that row.
    """
    found = 0
    for batch in batches:
        batch.validate(full=True)
        found += batch.num_rows
        yield batch
    if found != rows:
        raise pa.ArrowInvalid(f"{found:,} of {rows:,} rows could be read")
