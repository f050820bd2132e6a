"""A reader of an archive sees every record once, whoever writes, merges or is killed."""

import errno
import itertools
import json
import math
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files import archive as views
from sharelag.inputs.files import parquet
from sharelag.inputs.files.archive import (
    GAP,
    ArchiveInput,
    begin,
    compact,
    is_archive,
    write_parquet,
)
from sharelag.inputs.kafka import topics as kafka
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.spark.follow import _Job
from sharelag.wire import STATE_TOPIC
from sharelag.workbench import open_workbench
from tests.support.parquet import flip_in_a_page

BEGUN = datetime(2026, 11, 21, tzinfo=UTC)
CONFIG = client_config("b:1", None, {"ssl.key.password": "hunter2"})
DAY = "2026-11-21"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    begin(tmp_path / "archive", "cluster", {STATE_TOPIC: [0, 7]}, CONFIG)
    return tmp_path / "archive"


def _raw(first: int, count: int, partition: int = 0) -> pa.Table:
    place = {"key": b"k", "topic": STATE_TOPIC, "partition": partition, "timestamp": BEGUN}
    rows = [place | {"value": b"%08d" % n, "offset": n} for n in range(first, first + count)]
    return pa.Table.from_pylist(rows, schema=schemas.RAW)


def _file(folder: Path, table: pa.Table) -> Path:
    path = views.staging(folder, f"test-{os.urandom(4).hex()}") / "file.parquet"
    write_parquet(path, table.schema, table.to_batches())
    return path


def _add(folder: Path, batch: int, *tables: pa.Table, day: str = DAY) -> bool:
    place = f"records/source={STATE_TOPIC}/day={day}/{batch:012d}"
    files = {
        f"{place}-{task:05d}.parquet": _file(folder, table) for task, table in enumerate(tables)
    }
    return views.commit(folder, files, batch=batch, day=day)


def _offsets(folder: Path) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in ArchiveInput(folder).batches(STATE_TOPIC):
        for row in batch.select(["partition", "offset"]).to_pylist():
            found.setdefault(row["partition"], []).append(row["offset"])
    return found


def _plainly(folder: Path) -> list[int]:
    """Offsets as somebody reads them who knows nothing of archives."""
    return sorted(pq.read_table(folder / "data" / "records").column("offset").to_pylist())


# ---- what is read --------------------------------------------------------------------------------
def test_records_come_in_the_order_of_the_log(folder: Path) -> None:
    for batch in range(12):
        day = "2026-11-21" if batch < 11 else "2026-11-22"
        tables = _raw(batch * 10, 4), _raw(batch * 10 + 4, 6), _raw(batch, 1, partition=1)
        _add(folder, batch, *tables, day=day)
    assert _offsets(folder) == {0: list(range(120)), 1: list(range(12))}
    assert ArchiveInput(folder).size() == 132
    batch = next(ArchiveInput(folder).batches(STATE_TOPIC))
    assert batch.schema == schemas.RAW
    assert list(ArchiveInput(folder).batches("other")) == []


def test_a_micro_batch_is_added_once(folder: Path) -> None:
    assert _add(folder, 0, _raw(0, 5))
    assert not _add(folder, 0, _raw(0, 5), _raw(0, 5))
    assert _add(folder, 1, _raw(5, 5))
    assert not _add(folder, 0, _raw(0, 5))
    assert _plainly(folder) == list(range(10))
    assert views.current(folder).batch == 1


def test_an_archive_may_be_moved_and_is_read_where_it_is(folder: Path, tmp_path: Path) -> None:
    _add(folder, 0, _raw(0, 5))
    moved = folder.rename(tmp_path / "elsewhere")
    assert _plainly(moved) == list(range(5))
    assert _offsets(moved) == {0: list(range(5))}


# ---- who is killed -------------------------------------------------------------------------------
class _KilledError(BaseException):
    """Ends a commit where no handler of ours can catch it."""


#: What a commit does to the folder; it may be killed before each of them.
_OF_A_PATH = ("mkdir", "hardlink_to", "write_text", "symlink_to", "unlink", "replace", "rename")
_STEPS = [(os, "fsync"), *((Path, name) for name in _OF_A_PATH), (shutil, "rmtree")]


