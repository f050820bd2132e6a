"""Write ``sharelag/wire/state_pass.py``: the decoder's fast pass over the state topic.

``python tools/state_pass.py`` makes it from `sharelag.wire.fields`. The file is committed so that
numba caches what it compiles. It takes records as Kafka writes them: fixed-size fields, one array
of structs of fixed-size fields without tags, and known tags in their order. Every other record is
left to the interpreter, so a new field costs speed until this file is made again, never a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sharelag.wire.fields import (
    BATCHES,
    INT_SIZES,
    STATE_KINDS,
    VALUE_VERSION,
    Field,
    RecordKind,
    batch_numbers,
    record_numbers,
)

FILE = Path(__file__).resolve().parent.parent / "sharelag" / "wire" / "state_pass.py"

_HEAD = '''\
"""Decode the values of state records in one compiled pass. Made by ``tools/state_pass.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import uint64 as u

from sharelag.compiled import kernel
from sharelag.wire.key_codes import {loads}


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
        Columns to fill, in the order of `sharelag.wire.fields`; those of batches have room for
        one more than fit into the bytes of all values.
    """
'''


def source() -> str:
    """Return the text of the file."""
    sizes = {INT_SIZES[f.type] for kind in STATE_KINDS for f in _with_elements(kind.value)}
    loads = ", ".join(f"int{8 * size}" for size in sorted(sizes))
    return _HEAD.format(loads=loads) + "".join(f"    {line}\n" for line in _body())


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
    yield from _indented(_record())
    yield "    total += np.int64(count)"
    yield from _indented(_done())
    yield "batch_at[code.size] = total"
    yield "return odds"


def _unpacked(names: Iterable[str], packed: str) -> Iterator[str]:
    yield "("
    yield from (f"    {name}," for name in names)
    yield f") = {packed}"


def _record() -> Iterator[str]:
    yield "odd[i] = 1"
    yield "odds += 1"
    yield "if code[i] < 0:"
    yield "    continue"
    tags = {field.column for kind in STATE_KINDS for field in _tagged(kind)}
    for number in record_numbers():
        if number.column in tags:
            yield f"{number.column}[i] = {number.absent}"
    yield "if value_null[i]:"
    for number in record_numbers():
        if number.column not in tags:
            yield f"    {number.column}[i] = {number.absent}"
    yield from _indented(_done())
    yield "    continue"
    yield "p, end = u(value_at[i]), u(value_at[i + 1])"
    for kind in STATE_KINDS:
        yield f"{'if' if kind is STATE_KINDS[0] else 'elif'} record_type[i] == {kind.type}:"
        yield from _indented(_fixed(kind))
    yield "else:"
    yield "    continue"
    yield from _array()
    yield "left = values[q]"
    yield "q += u(1)"
    if len({_tagged(kind) for kind in STATE_KINDS}) == 1:
        yield from _tags(STATE_KINDS[0])
    else:
        for kind in STATE_KINDS:
            yield f"if record_type[i] == {kind.type}:"
            yield from _indented(_tags(kind))
    # Bytes that are left over may mean that the record is of an older format.
    yield "if left != 0 or q != end:"
    yield "    continue"


def _done() -> Iterator[str]:
    yield "odd[i] = 0"
    yield "odds -= 1"


def _fixed(kind: RecordKind) -> Iterator[str]:
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
        yield f"{field.column}[i] = {field.type}(values, p + u({at}))"
        at += INT_SIZES[field.type]
    for number in record_numbers():
        if kind.type not in number.kinds:
            yield f"{number.column}[i] = {number.absent}"
    yield f"q = p + u({at})"


def _array() -> Iterator[str]:
    """Read the array at ``q``, whose length has one byte or two; leave ``q`` after it."""
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
    yield f"if q + u({size}) * count >= end:"
    yield "    continue"
    yield "tagged = u(0)"
    yield "k = u(total)"
    yield "for _ in range(np.int64(count)):"
    at = 0
    for field in array.fields:
        place = f"q + u({at})" if at else "q"
        yield f"    {field.column}[k] = {field.type}(values, {place})"
        at += INT_SIZES[field.type]
    yield f"    tagged |= u(values[q + u({at})])"
    yield "    k += u(1)"
    yield f"    q += u({size})"
    yield "if tagged != u(0):"
    yield "    continue"


def _tagged(kind: RecordKind) -> tuple[Field, ...]:
    return tuple(field for field in kind.value if field.tag is not None)


def _tags(kind: RecordKind) -> Iterator[str]:
    """Read the known tags at ``q``; leave in ``left`` how many others there are."""
    for field in sorted(_tagged(kind), key=lambda field: field.tag or 0):
        size = INT_SIZES[field.type]
        known = f"values[q] == {field.tag} and values[q + u(1)] == {size}"
        if field.tag is None or field.tag > 127:
            raise ValueError(f"{field.name}: its tag has more than one byte")
        yield f"if left != 0 and q + u({size + 2}) <= end and {known}:"
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
