"""Ten thousand share partitions, fifty million records; answers bring few rows to this process."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import sharelag
from sharelag import schemas
from sharelag.inputs import CaptureInput
from sharelag.inputs.spark.frames import FrameInput
from sharelag.monitoring.checks.judge import check_reading
from sharelag.monitoring.checks.rules import read_rules
from sharelag.monitoring.lake import append_run, write_run
from sharelag.reports import cells
from sharelag.reports.case import Case
from sharelag.wire import STATE_TOPIC
from tests.support.command import sharelag_process
from tests.support.reliability import Inject
from tests.support.stopwatch import timed
from tests.support.synthetic import BEGIN, LASTS, STEP, UNREAD, archive_of, capture_of

GROUPS, PARTITIONS, UPDATES = 200, 50, 500
DAYS, A_DAY = 50, 1_000_000
_SPARK = "--master local[2] --driver-memory 4g pyspark-shell"
OVER = timedelta(seconds=200)
RULES = """
version: 1
rules:
  - {name: lag, measure: lag, warn: 50, critical: 500, for: 1m}
  - {name: age, measure: age, warn: 1m, critical: 10m}
  - {name: drain, measure: drain, warn: 10m, for: 1m}
  - {name: causes, measure: cause, causes: [window_full], critical: 1}
  - {name: topic, measure: state_topic, warn: 1}
"""


def printed(capture: Path, engine: str) -> tuple[str, float]:
    """Return what the lag command prints in a process with a driver of its own, and the seconds."""
    asked = ("lag", "--capture", str(capture), "--engine", engine, "-o", "json")
    done, seconds = timed(lambda: sharelag_process(*asked, env={"PYSPARK_SUBMIT_ARGS": _SPARK}))
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, seconds


@pytest.mark.exhaustive
def test_10000_share_partitions_of_500_updates(tmp_path: Path, injected: Inject) -> None:
    source = capture_of(tmp_path / "capture", GROUPS, PARTITIONS, UPDATES)
    assert source.size() == GROUPS * PARTITIONS * UPDATES
    on_spark, seconds = printed(tmp_path / "capture", "spark")
    here, _ = printed(tmp_path / "capture", "local")
    rows = [json.loads(line) for line in on_spark.splitlines()]
    assert len(rows) == GROUPS * PARTITIONS
    # Of each window's seven offsets three are acknowledged.
    wrong = sum(row["lag"] != UNREAD + 7 - 3 for row in rows)
    both = zip(on_spark.splitlines(), here.splitlines(), strict=True)
    wrong += sum(ours != theirs for ours, theirs in both)
    injected(
        "load",
        f"{GROUPS * PARTITIONS:,} share partitions with {UPDATES} updates each, on local[2] with "
        "a driver of 4 GB",
        1,
        {"records": source.size(), "share partitions": len(rows)},
        wrong=wrong,
        measured={"seconds on Spark": round(seconds)},
    )
    assert (on_spark, wrong) == (here, 0)


@pytest.mark.exhaustive
def test_a_minute_of_an_archive_of_50_million_records_reads_its_day(
    spark: SparkSession, tmp_path: Path, injected: Inject, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its days are folders: who asks for a time opens the files of its days."""
    source = archive_of(tmp_path / "archive", 40, PARTITIONS, DAYS, UPDATES)
    assert source.size() == DAYS * A_DAY
    whole = spark.read.parquet(str(tmp_path / "archive" / "data" / "records"))
    since = BEGIN + timedelta(days=37, seconds=60)
    minute = whole.where(sf.col("source") == STATE_TOPIC).where(
        sf.col("day").between(f"{since:%Y-%m-%d}", f"{since:%Y-%m-%d}")
        & (sf.col("timestamp") >= since)
        & (sf.col("timestamp") < since + timedelta(minutes=1))
    )
    minute.explain("formatted")
    (filters,) = re.findall(r"PartitionFilters: \[(.*?)\]", capsys.readouterr().out)
    assert "day" in filters
    read = {row[0] for row in minute.select(sf.input_file_name()).distinct().collect()}
    assert len(read) == 1
    assert f"day={since:%Y-%m-%d}" in read.pop()
    records = sharelag.decode(minute.select(schemas.RAW.names)).records
    sums = sf.count("*").alias("count"), sf.min("start_offset").alias("first")
    rows, seconds = timed(lambda: records.groupBy("group_id").agg(*sums).collect())
    counts = {row["group_id"]: (row["count"], row["first"]) for row in rows}
    of_a_group = round(A_DAY / 40 * 60 / LASTS.total_seconds())
    first = STEP * (37 * UPDATES + round(UPDATES * 60 / LASTS.total_seconds()))
    known = dict.fromkeys((f"group-{n:05d}" for n in range(40)), (of_a_group, first))
    wrong = len(counts.items() ^ known.items())
    measured = {"seconds for the query": round(seconds, 1)}
    injected(
        "load",
        "a minute of an archive of fifty days",
        1,
        {
            "records in the archive": source.size(),
            "files read": 1,
            "records of the minute, decoded": sum(count for count, _ in counts.values()),
        },
        wrong=wrong,
        measured=measured,
    )
    assert counts == known


