"""A broker's log of requests on Spark: each task reads a piece of a file by the same functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.pipeline.collecting import frame_of
from sharelag.pipeline.meeting import meet
from sharelag.replay.holds import holds_of
from sharelag.schemas.arrow import for_spark
from sharelag.schemas.requests import HOLDS, REQUEST_TABLES
from sharelag.sources.files.request_log import Piece, RequestLog, read_piece
from sharelag.wire.requests.tables import tables_of

#: Bytes of a file that one task reads.
PIECE = 64 << 20
_PIECES = pa.schema([("file", pa.string()), ("begin", pa.int64()), ("end", pa.int64())])
#: What `holds_of` needs.
_OF_HOLDS = ("requests", "acquisitions", "acknowledgements", "state_calls")


def request_frame(spark: SparkSession, log: RequestLog, name: str, piece: int = PIECE) -> DataFrame:
    """Return a table of a log of requests as a DataFrame.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    log : RequestLog
        Its files must be accessible for all Spark workers.
    name : str
        One of `sharelag.schemas.requests.REQUEST_TABLES`, or ``holds``.
    piece : int
        Bytes of a file that one task reads; a packed file is read by one task.

    Raises
    ------
    InputError
        There is no such table.
    """
    if name == "holds":
        return _holds(spark, log, piece)
    if name not in REQUEST_TABLES:
        raise InputError(
            f"unknown table {name!r}: choose one of holds, {', '.join(REQUEST_TABLES)}"
        )
    schema = REQUEST_TABLES[name]
    pieces = [one for file in log.files for one in _pieces_of(str(file), piece)]
    rows = pa.Table.from_pylist([vars(one) for one in pieces], schema=_PIECES)
    frame = frame_of(spark, rows).repartition(len(pieces))
    return frame.mapInArrow(
        partial(_read_task, name=name, zone=log.zone), schemas.spark_schema(schema)
    )


def _pieces_of(file: str, piece: int) -> Iterator[Piece]:
    if file.endswith(".gz"):
        yield Piece(file)
        return
    with pa.OSFile(file) as opened:
        size = opened.size()
    for begin in range(0, max(size, 1), piece):
        yield Piece(file, begin, min(begin + piece, size))


def _read_task(batches: Iterable[pa.RecordBatch], name: str, zone: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            for lines in read_piece(Piece(**row), zone):
                yield for_spark(tables_of(lines)[name], REQUEST_TABLES[name])


def _holds(spark: SparkSession, log: RequestLog, piece: int) -> DataFrame:
    """Bring all requests of a group into one task: a session may have any share partition."""
    frames = {name: request_frame(spark, log, name, piece) for name in _OF_HOLDS}
    last = frames["requests"].agg(F.max(F.unix_micros("timestamp"))).first()
    end = 0 if last is None or last[0] is None else int(last[0])
    tables = {name: frame.where("group_id is not null") for name, frame in frames.items()}
    columns = {name: REQUEST_TABLES[name] for name in _OF_HOLDS}
    return meet(tables, columns, ["group_id"], partial(_held, last=end), HOLDS)


def _held(tables: dict[str, pa.Table], last: int) -> pa.Table:
    return holds_of(tables, last)
