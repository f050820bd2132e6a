"""Text files on Spark: each task reads a piece of one with the functions of one process.

They are what consumers printed, and brokers' request logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag.engine.spark.packing import collect, meet
from sharelag.errors import InputError
from sharelag.inputs.files import request_log
from sharelag.inputs.files.text_pieces import Piece, pieces_of
from sharelag.inputs.spark.frames import frame_of
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.metrics.requests import batching, memberships, sessions
from sharelag.replay.holds import holds_of
from sharelag.schemas import BATCHING, CONSUMED_TABLES, HOLDS, MEMBERSHIPS, REQUEST_TABLES, SESSIONS
from sharelag.tables.arrow import for_spark
from sharelag.wire.requests.tables import tables_of

#: Yields results for the parts of a piece: ``total`` and ``skipped`` lines, ``rejects``, tables.
_Read = Callable[[Piece], Iterable[Any]]

_LOG = logging.getLogger(__name__)

#: Number of a file's bytes that one task reads.
PIECE = 64 << 20
_PIECES = pa.schema(
    [("file", pa.string()), ("begin", pa.int64()), ("end", pa.int64()), ("source", pa.string())]
)
_NUMBERS = ("total", "skipped", "rejects")
#: Counts of a part of a piece: its lines, and the first one that could not be read.
_COUNTS = pa.schema(
    [
        *(("source", pa.string()), ("begin", pa.int64())),
        *((name, pa.int64()) for name in _NUMBERS),
        *(("reason", pa.string()), ("text", pa.string())),
    ]
)
_HOLDS_TABLES = ("requests", "acquisitions", "acknowledgements", "state_calls")
#: Tables that need all requests of a group, with their inputs and functions.
_BY_GROUP: dict[str, tuple[pa.Schema, tuple[str, ...], Callable[..., pa.Table]]] = {
    "holds": (HOLDS, _HOLDS_TABLES, holds_of),
    "memberships": (MEMBERSHIPS, ("heartbeats",), memberships),
    "sessions": (SESSIONS, ("requests", "session_partitions"), sessions),
    "batching": (BATCHING, ("acquisitions", "acknowledgements"), batching),
}


def consumed(
    spark: SparkSession,
    path: str | Path,
    table: str = "deliveries",
    *,
    separator: str = "\t",
    piece: int = PIECE,
) -> DataFrame:
    r"""Read the output of Kafka's consumers, or of your own callback.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    path : str or pathlib.Path
        A file, or a folder of files, which all Spark workers can read.
    table : str
        One of `sharelag.schemas.CONSUMED_TABLES`.
    separator : str
        The ``key.separator`` of the console consumer; ``\t`` is its default.
    piece : int
        Number of bytes that one task reads; a compressed file is read by one task.

    Raises
    ------
    InputError
        There is no such table or file, or no line could be read.

    Notes
    -----
    The files are read once in advance, to log a warning if more than one in a hundred lines could
    not be read; the command marks its answer in this case.
    """
    if table not in CONSUMED_TABLES:
        raise InputError(f"unknown table {table!r}: choose one of {', '.join(CONSUMED_TABLES)}")
    log = request_log.ConsumedLog(Path(path))
    pieces = _pieces_frame(spark, log.files, piece, log.path)
    read = partial(request_log.read_output, separator=separator)
    if table != "rejects":
        _note_unread(pieces, read, partial(request_log.lacking_lines, log.path, name=table))
    return _map_lines(pieces, read, lambda _, lines: getattr(lines, table), CONSUMED_TABLES[table])


def request_frame(
    spark: SparkSession, log: request_log.RequestLog, name: str, piece: int = PIECE
) -> DataFrame:
    """Return a table of a request log as a DataFrame.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    log : RequestLog
        All Spark workers must be able to read its files.
    name : str
        One of `sharelag.schemas.REQUEST_TABLES`, or ``holds``, ``memberships``,
        ``sessions`` or ``batching``.
    piece : int
        Number of bytes that one task reads; a compressed file is read by one task.

    Raises
    ------
    InputError
        There is no such table, or no request could be read.

    Notes
    -----
    The log is read once in advance, to log a warning if more than one in a hundred requests could
    not be read; answers of one process are marked in this case.
    """
    if name not in _BY_GROUP and name not in REQUEST_TABLES:
        known = ", ".join([*_BY_GROUP, *REQUEST_TABLES])
        raise InputError(f"unknown table {name!r}: choose one of {known}")
    pieces = _pieces_frame(spark, log.files, piece, log.path)
    read = partial(request_log.read_requests, zone=log.zone)
    if name != "rejects":
        _note_unread(pieces, read, partial(request_log.lacking_requests, log.path))
    if name in _BY_GROUP:
        return _meet_groups(pieces, read, name)
    return _request_table(pieces, read, name)


def _meet_groups(pieces: DataFrame, read: _Read, name: str) -> DataFrame:
    """Bring all requests of a group into one task: a session may have any share partition."""
    schema, needed, made = _BY_GROUP[name]
    frames = {one: _request_table(pieces, read, one) for one in needed}
    if name == "holds":
        last = frames["requests"].agg(F.max(F.unix_micros("timestamp"))).first()
        made = partial(made, last=0 if last is None or last[0] is None else int(last[0]))
    tables = {one: frame.where("group_id is not null") for one, frame in frames.items()}
    columns = {one: REQUEST_TABLES[one] for one in needed}
    return meet(tables, columns, ["group_id"], lambda **tables: made(tables), schema)


def _request_table(pieces: DataFrame, read: _Read, name: str) -> DataFrame:
    return _map_lines(pieces, read, lambda _, lines: tables_of(lines)[name], REQUEST_TABLES[name])


def _map_lines(
    pieces: DataFrame,
    read: _Read,
    each: Callable[[dict[str, Any], Any], pa.RecordBatch],
    schema: pa.Schema,
) -> DataFrame:
    """Apply a function to each piece, as a row with the results for its lines."""

    def read_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                for lines in read(Piece(**row)):
                    yield for_spark(each(row, lines), schema)

    return map_in_arrow(pieces, read_task, schema)


def _pieces_frame(spark: SparkSession, files: Iterable[Path], size: int, given: Path) -> DataFrame:
    """Return one row per piece of the given files, each in a separate partition."""
    pieces = [vars(one) for file in files for one in pieces_of(file.absolute(), size, given)]
    rows = pa.Table.from_pylist(pieces, schema=_PIECES)
    return frame_of(spark, rows).repartition(len(pieces))


def _note_unread(
    pieces: DataFrame, read: _Read, lacking: Callable[[request_log.LineCounts], tuple[str, ...]]
) -> None:
    """Read pieces once, and warn if a table of them is incomplete: a DataFrame has no other mark.

    ``lacking`` says what is missing, or raises an error if nothing could be read.
    """

    def count_lines(row: dict[str, Any], lines: Any) -> pa.RecordBatch:
        counts = request_log.LineCounts.of((lines.total, lines.skipped), lines.rejects)
        place = {"source": row["source"], "begin": row["begin"]}
        numbers = {name: getattr(counts, name) for name in _NUMBERS}
        one = {**(counts.first or {}), **place, **numbers}
        return pa.RecordBatch.from_pylist([one], schema=_COUNTS)

    rows = collect(_map_lines(pieces, read, count_lines, _COUNTS), _COUNTS)
    rows = rows.sort_by([("source", "ascending"), ("begin", "ascending")])
    total, skipped, rejects = (sum(rows.column(name).to_pylist()) for name in _NUMBERS)
    first = rows.filter(rows.column("reason").is_valid()).slice(0, 1).to_pylist()
    counts = request_log.LineCounts(total, skipped, rejects, first[0] if first else None)
    for sentence in lacking(counts):
        _LOG.warning("this frame is not complete: it lacks %s", sentence)
