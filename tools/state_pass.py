"""Write ``sharelag/wire/state_pass.py``: the decoder's fast pass over the state topic.

``python tools/state_pass.py`` makes it from `sharelag.wire.fields`. The file is committed so that
numba caches what it compiles. It takes records as Kafka writes them: fixed-size fields, one array
of structs of fixed-size fields without tags, and known tags in their order. Every other record is
left to the interpreter, so a new field costs speed until this file is made again, never a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sharelag.wire.fields import INT_SIZES, STATE_KINDS, VALUE_VERSION, Field, RecordKind
from sharelag.wire.layout import BATCHES, POSITION_NUMBERS, batch_numbers, record_numbers

FILE = Path(__file__).resolve().parent.parent / "sharelag" / "wire" / "state_pass.py"

_HEAD = '''\
"""Decode the values of state records in one compiled pass. Made by ``tools/state_pass.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import uint64 as u

from sharelag.compiled import kernel
from sharelag.wire.lanes import compare_structs, put_structs
from sharelag.wire.loads import {loads}

_put = put_structs({sizes})
_compare = compare_structs({sizes})


@kernel(inline="always")
def _octets(rest: Any) -> Any:
    """Return a mask of the octets of so many structs, of eight."""
    bits = u(4) * u(min(rest, 8))
    return ((u(1) << bits) << bits) - u(1)


@kernel(inline="always")
def _bits(rest: Any) -> Any:
    """Return a bit for each of so many structs, of eight."""
    return np.uint8((u(1) << u(min(rest, 8))) - u(1))


@kernel
def state_pass(
    values: Any, value_at: Any, value_null: Any, record_type: Any, code: Any, odd: Any,
    batch_at: Any, numbers: Any, batches: Any,
) -> int:  # fmt: skip
    """Decode every value that is as Kafka writes it; return how many are not.

    Parameters
    ----------
    values, value_at, value_null
        Arrow's bytes and offsets, and which rows are null.
    record_type, code
        Of the keys; a negative code is a key that could not be read.
    odd : uint8[records]
        Becomes 1 for a row that this pass cannot read; it leaves no state batches.
    batch_at : int32[records + 1]
        Becomes where the state batches of each record begin.
    numbers, batches
        Columns to fill, in the order of `sharelag.wire.layout`; those of batches have room for
        eight more.
    """
'''

_POSITIONS = '''

@kernel
def position_pass(
    values: Any, value_at: Any, value_null: Any, record_type: Any, code: Any, odd: Any, turned: Any,
    numbers: Any,
) -> int:  # fmt: skip
    """Decode where share partitions stand, and no state batch; return how many rows are odd.

    Parameters
    ----------
    values, value_at, value_null, record_type, code, odd
        As for `state_pass`.
    turned : uint8[records]
        Becomes 1 for a record with a state batch that ends before it begins.
    numbers
        Columns to fill, in the order of `sharelag.wire.layout.POSITION_NUMBERS`.
    """
