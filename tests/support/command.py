"""Run the command line: in this process, or in a separate one as people do."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch


def sharelag(
    *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``sharelag`` with these arguments in this process, without the start of another one."""
    from sharelag.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with (
        patch.object(sys, "argv", ["sharelag", *arguments]),
        patch.dict(os.environ, env or {}),
        patch("sharelag.cli.leave", sys.exit),  # else it would end this process at once
        patch("sharelag.cli.output.leave", sys.exit),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            main()
            status: object = 0
        except SystemExit as end:
            status = end.code
    for stream in (out, err):
        stream.flush()
    code = status if isinstance(status, int) else int(status is not None)
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(["sharelag", *arguments], code, *texts)


def sharelag_process(
    *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``sharelag`` with these arguments in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", "from sharelag.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=None if env is None else {**os.environ, **env},
    )
