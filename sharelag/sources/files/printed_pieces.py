"""A piece of printed state records at once, where all of it is as Kafka's formatter prints it."""

from __future__ import annotations

import re
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sharelag import schemas
from sharelag.sources.files.printed_records import NotPrintedError, Printed
from sharelag.wire.encode_columns import encode_values
from sharelag.wire.fields import STATE_KINDS, STATE_TOPIC, Field

_ARROW = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uuid": pa.string(),
    "string": pa.string(),
}


def _type_of(field: Field) -> pa.DataType:
    return pa.list_(_struct_of(field.fields)) if field.fields else _ARROW[field.type]


def _struct_of(fields: tuple[Field, ...]) -> pa.StructType:
    return pa.struct([(field.json_name, _type_of(field)) for field in fields])


_KEY = STATE_KINDS[0].key
#: Every field of either kind once.
_VALUE = tuple({field.json_name: field for kind in STATE_KINDS for field in kind.value}.values())
_PRINTED = pa.schema(
    [
        ("key", pa.struct([("type", pa.int16()), ("data", _struct_of(_KEY))])),
        ("value", pa.struct([("version", pa.int16()), ("data", _struct_of(_VALUE))])),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
_OPTIONS = pa.json.ParseOptions(_PRINTED, unexpected_field_behavior="error")
#: What is before a key, between key and value, and in the place of a value in a line of a dump.
KEY, VALUE, DELETE = " key: {", "} payload: ", "<DELETE>"
_PLACE = r"^\| offset: (?P<offset>[0-9]{1,18}) \w+: (?P<time>-?[0-9]{1,18}) "
_TOMBSTONE = re.compile(r'"value":\s*null')
#: Longer names are for the careful path to judge.
_NAME = 1000


def regular_records(text: str, first: int) -> pa.RecordBatch | None:
    """Read a piece of printed records as whole columns.

    Parameters
    ----------
    text : str
        Objects, one after another.
    first : int
        The number of the first object, which is its offset where none is printed.

    Returns
    -------
    pyarrow.RecordBatch or None
        `sharelag.schemas.RAW`, what reading them one after another gives. None where the piece has
        anything but whole records of today's state topic, of which nothing is unusual: those take
        the careful path.
    """
    table = _parsed(text)
    if table is None:
        return None
    key, value = table.column("key"), table.column("value")
    record_type, data = key.field("type"), value.field("data")
    kinds = {kind.type: kind for kind in STATE_KINDS}
    indices = np.full(len(table), -1)
    values: list[pa.Array] = []
    for number, kind in kinds.items():
        which = pc.and_(pc.equal(record_type, number), value.is_valid()).fill_null(False)
        rows = data.filter(which)
        if not _is_whole(rows, kind.value):
            return None
        indices[which.to_numpy(zero_copy_only=False)] = sum(map(len, values)) + np.arange(len(rows))
        values.append(encode_values(kind, rows, attrgetter("json_name")))
    keys = _keys(key)
    if keys is None:
        return None
    written = pa.concat_arrays(values).take(pa.array(indices, mask=indices < 0))
    numbers = pa.array(np.arange(first, first + len(table)))
    zeros = pa.array(np.zeros(len(table), np.int32))
    columns = {
        "key": keys,
        "value": written,
        "topic": pc.coalesce(table.column("topic"), STATE_TOPIC),
        "partition": pc.coalesce(table.column("partition"), zeros),
        "offset": pc.coalesce(table.column("offset"), numbers),
        "timestamp": pa.nulls(len(table), schemas.TIMESTAMP),
        "timestampType": zeros,
    }
    return pa.RecordBatch.from_arrays(
        [columns[name] for name in schemas.RAW.names], schema=schemas.RAW
    )


def regular_lines(lines: list[str], topic: str, partition: int) -> pa.RecordBatch | None:
    """Read lines of a log dump as whole columns.

    Parameters
    ----------
    lines : list of str
        Those of records, of one segment.
    topic, partition
        What the segment is of.

    Returns
    -------
    pyarrow.RecordBatch or None
        As for `regular_records`.
    """
    whole = pc.utf8_rtrim(pa.array(lines, pa.string()), "\r")
    # A group's id may have both marks, and is between the first of one and the last of the other.
    begun = _halves(whole, KEY)
    ended = None if begun is None else _halves(begun[1], VALUE, reverse=True)
    if begun is None or ended is None:
        return None
    places = pc.extract_regex(begun[0], _PLACE)
    payload = ended[1]
    is_tombstone = pc.equal(payload, DELETE)
    is_object = pc.and_(pc.starts_with(payload, "{"), pc.ends_with(payload, "}"))
    if places.null_count or not pc.all(pc.or_(is_tombstone, is_object)).as_py():
        return None
    key = pc.binary_join_element_wise("{", ended[0], "}", "")
    # A dump prints both numbers as texts.
    key = pc.replace_substring_regex(key, r'^\{"type":"([0-9]{1,5})"', r'{"type":\1')
    value = pc.replace_substring_regex(payload, r'^\{"version":"([0-9]{1,5})"', r'{"version":\1')
    value = pc.if_else(is_tombstone, "null", value)
    objects = pc.binary_join_element_wise('{"key":', key, ',"value":', value, "}", "")
    batch = regular_records("\n".join(objects.to_pylist()), 0)
    if batch is None or len(batch) != len(lines):
        return None
    time = pc.struct_field(places, "time").cast(pa.int64())
    columns = {
        "topic": pa.repeat(pa.scalar(topic), len(lines)),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(lines)),
        "offset": pc.struct_field(places, "offset").cast(pa.int64()),
        "timestamp": time.cast(schemas.TIMESTAMP),
    }
    arrays = [columns.get(name, batch.column(name)) for name in schemas.RAW.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schemas.RAW)


def _halves(texts: pa.Array, mark: str, reverse: bool = False) -> tuple[pa.Array, pa.Array] | None:
    """Return what is before and behind the first mark, or the last; None where one has none."""
    parts = pc.split_pattern(texts, mark, max_splits=1, reverse=reverse)
    if not pc.all(pc.equal(pc.list_value_length(parts), 2)).as_py():
        return None
    return pc.list_element(parts, 0), pc.list_element(parts, 1)


def _parsed(text: str) -> pa.RecordBatch | None:
    """Return a row an object; None where they are not all of the shape."""
    if not text.startswith("{"):
        return None
    octets = text.encode()
    size = pa.json.ReadOptions(use_threads=False, block_size=max(len(octets) + 1, 1 << 16))
    try:
        table = pa.json.read_json(pa.BufferReader(octets), size, _OPTIONS).combine_chunks()
    except pa.ArrowInvalid:
        return None
    # Any other null looks to Arrow like a field that is absent.
    tombstones = table.column("value").null_count
    if not tombstones == text.count("null") == len(_TOMBSTONE.findall(text)):
        return None
    name = table.column("topic")
    size_of = pc.binary_length(name).fill_null(1)
    if not pc.all(pc.and_(pc.greater(size_of, 0), pc.less(size_of, _NAME))).as_py():
        return None
    return table.to_batches()[0]


def _is_whole(rows: pa.StructArray, fields: tuple[Field, ...]) -> bool:
    """Whether no row, and no field that is always written, is missing."""
    if rows.null_count:
        return False
    for field in fields:
        column = rows.field(field.json_name)
        if field.tag is None and column.null_count:
            return False
        if field.fields and not _is_whole(column.flatten(), field.fields):
            return False
    return True


def _keys(key: pa.StructArray) -> pa.Array | None:
    """Return the bytes of keys, of which there are few different ones."""
    data = key.field("data")
    names = ["type", *(field.json_name for field in _KEY)]
    parts = [key.field("type"), *(data.field(name) for name in names[1:])]
    if key.null_count or data.null_count or any(part.null_count for part in parts):
        return None
    codes = pa.table([*parts, pa.array(np.arange(len(key)))], [*names, "row"])
    groups = codes.group_by(names, use_threads=False).aggregate([("row", "list")])
    encoded = []
    printed = Printed()
    try:
        for row in groups.select(names).to_pylist():
            topic, octets, _ = printed.encoded({"type": row.pop("type"), "data": row}, None)
            if topic != STATE_TOPIC:
                return None
            encoded.append(octets)
    except NotPrintedError:
        return None
    lists = groups.column("row_list").combine_chunks()
    order = lists.flatten().to_numpy()
    which = np.repeat(np.arange(len(encoded)), pc.list_value_length(lists).to_numpy())
    found = np.empty(len(key), np.int64)
    found[order] = which
    return pa.array(encoded, pa.binary()).take(pa.array(found))
