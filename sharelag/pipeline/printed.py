"""What consumers printed on Spark: each task reads a piece of a file by the same functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sharelag.errors import InputError
from sharelag.pipeline.pieces import PIECE, note_unread, pieces_frame
from sharelag.schemas.arrow import for_spark
from sharelag.schemas.consumed import CONSUMED_TABLES
from sharelag.sources.files.consumed import ConsumedLog, read_piece
from sharelag.sources.files.text_pieces import Piece
from sharelag.sources.files.unread_lines import lacking_lines
from sharelag.sources.spark.workers import map_in_arrow


def consumed(
    spark: SparkSession,
    path: str | Path,
    table: str = "deliveries",
    *,
    separator: str = "\t",
    piece: int = PIECE,
) -> DataFrame:
    r"""Read what Kafka's consumers, or a callback of your own, printed.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    path : str or pathlib.Path
        A file, or a folder of them, which all Spark workers can read.
    table : str
        One of `sharelag.schemas.consumed.CONSUMED_TABLES`.
    separator : str
        The ``key.separator`` that the console consumer was given; ``\t`` is its default.
    piece : int
        Bytes of a file that one task reads; a packed file is read by one task.

    Raises
    ------
    InputError
        There is no such table, or no file, or no line of it could be read.

    Notes
    -----
    The files are read once for that, ahead: a warning is logged where more than one of a hundred
    lines could not be read, as the command marks its answer then.
    """
    if table not in CONSUMED_TABLES:
        raise InputError(f"unknown table {table!r}: choose one of {', '.join(CONSUMED_TABLES)}")
    log = ConsumedLog(Path(path))
    pieces = pieces_frame(spark, log.files, piece, log.path)
    if table != "rejects":
        counted = partial(_counted, separator=separator)
        note_unread(pieces, counted, partial(lacking_lines, log.path, name=table))
    task = partial(_read_task, name=table, separator=separator)
    return map_in_arrow(pieces, task, CONSUMED_TABLES[table])


def _counted(piece: Piece, separator: str) -> Iterator[tuple[tuple[int, int], pa.RecordBatch]]:
    for one in read_piece(piece, separator):
        yield (one.total, one.skipped), one.rejects


def _read_task(
    batches: Iterable[pa.RecordBatch], name: str, separator: str
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            for printed in read_piece(Piece(**row), separator):
                yield for_spark(getattr(printed, name), CONSUMED_TABLES[name])
