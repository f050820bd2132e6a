"""Which parts of Parquet files hold which state partitions, so that tasks read them themselves.

Only the footers of the files are read. All records of a share partition lie in one state partition,
so a task that has whole state partitions needs no other task's records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag import schemas

#: Records of a batch that is read at once.
_BATCH_ROWS = 50_000
#: Bytes that a task should read at least, with a record's row as `_ROW_BYTES` in addition, because
#: dictionaries hide what repeated values cost. A task of this size takes a fraction of a second.
_TASK_BYTES, _ROW_BYTES = 16 << 20, 64
#: State partitions stay whole unless one of them is larger than this part of all.
_LARGEST_PART = 0.25


class Piece(NamedTuple):
    """A row group of a Parquet file."""

    path: str
    row_group: int
    rows: int
    size: int  # bytes in memory, about
    first: float  # the least and the greatest partition in it
    last: float


class Plan(NamedTuple):
    """What each task reads."""

    tasks: list[list[Piece]]
    whole: bool  # whether no partition of the topic is in more than one task


def plan(paths: Sequence[str], topic: str) -> Plan:
    """Divide the records of a topic among tasks.

    Parameters
    ----------
    paths : sequence of str
        Parquet files with the columns of `sharelag.schemas.RAW`. Records of other topics may be
        among them.
    topic : str
        Row groups without records of topics whose names end with this name are left out.

    Returns
    -------
    Plan
        Whole if partitions of the topic can be told apart and none is much larger than the others.
    """
    pieces = [piece for path in paths for piece in _pieces(path, topic)]
    groups = _groups(pieces)
    total = sum(piece.size for piece in pieces)
    largest = max((sum(piece.size for piece in group) for group in groups), default=0)
    if largest <= max(2 * _TASK_BYTES, _LARGEST_PART * total):
        return Plan(_in_tasks(groups, total), True)
    return Plan(_in_sequence(pieces), False)


def read_pieces(
    pieces: Sequence[Piece], columns: Sequence[str] = schemas.RAW.names
) -> Iterator[pa.RecordBatch]:
    """Yield the raw records of pieces, which stand in the order of their files."""
    for piece in pieces:
        with pq.ParquetFile(piece.path) as file:
            yield from file.iter_batches(
                _BATCH_ROWS, [piece.row_group], list(columns), use_threads=False
            )


def _pieces(path: str, topic: str) -> Iterator[Piece]:
    metadata = pq.read_metadata(path)
    columns = {metadata.schema.column(n).name: n for n in range(metadata.num_columns)}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        names, places = (
            _range(group.column(columns[name]).statistics) for name in ("topic", "partition")
        )
        is_other = names is not None and names[0] == names[1] and not names[0].endswith(topic)
        if group.num_rows and not is_other:
            size = group.total_byte_size + _ROW_BYTES * group.num_rows
            first, last = places or (float("-inf"), float("inf"))
            yield Piece(path, number, group.num_rows, size, first, last)


def _range(statistics: Any) -> tuple[Any, Any] | None:
    if statistics is None or not statistics.has_min_max:
        return None
    return statistics.min, statistics.max


def _groups(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Put pieces that may share a partition together, in the order of the files."""
    groups: list[list[int]] = []
    reach = float("-inf")
    for index in sorted(range(len(pieces)), key=lambda n: pieces[n].first):
        if not groups or pieces[index].first > reach:
            groups.append([])
        groups[-1].append(index)
        reach = max(reach, pieces[index].last)
    return [[pieces[index] for index in sorted(group)] for group in groups]


def _in_tasks(groups: Sequence[list[Piece]], total: int) -> list[list[Piece]]:
    """Give whole groups to tasks of about equal size, the largest first."""
    count = min(len(groups), max(1, round(total / _TASK_BYTES)))
    tasks: list[list[Piece]] = [[] for _ in range(count)]
    sizes = [0] * count
    for group in sorted(groups, key=lambda one: -sum(piece.size for piece in one)):
        least = sizes.index(min(sizes))
        tasks[least] += group
        sizes[least] += sum(piece.size for piece in group)
    return tasks


def _in_sequence(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Cut the files into tasks, whatever partitions are in each."""
    tasks: list[list[Piece]] = [[]]
    size = 0
    for piece in pieces:
        if size >= _TASK_BYTES:
            tasks.append([])
            size = 0
        tasks[-1].append(piece)
        size += piece.size
    return tasks
