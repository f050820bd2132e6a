"""A first answer does not wait for the compiler, which works once the process has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ASK = """
import sys
from sharelag import compiled
compiled.WORTH_IT = {worth}  # else the demo would have to be read, which takes seconds
compiled.begin_later = print
import sharelag
from sharelag.replay import prepared
for _ in range(2):
    print(len(sharelag.open("chapters", engine="local").lag()) > 0, "numba" in sys.modules)
prepared.are_compiled = lambda: {compiled}
"""


@pytest.mark.parametrize(
    ("worth", "compiled", "later"),
    [(1_000, False, ["prepared"]), (10**9, False, []), (1_000, True, [])],
    ids=["much", "little", "compiled meanwhile"],
)
def test_kernels_that_were_never_compiled_are_when_the_process_has_ended(
    tmp_path: Path, worth: int, compiled: bool, later: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASK.format(worth=worth, compiled=compiled)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    first, second, *rest = done.stdout.splitlines()
    assert first == second == "True False"
    assert [word for line in rest for word in ("prepared",) if word in line] == later
