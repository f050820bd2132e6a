"""Files that are sent to a Spark elsewhere are bounded by what they are when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.sources.files.raw_files import of_paths
from sharelag.sources.spark import files
from sharelag.wire.fields import STATE_TOPIC


def _write(path: Path, rows: int, value: bytes) -> None:
    """Write rows that share a value, of which the file has one."""
    row = {"key": b"k", "value": value, "topic": STATE_TOPIC, "partition": 0, "timestampType": 0}
    table = pa.Table.from_pylist([{**row, "offset": n} for n in range(rows)], schemas.RAW)
    pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=1 << 30)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[pa.RecordBatch]:
    """What would be sent."""
    batches: list[pa.RecordBatch] = []
    monkeypatch.setattr(files, "sent", lambda _, found, __: batches.extend(found))
    return batches


def test_what_is_sent_is_bounded_by_its_records(
    tmp_path: Path, sent: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, spark = tmp_path / "records.parquet", None
    _write(path, 20, bytes(1 << 20))
    assert path.stat().st_size < 100_000
    untyped: Any = files
    untyped._sent(spark, of_paths([path]), schemas.RAW)
    assert sum(batch.num_rows for batch in sent) == 20
    monkeypatch.setattr(files, "_MOST_DECODED", 8 << 20)
    with pytest.raises(InputError, match="more than 8 MiB, too many to send: copy the folder"):
        untyped._sent(spark, of_paths([path]), schemas.RAW)


def test_what_would_fill_the_memory_is_not_sent(tmp_path: Path, sent: list[pa.RecordBatch]) -> None:
    path = tmp_path / "records.parquet"
    _write(path, 200, bytes(1 << 20))
    untyped: Any = files
    with pytest.raises(InputError, match=r"records\.parquet .* nobody writes that"):
        untyped._sent(None, of_paths([path]), schemas.RAW)
    assert sent == []
