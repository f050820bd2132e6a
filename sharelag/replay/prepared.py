"""The compiled kernels of an answer, compiled once on a machine, in the background."""

from __future__ import annotations

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
def compile_beside() -> None:
    """Use plain kernels if none are compiled yet, while another process compiles them.

    Compiling takes half a minute of a core, most of a first answer. So plain kernels do work that
    is faster without compiling, and the other process has the lowest priority.
    """
    compiled.defer_compiling(are_compiled, _LATER)


def _record() -> pa.RecordBatch:
    """Return a snapshot: kernels are loaded when they are called."""
    numbers = ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "partition")
    fields: dict[str, Any] = dict.fromkeys((*numbers, "record_type", "record_partition"), 0)
    fields |= {"topic": STATE_TOPIC, "offset": 0, "tombstone": False, "state_batches": []}
    fields |= {"group_id": "group", "topic_id": "A" * 22, "unknown_tags": []}
    return pa.RecordBatch.from_pylist([fields], schema=RECORDS)
