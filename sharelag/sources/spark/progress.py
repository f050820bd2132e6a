"""Progress of Spark's jobs, and stopping them, on classic sessions and Spark Connect alike.

Classic Spark has a status tracker, which is asked for the tasks of jobs; through Spark Connect the
session tells of its queries while they run. `Tasks` counts everything that a session does, `Own`
what one thread of ours does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from sharelag.sources.spark.sessions import existing, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Count(NamedTuple):
    """Tasks that are done, and all that are known of."""

    done: int
    all: int


class Tasks:
    """The tasks that begin from now on, in whichever session there is or will be."""

    def __init__(self) -> None:
        self._source: _Classic | _Connect | None = None
        self._attach(fresh=False)

    def count(self) -> Count:
        """How many there are, also of jobs that are over; may be asked from any thread."""
        self._attach(fresh=True)
        return self._source.count() if self._source else Count(0, 0)

    def close(self) -> None:
        """Ask no more."""
        if self._source:
            self._source.close()

    def _attach(self, fresh: bool) -> None:
        """Find the session, which may start while somebody watches; all jobs of a fresh one are of interest."""
        spark = None if self._source else existing()
        if spark is not None:
            self._source = _Connect(spark) if is_connect(spark) else _Classic(spark, fresh=fresh)


class Own:
    """Some work of ours, done by one thread: `begun` says which."""

    def __init__(self, spark: SparkSession, words: str) -> None:
        self._spark, self._words = spark, words
        self._name = f"sharelag-{uuid4().hex}"
        self._source: _Classic | _Connect | None = None

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Count what this thread starts in the ``with`` block; it is the thread's last work on Spark."""
        if is_connect(self._spark):
            self._spark.addTag(self._name)
            self._source = _Connect(self._spark, get_ident())
        else:
            self._spark.sparkContext.setJobGroup(self._name, self._words)
            self._source = _Classic(self._spark, self._name)
        try:
            yield
        finally:
            self._source.close()

    def count(self) -> Count:
        """How many of its tasks are done; may be asked from any thread."""
        return self._source.count() if self._source else Count(0, 0)

    def stop(self) -> None:
        """Interrupt what runs of it now."""
        if is_connect(self._spark):
            self._spark.interruptTag(self._name)
        else:  # a tag does not reach the jobs of toArrow, which collects in a thread of its own
            self._spark.sparkContext.cancelJobGroup(self._name)


class _Classic:
    def __init__(self, spark: SparkSession, group: str | None = None, fresh: bool = True) -> None:
        self._tracker, self._group = spark.sparkContext.statusTracker(), group
        self._before = set() if fresh else set(self._jobs())
        self._seen: dict[int, Count] = {}

    def count(self) -> Count:
        jobs = [self._tracker.getJobInfo(job) for job in self._jobs() if job not in self._before]
        stages = {stage for job in jobs if job for stage in job.stageIds}
        infos = {stage: self._tracker.getStageInfo(stage) for stage in stages}
        self._seen |= {
            stage: Count(one.numCompletedTasks, one.numTasks) for stage, one in infos.items() if one
        }
        return _total(self._seen)

    def close(self) -> None:
        """Nothing is held."""

    def _jobs(self) -> Iterable[int]:
        """Jobs of the group; or those that run, and those that ran unless somebody put them into one."""
        ours = self._tracker.getJobIdsForGroup(self._group)
        return ours if self._group else {*ours, *self._tracker.getActiveJobsIds()}


class _Connect:
    def __init__(self, spark: Any, thread: int | None = None) -> None:
        self._spark, self._thread = spark, thread
        self._seen: dict[tuple[str | None, int], Count] = {}
        spark.registerProgressHandler(self._told)

    def count(self) -> Count:
        return _total(dict(self._seen))

    def close(self) -> None:
        self._spark.removeProgressHandler(self._told)

    def _told(self, stages: Iterable[Any] | None, operation_id: str | None, **_: object) -> None:
        # The session calls this in the thread that waits for the query.
        if self._thread in (None, get_ident()):
            for one in stages or ():
                self._seen[operation_id, one.stage_id] = Count(
                    one.num_completed_tasks, one.num_tasks
                )


def _total(seen: Mapping[Any, Count]) -> Count:
    return Count(sum(one.done for one in seen.values()), sum(one.all for one in seen.values()))
