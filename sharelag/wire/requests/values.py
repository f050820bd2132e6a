"""Columns of what requests nest, under our names and types."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import requests as schemas


def column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def capital(values: pa.Array) -> pa.Array:
    """Return types of groups as Kafka's tools print them; null where unknown."""
    return pc.if_else(pc.equal(values, ""), None, pc.utf8_capitalize(values))


def only_where(condition: pa.Array, values: pa.Array) -> pa.Array:
    """Return values, null where a condition does not hold."""
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def positive(values: pa.Array, least: int = 1) -> pa.Array:
    """Return numbers; null for those that stand for what is not known."""
    return pc.if_else(pc.greater_equal(values, least), values, pa.scalar(None, values.type))


def word_of(types: pa.Array) -> pa.Array:
    """Return what Kafka's numbers of acknowledgements mean; an unknown one says so."""
    known = pc.is_in(types, pa.array(range(len(schemas.ACKNOWLEDGE_WORDS)), types.type))
    word = pa.array(schemas.ACKNOWLEDGE_WORDS).take(only_where(known, types))
    unknown = pc.binary_join_element_wise("unknown", types.cast(pa.string()), " ")
    return pc.coalesce(word, unknown)


def renamed(lists: pa.Array, kind: pa.ListType) -> pa.Array:
    """Return lists of structs under our names for the same fields, nulls kept."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    items = pc.list_flatten(lists)
    fields = [
        pc.struct_field(items, _json_name(field.name)).cast(field.type) for field in kind.value_type
    ]
    values = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values, type=kind, mask=lists.is_null())


def _json_name(column: str) -> str:
    first, *others = column.split("_")
    return first + "".join(word.capitalize() for word in others)
