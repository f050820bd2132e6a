"""Printed records, checked and encoded as Kafka does: one at a time, or a regular piece at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.model import topic_id_bytes
from sharelag.wire.encode import encode, encode_record
from sharelag.wire.fields import (
    GROUP_KINDS,
    GROUP_TOPIC,
    INT_SIZES,
    SHARE_SNAPSHOT,
    STATE_KINDS,
    STATE_TOPIC,
    Field,
    RecordKind,
)
from sharelag.wire.generations import LAYOUTS
from sharelag.wire.json_rows import read_objects

_Row = dict[str, Any]
#: Key and value.
_Octets = tuple[bytes, bytes | None]
_KAFKA_4_0 = 3
_STATE_TYPES = {kind.type for kind in STATE_KINDS}


class NotPrintedError(Exception):
    """An object that no tool prints of a record; the message says why."""


def number(value: Any, name: str, kind: str) -> int:
    """Return a number that its type can hold; else NotPrintedError."""
    bits, signed = INT_SIZES[kind] * 8, not kind.startswith("u")
    least, end = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    if type(value) is not int or not least <= value < end:
        raise NotPrintedError(f"{name} is {_short(value)}: it has to be an {kind}")
    return value


def text(value: Any, name: str) -> str:
    """Return a text that Kafka can hold; else NotPrintedError."""
    if not isinstance(value, str):
        raise NotPrintedError(f"{name} is {_short(value)}: it has to be a text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise NotPrintedError(f"{name} is {_short(value)}: half a character is in it") from error
    if size >= 1 << 15:
        raise NotPrintedError(f"{name} is longer than Kafka's texts")
    return value


class Printed:
    """The records of one text.

    Snapshots of Kafka 4.0 have no timestamps, which tells them. Its updates look like today's
    without a count, and are those of the snapshots before them.
    """

    def __init__(self) -> None:
        self._of_kafka_4_0: set[tuple[Any, ...]] = set()

    @property
    def has_kafka_4_0(self) -> bool:
        """Whether the latest snapshot of some share partition is one of Kafka 4.0."""
        return bool(self._of_kafka_4_0)

    def encode(self, key: Any, value: Any) -> tuple[str, bytes, bytes | None]:
        """Return topic, key and value of a record; of another kind's, no more than its type.

        It is a NotPrintedError when an object or a field is missing, or is of another type.
        """
        key = _object(key, "its key")
        kind_of = key.get("type")
        # The log dump prints it as a text.
        if isinstance(kind_of, str) and re.fullmatch("[0-9]{1,5}", kind_of):
            kind_of = int(kind_of)
        record_type = number(kind_of, "its type", "int16")
        generation, data = key.get("generation"), key.get("data")
        if data != "unknown":  # as a formatter says of types that it does not know
            _object(data, "the data of its key")
        is_state = record_type in _STATE_TYPES and data != "unknown" and "topicId" in data
        is_of_group = generation is None and not is_state
        if is_of_group and record_type not in {kind.type for kind in GROUP_KINDS}:
            return GROUP_TOPIC, record_type.to_bytes(2, "big", signed=True), None
        fields = None if value is None else _object(value, "its value").get("data")
        fields = None if value is None else _object(fields, "the data of its value")
        if is_of_group:
            data = _object(data, "the data of its key")
            return GROUP_TOPIC, *_encode(GROUP_KINDS, record_type, data, fields)
        if generation is None:
            kinds = self._kinds(record_type, data, fields)
        else:
            kinds = _older(number(generation, "its generation", "int8"))
        return STATE_TOPIC, *_encode(kinds, record_type, data, fields)

    def encode_reject(self, printed: Any) -> tuple[bytes | None, bytes | None]:
        """Return the bytes of what could not be decoded."""
        texts = _object(printed, "its reject")
        given = (texts.get("key"), texts.get("value"))
        try:
            key, value = (None if one is None else bytes.fromhex(one) for one in given)
        except (ValueError, TypeError) as error:
            raise NotPrintedError("the bytes of its reject are not hexadecimal") from error
        return key, value

    def _kinds(self, record_type: int, key: _Row, fields: _Row | None) -> tuple[RecordKind, ...]:
        place = tuple(str(key.get(name)) for name in ("groupId", "topicId", "partition"))
        if fields is not None and record_type == SHARE_SNAPSHOT.type:
            self._of_kafka_4_0.discard(place)
            if fields.keys().isdisjoint({"createTimestamp", "writeTimestamp"}):
                self._of_kafka_4_0.add(place)
        if place in self._of_kafka_4_0 and "deliveryCompleteCount" not in (fields or ()):
            return (*_older(_KAFKA_4_0), *STATE_KINDS)
        return STATE_KINDS


def _older(generation: int) -> tuple[RecordKind, ...]:
    found = [layout.kind for layout in LAYOUTS if layout.generation == generation]
    # A delta's key has all fields of a checkpoint's.
    return tuple(sorted(found, key=lambda kind: -len(kind.key) - len(kind.value)))


def _encode(
    kinds: Iterable[RecordKind], record_type: int, key: _Row, fields: _Row | None
) -> _Octets:
    """Encode by the first of some kinds whose fields there are."""
    names, wrong = {*key, *(fields or ())}, None
    for kind in kinds:
        needed = kind.key if fields is None else (*kind.key, *kind.value)
        if kind.type == record_type and names >= {f.json_name for f in needed if f.tag is None}:
            try:
                row = _columns(kind.key, key)
                row |= {"tombstone": True} if fields is None else _columns(kind.value, fields)
            except NotPrintedError as error:  # an epoch that the next layout has room for
                wrong = wrong or error
            else:
                return encode_record(kind, row)
    raise wrong or NotPrintedError(f"the record of type {record_type} lacks fields")


def _columns(fields: tuple[Field, ...], data: _Row) -> _Row:
    """Return printed fields by column; a tagged one that is not there has its default."""
    missing = [f.json_name for f in fields if f.tag is None and f.json_name not in data]
    if missing:
        raise NotPrintedError(f"{missing[0]} is missing")
    return {
        field.column: _check_field(field, data.get(field.json_name, field.default))
        for field in fields
    }


def _check_field(field: Field, value: Any) -> Any:
    if field.type in INT_SIZES:
        return number(value, field.json_name, field.type)
    if value is None and field.nullable:
        return None
    if field.type.startswith("[]"):
        if not isinstance(value, list):
            raise NotPrintedError(f"{field.json_name} is {_short(value)}: it has to be a list")
        if field.element:
            return [_check_field(field.element, item) for item in value]
        return [_columns(field.fields, _object(item, field.json_name)) for item in value]
    found = text(value, field.json_name)
    if field.type == "uuid":
        try:
            topic_id_bytes(found)
        except ValueError as error:
            raise NotPrintedError(
                f"{field.json_name} is {_short(value)}: it has to be a topic's id"
            ) from error
    return found


def _object(value: Any, what: str) -> _Row:
    if not isinstance(value, dict):
        raise NotPrintedError(f"{what} is {_short(value)}: it has to be an object")
    return value


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


# ---- a regular piece at once --------------------------------------------------------------------


def _type_of(field: Field, name: str = "json_name") -> pa.DataType:
    if field.fields:
        return pa.list_(_struct_of(field.fields, name))
    return getattr(pa, field.type)() if field.type in INT_SIZES else pa.string()


def _struct_of(fields: tuple[Field, ...], name: str = "json_name") -> pa.StructType:
    return pa.struct([(getattr(field, name), _type_of(field, name)) for field in fields])


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
_TOMBSTONE = re.compile(r'"value":\s*null')
#: Longer names are for the careful path to judge.
_NAME = 1000


def regular_records(text: str, first: int) -> pa.RecordBatch | None:
    """Read a piece of printed records as whole columns.

    ``first`` is the number of the first object, which is its offset where none is printed. The
    result is what reading the objects one after another gives, as `sharelag.schemas.RAW`. It is
    None where the piece has anything but whole records of today's state topic, of which nothing is
    unusual: those take the careful path.
    """
    table = _parse_objects(text)
    if table is None:
        return None
    key, value = table.column("key"), table.column("value")
    types, data = key.field("type"), value.field("data")
    if key.null_count or types.null_count or not _is_whole(key.field("data"), _KEY):
        return None
    for kind in STATE_KINDS:
        is_one = pc.and_(pc.equal(types, kind.type), value.is_valid())
        if not _is_whole(data.filter(is_one), kind.value):
            return None
    columns = {
        "topic": pc.coalesce(table.column("topic"), STATE_TOPIC),
        "record_partition": table.column("partition").fill_null(0),
        "offset": pc.coalesce(
            table.column("offset"), pa.array(np.arange(first, first + len(table)))
        ),
        "timestamp": pa.nulls(len(table), schemas.TIMESTAMP),
        "record_type": types,
        "tombstone": value.is_null(),
    }
    columns |= {field.column: key.field("data").field(field.json_name) for field in _KEY}
    columns |= {
        field.column: data.field(field.json_name).view(_type_of(field, "column"))
        for field in _VALUE
    }
    try:
        return encode(pa.table(columns))
    except ValueError:  # such as an id that no topic has
        return None


class DumpLines(NamedTuple):
    """Lines of a log dump, taken apart; null where a line does not have it."""

    offsets: pa.Array
    times: pa.Array
    objects: pa.Array
    """Key and value, as the formatters print them."""


#: What is before a key, between key and value, and in the place of a value in a line of a dump.
_BEFORE, _BETWEEN, _DELETE = " key: {", "} payload: ", "<DELETE>"
_OFFSET = r"^\| offset: (?P<offset>[0-9]{1,18})\b"
_TIME = rf"{_OFFSET} \w+: (?P<time>-?[0-9]{{1,18}}) "


def take_lines_apart(lines: list[str]) -> DumpLines:
    """Return the parts of lines of a log dump, each for itself."""
    whole = pc.utf8_rtrim(pa.array(lines, pa.string()), "\r")
    # A group's id may have both marks, and is between the first of one and the last of the other.
    head, rest = _halves(whole, _BEFORE)
    key, payload = _halves(rest, _BETWEEN, reverse=True)
    times = pc.struct_field(pc.extract_regex(head, _TIME), "time")
    is_tombstone = pc.equal(payload, _DELETE)
    is_object = pc.and_(pc.starts_with(payload, "{"), pc.ends_with(payload, "}"))
    is_record = pc.and_(times.is_valid(), pc.or_(is_tombstone, is_object)).fill_null(False)
    # A dump prints both numbers as texts.
    key = pc.replace_substring_regex(key, r'^"type":"([0-9]{1,5})"', r'"type":\1')
    value = pc.replace_substring_regex(payload, r'^\{"version":"([0-9]{1,5})"', r'{"version":\1')
    value = pc.if_else(is_tombstone, "null", value)
    objects = pc.binary_join_element_wise('{"key":{', key, '},"value":', value, "}", "")
    return DumpLines(
        pc.struct_field(pc.extract_regex(whole, _OFFSET), "offset").cast(pa.int64()),
        times.cast(pa.int64()),
        pc.if_else(is_record, objects, None),
    )


def regular_lines(lines: DumpLines, topic: str, partition: int) -> pa.RecordBatch | None:
    """Read lines of one segment's log dump as whole columns; see `regular_records`."""
    if lines.objects.null_count:
        return None
    batch = regular_records("\n".join(lines.objects.to_pylist()), 0)
    if batch is None or len(batch) != len(lines.objects):
        return None
    columns = {
        "topic": pa.repeat(pa.scalar(topic), len(batch)),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(batch)),
        "offset": lines.offsets,
        "timestamp": lines.times.cast(schemas.TIMESTAMP),
    }
    arrays = [columns.get(name, batch.column(name)) for name in schemas.RAW.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schemas.RAW)


def _halves(texts: pa.Array, mark: str, reverse: bool = False) -> tuple[pa.Array, pa.Array]:
    """Return what is before and behind the first mark, or the last; null where there is none."""
    marked = pc.if_else(pc.match_substring(texts, mark), texts, None)
    parts = pc.split_pattern(marked, mark, max_splits=1, reverse=reverse)
    return pc.list_element(parts, 0), pc.list_element(parts, 1)


def _parse_objects(text: str) -> pa.RecordBatch | None:
    """Return one row per object; None where they are not all of the shape."""
    read = read_objects(pa.py_buffer(text.encode()), _PRINTED, "error")
    if read is None:
        return None
    table = read.combine_chunks()
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
    if rows.null_count:
        return False
    for field in fields:
        column = rows.field(field.json_name)
        if field.tag is None and column.null_count:
            return False
        if field.fields and not _is_whole(column.flatten(), field.fields):
            return False
    return True