def _killed_at(step: int, act: Callable[[], object]) -> bool:
    """Run something that ends before its n-th step; return whether it had so many."""
    left = step

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise _KilledError
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in _STEPS:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            act()
        except _KilledError:
            return True
    return False


def test_killed_at_any_step_of_a_commit(tmp_path: Path) -> None:
    was_before = was_after = 0
    for step in itertools.count():
        folder = tmp_path / str(step)
        begin(folder, "cluster", {STATE_TOPIC: [0, 7]}, CONFIG)
        _add(folder, 0, _raw(0, 5))
        place = f"records/source={STATE_TOPIC}/day={DAY}/000000000001"
        files = {f"{place}-{n:05d}.parquet": _file(folder, _raw(5 + 2 * n, 2)) for n in range(2)}
        killed = _killed_at(step, lambda: views.commit(folder, files, batch=1, day=DAY, keep=-1))  # noqa: B023
        seen = _plainly(folder)
        assert seen in (list(range(5)), list(range(9)))  # all of it or nothing
        assert _offsets(folder)[0] == seen
        was_before, was_after = was_before + (len(seen) == 5), was_after + (len(seen) == 9)
        # As the job does when it is started again: the same micro-batch, in other files.
        assert _add(folder, 1, _raw(5, 3), _raw(8, 1)) == (len(seen) == 5)
        assert _plainly(folder) == list(range(9))
        if not killed:
            break
    assert step > 10
    assert min(was_before, was_after) > 0


def test_killed_at_any_step_of_a_compaction(tmp_path: Path) -> None:
    for step in itertools.count():
        folder = tmp_path / str(step)
        begin(folder, "cluster", {STATE_TOPIC: [0, 7]}, CONFIG)
        for batch in range(3):
            _add(folder, batch, _raw(batch * 3, 3))
        killed = _killed_at(step, lambda: compact(folder))  # noqa: B023
        assert _plainly(folder) == list(range(9))
        assert _offsets(folder) == {0: list(range(9))}
        compact(folder)
        assert _offsets(folder) == {0: list(range(9))}
        assert len(views.current(folder).files("records")) == 1
        if not killed:
            break
    assert step > 10


# ---- who reads while others write ----------------------------------------------------------------
def test_a_reader_sees_every_record_once_while_files_are_added_and_merged(folder: Path) -> None:
    upto = [0]
    read = threading.Semaphore(0)

    def write() -> None:
        for batch in range(60):
            if batch % 8 == 7:  # however busy the machine is, the reader keeps up
                assert read.acquire(timeout=120)
            _add(folder, batch, _raw(batch * 5, 5), day=f"2026-11-{1 + batch // 20:02d}")
            upto[0] = batch * 5 + 5

    def merge() -> None:
        while not writing.done():
            compact(folder)

    _add(folder, 0, _raw(0, 5), day="2026-11-01")
    pool = ThreadPoolExecutor(2)
    writing = pool.submit(write)
    merging = pool.submit(merge)
    reads = 0
    while not writing.done():
        least = upto[0]
        seen = _offsets(folder)[0]
        assert seen == list(range(len(seen)))
        assert len(seen) >= least
        view = (folder / "data").resolve()
        plain = sorted(pq.read_table(view / "records").column("offset").to_pylist())
        assert plain == list(range(len(plain)))
        reads += 1
        read.release()
    writing.result()
    merging.result()
    assert reads > 5
    compact(folder)
    assert _offsets(folder) == {0: list(range(300))}
    assert len(views.current(folder).files("records")) == 3  # one a day


def test_large_files_are_left_alone(folder: Path) -> None:
    for batch in range(6):
        _add(folder, batch, _raw(batch * 500, 500))
    one = max(path.stat().st_size for path in views.current(folder).files("records"))
    assert compact(folder, target_bytes=one + 1) == 6
    files = views.current(folder).files("records")
    assert [pq.ParquetFile(path).metadata.num_rows for path in files] == [1000] * 3
    assert _offsets(folder) == {0: list(range(3000))}
    assert compact(folder, target_bytes=10) == 0
    assert not list((folder / ".staging" / "compact").glob("*"))


