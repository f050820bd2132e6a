"""One record with its state in a share group, as text, as JSON, or as hexadecimal bytes.

All texts are escaped, because producers may write anything into keys, values and headers.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from numbers import Integral
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.inputs import KafkaInput
from sharelag.inputs.kafka.records import TopicRecord, record_at
from sharelag.model import DeliveryState, iso
from sharelag.tables.words import pluralize, terminal

_HIDDEN = "***"
_DEEPEST = 100


class Fields(list[tuple[str, Any]]):
    """A JSON object: names and values in their order, including duplicates."""


class Literal(str):
    """A number, or a word such as NaN that some writers use, as it was written."""


def _read_json(data: bytes) -> Any:
    """Parse JSON; raise ValueError if invalid, RecursionError if nested too deeply."""
    kept: Any = dict.fromkeys(("parse_float", "parse_int", "parse_constant"), Literal)
    return json.loads(data, object_pairs_hook=Fields, **kept)


def _json_text(found: Any, indent: int | None = 2, depth: int = 1) -> str:
    """Format a result of `_read_json`, one item per line, or one line without ``indent``."""
    if depth > _DEEPEST:
        raise RecursionError(f"JSON is nested more than {_DEEPEST} times")
    if isinstance(found, Literal):
        return str(found)
    if not isinstance(found, list):
        return json.dumps(found, ensure_ascii=False)
    if isinstance(found, Fields):
        begin, end = "{", "}"
        items = [
            f"{json.dumps(name, ensure_ascii=False)}: {_json_text(one, indent, depth + 1)}"
            for name, one in found
        ]
    else:
        begin, end = "[", "]"
        items = [_json_text(one, indent, depth + 1) for one in found]
    if indent is None or not items:
        return f"{begin}{', '.join(items)}{end}"
    inner, outer = "\n" + " " * indent * depth, "\n" + " " * indent * (depth - 1)
    return f"{begin}{inner}{f',{inner}'.join(items)}{outer}{end}"


def _without(found: Any, path: list[str]) -> Any:
    """Return parsed JSON with a field hidden, in each item of a list.

    ``card.number`` is the field ``number`` within ``card``, or a field whose name has a dot.
    """
    if isinstance(found, Fields):
        return Fields((name, _hidden(name, one, path)) for name, one in found)
    return [_without(one, path) for one in found] if isinstance(found, list) else found


def _hidden(name: str, value: Any, path: list[str]) -> Any:
    for taken in range(1, len(path) + 1):
        if name == ".".join(path[:taken]):
            value = _HIDDEN if taken == len(path) else _without(value, path[taken:])
    return value


def _has(found: Any, path: list[str]) -> bool:
    if isinstance(found, Fields):
        return any(
            name == ".".join(path[:taken]) and (taken == len(path) or _has(one, path[taken:]))
            for name, one in found
            for taken in range(1, len(path) + 1)
        )
    return isinstance(found, list) and any(_has(one, path) for one in found)


def _has_fields(found: Any) -> bool:
    """Return whether all values have names: a bare number may be the one to hide."""
    if isinstance(found, Fields):
        return True
    return isinstance(found, list) and bool(found) and all(map(_has_fields, found))


#: Names of JSON fields to hide, ``card.number`` for nested ones, or a function from parsed JSON to
#: the part that may be shown.
Mask: TypeAlias = Iterable[str] | Callable[[Any], Any]

_NO_FIELDS = "(hidden: it is not a JSON object, so no field can be masked)"
_NONE_MASKED = "(hidden: it has none of the fields to mask)"
#: Bytes in a line of hexadecimal digits.
_HEX_LINE = 32


@dataclass(frozen=True)
class PeekedRecord:
    """A record and its state in a share group.

    Attributes
    ----------
    record
        As Kafka stores it.
    group
        The share group.
    state
        The record's state in the group's window: of `sharelag.model.DeliveryState`, or
        ``finished`` before the window, ``unread`` beyond it, ``not persisted`` where Kafka writes
        none (acquired, or never delivered).
    delivery_count
        As persisted; None if unknown.
    mask
        Fields hidden in all outputs; ``record`` has everything.
    """

    record: TopicRecord
    group: str
    state: str
    delivery_count: int | None
    mask: Mask = field(default=(), repr=False)

    def text(self, form: str = "auto") -> str:
        """Return the record as text: one line per fact, then key, headers and value.

        Parameters
        ----------
        form : {"auto", "text", "json", "hex"}
            Form of key and value; ``auto`` is JSON if valid, else text if UTF-8, else hex.
        """
        record = self.record
        when = "no timestamp" if record.timestamp is None else iso(record.timestamp)
        count = "unknown" if self.delivery_count is None else f"{self.delivery_count}"
        place = f"{record.topic}:{record.partition}:{record.offset}"
        lines = [
            f"{place} in {self.group}: {self.state}, delivery count {count}",
            f"{record.timestamp_type or 'time'}: {when}",
            f"key, {_size(record.key)}:",
            *_indent(self._show(record.key, form)),
        ]
        for name, value in record.headers:
            shown = " ".join(self._show(value, form, indent=None).splitlines())
            lines.append(f"header {name}, {_size(value)}: {shown}")
        lines += [f"value, {_size(record.value)}:", *_indent(self._show(record.value, form))]
        lines += [
            f"no field {name!r} to mask: check its spelling, which is case-sensitive"
            for name in self.not_found
        ]
        return "\n".join(map(terminal, lines))

    def fields(self, form: str = "auto") -> dict[str, Any]:
        """Return the record as one object for programs, without escapes."""
        record = self.record

        def shown(data: bytes | None, indent: int | None = 2) -> str | None:
            return None if data is None else self._show(data, form, indent)

        return {
            "group_id": self.group,
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "state": self.state,
            "delivery_count": self.delivery_count,
            "timestamp": None if record.timestamp is None else iso(record.timestamp),
            "timestamp_type": record.timestamp_type,
            "key_bytes": None if record.key is None else len(record.key),
            "value_bytes": None if record.value is None else len(record.value),
            "key": shown(record.key),
            "headers": [{"name": name, "value": shown(one, None)} for name, one in record.headers],
            "value": shown(record.value),
            "not_found": list(self.not_found),
        }

    @property
    def not_found(self) -> tuple[str, ...]:
        """Fields to mask that neither key, value nor headers have; names are case-sensitive."""
        if callable(self.mask):
            return ()
        record = self.record
        held = [record.key, record.value, *(value for _, value in record.headers)]
        read = [_read_json(one) for one in held if one is not None and _can_be(one, "json")]
        return tuple(n for n in self.mask if not any(_has(one, n.split(".")) for one in read))

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"

    def _show(self, data: bytes | None, form: str, indent: int | None = 2) -> str:
        if data is None:
            return "null"
        if form == "auto":
            form = next(one for one in ("json", "text", "hex") if _can_be(data, one))
        if callable(self.mask):
            if not _can_be(data, "json"):
                return _NO_FIELDS
            return json.dumps(self.mask(json.loads(data)), indent=indent, ensure_ascii=False)
        if paths := [name.split(".") for name in self.mask]:
            if not (_can_be(data, "json") and _has_fields(_read_json(data))):
                return _NO_FIELDS
            found = _read_json(data)
            if not any(_has(found, path) for path in paths):
                return _NONE_MASKED
            return _json_text(reduce(_without, paths, found), indent)
        if form == "json":
            if not _can_be(data, "json"):
                raise InputError("key, header or value is not JSON: choose the form text or hex")
            return _json_text(_read_json(data), indent)
        if form == "text":
            return data.decode("utf-8", "backslashreplace")
        lines = (data[at : at + _HEX_LINE] for at in range(0, len(data), _HEX_LINE))
        return "\n".join(line.hex(" ") for line in lines)


def peek(
    source: Any, lag: pa.Table, windows: pa.Table, place: tuple[str, str, int, int], mask: Mask
) -> PeekedRecord:
    """Read a record of a running cluster, and its state in the group's window.

    ``lag`` and ``windows`` are those of the group; ``place`` is group, topic, partition and offset.
    """
    group, topic, partition, offset = place
    if not all(isinstance(one, Integral) for one in (partition, offset)):
        raise InputError(f"{topic}:{partition}:{offset} is not a record: give whole numbers")
    if not isinstance(source, KafkaInput):
        raise InputError(
            f"{source.describe()} has no records of topics, by design: payloads are in no capture. "
            "Give the running cluster (--bootstrap-server)"
        )
    rows = [row for row in lag.to_pylist() if row["topic"] == topic]
    mine = next((row for row in rows if row["partition"] == partition), None)
    if mine is None:
        raise InputError(
            f"there is no state of share group {group!r} in partition {partition} of {topic!r}: "
            "check the spelling, that the group has consumed, and your right to DESCRIBE the topic"
        )
    same = pc.and_(
        pc.equal(windows.column("topic_id"), mine["topic_id"]),
        pc.equal(windows.column("partition"), partition),
    )
    (window,) = windows.filter(same).to_pylist()
    record = record_at(source.config, topic, partition, offset)
    state, count = _state(window, offset)
    return PeekedRecord(record, group, state, count, mask if callable(mask) else tuple(mask))


def _state(window: dict[str, Any], offset: int) -> tuple[str, int | None]:
    if window["start_offset"] is None:
        return "not known", None
    if offset < window["effective_start_offset"]:
        return "finished", None
    for run in window["runs"]:
        if run["first_offset"] <= offset <= run["last_offset"]:
            known = {int(one): one.name.lower() for one in DeliveryState}
            number = run["delivery_state"]
            return known.get(number, f"state {number}"), run["delivery_count"]
    return ("unread" if offset >= window["window_end_offset"] else "not persisted"), None


def _can_be(data: bytes, form: str) -> bool:
    if form == "hex":
        return True
    try:
        if form == "json":
            _json_text(_read_json(data))
        else:
            data.decode()
    except (ValueError, RecursionError):
        return False
    return True


def _size(data: bytes | None) -> str:
    return "null" if data is None else pluralize(len(data), "byte")


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()] or ["  "]
