"""A broker's log of requests on Spark: each task reads a piece of a file by the same functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag.errors import InputError
from sharelag.metrics.batching import batching
from sharelag.metrics.memberships import memberships
from sharelag.metrics.sessions import sessions
from sharelag.pipeline.meeting import meet
from sharelag.pipeline.pieces import PIECE, note_unread, pieces_frame
from sharelag.replay.holds import holds_of
from sharelag.schemas.arrow import for_spark
from sharelag.schemas.requests import BATCHING, HOLDS, MEMBERSHIPS, REQUEST_TABLES, SESSIONS
from sharelag.sources.files.request_log import RequestLog, read_piece
from sharelag.sources.files.text_pieces import Piece
from sharelag.sources.files.unread_lines import lacking_requests
from sharelag.sources.spark.workers import map_in_arrow
from sharelag.wire.requests.tables import tables_of

_OF_HOLDS = ("requests", "acquisitions", "acknowledgements", "state_calls")
#: Tables that take all requests of a group, what each is made of, and how.
_BY_GROUP: dict[str, tuple[pa.Schema, tuple[str, ...], Callable[..., pa.Table]]] = {
    "holds": (HOLDS, _OF_HOLDS, holds_of),
    "memberships": (MEMBERSHIPS, ("heartbeats",), memberships),
    "sessions": (SESSIONS, ("requests", "session_partitions"), sessions),
    "batching": (BATCHING, ("acquisitions", "acknowledgements"), batching),
}


def request_frame(spark: SparkSession, log: RequestLog, name: str, piece: int = PIECE) -> DataFrame:
    """Return a table of a log of requests as a DataFrame.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    log : RequestLog
        Its files must be accessible for all Spark workers.
    name : str
        One of `sharelag.schemas.requests.REQUEST_TABLES`, or ``holds``, ``memberships``,
        ``sessions`` or ``batching``.
    piece : int
        Bytes of a file that one task reads; a packed file is read by one task.

    Raises
    ------
    InputError
        There is no such table, or no request could be read.

    Notes
    -----
    The log is read once for that, ahead: a warning is logged where more than one of a hundred
    requests could not be read, as answers of one process are marked then.
    """
    if name not in _BY_GROUP and name not in REQUEST_TABLES:
        known = ", ".join([*_BY_GROUP, *REQUEST_TABLES])
        raise InputError(f"unknown table {name!r}: choose one of {known}")
    pieces = pieces_frame(spark, log.files, piece, log.path)
    if name != "rejects":
        note_unread(pieces, partial(_counted, zone=log.zone), partial(lacking_requests, log.path))
    if name in _BY_GROUP:
        return _by_group(pieces, log.zone, name)
    return _table(pieces, log.zone, name)


def _counted(piece: Piece, zone: str | None) -> Iterator[tuple[tuple[int, int], pa.RecordBatch]]:
    for lines in read_piece(piece, zone):
        yield (lines.total, lines.skipped), lines.rejects


def _table(pieces: DataFrame, zone: str | None, name: str) -> DataFrame:
    schema = REQUEST_TABLES[name]
    return map_in_arrow(pieces, partial(_read_task, name=name, zone=zone), schema)


def _read_task(
    batches: Iterable[pa.RecordBatch], name: str, zone: str | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            for lines in read_piece(Piece(**row), zone):
                yield for_spark(tables_of(lines)[name], REQUEST_TABLES[name])


def _by_group(pieces: DataFrame, zone: str | None, name: str) -> DataFrame:
    """Bring all requests of a group into one task: a session may have any share partition."""
    schema, needed, made = _BY_GROUP[name]
    frames = {one: _table(pieces, zone, one) for one in needed}
    if name == "holds":
        last = frames["requests"].agg(F.max(F.unix_micros("timestamp"))).first()
        made = partial(made, last=0 if last is None or last[0] is None else int(last[0]))
    tables = {one: frame.where("group_id is not null") for one, frame in frames.items()}
    columns = {one: REQUEST_TABLES[one] for one in needed}
    return meet(tables, columns, ["group_id"], made, schema)
