"""Run rows in a process per area, so that a crash or a hang costs only one row.

Rows of an area share expensive resources (a broker, a Spark session), so they share a process. It
writes each result into the file of results at once. If it ends early, or writes nothing for too
long, its current row has failed, and another process continues with the following rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import psutil

from benchmarks import results
from benchmarks.harness import Result, Row
from benchmarks.processes import family, load

#: Seconds without a result after which a row fails.
LIMIT, QUICK_LIMIT = 900.0, 600.0
_POLL = 0.5

Start = Callable[[Sequence[Row]], "subprocess.Popen[bytes]"]


def supervised(rows: Iterable[Row], file: Path, quick: bool, start: Start | None = None) -> None:
    """Measure rows, area by area; every row has a result in the file afterwards.

    Parameters
    ----------
    rows : iterable of Row
    file : pathlib.Path
        File of results.
    quick : bool
        Smaller inputs.
    start : callable, optional
        Starts a process that measures rows in the order given.
    """
    start = start or (lambda chosen: _process(chosen, quick))
    ordered = sorted(rows, key=lambda row: row.area)
    for _, area in groupby(ordered, key=lambda row: row.area):
        left = list(area)
        while left:
            left = _until_one_fails(left, file, quick, start)


def _until_one_fails(rows: list[Row], file: Path, quick: bool, start: Start) -> list[Row]:
    """Measure rows in one process; return the remaining ones."""
    begun, before = datetime.now(UTC).replace(microsecond=0), load()[0]
    process, everyone = start(rows), set[psutil.Process]()
    try:
        why = _watched(process, file, QUICK_LIMIT if quick else LIMIT, everyone)
    finally:
        _end(process, everyone)
    done = results.measured_since(file, begun)
    left = [row for row in rows if row.name not in done]
    if not left:
        return []
    failed = Result(left[0], begun, quick, (before, load()[0]), error=why)
    print(f"{left[0].name}: {why}", flush=True)
    results.merged(file, [results.entry(failed)], [])
    return left[1:]


def _watched(
    process: subprocess.Popen[bytes], file: Path, limit: float, everyone: set[psutil.Process]
) -> str:
    """Wait for the end, or until no result has come for too long; return the failure.

    Adds all descendants of the process to `everyone`: after a crash they cannot be found.
    """
    seen, since = _stamp(file), time.monotonic()
    while process.poll() is None:
        everyone.update(family([process.pid]))
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL)
        if _stamp(file) != seen:
            seen, since = _stamp(file), time.monotonic()
        elif time.monotonic() - since > limit:
            return f"no result within {limit:.0f} s"
    return f"the process of this row ended with code {process.returncode}"


def _stamp(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


def _end(process: subprocess.Popen[bytes], everyone: set[psutil.Process]) -> None:
    """End a process and its descendants, whose brokers live in separate sessions."""
    if process.poll() is None:
        everyone.update(family([process.pid]))
    for one in everyone:
        with suppress(psutil.NoSuchProcess):
            one.terminate()
    for one in psutil.wait_procs(everyone, timeout=10)[1]:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


def _process(rows: Sequence[Row], quick: bool) -> subprocess.Popen[bytes]:
    names = json.dumps([row.name for row in rows])
    options = ["--quick"] if quick else []
    return subprocess.Popen([sys.executable, "-m", "benchmarks", "--here", names, *options])
