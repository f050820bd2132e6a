"""Parquet files that were damaged, or written before pages had checksums."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.records import with_column


def without_checksums(path: Path) -> None:
    """Write a file again as older versions did."""
    table = pq.read_table(path)
    pq.write_table(table, path, compression="zstd")


def flip_in_a_page(path: Path, chance: random.Random) -> None:
    """Flip one bit of the pages of a column, which begin with their headers."""
    footer, octets = pq.read_metadata(path), bytearray(path.read_bytes())
    group = footer.row_group(chance.randrange(footer.num_row_groups))
    column = group.column(chance.randrange(group.num_columns))
    begin = column.dictionary_page_offset or column.data_page_offset
    octets[begin + chance.randrange(column.total_compressed_size)] ^= 1 << chance.randrange(8)
    path.write_bytes(octets)


def with_bytes_as_topic(path: Path, row: int, text: bytes) -> None:
    """Put bytes that are no text into the topic of a row."""
    table = pq.read_table(path)
    topics = [topic.encode() for topic in table.column("topic").to_pylist()]
    topics[row] = text
    column = pa.array(topics, pa.binary()).view(pa.string())
    pq.write_table(with_column(table, "topic", column), path)
