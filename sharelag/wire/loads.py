"""Big-endian integers out of bytes, for kernels: one load and one swap of bytes each.

Out of single bytes LLVM makes the same only as long as no byte is read twice. Callers check the end
of the record first: nothing is checked here, whatever numba's settings.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _load(bits: int, result: Any, is_swapped: bool = True) -> Any:
    """Return a function ``(buf: uint8[], p: uint64)`` for kernels."""

    @intrinsic
    def load(_context: Any, buf: Any, p: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            octets = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            word = ir.IntType(bits)
            place = builder.bitcast(builder.gep(octets, [arguments[1]]), word.as_pointer())
            value = builder.load(place)
            value.align = 1
            return value if bits == 8 or not is_swapped else builder.bswap(value)

        return result(buf, p), generate

    return load


def _put_word(_context: Any, buf: Any, p: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        octets = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(octets, [arguments[1]])
        place = builder.bitcast(place, ir.IntType(64).as_pointer())
        builder.store(arguments[2], place).align = 1
        return context.get_dummy_value()

    return types.void(buf, p, value), generate


def _fold(_context: Any, a: Any, b: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(one, wide) for one in arguments))
        high = builder.lshr(product, ir.Constant(wide, 64))
        return builder.xor(builder.trunc(product, word), builder.trunc(high, word))

    return types.uint64(a, b), generate


int8 = _load(8, types.int8)
int16 = _load(16, types.int16)
int32 = _load(32, types.int32)
int64 = _load(64, types.int64)
#: Eight bytes as they lie in memory: to be hashed, compared and copied.
word = _load(64, types.uint64, is_swapped=False)
#: ``(buf: uint8[], p, value: uint64)`` writes them.
put_word: Any = intrinsic(_put_word)
#: ``(a: uint64, b: uint64)``: the upper half of their product, exclusive-or the lower one.
folded: Any = intrinsic(_fold)
