"""The spread of share partitions over the state topic: those partitions included that have none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import charts
from sharelag.wire import state_partition
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT
from tests.support.charts import health
from tests.support.records import KEY, raw, row


@pytest.mark.row("PSC-03", "CFG-22")
def test_the_spread_of_keys_over_all_partitions_of_the_state_topic(tmp_path: Path) -> None:
    """Files do not tell how many partitions there are: Kafka creates 50; a capture tells it."""
    keys = [KEY._replace(partition=partition) for partition in range(40)]
    states = [encode_record(SHARE_SNAPSHOT, row(5, [], partition=key.partition)) for key in keys]
    at = [state_partition(key, 50) for key in keys]
    records = pa.Table.from_batches([raw(states)])
    place = records.schema.get_field_index("partition")
    records = records.set_column(place, "partition", pa.array(at, pa.int32()))
    pq.write_table(records, tmp_path / "raw.parquet")
    bench = sharelag.open(tmp_path / "raw.parquet", engine="local")
    figure = bench.health().charts["keys"]("light")
    (bar,) = figure.data
    assert list(bar.x) == list(range(50))
    assert list(bar.y) == [at.count(place) for place in range(50)]
    assert 0 in bar.y
    used, most = len(set(at)), max(at.count(place) for place in at)
    assert figure.layout.meta["title"].startswith(
        f"The state of 40 share partitions is in {used} of 50 partitions; partition "
    )
    assert figure.layout.meta["title"].endswith(f" has {most}")
    assert "Not known: how many partitions the state topic has" in figure.layout.meta["facts"][1]
    capture = sharelag.open("chapters", engine="local").health().charts["keys"]("dark")
    assert list(capture.data[0].x) == list(range(4))
    assert not any(fact.startswith("Not known") for fact in capture.layout.meta["facts"])


def test_keys_of_a_topic_with_more_partitions_than_were_thought() -> None:
    known = health("chapters")
    made = charts.state_key_records(known, 2)
    assert made.column("partition").to_pylist() == [0, 1, 2, 3]
    order = known.sort_by("partition").column("share_partitions")
    assert made.column("share_partitions").to_pylist() == order.to_pylist()
