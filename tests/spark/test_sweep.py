"""A sweep gives what `simulate` gives, on any layout, whatever fails or interrupts it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from sharelag import sweep
from sharelag.cli.simulate import simulate
from sharelag.errors import InputError
from sharelag.inputs.spark import is_connect
from sharelag.whatif import (
    ASSIGNORS,
    Member,
    Producer,
    Scenario,
    Service,
    compare,
    named,
    register,
    tune,
    variants,
)
from sharelag.whatif.comparison.tables import OVER_OPTIMAL, RUNS
from sharelag.whatif.compiled import support

_MEMBER = Member(service=Service(5, "exponential"), max_poll_records=50)
QUICK = replace(named("idle-members"), members=(_MEMBER,), duration_ms=8_000)
TRIED = variants(QUICK, assignors=["simple", "sticky"], members=[2, 5])


@pytest.fixture(autouse=True)
def own_assignors() -> Iterator[None]:
    """Those that a test registers are gone after it."""
    before = dict(ASSIGNORS)
    yield
    for name in ASSIGNORS.keys() - before.keys():
        del ASSIGNORS[name]


def as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def kept(out: Path) -> dict[str, int]:
    """The runs in a folder, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "runs").glob("*.parquet")}


def test_every_layout_gives_the_same_bytes_as_this_process(spark: SparkSession) -> None:
    expected = compare(TRIED, seeds=range(3)).runs
    assert expected.num_rows == 12
    assert len(set(expected.column("lag_end").to_pylist())) > 2
    for partitions in (1, 3, 8):
        received = sweep(TRIED, range(3), spark=spark, partitions=partitions)
        assert received.schema.equals(RUNS)
        assert as_bytes(received) == as_bytes(expected), partitions


