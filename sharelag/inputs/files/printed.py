"""Parse records that Kafka's tools printed: JSON of its formatters, text of its log dump.

``kafka-console-consumer.sh`` with the formatter of share group state, or of groups, prints JSON
objects without a newline between them; ``kafka-dump-log.sh --share-group-state-decoder`` prints one
line per record. Both are encoded again, byte for byte as Kafka writes them. The output of
``sharelag decode -o json`` is read, too. Log lines between records are skipped; any other text is a
reject.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files.raw_files import first_bytes
from sharelag.inputs.files.text_pieces import LEVEL, unwrap_lines
from sharelag.inputs.texts import OTHERS, read_text, text_of
from sharelag.model import topic_id_bytes
from sharelag.tables.arrow import one_batch, with_columns
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
    """An object that no tool prints for a record; the message gives the reason."""


def number(value: Any, name: str, kind: str) -> int:
    """Return an integer that fits its type, or raise NotPrintedError."""
    bits, signed = INT_SIZES[kind] * 8, not kind.startswith("u")
    least, end = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    if type(value) is not int or not least <= value < end:
        raise NotPrintedError(f"{name} is {_short(value)}: it must be an {kind}")
    return value


def text(value: Any, name: str) -> str:
    """Return a string that Kafka can encode, or raise NotPrintedError."""
    if not isinstance(value, str):
        raise NotPrintedError(f"{name} is {_short(value)}: it must be a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise NotPrintedError(f"{name} is {_short(value)}: it contains half a character") from error
    if size >= 1 << 15:
        raise NotPrintedError(f"{name} is longer than Kafka's texts")
    return value


class Printed:
    """The records of one text.

    Snapshots of Kafka 4.0 are recognised by their missing timestamps. Its updates look like current
    ones without a count, so they belong to the version of the snapshot before them.
    """

    def __init__(self) -> None:
        self._of_kafka_4_0: set[tuple[Any, ...]] = set()

    @property
    def has_kafka_4_0(self) -> bool:
        """Whether the latest snapshot of some share partition is one of Kafka 4.0."""
        return bool(self._of_kafka_4_0)

    def encode(self, key: Any, value: Any) -> tuple[str, bytes, bytes | None]:
        """Return topic, key and value of a record; for other record types, only the type."""
        key = _object(key, "its key")
        kind_of = key.get("type")
        # The log dump prints the type as a string.
        if isinstance(kind_of, str) and re.fullmatch("[0-9]{1,5}", kind_of):
            kind_of = int(kind_of)
        record_type = number(kind_of, "its type", "int16")
        generation, data = key.get("generation"), key.get("data")
        if data != "unknown":  # the formatter's output for types it does not know
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
    # The key of a delta has all fields of a checkpoint's key.
    return tuple(sorted(found, key=lambda kind: -len(kind.key) - len(kind.value)))


def _encode(
    kinds: Iterable[RecordKind], record_type: int, key: _Row, fields: _Row | None
) -> _Octets:
    names, wrong = {*key, *(fields or ())}, None
    for kind in kinds:
        needed = kind.key if fields is None else (*kind.key, *kind.value)
        if kind.type == record_type and names >= {f.json_name for f in needed if f.tag is None}:
            try:
                row = _columns(kind.key, key)
                row |= {"tombstone": True} if fields is None else _columns(kind.value, fields)
            except NotPrintedError as error:  # such as an epoch that only the next layout can hold
                wrong = wrong or error
            else:
                return encode_record(kind, row)
    raise wrong or NotPrintedError(f"the record of type {record_type} lacks fields")


def _columns(fields: tuple[Field, ...], data: _Row) -> _Row:
    """Return printed fields by column; an absent tagged field has its default."""
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
            raise NotPrintedError(f"{field.json_name} is {_short(value)}: it must be a list")
        if field.element:
            return [_check_field(field.element, item) for item in value]
        return [_columns(field.fields, _object(item, field.json_name)) for item in value]
    found = text(value, field.json_name)
    if field.type == "uuid":
        try:
            topic_id_bytes(found)
        except ValueError as error:
            raise NotPrintedError(
                f"{field.json_name} is {_short(value)}: it must be a topic id"
            ) from error
    return found


def _object(value: Any, what: str) -> _Row:
    if not isinstance(value, dict):
        raise NotPrintedError(f"{what} is {_short(value)}: it must be an object")
    return value


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."


# ---- regular pieces, parsed as a whole -----------------------------------------------------------


def _type_of(field: Field, name: str = "json_name") -> pa.DataType:
    if field.fields:
        return pa.list_(_struct_of(field.fields, name))
    return getattr(pa, field.type)() if field.type in INT_SIZES else pa.string()


def _struct_of(fields: tuple[Field, ...], name: str = "json_name") -> pa.StructType:
    return pa.struct([(getattr(field, name), _type_of(field, name)) for field in fields])


_KEY = STATE_KINDS[0].key
#: Every field of either kind, once.
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
#: Longer names are left to the parser of single records.
_NAME = 1000


def regular_records(text: str, first: int) -> pa.RecordBatch | None:
    """Parse a piece of printed records as whole columns, `sharelag.schemas.RAW`.

    ``first`` is the number of the first object, which serves as its offset if none is printed.
    Return None if the piece has anything but complete records of the current state topic: those
    are parsed one by one.
    """
    read = read_objects(pa.py_buffer(text.encode()), _PRINTED, "error")
    if read is None:
        return None
    (table,) = read.combine_chunks().to_batches()
    # Arrow does not distinguish any other null from an absent field.
    tombstones = table.column("value").null_count
    if not tombstones == text.count("null") == len(_TOMBSTONE.findall(text)):
        return None
    size_of = pc.binary_length(table.column("topic")).fill_null(1)
    if not pc.all(pc.and_(pc.greater(size_of, 0), pc.less(size_of, _NAME))).as_py():
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
    """The parts of lines of a log dump; null where a line lacks one."""

    offsets: pa.Array
    times: pa.Array
    objects: pa.Array
    """Key and value, as the formatters print them."""


#: The text before a key, between key and value, and in place of a deleted value.
_BEFORE, _BETWEEN, _DELETE = " key: {", "} payload: ", "<DELETE>"
_OFFSET = r"^\| offset: (?P<offset>[0-9]{1,18})\b"
_TIME = rf"{_OFFSET} \w+: (?P<time>-?[0-9]{{1,18}}) "


def take_lines_apart(lines: list[str]) -> DumpLines:
    """Split lines of a log dump into their parts, column by column."""
    whole = pc.utf8_rtrim(pa.array(lines, pa.string()), "\r")
    # A group id may contain both marks; it lies between the first of one and the last of the other.
    head, rest = _halves(whole, _BEFORE)
    key, payload = _halves(rest, _BETWEEN, reverse=True)
    times = pc.struct_field(pc.extract_regex(head, _TIME), "time")
    is_tombstone = pc.equal(payload, _DELETE)
    is_object = pc.and_(pc.starts_with(payload, "{"), pc.ends_with(payload, "}"))
    is_record = pc.and_(times.is_valid(), pc.or_(is_tombstone, is_object)).fill_null(False)
    # A dump prints both numbers as strings.
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
    """Parse lines of one segment's log dump as whole columns; see `regular_records`."""
    if lines.objects.null_count:
        return None
    batch = regular_records("\n".join(lines.objects.to_pylist()), 0)
    if batch is None or len(batch) != len(lines.objects):
        return None
    times = lines.times.cast(schemas.TIMESTAMP)
    place = {"topic": topic, "partition": partition, "offset": lines.offsets}
    return with_columns(batch, place | {"timestamp": times})


