"""The compiled kernels of an answer, compiled once on a machine, in the background."""

from __future__ import annotations

import atexit
from functools import cache
from typing import Any

import pyarrow as pa

from sharelag import compiled
from sharelag.schemas import RECORDS
from sharelag.wire.fields import STATE_TOPIC

_LATER = (
    "from sharelag.compiled import run_alone; from sharelag.replay import prepared; "
    "run_alone(prepared.use_kernels)"
)


def are_compiled() -> bool:
    """Return whether the kernels are compiled already, so that `use_kernels` only loads them."""
    from sharelag.replay.history import fill_history

    return compiled.is_cached(fill_history)  # the last one


def use_kernels() -> None:
    """Load the compiled kernels of an answer; numba compiles those that are missing."""
    import numba  # noqa: F401  # compiled kernels then are used for any amount of work

    from sharelag.replay import replay_arrow
    from sharelag.replay.history import history_arrow
    from sharelag.wire import decode_arrow, encode

    compiled.is_left = False
    records = decode_arrow(encode(_record())).records
    replay_arrow(records)
    history_arrow(records)


@cache  # once in a process
def prepare_at_exit() -> None:
    """Use plain kernels if none are compiled yet, and compile after this process has ended.

    Compiling takes half a minute of a core, most of a first answer. So plain kernels do work that
    is faster without compiling. If there was much of it, this process starts another one of lowest
    priority at its end, for later processes.
    """
    compiled.defer_compiling(are_compiled)
    atexit.register(compile_later)


def compile_later() -> None:
    """Start the process that compiles, if this one has used plain kernels for much work."""
    if compiled.would_pay() and not are_compiled():
        compiled.begin_later(_LATER)


def _record() -> pa.RecordBatch:
    """Return a snapshot: kernels are loaded when they are called."""
    numbers = ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "partition")
    fields: dict[str, Any] = dict.fromkeys((*numbers, "record_type", "record_partition"), 0)
    fields |= {"topic": STATE_TOPIC, "offset": 0, "tombstone": False, "state_batches": []}
    fields |= {"group_id": "group", "topic_id": "A" * 22, "unknown_tags": []}
    return pa.RecordBatch.from_pylist([fields], schema=RECORDS)
