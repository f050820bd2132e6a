"""Eight integers at a time, for kernels: one of each of eight structs that lie side by side.

A struct of the wire is a row, a column here holds one field of it. A loop over structs whose
count changes from record to record is what no branch predictor foresees; eight at a time most
records take one turn, and LLVM makes a few loads, shuffles and stores of what would be eight each.

Nothing is checked here: callers see to it that eight structs can be read, and eight numbers
written, and cut off what is beyond the record's last struct.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 8

_BYTES_AND_BITS: Any = types.Tuple([types.uint64, types.uint8])  # type: ignore[no-untyped-call]

_BYTE, _INDEX = ir.IntType(8), ir.IntType(32)


class _Structs:
    """The bytes of eight structs, loaded in pieces of 16 bytes or fewer, side by side."""

    def __init__(self, builder: Any, octets: Any, p: Any, sizes: Sequence[int]) -> None:
        self._builder, self._pieces = builder, []
        stride, at = sum(sizes), 0
        while at < stride:
            size = next(n for n in (16, 8, 4, 2, 1) if n <= stride - at)
            lanes = [
                self._load(octets, builder.add(p, ir.Constant(p.type, lane * stride + at)), size)
                for lane in range(LANES)
            ]
            self._pieces.append((at, size, self._joined(lanes)))
            at += size

    def field(self, at: int, size: int) -> Any:
        """Return a field of each, its bytes reversed."""
        begin, width, octets = next(p for p in self._pieces if p[0] <= at < p[0] + p[1])
        if at + size > begin + width:
            raise ValueError(f"a field of {size} bytes at {at} lies in two pieces")
        last = at - begin + size - 1
        order = [lane * width + last - k for lane in range(LANES) for k in range(size)]
        return self._shuffled(octets, octets, order)

    def _load(self, octets: Any, at: Any, size: int) -> Any:
        kind = ir.VectorType(_BYTE, size)
        place = self._builder.bitcast(self._builder.gep(octets, [at]), kind.as_pointer())
        found = self._builder.load(place)
        found.align = 1
        return found

    def _joined(self, parts: list[Any]) -> Any:
        while len(parts) > 1:
            order = list(range(2 * parts[0].type.count))
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self._shuffled(left, right, order) for left, right in pairs]
        return parts[0]

    def _shuffled(self, left: Any, right: Any, order: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(_INDEX, len(order)), order)
        return self._builder.shuffle_vector(left, right, mask)


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def put_structs(sizes: Sequence[int]) -> Any:
    """Return a function ``(columns, k, buf: uint8[], p) -> uint64`` for kernels.

    It fills ``column[k : k+8]`` of each column with a field of eight structs from ``buf[p]`` on.
    ``sizes`` are those of the fields; one byte follows them. It returns these bytes, the first
    struct's lowest.
    """

    @intrinsic
    def put(_context: Any, columns: Any, k: Any, buf: Any, p: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            columns, k, buf, p = arguments
            octets = _data(context, builder, signature.args[2], buf)
            structs = _Structs(builder, octets, p, (*sizes, 1))
            for number, (size, kind) in enumerate(zip(sizes, signature.args[0], strict=True)):
                found = structs.field(sum(sizes[:number]), size)
                column = builder.extract_value(columns, number)
                place = builder.gep(_data(context, builder, kind, column), [k])
                place = builder.bitcast(place, found.type.as_pointer())
                builder.store(found, place).align = 1
            return builder.bitcast(structs.field(sum(sizes), 1), ir.IntType(64))

        return types.uint64(columns, k, buf, p), generate

    return put


def compare_structs(sizes: Sequence[int]) -> Any:
    """Return a function ``(buf: uint8[], p) -> uint64, uint8`` for kernels.

    It returns the bytes after the fields as `put_structs` does; and which of eight structs have an
    int64 first that is greater than the second, a bit each.
    """

    @intrinsic
    def compare(_context: Any, buf: Any, p: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            octets = _data(context, builder, signature.args[0], arguments[0])
            structs = _Structs(builder, octets, arguments[1], (*sizes, 1))
            eight = ir.VectorType(ir.IntType(64), LANES)
            left, right = (builder.bitcast(structs.field(at, 8), eight) for at in (0, 8))
            greater = builder.bitcast(builder.icmp_signed(">", left, right), _BYTE)
            after = builder.bitcast(structs.field(sum(sizes), 1), ir.IntType(64))
            return context.make_tuple(builder, signature.return_type, (after, greater))

        return _BYTES_AND_BITS(buf, p), generate

    return compare


def _unequal() -> Any:
    @intrinsic
    def unequal(_context: Any, column: Any, k: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            column, k, value = arguments
            place = builder.gep(_data(context, builder, signature.args[0], column), [k])
            eight = ir.VectorType(value.type, LANES)
            found = builder.load(builder.bitcast(place, eight.as_pointer()))
            found.align = 1
            other = ir.Constant(eight, ir.Undefined)
            for lane in range(LANES):
                other = builder.insert_element(other, value, ir.Constant(_INDEX, lane))
            return builder.bitcast(builder.icmp_signed("!=", found, other), _BYTE)

        return types.uint8(column, k, value), generate

    return unequal


#: ``(column, k, value) -> uint8``: which of ``column[k : k+8]`` are not a value of their type.
unequal = _unequal()
