"""Text files in pieces, one a Spark task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sharelag.pipeline.collecting import collected, frame_of
from sharelag.sources.files.text_pieces import Piece, pieces_of
from sharelag.sources.files.unread_lines import LineCounts
from sharelag.sources.spark.workers import map_in_arrow

_LOG = logging.getLogger(__name__)

#: Bytes of a file that one task reads.
PIECE = 64 << 20
_PIECES = pa.schema(
    [("file", pa.string()), ("begin", pa.int64()), ("end", pa.int64()), ("source", pa.string())]
)
#: Of a part of a piece: its lines, and the first of them that could not be read.
_COUNTS = pa.schema(
    [
        *(("source", pa.string()), ("begin", pa.int64())),
        *((name, pa.int64()) for name in ("total", "skipped", "rejects")),
        *(("reason", pa.string()), ("text", pa.string())),
    ]
)


def pieces_frame(spark: SparkSession, files: Iterable[Path], size: int, given: Path) -> DataFrame:
    """Return a row a piece of the files of what was given, each in a separate partition."""
    pieces = [vars(one) for file in files for one in pieces_of(file, size, given)]
    rows = pa.Table.from_pylist(pieces, schema=_PIECES)
    return frame_of(spark, rows).repartition(len(pieces))


def note_unread(
    pieces: DataFrame,
    read: Callable[[Piece], Iterable[tuple[tuple[int, int], pa.RecordBatch]]],
    lacking: Callable[[LineCounts], tuple[str, ...]],
) -> None:
    """Read pieces once, and warn of what a table of them lacks: a DataFrame has no other mark.

    Parameters
    ----------
    pieces : pyspark.sql.DataFrame
        As `pieces_frame` makes it.
    read : callable
        Yields of parts of a piece how many lines there are, how many of them are skipped, and a
        batch of the rejects.
    lacking : callable
        Says what is missing, or raises an error where nothing could be read.
    """
    rows = collected(map_in_arrow(pieces, partial(_count_task, read=read), _COUNTS), _COUNTS)
    rows = rows.sort_by([("source", "ascending"), ("begin", "ascending")])
    total, skipped, rejects = (
        sum(rows.column(name).to_pylist()) for name in ("total", "skipped", "rejects")
    )
    first = rows.filter(rows.column("reason").is_valid()).slice(0, 1).to_pylist()
    for sentence in lacking(LineCounts(total, skipped, rejects, first[0] if first else None)):
        _LOG.warning("this frame is not complete: it lacks %s", sentence)


def _count_task(
    batches: Iterable[pa.RecordBatch],
    read: Callable[[Piece], Iterable[tuple[tuple[int, int], pa.RecordBatch]]],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            for lines, rejects in read(Piece(**row)):
                counts = LineCounts.of(lines, rejects)
                numbers = {"total": lines[0], "skipped": lines[1], "rejects": counts.rejects}
                place = {"source": row["source"], "begin": row["begin"]}
                one = {**(counts.first or {}), **place, **numbers}
                yield pa.RecordBatch.from_pylist([one], schema=_COUNTS)
