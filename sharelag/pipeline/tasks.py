"""What Spark's tasks do with raw records: read them from files, decode, keep what counts, pack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from sharelag import schemas
from sharelag.replay.moment import Moment, filter_groups, up_to
from sharelag.replay.order import by_share_partition, codes_of
from sharelag.replay.state import drop_superseded
from sharelag.replay.stream import Latest
from sharelag.schemas.arrow import for_spark, one_batch
from sharelag.sources.files.pieces import Plan, read_pieces
from sharelag.sources.kafka.config import ClientConfig
from sharelag.sources.kafka.fetch import Ranges, read_ranges
from sharelag.wire.decode import decode_arrow

Batches: TypeAlias = Iterator[pa.RecordBatch]
Task: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Batches]

#: What replay reads of a record; the rest stays where it is.
REPLAYED = pa.schema([field for field in schemas.RECORDS if field.name != "unknown_tags"])
#: What a task counted of the raw records that it read; null in rows of other kinds.
COUNTED = pa.schema(
    [
        ("counted_records", pa.int64()),
        ("rejected", pa.int64()),  # that could not be decoded
        ("first", schemas.TIMESTAMP),  # when the first and the last of the records were written
        ("last", schemas.TIMESTAMP),
    ]
)
#: Records of one partition of the state topic as Arrow's bytes, which Spark moves as they are, or
#: a row that counts. Nested columns would be taken apart and put together row by row.
PACKED = pa.schema(
    [("topic", pa.string()), ("record_partition", pa.int32()), ("rows", pa.binary()), *COUNTED]
)
#: So many rows are packed together.
_PACKED_ROWS = 4096
#: Superseded records are dropped when so many rows, or bytes, are gathered.
_GATHERED_ROWS, _GATHERED_BYTES = 250_000, 128 << 20
#: A task fetches so many records of a cluster, or one partition of its topic.
_FETCHED_ROWS = 200_000
#: A task that needs all of its records holds at most so many rows, and bytes.
_MOST_ROWS, _MOST_BYTES = 2_000_000, 256 << 20


@dataclass(frozen=True)
class Files:
    """Raw records in files that tasks read themselves."""

    spark: SparkSession
    plan: Plan

    @property
    def are_whole(self) -> bool:
        """Whether each state partition is in one task, which can hold its records."""
        return self.plan.whole and all(
            sum(one.rows for one in task) <= _MOST_ROWS
            and sum(one.size for one in task) <= _MOST_BYTES
            for task in self.plan.tasks
        )


@dataclass(frozen=True)
class Logs:
    """Raw records of a topic in a cluster that tasks fetch themselves, whole partitions each.

    So records never pass through the JVM: what leaves a task is what it made of them.
    """

    spark: SparkSession
    config: ClientConfig
    topic: str
    ranges: Ranges


@dataclass(frozen=True)
class FileRecords:
    """Decoded records of files, where each task has all records of its share partitions.

    Parameters
    ----------
    files : Files
        Whole ones.
    chosen : tuple of callables
        Each leaves some rows of a batch of `REPLAYED`.
    generation : int, optional
        As for `sharelag.wire.decode_arrow`.
    """

    files: Files
    chosen: tuple[Callable[[pa.RecordBatch], pa.RecordBatch], ...] = ()
    generation: int | None = None

    def where(self, chosen: Callable[[pa.RecordBatch], pa.RecordBatch]) -> FileRecords:
        """Return those records that a function leaves."""
        return replace(self, chosen=(*self.chosen, chosen))

    def map_whole(
        self, each: Callable[[pa.RecordBatch], schemas.Arrow], schema: pa.Schema
    ) -> DataFrame:
        """Apply a function to all records of some share partitions at a time."""
        # Not the session, which stays where it is.
        chosen, generation = self.chosen, self.generation

        def whole_task(raw: Iterable[pa.RecordBatch]) -> Batches:
            found = []
            for batch in raw:
                decoded = decode_arrow(batch, generation=generation)
                records = decoded.records.select(REPLAYED.names)
                for choose in chosen:
                    records = choose(records)
                found.append(records)
            for part in whole_parts(one_batch(pa.Table.from_batches(found, REPLAYED))):
                yield for_spark(one_batch(each(part)), schema)

        return map_raw(self.files, whole_task, schema)


def map_raw(
    raw: DataFrame | Files | Logs,
    task: Task,
    schema: pa.Schema,
    columns: Sequence[str] = schemas.RAW.names,
) -> DataFrame:
    """Apply a function to the raw records of each task, wherever they come from."""
    if isinstance(raw, DataFrame):
        return raw.select(list(columns)).mapInArrow(task, schemas.spark_schema(schema))
    # Not the session, which stays where it is.
    parts, read = _of_files(raw, columns) if isinstance(raw, Files) else _of_logs(raw, columns)

    def read_task(batches: Iterable[pa.RecordBatch]) -> Batches:
        numbers = [number for batch in batches for number in batch.column("id").to_pylist()]
        mine = [part for number in numbers for part in parts[number]]
        yield from task(_Again(partial(read, mine)))

    numbers = raw.spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(read_task, schemas.spark_schema(schema))


@dataclass(frozen=True)
class _Again:
    """Raw records that are read whenever they are iterated over."""

    read: Callable[[], Batches]

    def __iter__(self) -> Batches:
        return self.read()


def _of_files(raw: Files, columns: Sequence[str]) -> tuple[list[list[Any]], Callable[..., Batches]]:
    """Return the pieces of each task, and what reads them."""
    return raw.plan.tasks or [[]], partial(read_pieces, columns=columns)


def _of_logs(raw: Logs, columns: Sequence[str]) -> tuple[list[list[Any]], Callable[..., Batches]]:
    """Return the partitions of each task, the longest dealt out first, and what fetches them."""
    config, topic = raw.config, raw.topic
    longest = sorted(raw.ranges.items(), key=lambda one: one[1][0] - one[1][1])
    records = sum(end - first for _, (first, end) in longest)
    count = min(max(1, len(longest)), 1 + records // _FETCHED_ROWS)
    parts: list[list[Any]] = [[] for _ in range(count)]
    for one in longest:
        min(parts, key=lambda part: sum(end - first for _, (first, end) in part)).append(one)

    def fetch(mine: Sequence[tuple[int, tuple[int, int]]]) -> Batches:
        for batch in read_ranges(config, topic, dict(mine)):
            yield batch.select(list(columns))

    return parts, fetch


def counted(found: Latest, schema: pa.Schema) -> Batches:
    """Yield the counts of some records as a row of a schema with the columns of `COUNTED`."""
    counts = pa.array([found.records]), pa.array([found.rejected])
    times = [pa.array([at], pa.int64()).view(schemas.TIMESTAMP) for at in (found.first, found.last)]
    yield for_spark(pa.RecordBatch.from_arrays([*counts, *times], schema=COUNTED), schema)


class Counter:
    """Count what is decoded, each record as it tells, or as one of a generation."""

    def __init__(self, generation: int | None = None) -> None:
        self._generation = generation
        self._rows: list[tuple[int, int, int | None, int | None]] = []

    def decode(
        self, raw: Iterable[pa.RecordBatch], as_of: Moment, groups: frozenset[str]
    ) -> Batches:
        """Yield the records of some groups up to a moment, and count them."""
        for batch in raw:
            decoded = decode_arrow(batch, generation=self._generation)
            written = up_to(decoded.records, as_of)
            records = filter_groups(written, groups)
            span = pc.min_max(written.column("timestamp").view(pa.int64())).as_py()
            self._rows.append(
                (records.num_rows, decoded.rejects.num_rows, span["min"], span["max"])
            )
            yield records.select(REPLAYED.names)

    def row(self, schema: pa.Schema) -> Batches:
        """Yield what was counted, as a row of a schema with the columns of `COUNTED`."""
        if not self._rows:
            return
        records, rejected, first, last = zip(*self._rows, strict=True)
        known = [time for time in (*first, *last) if time is not None]
        times = min(known, default=None), max(known, default=None)
        none = pa.RecordBatch.from_pylist([], schema=schemas.WINDOWS)
        yield from counted(Latest(none, sum(records), sum(rejected), *times), schema)


def gathered(records: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Gather records, and drop superseded ones whenever there are many."""
    parts: list[pa.RecordBatch] = []
    rows = size = kept_rows = kept_size = 0
    for batch in records:
        parts.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > max(_GATHERED_ROWS, 2 * kept_rows) or size > max(_GATHERED_BYTES, 2 * kept_size):
            parts = [drop_superseded(pa.Table.from_batches(parts))]
            rows = kept_rows = parts[0].num_rows
            size = kept_size = parts[0].nbytes
    return one_batch(pa.Table.from_batches(parts, None if parts else REPLAYED))


