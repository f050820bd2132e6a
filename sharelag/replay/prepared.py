"""The compiled kernels of an answer, which are made once on a machine, and not while one waits."""

from __future__ import annotations

import atexit
import sys
from typing import Any

import pyarrow as pa

from sharelag import compiled
from sharelag.replay.history import fill_history, history_arrow
from sharelag.schemas import RECORDS
from sharelag.wire.fields import STATE_TOPIC

#: Steps that plain kernels take in the time in which compiled ones would be compiled: the demo's
#: 17 million take 6 s of a core, where the kernels for them take 36 s.
WORTH_COMPILING = 100_000_000
_LATER = "import os; os.nice(19); from sharelag.replay.prepared import use_kernels; use_kernels()"


def are_compiled() -> bool:
    """Return whether the kernels are compiled already, so that `use_kernels` only loads them."""
    return compiled.is_cached(fill_history)  # the last one


def use_kernels() -> None:
    """Take the compiled kernels of an answer; numba compiles them where it never has."""
    import numba  # noqa: F401  # compiled kernels then are used for any amount of work

    from sharelag.replay import replay_arrow
    from sharelag.wire import decode_arrow, encode

    records = decode_arrow(encode(_record())).records
    replay_arrow(records)
    history_arrow(records)


def prepare_at_exit() -> None:
    """Where kernels were never compiled, take plain ones, and compile after this process has ended.

    That takes half a minute of a core, most of a first answer. So plain kernels do what takes them
    less; if it was much, the end of this process begins another one of lowest priority, for later
    ones.
    """
    usual = compiled.WORTH_IT
    if "numba" in sys.modules or usual == WORTH_COMPILING or are_compiled():
        return
    compiled.WORTH_IT = WORTH_COMPILING
    atexit.register(_begin, usual)


def _begin(usual: int) -> None:
    if compiled.steps() >= usual and not are_compiled():
        compiled.begin_later(_LATER)


def _record() -> pa.RecordBatch:
    """Return a snapshot: kernels are loaded when they are called."""
    numbers = ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "partition")
    fields: dict[str, Any] = dict.fromkeys((*numbers, "record_type", "record_partition"), 0)
    fields |= {"topic": STATE_TOPIC, "offset": 0, "tombstone": False, "state_batches": []}
    fields |= {"group_id": "group", "topic_id": "A" * 22, "unknown_tags": []}
    return pa.RecordBatch.from_pylist([fields], schema=RECORDS)
