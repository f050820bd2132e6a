"""Running the command line as people do: another process, its output and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping


def sharelag(
    *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``sharelag`` with these arguments."""
    return subprocess.run(
        [sys.executable, "-c", "from sharelag.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=None if env is None else {**os.environ, **env},
    )
