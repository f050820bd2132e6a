"""A Spark that the main thread started: its interrupts, and workbenches whose session stopped."""

import pytest

from tests.support.own_process import run_python

INTERRUPTED = """
import os, signal, threading, time
import pyarrow as pa
from py4j.protocol import Py4JNetworkError
from sharelag.engine.spark.packing import collect
from sharelag.inputs.spark import session
from tests.support.kafka.workload import wait_until

spark = session()
tasks = spark.sparkContext.statusTracker()

def endless(batches):
    time.sleep(400)
    yield from batches

def runs():
    try:
        return bool(tasks.getActiveStageIds())
    except Py4JNetworkError:  # of the first connection after an interrupt
        return None

def interrupt():
    wait_until(runs, "a job runs")
    os.kill(os.getpid(), signal.SIGINT)

waiting = spark.range(1).mapInArrow(endless, "id long")
rows = lambda: collect(waiting, pa.schema([("id", pa.int64())]))
for name, ask, error in (
    ("ours", rows, KeyboardInterrupt),
    ("pyspark's", waiting.collect, (KeyboardInterrupt, Py4JNetworkError)),
):
    threading.Thread(target=interrupt).start()
    try:
        ask()
    except error:
        wait_until(lambda: runs() is False, "the job is cancelled")
        print(f"{name}: interrupted", spark.range(3).count())
"""
STOPPED = """
import gc
import sharelag
from sharelag.errors import InputError, SetupError
from sharelag.inputs.spark import session

def refused(kind, ask):
    try:
        ask()
    except kind as error:
        return str(error)
    raise AssertionError("answered")

bench, closed, cached, lost = (sharelag.open("chapters", cache=n > 0) for n in range(4))
rows = [sorted(map(str, bench.frames.lag.collect())), len(bench.history().table)]
closed.explain(), cached.lag(), lost.lag()
raw, offsets = bench.frames.raw, bench.frames.offsets
theirs = sharelag.open(raw=raw, offsets=offsets)
named = sharelag.open("chapters", spark=session())
known = theirs.lag()
session().stop()

del lost  # what is gone leaves the cache when the next one asks
gc.collect()
print("frames:", sorted(map(str, bench.frames.lag.collect())) == rows[0])
print("history:", bench.sql("select * from history").count() == rows[1])
closed.close()
print("kept:", closed.lag().table.equals(bench.lag().table))
print("read again:", cached.history().table.num_rows == bench.frames.history.count() == rows[1])
print("collected:", theirs.lag().table.equals(known.table))
print(refused(SetupError, lambda: theirs.frames.lag))
print(refused(SetupError, named.lag))
print(refused(InputError, lambda: sharelag.open(raw=raw)))
print(refused(InputError, lambda: sharelag.lag(raw, offsets)))
"""
SAID = """\
frames: True
history: True
kept: True
read again: True
collected: True
the Spark session of this workbench was stopped: open it again, with DataFrames or spark= of a \
running session
the Spark session of this workbench was stopped: open it again, with DataFrames or spark= of a \
running session
raw records: the Spark session of this DataFrame was stopped: make it again in one that runs
offsets: the Spark session of this DataFrame was stopped: make it again in one that runs
"""


def test_a_spark_of_the_main_thread_is_interrupted_and_its_workbench_goes_on_in_the_next() -> None:
    """Neither pyspark's own handler, which Java does not always hear, nor Java's error is seen."""
    done = run_python("-c", INTERRUPTED + STOPPED)
    interrupts = "ours: interrupted 3\npyspark's: interrupted 3\n"
    assert done.stdout == interrupts + SAID, done.stderr[-2000:]
    assert "reentrant" not in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", ["stop()", "client.release_session()"])
def test_a_workbench_goes_on_in_the_session_of_spark_connect_that_follows(
    remote: str, end: str
) -> None:
    """The user has stopped it, or its server has closed it, as one that was not used for long."""
    done = run_python("-c", STOPPED.replace("stop()", end), SPARK_REMOTE=remote)
    assert done.stdout == SAID, done.stderr[-2000:]
