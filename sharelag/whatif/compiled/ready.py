"""The compiled loop, and whether it is cached on this machine; compiling it is slow."""

from __future__ import annotations

import gc
from typing import Any

from numba import types
from numba.extending import intrinsic

from sharelag.compiled import compile_kernel, is_cached, kernel
from sharelag.whatif.compiled.calls import call_kernel


def _pointer(_context: Any, a: Any) -> Any:
    """Return a pointer to the numbers of an array, which must stay in place."""
    kinds: Any = types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return kinds.CPointer(a.dtype)(a), generate


#: The memory of a run as a pointer for kernels: an array would be reference-counted, atomically, at
#: every call.
pointer: Any = intrinsic(_pointer)


@kernel
def call(a: Any, what: Any, at: Any, number: Any) -> Any:
    """Call a kernel from Python: see `calls.call_kernel`."""
    return call_kernel(pointer(a), what, at, number)


def form() -> Any:
    """Return the compiled form of `call`."""
    return compile_kernel(call)


def is_ready() -> bool:
    """Return whether the loop is compiled in this process, or cached on this machine."""
    return bool(form().signatures) or is_cached(call)


def make_ready() -> None:
    """Compile the loop, so that the first run does not wait for it."""
    import numba

    had_garbage_collected = gc.isenabled()
    gc.disable()  # a tenth of the time: the compiler makes objects by the million
    try:
        form().compile((numba.int64[::1], *(numba.int64,) * 3))
    finally:
        if had_garbage_collected:
            gc.enable()
