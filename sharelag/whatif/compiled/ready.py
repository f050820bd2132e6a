"""The loop compiled, and whether it is on this machine, which takes some time."""

from __future__ import annotations

import gc
from typing import Any

from sharelag.compiled import compiled, is_cached, kernel
from sharelag.whatif.compiled.calls import called
from sharelag.whatif.compiled.pointers import pointer


@kernel
def call(a: Any, what: Any, at: Any, number: Any) -> Any:
    """Do what Python calls: see `calls.called`."""
    return called(pointer(a), what, at, number)


def form() -> Any:
    """Return the compiled form of `call`."""
    return compiled(call)


def is_ready() -> bool:
    """Whether nothing has to be compiled: that was done here, or on this machine before."""
    return bool(form().signatures) or is_cached(call)


def make_ready() -> None:
    """Compile it: else the first run would wait for it."""
    import numba

    had_garbage_collected = gc.isenabled()
    gc.disable()  # a tenth of the time: the compiler makes objects by the million
    try:
        form().compile((numba.int64[::1], *(numba.int64,) * 3))
    finally:
        if had_garbage_collected:
            gc.enable()
