"""What our commands say of a cluster, as rows."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command import sharelag


def ask(command: str, *more: str, at: str = "", status: int = 0) -> list[dict[str, Any]]:
    """Return the rows of a command: ``ask("lag --group billing", at=servers)``.

    Parameters
    ----------
    command, more
        Words separated by blanks, and further ones as they are.
    at
        Addresses of brokers, for ``--bootstrap-server``.
    status
        The exit code that it must have.
    """
    server = ("--bootstrap-server", at) if at else ()
    done = sharelag(*command.split(), *more, *server, "-o", "json")
    assert done.returncode == status, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
