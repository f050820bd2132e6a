"""The digest of a simulation: equal digests mean equal results, to the last byte."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from sharelag.whatif.simulate import SimulationResult

TABLES = ("timeline", "deliveries", "members", "assignments", "summary", "requests")


def digest(result: SimulationResult) -> str:
    """Hash all tables and records of a simulation."""
    hashed = hashlib.sha256()
    for table in (
        *(getattr(result, name) for name in TABLES),
        pa.Table.from_batches([result.records()]),
    ):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        hashed.update(sink.getvalue())
    return hashed.hexdigest()
