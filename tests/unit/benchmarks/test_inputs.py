from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from benchmarks.inputs import Inputs
from sharelag import schemas
from sharelag.wire import decode_arrow


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("inputs"))


@pytest.mark.parametrize(
    ("shape", "batches", "size"), [("light", (3.5, 4.5), 160), ("heavy", (50, 70), 1400)]
)
def test_seeded_records_are_such_as_a_coordinator_writes(
    inputs: Inputs, shape: str, batches: tuple[float, float], size: int
) -> None:
    raw = pa.Table.from_batches(inputs.batches(shape, 3_000, 200))
    records, rejects, skipped = decode_arrow(raw.combine_chunks().to_batches()[0])
    assert (records.num_rows, rejects.num_rows, skipped) == (3_000, 0, 0)
    mean = len(records.column("state_batches").flatten()) / 3_000
    assert batches[0] < mean < batches[1]
    assert raw.select(["key", "value"]).nbytes / 3_000 < size
    seen = records.to_pylist()
    assert len({(r["group_id"], r["topic_id"], r["partition"]) for r in seen}) == 200


def test_the_same_seed_gives_the_same_bytes(inputs: Inputs) -> None:
    first, second = (inputs.batches("light", 1_000, 50) for _ in range(2))
    assert first == second


def test_offsets_of_a_state_partition_go_on_without_gaps(inputs: Inputs) -> None:
    raw = pa.Table.from_batches(inputs.batches("light", 120_000, 400))
    for state in range(8):
        mine = raw.filter(pc.equal(raw.column("partition"), state))
        assert np.array_equal(mine.column("offset").to_numpy(), np.arange(len(mine)))


def test_recorded_records_are_laid_end_to_end(inputs: Inputs) -> None:
    raw = pa.Table.from_batches(inputs.batches("recorded", 60_000))
    assert raw.schema == schemas.RAW
    assert np.array_equal(raw.column("offset").to_numpy(), np.arange(60_000))
    found = decode_arrow(raw.combine_chunks().to_batches()[0])
    assert found.records.num_rows == 60_000


def test_files_have_the_same_records(inputs: Inputs) -> None:
    whole = pa.Table.from_batches(inputs.batches("light", 2_000, 100))
    files = sorted(inputs.parquet("light", 2_000, 100).glob("*.parquet"))
    assert pa.concat_tables([pq.read_table(path) for path in files]).cast(schemas.RAW) == whole
    stem: Path = inputs.flat("light", 2_000, 100)
    for letter, name in (("k", "key"), ("v", "value")):
        data = stem.with_suffix(f".{letter}b").read_bytes()
        at = np.fromfile(stem.with_suffix(f".{letter}o"), "<i8")
        assert [data[a:b] for a, b in pairwise(at)] == whole.column(name).to_pylist()


@pytest.mark.slow
def test_a_capture_is_one_that_sharelag_opens(inputs: Inputs) -> None:
    with sharelag.open(str(inputs.capture("light", 2_000, 100)), engine="local") as bench:
        lag = bench.lag().table
    assert lag.num_rows == 100
    assert pc.all(pc.greater(lag.column("lag"), 0)).as_py()
    assert lag.column("lag").null_count < 10  # the few whose last record has no count
