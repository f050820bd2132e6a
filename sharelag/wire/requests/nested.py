"""What requests of one kind nest, as columns: rows with the request and the moment of each."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.wire.requests.lines import Completed

#: A connection is the broker's address, the client's, and two numbers.
_BROKER = r"^(?P<broker>.*?:\d+)-"
#: A line counts as a microsecond later for so many bytes of its file: fewer than a line has.
_LINE = 512
_RUN = pa.struct([("first", pa.int64()), ("last", pa.int64())])

Columns: TypeAlias = dict[str, Any]


class Nested(NamedTuple):
    """Items of all requests in their order."""

    row: pa.Array  # the request that an item is of
    items: pa.Array

    def of(self, name: str) -> pa.Array:
        """Return a field of each item."""
        return pc.struct_field(self.items, name)

    def named(self, *columns: str) -> Columns:
        """Return fields of each item as our columns."""
        return {name: self.of(json_name(name)) for name in columns}

    def into(self, name: str) -> tuple[pa.Array, Nested]:
        """Return the items of a list in each item, and which item each is of."""
        lists = self.of(name)
        parent = pc.list_parent_indices(lists)
        return parent, Nested(self.row.take(parent), pc.list_flatten(lists))


class Placed(NamedTuple):
    """Partitions of all requests, with their topics."""

    topic: pa.Array
    partitions: Nested
    number: str  # what Kafka calls the field of a partition's number

    def named(self, place: pa.Array | None = None) -> Columns:
        """Return the columns of all these partitions, or of some by their places."""
        columns = {"topic_id": self.topic, "partition": self.partitions.of(self.number)}
        return columns if place is None else {k: v.take(place) for k, v in columns.items()}


def place_partitions(bodies: Nested, topics: str = "topics", topic: str = "topicId") -> Placed:
    """Return partitions of the topics of requests or answers."""
    _, found = bodies.into(topics)
    parent, partitions = found.into("partitions")
    has_index = partitions.items.type.get_field_index("partitionIndex") >= 0
    number = "partitionIndex" if has_index else "partition"
    return Placed(found.of(topic).take(parent), partitions, number)


def keys_of(at: Placed) -> pa.Array:
    """Return one text per partition, for a look-up in the answer to the same request."""
    columns = (at.partitions.row, at.topic, at.partitions.of(at.number))
    texts = [pc.coalesce(column.cast(pa.string()), "") for column in columns]
    return pc.binary_join_element_wise(*texts, ":")


def spread(first: pa.Array, types: pa.Array) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
    """Give each offset of a batch its type, then join neighbours of one type.

    Return the batch of each run, its first and last offsets as a struct, and its type. ``first`` is
    null where the line does not say it; ``types`` has one type an offset.
    """
    batch = pc.list_parent_indices(types).to_numpy(zero_copy_only=False).astype(np.int64)
    values = pc.list_flatten(types)
    if not len(batch):
        return batch, pa.array([], _RUN), values
    number = np.arange(len(batch))
    starts = np.searchsorted(batch, batch)
    at = pc.fill_null(first, 0).to_numpy(zero_copy_only=False)[batch] + number - starts
    unknown = np.asarray(first.is_null().to_numpy(zero_copy_only=False), bool)[batch]
    kinds = values.to_numpy(zero_copy_only=False)
    begins = np.flatnonzero(
        np.concatenate([[True], (batch[1:] != batch[:-1]) | (kinds[1:] != kinds[:-1])])
    )
    ends = np.concatenate([begins[1:] - 1, [len(batch) - 1]])
    sides = [pa.array(at[side], mask=unknown[side]) for side in (begins, ends)]
    runs = pa.StructArray.from_arrays(sides, fields=list(_RUN))
    return batch[begins], runs, values.take(pa.array(begins))


class Log:
    """Requests of one kind, and the moments of what happened in them."""

    def __init__(self, one: Completed) -> None:
        self.one = one
        row = pa.array(np.arange(len(one.position)))
        self.request = Nested(row, column(one.rows, "request"))
        self.response = Nested(row, column(one.rows, "response"))
        completed = one.completed.at.cast(pa.int64()).to_numpy()
        spans = {
            name: pc.fill_null(column(one.rows, f"{name}TimeMs"), 0.0).to_numpy()
            for name in ("total", "requestQueue", "responseQueue", "send")
        }
        micros = {name: (1000 * span).astype(np.int64) for name, span in spans.items()}
        connection = column(one.rows, "connection")
        self.broker = pc.struct_field(pc.extract_regex(connection, _BROKER), "broker")
        # Within a second that a log does not divide, its order is all that is known.
        is_exact = one.completed.is_exact.to_numpy(zero_copy_only=False)
        line = np.minimum(one.position.to_numpy() // _LINE, 999_999)
        completed = completed + np.where(is_exact, 0, line)
        self.completed = completed
        self.began = completed - micros["total"]
        #: When the broker began to work on it, which is when acknowledgements count.
        self.handled = np.where(is_exact, self.began + micros["requestQueue"], completed)
        #: When the answer was there, which is when records are acquired and locks begin.
        self.answered = completed - is_exact * (micros["responseQueue"] + micros["send"])

    def made(
        self,
        schema: pa.Schema,
        row: pa.Array,
        columns: Columns,
        at: NDArray[np.int64] | None = None,
    ) -> pa.RecordBatch:
        """Return rows of a table: the columns of their lines, and these; others are null."""
        moments = pa.array(self.completed if at is None else at).cast(schemas.INSTANT)
        line = {"position": self.one.position.take(row), "timestamp": moments.take(row)}
        line["broker"] = self.broker.take(row)
        line["source"] = self.one.source
        arrays = []
        for field in schema:
            value = (line | columns).get(field.name)
            if not isinstance(value, pa.Array):
                value = pa.repeat(pa.scalar(value, field.type), len(row))
            arrays.append(value.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def asked(self, row: pa.Array, *columns: str) -> Columns:
        """Return fields of the requests of some rows as our columns."""
        return {name: found.take(row) for name, found in self.request.named(*columns).items()}


# ---- under our names and types -------------------------------------------------------------------


def column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def only_where(condition: pa.Array, values: pa.Array) -> pa.Array:
    """Return values, null where a condition does not hold."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def positive(values: pa.Array, least: int = 1) -> pa.Array:
    """Return numbers; null for those that stand for what is not known."""
    return pc.if_else(pc.greater_equal(values, least), values, pa.scalar(None, values.type))


def rename_fields(lists: pa.Array, kind: pa.ListType) -> pa.Array:
    """Return lists of structs under our names for the same fields, nulls kept."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    items = pc.list_flatten(lists)
    fields = [
        pc.struct_field(items, json_name(field.name)).cast(field.type) for field in kind.value_type
    ]
    values = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values, type=kind, mask=lists.is_null())


def json_name(column: str) -> str:
    """Return what Kafka's JSON calls a column."""
    first, *others = column.split("_")
    return first + "".join(word.capitalize() for word in others)
