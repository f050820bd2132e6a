"""Compile what numba compiles once, not in every process that tests start side by side.

``python -m tests.support.compiled`` takes half a minute in a fresh clone, and a second later on.
"""

from __future__ import annotations

import sharelag
from sharelag.cli.demo import CAPTURE


def main() -> None:
    bench = sharelag.open(CAPTURE, engine="local")
    bench.windows()
    bench.history()
    bench.moments("billing")


if __name__ == "__main__":
    main()
