"""Dead-letter queues on Spark: tasks read ranges of it, and share partitions meet their letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.engine.spark.meeting import meet
from sharelag.inputs.queues import Queue, read_queue
from sharelag.inputs.spark.files import raw_frame
from sharelag.inputs.spark.frames import as_frame, frame_of
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.metrics.dead_letters import count_letters, ledger_arrow, letters_arrow
from sharelag.schemas import ARCHIVED_RUNS, COUNTED_LETTERS, LEDGER, WITH_HEADERS
from sharelag.tables.arrow import for_spark, one_batch

if TYPE_CHECKING:
    from sharelag.inputs.kafka.config import ClientConfig

#: Offsets of a queue that one task reads.
PIECE = 100_000
_PIECES = pa.schema([("partition", pa.int32()), ("first", pa.int64()), ("end", pa.int64())])
_BY = ["group_id", "topic_id", "partition"]


def letters(
    spark: SparkSession,
    queue: Queue,
    names: Mapping[str, str],
    groups: frozenset[str] = frozenset(),
    piece: int = PIECE,
) -> DataFrame:
    """Return the letters of a queue, `sharelag.schemas.COUNTED_LETTERS`, as `count_letters` does.

    A task reads ``piece`` offsets of a running cluster; no payload leaves the tasks.
    """
    known = dict(names)

    def letters_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = letters_arrow(batch.cast(WITH_HEADERS))
            yield for_spark(one_batch(count_letters(found, known, groups)), COUNTED_LETTERS)

    if queue.config is None:
        files = queue.paths
        given = queue.given if files is None else raw_frame(spark, files, WITH_HEADERS)
        frame = as_frame(given, WITH_HEADERS, "the dead-letter queue", spark)
        frame = frame.select(WITH_HEADERS.names)
        return map_in_arrow(frame, letters_task, COUNTED_LETTERS)
    config, topic = queue.config, queue.topic

    def read_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from letters_task(_read(config, topic, batches))

    pieces = [
        {"partition": partition, "first": begin, "end": end}
        for partition, span in queue.ranges.items()
        for begin, end in pairwise([*range(span[0], span[1], piece), span[1]])
    ]
    rows = frame_of(spark, pa.Table.from_pylist(pieces, schema=_PIECES))
    return map_in_arrow(rows.repartition(max(len(pieces), 1)), read_task, COUNTED_LETTERS)


def _read(
    config: ClientConfig, topic: str, pieces: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in pieces:
        for row in batch.to_pylist():
            yield from read_queue(config, topic, {row["partition"]: (row["first"], row["end"])})


def ledger(
    archived: DataFrame, found: DataFrame, lag: DataFrame, limits: pa.Table, now: int
) -> DataFrame:
    """Compare archived offsets with letters, each share partition in one task.

    The tables are `sharelag.schemas.ARCHIVED_RUNS`, `COUNTED_LETTERS` and `LAG`; the result is
    `LEDGER`.
    """
    tables = {"archived": archived, "letters": found, "lag": lag}
    columns = {"archived": ARCHIVED_RUNS, "letters": COUNTED_LETTERS, "lag": schemas.LAG}
    return meet(tables, columns, _BY, partial(_judge, limits=limits, now=now), LEDGER)


def _judge(tables: dict[str, pa.Table], limits: pa.Table, now: int) -> pa.Table:
    return ledger_arrow(tables["archived"], tables["letters"], tables["lag"], limits, now)
