"""Whether the cost per unit stays constant with more records, share partitions and bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import sharelag
from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side
from benchmarks.processes import command, own_python, peak_memory
from benchmarks.yardsticks import key_value_bytes


def lag_of(folder: Path) -> pa.Table:
    """Open a capture in this process and compute its lag, with its age."""
    with sharelag.open(folder, engine="local") as bench:
        return bench.lag().table


@contextmanager
def more_of_it(
    bench: Bench, more: tuple[int, int], less: tuple[int, int], quick: int, shape: str = "light"
) -> Iterator[Contest]:
    """Compare the cost per record of two captures with different numbers of records and keys."""
    sizes = [(bench.size(records, records // quick), keys) for records, keys in (more, less)]
    folders = [bench.inputs.capture(shape, *size) for size in sizes]

    def check(ours: pa.Table, rival: pa.Table) -> None:
        for found, (_, keys) in zip((ours, rival), sizes, strict=True):
            if found.num_rows != keys:
                raise GateError(f"{found.num_rows} share partitions instead of {keys}")

    sides = [
        Side(f"{records:,} records of {keys:,} share partitions", partial(lag_of, folder), records)
        for folder, (records, keys) in zip(folders, sizes, strict=True)
    ]
    yield Contest(*sides, check)


@contextmanager
def memory(bench: Bench) -> Iterator[Contest]:
    """Compare the peak memory of `sharelag lag` to the size of the records that it reads."""
    records, keys = bench.size(3_400_000, 800_000), 10_000
    folder = bench.inputs.capture("heavy", records, keys)
    size = sum(
        len(data)
        for path in sorted(folder.glob("records/*.parquet"))
        for batch in pq.ParquetFile(path).iter_batches()
        for data in key_value_bytes(batch)
    )
    line = own_python(
        "from sharelag.cli import main; main()", "lag", "--engine", "local", "--capture",
        str(folder),
    )  # fmt: skip

    def ours() -> Measured:
        children = Path(f"/proc/self/task/{os.getpid()}/children")

        def pid() -> int | None:
            found = children.read_text().split()
            return int(found[-1]) if found else None

        answer, most = peak_memory(pid, lambda: command(line))
        return Measured(answer, peak=most)

    def check(answer: str, _: object) -> None:
        if len(answer.splitlines()) != keys + 1:
            raise GateError(f"{len(answer.splitlines()) - 1} share partitions instead of {keys}")

    yield Contest(
        Side("sharelag lag", ours, unit="runs"),
        Side("the input", lambda: Measured(None, wall=0, cpu=0, peak=size), unit="runs"),
        check,
        warm=False,
    )


_MEMORY = (
    "does not grow with the records: 1.1 GB of 2.2 GB and of more. States of ten thousand share "
    "partitions (80 MB after 150,000 records; a list that outgrows its place in the heap leaves "
    "it), libraries (120 MB before numba), batches of 8 MB with what is made of them. It was 2.2x "
    "when all records since the last snapshots were kept. Next: places that are used again."
)

ROWS = (
    Row("P13", "cost per record of bench.lag(), 10 M records", "100,000 records", 1.2, 1.05,
        partial(more_of_it, more=(10_000_000, 1_000), less=(100_000, 1_000), quick=10), "records",
        by=("cpu",), within=True),
    Row("P13", "cost per record of bench.lag(), 10,000 share partitions", "100 share partitions",
        1.2, 1.05,
        partial(more_of_it, more=(1_000_000, 10_000), less=(1_000_000, 100), quick=1,
                shape="updates"), "share partitions", by=("cpu",), within=True),
    Row("P14", "peak memory of `sharelag lag`, records of 4.4 GB", "the bytes of the records",
        0.5, 0.25, memory, by=("peak",), within=True, note=_MEMORY),
)  # fmt: skip
