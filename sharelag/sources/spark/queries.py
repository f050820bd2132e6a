"""Streaming queries: whether a session can run one, and whether it has begun or ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tenacity import Retrying, before_sleep_log, retry_if_exception, stop_after_attempt

from sharelag.errors import InputError, SetupError
from sharelag.sources.spark import is_connect
from sharelag.sources.spark.data_source_stream import require_admission_control

_LOG = logging.getLogger(__name__)

# How often a query is begun whose Python worker does not come up in time.
_ATTEMPTS = 5
_NOT_CONNECTED = "failed to connect back"


def require_streams(spark: SparkSession, instead: str) -> None:
    """Make sure that what a session calls back for each micro-batch is called in this process.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    instead : str
        What to do where it is not.

    Raises
    ------
    InputError
        On Spark Connect, which calls back on the server, in a process of its own.
    SetupError
        When pyspark is too old for streams of ours.
    """
    if is_connect(spark):
        raise InputError(
            f"Spark Connect handles micro-batches on its server, where nothing of this reaches: {instead}"
        )
    require_admission_control()


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query, and wait until its sources are there.

    A streaming source in Python gets a worker for which Spark waits ten seconds; no setting changes
    that, and where many processes compete it can take longer. Nothing was read then, so the query
    is started again, some times.

    Parameters
    ----------
    start : callable
        Starts the query.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        It may have ended by now, also with an error, which ``awaitTermination`` raises.

    Raises
    ------
    SetupError
        When no worker came up in time, again and again.
    """
    again = Retrying(
        retry=retry_if_exception(_without_worker),
        stop=stop_after_attempt(_ATTEMPTS),
        before_sleep=before_sleep_log(_LOG, logging.WARNING),
        reraise=True,
    )
    try:
        return again(_started, start)
    except PySparkException as error:
        if not _without_worker(error):
            raise
        raise SetupError(
            f"Spark's Python worker did not start within its 10 seconds, {_ATTEMPTS} times: this machine is too busy; "
            "try again when less runs on it"
        ) from error


def ended(query: StreamingQuery, within: float = 1.0) -> bool:
    """Whether a query has ended, or ends within some seconds, however it ends."""
    try:
        return bool(query.awaitTermination(within))  # type: ignore[arg-type]  # parts of seconds, too
    except StreamingQueryException:
        return True  # whoever started it hears of that
    except Exception as error:
        # Spark itself is gone, which every way to it tells by an exception of its own.
        _LOG.debug("the query's Spark does not answer: %r", error)
        return True


def _started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    query = start()
    # Until its sources are there a query's status says this; should another Spark say it otherwise,
    # nobody waits.
    while query.isActive and query.status["message"].startswith("Initializing"):
        ended(query, 0.1)
    failure = None if query.isActive else query.exception()
    if failure is not None and _without_worker(failure):
        raise failure
    return query


def _without_worker(error: BaseException) -> bool:
    return isinstance(error, PySparkException) and _NOT_CONNECTED in str(error)
