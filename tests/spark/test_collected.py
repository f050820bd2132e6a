"""Answers on Spark bring a row a share partition to this process, however many records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag.inputs import CaptureInput
from sharelag.inputs.spark.frames import FrameInput
from sharelag.monitoring.checks.judge import check_reading
from sharelag.monitoring.checks.rules import read_rules
from sharelag.monitoring.lake import append_run, write_run
from sharelag.reports import cells
from sharelag.reports.case import Case
from tests.support.synthetic import capture_of

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
