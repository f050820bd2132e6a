"""Whether the loop is compiled on this machine, which takes half a minute of a core."""

from __future__ import annotations

import glob
import sys
from pathlib import Path
from typing import Any

from sharelag.compiled import compiled
from sharelag.whatif.compiled import calls

_CALLS = (
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
    return all(_is_cached(compiled(one)) for one in _CALLS)


def make_ready() -> None:
    """Compile all of it: else a later run would wait for the parts that the first did not need."""
    import numba

    for one in _CALLS:
        form: Any = compiled(one)
        numbers = (numba.int64,) * (one.__code__.co_argcount - 1)
        form.compile((numba.int64[::1], *numbers))


def _is_cached(form: Any) -> bool:
    folder, source = form.stats.cache_path, Path(calls.__file__)
    if form.signatures or folder is None or not source.exists():
        return bool(form.signatures)
    python = f"py{sys.version_info.major}{sys.version_info.minor}"  # each has its own
    index = f"{glob.escape(f'{source.stem}.{form.py_func.__qualname__}')}-*.{python}*.nbi"
    changed = source.stat().st_mtime  # numba compiles again what a later source belongs to
    return any(one.stat().st_mtime >= changed for one in Path(folder).glob(index))
