"""Flatten field tables into a program that a compiled kernel runs.

A table is flattened into a *program*: an integer matrix with one instruction per row. `decode_rows`
runs it over the bytes of each record and writes every value into a *slot*, an int64 column.

Arrays make *levels*. Level 0 has one row per record; each array field adds a level with one row per
element. An array's own slot, at the level of its parent, holds the number of elements. This is
Arrow's own nesting, so the slots become Arrow columns without another pass over the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharelag.compiled import kernel
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


@dataclass(slots=True)
class Program:
    """The instructions for all record kinds of one topic, sharing their slots by column path."""

    kinds: tuple[RecordKind, ...]
    # The output column of each field, by path, such as "state_batches.first_offset".
    slots: dict[str, int] = field(default_factory=dict)
    levels: list[str] = field(default_factory=lambda: [""])  # the path of each level's array
    level_bytes: list[int] = field(default_factory=lambda: [1])  # minimum size of an element
    instructions: list[list[int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # the field of each instruction, for messages
    tags: list[list[int]] = field(default_factory=list)  # [tag, size, slot, default]
    # By type, the first instruction of key and value.
    entries: dict[int, tuple[int, int]] = field(default_factory=dict)
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
    """Return the program for a topic's records."""
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
            slot = _slot(program, path + item.column, level)
            program.tags.append([item.tag, INT_SIZES[item.type], slot, item.default])
    if flexible:
        name, count = path.rstrip(".") or "value", len(program.tags) - first_tag
        _emit(program, OP_TAGS, f"tags of {name}", 0, level, first_tag, count)
    return start


def _emit_field(program: Program, item: Field, path: str, level: int, flexible: bool) -> None:
    own = path + item.column
    slot = _slot(program, own, level, 2 if item.type == "string" else 1)
    if item.type in INT_SIZES:
        op = OP_UNSIGNED if item.type.startswith("u") else OP_INT
        _emit(program, op, item.name, slot, level, INT_SIZES[item.type])
        return
    if item.type == "uuid":
        _emit(program, OP_UUID, item.name, slot, level)
        return
    if item.type == "string":
        op = OP_COMPACT_STRING if flexible else OP_STRING
        _emit(program, op, item.name, slot, level, int(item.nullable))
        return
    if own not in program.levels:
        least = smallest(item.element) if item.element else smallest_size(item.fields, flexible)
        program.levels.append(own)
        program.level_bytes.append(least)
    child = program.levels.index(own)
    op = OP_ARRAY if flexible else OP_CLASSIC_ARRAY
    array = _emit(program, op, item.name, slot, level, child)
    body = len(program.instructions)
    if item.element:
        _emit_field(program, item.element, own + ".", child, flexible)
    else:
        _emit_struct(program, item.fields, own + ".", child, flexible=flexible)
    _emit(program, OP_NEXT, item.name, 0, level, child, body)
    program.instructions[array][4] = len(program.instructions)


def _slot(program: Program, path: str, level: int, width: int = 1) -> int:
    if path not in program.slots:
        program.slots[path] = len(program.slot_levels)
        program.slot_levels += [level] * width
    return program.slots[path]


# ---- running a program over the bytes of records -------------------------------------------------


# Reasons for a reject; REASONS has the texts.
OK, SKIPPED, NO_KEY, SHORT, VARINT, NULL, LENGTH, VERSION = range(8)
TOO_MANY, STRING_TOO_LONG, NO_PLACE, NEGATIVE_TAGS, TOO_MANY_TAGS = range(8, 13)

REASONS = {
    NO_KEY: "the record has no key",
    SHORT: "{part} ends before or inside {field}",
    VARINT: "{part}: {field} has a variable-length number of more than 5 bytes",
    NULL: "{part}: {field} must not be null",
    LENGTH: "{part}: {field} has a negative length",
    VERSION: "the value has an unknown version (Kafka has only version 0)",
    TOO_MANY: "{part}: {field} declares more elements than there are bytes left",
    STRING_TOO_LONG: "{part}: {field} is longer than the 32767 bytes Kafka allows",
    NO_PLACE: "the record has no topic, no partition or no offset",
    NEGATIVE_TAGS: "{part}: the number of {field} is negative, which Kafka before 4.4 reads as 0",
    TOO_MANY_TAGS: "{part}: {field} are more than 10000, which Kafka before 4.4 reads",
}

