"""Streaming queries: whether a session supports them, and whether one has started or ended."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tenacity import Retrying, retry_if_exception, stop_after_attempt

from sharelag.errors import ClusterError, InputError, SetupError, raised_in_worker
from sharelag.inputs.spark import is_connect
from sharelag.inputs.spark.data_source import require_admission_control
from sharelag.inputs.spark.workers import translate_failure

_LOG = logging.getLogger(__name__)

# Number of attempts to start a query whose Python worker starts too slowly.
_ATTEMPTS = 5
_NOT_CONNECTED = "failed to connect back"

# Maximum number of characters of an error's first line.
_LONGEST = 1_000

# Prefix of Java errors in Python, and the text by which Spark recognises an interruption.
_JAVA_ERROR = "py4j.protocol.Py4JJavaError: An error occurred while calling"
_INTERRUPTED = re.compile(
    r"java\.lang\.InterruptedException|java\.io\.InterruptedIOException"
    r"|java\.nio\.channels\.ClosedByInterruptException"
)


def require_streams(spark: SparkSession, instead: str) -> None:
    """Require a session that can run our streams of a topic, and their micro-batches here."""
    require_own_process(spark, instead)
    require_admission_control()


def require_own_process(spark: SparkSession, instead: str) -> None:
    """Require a session that runs ``foreachBatch`` here: Spark Connect does not."""
    if is_connect(spark):
        raise InputError(
            "Spark Connect runs micro-batches on its server, without access to this process: "
            f"{instead}"
        )


def start_query(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query and wait until its sources are initialized.

    Spark waits ten seconds for the worker of a Python source, which can take longer on a busy
    machine. As nothing has been read by then, the query is started again a few times before it is a
    SetupError. The query may already have ended, possibly with an error, which ``awaitTermination``
    raises.
    """
    again = Retrying(
        retry=retry_if_exception(_without_worker),
        stop=stop_after_attempt(_ATTEMPTS),
        before_sleep=lambda _: _LOG.warning("Spark's Python worker did not start; trying again"),
        reraise=True,
    )
    try:
        return again(_start_query, start)
    except PySparkException as error:
        if not _without_worker(error):
            raise
        raise SetupError(
            f"Spark's Python worker did not start within 10 seconds in {_ATTEMPTS} attempts: "
            "this machine is too busy; try again later"
        ) from error


def brief(batch: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Return a ``foreachBatch`` function that passes Java errors to Spark as one line.

    While a query is being stopped, Spark searches the text of an error for an interruption, by a
    regular expression that recurses for every character (``StreamExecution.PROXY_ERROR``): the
    stack trace that Py4J appends overflows the thread's stack. A `ShareLagError` of a task is
    raised as such, a file that Spark cannot read as an InputError, and other Java errors with their
    first line.
    """

    def run(rows: DataFrame, number: int) -> None:
        try:
            batch(rows, number)
        except Exception as error:
            text = traceback.format_exc()
            if _JAVA_ERROR not in text:
                raise
            _LOG.debug("a micro-batch failed", exc_info=True)
            ours = raised_in_worker(error)
            if interruption := _INTERRUPTED.search(text):  # Spark must find it in the text
                what = f"{_JAVA_ERROR} a micro-batch: {interruption[0]}"
            else:
                # Py4J writes the call, and on the next line Java's error.
                called, _, message = text.partition(_JAVA_ERROR)[2].partition("\n: ")
                what = (message or called).strip().partition("\n")[0]
                ours = ours or translate_failure(text)
            raise (ours or ClusterError(what[:_LONGEST])) from None

    return run


def has_ended(query: StreamingQuery, within: float = 1.0) -> bool:
    """Return whether a query has ended or ends within some seconds, with or without an error."""
    try:
        return bool(query.awaitTermination(within))  # type: ignore[arg-type]  # parts of seconds, too
    except StreamingQueryException:
        return True  # the caller gets the error
    except Exception as error:
        # Spark itself has ended, which raises different exceptions.
        _LOG.debug("the query's Spark does not answer: %r", error)
        return True


def _start_query(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    query = start()
    # The status until a query's sources are initialized; if another Spark has another text, do not
    # wait.
    while query.isActive and query.status["message"].startswith("Initializing"):
        has_ended(query, 0.1)
    failure = None if query.isActive else query.exception()
    if failure is not None and _without_worker(failure):
        raise failure
    return query


def _without_worker(error: BaseException) -> bool:
    return isinstance(error, PySparkException) and _NOT_CONNECTED in str(error)
