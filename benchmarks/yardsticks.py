"""The machine's own limits, measured in the same run: copying, and reading Parquet.

A counting task on Spark and a bare fetch from a broker are rivals of rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import Spread, spread
from benchmarks.harness import ROUNDS, Bench


@dataclass(frozen=True)
class Yardstick:
    """A rate of the machine."""

    name: str
    unit: str
    rate: Spread

    def entry(self) -> dict[str, Any]:
        """Return the rate as a JSON object."""
        return {"unit": self.unit, "rate": self.rate._asdict()}


def measured(bench: Bench) -> list[Yardstick]:
    """Measure all yardsticks."""
    count = bench.size(1_000_000, 100_000)
    batches = bench.inputs.batches("light", count)
    size = sum(len(data) for batch in batches for data in key_value_bytes(batch)) / 1e9
    paths = sorted(bench.inputs.parquet("light", count).glob("*.parquet"))
    return [
        _rate("memcpy of light keys and values", "GB/s", size, lambda: copy(batches)),
        _rate(
            "pyarrow reads light records from Parquet, one thread",
            "M records/s",
            count / 1e6,
            lambda: [pq.read_table(path, use_threads=False) for path in paths],
        ),
    ]


def copy(batches: list[pa.RecordBatch]) -> int:
    """Copy keys and values, each batch into new memory; return the number of bytes."""
    return sum(len(data.copy()) for batch in batches for data in key_value_bytes(batch))


def key_value_bytes(batch: pa.RecordBatch) -> list[Any]:
    """Return the bytes of keys and of values as arrays."""
    found = []
    for name in ("key", "value"):
        column = batch.column(name)
        _, where, data = column.buffers()
        at = np.frombuffer(where, np.int32)
        first, end = at[column.offset], at[column.offset + len(column)]
        found.append(np.frombuffer(data, np.uint8)[first:end])
    return found


def _rate(name: str, unit: str, amount: float, work: Callable[[], object]) -> Yardstick:
    work()
    rates = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        rates.append(amount / (time.perf_counter() - begin))
    return Yardstick(name, unit, spread(rates))
