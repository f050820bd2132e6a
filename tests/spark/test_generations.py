"""Do Spark's tasks read older generations of the format as this process does?"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag import Workbench, schemas
from sharelag.wire import SHARE_SNAPSHOT, encode_record
from tests.support.columns import with_column
from tests.support.generations import TODAY, raw_of
from tests.support.log_directory import beside, user_log, write
from tests.support.older_records import control, keyed, raw, row
from tests.support.records import KEY
from tests.support.records import row as todays_row
from tests.support.walk import WALK


def both(path: Path, spark: SparkSession, generation: int | None) -> list[Workbench]:
    of_spark = sharelag.open(path, engine="spark", spark=spark, bars=False, generation=generation)
    return [of_spark, sharelag.open(path, engine="local", generation=generation)]


def same(path: Path, spark: SparkSession, generation: int | None = None) -> None:
    ours, local = both(path, spark, generation)
    columns = ["effective_start_offset", "window_end_offset", "leader_epoch", "runs"]
    for question in ("windows", "history", "health"):
        tables = [getattr(bench, question)().table for bench in (ours, local)]
        names = [name for name in columns if name in tables[1].column_names] or ["generations"]
        assert tables[0].num_rows == tables[1].num_rows > 0
        assert tables[0].select(names).to_pylist() == tables[1].select(names).to_pylist()


@pytest.mark.exhaustive  # without Spark: `tests/unit/replay/test_generations.py`
def test_older_generations_alone_and_beside_todays(spark: SparkSession, tmp_path: Path) -> None:
    same(write(tmp_path / "0", user_log(raw(control(0))), topic_id=KEY.topic_id), spark)
    folder = write(tmp_path / "1", user_log(raw(control(1))), topic_id=KEY.topic_id)
    todays = encode_record(SHARE_SNAPSHOT, todays_row(40, [], group_id="today"))
    same(beside(folder, *todays), spark, generation=1)
    for generation in (2, 3):
        same(written(tmp_path / f"{generation}", raw_of(WALK.values(), generation)), spark)


def written(folder: Path, rows: pa.RecordBatch) -> Path:
    """Write raw records as the only file of a folder."""
    folder.mkdir()
    table = pa.Table.from_batches([rows]).cast(schemas.RAW)
    pq.write_table(table, folder / "part-0.parquet")
    return folder


@pytest.mark.parametrize("generation", [pytest.param(1, marks=pytest.mark.exhaustive), 3])
def test_a_generation_that_is_named(spark: SparkSession, tmp_path: Path, generation: int) -> None:
    """A snapshot that may be today's, cut short; control records whose keys have no topic id."""
    if generation == 3:
        epochs = {"epoch": 0, "state_epoch": 0, "leader_epoch": 0}
        rows = raw([row(3, 0, 0, 100, [], **epochs)])
    else:
        rows = raw(control(1))
        keys = pc.binary_slice(rows.column("key"), 0, 4)
        rows = with_column(rows, "key", keys)
    files = written(tmp_path / "files", rows)
    assert sharelag.open(files, engine="local").windows().table.num_rows == 0
    same(files, spark, generation)
    # The same as a DataFrame, which tasks do not read as files.
    frame = sharelag.open(raw=spark.read.parquet(str(files)), generation=generation, bars=False)
    local = sharelag.open(files, engine="local", generation=generation)
    for question in ("windows", "lag"):
        tables = [getattr(bench, question)().table.to_pylist() for bench in (frame, local)]
        assert (tables[0], len(tables[1])) == (tables[1], 1)


@pytest.mark.row("PSS-11")
def test_batches_have_the_same_columns_in_all_of_them(spark: SparkSession, tmp_path: Path) -> None:
    writes = [(100, []), (-1, [(100, 109, 2, 1)]), (-1, [(110, 110, 0, 1), (111, 118, 0, 0)])]
    found = []
    for generation in (1, 2, 3, TODAY):
        folder = written(tmp_path / f"g{generation}", raw_of(writes, generation))
        records = sharelag.decode(spark.read.parquet(str(folder))).records
        found.append(
            records.selectExpr("offset", "inline(state_batches)").orderBy("offset", "first_offset")
        )
    names = ["offset", "first_offset", "last_offset", "delivery_state", "delivery_count"]
    assert all(frame.schema == found[-1].schema and frame.columns == names for frame in found)
    expected = [(131, 100, 109, 2, 1), (132, 110, 110, 0, 1), (132, 111, 118, 0, 0)]
    assert [[tuple(one) for one in frame.collect()] for frame in found] == [expected] * 4


@pytest.mark.row("PSC-14")
def test_an_election_replays_checkpoint_and_deltas(spark: SparkSession, tmp_path: Path) -> None:
    whole = keyed()
    stale = [each for each in whole if each["record_type"] == 1 and each["snapshot_epoch"] == 1]
    assert [each["offset"] for each in stale] == [2]
    found = []
    for name, rows in (("whole", whole), ("without", [one for one in whole if one not in stale])):
        for bench in both(written(tmp_path / name, raw(rows)), spark, None):
            (row_,) = bench.windows().table.to_pylist()
            found.append((row_["snapshot_epoch"], row_["effective_start_offset"], row_["runs"]))
    assert [found[0]] * 4 == found
    epoch, start, runs = found[0]
    assert (epoch, start) == (2, 7)
    assert [tuple(run.values()) for run in runs] == [(7, 7, 0, 1), (8, 9, 0, 2)]
