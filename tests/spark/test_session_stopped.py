"""Answers of a workbench whose Spark session has stopped, in the session that follows."""

import pytest

from tests.support.spark.own_sessions import run_python

SCRIPT = """
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

bench, cached, lost = (sharelag.open("chapters", cache=cache) for cache in (False, True, True))
rows = [sorted(map(str, bench.frames.lag.collect())), len(bench.history().table)]
cached.explain(), lost.explain()
raw, offsets = bench.frames.raw, bench.frames.offsets
theirs = sharelag.open(raw=raw, offsets=offsets)
named = sharelag.open("chapters", spark=session())
known = theirs.lag()
session().stop()

del lost  # what is gone leaves the cache when the next one asks
gc.collect()
print("frames:", sorted(map(str, bench.frames.lag.collect())) == rows[0])
print("history:", bench.sql("select * from history").count() == rows[1])
cached.close()
print("kept:", cached.lag().table.equals(bench.lag().table))
session().stop()
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
session that runs
the Spark session of this workbench was stopped: open it again, with DataFrames or spark= of a \
session that runs
raw records: the Spark session of this DataFrame was stopped: make it again in one that runs
offsets: the Spark session of this DataFrame was stopped: make it again in one that runs
"""


def test_a_workbench_goes_on_in_the_session_that_follows() -> None:
    done = run_python("-c", SCRIPT)
    assert done.stdout == SAID, done.stderr[-2000:]


@pytest.mark.exhaustive
def test_a_workbench_goes_on_in_the_session_of_spark_connect_that_follows(remote: str) -> None:
    done = run_python("-c", SCRIPT, SPARK_REMOTE=remote)
    assert done.stdout == SAID, done.stderr[-2000:]
