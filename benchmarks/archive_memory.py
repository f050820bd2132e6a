"""Memory of `sharelag capture --follow`, in all its processes, over two million state records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil
import pyarrow.dataset as ds

from benchmarks.generate import STATE_TOPIC
from benchmarks.harness import Bench
from benchmarks.rows.cluster import filled

RECORDS_IN_ALL = 2_000_000
_MIB = 1 << 20
#: Seconds, and MiB of the JVM and of the Python processes.
Sample = tuple[float, float, float]


def run() -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        filled(Bench(Path(scratch)), RECORDS_IN_ALL) as cluster,
    ):
        folder = Path(scratch) / "archive"
        command = [sys.executable, "-m", "sharelag", "capture", "--follow", "--until-now"]
        command += ["--bootstrap-server", cluster.servers, str(folder)]
        begun = time.monotonic()
        job = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            samples = _watched(job)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        if job.returncode:
            raise SystemExit(f"the capture ended with code {job.returncode}")
        records = folder / "data" / "records" / f"source={STATE_TOPIC}"
        count = ds.dataset(records).count_rows()
        if count < RECORDS_IN_ALL:
            raise SystemExit(
                f"{count:,} state records are in the archive, {RECORDS_IN_ALL:,} were written"
            )
    _tell(samples, time.monotonic() - begun)


def _watched(job: subprocess.Popen[bytes]) -> list[Sample]:
    """Sample memory until the job ends."""
    samples, begun = [], time.monotonic()
    while job.poll() is None:
        java = python = 0.0
        try:
            everyone = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            break
        for process in everyone:
            try:
                size = process.memory_info().rss / _MIB
                if process.name() == "java":
                    java += size
                else:
                    python += size
            except psutil.NoSuchProcess:
                continue
        samples.append((time.monotonic() - begun, java, python))
        time.sleep(0.2)
    return samples


def _tell(samples: list[Sample], seconds: float) -> None:
    print(f"{RECORDS_IN_ALL:,} records in {seconds:.0f} s; median MiB (peak)")
    for part in range(4):
        low, high = seconds * part / 4, seconds * (part + 1) / 4
        of_part = [(java, python) for at, java, python in samples if low <= at < high]
        java, python = zip(*of_part, strict=True)
        print(
            f"  {low:4.0f} to {high:4.0f} s: JVM {median(java):5.0f} ({max(java):5.0f})"
            f"   Python {median(python):5.0f} ({max(python):5.0f})"
        )


if __name__ == "__main__":
    run()
