"""A reading in this process gives what the kernels give for the records of its input."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

import sharelag
from sharelag import schemas
from sharelag.engine import Once
from sharelag.engine.local import QuickReading
from sharelag.engine.spark import tasks
from sharelag.engine.spark.packing import REPLAYED, collect, pack_records
from sharelag.engine.spark.tasks import TaskRecords
from sharelag.errors import InputError
from sharelag.inputs.recorded import folder_of
from sharelag.replay.columns import KEY
from sharelag.replay.moment import Choice
from sharelag.wire import STATE_TOPIC, decode_arrow
from sharelag.workbench import Workbench
from tests.support.cases import few_of
from tests.support.chapters import CAPTURE
from tests.support.records import with_column
from tests.support.written_input import NOW, Write, WrittenInput

WRITES = [Write(100 - n, n, ((n, n + 2, 0, 1),), partition=n % 3) for n in range(90)]


def test_many_moments_do_not_take_a_replay_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Any) -> Any:
        raise AssertionError("a replay for a moment")

    monkeypatch.setattr("sharelag.replay.state.replay_arrow", never)
    reading = QuickReading(WrittenInput(WRITES))
    found = reading.windows_at(reading.table("windows"), 30)
    assert len(set(found.column("as_of").to_pylist())) == 30


def test_another_moment_reads_the_same_input_without_its_history() -> None:
    reading = QuickReading(WrittenInput(WRITES))
    then = reading.then(NOW - timedelta(seconds=50))
    assert then.source is reading.source
    starts = then.table("windows").column("start_offset").to_pylist()
    assert sorted(starts) == [48, 49, 50]
    assert sorted(reading.table("windows").column("start_offset").to_pylist()) == [87, 88, 89]


def test_the_newest_rows_of_a_history_are_kept_and_all_are_counted() -> None:
    reading = QuickReading(WrittenInput(WRITES))
    shown, total = reading.history(most=6)
    assert (shown.num_rows, total) == (6, 90)
    whole = reading.history().table
    newest = pc.array_sort_indices(whole.column("record_timestamp"), "descending")[:6]
    found = set(shown.column("start_offset").to_pylist())
    assert found == set(whole.take(newest).column("start_offset").to_pylist())


def test_a_whole_reading_has_every_group_and_the_health_of_the_topic() -> None:
    source = WrittenInput([*WRITES, Write(5, 7, group="shipping")])
    chosen = QuickReading(source, choice=Choice(frozenset(["shipping"])))
    with chosen.whole() as whole:
        groups = whole.table("windows").column("group_id").to_pylist()
        assert set(groups) == {"billing", "shipping"}
        assert whole.table("health").column("records").to_pylist() == [91]
        with whole.whole() as same:
            assert same is whole


@pytest.mark.parametrize("as_of", [None, NOW - timedelta(seconds=10)])
def test_the_progress_of_a_group_is_the_same_alone_and_among_others(as_of: Any) -> None:
    """The span of the rates is that of the input, and not that of the chosen group's records."""
    early = [Write(100 - n, n, ((n, n + 2, 0, 1),), group="early") for n in range(90)]
    late = [Write(30 - n, 70 + n, ((70 + n, 72 + n, 0, 1),), group="late") for n in range(28)]
    together = QuickReading(WrittenInput([*early, *late]), as_of)
    rates = together.table("progress").column("completion_rate").to_pylist()
    assert len(set(rates)) == 2
    assert None not in rates
    for group in ("early", "late"):
        alone = QuickReading(WrittenInput([*early, *late]), as_of, Choice(frozenset({group})))
        mine = together.table("progress").filter(pc.field("group_id") == group)
        assert alone.table("progress").equals(mine)
        assert (alone.now, alone.span) == (together.now, together.span)
        windows = QuickReading(
            WrittenInput([*early, *late]), as_of, Choice(frozenset({group})), history=False
        )
        found = (windows.record_counts.first, windows.record_counts.last)
        assert found == (together.record_counts.first, together.record_counts.last)