def _halves(texts: pa.Array, mark: str, reverse: bool = False) -> tuple[pa.Array, pa.Array]:
    """Return the text before and after the first mark, or the last; null without a mark."""
    marked = pc.if_else(pc.match_substring(texts, mark), texts, None)
    parts = pc.split_pattern(marked, mark, max_splits=1, reverse=reverse)
    return pc.list_element(parts, 0), pc.list_element(parts, 1)


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


_DUMP = "Dumping "
_SEGMENT = re.compile(r"\d+\.\w")
#: How an object begins; a group id cannot look like this, because its quotation marks are escaped.
_BEGIN = re.compile(r'\{\s*"(?:key|reject)"\s*:')
#: The text before an object if the consumer prints partition and offset.
_WHERE = re.compile(r"(?:CreateTime:-?\d+\t)?Partition:(\d{1,9})\tOffset:(\d{1,18})\t$")
#: The last line of a consumer, and the delimiters of a list of objects.
_ENDS, _MARKS = "Processed a total of", ("[", "]", ",")
#: A line of another program, perhaps after its container's name; not the end of a record.
_OTHER_LINES = re.compile(
    rf'(?:[^\s{{}}"]{{1,200}}\s{{1,9}}){{0,12}}?(?:\[\d{{4}}-|{OTHERS.pattern})'
)
#: What the truncated end of a record contains before any other object.
_RECORD_PART = re.compile(r'"\w+":|\}$')
_PLACES = ("CreateTime:", "Partition:", "Offset:")
#: How often each character may be read again, because an object is incomplete and another may begin
#: within it; and how many characters count for an object whose fault has no position.
_AGAIN, _UNKNOWN = 64, 10_000
#: Characters of objects, and lines of a dump, that are parsed together.
_PIECE, _LINES = 1 << 20, 4096
#: The first record must begin within this number of bytes of a file.
_LOOK = 1 << 16


