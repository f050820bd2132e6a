"""The digest of a simulation: equal digests mean equal results, to the last byte."""

import hashlib

import pyarrow as pa

from sharelag.whatif.simulate import SimulationResult

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