# ---- each question to a reading is answered once, and waits for no other question ----------------
def test_an_answer_is_kept_and_a_failure_is_not() -> None:
    once = Once()
    with pytest.raises(ZeroDivisionError):
        once("a", lambda: 1 // 0)
    assert "a" not in once
    assert (once("a", lambda: 1), once("a", lambda: 2), once("b", lambda: 3)) == (1, 1, 3)
    assert "a" in once


def test_an_answer_may_need_another_one() -> None:
    once = Once()
    assert once("a", lambda: once("b", lambda: 1) + once("a's part", lambda: 1)) == 2


class Waits(WrittenInput):
    """An input that reads its records when it may."""

    may: threading.Event | None = None

    def batches(self, topic: str) -> Any:
        if self.may is not None:
            self.asked.append("waits")
            assert self.may.wait(600)
        return super().batches(topic)


def test_a_question_waits_for_no_other_and_is_computed_once() -> None:
    source = Waits([Write(5, 10), Write(3, 12)])
    bench = Workbench(source, engine="local")
    bench.evidence()
    source.may = threading.Event()
    answers: list[Any] = []
    slow = [
        threading.Thread(target=lambda: answers.append(bench.moments("billing"))) for _ in range(2)
    ]
    quick = threading.Thread(target=lambda: answers.append(bench.lag()))
    try:
        for thread in (*slow, quick):
            thread.start()
        quick.join(300)
        assert not quick.is_alive()
        assert len(answers) == 1
    finally:
        source.may.set()
        for thread in (*slow, quick):
            thread.join(300)  # a kernel may have to be compiled first
    assert len(answers) == 3
    assert answers[1].table.equals(answers[2].table)
    assert source.asked.count("waits") == 1


# What a task makes of the partitions that it has: share partitions whole, however many records


RAW = pq.read_table(CAPTURE / "records")


def read() -> Iterator[pa.RecordBatch]:
    yield from RAW.to_batches(max_chunksize=100)


@pytest.mark.parametrize("most", few_of([10, 100, 1000, 10**6], [100, 10**6]))
def test_they_are_whole_in_however_many_passes(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(tasks, "_MOST_ROWS", most)
    records = decode_arrow(RAW).records.select(REPLAYED[STATE_TOPIC].names)
    parts = list(TaskRecords(read).share_partitions())
    found = pa.Table.from_batches(parts)
    order = [(name, "ascending") for name in (*KEY, "offset")]
    assert found.sort_by(order).equals(pa.Table.from_batches([records]).sort_by(order))
    shares = [set(zip(*(p.column(name).to_pylist() for name in KEY), strict=True)) for p in parts]
    assert sum(map(len, shares)) == len(set.union(*shares))
    assert (len(parts) > 1) == (most < records.num_rows)


def test_large_records_are_packed_before_they_fill_the_memory() -> None:
    batch = RAW.slice(0, 1).to_batches()[0]
    at = batch.schema.get_field_index("value")
    large = batch.set_column(at, "value", pa.array([bytes(33 << 20)]))
    parts = list(pack_records([large] * 3, ("topic", "partition", "offset")))
    assert [part.num_rows for part in parts] == [1, 1, 1]


# ---- what is said when Spark's tasks find that files are not what they were ----------------------
class Failing:
    """A DataFrame whose tasks fail."""

    def __init__(self, message: str) -> None:
        self._message = message

    def select(self, _: list[str]) -> Self:
        return self

    def toArrow(self) -> Any:
        raise RuntimeError(self._message)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Traceback\nsharelag.errors.InputError: a changed: open it again\n\tat org",
            r"^a changed: open it again$",
        ),
        ("Traceback ...\nFileNotFoundError: a.parquet\n\tat org", "are gone: .* Read it again"),
    ],
)
def test_a_task_that_misses_its_file_says_what_to_do(message: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        collect(cast("DataFrame", Failing(message)), schemas.WINDOWS)


def test_other_errors_of_tasks_are_left_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="no memory"):
        collect(cast("DataFrame", Failing("no memory")), schemas.WINDOWS)


