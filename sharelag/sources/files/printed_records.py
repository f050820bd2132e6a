"""One printed record: check what its JSON says, and encode it as Kafka does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sharelag.model import topic_id_bytes
from sharelag.wire.encode import encode_record
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

_Row = dict[str, Any]
#: Key and value.
_Octets = tuple[bytes, bytes | None]
_KAFKA_4_0 = 3


class NotPrintedError(Exception):
    """An object that no tool prints of a record; the message says why."""


def number(value: Any, name: str, kind: str) -> int:
    """Return a number of a printed record that its type can hold.

    Raises
    ------
    NotPrintedError
        When it is not a number, or too large for the type.
    """
    bits, signed = INT_SIZES[kind] * 8, not kind.startswith("u")
    least, end = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    if type(value) is not int or not least <= value < end:
        raise NotPrintedError(f"{name} is {_short(value)}: it has to be an {kind}")
    return value


def text(value: Any, name: str) -> str:
    """Return a text of a printed record that Kafka can hold.

    Raises
    ------
    NotPrintedError
        When it is not a text, is too long, or has half a character.
    """
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

    def encoded(self, key: Any, value: Any) -> tuple[str, bytes, bytes | None]:
        """Return topic, key and value of a record; of another kind's, no more than its type.

        Raises
        ------
        NotPrintedError
            When an object or a field is missing, or is of another type.
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
        if generation is None and not _is_of_state(record_type, data):
            return GROUP_TOPIC, *_of_group(record_type, data, value)
        fields = None if value is None else _fields_of(value)
        if generation is None:
            kinds = self._kinds(record_type, data, fields)
        else:
            kinds = _older(number(generation, "its generation", "int8"))
        return STATE_TOPIC, *_encoded(kinds, record_type, data, fields)

    def rejected(self, printed: Any) -> tuple[bytes | None, bytes | None]:
        """Return the bytes of what could not be decoded."""
        texts = _object(printed, "its reject")
        try:
            key, value = (
                None if texts.get(name) is None else bytes.fromhex(texts[name])
                for name in ("key", "value")
            )
        except (ValueError, TypeError) as error:
            raise NotPrintedError("the bytes of its reject are not hexadecimal") from error
        return key, value

    def _kinds(self, record_type: int, key: _Row, fields: _Row | None) -> tuple[RecordKind, ...]:
        place = tuple(str(key.get(name)) for name in ("groupId", "topicId", "partition"))
        if fields is not None and record_type == SHARE_SNAPSHOT.type:
            if "createTimestamp" in fields or "writeTimestamp" in fields:
                self._of_kafka_4_0.discard(place)
            else:
                self._of_kafka_4_0.add(place)
        if place in self._of_kafka_4_0 and "deliveryCompleteCount" not in (fields or ()):
            return (*_older(_KAFKA_4_0), *STATE_KINDS)
        return STATE_KINDS


def _is_of_state(record_type: int, data: Any) -> bool:
    known = record_type in {kind.type for kind in STATE_KINDS}
    return known and isinstance(data, dict) and "topicId" in data


def _older(generation: int) -> tuple[RecordKind, ...]:
    found = [layout.kind for layout in LAYOUTS if layout.generation == generation]
    # A delta's key has all fields of a checkpoint's.
    return tuple(sorted(found, key=lambda kind: -len(kind.key) - len(kind.value)))


def _of_group(record_type: int, data: Any, value: Any) -> _Octets:
    if record_type not in {kind.type for kind in GROUP_KINDS}:
        return record_type.to_bytes(2, "big", signed=True), None
    fields = None if value is None else _fields_of(value)
    return _encoded(GROUP_KINDS, record_type, _object(data, "the data of its key"), fields)


def _encoded(
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
        field.column: _checked(field, data.get(field.json_name, field.default)) for field in fields
    }


def _checked(field: Field, value: Any) -> Any:
    """Return the value of a field, by columns where it has fields."""
    if field.type in INT_SIZES:
        return number(value, field.json_name, field.type)
    if value is None and field.nullable:
        return None
    if field.type.startswith("[]"):
        if not isinstance(value, list):
            raise NotPrintedError(f"{field.json_name} is {_short(value)}: it has to be a list")
        if field.element:
            return [_checked(field.element, item) for item in value]
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


def _fields_of(value: Any) -> _Row:
    return _object(_object(value, "its value").get("data"), "the data of its value")


def _object(value: Any, what: str) -> _Row:
    if not isinstance(value, dict):
        raise NotPrintedError(f"{what} is {_short(value)}: it has to be an object")
    return value


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}..."
