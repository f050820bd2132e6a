"""An interrupt ends Spark's jobs, too, whichever thread started Spark, in any cell."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from sharelag.engine.spark.packing import collect
from sharelag.inputs.spark import is_connect, java, session, sessions
from sharelag.inputs.spark.workers import explain_failures
from tests.support.kafka.workload import wait_until


@pytest.fixture(autouse=True)
def as_a_cell_begins() -> Iterator[None]:
    """A notebook's kernel puts Python's own handler back before each cell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def started_aside(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session of all tests, as if a thread had started it."""
    monkeypatch.setattr(java, "_OURS", [])
    with monkeypatch.context() as before:
        before.setattr(sessions, "existing", lambda: None)
        for name in ("_own", "_elsewhere"):
            before.setattr(sessions, name, lambda *_: spark)
        starts = Thread(target=session)
        starts.start()
        starts.join(300)
    return spark


def endless(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(400)
        yield batch


def test_an_interrupt_cancels_jobs_of_a_threads_spark(started_aside: SparkSession) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert session() is started_aside
    if is_connect(started_aside):  # it has no jobs in this process
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        return
    tasks = started_aside.sparkContext.statusTracker()

    def runs() -> bool:
        return bool(tasks.getActiveStageIds())

    def has_ended() -> bool:
        try:
            return not runs()
        except Py4JNetworkError:  # once, see below
            return False

    def interrupt() -> None:
        wait_until(runs, "a job runs")
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt).start()
    # On its way out pyspark asks Java something, whose first connection after an interrupt fails
    # in one of ten tries on a busy machine.
    with pytest.raises((KeyboardInterrupt, Py4JNetworkError)):
        started_aside.range(1).mapInArrow(endless, "id long").collect()
    wait_until(has_ended, "the job is cancelled")
    assert started_aside.range(3).count() == 3


def test_an_error_of_a_query_is_no_interrupt_where_one_is_being_handled() -> None:
    def ask() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            with explain_failures():
                raise ZeroDivisionError from None

    with pytest.raises(ZeroDivisionError):
        ask()


def test_a_connection_that_java_gave_up_is_no_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Py4JNetworkError("Answer from Java side is empty"), ConnectionResetError(), None]

    class Context:
        def cancelAllJobs(self) -> None:
            if answer := answers.pop(0):
                raise answer

    monkeypatch.setattr(java, "_context", Context)
    with pytest.raises(KeyboardInterrupt):
        java._cancel(signal.SIGINT, None)
    wait_until(lambda: not answers, "all jobs are cancelled")


def test_each_question_of_a_later_cell_sees_to_it(started_aside: SparkSession) -> None:
    collect(started_aside.range(1), pa.schema([("id", pa.int64())]))
    has_own = signal.getsignal(signal.SIGINT) is java._cancel
    assert has_own != is_connect(started_aside)


def test_what_somebody_else_handles_stays(started_aside: SparkSession) -> None:
    def own(*_: Any) -> None:
        """Of the user."""

    signal.signal(signal.SIGINT, own)
    session()
    assert signal.getsignal(signal.SIGINT) is own


def test_a_spark_of_others_is_theirs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_OURS", [])
    assert session() is spark
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
