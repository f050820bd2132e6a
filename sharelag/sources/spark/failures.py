"""Why a query failed, in a sentence, where Spark's own words do not say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sharelag.errors import InputError, SetupError, ShareLagError
from sharelag.sources.spark.sessions import existing
from sharelag.sources.spark.workers import advise

#: Spark's own word for a file that is no longer there, and that of a task that reads files itself.
_NO_FILE = ("FILE_NOT_EXIST", "FileNotFoundError")

#: What is wrong with the interpreter of Spark's workers, by the words of their error.
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
    """Raise the error of a query within a ``with`` block as a sentence that says what to do.

    Raises
    ------
    InputError
        A task refused its rows, or files of a DataFrame were replaced or changed.
    SetupError
        Workers run another Python than this process, or one without our packages.
    """
    try:
        yield
    except ShareLagError:
        raise
    except Exception as error:  # the type depends on how rows were requested
        said = explain(str(error))
        if said is None:
            raise
        raise said from error


def explain(text: str) -> ShareLagError | None:
    """Return the error that the text of a failed query stands for; None: it says enough."""
    # A task's own sentence, without Spark's traceback around it.
    for kind in (InputError, SetupError):
        if said := re.search(rf"{kind.__name__}: (.+)", text):
            return kind(said[1])
    for pattern, wrong in _WRONG.items():
        if found := re.search(pattern, text):
            return SetupError(advise(_python(), wrong.format(*found.groups())))
    if any(word in text for word in _NO_FILE):
        return InputError(
            "files that were read before are gone: an archive that is still written replaces its "
            "files after 15 minutes. Read it again: bench.refresh(), or sharelag.open(...)"
        )
    return None


def _python() -> str:
    """Return the interpreter that Spark starts its workers with, as far as this process knows."""
    from pyspark import SparkContext

    session = existing()
    named = session.conf.get("spark.sql.execution.pyspark.python", "") if session else ""
    return str(named or getattr(SparkContext._active_spark_context, "pythonExec", "another Python"))
