"""What code prints in processes of its own."""

import os
import subprocess
import sys


def run_code(code: str, **environment: str) -> str:
    """Return what code prints, in this environment and what is changed of it."""
    command, env = [sys.executable, "-c", code], os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


def run_by_any_hashes(code: str) -> str:
    """Return what code prints, which has to be the same however texts are hashed."""
    one, other = (run_code(code, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert one == other
    return one
