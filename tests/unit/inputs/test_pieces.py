"""Tasks that read Parquet themselves: all records once, a state partition in one task if it can."""

import math
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files import pieces
from sharelag.inputs.files.pieces import parquet_batches, plan, read_pieces
from sharelag.inputs.files.raw_files import Condition, RawFile
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC


def write(path: Path, groups: list[list[int]], topic: str = STATE_TOPIC) -> str:
    """A file of row groups, each a list of the partitions of its records."""
    with pq.ParquetWriter(path, schemas.RAW) as writer:
        for number, partitions in enumerate(groups):
            rows = [
                {"key": b"k", "topic": topic, "partition": partition, "offset": 100 * number + n}
                for n, partition in enumerate(partitions)
            ]
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schemas.RAW))
    return str(path)


def read(task: list[pieces.Piece]) -> list[tuple[int, int]]:
    table = pa.Table.from_batches(read_pieces(task), schemas.RAW if not task else None)
    return list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_TASK_BYTES", 1)


@pytest.mark.usefixtures("small_tasks")
def test_each_state_partition_is_in_one_task(tmp_path: Path) -> None:
    groups = [[n, n] for n in range(6)]
    paths = [write(tmp_path / "a.parquet", groups), write(tmp_path / "b.parquet", groups[::-1])]
    found = plan(paths, STATE_TOPIC)
    assert found.whole
    of_tasks = [read(task) for task in found.tasks]
    assert [len({partition for partition, _ in rows}) for rows in of_tasks] == [1] * 6
    assert sorted(row for rows in of_tasks for row in rows) == sorted(
        (partition, 100 * number + n)
        for order in (groups, groups[::-1])
        for number, partitions in enumerate(order)
        for n, partition in enumerate(partitions)
    )
    # In the order of the files, which is that of the log.
    assert read(found.tasks[0]) == [(0, 0), (0, 1), (0, 500), (0, 501)]


@pytest.mark.usefixtures("small_tasks")
def test_a_chain_of_shared_partitions_stays_together(tmp_path: Path) -> None:
    groups = [[0, 1], [1, 2], [2, 3], *([n] * 2 for n in range(4, 30))]
    found = plan([write(tmp_path / "a.parquet", groups)], STATE_TOPIC)
    assert found.whole
    assert sorted(len(task) for task in found.tasks)[-2:] == [1, 3]


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("hot", [[[7] * 9] * 9 + [[8]], [[0, 9]] * 5])
def test_a_hot_partition_is_divided_without_loss(tmp_path: Path, hot: list[list[int]]) -> None:
    found = plan([write(tmp_path / "a.parquet", hot)], STATE_TOPIC)
    assert not found.whole
    assert len(found.tasks) == len(hot)
    assert sum(len(read(task)) for task in found.tasks) == sum(map(len, hot))


def test_what_is_small_is_one_task(tmp_path: Path) -> None:
    found = plan([write(tmp_path / "a.parquet", [[3], [0, 9], [5]])], STATE_TOPIC)
    assert (found.whole, len(found.tasks)) == (True, 1)


def test_row_groups_of_other_topics_are_not_read(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "groups.parquet", [[0], [1]], GROUP_TOPIC),
        write(tmp_path / "states.parquet", [[0]], f"mirror.{STATE_TOPIC}"),
    ]
    planned = plan(paths, STATE_TOPIC).tasks
    assert [piece.file.path for task in planned for piece in task] == paths[1:]
    assert plan(paths[:1], STATE_TOPIC).tasks == []


@pytest.mark.parametrize(
    ("condition", "row_groups", "offsets"),
    [
        (("partition", "==", 1), [1], [100, 101]),
        (("partition", "in", (0, 2)), [0, 2], [0, 1, 200, 201]),
        (("offset", ">", 101), [2], [200, 201]),
        (("offset", ">=", 101), [1, 2], [101, 200, 201]),
        (("offset", "<", 100), [0], [0, 1]),
        (("offset", "<=", 100), [0, 1], [0, 1, 100]),
        (("topic", "==", "orders"), [], []),
        (("timestamp", "<", datetime(2027, 1, 1, tzinfo=UTC)), [0, 1, 2], []),  # nulls
    ],
)
def test_row_groups_without_rows_that_meet_conditions_are_not_read(
    tmp_path: Path, condition: Condition, row_groups: list[int], offsets: list[int]
) -> None:
    path = write(tmp_path / "a.parquet", [[0, 0], [1, 1], [2, 2]])
    tasks = plan([RawFile(path, where=(condition,))], STATE_TOPIC).tasks
    assert [piece.row_group for task in tasks for piece in task] == row_groups
    assert [offset for task in tasks for _, offset in read(task)] == offsets


