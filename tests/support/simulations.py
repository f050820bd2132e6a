"""Rows and the digest of a simulation's result."""

import hashlib
from typing import Any

import pyarrow as pa

from sharelag.whatif import SimulationResult
from sharelag.whatif.simulation.loop import SimulationTables


def only(table: pa.Table) -> dict[str, Any]:
    (row,) = table.to_pylist()
    return dict(row)


def at(result: SimulationTables, time_ms: int, partition: int = 0) -> dict[str, Any]:
    """The last row of the timeline of a partition at or before a time."""
    then = (row for row in result.timeline.to_pylist() if row["time_ms"] <= time_ms)
    rows = [row for row in then if row["partition"] == partition]
    return dict(rows[-1])


TABLES = ("timeline", "deliveries", "members", "assignments", "summary", "requests")


def digest(result: SimulationResult, *, records: bool = True) -> str:
    """Hash all tables of a simulation, and its records, which take longer than the simulation."""
    hashed = hashlib.sha256()
    tables = [getattr(result, name) for name in TABLES]
    if records:
        tables.append(pa.Table.from_batches([result.records()]))
    for table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        hashed.update(sink.getvalue())
    return hashed.hexdigest()
