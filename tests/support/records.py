"""Rows of the inputs of a replay, and of what comes of it: made, changed and compared."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag import schemas
from sharelag.model import SharePartition, StateBatch
from sharelag.tables.arrow import as_table
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, decode_arrow, encode_record
from tests.support import generators

KEY = SharePartition("G1", "A" * 22, 0)
NOW = datetime(2026, 11, 21, tzinfo=UTC)
T = TypeVar("T", pa.Table, pa.RecordBatch)


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
    """Return an empty snapshot of `KEY`, and an update a write: start offset, -1, batches."""
    kinds = [SHARE_SNAPSHOT] + [SHARE_UPDATE] * len(writes)
    states = zip(kinds, [(0, []), *writes], strict=True)
    return [encode_record(kind, row(start, batches)) for kind, (start, batches) in states]


#: Types of texts that tables of users may have.
TEXTS = [pa.large_string(), pa.dictionary(pa.int32(), pa.string())]


def with_texts(rows: schemas.Arrow, kind: pa.DataType) -> pa.Table:
    """The same table, with another type of texts."""
    fields = [f.with_type(kind) if f.type == pa.string() else f for f in rows.schema]
    return as_table(rows).cast(pa.schema(fields))


def with_column(
    table: T, name: str, values: Sequence[object] | pa.Array | pa.ChunkedArray | pa.Scalar
) -> T:
    """Return a table or batch with these values in a column: one for all rows, or one each."""
    place = table.schema.get_field_index(name)
    field = table.schema.field(place)
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values.cast(field.type), table.num_rows)
    elif not isinstance(values, pa.Array | pa.ChunkedArray):
        values = pa.array(values, field.type)
    return table.set_column(place, field if values.type == field.type else name, values)


def assert_fields(row: Mapping[str, Any], **expected: Any) -> None:
    """Assert that a row has these values; a failure shows all of them beside each other."""
    assert {name: row[name] for name in expected} == expected