'''


def source() -> str:
    """Return the text of the file."""
    sizes = {INT_SIZES[f.type] for kind in STATE_KINDS for f in _with_elements(kind.value)}
    loads = ", ".join(f"int{8 * size}" for size in sorted(sizes))
    head = _HEAD.format(loads=loads, sizes=_batch_sizes())
    return head + _lines(_body()) + _POSITIONS + _lines(_position_body())


def _lines(body: Iterator[str]) -> str:
    return "".join(f"    {line}\n" for line in body)


def _with_elements(fields: tuple[Field, ...]) -> Iterator[Field]:
    for field in fields:
        yield from field.fields or (field,)


def _body() -> Iterator[str]:
    """Read everything into columns."""
    yield from _unpacked([number.column for number in record_numbers()], "numbers")
    yield from _unpacked([number.column for number in batch_numbers()], "batches")
    yield "total, odds = np.int64(0), 0"
    yield "for i in range(code.size):"
    yield "    batch_at[i] = total"
    yield from _indented(_record({n.column for n in record_numbers()}, _STORED))
    yield "    total += np.int64(count)"
    yield from _indented(_done())
    yield "batch_at[code.size] = total"
    yield "return odds"


def _position_body() -> Iterator[str]:
    """Read a few numbers, and of the batches only whether one ends before it begins."""
    yield from _unpacked(POSITION_NUMBERS, "numbers")
    yield "odds = 0"
    yield "for i in range(code.size):"
    yield "    turned[i] = 0"
    yield from _indented(_record(set(POSITION_NUMBERS), _COMPARED))
    yield "    turned[i] = back"
    yield from _indented(_done())
    yield "return odds"


def _unpacked(names: Iterable[str], packed: str) -> Iterator[str]:
    yield "("
    yield from (f"    {name}," for name in names)
    yield f") = {packed}"


def _record(wanted: set[str], lanes: _Lanes) -> Iterator[str]:
    yield "odd[i] = 1"
    yield "odds += 1"
    yield "if code[i] < 0:"
    yield "    continue"
    tags = {field.column for kind in STATE_KINDS for field in _tagged(kind)}
    for number in record_numbers():
        if number.column in wanted & tags:
            yield f"{number.column}[i] = {number.absent}"
    yield "if value_null[i]:"
    for number in record_numbers():
        if number.column in wanted - tags:
            yield f"    {number.column}[i] = {number.absent}"
    yield from _indented(_done())
    yield "    continue"
    yield "p, end = u(value_at[i]), u(value_at[i + 1])"
    for kind in STATE_KINDS:
        yield f"{'if' if kind is STATE_KINDS[0] else 'elif'} record_type[i] == {kind.type}:"
        yield from _indented(_fixed(kind, wanted))
    yield "else:"
    yield "    continue"
    yield from _array(lanes)
    yield "left = values[q]"
    yield "q += u(1)"
    if len({_tagged(kind) for kind in STATE_KINDS}) == 1:
        yield from _tags(STATE_KINDS[0], wanted)
    else:
        for kind in STATE_KINDS:
            yield f"if record_type[i] == {kind.type}:"
            yield from _indented(_tags(kind, wanted))
    # Bytes that are left over may mean that the record is of an older format.
    yield "if left != 0 or q != end:"
    yield "    continue"


def _done() -> Iterator[str]:
    yield "odd[i] = 0"
    yield "odds -= 1"


def _fixed(kind: RecordKind, wanted: set[str]) -> Iterator[str]:
    """Read the fields before the array; leave ``q`` at the array's length."""
    plain = [field for field in kind.value if field.tag is None]
    if [field.column for field in plain if field.type not in INT_SIZES] != [BATCHES] or plain[
        -1
    ].column != BATCHES:
        raise ValueError(f"{kind.name}: only integers may come before the {BATCHES}, nothing after")
    # At least an empty array and no tags follow.
    size = 2 + sum(INT_SIZES[field.type] for field in plain[:-1])
    yield f"if end < p + u({size + 2}) or int16(values, p) != {VALUE_VERSION}:"
    yield "    continue"
    at = 2
    for field in plain[:-1]:
        if field.column in wanted:
            yield f"{field.column}[i] = {field.type}(values, p + u({at}))"
        at += INT_SIZES[field.type]
    for number in record_numbers():
        if number.column in wanted and kind.type not in number.kinds:
            yield f"{number.column}[i] = {number.absent}"
    yield f"q = p + u({at})"


class _Lanes(NamedTuple):
    """How a loop over the array's structs is written: eight at a time, and one by one."""

    before: tuple[str, ...]
    eight: tuple[str, ...]
    one: Callable[[Field], Iterator[str]]


def _array(lanes: _Lanes) -> Iterator[str]:
    """Read the array at ``q``, whose length has one byte or two; leave ``q`` after it.

    Eight structs are read at a time where the buffer goes on for as many, whoever they belong to.
    """
    (array,) = {f for kind in STATE_KINDS for f in kind.value if f.column == BATCHES}
    size = 1 + sum(INT_SIZES[field.type] for field in array.fields)
    yield "count = u(values[q])"
    yield "q += u(1)"
    yield "if count > u(127):"
    yield "    if q >= end or values[q] > 127:"
    yield "        continue"
    yield "    count = (count & u(127)) | (u(values[q]) << u(7))"
    yield "    q += u(1)"
    yield "if count == u(0):"
    yield "    continue"
    yield "count -= u(1)"
    yield f"after = q + u({size}) * count"
    yield "if after >= end:"
    yield "    continue"
    yield "tagged = u(0)"
    yield from lanes.before
    yield "rest = np.int64(count)"
    yield f"if after + u({8 * size}) <= u(values.size):"
    yield "    while True:"
    yield from (f"        {line}" for line in lanes.eight)
    yield f"        q += u({8 * size})"
    yield "        rest -= 8"
    yield "        if rest <= 0:"
    yield "            break"
    yield "else:"
    yield "    for _ in range(rest):"
    yield from (f"        {line}" for line in lanes.one(array))
    yield f"        tagged |= u(values[q + u({size - 1})])"
    yield f"        q += u({size})"
    yield "if tagged != u(0):"
    yield "    continue"
    yield "q = after"


def _batch_sizes() -> tuple[int, ...]:
    """Return the sizes of the fields of a state batch."""
    (array,) = {f for kind in STATE_KINDS for f in kind.value if f.column == BATCHES}
    return tuple(INT_SIZES[field.type] for field in array.fields)


def _places(array: Field) -> Iterator[tuple[Field, str]]:
    at = 0
    for field in array.fields:
        yield field, f"q + u({at})" if at else "q"
        at += INT_SIZES[field.type]


def _one_stored(array: Field) -> Iterator[str]:
    for field, place in _places(array):
        yield f"{field.column}[k] = {field.type}(values, {place})"
    yield "k += u(1)"


def _one_compared(array: Field) -> Iterator[str]:
    (first, begin), (last, end), *_ = _places(array)
    yield f"back |= np.uint8({first.type}(values, {begin}) > {last.type}(values, {end}))"


_STORED = _Lanes(
    ("k = u(total)",),
    ("tagged |= _put(batches, k, values, q) & _octets(rest)", "k += u(8)"),
    _one_stored,
)
_COMPARED = _Lanes(
    ("back = np.uint8(0)",),
    (
        "after_fields, greater = _compare(values, q)",
        "tagged |= after_fields & _octets(rest)",
        "back |= greater & _bits(rest)",
    ),
    _one_compared,
)


def _tagged(kind: RecordKind) -> tuple[Field, ...]:
    return tuple(field for field in kind.value if field.tag is not None)


def _tags(kind: RecordKind, wanted: set[str]) -> Iterator[str]:
    """Read the known tags at ``q``; leave in ``left`` how many others there are."""
    for field in sorted(_tagged(kind), key=lambda field: field.tag or 0):
        size = INT_SIZES[field.type]
        known = f"values[q] == {field.tag} and values[q + u(1)] == {size}"
        if field.tag is None or field.tag > 127:
            raise ValueError(f"{field.name}: its tag has more than one byte")
        yield f"if left != 0 and q + u({size + 2}) <= end and {known}:"
        if field.column in wanted:
            yield f"    {field.column}[i] = {field.type}(values, q + u(2))"
        yield f"    q += u({size + 2})"
        yield "    left -= np.uint8(1)"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def main() -> None:
    """Write the file."""
    FILE.write_text(source())


if __name__ == "__main__":
    main()
