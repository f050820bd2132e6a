"""Parquet files of raw records: read batch by batch, and a value that changes with files."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sharelag import schemas
from sharelag.sources.files.batches import gathered, rows_at_once
from sharelag.sources.files.bounds import check_footer, rows_within
from sharelag.sources.files.damage import reading_parquet
from sharelag.sources.files.parquet import COMPARED, whole

if TYPE_CHECKING:
    import pyarrow.dataset as ds

#: Of Parquet, where records are small; decoding has a cost a batch.
_BATCH_ROWS = 20_000


def version_of(paths: Iterable[Path]) -> Hashable:
    """Tell one state of some files from another, by their names, sizes and times."""
    found = [(str(path), path.stat()) for path in sorted(paths)]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def parquet_dataset(paths: str | list[str]) -> ds.Dataset:
    """Open Parquet files, of which only footers are read yet."""
    import pyarrow.dataset as ds  # brings pandas along, which who reads a cluster need not wait for

    # With pre_buffer files stay in memory as read.
    options = ds.ParquetFragmentScanOptions(pre_buffer=False, **COMPARED)
    return ds.dataset(paths, format=ds.ParquetFileFormat(default_fragment_scan_options=options))


def parquet_batches(
    dataset: ds.Dataset, schema: pa.Schema = schemas.RAW, what: str = "raw records"
) -> Iterator[pa.RecordBatch]:
    """Read raw records batch by batch, in the order of the log, with the types of a schema."""
    names = [name for name in schema.names if name in dataset.schema.names]
    # One file and one batch after the other: the order of a partition's records is the order of the
    # log. What is read ahead is held in memory.
    for fragment in dataset.get_fragments():
        with reading_parquet(fragment.path):
            footer = fragment.metadata
            check_footer(fragment.path, footer)
            size = sum(group.total_byte_size for group in fragment.row_groups)
            rows = rows_at_once(_BATCH_ROWS, footer.num_rows, size)
            rows = rows_within(fragment.path, footer, range(footer.num_row_groups), rows)
            batches = fragment.to_batches(
                schema=dataset.schema,
                columns=names,
                batch_size=rows,
                batch_readahead=1,
                use_threads=False,
            )
            read = (schemas.conform(one, schema, what) for one in whole(batches, footer.num_rows))
            yield from gathered(read, rows)
