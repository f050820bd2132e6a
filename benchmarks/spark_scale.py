"""Explain, history and a daily report of 5,000,000 records on Spark with a driver of 1 GB.

`python -m benchmarks.spark_scale 500000` uses a tenth of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.support.synthetic import capture_of

_GROUPS, _PARTITIONS = 200, 50
_QUESTIONS = """
import sys, time
from datetime import timedelta
import sharelag
begin = time.perf_counter()
def told(what, found):
    print(f"{what:28} {time.perf_counter() - begin:7.1f} s  {found}", flush=True)
bench = sharelag.open(sys.argv[1], over=timedelta(seconds=200))
told("session", bench.frames.offsets.sparkSession.version)
told("lag", f"{len(bench.lag()):,} share partitions")
told("explain", f"{len(bench.explain()):,} causes")
history = bench.history()
told("history", f"{len(history):,} rows collected")
told("timeline", f"{len(bench.timeline(every=20.0)):,} rows")
"""


def run(records: int = 5_000_000) -> None:
    env = os.environ | {"PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell"}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "capture"
        source = capture_of(folder, _GROUPS, _PARTITIONS, records // (_GROUPS * _PARTITIONS))
        print(f"{source.size():,} records of {_GROUPS * _PARTITIONS:,} share partitions")
        _watched([sys.executable, "-c", _QUESTIONS, str(folder)], env)
        command = [
            str(Path(sys.executable).with_name("sharelag")),
            "report",
            "daily",
            "--capture",
            str(folder),
        ]
        begin = time.perf_counter()
        _watched([*command, "--out", str(Path(scratch) / "reports"), "--no-figures"], env)
        print(f"daily report                 {time.perf_counter() - begin:7.1f} s")


def _watched(command: list[str], env: dict[str, str]) -> None:
    """Run a command, and print the peak memory of its JVM and its Python processes."""
    most: dict[str, int] = {}
    with subprocess.Popen(command, env=env) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            sums: dict[str, int] = {}
            for one in [root, *root.children(recursive=True)]:
                try:
                    name = "java" if "java" in one.name() else "python"
                    sums[name] = sums.get(name, 0) + one.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            most = {name: max(most.get(name, 0), sums.get(name, 0)) for name in {*most, *sums}}
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        if process.returncode:
            raise SystemExit(f"failed with {process.returncode}: {' '.join(command[:4])} ...")
    print(
        "most memory                  ",
        *(f"{name} {size >> 20:,} MiB" for name, size in sorted(most.items())),
    )


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
