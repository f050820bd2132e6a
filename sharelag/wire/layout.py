"""Which numbers a state record has, from the field tables: columns of the compiled pass."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sharelag.wire.fields import INT_SIZES, STATE_KINDS, Field

#: The array of every state record; its fields are columns with a row a state batch.
BATCHES = "state_batches"
#: What Kafka's lag needs of a record.
POSITION_NUMBERS = ("leader_epoch", "start_offset", "delivery_complete_count")


class Number(NamedTuple):
    """A column of whole numbers."""

    column: str
    dtype: type[np.signedinteger[Any]]
    absent: int  # of a record that does not have it
    unknown: int | None  # null in our tables
    kinds: tuple[int, ...]  # the types of record that have it


@cache
def record_numbers() -> tuple[Number, ...]:
    """Return the numbers of snapshots and updates, in the order of their first appearance."""
    found: dict[str, tuple[Field, list[int]]] = {}
    for kind in STATE_KINDS:
        for field in kind.value:
            if field.type in INT_SIZES:
                found.setdefault(field.column, (field, []))[1].append(kind.type)
    return tuple(_number(field, tuple(kinds)) for field, kinds in found.values())


@cache
def batch_numbers() -> tuple[Number, ...]:
    """Return the numbers of a state batch."""
    (batches,) = {f for kind in STATE_KINDS for f in kind.value if f.type == "[]struct"}
    return tuple(_number(f, tuple(kind.type for kind in STATE_KINDS)) for f in batches.fields)


def _number(field: Field, kinds: tuple[int, ...]) -> Number:
    absent = field.default if field.unknown is None else field.unknown
    return Number(field.column, getattr(np, field.type), absent, field.unknown, kinds)
