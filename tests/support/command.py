"""Run the command line: in this process, or in a separate one as people do."""

import io
import json
import os
import pty
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from threading import Thread
from typing import Any
from unittest.mock import patch


def sharelag(
    *arguments: str, env: Mapping[str, str] | None = None, code: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``sharelag`` with these arguments in this process, without the start of another one.

    ``arguments``: its command line. ``env``: variables of the environment to set. ``code``: the
    exit code that it must have; any if it is not given.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    status = _run(arguments, out, err, env or {})
    for stream in (out, err):
        stream.flush()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    assert code in (None, status), (status, *texts)
    return subprocess.CompletedProcess(["sharelag", *arguments], status, *texts)


def refused(*arguments: str, code: int = 1) -> str:
    """Return what ``sharelag`` says on standard error as it refuses these arguments.

    ``arguments``: its command line, for which it must print nothing on standard output. ``code``:
    the exit code that it must have: 2 where the command line itself is wrong.
    """
    done = sharelag(*arguments, code=code)
    assert done.stdout == ""
    return done.stderr


def ask(command: str, *more: str, at: str = "", code: int = 0) -> list[dict[str, Any]]:
    """Return the rows that a command prints as JSON: ``ask("lag --group billing", at=servers)``.

    ``command``, ``more``: words separated by blanks, and further ones as they are. ``at``:
    addresses of brokers, for ``--bootstrap-server``. ``code``: the exit code that it must have.
    """
    server = ("--bootstrap-server", at) if at else ()
    return rows_of(sharelag(*command.split(), *more, *server, "-o", "json", code=code))


def rows_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the rows that a command printed as JSON."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def sharelag_on_a_terminal(
    columns: int, *arguments: str, status: int = 0, term: str = "xterm"
) -> str:
    """Return what a terminal of this width gets from the command's standard output.

    The command runs in this process; its standard error is not a terminal.
    """
    reader, writer = pty.openpty()
    pieces: list[bytes] = []
    # A terminal that nobody reads from makes the command wait.
    reading = Thread(target=lambda: pieces.extend(_read(reader)), daemon=True)
    reading.start()
    err = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with os.fdopen(writer, "w", encoding="utf-8") as out:
        code = _run(arguments, out, err, {"COLUMNS": str(columns), "TERM": term})
    reading.join(60)
    assert not reading.is_alive(), "the command's end of the terminal is still open"
    os.close(reader)
    err.flush()
    assert code == status, err.buffer.getvalue().decode()
    return b"".join(pieces).decode().replace("\r\n", "\n")


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # a terminal whose other end is closed
            return
        if not piece:
            return
        yield piece


def _run(
    arguments: Sequence[str], out: io.TextIOWrapper, err: io.TextIOWrapper, env: Mapping[str, str]
) -> int:
    from sharelag.cli import main

    with (
        patch.object(sys, "argv", ["sharelag", *arguments]),
        patch.dict(os.environ, env),
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
    return status if isinstance(status, int) else int(status is not None)


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
