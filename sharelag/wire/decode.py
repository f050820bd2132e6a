"""Decode raw Kafka records: whole Arrow batches in, typed columns out.

No record is lost: ``rows in = records + rejects + skipped``. A record that cannot be decoded
becomes a reject with its position, its bytes and the reason; a record of another type (an offset
commit, a consumer group's metadata) is counted as skipped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat
from sharelag.wire import kernels
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC, Field
from sharelag.wire.program import Program, Slot, program_for

_ALPHABET = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
_OUTPUT = {STATE_TOPIC: schemas.RECORDS, GROUP_TOPIC: schemas.GROUP_RECORDS}


class Decoded(NamedTuple):
    """The result of decoding a batch of raw records."""

    records: pa.RecordBatch
    rejects: pa.RecordBatch
    skipped: int


def decode_arrow(batch: Arrow, topic: str = STATE_TOPIC) -> Decoded:
    """Decode the records of one of the two Kafka topics with share group metadata.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Columns of `sharelag.schemas.RAW`; rows of several topics may be mixed.
    topic : str
        ``__share_group_state`` gives `sharelag.schemas.RECORDS`, ``__consumer_offsets`` gives
        `sharelag.schemas.GROUP_RECORDS`. Rows of topics whose names do not end with this name are
        skipped.

    Returns
    -------
    Decoded
        The records and rejects keep the order of the input.

    Raises
    ------
    InputError
        When a column is missing or of another type.

    Notes
    -----
    Accepts and refuses the same records as Kafka 4.3.1's ``ShareCoordinatorRecordSerde`` and
    ``GroupCoordinatorRecordSerde``. Invalid UTF-8 is decoded as in Java, with U+FFFD in place of
    the bad bytes.
    """
    schemas.require(batch, schemas.RAW, "raw records")
    program = program_for(topic)
    rows = _Rows(program, batch, topic)
    good = np.flatnonzero(rows.reason == kernels.OK)
    bad = np.flatnonzero(rows.reason > kernels.SKIPPED)
    return Decoded(
        _records(rows, good, _OUTPUT[topic]),
        _rejects(rows, bad),
        len(rows.reason) - len(good) - len(bad),
    )


def topic_mask(batch: Arrow, topic: str) -> pa.Array | pa.ChunkedArray:
    """Return a mask of the rows of a topic, by name suffix: mirrored topics have a prefix."""
    return pc.ends_with(batch.column("topic").cast(pa.string()), topic).fill_null(False)


class _Rows:
    """The kernel's output for one batch: slots, levels, and the result of each row."""

    def __init__(self, program: Program, batch: Arrow, topic: str) -> None:
        self.program = program
        self.batch = batch
        self.keys, key_at, key_null = _binary(batch.column("key"))
        self.values, value_at, value_null = _binary(batch.column("value"))
        self.value_null = value_null
        wanted = np.asarray(flat(topic_mask(batch, topic)).to_numpy(zero_copy_only=False), bool)
        count = batch.num_rows
        size = int(value_at[-1] - value_at[0])
        capacity = [count] + [size // least + 2 for least in program.level_bytes[1:]]
        self.base = np.concatenate(
            [[0], np.cumsum([capacity[level] for level in program.slot_levels])]
        ).astype(np.int64)
        self.out = np.empty(self.base[-1], np.int64)
        self.used = np.zeros(len(program.levels), np.int64)
        self.tags = np.empty((6, size // 2 + 1), np.int64)
        self.kind, self.reason = np.full(count, -1, np.int16), np.zeros(count, np.int8)
        self.where, self.part = np.zeros(count, np.int32), np.zeros(count, np.int8)
        tag_count = kernels.decode_rows(
            *program.arrays(), self.keys, key_at, key_null, self.values, value_at, value_null,
            wanted, self.out, self.base, self.used, self.tags, self.kind, self.reason, self.where,
            self.part,
        )  # fmt: skip
        self.tags = self.tags[:, :tag_count]

    def slot(
        self, slot: Slot, rows: NDArray[Any] | slice, second: bool = False
    ) -> NDArray[np.int64]:
        start = self.base[slot.index + second]
        return self.out[start : self.base[slot.index + second + 1]][rows]


# ---- records -------------------------------------------------------------------------------------


def _records(rows: _Rows, good: NDArray[Any], schema: pa.Schema) -> pa.RecordBatch:
    present = {
        "key": np.ones(len(good), bool),
        "value": ~rows.value_null[good],
    }
    columns: dict[str, pa.Array] = {
        **_position(rows, good),
        "record_type": pa.array(rows.kind[good], pa.int16()),
        "tombstone": pa.array(rows.value_null[good]),
        "unknown_tags": _unknown_tags(rows, good),
    }
    for part in ("key", "value"):
        for field, kinds in _union(rows.program, part):
            mask = present[part] & np.isin(rows.kind[good], kinds)
            kind = schema.field(field.column).type
            columns[field.column] = _column(rows, field, field.column, kind, good, mask, part)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _union(program: Program, part: str) -> list[tuple[Field, list[int]]]:
    """Return every field of the topic's records, with the record types that have it."""
    found: dict[str, tuple[Field, list[int]]] = {}
    for kind in program.kinds:
        for field in getattr(kind, part):
            found.setdefault(field.column, (field, []))[1].append(kind.type)
    return list(found.values())


def _column(
    rows: _Rows,
    field: Field,
    path: str,
    kind: pa.DataType,
    index: Any,
    mask: NDArray[Any],
    part: str,
) -> pa.Array:
    """Build one column; ``index`` selects rows of the field's level, ``mask`` has the non-nulls."""
    slot = rows.program.slots[path]
    values = rows.slot(slot, index)
    if field.type.startswith("[]"):
        counts = np.where(mask, values, 0)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        elements = _elements(rows, field, path, kind.value_type, int(offsets[-1]))
        return pa.ListArray.from_arrays(
            pa.array(offsets), elements, type=kind, mask=pa.array(~mask)
        )
    if field.type == "uuid":
        return _topic_ids(rows.keys if part == "key" else rows.values, values, mask)
    if field.type == "string":
        return _strings(
            rows.keys if part == "key" else rows.values, values, rows.slot(slot, index, True), mask
        )
    if field.unknown is not None:
        mask = mask & (values != field.unknown)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64(), mask=~mask).view(kind)
    return pa.array(np.where(mask, values, 0), pa.int64(), mask=~mask).cast(kind)


def _elements(rows: _Rows, field: Field, path: str, kind: pa.DataType, count: int) -> pa.Array:
    every, mask = slice(0, count), np.ones(count, bool)
    if field.element:
        return _column(rows, field.element, f"{path}.{field.column}", kind, every, mask, "value")
    children = [
        _column(
            rows,
            child,
            f"{path}.{child.column}",
            kind.field(child.column).type,
            every,
            mask,
            "value",
        )
        for child in field.fields
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind))


def _topic_ids(buffer: NDArray[Any], position: NDArray[Any], mask: NDArray[Any]) -> pa.Array:
    data = np.empty(22 * int(mask.sum()), np.uint8)
    kernels.base64_ids(buffer, position[mask], _ALPHABET, data)
    offsets = np.concatenate([[0], 22 * np.cumsum(mask)]).astype(np.int32)
    return _from_buffers(pa.string(), offsets, data, mask)


def _strings(
    buffer: NDArray[Any], position: NDArray[Any], length: NDArray[Any], mask: NDArray[Any]
) -> pa.Array:
    mask = mask & (length >= 0)
    binary = _gathered(buffer, np.where(mask, position, 0), np.where(mask, length, 0), mask)
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return _replace_bad_utf8(binary)


def _replace_bad_utf8(binary: pa.Array) -> pa.Array:
    encoded = binary.dictionary_encode()
    texts = [
        None if raw is None else raw.decode("utf-8", "replace")
        for raw in encoded.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _gathered(
    buffer: NDArray[Any], position: NDArray[Any], length: NDArray[Any], mask: NDArray[Any]
) -> pa.Array:
    offsets = np.empty(len(position) + 1, np.int32)
    data = np.empty(int(length.sum()), np.uint8)
    kernels.gather(buffer, position.astype(np.int64), length.astype(np.int64), offsets, data)
    return _from_buffers(pa.binary(), offsets, data, mask)


def _from_buffers(
    kind: pa.DataType, offsets: NDArray[Any], data: NDArray[Any], mask: NDArray[Any]
) -> pa.Array:
    validity = None if mask.all() else pa.array(mask).buffers()[1]
    return pa.Array.from_buffers(
        kind,
        len(mask),
        [validity, pa.py_buffer(offsets), pa.py_buffer(data)],
        null_count=int((~mask).sum()),
    )


def _unknown_tags(rows: _Rows, good: NDArray[Any]) -> pa.Array:
    row, level, element, tag, position, length = rows.tags
    counts = np.bincount(row, minlength=len(rows.reason))[good]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    every = np.ones(len(row), bool)
    paths = pa.DictionaryArray.from_arrays(
        pa.array(level, pa.int32()), pa.array(rows.program.levels)
    )
    structs = pa.StructArray.from_arrays(
        [
            paths.cast(pa.string()),
            pa.array(element, pa.int64(), mask=level == 0).cast(pa.int32()),
            pa.array(tag, pa.int64()).cast(pa.int32()),
            _gathered(rows.values, position, length, every),
        ],
        fields=list(schemas.UNKNOWN_TAG),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=pa.list_(schemas.UNKNOWN_TAG))


# ---- rejects -------------------------------------------------------------------------------------


def _rejects(rows: _Rows, bad: NDArray[Any]) -> pa.RecordBatch:
    codes = np.stack([rows.reason[bad], rows.part[bad], rows.where[bad]], axis=1).astype(np.int32)
    distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
    texts = pa.array([_reason(rows.program, *map(int, code)) for code in distinct], pa.string())
    columns = {
        **_position(rows, bad),
        "reason": texts.take(pa.array(inverse.reshape(-1), pa.int64())),
        "key": flat(rows.batch.column("key")).cast(pa.binary()).take(pa.array(bad)),
        "value": flat(rows.batch.column("value")).cast(pa.binary()).take(pa.array(bad)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schemas.REJECTS)


def _reason(program: Program, reason: int, part: int, where: int) -> str:
    name = ("key", "value")[part]
    field = program.names[where] if where >= 0 else ("its type", "its version")[part]
    return kernels.REASONS[reason].format(part=f"the {name}", field=field)


def _position(rows: _Rows, index: NDArray[Any]) -> dict[str, pa.Array]:
    chosen = pa.array(index)

    def take(name: str) -> pa.Array:
        return flat(rows.batch.column(name)).take(chosen)

    return {
        "topic": take("topic").cast(pa.string()),
        "record_partition": take("partition"),
        "offset": take("offset"),
        "timestamp": take("timestamp").cast(schemas.TIMESTAMP, safe=False),
    }


# ---- Arrow's buffers as numpy --------------------------------------------------------------------


def _binary(
    column: pa.Array | pa.ChunkedArray,
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.bool_]]:
    """Return bytes, offsets (one more than rows) and null rows, without a copy where possible."""
    joined = flat(column).cast(pa.binary())
    nulls = np.asarray(joined.is_null().to_numpy(zero_copy_only=False), bool)
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
