"""Big-endian integers out of bytes, for kernels: one load and one swap of bytes each.

Out of single bytes LLVM makes the same only as long as no byte is read twice. Callers check the end
of the record first: nothing is checked here, whatever numba's settings.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _load(bits: int, result: Any) -> Any:
    """Return a function ``(buf: uint8[], p: uint64)`` for kernels."""

    @intrinsic
    def load(_context: Any, buf: Any, p: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            octets = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            word = ir.IntType(bits)
            place = builder.bitcast(builder.gep(octets, [arguments[1]]), word.as_pointer())
            value = builder.load(place)
            value.align = 1
            return value if bits == 8 else builder.bswap(value)

        return result(buf, p), generate

    return load


int8 = _load(8, types.int8)
int16 = _load(16, types.int16)
int32 = _load(32, types.int32)
int64 = _load(64, types.int64)
#: Eight bytes as they are hashed and compared.
uint64 = _load(64, types.uint64)
