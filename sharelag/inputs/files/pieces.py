"""Plan which parts of Parquet files each task reads, so that it has whole state partitions.

The plan reads only the footers. All records of a share partition are in one state partition, so a
task with whole state partitions needs no other task's records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files.parquet import (
    check_footer,
    check_whole,
    open_parquet,
    readable_group,
    reading_parquet,
    rows_within,
)
from sharelag.inputs.files.raw_files import (
    Condition,
    RawFile,
    columns_of,
    complete_columns,
    of_paths,
)
from sharelag.tables.arrow import one_batch
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

T = TypeVar("T")

#: Bytes of a batch. Reading and decoding it takes several times as much, all of which should still
#: be in the processor's cache when the batch is replayed.
_BYTES = 8 << 20


def rows_at_once(most: int, rows: int, size: int) -> int:
    """Return how many rows to read at once: at most ``most``, fewer if rows are large.

    ``rows`` and ``size`` (uncompressed bytes) are those of a file or a part of it.
    """
    return max(1, min(most, _BYTES * rows // max(size, 1)))


def group_batches(
    batches: Iterable[pa.RecordBatch], rows: int, size: int
) -> Iterator[list[pa.RecordBatch]]:
    """Group consecutive batches up to ``rows`` and ``size`` bytes; a larger batch stays alone."""
    found: list[pa.RecordBatch] = []
    count = total = 0
    for batch in batches:
        if found and (count + batch.num_rows > rows or total + batch.nbytes > size):
            yield found
            found, count, total = [], 0, 0
        found.append(batch)
        count, total = count + batch.num_rows, total + batch.nbytes
    if found:
        yield found


def gather_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Join small batches, each the end of a row group, up to ``rows`` or `_BYTES`.

    The overhead of a batch is the same for a single row as for thousands.
    """
    for found in group_batches(batches, rows, _BYTES):
        yield found[0] if len(found) == 1 else one_batch(pa.Table.from_batches(found))


def by_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Group raw records by partition into tables, each a row group to write.

    Brokers return some records of each partition in turn: in that order no task could read whole
    partitions on its own. Records of a partition stay in order; at most `_HELD_BYTES` and a batch
    are held in memory.
    """
    held: dict[tuple[str, int], list[pa.RecordBatch]] = {}
    size = Counter[tuple[str, int]]()
    for batch in batches:
        for place, records in _apart(batch):
            held.setdefault(place, []).append(records)
            size[place] += records.nbytes
        while size.total() > _HELD_BYTES:
            ((largest, _),) = size.most_common(1)
            del size[largest]
            yield pa.Table.from_batches(held.pop(largest))
    # Join small remainders: opening a row group takes as long as reading a thousand rows.
    for _, places in groupby(sorted(held), key=itemgetter(0)):
        rest = (one_batch(pa.Table.from_batches(held[place])) for place in places)
        for group in group_batches(rest, _FEW_ROWS, _BYTES):
            yield pa.Table.from_batches(group)


def _apart(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Yield the records of each partition, as ``((topic, partition), records)``."""
    topic, partition = batch.column("topic").dictionary_encode(), batch.column("partition")
    place = topic.indices.to_numpy().astype(np.int64) << 32 | partition.to_numpy()
    if (np.diff(place) < 0).any():
        order = np.argsort(place, kind="stable")
        place, batch = place[order], batch.take(pa.array(order))
    cuts = [0, *np.flatnonzero(np.diff(place)) + 1, len(place)] if len(place) else []
    for first, end in pairwise(cuts):
        name = topic.dictionary[int(place[first]) >> 32].as_py()
        yield (name, int(place[first]) & 0xFFFFFFFF), batch.slice(first, end - first)


# ---- pieces of files ----------------------------------------------------------------------------


#: Rows of a batch, if rows are small.
_BATCH_ROWS = 50_000
#: The same for a process that reads only one batch.
_FEW_ROWS = 20_000
#: Maximum bytes in memory while records are grouped by partition.
_HELD_BYTES = 64 << 20
#: Minimum bytes for a task, plus `_ROW_BYTES` per record, because dictionaries hide the cost of
#: repeated values. A task of this size takes a fraction of a second.
_TASK_BYTES, _ROW_BYTES = 16 << 20, 64
#: State partitions stay whole unless one of them exceeds this part of the total.
_LARGEST_PART = 0.25
#: Minimum and maximum of a column; None if there may be other values.
_Range: TypeAlias = tuple[Any, Any] | None


class Piece(NamedTuple):
    """A row group of a Parquet file."""

    file: RawFile
    row_group: int
    rows: int
    size: int  # approximate bytes in memory
    first: float  # its minimum and maximum partition
    last: float
    footer: tuple[int, int, int]  # rows, row groups and bytes, to detect a rewritten file


class Plan(NamedTuple):
    """The pieces of each task."""

    tasks: list[list[Piece]]
    whole: bool  # whether no partition is divided among tasks


