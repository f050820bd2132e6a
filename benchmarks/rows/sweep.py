"""Many what-ifs on Spark, and the cost of each compared with one in this process.

``python -m benchmarks.rows.sweep 100000`` runs that many once and prints the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

import sharelag
from benchmarks.harness import Bench, Contest, GateError, Row, Side
from benchmarks.rows.simulator import scenario
from benchmarks.sessions import keep_session, living
from sharelag.whatif import Scenario, simulate

#: Records of each what-if.
RECORDS = 20_000


def variants() -> dict[str, Scenario]:
    """Return a busy group of some 20,000 records, with four numbers of members."""
    busy = scenario(1, "poll")
    rate = sum(producer.rate for producer in busy.producers)
    lasting = replace(busy, duration_ms=round(RECORDS / rate * 1000))
    members = len(busy.each_member())
    return {f"{count}": lasting.with_members(count) for count in range(members - 3, members + 1)}


@contextmanager
def against_one_process(bench: Bench) -> Iterator[Contest]:
    """Compare the CPU time of a what-if in a sweep with one that is simulated here."""
    spark, count, few = keep_session(bench), bench.size(2_000, 40), bench.size(200, 8)
    tried = variants()

    def ours() -> pa.Table:
        return sharelag.sweep(tried, range(count // len(tried)), spark=spark)

    def rival() -> list[float]:
        found = [simulate(one, seed) for one in tried.values() for seed in range(few // len(tried))]
        return [one.summary.column("completed")[0].as_py() for one in found]

    def check(runs: pa.Table, alone: list[float]) -> None:
        completed = runs.column("completed").to_pylist()
        each, some = count // len(tried), few // len(tried)
        same = [completed[at * each + seed] for at in range(len(tried)) for seed in range(some)]
        if runs.num_rows != count or same != alone:
            raise GateError(f"{runs.num_rows} runs, or not what one process makes of them")

    yield Contest(
        Side("sweep", ours, count, "what-ifs", living(spark)),
        Side("whatif.simulate", rival, few, "what-ifs"),
        check,
    )


ROWS = (
    Row("P18", "a what-if of 20,000 records in a sweep on local[2]", "one here", 1.5, 1.2,
        against_one_process, by=("cpu",), within=True),
)  # fmt: skip


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    begun, tried = time.monotonic(), variants()
    runs = sharelag.sweep(tried, range(wanted // len(tried)))
    took = time.monotonic() - begun
    failed = runs.num_rows - runs.column("error").null_count
    print(f"{runs.num_rows:,} what-ifs in {took:,.0f} s, {failed} failed")
    print(f"{took / runs.num_rows * 1000:.1f} ms each")