@dataclass
class Counted:
    """How many bytes of DataFrames reached this process, and by how many calls."""

    bytes: int = 0
    calls: int = 0


@contextmanager
def counting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    kind, counted = type(spark.range(1)), Counted()
    with monkeypatch.context() as patch:
        for name in ("toArrow", "collect", "toPandas", "toLocalIterator"):
            patch.setattr(kind, name, _counted(getattr(kind, name), name, counted))
        # In this process nothing is decoded or replayed: whoever did would read the records here.
        for source in (CaptureInput, FrameInput):
            patch.setattr(source, "batches", _never)
        yield counted


def _counted(original: Any, name: str, counted: Counted) -> Any:
    def collecting(frame: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(frame, *args, **kwargs)
        assert name == "toArrow", f"{name} gives rows one by one"
        counted.calls += 1
        # nbytes of an empty table of lists crashes, where its offsets have no buffer.
        counted.bytes += found.get_total_buffer_size()
        return found

    return collecting


def _never(*_: Any) -> Any:
    raise AssertionError("an answer of the Spark engine read the records in this process")


def questions(bench: Any, folder: Path) -> None:
    group, at = bench.groups[0], bench.evidence().as_of - timedelta(seconds=30)
    assert (len(bench.lag()), len(bench.lag(by="topic")), len(bench.lag(by="group"))) == (12, 3, 3)
    assert len(bench.history()) == 500
    for result in (
        *(bench.windows(), bench.timeline(every=10.0), bench.diff(at), bench.progress()),
        *(bench.imbalance(), bench.health(), bench.reconcile(), bench.moments(group, most=20)),
    ):
        assert len(result)
    assert bench.skew().num_rows == 3
    bench.explain()
    bench.members()


def report(bench: Any, folder: Path) -> None:
    case = Case(bench, bench.evidence())
    outcome = cells.verdict(case)
    of_verdict = (cells.headline, cells.changes, cells.groups, cells.causes, cells.unknown)
    for words in of_verdict:
        words(outcome)
    figures: tuple[Callable[[Case], object], ...] = (
        *(cells.lag_over_time, cells.parts, cells.drain, cells.progress),
        *(cells.windows, cells.headroom, cells.rates, cells.rates_over_time),
        *(cells.spans, cells.lorenz, cells.assignments, cells.reclaimable),
        *(cells.cause_spans, cells.signs, cells.moved, cells.window_heat, cells.deliveries),
    )
    for figure in figures:
        figure(case)
    cells.archived(case, 60)
    cells.keeping_up(case, outcome)


def check(bench: Any, folder: Path) -> None:
    rules = folder / "rules.yaml"
    rules.write_text(RULES)
    checked = check_reading(bench.reading, read_rules(rules))
    judged = set(checked.table.column("rule").to_pylist())
    assert judged == {"lag", "age", "drain", "causes", "topic"}


def exports(bench: Any, folder: Path) -> None:
    assert write_run(bench.reading, folder / "runs").is_dir()
    assert append_run(bench.reading, folder / "lake")


def own_frames(bench: Any, folder: Path) -> None:
    own = _of_frames(bench)
    assert len(own.lag()) == 12
    for result in (own.windows(), own.history(), own.timeline(every=10.0)):
        assert len(result)


def all_of_own_frames(bench: Any, folder: Path) -> None:
    questions(_of_frames(bench), folder)


def _of_frames(bench: Any) -> Any:
    raw = bench.frames.raw
    ends = raw.sparkSession.read.parquet(str(Path(bench.source.folder) / "offsets.parquet"))
    return sharelag.open(raw=raw, offsets=ends, over=OVER)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "asked",
    [[exports, questions, own_frames], [report], [check], [all_of_own_frames]],
    ids=lambda asked: " ".join(ask.__name__ for ask in asked),
)
def test_what_is_collected_does_not_grow_with_the_records(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: list[Callable[[Any, Path], None]],
) -> None:
    """Eight times the records of as many share partitions: the same queries, bytes and calls."""
    monkeypatch.setattr("sharelag.workbench.questions.timeline.MOST_ROWS", 500)
    costs = map(partial(_costs, spark, monkeypatch, tmp_path, asked), (60, 480))
    for ask, few, many in zip(asked, *costs, strict=True):
        assert few.calls <= many.calls <= few.calls + 2, ask.__name__
        assert many.bytes < 1.5 * few.bytes, ask.__name__


def _costs(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    asked: list[Callable[[Any, Path], None]],
    records: int,
) -> list[Counted]:
    """What each collects of one workbench, beside what those before it have collected."""
    mine = folder / str(records)
    source = capture_of(mine / "capture", groups=3, partitions=4, per_partition=records)
    assert source.size() == 12 * records
    bench = sharelag.open(source, spark=spark, over=OVER)
    costs = []
    for ask in asked:
        with counting(spark, monkeypatch) as counted:
            ask(bench, mine)
        costs.append(counted)
    return costs