def test_workers_use_compiled_kernels_for_many_records(spark: SparkSession, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tests.support.compiled", "simulations"], check=True)

    def noting(group: Any) -> dict[str, dict[str, list[int]]]:
        form = "compiled" if support._is_loaded else "plain"
        (tmp_path / form).touch()
        return {group.members[0].id: {"orders": [0, 1, 2, 3]}}

    register("noting", noting)
    busy = replace(QUICK.with_members(1), producers=(Producer("orders", 5_000),), assignor="noting")
    runs = sweep({"busy": busy}, range(1), spark=spark)
    assert runs.column("error").to_pylist() == [None]
    assert [path.name for path in tmp_path.iterdir()] == ["compiled"]


def test_what_is_done_is_not_done_again(spark: SparkSession, tmp_path: Path) -> None:
    first = sweep(TRIED, range(2), spark=spark, out=tmp_path)
    before = kept(tmp_path)
    assert len(before) == 8
    renamed = {f"{name}!": scenario for name, scenario in TRIED.items()}
    received: list[tuple[int, int]] = []
    # Nothing is left for Spark; another name of a variant is no other run.
    again = sweep(renamed, range(2), out=tmp_path, progress=lambda *counts: received.append(counts))
    assert received == [(8, 8)]
    assert again.drop_columns("variant").equals(first.drop_columns("variant"))
    assert kept(tmp_path) == before
    more = sweep(TRIED, range(3), spark=spark, out=tmp_path)
    assert (more.num_rows, {name: kept(tmp_path)[name] for name in before}) == (12, before)


@pytest.mark.parametrize("damage", [b"", b"PAR1", None])
def test_unreadable_is_made_anew(spark: SparkSession, tmp_path: Path, damage: bytes | None) -> None:
    first = sweep({"a": QUICK}, range(2), spark=spark, out=tmp_path)
    broken = tmp_path / "runs" / next(iter(kept(tmp_path)))
    whole = broken.read_bytes()
    if damage is None:  # of an older version, with other columns
        pq.write_table(pq.read_table(broken).drop_columns("fairness"), broken)
    else:
        broken.write_bytes(damage)
    assert as_bytes(sweep({"a": QUICK}, range(2), spark=spark, out=tmp_path)) == as_bytes(first)
    assert broken.read_bytes() == whole


def test_a_run_that_fails_is_a_row_with_its_error(spark: SparkSession, tmp_path: Path) -> None:
    flag = tmp_path / "mended"

    def moody(group: Any) -> dict[str, Any]:
        if not flag.exists() and len(group.members) > 1:
            raise ZeroDivisionError("too many <members>")
        return {group.members[0].id: {"orders": [0, 1, 2, 3]}}

    register("moody", moody)  # defined here: the workers know it only if it is sent to them
    scenarios: dict[str, Scenario] = {"alone": replace(QUICK.with_members(1), assignor="moody")}
    scenarios |= {"two": replace(QUICK.with_members(2), assignor="moody"), "simple": QUICK}
    scenarios |= {"unknown": replace(QUICK, assignor="nobody")}
    received = sweep(scenarios, range(2), spark=spark, out=tmp_path / "out").to_pylist()
    found = [(row["variant"], row["seed"]) for row in received]
    assert found == [(name, seed) for name in scenarios for seed in (0, 1)]
    errors = [row["error"] for row in received]
    assert [one is None for one in errors[:6]] == [True, True, False, False, True, True]
    assert errors[2] == errors[3]
    assert errors[2].startswith("AssignorError: the assignor 'moody' failed at ")
    assert errors[2].endswith(": ZeroDivisionError: too many <members>")
    assert errors[6].startswith("InputError: unknown assignor 'nobody'")
    assert [row["lag_end"] is None for row in received] == [error is not None for error in errors]
    before = kept(tmp_path / "out")
    flag.touch()
    again = sweep(scenarios, range(2), spark=spark, out=tmp_path / "out").to_pylist()
    assert [row["error"] is None for row in again] == [True] * 6 + [False] * 2
    assert sum(before[name] != written for name, written in kept(tmp_path / "out").items()) == 4


def test_progress_and_distances_to_optimal(spark: SparkSession) -> None:
    received: list[tuple[int, int]] = []
    runs = sweep(
        {"a": QUICK},
        range(3),
        spark=spark,
        optimal=True,
        progress=lambda *counts: received.append(counts),
    )
    assert {all_ for _, all_ in received} == {6}
    done = [count for count, _ in received]
    assert (done, done[-1]) == (sorted(done), 6)
    assert as_bytes(runs) == as_bytes(compare({"a": QUICK}, seeds=range(3), optimal=True).runs)
    assert runs.schema.equals(pa.schema([*RUNS, *OVER_OPTIMAL]))
    assert runs.column("age_p95_over_optimal").null_count == 0


def test_an_interrupt_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """A watcher may stop a sweep: Spark stops as well, and runs that are kept count."""
    received: list[int] = []

    def interrupt(done: int, runs: int) -> None:
        received.append(done)
        if kept(tmp_path):
            raise KeyboardInterrupt

    ask = partial(sweep, {"a": QUICK}, range(500), spark=spark, out=tmp_path, partitions=500)
    with pytest.raises(KeyboardInterrupt):
        ask(progress=interrupt)
    assert len(kept(tmp_path)) < 500
    # Spark is free for others; the tasks that were running then have ended meanwhile.
    assert sweep({"a": QUICK}, range(2), spark=spark).num_rows == 2
    made = len(kept(tmp_path))
    assert 0 < made < 500
    assert (sweep({"a": QUICK}, range(2), spark=spark).num_rows, len(kept(tmp_path))) == (2, made)
    before = kept(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        ask(progress=interrupt)
    assert received[-1] == made
    assert before.items() <= kept(tmp_path).items()
    if not is_connect(spark):
        # What the tracker knows arrives by a queue of events.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []


def test_what_cannot_be_swept_is_said(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"runs cannot be stored in .*: give a writable folder"):
        sweep({"a": QUICK}, [0], spark=spark, out=tmp_path / "file")
    with pytest.raises(InputError, match="runs cannot be stored in 'odd://x'"):
        sweep({"a": QUICK}, [0], spark=spark, out="odd://x")
    with pytest.raises(InputError, match="nothing to run"):
        sweep({}, [0], spark=spark)
    monkeypatch.setattr("sharelag.engine.spark.sweep.load_runs", lambda *_: iter(()))
    with pytest.raises(
        InputError,
        match=r"1 of the finished runs are not in .*: give a folder that all workers share",
    ):
        sweep({"a": QUICK}, [0], spark=spark, out=tmp_path / "elsewhere")


def test_the_command_line_sweeps_and_compares(spark: SparkSession, tmp_path: Path) -> None:
    tried = ["--scenario", "idle-members", "--duration", "8s", "--members", "2,6", "--seeds", "3"]
    given = [*tried, "--sweep", str(tmp_path)]
    answer = CliRunner().invoke(simulate, [*given, "-o", "json"])
    assert answer.exit_code == 0, answer.output
    assert [json.loads(line)["seed"] for line in answer.stdout.splitlines()] == [0, 1, 2] * 2
    before = kept(tmp_path)
    assert len(before) == 6
    received = CliRunner().invoke(simulate, [*given, "--compare", "-o", "json"])
    here = CliRunner().invoke(simulate, [*tried, "--compare", "-o", "json"])
    assert received.stdout == here.stdout
    assert len(received.stdout.splitlines()) > 40
    assert kept(tmp_path) == before


def test_settings_are_tuned_by_jobs_as_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    """Each generation is one job; what a search before it made is not made again."""
    stays = {
        "share.record.lock.duration.ms": 30_000,
        "share.partition.max.record.locks": 2000,
        "share.delivery.count.limit": 5,
        "share.acquire.mode": "batch_optimized",
        "renew": False,
        "max.poll.records": 50,
    }
    ranges = {**stays, "members": (1, 4)}
    given: dict[str, Any] = {"ranges": ranges, "trials": 5, "seeds": 2, "margins": False}
    here = tune(QUICK, ["lag_end<18000"], **given)
    there = tune(QUICK, ["lag_end<18000"], runs=partial(sweep, spark=spark, out=tmp_path), **given)
    assert there.settings.equals(here.settings)
    assert there.front.equals(here.front)
    made = kept(tmp_path)
    tune(QUICK, ["lag_end<18000"], runs=partial(sweep, spark=spark, out=tmp_path), **given)
    assert kept(tmp_path) == made
