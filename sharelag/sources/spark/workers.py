"""Functions over Arrow in Spark's tasks, which say what to set where workers run another Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task: TypeAlias = Callable[..., Iterator[pa.RecordBatch]]

#: How many modules had been imported when they were last set aside.
_MODULES = 0
#: Carries what is sent to each task beside its rows.
_BESIDE = "_sharelag_beside"
#: Within a task, Spark counts rows in these bits of its increasing ids.
_ROW_BITS = (1 << 33) - 1


def map_in_arrow(
    frame: DataFrame, task: Task, schema: pa.Schema, beside: DataFrame | None = None
) -> DataFrame:
    """Apply a function to the rows of each task, as Spark's ``mapInArrow`` does.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    task : callable
        Takes and gives batches; what it gives has the types of Spark
        (`sharelag.schemas.arrow.for_spark`).
    schema : pyarrow.Schema
        Of what it gives.
    beside : pyspark.sql.DataFrame, optional
        One column of bytes: every task with rows takes all of them, one after the other in a
        buffer, as its second argument.

    Returns
    -------
    pyspark.sql.DataFrame
        On a worker that lacks one of our packages, it fails with a sentence that names the
        worker's interpreter, also where the user collects it.
    """
    if beside is not None:
        from pyspark.sql import functions as f

        is_first = f.monotonically_increasing_id().bitwiseAND(_ROW_BITS) == 0
        rows = f.collect_list(beside.columns[0])
        all_of = f.aggregate(rows, f.lit(b""), lambda some, row: f.concat(some, row))
        # Not an array: each row without one takes Spark microseconds.
        frame = frame.withColumn(_BESIDE, f.when(is_first, beside.agg(all_of).scalar()))
        task = partial(_call_with_beside, task)
    return frame.mapInArrow(with_packages(task), schemas.spark_schema(schema))


def _call_with_beside(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = iter(batches)
    for first in rows:
        known = first.column(_BESIDE)[0].as_buffer()
        yield from task((one.drop_columns([_BESIDE]) for one in chain([first], rows)), known)


def advise(python: str, lack: str) -> str:
    """Say which interpreter Spark's workers run, what is wrong with it, and what to set."""
    return (
        f"Spark's workers run {python}, which {lack}: start the session with "
        f"PYSPARK_PYTHON={sys.executable} (spark.pyspark.python); on a cluster, install sharelag "
        "for the workers, or send an environment with --archives (on Spark Connect "
        "spark.addArtifacts) and name its Python in spark.sql.execution.pyspark.python"
    )


def with_packages(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Return a function that unpickles a task only after it has found what the task imports.

    It travels by value and imports nothing of this package before, so a worker without it can run
    it.
    """
    from pyspark import cloudpickle

    pickled = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    advice, kind = advise("{}", "has no {}"), SetupError.__name__

    def run(*given: Any) -> Any:
        import pickle
        import sys

        try:
            found = pickle.loads(pickled)  # noqa: S301  # made by the same plan
        except ImportError as error:
            raise RuntimeError(
                f"{kind}: " + advice.format(sys.executable, error.name or error)
            ) from error
        yield from found(*given)
        from sharelag.sources.spark.workers import set_imports_aside

        set_imports_aside()

    return run


def set_imports_aside() -> None:
    """Keep what has been imported out of the garbage collections of this worker.

    Spark collects after each task, and that takes longer than most tasks where much is imported.
    """
    global _MODULES
    if len(sys.modules) > _MODULES:
        gc.collect()
        gc.freeze()
        _MODULES = len(sys.modules)
