"""Rows of the inputs of a replay: raw records, decoded records and end offsets."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.model import SharePartition, StateBatch
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, decode_arrow, encode_record
from tests.support import generators

KEY = SharePartition("G1", "A" * 22, 0)
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def raw(
    rows: list[generators.Record], topic: str = STATE_TOPIC, begin: int = 100
) -> pa.RecordBatch:
    """Return key and value pairs as raw records, from an offset on."""
    place = {"topic": topic, "partition": 3}
    made = [
        place | {"key": key, "value": value, "offset": begin + n, "timestamp": n}
        for n, (key, value) in enumerate(rows)
    ]
    return pa.RecordBatch.from_pylist(made, schema=schemas.RAW)


def raw_file(folder: Path, *batches: pa.RecordBatch) -> str:
    """Write raw records into a folder as a Parquet file; return its path."""
    path = folder / "raw.parquet"
    pq.write_table(pa.Table.from_batches(batches), path)
    return str(path)


def row(start: int, batches: Sequence[tuple[int, int, int, int]], **changes: Any) -> dict[str, Any]:
    """Return the fields of a snapshot of `KEY`."""
    fields = {"snapshot_epoch": 0, "state_epoch": 1, "leader_epoch": 2, "start_offset": start}
    fields |= {"delivery_complete_count": 0, "create_timestamp": 5, "write_timestamp": 5}
    named = [StateBatch(*batch)._asdict() for batch in batches]
    return KEY._asdict() | fields | {"state_batches": named} | changes


def offsets(end: int | None, log_start: int | None = 0) -> pa.Table:
    """Return the ends of the topic partition of `KEY` at `NOW`."""
    place = {"topic": "orders", "topic_id": "A" * 22, "partition": 0, "as_of": NOW}
    return pa.Table.from_pylist(
        [place | {"end_offset": end, "log_start_offset": log_start}], schemas.OFFSETS
    )


def decode(records: list[tuple[bytes, bytes | None]]) -> pa.RecordBatch:
    return decode_arrow(raw(records)).records


def state_records(writes: list[tuple[int, list[StateBatch]]]) -> list[generators.Record]:
    """Return an empty snapshot of `KEY`, and an update a write: a start offset, -1: none, batches."""
    kinds = [SHARE_SNAPSHOT] + [SHARE_UPDATE] * len(writes)
    states = zip(kinds, [(0, []), *writes], strict=True)
    return [encode_record(kind, row(start, batches)) for kind, (start, batches) in states]
