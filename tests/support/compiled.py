"""Compile what numba compiles once, not in every process that tests start side by side.

``python -m tests.support.compiled [simulations | tests]`` takes half a minute in a fresh clone, and
a second or two later on.
"""

import compileall
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import sharelag
from sharelag.compiled import compile_kernel
from sharelag.replay.holds import ends_of_holds
from sharelag.replay.prepared import use_kernels
from sharelag.replay.state import latest_windows
from sharelag.whatif.compiled.ready import make_ready
from sharelag.wire import STATE_TOPIC
from tests.support.chapters import CAPTURE

ROOT = Path(__file__).parents[2]


def compile_replay() -> None:
    """Run decoding, replay and the history of windows, whose kernels are then in the cache."""
    use_kernels()  # else a first answer takes plain ones
    bench = sharelag.open(CAPTURE, engine="local")
    bench.windows()
    bench.history()
    bench.moments("billing")
    latest_windows([*bench.source.batches(STATE_TOPIC)])
    kernel: Any = compile_kernel(ends_of_holds)
    kernel(*[np.empty(0, np.int64)] * 7, np.int64(0))


def rewrite_tests() -> None:
    """Let pytest rewrite the assertions of all tests, if those of any file are not kept yet.

    That takes each process longer than to import the tests, and none keeps it where
    PYTHONDONTWRITEBYTECODE is set.
    """
    if all(map(_is_rewritten, (ROOT / "tests").rglob("test_*.py"))):
        return
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    may_write = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    # What cannot be collected is reported by the run itself.
    subprocess.run(collect, cwd=ROOT, env=may_write, stdout=subprocess.DEVNULL, check=False)


def _is_rewritten(test: Path) -> bool:
    kept = (test.parent / "__pycache__").glob(
        f"{test.stem}.{sys.implementation.cache_tag}-pytest-*"
    )
    return any(one.stat().st_mtime > test.stat().st_mtime for one in kept)


def main() -> None:
    if sys.argv[1:] == ["simulations"]:
        make_ready()
        return
    if sys.argv[1:] == ["tests"]:
        rewrite_tests()
        return
    # Python's own, too, where PYTHONDONTWRITEBYTECODE keeps each process from leaving it behind.
    for folder in ("sharelag", "widgets/sharelag_widgets"):
        compileall.compile_dir(ROOT / folder, quiet=2)
    compile_replay()


if __name__ == "__main__":
    main()
