"""The cost of a scrape and of a collection of 10,000 share partitions, and the memory used.

It runs for ten minutes. Scrapes continue while the next result is collected, so the maximum times
are those during a collection.
"""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import psutil

from benchmarks.inputs import Inputs

RECORDS, KEYS = 100_000, 10_000
MINUTES = 10
#: Seconds between scrapes, and between collections.
SCRAPED, GATHERED = 1.0, 15.0
_MIB = 1 << 20


class _Scrape(NamedTuple):
    minute: int
    milliseconds: float
    size: int
    rss: float  # MiB
    gathered: float  # duration of the last collection in seconds


def run() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Inputs(Path(scratch)).capture("light", RECORDS, KEYS)
        command = [
            sys.executable,
            "-m",
            "sharelag",
            "export",
            "serve",
            "--port",
            "0",
            "--every",
            f"{GATHERED}s",
        ]
        with subprocess.Popen(
            [*command, "--capture", str(folder)], stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                scrapes = _scrapes(process)
            finally:
                process.terminate()
    _tell(scrapes)


def _scrapes(process: subprocess.Popen[str]) -> list[_Scrape]:
    assert process.stderr is not None
    found = re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline())
    if not found:
        raise SystemExit(f"the exporter did not start: {process.stderr.read()}")
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
    while not _value(_scrape(connection), "collect_attempts_total"):
        time.sleep(SCRAPED)  # until there is something to scrape
    scrapes, begun = [], time.monotonic()
    while (passed := time.monotonic() - begun) < MINUTES * 60:
        asked = time.perf_counter()
        text = _scrape(connection)
        took = time.perf_counter() - asked
        rss = psutil.Process(process.pid).memory_info().rss / _MIB
        gathered = _value(text, "collect_duration_seconds")
        scrapes.append(_Scrape(int(passed // 60), 1000 * took, len(text), rss, gathered))
        time.sleep(max(0.0, SCRAPED - took))
    return scrapes


def _scrape(connection: http.client.HTTPConnection) -> bytes:
    connection.request(
        "GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    return connection.getresponse().read()


def _value(text: bytes, name: str) -> float:
    """Return one of the exporter's own metrics; they come last."""
    found = re.search(rf"(?m)^kafka_share_group_{name} (\S+)$".encode(), text[-2000:])
    if not found:
        raise SystemExit(f"the exporter does not tell {name}")
    return float(found[1])


def _tell(scrapes: list[_Scrape]) -> None:
    size = min(scrape.size for scrape in scrapes)
    # Only the digits of the exporter's own clocks vary.
    if max(scrape.size for scrape in scrapes) > size + 100 or size < KEYS * 100:
        raise SystemExit("the answers differ or are too small, so the times mean nothing")
    print(f"{KEYS:,} share partitions, {size / 1e6:.1f} MB a scrape")
    times = sorted({scrape.gathered for scrape in scrapes})
    told = f"median {times[len(times) // 2]:.2f} s, greatest {times[-1]:.2f} s, "
    told += f"{GATHERED:.0f} s between two"
    print(f"{len(times)} gatherings: {told}")
    print("minute  scrapes  median ms  p95 ms  greatest ms  memory MiB")
    for minute in range(MINUTES):
        of = [scrape for scrape in scrapes if scrape.minute == minute]
        cuts = quantiles([scrape.milliseconds for scrape in of], n=20)
        most = max(scrape.milliseconds for scrape in of)
        memory = max(scrape.rss for scrape in of)
        print(
            f"{minute + 1:>6}  {len(of):>7}  {cuts[9]:>9.1f}  {cuts[18]:>6.1f}  "
            f"{most:>11.0f}  {memory:>10.0f}"
        )
