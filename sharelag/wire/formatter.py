"""Format records as Kafka's own formatters do: the same JSON, one object per record.

The shape is that of ``ShareGroupStateMessageFormatter`` and ``ShareGroupMessageFormatter``, plus
the position of the record; a tagged field at its default is omitted, as in Kafka. Texts are
composed as whole columns, field by field of the tables in `sharelag.wire.fields`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import Arrow
from sharelag.tables.arrow import of_distinct, one_batch, without_timestamps
from sharelag.tables.lines import json_text
from sharelag.wire.fields import GROUP_KINDS, STATE_KINDS, VALUE_VERSION, Field, RecordKind
from sharelag.wire.generations import layout_of

#: Columns that define a record's kind.
_KIND = ["generation", "record_type"]
#: Returns the column of a field.
_Columns: TypeAlias = Callable[[Field], pa.Array]
#: Maximum bytes and rows that are formatted at once.
_BYTES, _ROWS = 16 << 20, 32_768


def kafka_json(decoded: Arrow) -> Iterator[dict[str, Any]]:
    """Yield the records of a decoded table in the shape of Kafka's formatters.

    The shape is ``{"key": {"type", "data"}, "value": {"version", "data"} or None, "topic",
    "partition", "offset"}``; the key of an older generation's record also has ``"generation"``.
    """
    for texts in kafka_texts(decoded):
        yield from map(json.loads, texts.to_pylist())


def reject_json(rejects: Arrow) -> Iterator[dict[str, Any]]:
    """Yield ``{"reject": {"reason", "key", "value"}, "topic", "partition", "offset"}``, in hex."""
    for texts in reject_texts(rejects):
        yield from map(json.loads, texts.to_pylist())


def kafka_texts(decoded: Arrow) -> Iterator[pa.StringArray]:
    """Yield the results of `kafka_json` as JSON texts in the order of the records, in pieces."""
    for rows in _pieces(decoded):
        is_state = "generation" in rows.schema.names
        older = rows.column("generation") if is_state else pa.nulls(len(rows), pa.int8())
        numbers = pa.array(np.arange(len(rows)))
        which = pa.table([older, rows.column("record_type"), numbers], [*_KIND, "row"])
        kinds = which.group_by(_KIND, use_threads=False).aggregate([("row", "list")])
        texts, places = [], []
        for found in kinds.to_pylist():
            own = rows.take(pa.array(found["row_list"]))
            texts.append(_records(own, *_kind_of(is_state, *(found[name] for name in _KIND))))
            places.append(found["row_list"])
        order = np.argsort(np.concatenate(places))
        yield pa.concat_arrays(texts).take(pa.array(order))


def reject_texts(rejects: Arrow) -> Iterator[pa.StringArray]:
    """Yield the results of `reject_json` as JSON texts in log order, in pieces."""
    for rows in _pieces(rejects):
        parts: list[pa.Array | str] = ['{"reject": {"reason": ', _quote(rows.column("reason"))]
        for name in ("key", "value"):
            parts += [f', "{name}": ', _hex(rows.column(name))]
        yield _join(*parts, "}", *_place(rows))


def _kind_of(
    is_state: bool, generation: int | None, number: int
) -> tuple[RecordKind, int | None, int | None]:
    """Return a kind of records with its generation, if it is older, and its control type."""
    if generation is not None:
        layout = layout_of(generation, number)
        return layout.kind, generation, layout.control
    kinds = {kind.type: kind for kind in (STATE_KINDS if is_state else GROUP_KINDS)}
    return kinds[number], None, None


def _pieces(rows: Arrow) -> Iterator[pa.RecordBatch]:
    """Yield pieces of the rows, so that no column of texts is too long for Arrow."""
    whole = one_batch(without_timestamps(rows))
    if not len(whole):
        return
    at_once = int(min(_ROWS, max(_BYTES * len(whole) // max(whole.nbytes, 1), 1)))
    for begin, end in pairwise([*range(0, len(whole), at_once), len(whole)]):
        yield whole.slice(begin, end - begin)


def _records(
    rows: pa.RecordBatch, kind: RecordKind, generation: int | None, control: int | None
) -> pa.StringArray:

    def column(field: Field) -> pa.Array:
        name = field.column
        if name in rows.schema.names:
            return rows.column(name)
        if name == "control_type":
            return pa.repeat(pa.scalar(control, pa.int16()), len(rows))
        return pc.map_lookup(rows.column("older_fields"), pa.scalar(name), "first")

    of_design = "" if generation is None else f', "generation": {generation}'
    is_gone = rows.column("tombstone").fill_null(False)
    value = _join(f'{{"version": {VALUE_VERSION}, "data": ', _struct(kind.value, column), "}")
    return _join(
        f'{{"key": {{"type": {kind.type}, "data": ',
        _struct(kind.key, column),
        f'{of_design}}}, "value": ',
        pc.if_else(is_gone, "null", value),
        *_place(rows),
    )


def _place(rows: pa.RecordBatch) -> list[pa.Array | str]:
    return [
        ', "topic": ',
        _quote(rows.column("topic")),
        ', "partition": ',
        _number(rows.column("record_partition")),
        ', "offset": ',
        _number(rows.column("offset")),
        "}",
    ]


def _struct(fields: tuple[Field, ...], column: _Columns) -> pa.StringArray:
    """Return structs as objects; no struct begins with a tagged field."""
    parts: list[pa.Array | str] = []
    for field in fields:
        named = f'{", " if parts else "{"}"{field.json_name}": '
        values = column(field)
        if field.unknown is not None:
            values = values.fill_null(field.unknown)
        if field.tag is None:
            parts += [named, _values(field, values)]
        else:
            is_default = pc.equal(values, field.default)
            parts.append(pc.if_else(is_default, "", _join(named, _number(values))))
    return _join(*parts, "}")


def _values(field: Field, values: pa.Array) -> pa.StringArray:
    if field.type in ("string", "uuid"):
        return _quote(values)
    if not field.type.startswith("[]"):
        return _number(values)
    items = values.flatten()
    if field.element is not None:
        texts = _values(field.element, items)
    else:
        texts = _struct(field.fields, lambda inner: items.field(inner.column))
    sizes = pc.list_value_length(values).fill_null(0)
    ends = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
    return _join("[", pc.binary_join(pa.ListArray.from_arrays(ends, texts), ", "), "]")


def _number(values: pa.Array) -> pa.StringArray:
    return values.cast(pa.string()).fill_null("null")


def _quote(values: pa.Array) -> pa.StringArray:
    return of_distinct(values, json_text, pa.string()).fill_null("null")


def _hex(values: pa.Array) -> pa.StringArray:
    texts = pa.array((one and one.hex() for one in values.to_pylist()), pa.string())
    return _join('"', texts, '"').fill_null("null")


def _join(*parts: pa.Array | str) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, "")