def is_printed(path: Path) -> bool:
    """Return whether a file has records that Kafka's tools printed, perhaps after a log."""
    begin = first_bytes(path, _LOOK)
    if begin.startswith(b"PAR1"):
        return False
    text = _plain(begin, path)
    return text.startswith("{") or bool(_dump_begins(text) or _BEGIN.search(text))


def read_printed(path: Path) -> pa.RecordBatch:
    """Read printed records of both topics as `sharelag.schemas.RAW`, in their order.

    The formatters print no partition, offset or time: such records get offsets from 0 in partition
    0, without a timestamp. Text that is not a complete record becomes one without a key. It is an
    InputError if the file has no output of Kafka's tools, or if its objects are nested so deeply
    that parsing would take too long.
    """
    text = _plain(path.read_bytes(), path)
    batches: list[pa.RecordBatch] = []
    rows: list[_Row] = []
    errors, is_any_whole = [], False
    for found in _read_dump(text) if _dump_begins(text) else _read_objects(text, path):
        if isinstance(found, pa.RecordBatch):
            batches += [_batch(rows), found]
            rows, is_any_whole = [], True
        else:
            row, error = found
            rows.append(row | {"timestampType": 0})
            errors.append(error)
    if errors and all(errors) and not is_any_whole:
        raise InputError(
            f"{path} is not what Kafka's formatters print of share group records ({errors[0]}): "
            "give the output of kafka-console-consumer.sh or kafka-dump-log.sh"
        )
    if text and not is_any_whole and not errors:
        raise InputError(
            f"no line of {path} has a record: give the output of kafka-console-consumer.sh with a "
            "formatter of share group records, or of kafka-dump-log.sh"
        )
    return one_batch(pa.Table.from_batches([*batches, _batch(rows)]))


