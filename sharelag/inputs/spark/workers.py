"""Functions over Arrow in Spark's tasks, with errors for workers that run another Python."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from sharelag import schemas
from sharelag.errors import InputError, SetupError, ShareLagError, raised_in_worker
from sharelag.inputs.spark.sessions import existing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task: TypeAlias = Callable[..., Iterator[pa.RecordBatch]]

#: Number of imported modules when they were last excluded from garbage collection.
_MODULES = 0
#: Name of the column that carries extra data to each task.
_BESIDE = "_sharelag_beside"
#: Bits for the row number within a task in Spark's increasing ids.
_ROW_BITS = (1 << 33) - 1


def map_in_arrow(
    frame: DataFrame, task: Task, schema: pa.Schema, beside: DataFrame | None = None
) -> DataFrame:
    """Apply a function to the rows of each task, as Spark's ``mapInArrow`` does.

    The function returns Spark's types (`sharelag.tables.arrow.for_spark`). ``beside`` has one
    column of bytes: every task with rows receives all of them in a buffer, as its second argument.
    If a worker lacks one of our packages, the result fails with an error that names its
    interpreter.
    """
    if beside is not None:
        from pyspark.sql import functions as f

        is_first = f.monotonically_increasing_id().bitwiseAND(_ROW_BITS) == 0
        # No lambda: each would have another name, for which Java compiles the same code again.
        all_of = f.coalesce(f.listagg(beside.columns[0]), f.lit(b""))
        # No array: each row without one takes Spark microseconds.
        frame = frame.withColumn(_BESIDE, f.when(is_first, beside.agg(all_of).scalar()))
        task = partial(_call_with_beside, task)
    return frame.mapInArrow(with_packages(task), schemas.spark_schema(schema))


def _call_with_beside(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = iter(batches)
    for first in rows:
        known = first.column(_BESIDE)[0].as_buffer()
        yield from task((one.drop_columns([_BESIDE]) for one in chain([first], rows)), known)


def advise(python: str, lack: str) -> str:
    """Return a sentence on the workers' interpreter: its path, its problem, and what to set."""
    return (
        f"Spark's workers run {python}, which {lack}: start the session with "
        f"PYSPARK_PYTHON={sys.executable} (spark.pyspark.python); on a cluster, install sharelag "
        "for the workers, or send an environment with --archives (on Spark Connect "
        "spark.addArtifacts) and name its Python in spark.sql.execution.pyspark.python"
    )


def with_packages(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Return a function that unpickles a task after verifying that its imports are available.

    The function is pickled by value, so a worker without this package can run it.
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
        from sharelag.inputs.spark.workers import set_imports_aside

        set_imports_aside()

    return run


def set_imports_aside() -> None:
    """Exclude imported modules from the garbage collection after each task."""
    global _MODULES
    if len(sys.modules) > _MODULES:
        gc.collect()
        gc.freeze()
        _MODULES = len(sys.modules)


# ---- why queries fail ----------------------------------------------------------------------------


#: Marks of a missing file, in errors of Spark and of tasks that read files themselves.
_NO_FILE = ("FILE_NOT_EXIST", "FileNotFoundError")

#: Problems of the workers' interpreter, by the words of their error.
_WRONG = {
    r"[Pp]ython worker(?s:.)*ModuleNotFoundError: No module named '([^']+)'": "has no {}",
    r"PYTHON_VERSION_MISMATCH\].*: ([\d.]+) than that in driver: ([\d.]+)": (
        "is Python {} where this process is {}"
    ),
    r"Error from python worker(?s:.)*?\n\s*(\w+(?:Error|Exception): .+)": "fails with {}",
    r"Cannot run program": "cannot be started there",
}


@contextmanager
def explain_failures() -> Iterator[None]:
    """Convert errors of queries in a ``with`` block to errors that say what to do.

    An interrupt remains a KeyboardInterrupt, whatever Java reports for the cancelled job.
    """
    before = sys.exception()
    try:
        yield
    except ShareLagError:
        raise
    except Exception as error:  # the type depends on how rows were requested
        if _hides_interrupt(error, before):
            raise KeyboardInterrupt from None
        message = raised_in_worker(error) or translate_failure(f"{type(error).__name__}: {error}")
        if message is None:
            raise
        raise message from error


def _hides_interrupt(error: BaseException | None, before: BaseException | None) -> bool:
    """Return whether an interrupt caused an error, other than the one being handled ``before``."""
    while error is not None and error is not before:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def translate_failure(text: str) -> ShareLagError | None:
    """Return a specific error for the text of a failed query; None if the text is clear enough."""
    for pattern, wrong in _WRONG.items():
        if found := re.search(pattern, text):
            return SetupError(advise(_python(), wrong.format(*found.groups())))
    if any(word in text for word in _NO_FILE):
        return InputError(
            "files that were read before are gone: an archive that is still written replaces its "
            "files after 15 minutes. Read it again: bench.refresh(), or sharelag.open(...)"
        )
    if found := re.search(r"\[FAILED_READ_FILE\S+ .* reading file (\S+?)\.? +SQLSTATE", text):
        *_, why = re.findall(r"^Caused by: \S+: (.+)", text, re.MULTILINE) or ["no reason is given"]
        return InputError(f"Spark cannot read {found[1]} ({why}): remove it, or write it again")
    return None


def _python() -> str:
    from pyspark import SparkContext

    session = existing()
    named = session.conf.get("spark.sql.execution.pyspark.python", "") if session else ""
    return str(named or getattr(SparkContext._active_spark_context, "pythonExec", "another Python"))
