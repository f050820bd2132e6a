"""What code prints in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys


def print_by_any_hashes(code: str) -> str:
    """Return what code prints, which has to be the same however texts are hashed."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    return printed.pop()
