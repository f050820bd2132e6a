"""Memory of an archive's job, in all its processes, over two million records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

import psutil

from sharelag.sources.files import views
from sharelag.sources.files.archive import ArchiveInput
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import create_topics, produce

RECORDS_IN_ALL = 2_000_000
PARTITIONS = 4
IN_A_MICRO_BATCH = 50_000
_MIB = 1 << 20


def run() -> None:
    with KafkaBroker(heap="1g") as broker, tempfile.TemporaryDirectory() as scratch:
        topic, folder = "archive-memory", Path(scratch) / "archive"
        create_topics(broker.bootstrap_servers, {topic: PARTITIONS})
        # Of the size of state records, and as little alike.
        values = [Random(n).randbytes(120) for n in range(1000)]
        produce(
            broker.bootstrap_servers,
            topic,
            ((n % PARTITIONS, b"%d" % n, values[n % 1000]) for n in range(RECORDS_IN_ALL)),
        )
        command = [
            sys.executable,
            "-m",
            "tests.support.kafka.archive_job",
            broker.bootstrap_servers,
            str(folder),
        ]
        command += [str(IN_A_MICRO_BATCH), topic]
        begun = time.monotonic()
        job = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            samples = _watched(job, folder)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        count = sum(batch.num_rows for batch in ArchiveInput(folder).batches(topic))
        if count != RECORDS_IN_ALL:
            raise SystemExit(
                f"{count:,} records are in the archive, {RECORDS_IN_ALL:,} in the topic"
            )
    _tell(samples, time.monotonic() - begun)


def _watched(job: subprocess.Popen[bytes], folder: Path) -> list[tuple[int, float, float]]:
    """Sample micro-batches done, and memory of the JVM and of the Python processes (MiB)."""
    samples = []
    last = -(-RECORDS_IN_ALL // IN_A_MICRO_BATCH) - 1
    while (batch := views.current(folder).batch) < last:
        if job.poll() is not None:
            raise SystemExit(f"the job ended with code {job.returncode}")
        java = python = 0.0
        for process in [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]:
            try:
                size = process.memory_info().rss / _MIB
                if process.name() == "java":
                    java += size
                else:
                    python += size
            except psutil.NoSuchProcess:
                continue
        samples.append((batch, java, python))
        time.sleep(0.2)
    return samples


def _tell(samples: list[tuple[int, float, float]], seconds: float) -> None:
    print(
        f"{RECORDS_IN_ALL:,} records in {seconds:.0f} s, "
        f"micro-batches of {IN_A_MICRO_BATCH:,}; median MiB (peak)"
    )
    batches = max(batch for batch, _, _ in samples) + 1
    for part in range(4):
        low, high = batches * part // 4, batches * (part + 1) // 4
        of_part = [(java, python) for batch, java, python in samples if low <= batch < high]
        java, python = zip(*of_part, strict=True)
        print(
            f"  micro-batches {low:3d} to {high - 1:3d}: JVM {median(java):5.0f} ({max(java):5.0f})"
            f"   Python {median(python):5.0f} ({max(python):5.0f})"
        )


if __name__ == "__main__":
    run()
