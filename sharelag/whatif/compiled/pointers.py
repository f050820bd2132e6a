"""The memory of a run as a pointer: an array would be counted, atomically, at every call."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def _pointer(_context: Any, a: Any) -> Any:
    """Return where the numbers of an array begin; they have to stay there."""
    kinds: Any = types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return kinds.CPointer(a.dtype)(a), generate


#: ``pointer(a)`` for kernels.
pointer: Any = intrinsic(_pointer)