#: Reasons to refuse records that Kafka before 4.4 accepts.
REFUSED_SINCE = (NEGATIVE_TAGS, TOO_MANY_TAGS)
_MOST_TAGS = 10_000

KEY_PART, VALUE_PART = 0, 1


@kernel(inline="always")
def _read_int(buf: Any, p: Any, size: Any) -> Any:
    value = np.int64(buf[p])
    if value > 127:
        value -= 256
    for k in range(1, size):
        value = (value << 8) | buf[p + k]
    return value


@kernel(inline="always")
def _read_varint(buf: Any, p: Any, end: Any) -> Any:
    """Return value and next position; a negative position is minus the reason."""
    value = np.int64(0)
    for k in range(5):
        if p >= end:
            return 0, -SHORT
        byte = np.int64(buf[p])
        p += 1
        value |= (byte & 127) << (7 * k)
        if byte < 128:
            value &= 0xFFFFFFFF
            return (value - (1 << 32) if value >= (1 << 31) else value), p
    return 0, -VARINT


@kernel
def _run(
    ops: Any, pc: Any, known: Any, buf: Any, p: Any, end: Any, out: Any, base: Any, cur: Any,
    used: Any, stack: Any, tag_out: Any, tag_used: int, row: int, row_start: Any, lenient: bool,
) -> Any:  # fmt: skip
    """Run one program over ``buf[p:end]``; return reason, instruction, tags, bytes left over."""
    depth = 0
    while True:
        op, slot, level = ops[pc, 0], ops[pc, 1], ops[pc, 2]
        if op == OP_STOP:
            return OK, pc, tag_used, end - p
        at = base[slot] + cur[level]
        if op in (OP_INT, OP_UNSIGNED):
            size = ops[pc, 3]
            if p + size > end:
                return SHORT, pc, tag_used, end - p
            number = _read_int(buf, p, size)
            if op == OP_UNSIGNED and number < 0:
                number += np.int64(1) << (8 * size)
            out[at] = number
            p += size
        elif op == OP_UUID:
            if p + 16 > end:
                return SHORT, pc, tag_used, end - p
            out[at] = p
            p += 16
        elif op in (OP_STRING, OP_COMPACT_STRING):
            if op == OP_STRING:
                if p + 2 > end:
                    return SHORT, pc, tag_used, end - p
                length = _read_int(buf, p, 2)
                p += 2
            else:
                length, p = _read_varint(buf, p, end)
                if p < 0:
                    return -p, pc, tag_used, 0
                length -= 1
            if length < 0:
                if ops[pc, 3] == 0:
                    return NULL, pc, tag_used, end - p
                length = -1
            if length > 32767:
                return STRING_TOO_LONG, pc, tag_used, end - p
            if p + max(length, 0) > end:
                return SHORT, pc, tag_used, end - p
            out[at] = p
            out[base[slot + 1] + cur[level]] = length
            p += max(length, 0)
        elif op in (OP_ARRAY, OP_CLASSIC_ARRAY):
            if op == OP_CLASSIC_ARRAY:
                if p + 4 > end:
                    return SHORT, pc, tag_used, end - p
                count = _read_int(buf, p, 4)
                p += 4
            else:
                count, p = _read_varint(buf, p, end)
                if p < 0:
                    return -p, pc, tag_used, 0
                count -= 1
            if count < 0:
                return NULL, pc, tag_used, end - p
            if count > end - p:
                return TOO_MANY, pc, tag_used, end - p
            out[at] = count
            if count == 0:
                pc = ops[pc, 4]
                continue
            child = ops[pc, 3]
            stack[depth] = count
            depth += 1
            cur[child] = used[child]
            used[child] += 1
        elif op == OP_NEXT:
            stack[depth - 1] -= 1
            if stack[depth - 1] > 0:
                child = ops[pc, 3]
                cur[child] = used[child]
                used[child] += 1
                pc = ops[pc, 4]
                continue
            depth -= 1
        elif op == OP_TAGS:
            first, count = ops[pc, 3], ops[pc, 4]
            for k in range(first, first + count):
                out[base[known[k, 2]] + cur[level]] = known[k, 3]
            sections, p = _read_varint(buf, p, end)
            if p < 0:
                return -p, pc, tag_used, 0
            if sections > end - p:
                return TOO_MANY, pc, tag_used, end - p
            if sections < 0 and not lenient:
                return NEGATIVE_TAGS, pc, tag_used, end - p
            if sections > _MOST_TAGS and not lenient:
                return TOO_MANY_TAGS, pc, tag_used, end - p
            for _ in range(sections):
                tag, p = _read_varint(buf, p, end)
                if p < 0:
                    return -p, pc, tag_used, 0
                size, p = _read_varint(buf, p, end)
                if p < 0:
                    return -p, pc, tag_used, 0
                ours = -1
                for k in range(first, first + count):
                    if known[k, 0] == tag:
                        ours = k
                if ours >= 0:
                    if p + known[ours, 1] > end:
                        return SHORT, pc, tag_used, end - p
                    out[base[known[ours, 2]] + cur[level]] = _read_int(buf, p, known[ours, 1])
                    p += known[ours, 1]
                    continue
                if size < 0:
                    return LENGTH, pc, tag_used, end - p
                if p + size > end:
                    return SHORT, pc, tag_used, end - p
                tag_out[0, tag_used] = row
                tag_out[1, tag_used] = level
                tag_out[2, tag_used] = cur[level] - row_start[level]
                tag_out[3, tag_used] = tag
                tag_out[4, tag_used] = p
                tag_out[5, tag_used] = size
                tag_used += 1
                p += size
        pc += 1


