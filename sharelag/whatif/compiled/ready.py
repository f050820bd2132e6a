"""The loop compiled, and whether it is on this machine, which takes about a minute of a core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sharelag.compiled import compiled, is_cached, kernel
from sharelag.whatif.compiled import batches, ends, requests, sampling, serving, states, working
from sharelag.whatif.compiled import kernel as loop
from sharelag.whatif.compiled.pointers import pointer


@kernel
def run(a: Any, until: Any, number: Any) -> Any:
    """Let time pass: see `kernel.run`."""
    return loop.run(pointer(a), until, number)


@kernel
def sample(a: Any) -> None:
    """Fill in the rows of the timeline."""
    sampling.sample(pointer(a))


@kernel
def note_drained(a: Any, at: Any) -> None:
    """Note the time if nothing is left to finish."""
    ends.note_drained(pointer(a), at)


@kernel
def closes(a: Any, at: Any) -> None:
    """End the share sessions of a member."""
    requests.closes(pointer(a), at)


@kernel
def poll(a: Any, at: Any) -> None:
    """Let a member poll."""
    working.poll(pointer(a), at)


@kernel
def close_sessions(a: Any, at: Any) -> bool:
    """Acknowledge what is left and close all sessions; whether anything was left."""
    found: bool = working.close_sessions(pointer(a), at)
    return found


@kernel
def move_start(a: Any, at: Any) -> None:
    """Let the start offset of a place move after its state was put in."""
    states.move_start(pointer(a), at)


@kernel
def expire(a: Any, at: Any) -> None:
    """Let the locks of a place expire that are over."""
    states.expire(pointer(a), at)


@kernel
def wake(a: Any, at: Any) -> None:
    """Let the fetches that wait for a place have it."""
    serving.wake(pointer(a), at)


@kernel
def end_leader(a: Any, at: Any) -> None:
    """Answer the fetches that wait for a place with nothing."""
    serving.end_leader(pointer(a), at)


@kernel
def held_in(a: Any, at: Any) -> Any:
    """Count the acquired offsets from the start offset on."""
    return batches.held_in(pointer(a), at)


_compiled: Any = compiled  # has what numba adds to a function
_CALLS: tuple[Any, ...] = (
    run,
    sample,
    note_drained,
    closes,
    poll,
    close_sessions,
    move_start,
    expire,
    wake,
    end_leader,
    held_in,
)


def forms() -> dict[str, Callable[..., Any]]:
    """Return the compiled kernels that Python calls, by name."""
    return {one.__name__: _compiled(one) for one in _CALLS}


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
