"""Move tables through Spark as Arrow bytes: to this process, and into one task by their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sharelag import schemas
from sharelag.inputs.files.pieces import gather_batches, group_batches
from sharelag.inputs.spark import java
from sharelag.inputs.spark.frames import as_frame
from sharelag.inputs.spark.workers import explain_failures, map_in_arrow
from sharelag.replay import members
from sharelag.replay.columns import codes_of
from sharelag.tables.arrow import as_table, ascending, batch_of, flat, for_spark, one_batch
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular

Batches: TypeAlias = Iterator[pa.RecordBatch]

#: Columns of decoded records that replay reads, by topic.
REPLAYED = {
    STATE_TOPIC: pa.schema([field for field in schemas.RECORDS if field.name != "unknown_tags"]),
    GROUP_TOPIC: members.REPLAYED,
}
#: Prefix of the keys of records that belong to a less common topic, on the way from Spark to
#: Python: a column of topics makes a scan a tenth slower. No key of Kafka has this prefix.
OTHER = b"\xff\xff"
#: Columns of a packed raw record.
PACKED_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
#: Some records of one partition as Arrow bytes.
PACKED = pa.schema({"topic": pa.string(), "partition": pa.int32(), "first_offset": pa.int64(),
                    "rows": pa.binary()})  # fmt: skip
#: Tables found by tasks, by name, as Arrow bytes.
FOUND = pa.schema([("name", pa.string()), ("rows", pa.binary())])
#: Limits of records and bytes that a task packs at a time, and of packed records that it decodes.
_PACKED_ROWS, _PACKED_BYTES, _UNPACKED_ROWS = 100_000, 64 << 20, 50_000
#: Maximum number of a table's rows packed together, so that they fit into a row of Spark.
_TABLE_ROWS = 500_000
#: Packed bytes are compressed: Spark copies them six times.
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


def pack_table(name: str, table: schemas.Arrow) -> pa.RecordBatch:
    """Return a table as rows of `FOUND`."""
    whole = as_table(table)
    parts = [whole.slice(at, _TABLE_ROWS) for at in range(0, len(whole), _TABLE_ROWS)]
    packed = pa.array([to_bytes(part) for part in parts], pa.binary())
    return pa.RecordBatch.from_arrays([pa.array([name] * len(parts)), packed], schema=FOUND)


def unpack_table(found: schemas.Arrow, name: str, schema: pa.Schema) -> pa.Table:
    """Return a table from rows of `FOUND`."""
    rows = found.filter(pc.equal(found.column("name"), name)).column("rows")
    tables = [read_tables(one.as_buffer(), schema) for one in rows]
    return pa.concat_tables([schema.empty_table(), *tables])


def read_tables(rows: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Return the concatenation of the tables in rows of `FOUND`."""
    source, found = pa.BufferReader(rows), [schema.empty_table()]
    while source.tell() < source.size():
        found.append(pa.ipc.open_stream(source).read_all().cast(schema, safe=False))
    return pa.concat_tables(found)


