"""What Python calls of the compiled loop, with the array that its memory is in."""

from __future__ import annotations

from typing import Any

from sharelag.compiled import kernel
from sharelag.whatif.compiled import ends, requests, sampling, working
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
def note_drained(a: Any, p: Any) -> None:
    """Note the time if nothing is left to finish."""
    ends.note_drained(pointer(a), p)


@kernel
def closes(a: Any, m: Any) -> None:
    """End the share session of a member."""
    requests.closes(pointer(a), m)


@kernel
def poll(a: Any, m: Any) -> None:
    """Let a member poll."""
    working.poll(pointer(a), m)


@kernel
def send_pending(a: Any, m: Any) -> bool:
    """Acknowledge what is pending without a fetch; whether there was anything."""
    sent: bool = working.send_pending(pointer(a), m)
    return sent


@kernel
def note_request(a: Any, m: Any, what: Any) -> None:
    """Note a request, if that is wanted."""
    working.note_request(pointer(a), m, what)
