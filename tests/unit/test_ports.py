"""Servers of tests get ports that nobody else takes."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack

from tests.support import ports

_ASK = "from tests.support.ports import free_ports; print(free_ports(700), flush=True); input()"
_PROCESSES = 4


def test_processes_side_by_side_get_different_ports_that_no_connection_takes() -> None:
    given = list(ports.free_ports(3))
    with ExitStack() as ends:
        asking = [
            ends.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _ASK],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(_PROCESSES)
        ]
        for process in asking:  # all hold what they have until all have answered
            assert process.stdout
            given += json.loads(process.stdout.readline())
        for process in asking:
            process.communicate("\n")
    # Of 22,000 ports, four processes without locks would give about 130 twice.
    assert len(set(given)) == len(given) == 3 + 700 * _PROCESSES
    # What the system gives out itself is above.
    assert max(given) < int(ports.SYSTEM_TAKES.read_text().split()[0])