def _batch(rows: list[_Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def _plain(octets: bytes, path: Path) -> str:
    # Not splitlines: a group id may contain characters that Unicode counts as line ends.
    lines = unwrap_lines(pa.array(text_of(octets, "replace", name=path).split("\n"), pa.string()))
    return "\n".join(lines.to_pylist()).lstrip()


def _dump_begins(text: str) -> bool:
    found = re.search(rf"^{_DUMP}", text, re.MULTILINE)
    first = _BEGIN.search(text)
    return found is not None and (first is None or found.start() < first.start())


def _read_objects(text: str, path: Path) -> Iterator[pa.RecordBatch | tuple[_Row, str]]:
    """Yield the records of a piece as a batch, or one row per object with its fault."""
    decoder, printed = json.JSONDecoder(), Printed()
    at, count, again, careful = 0, 0, _AGAIN * (len(text) + _UNKNOWN), 0
    while at < len(text):
        if at >= careful:
            careful = _next(text, at + _PIECE)  # most pieces are parsed as a whole
            if not printed.has_kafka_4_0:
                batch = regular_records(text[at:careful], count)
                if batch is not None:
                    yield batch
                    at, count = careful, count + batch.num_rows
                    continue
        begin = text.find("{", at)
        between = text[at : len(text) if begin < 0 else begin]
        words = between.rpartition("\n")[2].strip()
        if not all(map(_is_logged, between.split("\n"))):
            begin = _next(text, at)
            yield _reject(text[at:begin], count), f"{text[at:begin][:40]!r} is not an object"
        elif begin < 0:
            return
        elif words not in _MARKS and _is_of_others(words):  # a log line that contains an object
            end = text.find("\n", begin)
            begin, count = len(text) if end < 0 else end, count - 1
        else:
            where = _WHERE.search(between)
            place = {"partition": int(where[1]), "offset": int(where[2])} if where else {}
            try:
                found, end = decoder.raw_decode(text, begin)
                row, error = _row(found, count, printed) | place, ""
            except (ValueError, RecursionError) as bad:  # also a number with too many digits
                end = _next(text, begin + 1)
                error = "too many brackets" if isinstance(bad, RecursionError) else str(bad)
                row = _reject(text[begin:end], count) | place
                again -= (
                    max(bad.pos - end, 0) if isinstance(bad, json.JSONDecodeError) else _UNKNOWN
                )
                if again < 0:
                    raise InputError(
                        f"{path} has objects in objects that are not whole, which Kafka's "
                        "formatters do not print: give the output of kafka-console-consumer.sh"
                    ) from bad
            except NotPrintedError as bad:
                row, error = _reject(text[begin:end], count) | place, str(bad)
            yield row, error
            begin = end
        at, count = begin, count + 1


def _is_logged(line: str) -> bool:
    """Return whether to skip a line, or the part of it before an object."""
    words = line.strip()
    if not words or words in _MARKS or words.startswith(_ENDS) or _is_of_others(words):
        return True
    return words.startswith(_PLACES) and "\t" in line[len(line.rstrip()) :]


def _is_of_others(words: str) -> bool:
    """Return whether another program wrote a line; one without a level must not end a record."""
    if words[:1] != "[" and not _OTHER_LINES.match(words):
        return False
    return re.match(LEVEL, words) is not None or not _RECORD_PART.search(words)


def _next(text: str, at: int) -> int:
    found = _BEGIN.search(text, at)
    return found.start() if found else len(text)


def _reject(text: str, count: int) -> _Row:
    place = {"topic": STATE_TOPIC, "partition": 0, "offset": count}
    return place | {"key": None, "value": text.encode()}


def _row(found: Any, count: int, printed: Printed) -> _Row:
    if "reject" in found:
        topic, texts = STATE_TOPIC, _object(found["reject"], "its reject")
        given = (texts.get("key"), texts.get("value"))
        try:
            key, value = (None if one is None else bytes.fromhex(one) for one in given)
        except (ValueError, TypeError) as error:
            raise NotPrintedError("the bytes of its reject are not hexadecimal") from error
    else:
        topic, key, value = printed.encode(found.get("key"), found.get("value"))
    partition = number(found.get("partition", 0), "partition", "int32")
    offset = number(found.get("offset", count), "offset", "int64")
    named = text(found.get("topic") or topic, "topic")
    return {"topic": named, "partition": partition, "offset": offset, "key": key, "value": value}


def _read_dump(text: str) -> Iterator[pa.RecordBatch | tuple[_Row, str]]:
    """Yield the records of some lines, or one row per line; skip lines about batches."""
    place: _Row = {"topic": STATE_TOPIC, "partition": 0}
    printed = Printed()
    lines: list[str] = []
    for line in text.split("\n"):
        is_file = line.startswith(_DUMP)
        if is_file or len(lines) == _LINES:
            yield from _of_lines(lines, place, printed)
            lines = []
        if is_file:
            file = _segment(line)
            if file is None:
                raise InputError(
                    f"{line[:200]!r} does not name a segment, such as {STATE_TOPIC}-3/"
                    "00000000000000000000.log: give the whole output of kafka-dump-log.sh"
                )
            place = file
        elif line.startswith("| offset: "):
            lines.append(line)
    yield from _of_lines(lines, place, printed)


def _of_lines(
    lines: list[str], place: _Row, printed: Printed
) -> Iterator[pa.RecordBatch | tuple[_Row, str]]:
    """Yield the records of lines of one segment as a batch, or one row per line with its fault."""
    parts = take_lines_apart(lines)
    batch = None if printed.has_kafka_4_0 or not lines else regular_lines(parts, **place)
    if batch is not None:
        yield batch
        return
    for line, offset, time, found in zip(lines, *(one.to_pylist() for one in parts), strict=True):
        row, error = place | {"offset": offset, "key": None, "value": line.encode()}, ""
        try:
            if found is None:
                raise NotPrintedError(
                    "a line without time, key and payload: dump with --share-group-state-decoder"
                )
            read = json.loads(found)
            _, key, value = printed.encode(read["key"], read["value"])
            row |= {"timestamp": time, "key": key, "value": value}
        except (NotPrintedError, ValueError, RecursionError) as bad:
            error = str(bad)
        yield row, error


def _segment(line: str) -> _Row | None:
    """Return the topic and partition of the first segment in a path."""
    parts = re.split(r"[/\\]", line.removeprefix(_DUMP))
    for folder, file in pairwise(parts):
        topic, _, partition = folder.rpartition("-")
        if topic and partition.isdecimal() and len(partition) <= 9 and _SEGMENT.match(file):
            return {"topic": topic, "partition": int(partition)}
    return None


# ---- offsets ------------------------------------------------------------------------------------


PRINTED_OFFSETS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)
_OFFSET_LINE = r"^(?P<topic>[^:]+):(?P<partition>\d{1,9}):(?P<offset>\d{1,18})?$"


def read_printed_offsets(path: str | Path) -> pa.Table:
    """Parse the output of ``kafka-get-offsets.sh``: ``orders:0:5000``, one line per partition.

    Null where the tool printed no offset. Any other line is an InputError.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read offsets from {path}: {error}") from error
    lines = pa.array([line.strip() for line in text.splitlines() if line.strip()], pa.string())
    found = pc.extract_regex(lines, _OFFSET_LINE)
    if found.null_count:
        odd = lines.filter(found.is_null())[0].as_py()
        raise InputError(
            f"{path}: {odd[:80]!r} is not TOPIC:PARTITION:OFFSET: give what "
            "kafka-get-offsets.sh --time earliest-local printed"
        )
    columns = [pc.struct_field(found, name) for name in PRINTED_OFFSETS.names]
    columns[2] = pc.if_else(pc.equal(columns[2], ""), None, columns[2])
    return pa.table(columns, names=PRINTED_OFFSETS.names).cast(PRINTED_OFFSETS)