def test_a_time_without_its_zone_rules_no_row_group_out(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "a.parquet", [[0, 0]]))
    at = table.schema.names.index("timestamp")
    times = pa.array([datetime(2026, 1, 1), datetime(2026, 1, 3)])
    pq.write_table(table.set_column(at, "timestamp", times), tmp_path / "b.parquet")
    where = (("timestamp", "<", datetime(2026, 1, 2, tzinfo=UTC)),)
    (task,) = plan([RawFile(str(tmp_path / "b.parquet"), where=where)], STATE_TOPIC).tasks
    assert read(task) == [(0, 0)]


def test_files_without_statistics_are_read_as_a_whole(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "a.parquet", [[0], [1]]))
    pq.write_table(table, tmp_path / "b.parquet", write_statistics=False, row_group_size=1)
    found = plan([str(tmp_path / "b.parquet")], STATE_TOPIC)
    assert [len(task) for task in found.tasks] == [2]


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("name", ["partition", "topic"])
def test_a_field_of_a_struct_with_our_name_is_not_our_column(tmp_path: Path, name: str) -> None:
    table = pq.read_table(write(tmp_path / "a.parquet", [[n % 6] for n in range(12)]))
    other = pa.array([{name: "other" if name == "topic" else n} for n in range(12)])
    pq.write_table(table.append_column("more", other), tmp_path / "b.parquet", row_group_size=1)
    found = plan([str(tmp_path / "b.parquet")], STATE_TOPIC)
    of_tasks = [[partition for partition, _ in read(task)] for task in found.tasks]
    assert of_tasks == [[n, n] for n in range(6)]


@pytest.mark.usefixtures("small_tasks")
def test_null_partitions_may_be_any_partition(tmp_path: Path) -> None:
    rows = [{"topic": STATE_TOPIC, "partition": n} for n in (0, 0, 1, None, 2, 2)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schemas.RAW), path, row_group_size=2)
    found = plan([str(path)], STATE_TOPIC)
    reach = [(one.first, one.last) for task in found.tasks for one in task]
    assert reach == [(0, 0), (-math.inf, math.inf), (2, 2)]
    assert not found.whole  # together they are all that there is


def test_null_topics_may_be_any_topic(tmp_path: Path) -> None:
    rows = [{"topic": topic, "partition": 0} for topic in (GROUP_TOPIC, None)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schemas.RAW), path)
    assert [len(task) for task in plan([str(path)], STATE_TOPIC).tasks] == [1]


@pytest.mark.parametrize(
    "after",
    [[[1]], [[1], [2], [3]], [[1], [2, 2]], [[1], [3]], []],
    ids=["a group less", "a group more", "a record more", "another partition", "cut short"],
)
def test_a_file_changed_after_the_plan_is_an_error(tmp_path: Path, after: list[list[int]]) -> None:
    path = Path(write(tmp_path / "a.parquet", [[1], [2]]))
    (task,) = plan([str(path)], STATE_TOPIC).tasks
    assert len(read(task)) == 2
    if after:
        write(path, after)
    else:
        path.write_bytes(path.read_bytes()[:-20])
    said = r"a\.parquet changed while it was being read: open the input again"
    with pytest.raises(InputError, match=said):
        read(task)


def test_large_records_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    place = {"key": b"k", "topic": STATE_TOPIC, "partition": 0}
    rows = [place | {"value": bytes([n]) * 1_000_000, "offset": n} for n in range(20)]
    path = str(tmp_path / "large.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema=schemas.RAW), path, use_dictionary=["topic"])
    (task,) = plan([path], STATE_TOPIC).tasks
    for batches in (list(read_pieces(task)), list(parquet_batches([path]))):
        assert max(batch.nbytes for batch in batches) < 10_000_000
        assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(20))
