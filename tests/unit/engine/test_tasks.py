"""What a task makes of the partitions that it has: share partitions whole, however many records."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag.engine.spark import tasks
from sharelag.engine.spark.packing import REPLAYED
from sharelag.engine.spark.tasks import TaskRecords
from sharelag.replay.columns import KEY
from sharelag.wire import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE

RAW = pq.read_table(CAPTURE / "records")


def read() -> Iterator[pa.RecordBatch]:
    yield from RAW.to_batches(max_chunksize=100)


@pytest.mark.parametrize("most", few_of([10, 100, 1000, 10**6], [100, 10**6]))
def test_share_partitions_are_whole_in_however_many_passes(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(tasks, "_MOST_ROWS", most)
    records = decode_arrow(RAW).records.select(REPLAYED[STATE_TOPIC].names)
    parts = list(TaskRecords(read).share_partitions())
    found = pa.Table.from_batches(parts)
    order = [(name, "ascending") for name in (*KEY, "offset")]
    assert found.sort_by(order).equals(pa.Table.from_batches([records]).sort_by(order))
    shares = [
        set(zip(*(part.column(name).to_pylist() for name in KEY), strict=True)) for part in parts
    ]
    assert sum(map(len, shares)) == len(set.union(*shares))
    assert (len(parts) > 1) == (most < records.num_rows)
