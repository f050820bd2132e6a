"""Decode records of any kind by interpreting the field tables: the reference for `decode`.

A record that cannot be decoded becomes a reject with its position, its bytes and the reason; a
record of another type (an offset commit, a consumer group's metadata) is counted as skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.compiled import ready
from sharelag.model.versions import Version, has_reached
from sharelag.schemas import FIRST_MS, LAST_MS, Arrow
from sharelag.tables.arrow import batch_of, flat, of_distinct
from sharelag.wire.fields import BATCHES, GROUP_TOPIC, STATE_TOPIC, Field
from sharelag.wire.program import (
    OK,
    REASONS,
    REFUSED_SINCE,
    SKIPPED,
    Program,
    decode_rows,
    program_for,
)

_ALPHABET = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
#: The two characters of every 12-bit number.
PAIRS = np.stack([np.repeat(_ALPHABET, 64), np.tile(_ALPHABET, 64)], axis=1).view(np.uint16)[:, 0]
#: Length of a topic id in characters.
TOPIC_ID = 22
#: Offsets of fixed-size texts: the longest array so far by size.
_multiples: dict[int, NDArray[np.int32]] = {}


def multiples(size: int, count: int) -> NDArray[np.int32]:
    """Return ``0, size, 2 * size, ...`` in shared memory, which must not be written."""
    known = _multiples.get(size)
    if known is None or len(known) < count:
        known = np.arange(1 << (count - 1).bit_length(), dtype=np.int32) * np.int32(size)
        known.setflags(write=False)
        _multiples[size] = known
    return known[:count]


def strings(binary: pa.Array) -> pa.Array:
    """Return bytes as texts; U+FFFD replaces invalid UTF-8."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return of_distinct(binary, lambda raw: raw.decode("utf-8", "replace"), pa.string())


