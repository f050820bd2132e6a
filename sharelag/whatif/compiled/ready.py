"""Whether the loop is compiled on this machine, which takes half a minute of a core."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import compiled, is_cached
from sharelag.whatif.compiled import calls

_compiled: Any = compiled  # has what numba adds to a function
_CALLS: tuple[Any, ...] = (
    calls.run,
    calls.sample,
    calls.note_drained,
    calls.closes,
    calls.poll,
    calls.send_pending,
    calls.note_request,
)


def is_ready() -> bool:
    """Whether no part of it has to be compiled: that was done here, or on this machine before."""
    return all(_compiled(one).signatures or is_cached(one) for one in _CALLS)


def make_ready() -> None:
    """Compile all of it: else a later run would wait for the parts that the first did not need."""
    import numba

    for one in _CALLS:
        form = _compiled(one)
        numbers = (numba.int64,) * (one.__code__.co_argcount - 1)
        form.compile((numba.int64[::1], *numbers))