def to_bytes(table: pa.Table) -> bytes:
    """Return a table as compressed Arrow bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def name_topics(raw: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """Return records with their topics, which are in the keys unless it is the given topic.

    Such a key is `OTHER`, then ``=`` and the name unless it is null, NUL, and ``=`` and the key
    unless it is null.
    """
    keys = raw.column("key")
    topics = pa.repeat(topic, len(keys))
    ends = pc.if_else(pc.starts_with(keys, OTHER), pc.find_substring(keys, b"\0"), None)
    for end in pc.unique(ends).drop_null().to_pylist():  # names of equal length at a time
        mine = pc.equal(ends, end).fill_null(False)
        marked = keys.filter(mine)
        names = _unmark(pc.binary_slice(marked, len(OTHER), end)).cast(pa.string())
        topics = pc.replace_with_mask(topics, mine, names)
        rest = _unmark(pc.binary_replace_slice(marked, 0, end + 1, b""))
        keys = pc.replace_with_mask(keys, mine, rest)
    return raw.set_column(raw.schema.names.index("key"), "key", keys).append_column("topic", topics)


def _unmark(marked: pa.Array) -> pa.Array:
    # binary_slice would fail if all are empty.
    rest = pc.binary_replace_slice(marked, 0, 1, b"")
    return pc.if_else(pc.starts_with(marked, b"="), rest, None)


def complete_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema; null if a batch lacks one."""
    arrays = [
        batch.column(field.name).cast(field.type, safe=False)  # Spark's microseconds
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def pack_records(batches: Iterable[pa.RecordBatch], place: Sequence[str]) -> Batches:
    """Yield records as rows of `PACKED`; ``place`` names the columns of a record's position."""
    filled = (batch for batch in batches if batch.num_rows)
    for held in group_batches(filled, _PACKED_ROWS, _PACKED_BYTES):
        yield _pack_rows(held, place)


def _pack_rows(held: list[pa.RecordBatch], place: Sequence[str]) -> pa.RecordBatch:
    table = one_batch(pa.Table.from_batches(held))
    topics = table.column(place[0]).cast(pa.string())
    known = (topics.fill_null(""), *(table.column(name) for name in place[1:]))
    codes = [codes_of(column) for column in known]
    order = np.lexsort(codes[::-1])
    together = table.drop_columns(list(place[:2]))
    if (np.diff(order) != 1).any():
        together = together.take(pa.array(order))
    changed = np.logical_or.reduce([np.diff(code[order]) != 0 for code in codes[:2]])
    bounds = [0, *(np.flatnonzero(changed) + 1).tolist(), len(order)]
    sink, ends = pa.BufferOutputStream(), [0]
    for begin, end in pairwise(bounds):
        part = together.slice(begin, end - begin)
        with pa.ipc.new_stream(sink, part.schema, options=_COMPRESSED) as writer:
            writer.write_batch(part)
        ends.append(sink.tell())
    first = pa.array(order[bounds[:-1]])
    offsets = pa.py_buffer(np.array(ends, np.int32))
    packed = pa.Array.from_buffers(pa.binary(), len(first), [None, offsets, sink.getvalue()])
    columns = [topics.take(first), *(table.column(name).take(first) for name in place[1:]), packed]
    return batch_of(dict(zip(PACKED.names, columns, strict=True)), PACKED)


def unpack_records(packed: pa.Table, decoded: str = "") -> Batches:
    """Yield the records of `PACKED`, several rows at once; raw, or decoded records of a topic."""
    schema = REPLAYED[decoded] if decoded else schemas.RAW
    names = ("topic", "record_partition" if decoded else "partition")
    columns = [packed.column(name) for name in ("topic", "partition", "rows")]

    def unpack() -> Batches:
        for *place, some in zip(*columns, strict=True):
            for batch in pa.ipc.open_stream(some.as_buffer()):
                for name, value in zip(names, place, strict=True):
                    batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
                yield complete_columns(batch, schema)

    yield from gather_batches(unpack(), _UNPACKED_ROWS)


_ROWS = pa.schema([("rows", pa.binary())])


def collect(frame: DataFrame, schema: pa.Schema) -> pa.Table:
    """Collect a DataFrame with one row per share partition, or a summary.

    The schema is that of the result; Spark's Arrow data has microseconds and other names in lists.
    """
    java.cancel_jobs()
    with explain_failures():
        return frame.select(schema.names).toArrow().cast(schema)


def stream_rows(frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a DataFrame of any size, task by task, in its order."""
    java.cancel_jobs()
    packed = map_in_arrow(frame.select(schema.names), _pack, _ROWS)
    with explain_failures():
        for row in packed.toLocalIterator(prefetchPartitions=True):
            for batch in pa.ipc.open_stream(pa.py_buffer(row.rows)):
                yield one_batch(as_table(batch).cast(schema))


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([{"rows": to_bytes(as_table(batch))}], _ROWS)


_ORDER = ("group_id", "topic", "topic_id", "partition", "member_id")


def meet(
    given: Mapping[str, Tabular | None],
    columns: Mapping[str, pa.Schema],
    by: Sequence[str],
    each: Callable[..., schemas.Arrow],
    schema: pa.Schema,
) -> DataFrame:
    """Apply a function to several tables, a few keys at a time and all rows of each.

    ``columns`` are the columns to read of each table, ``by`` the columns that all of them have.
    ``each`` takes the tables by name and returns rows of a schema; a table without rows of these
    keys is empty.
    """
    frames = {
        name: as_frame(table, columns[name], name)
        for name, table in given.items()
        if table is not None
    }
    kinds = {name: columns[name] for name in frames}  # tasks cannot take DataFrames

    def meet_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered = list(batches)
        if gathered:
            tables = {name: _select(gathered, name, kind) for name, kind in kinds.items()}
            yield for_spark(one_batch(each(**tables)), schema)

    # One column per table, so that rows of all of them can travel together.
    tagged = [
        frame.select(*by, F.struct(*kinds[name].names).alias(f"of_{name}"))
        for name, frame in frames.items()
    ]
    union = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
    return map_in_arrow(union.repartition(*by), meet_task, schema)


def _select(batches: list[pa.RecordBatch], name: str, kind: pa.Schema) -> pa.Table:
    column = flat(pa.Table.from_batches(batches).column(f"of_{name}"))
    rows = pa.RecordBatch.from_struct_array(column.filter(column.is_valid()))
    # Sums of fractions depend on the order, and Spark's varies.
    order = ascending(*(name for name in _ORDER if name in kind.names))
    return pa.Table.from_batches([rows]).select(kind.names).cast(kind).sort_by(order)