def plan(
    paths: Sequence[str | RawFile], topic: str | None, schema: pa.Schema = schemas.RAW
) -> Plan:
    """Divide the records of a topic among tasks.

    If a topic is named, row groups with only the other internal topic are skipped; those of users'
    topics are not, because they may have control records with share state. Partitions stay whole
    unless one is much larger than the others.
    """
    pieces = [piece for file in of_paths(paths) for piece in pieces_of(file, topic, schema)]
    groups, total = _groups(pieces), _size(pieces)
    if max(map(_size, groups), default=0) <= max(2 * _TASK_BYTES, _LARGEST_PART * total):
        # In the order of files, so that each task opens a file once.
        order = {piece: number for number, piece in enumerate(pieces)}
        count = min(len(groups), max(1, round(total / _TASK_BYTES)))
        tasks = [chain.from_iterable(task) for task in deal_out(groups, _size, count)]
        return Plan([sorted(task, key=order.__getitem__) for task in tasks], True)
    return Plan(_in_sequence(pieces), False)


def _size(pieces: Iterable[Piece]) -> int:
    return sum(piece.size for piece in pieces)


def deal_out(items: Iterable[T], size_of: Callable[[T], int], count: int) -> list[list[T]]:
    """Distribute items among ``count`` tasks of about equal size, largest first."""
    tasks: list[list[T]] = [[] for _ in range(count)]
    sizes = [0] * count
    for item in sorted(items, key=size_of, reverse=True):
        least = sizes.index(min(sizes))
        tasks[least].append(item)
        sizes[least] += size_of(item)
    return tasks


def read_pieces(
    pieces: Sequence[Piece],
    columns: Sequence[str] = schemas.RAW.names,
    rows: int = _BATCH_ROWS,
    schema: pa.Schema = schemas.RAW,
) -> Iterator[pa.RecordBatch]:
    """Yield the raw records of pieces in the order of their files, at most ``rows`` at once."""
    kept = pa.schema([schema.field(name) for name in columns])
    for one, found in groupby(pieces, key=lambda piece: piece.file):
        of_file = list(found)
        with _as_planned(one, of_file) as file:
            numbers = [piece.row_group for piece in of_file]
            count = sum(piece.rows for piece in of_file)
            most = rows_at_once(rows, count, _size(of_file))
            most = rows_within(one.path, file.metadata, numbers, most)
            yield from gather_batches(_read(file, of_file, most, kept), most)


def parquet_batches(
    files: Iterable[str | RawFile], topic: str | None = None, schema: pa.Schema = schemas.RAW
) -> Iterator[pa.RecordBatch]:
    """Read raw records batch by batch, each file in its order; ``topic`` as for `plan`."""
    # One file and batch at a time: whatever is read ahead stays in memory.
    for file in of_paths(files):
        try:
            pieces = list(pieces_of(file, topic, schema))
            yield from read_pieces(pieces, schema.names, _FEW_ROWS, schema)
        except FileNotFoundError as error:
            raise InputError(
                f"{file.path} was removed while it was being read: open the input again"
            ) from error


