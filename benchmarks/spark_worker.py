"""A Spark session in a separate process, which answers questions line by line.

Run as ``python -m benchmarks.spark_worker MASTER FOLDER``; `Worker` starts it and asks.
"""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Self

from pyspark.sql import SparkSession

from benchmarks.sessions import (
    conform,
    lag_by_function,
    offsets_of,
    progress_of,
    raw_of,
    start_session,
)
from sharelag import schemas


class Worker:
    """A session on the files of a capture.

    Parameters
    ----------
    master : str
        Such as ``local[2]``.
    folder : pathlib.Path
        Folder of the capture.
    """

    def __init__(self, master: str, folder: Path) -> None:
        self._command = [sys.executable, "-m", "benchmarks.spark_worker", master, str(folder)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # it ends at the end of its input

    def pids(self) -> tuple[int]:
        """Return the process, the ancestor of Java and the workers."""
        return (self._process.pid,)

    def progress(self) -> tuple[int, str]:
        """Return the number of share partitions with a progress, and a digest of it."""
        rows, digest = self._ask("progress").split()
        return int(rows), digest

    def lag(self) -> int:
        """Return the number of share partitions with a lag."""
        return int(self._ask("lag"))

    def _ask(self, question: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        if answer := self._process.stdout.readline():
            return answer
        raise RuntimeError(f"the Spark session ended: {' '.join(self._command[-2:])}")


def _answer(question: str, spark: SparkSession, folder: Path) -> str:
    raw, offsets = raw_of(spark, folder), offsets_of(spark, folder)
    if question == "lag":
        return str(lag_by_function(raw, offsets).num_rows)
    found = conform(progress_of(raw, offsets), schemas.PROGRESS)
    return f"{found.num_rows} {sha256(repr(found.to_pydict()).encode()).hexdigest()}"


def main(master: str, folder: str) -> None:
    """Answer until the input ends."""
    spark = start_session(master)
    for line in sys.stdin:
        print(_answer(line.strip(), spark, Path(folder)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
