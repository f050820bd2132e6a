"""A Spark session in a process of its own, which answers questions by line.

Run as ``python -m benchmarks.spark_worker MASTER FOLDER``; `Worker` starts it and asks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

_SUMS = pa.schema([("rows", pa.int64()), ("finished", pa.int64())])


class Worker:
    """A session on a capture.

    Parameters
    ----------
    master : str
        Such as ``local[2]``.
    folder : pathlib.Path
        Of the capture.
    """

    def __init__(self, master: str, folder: Path) -> None:
        self._command = [sys.executable, "-m", "benchmarks.spark_worker", master, str(folder)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell"},
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input is the end of it

    def pids(self) -> tuple[int]:
        """Return the process, of which Java and the workers descend."""
        return (self._process.pid,)

    def history(self) -> tuple[int, int]:
        """Return how many rows the history has, and how many offsets they finished."""
        rows, finished = self._ask("history").split()
        return int(rows), int(finished)

    def lag(self) -> int:
        """Return how many share partitions have a lag."""
        return int(self._ask("lag"))

    def _ask(self, question: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        if answer := self._process.stdout.readline():
            return answer
        raise RuntimeError(f"the Spark session ended: {' '.join(self._command[-2:])}")


def summed(history: pa.RecordBatch) -> pa.RecordBatch:
    """Sum a history up."""
    finished = pc.sum(history.column("finished")).as_py() or 0
    return pa.RecordBatch.from_pydict({"rows": [history.num_rows], "finished": [finished]}, _SUMS)


def _answer(question: str, reading: Any) -> str:
    if question == "lag":
        return str(reading.table("lag").num_rows)
    table = reading.over_history(summed, _SUMS)
    return f"{pc.sum(table.column('rows'))} {pc.sum(table.column('finished'))}"


def main(master: str, folder: str) -> None:
    """Answer until the input ends."""
    from sharelag.pipeline.reading import SparkReading
    from sharelag.sources.inputs import CaptureInput
    from sharelag.sources.spark import session

    spark = session("sharelag-benchmarks", spark_master=master)
    for line in sys.stdin:
        reading = SparkReading(CaptureInput(Path(folder)), spark=spark)
        print(_answer(line.strip(), reading), flush=True)
        reading.close()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