def whole_parts(records: pa.RecordBatch, rows: int = _GATHERED_ROWS) -> Batches:
    """Cut records into parts of about so many rows, with all those of a share partition in one."""
    if records.num_rows <= rows:
        yield records
        return
    order, bounds = by_share_partition(records)
    cuts = bounds[np.searchsorted(bounds, np.arange(0, len(order), rows))]
    for begin, end in pairwise(np.unique([*cuts, len(order)]).tolist()):
        yield records.take(pa.array(order[begin:end]))


def packed(records: pa.RecordBatch) -> Batches:
    """Yield records as rows of `PACKED`, each partition of the state topic for itself."""
    if not records.num_rows:
        return
    codes = [codes_of(records.column(name)) for name in PACKED.names[:2]]
    order = np.lexsort(codes[::-1])
    changed = np.logical_or.reduce([np.diff(code[order]) != 0 for code in codes])
    bounds = [0, *(np.flatnonzero(changed) + 1).tolist(), len(order)]
    together = records.take(pa.array(order))
    for begin, end in pairwise(bounds):
        yield from as_bytes(together.slice(begin, end - begin), PACKED)


def as_bytes(table: pa.RecordBatch, schema: pa.Schema) -> Batches:
    """Yield some rows at a time as one row, with their bytes and with the first one's columns."""
    for first in range(0, table.num_rows, _PACKED_ROWS):
        part = table.slice(first, _PACKED_ROWS)
        beside = [name for name in schema.names if name in part.schema.names]
        rows = pa.array([_to_bytes(part)], pa.binary())
        yield for_spark(part.slice(0, 1).select(beside).append_column("rows", rows), schema)


def unpacked(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the rows that `as_bytes` made bytes of."""
    for batch in batches:
        for rows in batch.column("rows").drop_null():
            yield from pa.ipc.open_stream(rows.as_buffer())


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
