"""A simulation of many kinds of members and records; rows and the digest of a result."""

import hashlib
from typing import Any

import pyarrow as pa

from sharelag.whatif import (
    Behaviour,
    Burst,
    Fault,
    Member,
    Poison,
    Producer,
    Scenario,
    Service,
    SimulationResult,
    Topic,
)
from sharelag.whatif.simulation.loop import SimulationTables

#: Everything that can happen, at once.
MIXED = Scenario(
    topics=(Topic("a", 3, backlog=(300, 20, 0), batch_records=7), Topic("b", 2)),
    members=(
        Member(
            "m",
            3,
            service=Service(8, "lognormal"),
            max_poll_records=40,
            behaviour=Behaviour(0.9, 0.05, 0.03, 0.02, crash=0.01, restart_ms=3000),
        ),
        Member(
            "late", topics=("b",), service=Service(3, "exponential"), join_ms=9000, leave_ms=40_000
        ),
    ),
    producers=(
        Producer("a", 20, keys=50, key_skew=1.1),
        Producer("b", 10, batch_records=4, bursts=(Burst(10_000, 20_000, 5),)),
    ),
    poison=(Poison("a", 0, 33), Poison("a", 1, 4, "crash", 1)),
    faults=(
        Fault(6000, "hang", "m-1", 35_000),
        Fault(12_000, "leader_change", topic="a"),
        Fault(30_000, "mute", "m-0", 50_000),
    ),
    brokers=2,
    duration_ms=120_000,
)


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