def topic_ids(ids: NDArray[np.uint8], mask: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return topic ids as texts, null where the mask is False (these have no row in ``ids``).

    Rows of 16 bytes become 22 characters of URL-safe base64 without padding.
    """
    mask = np.ones(len(ids), bool) if mask is None else mask
    offsets = np.append(0, TOPIC_ID * np.cumsum(mask)).astype(np.int32)
    padded = np.zeros((len(ids), 18), np.uint8)
    padded[:, :16] = ids
    first, second, third = (padded[:, k::3].astype(np.uint16) for k in range(3))
    pairs = np.empty((len(ids), 6, 2), np.uint16)
    pairs[:, :, 0] = PAIRS[first << 4 | second >> 4]
    pairs[:, :, 1] = PAIRS[(second & 15) << 8 | third]
    texts = np.ascontiguousarray(pairs.view(np.uint8).reshape(len(ids), 24)[:, :TOPIC_ID])
    return from_buffers(pa.string(), offsets, texts, mask)


def from_buffers(
    kind: pa.DataType,
    offsets: NDArray[Any],
    data: NDArray[Any],
    mask: NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Return an Arrow array of texts or bytes from buffers, null where the mask is False."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    if mask is not None and not mask.all():
        buffers[0] = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


#: The first release that refuses records for their number of tagged fields.
_STRICT = "4.4"
_OUTPUT = {STATE_TOPIC: schemas.RECORDS, GROUP_TOPIC: schemas.GROUP_RECORDS}


class Decoded(NamedTuple):
    """The result of decoding a batch of raw records."""

    records: pa.RecordBatch
    rejects: pa.RecordBatch
    skipped: int


def interpret(batch: Arrow, topic: str, kafka_version: Version = None) -> Decoded:
    """Decode records; parameters, results and errors as for `sharelag.wire.decode_arrow`."""
    rows = Rows(program_for(topic), batch, topic, kafka_version=kafka_version)
    return Decoded(
        records_of(rows, rows.good, _OUTPUT[topic]),
        rejects_of(rows),
        len(rows.reason) - len(rows.good) - len(rows.bad),
    )


def topic_mask(batch: Arrow, topic: str) -> pa.Array | pa.ChunkedArray:
    """Return a mask of the rows of a topic, by name suffix: mirrored topics have a prefix.

    A row without a topic counts as a damaged record of the state topic, which the decoder rejects.
    """
    names = batch.column("topic")
    return pc.ends_with(names.cast(pa.string()), topic).fill_null(topic == STATE_TOPIC)


def of_topic(batch: Arrow, topic: str) -> Arrow:
    """Return the rows of a topic; a batch that has no others is not copied."""
    column = flat(batch.column("topic"))
    if len(column) and column.null_count == 0 and all_equal(column.cast(pa.string())):
        return batch if column[0].as_py().endswith(topic) else batch.slice(0, 0)
    return batch.filter(topic_mask(batch, topic))


def all_equal(texts: pa.Array) -> bool:
    """Return whether texts without nulls are certainly equal: most batches have one topic."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, end = int(ends[0]), int(ends[-1])
    size = int(ends[1]) - first
    if not np.array_equal(ends[1:] - size, ends[:-1]):
        return False
    # Compare each text with the previous one, in place.
    return size == 0 or data[first + size : end].equals(data[first : end - size])


class Rows:
    """The kernel's output for one batch: slots, levels, and the result of each row."""

    def __init__(
        self,
        program: Program,
        batch: Arrow,
        topic: str = STATE_TOPIC,
        wanted: NDArray[np.bool_] | None = None,
        kafka_version: Version = None,
    ) -> None:
        self.program = program
        self.batch = batch
        self.keys, key_at, key_null = binary(batch.column("key"))
        self.values, value_at, value_null = binary(batch.column("value"))
        self.value_null = value_null
        wanted = np.asarray(topic_mask(batch, topic), bool) if wanted is None else wanted
        count = batch.num_rows
        size = int(value_at[-1] - value_at[0])
        capacity = [count] + [size // least + 2 for least in program.level_bytes[1:]]
        self.base = np.concatenate(
            [[0], np.cumsum([capacity[level] for level in program.slot_levels])]
        ).astype(np.int64)
        self.out = np.empty(self.base[-1], np.int64)
        decode = ready(decode_rows, size + int(key_at[-1] - key_at[0]))
        # The version is determined only if it matters.
        for lenient in (False, True):
            self.used = np.zeros(len(program.levels), np.int64)
            self.tags = np.empty((6, size // 2 + 1), np.int64)
            self.kind, self.reason = np.full(count, -1, np.int16), np.zeros(count, np.int8)
            self.where, self.part = np.zeros(count, np.int32), np.zeros(count, np.int8)
            self.left = np.zeros(count, np.int64)
            tag_count = decode(
                *program.arrays(), self.keys, key_at, key_null, self.values, value_at, value_null,
                wanted, find_unplaced(batch), self.out, self.base, self.used, self.tags, self.kind,
                self.reason, self.where, self.part, self.left, lenient,
            )  # fmt: skip
            refused = np.isin(self.reason, REFUSED_SINCE).any()
            if not refused or has_reached(kafka_version, _STRICT):
                break
        self.tags = self.tags[:, :tag_count]
        self.good = np.flatnonzero(self.reason == OK)
        self.tag_counts = np.bincount(self.tags[0], minlength=count)
        self.bad = np.flatnonzero(self.reason > SKIPPED)

    def strange(self) -> NDArray[np.int64]:
        """Return the rows that today's format does not read to the last byte."""
        return np.flatnonzero((self.reason > SKIPPED) | (self.left > 0))

    def whole(self) -> NDArray[np.int64]:
        """Return the rows with a value that today's format reads to the last byte."""
        return np.flatnonzero((self.reason == OK) & (self.left == 0) & ~self.value_null)

    def counts(self) -> NDArray[np.int64]:
        """Return the number of state batches of each good row; 0 if the value is null."""
        counts = self.slot(self.program.slots[BATCHES], self.good)
        return np.where(self.value_null[self.good], 0, counts)

    def slot(
        self, slot: int, rows: NDArray[Any] | slice, second: bool = False
    ) -> NDArray[np.int64]:
        """Return a field's numbers; ``second`` selects the length of a text."""
        start, end = self.base[slot + second], self.base[slot + second + 1]
        return self.out[start:end][rows]


# ---- records -------------------------------------------------------------------------------------


def records_of(rows: Rows, good: NDArray[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Return decoded rows; columns that their formats lack are null."""
    present = {"key": np.ones(len(good), bool), "value": ~rows.value_null[good]}
    columns: dict[str, pa.Array] = {
        **position(rows.batch, good),
        "record_type": pa.array(rows.kind[good], pa.int16()),
        "tombstone": pa.array(rows.value_null[good]),
        "unknown_tags": unknown_tags(rows, rows.tag_counts[good]),
    }
    for part, is_there in present.items():
        kinds: dict[str, list[int]] = {}
        fields: dict[str, Field] = {}
        for one in rows.program.kinds:
            for field in getattr(one, part):
                fields.setdefault(field.column, field)
                kinds.setdefault(field.column, []).append(one.type)
        for name, field in fields.items():
            if name in schema.names:
                mask = is_there & np.isin(rows.kind[good], kinds[name])
                kind = schema.field(name).type
                columns[name] = _column(rows, field, name, kind, good, mask, part)
    return batch_of(columns, schema, pad=True)


def _column(
    rows: Rows,
    field: Field,
    path: str,
    kind: pa.DataType,
    index: Any,
    mask: NDArray[Any],
    part: str,
) -> pa.Array:
    """Build a column; ``index`` selects rows of the field's level, ``mask`` has the non-nulls."""
    slot = rows.program.slots[path]
    values = rows.slot(slot, index)
    octets = rows.keys if part == "key" else rows.values
    if field.type.startswith("[]"):
        offsets = np.append(0, np.cumsum(np.where(mask, values, 0))).astype(np.int32)
        elements = _elements(rows, field, path, kind.value_type, int(offsets[-1]))
        return pa.ListArray.from_arrays(
            pa.array(offsets), elements, type=kind, mask=pa.array(~mask)
        )
    if field.type == "uuid":
        return topic_ids(octets[values[mask][:, None] + np.arange(16)], mask)
    if field.type == "string":
        length = rows.slot(slot, index, True)
        mask = mask & (length >= 0)
        values, length = np.where(mask, values, 0), np.where(mask, length, 0)
        return strings(_gather(octets, values, length, mask))
    if field.unknown is not None:
        mask = mask & (values != field.unknown)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64(), mask=~mask).view(kind)
    return pa.array(np.where(mask, values, 0), pa.int64(), mask=~mask).cast(kind)


def _elements(rows: Rows, field: Field, path: str, kind: pa.DataType, count: int) -> pa.Array:
    def column(inner: Field, kind: pa.DataType) -> pa.Array:
        every, mask = slice(0, count), np.ones(count, bool)
        return _column(rows, inner, f"{path}.{inner.column}", kind, every, mask, "value")

    if field.element:
        return column(field.element, kind)
    children = [column(inner, kind.field(inner.column).type) for inner in field.fields]
    return pa.StructArray.from_arrays(children, fields=list(kind))


def _gather(
    buffer: NDArray[Any], position: NDArray[Any], length: NDArray[Any], mask: NDArray[Any]
) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(length)])
    octets = np.arange(ends[-1]) + np.repeat(position - ends[:-1], length)
    return from_buffers(pa.binary(), ends.astype(np.int32), buffer[octets], mask)


def unknown_tags(rows: Rows, counts: NDArray[Any]) -> pa.Array:
    """Return the unknown tags of records; ``counts`` is their number per record."""
    row, level, element, tag, position, length = rows.tags
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    every = np.ones(len(row), bool)
    paths = pa.DictionaryArray.from_arrays(
        pa.array(level, pa.int32()), pa.array(rows.program.levels)
    )
    structs = pa.StructArray.from_arrays(
        [
            paths.cast(pa.string()),
            pa.array(element, pa.int64(), mask=level == 0).cast(pa.int32()),
            pa.array(tag, pa.int64()).cast(pa.int32()),
            _gather(rows.values, position, length, every),
        ],
        fields=list(schemas.UNKNOWN_TAG),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=pa.list_(schemas.UNKNOWN_TAG))


# ---- rejects -------------------------------------------------------------------------------------


def rejects_of(rows: Rows) -> pa.RecordBatch:
    """Return `sharelag.schemas.REJECTS`."""
    bad = rows.bad
    codes = np.stack([rows.reason[bad], rows.part[bad], rows.where[bad]], axis=1).astype(np.int32)
    distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
    texts = pa.array([_reason(rows.program, *map(int, code)) for code in distinct], pa.string())
    columns = {
        **position(rows.batch, bad),
        "reason": texts.take(pa.array(inverse.reshape(-1), pa.int64())),
        "key": flat(rows.batch.column("key")).cast(pa.binary()).take(pa.array(bad)),
        "value": flat(rows.batch.column("value")).cast(pa.binary()).take(pa.array(bad)),
    }
    return batch_of(columns, schemas.REJECTS)


def _reason(program: Program, reason: int, part: int, where: int) -> str:
    name = ("key", "value")[part]
    field = program.names[where] if where >= 0 else ("its type", "its version")[part]
    return REASONS[reason].format(part=f"the {name}", field=field)


def position(batch: Arrow, index: NDArray[Any] | None = None) -> dict[str, pa.Array]:
    """Return the positions of some rows (default all): `sharelag.schemas.POSITION`."""
    names = ("topic", "partition", "offset", "timestamp")
    found = [flat(batch.column(name)) for name in names]
    if index is not None:
        found = [column.take(pa.array(index)) for column in found]
    columns = {
        name: column.cast(kind, safe=False)
        for (name, kind), column in zip(schemas.POSITION, found, strict=True)
    }
    columns["timestamp"] = possible_times(columns["timestamp"])
    return columns


def possible_times(times: pa.Array) -> pa.Array:
    """Replace times that Python and Spark cannot represent by null: the record itself counts."""
    numbers = times.view(pa.int64())
    span = pc.min_max(numbers)
    least, most = span["min"].as_py(), span["max"].as_py()
    if least is None or FIRST_MS <= least <= most <= LAST_MS:
        return times
    known = pc.and_(pc.greater_equal(numbers, FIRST_MS), pc.less_equal(numbers, LAST_MS))
    return pc.if_else(known, times, None)


def find_unplaced(
    batch: Arrow, place: Sequence[str] = ("topic", "partition", "offset")
) -> NDArray[np.bool_]:
    """Return which records lack topic, partition or offset, so that their order is unknown.

    Kafka uses negative numbers for missing ones.
    """
    found = np.zeros(batch.num_rows, bool)
    for name in place:
        column = flat(batch.column(name))
        if column.null_count:
            found |= np.asarray(column.is_null(), bool)
        if pa.types.is_integer(column.type) and (pc.min(column).as_py() or 0) < 0:
            found |= np.asarray(pc.less(column, 0).fill_null(False), bool)
    return found


# ---- Arrow's buffers as numpy arrays -------------------------------------------------------------


def binary(
    column: pa.Array | pa.ChunkedArray,
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.bool_]]:
    """Return bytes, offsets (one more than rows) and null rows, without a copy if possible."""
    joined = flat(column).cast(pa.binary())
    nulls = np.zeros(len(joined), bool)
    if joined.null_count:
        nulls = np.asarray(joined.is_null(), bool)
    _, offsets, data = joined.buffers()
    ends = np.zeros(len(joined) + 1, np.int32)
    if offsets is not None:
        ends = np.frombuffer(offsets, np.int32)[joined.offset : joined.offset + len(joined) + 1]
    octets = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return _read_only(octets), _read_only(ends), nulls


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only: numba would compile a kernel for each kind of Arrow buffer."""
    view = array.view()
    view.setflags(write=False)
    return view