@kernel(views=True)
def decode_rows(
    ops: Any, known: Any, entries: Any, keys: Any, key_at: Any, key_null: Any, values: Any,
    value_at: Any, value_null: Any, wanted: Any, unplaced: Any, out: Any, base: Any, used: Any,
    tag_out: Any, kind: Any, reason: Any, where: Any, part: Any, left: Any, lenient: bool,
) -> int:  # fmt: skip
    """Decode every wanted row; return tags used. Failed rows leave nothing in the levels.

    ``kind`` receives the key's type, ``reason`` one of the constants above, ``where`` and ``part``
    the instruction and the part of the record at which decoding stopped, ``left`` the number of
    bytes after a record's fields, which Kafka ignores. ``lenient`` accepts any number of tagged
    fields; a negative one means none.
    """
    cur = np.zeros(len(used), np.int64)
    row_start = np.zeros(len(used), np.int64)
    stack = np.zeros(MAX_DEPTH, np.int64)
    tag_used = 0
    for i in range(len(wanted)):
        if not wanted[i]:
            reason[i] = SKIPPED
            continue
        if key_null[i]:
            reason[i] = NO_KEY
            continue
        p, end = np.int64(key_at[i]), np.int64(key_at[i + 1])
        part[i] = KEY_PART
        where[i] = -1
        if end - p < 2:
            reason[i] = SHORT
            continue
        kind[i] = _read_int(keys, p, 2)
        entry = -1
        for k in range(entries.shape[0]):
            if entries[k, 0] == kind[i]:
                entry = k
        if entry < 0:
            reason[i] = SKIPPED
            continue
        if unplaced[i]:
            reason[i] = NO_PLACE
            continue
        cur[0] = i
        row_start[0] = i
        for level in range(1, len(used)):
            row_start[level] = used[level]
        before = tag_used
        reason[i], where[i], tag_used, over = _run(
            ops, entries[entry, 1], known, keys, p + 2, end, out, base, cur, used, stack, tag_out,
            tag_used, i, row_start, lenient,
        )  # fmt: skip
        left[i] = over
        if reason[i] == OK and not value_null[i]:
            part[i] = VALUE_PART
            p, end = np.int64(value_at[i]), np.int64(value_at[i + 1])
            if end - p < 2:
                reason[i], where[i] = SHORT, -1
            elif _read_int(values, p, 2) != 0:
                reason[i] = VERSION
            else:
                reason[i], where[i], tag_used, over = _run(
                    ops, entries[entry, 2], known, values, p + 2, end, out, base, cur, used, stack,
                    tag_out, tag_used, i, row_start, lenient,
                )  # fmt: skip
                left[i] += over
        if reason[i] != OK:
            tag_used = before
            for level in range(1, len(used)):
                used[level] = row_start[level]
    return tag_used