def _read(
    file: pq.ParquetFile, pieces: Sequence[Piece], rows: int, columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    there = [name for name in columns.names if name in file.schema_arrow.names]
    for piece in pieces:
        few = rows_at_once(rows, piece.rows, piece.size)
        batches = file.iter_batches(few, [piece.row_group], there, use_threads=False)
        for batch in check_whole(batches, piece.rows):
            records = _complete(batch, piece.file, columns)
            if "partition" in columns.names:
                span = pc.min_max(records.column("partition"))
                least, most = span["min"].as_py(), span["max"].as_py()
                if least is not None and not piece.first <= least <= most <= piece.last:
                    # Another task would have other records of these partitions.
                    raise pa.ArrowInvalid("its footer has other partitions than its records")
            yield records


def _complete(batch: pa.RecordBatch, of: RawFile, columns: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema for the rows of a file that meet its conditions."""
    if not of.where:
        return complete_columns(batch, of.known, columns, of.path)
    # Compare times to the microsecond, as Spark does; Kafka has milliseconds.
    exact = [
        one.with_type(pa.timestamp("us", "UTC")) if one.type == schemas.TIMESTAMP else one
        for one in columns
    ]
    rows = complete_columns(batch, of.known, pa.schema(exact), of.path)
    return schemas.conform(rows.filter(pq.filters_to_expression([of.where])), columns, of.path)


@contextmanager
def _as_planned(of: RawFile, pieces: Sequence[Piece]) -> Iterator[pq.ParquetFile]:
    """Open the file of some pieces, and verify that it is the one in the plan."""
    path = of.path
    changed = f"{path} changed while it was being read: open the input again"
    try:
        file = open_parquet(path)
    except FileNotFoundError:
        raise  # readers of an archive know why a file may be missing
    except (OSError, pa.ArrowException) as error:  # the footer was readable before
        raise InputError(changed) from error
    with file, reading_parquet(path):
        if any(_footer(file.metadata) != piece.footer for piece in pieces):
            raise InputError(changed)
        for piece in pieces:
            _, partitions = _ranges(file, of, piece.row_group)
            if piece != _piece(of, file, piece.row_group, partitions):
                raise InputError(changed)
        yield file


def pieces_of(of: RawFile, topic: str | None, schema: pa.Schema = schemas.RAW) -> Iterator[Piece]:
    """Yield the pieces of a file that has the columns of a schema; parameters as for `plan`."""
    with reading_parquet(of.path), open_parquet(of.path) as file:
        schemas.require_conformable(columns_of(file.schema_arrow, of.known), schema, of.path)
        check_footer(of.path, file.metadata)
        for number in range(file.num_row_groups):
            compared = [name for name, *_ in of.where]
            names, partitions, *spans = _ranges(file, of, number, compared)
            piece = _piece(of, file, number, partitions)
            lacks = topic and names and names[0] == names[1] and is_other(names[0], topic)
            if piece.rows and not lacks and _may_meet(of.where, spans):
                yield piece


def _may_meet(where: Sequence[Condition], spans: Sequence[_Range]) -> bool:
    """Return whether any row can meet the conditions, by the minima and maxima of columns."""
    for (_, comparison, value), span in zip(where, spans, strict=True):
        values = value if comparison == "in" else [value]
        if span is None or any(_kind(one) != _kind(values[0]) for one in span):
            continue  # such as a time without a zone
        if not any(_WITHIN[comparison](*span, one) for one in values):
            return False
    return True


def _kind(value: Any) -> tuple[type, bool]:
    """Return the type that values must share to be comparable."""
    return type(value), getattr(value, "tzinfo", None) is None


#: Whether any value between a minimum and a maximum can meet a comparison with another value.
_WITHIN: dict[str, Callable[[Any, Any, Any], bool]] = {
    "<": lambda minimum, _, value: minimum < value,
    "<=": lambda minimum, _, value: minimum <= value,
    ">": lambda _, maximum, value: maximum > value,
    ">=": lambda _, maximum, value: maximum >= value,
    **dict.fromkeys(("==", "in"), lambda minimum, maximum, value: minimum <= value <= maximum),
}


def is_other(name: str, topic: str) -> bool:
    """Return whether a topic cannot have the records; users' topics may have those of states."""
    is_internal = name.startswith("__") or name.endswith((STATE_TOPIC, GROUP_TOPIC))
    return not name.endswith(topic) and (is_internal or topic != STATE_TOPIC)


def _piece(of: RawFile, file: pq.ParquetFile, number: int, partitions: _Range) -> Piece:
    group = file.metadata.row_group(number)
    size = group.total_byte_size + _ROW_BYTES * group.num_rows
    first, last = partitions or (float("-inf"), float("inf"))
    return Piece(of, number, group.num_rows, size, first, last, _footer(file.metadata))


def _footer(metadata: pq.FileMetaData) -> tuple[int, int, int]:
    return metadata.num_rows, metadata.num_row_groups, metadata.serialized_size


def _ranges(
    file: pq.ParquetFile, of: RawFile, number: int, more: Sequence[str] = ()
) -> list[_Range]:
    """Return the ranges of topic and partition in a row group, and of more columns."""
    # Use the path: a field inside a struct may have the name of one of these columns.
    paths = [file.schema.column(n).path for n in range(file.metadata.num_columns)]
    columns = ("topic", "partition", *more)
    names = [name for name in dict.fromkeys(columns) if name in paths]
    group = readable_group(file, number, names)
    ranges: dict[str, _Range] = {name: (at, at) for name, at in of.known if at is not None}
    ranges |= {name: _range(file, group, paths.index(name)) for name in names}
    return [ranges.get(name) for name in columns]


def _range(file: pq.ParquetFile, group: pq.RowGroupMetaData, at: int) -> _Range:
    column, planned = group.column(at), file.schema.column(at)
    if column.physical_type != planned.physical_type:  # pyarrow would abort on its statistics
        raise pa.ArrowInvalid(f"the types of {planned.path} in its footer contradict each other")
    found = column.statistics
    # Statistics exclude nulls, and a writer need not count them.
    if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
        return None
    return found.min, found.max


def _groups(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Group pieces that may share a partition, in the order of the files."""
    groups: list[list[int]] = []
    reach = float("-inf")
    for index in sorted(range(len(pieces)), key=lambda n: pieces[n].first):
        if not groups or pieces[index].first > reach:
            groups.append([])
        groups[-1].append(index)
        reach = max(reach, pieces[index].last)
    return [[pieces[index] for index in sorted(group)] for group in groups]


def _in_sequence(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Divide the files into tasks in sequence, regardless of partitions."""
    tasks: list[list[Piece]] = [[]]
    size = 0
    for piece in pieces:
        if size >= _TASK_BYTES:
            tasks.append([])
            size = 0
        tasks[-1].append(piece)
        size += piece.size
    return tasks