TABLES = ("windows", "lag", "observed", "progress", "gaps", "members", "groups")
#: Windows of three share partitions, one of them reset, of another group and of a deleted one.
MOMENTS_WRITTEN = [
    *(Write(100 - n, n, ((n, n + 2, 0, 1),), partition=n % 3) for n in range(90)),
    *(Write(80 - n, 5 * n, ((5 * n, 5 * n + 9, 2, 3),), group="shipping") for n in range(15)),
    Write(40, 0, partition=1, made_ago=40),
]


class OutOfTime(WrittenInput):
    """The clocks of brokers were set back and forth: times do not ascend with the offsets."""

    def batches(self, topic: str) -> Any:
        for batch in super().batches(topic):
            order = sorted(range(batch.num_rows), key=lambda row: (row % 7, row))
            offsets = batch.column("offset")
            moved = batch.take(order)
            yield with_column(moved, "offset", offsets)


def same(one: QuickReading, other: QuickReading) -> None:
    for name in TABLES:
        assert one.table(name).equals(other.table(name)), name
    assert one.history().table.equals(other.history().table)
    assert (one.record_counts, one.now, one.span) == (other.record_counts, other.now, other.span)


@pytest.mark.parametrize("source", [WrittenInput(MOMENTS_WRITTEN), OutOfTime(MOMENTS_WRITTEN)])
@pytest.mark.parametrize("version", [None, 1])
def test_an_earlier_moment_has_the_rows_of_a_reading_of_its_own(
    source: WrittenInput, version: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(source), "version", lambda _: version)
    whole = QuickReading(source)
    for ago in (10.5, 42, 71, 500):
        moment = NOW - timedelta(seconds=ago)
        for choice in (Choice(), Choice(frozenset(["shipping"]))):
            mine = QuickReading(source, moment, choice, later=whole)
            same(mine, QuickReading(source, moment, choice))


def test_records_are_read_once_for_all_moments() -> None:
    source = WrittenInput(MOMENTS_WRITTEN)
    whole = QuickReading(source)
    _ = whole.record_counts
    source.asked.clear()
    for ago in range(10, 60, 10):
        _ = QuickReading(source, NOW - timedelta(seconds=ago), later=whole).record_counts
    assert source.asked == [STATE_TOPIC]


@pytest.mark.parametrize(
    "other", [{"as_of": NOW + timedelta(seconds=9)}, {"as_of": {0: 50}}, {"kept": 3}, {"group": 1}]
)
def test_what_is_read_anew(other: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if "kept" in other:
        monkeypatch.setattr("sharelag.engine.local.KEPT", other["kept"])
    choice = Choice(frozenset(["shipping"])) if "group" in other else Choice()
    as_of = other.get("as_of", NOW - timedelta(seconds=30))
    source = WrittenInput(MOMENTS_WRITTEN)
    whole = QuickReading(source, choice=choice)
    monkeypatch.setattr("sharelag.engine.local.keep_records", None)
    same(QuickReading(source, as_of, choice, later=whole), QuickReading(source, as_of, choice))


def test_a_workbench_says_of_an_earlier_moment_what_a_fresh_one_says() -> None:
    with sharelag.open("demo", engine="local") as bench:
        moment = bench.evidence().as_of - timedelta(seconds=70)
        with sharelag.open(folder_of("demo"), engine="local", as_of=moment) as fresh:
            assert said(bench.at(moment)) == said(fresh)
            group = fresh.groups[0]
            assert said(bench.at(moment).only(group)) == said(fresh.only(group))


def said(bench: Workbench) -> list[Any]:
    asked = [bench.overview(), bench.explain(), bench.progress(), bench.windows(), bench.lag()]
    return [(one.title, one.table.to_pylist(), one.unknown, one.notes) for one in asked]
