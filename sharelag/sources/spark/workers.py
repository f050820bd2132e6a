"""Functions over Arrow in Spark's tasks, which say what to set where workers run another Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: DataFrame, task: Task, schema: pa.Schema) -> DataFrame:
    """Apply a function to the rows of each task, as Spark's ``mapInArrow`` does.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    task : callable
        Takes and gives batches; what it gives has the types of Spark
        (`sharelag.schemas.arrow.for_spark`).
    schema : pyarrow.Schema
        Of what it gives.

    Returns
    -------
    pyspark.sql.DataFrame
        On a worker that lacks one of our packages, it fails with a sentence that names the
        worker's interpreter, also where the user collects it.
    """
    return frame.mapInArrow(with_packages(task), schemas.spark_schema(schema))


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

    It travels by value and names nothing of this package, so a worker without it can run it.
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

    return run
