"""Simulated groups of both kinds: scenarios of some, rows and the digest of a result."""

import hashlib
from typing import Any

import pyarrow as pa

from sharelag.whatif import (
    Burst,
    Costs,
    Member,
    Pods,
    Producer,
    Scenario,
    Service,
    SimulationResult,
    Topic,
)
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


# ---- a group with an autoscaler ------------------------------------------------------------------
SECOND = 1_000_000

#: 25 records a second, 40 ms each: one member is busy, and a burst of a minute asks for twenty.
LOAD = Scenario(
    (Topic("orders", 4),),
    (Member(count=2, service=Service(40), max_poll_records=50),),
    (Producer("orders", 25, batch_records=5, bursts=(Burst(60_000, 120_000, 20),)),),
    duration_ms=600_000,
)

QUICK = Pods(startup_ms=2000)


def rows(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.scaling.to_pylist()
    return found


# ---- consumer groups -----------------------------------------------------------------------------
FREE = Costs(0, 0, 0)


def lives(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.members.to_pylist()
    return found


def appended(records: int, members: int, partitions: int, service: Service, **own: Any) -> Scenario:
    """Records that all come at 30 s, when each member has what it gets."""
    return Scenario(
        (Topic("t", partitions),),
        (Member(count=members, service=service, max_poll_records=10),),
        (Producer("t", records * 1000, "steady", begin_ms=30_000, end_ms=30_001),),
        costs=FREE,
        **own,
    )