def test_damaged_files_are_not_merged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They stay as they are, and who follows goes on."""
    told = Counter[str]()
    for seed in range(60):
        folder = tmp_path / str(seed)
        begin(folder, "cluster", {STATE_TOPIC: [0, 7]}, CONFIG)
        for batch in range(3):
            _add(folder, batch, _raw(batch * 300, 300))
        before = views.current(folder).files("records")
        damaged = before[seed % 3]
        octets = damaged.read_bytes()
        damaged.unlink()  # its links in other views keep what they have
        damaged.write_bytes(octets)
        flip_in_a_page(damaged, Random(seed))
        caplog.clear()
        try:
            compact(folder)
        except InputError as error:
            refused = str(error)
            assert str(damaged) in refused, seed
            assert views.current(folder).files("records") == before
            job = object.__new__(_Job)
            job.folder, job.compact_every, job.commits = folder, 1, itertools.count(1)
            job._tidy()
            assert str(damaged) in caplog.text
            told["refused"] += 1
        else:
            assert _offsets(folder) == {0: list(range(900))}
            told["merged"] += 1
        assert not (folder / ".staging" / "compact").exists()
    assert min(told["refused"], told["merged"]) > 2, told


def test_files_with_other_columns_are_not_merged(folder: Path) -> None:
    _add(folder, 0, _raw(0, 5))
    _add(folder, 1, _raw(5, 5).drop_columns(["value"]))
    with pytest.raises(InputError, match=r"000000000001-00000\.parquet .* other columns than"):
        compact(folder)
    assert len(views.current(folder).files("records")) == 2


def test_views_that_were_replaced_go_after_a_while(folder: Path) -> None:
    _add(folder, 0, _raw(0, 5))
    reading = ArchiveInput(folder).batches(STATE_TOPIC)
    for batch in range(1, 4):
        _add(folder, batch, _raw(batch * 5, 5))
    assert len(list((folder / ".views").iterdir())) == 4
    assert next(reading).num_rows == 5
    views.commit(folder, {}, keep=-1)
    assert len(list((folder / ".views").iterdir())) == 1
    assert _plainly(folder) == list(range(20))


def test_a_timeout_says_who_was_too_slow(folder: Path) -> None:
    for batch in range(2):
        _add(folder, batch, _raw(batch * 5, 5))
    reading = ArchiveInput(folder).batches(STATE_TOPIC)
    next(reading)
    compact(folder)
    views.commit(folder, {}, keep=-1)
    with pytest.raises(InputError, match="read the archive again"):
        list(reading)


# ---- gaps and offsets of the past ----------------------------------------------------------------
def test_touching_gaps_are_one(folder: Path) -> None:
    assert ArchiveInput(folder).gaps().num_rows == 0
    found = [
        *(("a", 0, 5, 7, 3), ("a", 0, 0, 5, 4), ("a", 0, 8, 9, 5), ("a", 1, 9, 12, 6)),
        *(("b", 1, 12, 13, 7), ("a", 0, 7, 8, 2)),
    ]
    for number, (*place, seconds) in enumerate(found):
        row = dict(zip(GAP.names, (*place, BEGUN + timedelta(seconds=seconds)), strict=True))
        file = _file(folder, pa.Table.from_pylist([row], GAP))
        views.commit(folder, {f"gaps/{number:012d}.parquet": file}, batch=number)
    gaps = ArchiveInput(folder).gaps()
    assert gaps.schema == GAP
    rows = [tuple(row.values()) for row in gaps.to_pylist()]
    assert [row[:4] for row in rows] == [("a", 0, 0, 9), ("a", 1, 9, 12), ("b", 1, 12, 13)]
    assert rows[0][4] == BEGUN + timedelta(seconds=2)
    compact(folder)
    assert ArchiveInput(folder).gaps() == gaps


def _sample(
    folder: Path, seconds: float, ends: dict[tuple[str, int], int | None], log_start: int = 0
) -> None:
    moment = BEGUN + timedelta(seconds=seconds)
    same = {"log_start_offset": log_start, "leader_epoch": 1, "as_of": moment}
    rows = [
        {"topic": f"name-{topic}", "topic_id": topic, "partition": partition, "end_offset": end}
        | same
        for (topic, partition), end in ends.items()
    ]
    table = pa.Table.from_pylist(rows, schemas.OFFSETS)
    views.commit(folder, {f"offsets/day={DAY}/{int(seconds):020d}.parquet": _file(folder, table)})


def test_offsets_are_known_where_the_samples_around_agree(folder: Path) -> None:
    _sample(folder, 10, {("x", 0): 100, ("x", 1): 7, ("y", 0): 1})
    _sample(folder, 20, {("x", 0): 100, ("x", 1): None}, log_start=3)
    _sample(folder, 30, {("x", 0): 150, ("x", 1): 7}, log_start=3)
    ask = ArchiveInput(folder).past_offsets

    def ends(seconds: float) -> dict[tuple[str, int], tuple[int | None, int | None]]:
        moment = BEGUN + timedelta(seconds=seconds)
        table = ask(["x", "unheard"], [moment])
        assert table.schema == schemas.OFFSETS
        assert set(table.column("as_of").to_pylist()) == {moment}
        assert set(table.column("topic").to_pylist()) == {"name-x"}
        return {
            (r["topic_id"], r["partition"]): (r["log_start_offset"], r["end_offset"])
            for r in table.to_pylist()
        }

    unknown = (None, None)
    for seconds, first, second in (
        (9.999, unknown, unknown), (10, (0, 100), (0, 7)),
        # A leader that did not answer says nothing.
        (15, (None, 100), (None, 7)), (20, (3, 100), (None, 7)), (25, (3, None), (None, 7)),
        (30, (3, 150), (3, 7)), (31, unknown, unknown),
    ):  # fmt: skip
        assert ends(seconds) == {("x", 0): first, ("x", 1): second}
    both = ask(["x"], [BEGUN, BEGUN + timedelta(seconds=12), datetime(9999, 1, 1, tzinfo=UTC)])
    found = sorted((r["partition"], r["end_offset"] or 0) for r in both.to_pylist())
    assert found == [(0, 0), (0, 0), (0, 100), (1, 0), (1, 0), (1, 7)]
    assert ask([], [BEGUN]).num_rows == ask(["x"], []).num_rows == 0


def test_offsets_between_random_samples_are_those_that_were(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Days of samples, merged into one file, are more than is read at once.
    monkeypatch.setattr(parquet, "AT_ONCE", 7)
    monkeypatch.setattr(parquet, "TABLE_BYTES", 1000)
    random = Random("samples")
    ends = dict.fromkeys([("x", 0), ("x", 1), ("z", 0)], 0)
    seconds, truth = 0, []
    for _ in range(40):
        seconds += random.randint(1, 5)
        ends = {place: end + random.choice([0, 0, 3]) for place, end in ends.items()}
        truth.append((seconds, ends))
        _sample(folder, seconds, {**ends})
    compact(folder)
    moments = [random.uniform(-2, seconds + 2) for _ in range(60)]
    asked = [BEGUN + timedelta(seconds=moment) for moment in moments]
    table = ArchiveInput(folder).past_offsets(["x", "z"], asked)
    assert table.num_rows == 180
    newest = {(r["topic_id"], r["partition"]): r["end_offset"] for r in
              ArchiveInput(folder).offsets(["x", "z"]).to_pylist()}  # fmt: skip
    assert newest == ends
    for row in table.to_pylist():
        place, at = (row["topic_id"], row["partition"]), (row["as_of"] - BEGUN).total_seconds()
        before = [e[place] for s, e in truth if s <= at][-1:]
        after = [e[place] for s, e in truth if s >= at][:1]
        assert row["end_offset"] == (before[0] if before and before == after else None)


class Idle:
    """A query without records, which ends when the samples are over; see `ended`."""

    def __init__(self, job: _Job, samples: int) -> None:
        self.job, self.left = job, samples
        self.is_held: list[bool] = []

    def awaitTermination(self, _: float) -> bool:
        with views.hold_lock(self.job.folder / ".following", wait=0) as is_free:
            self.is_held.append(not is_free)
        self.job.sampled, self.left = -math.inf, self.left - 1
        return self.left < 0


def _follow_idle(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *clock: datetime,
    ids: Mapping[str, str] | None = None,
) -> list[bool]:
    """Sample at moments of a clock, the end offset each time one more; was the archive held?"""
    moments = iter(clock)
    ends = itertools.count(1)

    def list_offsets(*_: Any) -> pa.Table:
        as_of = next(moments)
        monkeypatch.setattr(time, "time_ns", lambda: int(as_of.timestamp() * 1e9))
        row = {"topic": "t", "topic_id": "i", "partition": 0, "end_offset": next(ends)}
        return pa.Table.from_pylist([row | {"as_of": as_of}], schemas.OFFSETS)

    monkeypatch.setattr(kafka, "list_offsets", list_offsets)
    monkeypatch.setattr(
        kafka, "topic_ids", lambda _, names=None: {"t": "i"} if names is None else ids or {}
    )
    with ExitStack() as held:
        held.enter_context(views.hold_lock(folder / ".following"))
        job = _Job(CONFIG, folder, ArchiveInput(folder).info(), 100)
        query = Idle(job, len(clock))
        job.attend(query, 10, held.pop_all())  # type: ignore[arg-type]
    return query.is_held


def test_the_newest_sample_is_the_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back = BEGUN - timedelta(hours=1)
    _follow_idle(folder, monkeypatch, BEGUN, back)
    _follow_idle(folder, monkeypatch, back + timedelta(seconds=10))  # another process goes on
    for _ in range(2):
        (row,) = ArchiveInput(folder).offsets(["i"]).to_pylist()
        assert (row["end_offset"], row["as_of"]) == (1, back + timedelta(seconds=10))
        compact(folder)


def test_the_newest_sample_is_read_without_the_rest_of_its_day(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds in range(40):
        _sample(folder, seconds, {("x", number): seconds for number in range(5)})
    compact(folder)
    (path,) = views.current(folder).files("offsets")
    pq.write_table(pq.read_table(path), path, row_group_size=3)  # the last five are in two of them
    read, within = list[int](), parquet.batches_within

    def count(*given: Any) -> Iterator[pa.RecordBatch]:
        for batch in within(*given):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr("sharelag.inputs.files.archive.batches_within", count)
    newest = ArchiveInput(folder).offsets(["x"])
    assert newest["partition"].to_pylist() == [*range(5)]
    assert set(newest["end_offset"].to_pylist()) == {39}
    assert set(newest["as_of"].to_pylist()) == {BEGUN + timedelta(seconds=39)}
    assert sum(read) < 10


@pytest.mark.parametrize(
    ("ids", "said"),
    [({}, "is gone"), ({STATE_TOPIC: "new"}, "was deleted and created again")],
)
def test_ends_of_another_cluster_are_no_sample(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ids: Mapping[str, str],
    said: str,
) -> None:
    """Its brokers have the address now, and no record has come to the followed topics."""
    begin(folder := tmp_path / "archive", "cluster", {STATE_TOPIC: [0]}, CONFIG, {STATE_TOPIC: "a"})
    _follow_idle(folder, monkeypatch, BEGUN, ids={STATE_TOPIC: "a"})
    before = ArchiveInput(folder).as_of()
    _follow_idle(folder, monkeypatch, BEGUN + timedelta(seconds=10), ids=ids)
    assert f"{STATE_TOPIC} {said} since the archive" in caplog.text
    assert ArchiveInput(folder).as_of() == before == BEGUN


def test_following_goes_on_and_holds_its_archive_where_a_disk_is_full_for_a_while(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def write(path: Path, *given: Any) -> None:
        if not caplog.records:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_parquet(path, *given)

    monkeypatch.setattr("sharelag.inputs.spark.follow.write_parquet", write)
    assert _follow_idle(folder, monkeypatch, BEGUN, BEGUN + timedelta(seconds=10)) == [True] * 3
    assert "could not sample end offsets: [Errno 28] No space left on device" in caplog.text
    (row,) = ArchiveInput(folder).offsets(["i"]).to_pylist()
    assert row["end_offset"] == 2
    with views.hold_lock(folder / ".following", wait=0) as is_free:
        assert is_free


def test_offsets_as_every_input_gives_them(folder: Path) -> None:
    source = ArchiveInput(folder)
    assert source.offsets(["x"]).num_rows == 0
    assert source.as_of() is None
    assert source.describe() == "archive of cluster (still empty)"
    (why,) = open_workbench(source, engine="local").lag().notes
    assert why.startswith("no share group has state")
    assert why.endswith("or capture --follow has not archived it yet")
    _sample(folder, 10, {("x", 0): 100, ("gone", 0): 5})
    _sample(folder, 20, {("x", 0): 120})
    assert source.offsets(["x", "gone"]).to_pylist()[0]["end_offset"] == 120
    assert source.offsets(["gone"]).num_rows == 0  # the topic is not there any more
    late, between = BEGUN + timedelta(seconds=99), BEGUN + timedelta(seconds=15)
    assert source.offsets(["x"], late) == source.offsets(["x"])
    for moment in (between, {0: 7}):
        (row,) = source.offsets(["x"], moment).to_pylist()
        assert (row["topic"], row["end_offset"], row["as_of"]) == ("name-x", None, None)
    (row,) = source.offsets(["x"], BEGUN + timedelta(seconds=10)).to_pylist()
    assert (row["end_offset"], row["as_of"]) == (100, BEGUN + timedelta(seconds=10))
    assert source.describe() == "archive of cluster up to 2026-11-21T00:00:20Z"


# ---- what is no archive --------------------------------------------------------------------------
def test_what_an_archive_says_about_itself(folder: Path) -> None:
    about = json.loads((folder / "capture.json").read_text())
    assert (about["format"], about["kind"], about["cluster_id"]) == (1, "archive", "cluster")
    assert about["topics"] == {STATE_TOPIC: {"partitions": 2, "first_offsets": [0, 7]}}
    assert "hunter2" not in json.dumps(about)
    assert is_archive(folder)
    assert not is_archive(folder / "gone")
    # It can be continued, and begins where it did.
    again = begin(folder, "cluster", {STATE_TOPIC: [5, 9, 3]}, CONFIG)
    assert again.topics == {STATE_TOPIC: [0, 7]}


def _become_a_file(folder: Path) -> None:
    folder.rmdir()
    folder.write_text("")


_UNDESCRIBED = "does not describe an archive"
#: What is at a place, and why no archive can be continued there; tests with brokers have others.
REFUSALS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file": (_become_a_file, "is not an archive and not empty"),
    "a capture": (lambda f: _about(f, format=1, cluster_id="cluster"), "is a capture"),
    "another format": (lambda f: _about(f, format=2, kind="archive"), "archive format 2"),
    "no topics": (lambda f: _about(f, format=1, kind="archive"), _UNDESCRIBED),
    "no JSON": (lambda f: (f / "capture.json").write_text("{"), _UNDESCRIBED),
}


def _about(folder: Path, **about: object) -> None:
    (folder / "capture.json").write_text(json.dumps(about))


@pytest.mark.parametrize(("prepare", "words"), REFUSALS.values(), ids=REFUSALS)
def test_no_continuation(tmp_path: Path, prepare: Callable[[Path], object], words: str) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    prepare(folder)
    with pytest.raises(InputError, match=words) as refused:
        begin(folder, "cluster", {STATE_TOPIC: [0, 7]}, CONFIG)
    assert str(folder) in str(refused.value)


def test_no_archive_to_read(tmp_path: Path) -> None:
    for ask in (
        lambda a: list(a.batches(STATE_TOPIC)),
        ArchiveInput.gaps,
        ArchiveInput.size,
        lambda a: a.offsets([]),
    ):
        with pytest.raises(InputError, match="no archive at"):
            ask(ArchiveInput(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="no archive at"):
        compact(tmp_path / "nowhere")


def test_a_damaged_file_is_an_error(folder: Path) -> None:
    _add(folder, 0, _raw(0, 5))
    views.current(folder).files("records")[0].write_bytes(b"no parquet")
    with pytest.raises(InputError, match="is not a Parquet file"):
        ArchiveInput(folder).size()
