"""Read records back that Kafka's tools printed: JSON of its formatters, text of its log dump.

``kafka-console-consumer.sh`` with the formatter of share group state, or of groups, prints objects
one after another, without a newline between; ``kafka-dump-log.sh --share-group-state-decoder``
prints a line a record. Both are made records again, byte for byte as Kafka writes them. What
``sharelag decode -o json`` prints is read, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import (
    GROUP_KINDS,
    GROUP_TOPIC,
    STATE_KINDS,
    STATE_TOPIC,
    Field,
    RecordKind,
)
from sharelag.wire.generations import LAYOUTS

#: What objects with other fields, other types or too many brackets raise.
_NOT_PRINTED = (
    *(KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError),
    pa.ArrowException,
)
_DUMP = b"Dumping "
_FILE = re.compile(r"Dumping .*?(?P<topic>[^/\\]+)-(?P<partition>\d+)[/\\]\d+\.\w")
_LINE = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<time>-?\d+) .*? key: (?P<key>\{.*\}) "
    r"payload: (?P<value>\{.*\}|<DELETE>)$"
)

_Row = dict[str, Any]


def is_printed(path: Path) -> bool:
    """Whether a file holds what Kafka's tools print of records."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(64).lstrip()
    return begin.startswith((b"{", _DUMP))


def read_printed(path: Path) -> pa.RecordBatch:
    """Read what Kafka's tools printed.

    Parameters
    ----------
    path : pathlib.Path

    Returns
    -------
    pyarrow.RecordBatch
        `sharelag.schemas.RAW` of both topics, in the order of the text. The formatters print
        neither partition nor offset: such records count up from 0 in partition 0, without a time.
        Text at the end that is not a whole record becomes a record without a key.

    Raises
    ------
    InputError
        When the text is not what Kafka's tools print.
    """
    text = path.read_text("utf-8", errors="replace").lstrip()
    found = _dumped(text) if text.startswith(_DUMP.decode()) else _objects(text)
    try:
        rows = [row | {"timestampType": 0} for row in found]
        return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)
    except _NOT_PRINTED as error:
        raise InputError(
            f"{path} is not what Kafka's formatters print of share group records ({error!r}): give "
            "the output of kafka-console-consumer.sh or kafka-dump-log.sh"
        ) from error


def _objects(text: str) -> Iterator[_Row]:
    """Yield a row an object, whatever is between them."""
    decoder = json.JSONDecoder()
    at, count = _after_space(text, 0), 0
    while at < len(text):
        try:
            printed, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            yield _place({}, STATE_TOPIC, count) | {"key": None, "value": text[at:].encode()}
            return
        yield _row(printed, count)
        at, count = _after_space(text, end), count + 1


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _row(printed: Mapping[str, Any], count: int) -> _Row:
    if "reject" in printed:
        pair = {name: printed["reject"][name] for name in ("key", "value")}
        octets = {
            name: None if text is None else bytes.fromhex(text) for name, text in pair.items()
        }
        return _place(printed, STATE_TOPIC, count) | octets
    topic, key, value = _encoded(printed["key"], printed["value"])
    return _place(printed, topic, count) | {"key": key, "value": value}


def _place(printed: Mapping[str, Any], topic: str, count: int) -> _Row:
    return {
        "topic": printed.get("topic") or topic,
        "partition": printed.get("partition", 0),
        "offset": printed.get("offset", count),
    }


def _dumped(text: str) -> Iterator[_Row]:
    """Yield a row a line of a record; other lines are about batches."""
    place: _Row = {"topic": STATE_TOPIC, "partition": 0}
    # Not splitlines: a group's id may have what Unicode takes for the end of a line.
    for line in text.split("\n"):
        if line.startswith(_DUMP.decode()):
            file = _FILE.match(line)
            if file is None:
                raise InputError(
                    f"{line!r} does not name a segment, such as {STATE_TOPIC}-3/"
                    "00000000000000000000.log: give the whole output of kafka-dump-log.sh"
                )
            place = {"topic": file["topic"], "partition": int(file["partition"])}
        elif record := _LINE.match(line):
            value = None if record["value"] == "<DELETE>" else json.loads(record["value"])
            _, key, octets = _encoded(json.loads(record["key"]), value)
            numbers = {"offset": int(record["offset"]), "timestamp": int(record["time"])}
            yield place | numbers | {"key": key, "value": octets}
        elif line.startswith("| offset: "):
            number = re.match(r"\| offset: (\d+)", line)
            offset = int(number[1]) if number else None
            yield place | {"offset": offset, "key": None, "value": line.encode()}


# ---- encoding ------------------------------------------------------------------------------------


def _encoded(
    key: Mapping[str, Any], value: Mapping[str, Any] | None
) -> tuple[str, bytes, bytes | None]:
    """Return topic, key and value of a printed record; of another kind's, no more than its type."""
    number, data = int(key["type"]), key["data"]
    kinds, topic = _kinds(number, data, key.get("generation"))
    names = set(data) | (set() if value is None else set(value["data"]))
    for kind in kinds:
        fields = kind.key if value is None else (*kind.key, *kind.value)
        if kind.type == number and names >= {f.json_name for f in fields if f.tag is None}:
            row = _columns(kind.key, data)
            row |= {"tombstone": True} if value is None else _columns(kind.value, value["data"])
            return topic, *encode_record(kind, row)
    if topic == STATE_TOPIC:
        raise ValueError(f"the record of type {number} lacks fields")
    return topic, number.to_bytes(2, "big"), None


def _kinds(
    number: int, data: Mapping[str, Any], generation: int | None
) -> tuple[tuple[RecordKind, ...], str]:
    if generation is not None:
        older = [layout for layout in LAYOUTS if layout.generation == generation]
        # A delta's key has all fields of a checkpoint's.
        older.sort(key=lambda layout: -len(layout.kind.key) - len(layout.kind.value))
        return tuple(layout.kind for layout in older), STATE_TOPIC
    if number in {kind.type for kind in STATE_KINDS} and "topicId" in data:
        return STATE_KINDS, STATE_TOPIC
    return GROUP_KINDS, GROUP_TOPIC


def _columns(fields: tuple[Field, ...], data: Mapping[str, Any]) -> _Row:
    """Return printed fields by column; a tagged one that is not there has its default."""
    row: _Row = {}
    for field in fields:
        value = (
            data.get(field.json_name, field.default)
            if field.tag is not None
            else (data[field.json_name])
        )
        items = [_columns(field.fields, item) for item in value] if field.fields else value
        row[field.column] = items
    return row
