"""Sweep: many runs as one Spark job, on a laptop or a cluster; finished runs are kept.

    tried = sharelag.whatif.variants(scenario, members=range(2, 65))
    runs = sharelag.sweep(tried, range(100), out="sweeps/members")
    sharelag.whatif.compared(runs)

A run is the same wherever it is computed: same seed, same bytes, in any Spark layout. ``out`` has a
file for each run in ``runs``, written by the process that computed it, and all runs of the last
completed sweep in ``sweep.parquet``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from sharelag.errors import InputError
from sharelag.inputs.files import parquet
from sharelag.inputs.files.raw_files import absolute
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.whatif.assignors.registry import ASSIGNORS, Assignor, register
from sharelag.whatif.compare import Progress
from sharelag.whatif.comparison.tables import MADE
from sharelag.whatif.grid import PlannedRun, as_runs, grid, is_ours, run
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.scenario_json import from_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sweep"]

#: Tasks per core: small ones end at the same time, and show progress.
_TASKS_A_CORE = 32
_MOST_CORES = 10_000
#: Seconds between updates of the progress.
_EVERY = 0.5


def sweep(
    variants: Mapping[str, Scenario],
    seeds: Iterable[int] = range(20),
    *,
    spark: SparkSession | None = None,
    out: str | Path | None = None,
    optimal: bool = False,
    partitions: int | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Simulate every variant with every seed on Spark.

    Parameters
    ----------
    variants : mapping of str to Scenario
        As from `sharelag.whatif.variants`.
    seeds : iterable of int
    spark : pyspark.sql.SparkSession, optional
        By default the active session, or one for this machine.
    out : str or Path, optional
        A folder that all workers can write to, or its address (``s3://...``). Each finished run is
        stored there, and stored runs are not computed again unless they failed.
    optimal : bool
        Also run each scenario with the assignor ``optimal``, and measure the distance to it.
    partitions : int, optional
        Tasks of the Spark job. Default: many small ones.
    progress : callable, optional
        Called with ``(done, all)``, the numbers of runs.

    Returns
    -------
    pyarrow.Table
        `sharelag.whatif.comparison.tables.RUNS`, variant by variant; with `OVER_OPTIMAL` where
        chosen. A run that fails is a row with its ``error``.

    Raises
    ------
    InputError
        There is nothing to run, or ``out`` cannot be used.
    """
    plan = grid(variants, seeds, optimal=optimal)
    folder = None if out is None else _make_folder(out)
    ids = {planned.id for planned in plan.runs}
    found = () if folder is None else load_runs(folder, ids)
    made = {row["run"]: row for row in found if row["error"] is None}
    todo = [planned for planned in plan.runs if planned.id not in made]
    if todo:
        frame = _frame(spark, todo, folder, partitions)
        rows = _collect(frame, len(made), len(plan.runs), progress).to_pylist()
        fresh = {row["run"]: row for row in rows}
        if folder is not None:  # stored runs are authoritative: a next sweep would return them
            kept = {row["run"]: row for row in load_runs(folder, fresh.keys())}
            if missing := fresh.keys() - kept.keys():
                raise InputError(
                    f"{len(missing)} of the finished runs are not in {folder!r}: "
                    "give a folder that all workers share"
                )
            fresh = kept
        made |= fresh
    elif progress is not None:
        progress(len(plan.runs), len(plan.runs))
    runs = as_runs(plan, made.values())
    if folder is not None:
        _write(folder, _ALL, runs)
    return runs


def _frame(
    spark: SparkSession | None,
    todo: Sequence[PlannedRun],
    folder: str | None,
    partitions: int | None,
) -> DataFrame:
    from sharelag.inputs.spark import session

    spark = session("sharelag-sweep") if spark is None else spark
    # Each scenario is sent once, however many seeds it has; hashing one takes long.
    scenarios = {id(one.scenario): one.scenario for one in todo}
    number = {of: index for index, of in enumerate(scenarios)}
    texts = [to_json(scenario) for scenario in scenarios.values()]
    runs = [(planned.id, number[id(planned.scenario)], planned.seed) for planned in todo]
    assignors = {scenario.assignor for scenario in scenarios.values()}
    own = {name: ASSIGNORS[name] for name in assignors if not is_ours(name)}
    parts = min(len(runs), _cores(spark) * _TASKS_A_CORE) if partitions is None else partitions
    frame = spark.range(0, len(runs), 1, max(parts, 1))
    return map_in_arrow(frame, _task(runs, texts, own, folder), MADE)


