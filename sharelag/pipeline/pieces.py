"""Text files in pieces, one a Spark task."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sharelag.pipeline.collecting import frame_of
from sharelag.sources.files.text_pieces import pieces_of

#: Bytes of a file that one task reads.
PIECE = 64 << 20
_PIECES = pa.schema(
    [("file", pa.string()), ("begin", pa.int64()), ("end", pa.int64()), ("source", pa.string())]
)


def pieces_frame(spark: SparkSession, files: Iterable[Path], size: int, given: Path) -> DataFrame:
    """Return a row a piece of the files of what was given, each in a separate partition."""
    pieces = [vars(one) for file in files for one in pieces_of(file, size, given)]
    rows = pa.Table.from_pylist(pieces, schema=_PIECES)
    return frame_of(spark, rows).repartition(len(pieces))
