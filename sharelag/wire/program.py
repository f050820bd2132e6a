"""Flatten field tables into a program that a compiled kernel runs.

A table is flattened into a *program*: an integer matrix with one instruction per row. The kernel in
`kernels` runs it over the bytes of each record and writes every value into a *slot*: one int64
column.

Arrays make *levels*. Level 0 has one row per record; each array field adds a level with one row per
element. An array's own slot, at the level of its parent, holds the number of elements. This is
Arrow's own nesting, so the slots become Arrow columns without another pass over the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sharelag.wire.fields import INT_SIZES, Field, RecordKind, kinds_of, smallest, smallest_size

# Instructions: [operation, slot, level, argument, argument]
OP_STOP = 0
OP_INT = 1  # argument: size in bytes
OP_UUID = 2  # slot: position of the 16 bytes
OP_STRING = 3  # classic; slot: position, slot + 1: length
OP_COMPACT_STRING = 4  # argument: 1 when null is allowed (length -1)
OP_ARRAY = 5  # compact; slot: count; arguments: level of the elements, instruction after the array
OP_NEXT = 6  # end of an element; arguments: level of the elements, first instruction of the body
OP_TAGS = 7  # arguments: first row in the tag table, number of rows
OP_CLASSIC_ARRAY = 8  # as OP_ARRAY, with an int32 count
OP_UNSIGNED = 9  # as OP_INT
#: Maximum nesting of arrays.
MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Slot:
    """The output column of one field."""

    index: int
    level: int


@dataclass(slots=True)
class Program:
    """The instructions for all record kinds of one topic, sharing their slots by column path."""

    kinds: tuple[RecordKind, ...]
    slots: dict[str, Slot] = field(
        default_factory=dict
    )  # by path, such as "state_batches.first_offset"
    levels: list[str] = field(default_factory=lambda: [""])  # the path of each level's array
    level_bytes: list[int] = field(default_factory=lambda: [1])  # minimum size of an element
    instructions: list[list[int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # the field of each instruction, for messages
    tags: list[list[int]] = field(default_factory=list)  # [tag, size, slot, default]
    entries: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # type -> first instruction of key and value
    slot_levels: list[int] = field(default_factory=list)  # the level of each slot

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return instructions, tag table and entry points ``[type, key, value]`` for the kernel."""
        entries = [[kind, *points] for kind, points in self.entries.items()]
        return (
            np.array(self.instructions, np.int64),
            np.array(self.tags or np.empty((0, 4)), np.int64),
            np.array(entries, np.int64),
        )


@cache
def program_for(topic: str) -> Program:
    """Return the program for a topic's records.

    Parameters
    ----------
    topic : str
        `sharelag.wire.fields.STATE_TOPIC` or `GROUP_TOPIC`.
    """
    return program_of(kinds_of(topic))


@cache
def program_of(kinds: tuple[RecordKind, ...]) -> Program:
    """Return the program for some kinds of record, of different types."""
    program = Program(kinds)
    for kind in kinds:
        key = _emit_struct(program, kind.key, "", 0, flexible=False)
        _emit(program, OP_STOP, "")
        value = _emit_struct(program, kind.value, "", 0, flexible=kind.flexible)
        _emit(program, OP_STOP, "")
        program.entries[kind.type] = (key, value)
    return program


def _emit(
    program: Program, op: int, name: str, slot: int = 0, level: int = 0, a: int = 0, b: int = 0
) -> int:
    program.instructions.append([op, slot, level, a, b])
    program.names.append(name)
    return len(program.instructions) - 1


def _emit_struct(
    program: Program, fields: tuple[Field, ...], path: str, level: int, *, flexible: bool
) -> int:
    start = len(program.instructions)
    first_tag = len(program.tags)
    for item in fields:
        if item.tag is None:
            _emit_field(program, item, path, level, flexible)
        else:
            slot = _slot(program, path + item.column, level).index
            program.tags.append([item.tag, INT_SIZES[item.type], slot, item.default])
    if flexible:
        name = path.rstrip(".") or "value"
        _emit(
            program, OP_TAGS, f"tags of {name}", 0, level, first_tag, len(program.tags) - first_tag
        )
    return start


def _emit_field(program: Program, item: Field, path: str, level: int, flexible: bool) -> None:
    own = path + item.column
    slot = _slot(program, own, level, 2 if item.type == "string" else 1).index
    if item.type in INT_SIZES:
        op = OP_UNSIGNED if item.type.startswith("u") else OP_INT
        _emit(program, op, item.name, slot, level, INT_SIZES[item.type])
    elif item.type == "uuid":
        _emit(program, OP_UUID, item.name, slot, level)
    elif item.type == "string":
        op = OP_COMPACT_STRING if flexible else OP_STRING
        _emit(program, op, item.name, slot, level, int(item.nullable))
    else:
        _emit_array(program, item, own, slot, level, flexible)


def _emit_array(
    program: Program, item: Field, own: str, slot: int, level: int, flexible: bool
) -> None:
    least = smallest(item.element) if item.element else smallest_size(item.fields, flexible)
    child = _level(program, own, least)
    op = OP_ARRAY if flexible else OP_CLASSIC_ARRAY
    array = _emit(program, op, item.name, slot, level, child)
    body = len(program.instructions)
    if item.element:
        _emit_field(program, item.element, own + ".", child, flexible)
    else:
        _emit_struct(program, item.fields, own + ".", child, flexible=flexible)
    _emit(program, OP_NEXT, item.name, 0, level, child, body)
    program.instructions[array][4] = len(program.instructions)


def _slot(program: Program, path: str, level: int, width: int = 1) -> Slot:
    if path not in program.slots:
        program.slots[path] = Slot(len(program.slot_levels), level)
        program.slot_levels += [level] * width
    return program.slots[path]


def _level(program: Program, path: str, least_bytes: int) -> int:
    if path not in program.levels:
        program.levels.append(path)
        program.level_bytes.append(least_bytes)
    return program.levels.index(path)