def _cores(spark: SparkSession) -> int:
    """Return Spark's default number of partitions, which Spark Connect can report, too."""
    from pyspark.sql import functions as F  # noqa: N812

    numbers = spark.range(_MOST_CORES).select(F.spark_partition_id().alias("partition")).toArrow()
    return len(numbers.column("partition").unique())


def _task(
    runs: Sequence[tuple[str, int, int]],
    texts: Sequence[str],
    own: Mapping[str, Assignor],
    folder: str | None,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for name, function in own.items():  # workers do not have this process's registrations
            register(name, function)
        for batch in batches:
            for index in batch.column("id").to_pylist():
                id_, number, seed = runs[index]
                row = _attempt(id_, texts[number], seed)
                if folder is not None:
                    kept = pa.Table.from_pylist([row], schema=MADE)
                    _write(folder, f"{_RUNS}/{id_}{_END}", kept)
                yield pa.RecordBatch.from_pylist([row], schema=MADE)

    return task


def _attempt(id_: str, text: str, seed: int) -> dict[str, Any]:
    try:
        return run(PlannedRun(id_, _read(text), seed))
    # One bad run must not stop the others; its row has the error.
    except Exception as error:
        return {"run": id_, "seed": seed, "error": f"{type(error).__name__}: {error}"}


@lru_cache
def _read(text: str) -> Scenario:
    return from_json(text)


def _collect(frame: DataFrame, made: int, runs: int, progress: Progress | None) -> pa.Table:
    """Return the rows, and report progress from Spark's status tracker meanwhile."""
    if progress is None:
        return frame.toArrow()
    from sharelag.inputs.spark.sessions import Own

    own = Own(frame.sparkSession, f"sharelag: {runs - made} simulations")

    def collect() -> pa.Table:
        with own.counting():
            return frame.toArrow()

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(collect)
        try:
            while not work.done():
                done, tasks = own.count()
                progress(made + ((runs - made) * done // tasks if tasks else 0), runs)
                wait([work], timeout=_EVERY)
        except BaseException:  # also an interrupt, after which Spark would continue
            while not work.done():  # repeatedly, as the job may not have started yet
                own.stop()
                wait([work], timeout=_EVERY)
            raise
    progress(runs, runs)
    return work.result()


# ---- stored runs ---------------------------------------------------------------------------------

_RUNS, _ALL, _END = "runs", "sweep.parquet", ".parquet"


def _make_folder(out: str | Path) -> str:
    """Return the folder's address (``s3://...`` is one already), valid in every process."""
    name = absolute(out)
    with _open(name) as (system, base):
        system.create_dir(f"{base}/{_RUNS}", recursive=True)
    return name


def load_runs(out: str, ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """Load the stored runs; broken files and those with other columns are ignored."""
    with _open(out) as (system, base):
        found = system.get_file_info(fs.FileSelector(f"{base}/{_RUNS}"))
    for info in found:
        if info.base_name.removesuffix(_END) not in ids:
            continue
        try:
            with system.open_input_file(info.path) as file:
                table = parquet.open_parquet(file).read()
        except (pa.ArrowInvalid, OSError):
            continue
        if table.schema.equals(MADE) and table.num_rows == 1:
            yield from table.to_pylist()


def _write(out: str, name: str, table: pa.Table) -> None:
    """Write to a temporary name first, so that no partial file remains and writers do not mix."""
    with _open(out) as (system, base):
        path = f"{base}/{name}"
        aside = f"{path.rpartition('/')[0]}/.{uuid4().hex}"
        with system.open_output_stream(aside) as file:
            parquet.write_table(table, file)
        system.move(aside, path)


@contextmanager
def _open(out: str) -> Iterator[tuple[fs.FileSystem, str]]:
    try:
        system, base = fs.FileSystem.from_uri(out)
        yield system, base.rstrip("/")
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"runs cannot be stored in {out!r} ({error}): give a writable folder, or its address"
        ) from error
