"""Compile what numba compiles once, not in every process that tests start side by side.

``python -m tests.support.compiled [simulations]`` takes half a minute in a fresh clone, and a
second or two later on.
"""

from __future__ import annotations

import compileall
import sys
from pathlib import Path

import sharelag
from sharelag.whatif.compiled.ready import make_ready
from tests.support.chapters import CAPTURE

ROOT = Path(__file__).parents[2]


def compile_replay() -> None:
    """Run decoding, replay and the history of windows, whose kernels are then in the cache."""
    bench = sharelag.open(CAPTURE, engine="local")
    bench.windows()
    bench.history()
    bench.moments("billing")


def main() -> None:
    if sys.argv[1:] == ["simulations"]:
        make_ready()
        return
    # Python's own, too, where PYTHONDONTWRITEBYTECODE keeps each process from leaving it behind.
    for folder in ("sharelag", "widgets/sharelag_widgets"):
        compileall.compile_dir(ROOT / folder, quiet=2)
    compile_replay()


if __name__ == "__main__":
    main()
