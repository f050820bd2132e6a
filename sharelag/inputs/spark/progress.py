"""Progress and cancellation of Spark's jobs, on classic sessions and Spark Connect.

Classic Spark has a status tracker with the tasks of jobs; Spark Connect reports the progress of
queries to a callback. `Tasks` counts all that a session does, which `spark_bar` shows in notebooks;
`Own` counts the work of one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread, current_thread, get_ident, main_thread
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from sharelag.inputs.spark.sessions import display_line, existing, in_notebook, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Count(NamedTuple):
    """Completed and known tasks."""

    done: int
    all: int


class Tasks:
    """The tasks that start from now on, in the current or a future session."""

    def __init__(self) -> None:
        self._source: _Classic | _Connect | None = None
        self._attach(fresh=False)

    def count(self) -> Count:
        """Return the number of tasks, including finished jobs; thread-safe."""
        self._attach(fresh=True)
        return self._source.count() if self._source else Count(0, 0)

    def close(self) -> None:
        """Stop counting."""
        if self._source:
            self._source.close()

    def _attach(self, fresh: bool) -> None:
        """Find the session, which may start later; all jobs of a new session count."""
        spark = None if self._source else existing()
        if spark is not None:
            self._source = _Connect(spark) if is_connect(spark) else _Classic(spark, fresh=fresh)


class Own:
    """Work of one thread, in the block of `begun`."""

    def __init__(self, spark: SparkSession, words: str) -> None:
        self._spark, self._words = spark, words
        self._name = f"sharelag-{uuid4().hex}"
        self._source: _Classic | _Connect | None = None

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Count the jobs of this thread in the ``with`` block, which must be its last on Spark."""
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
        """Return the number of completed tasks; thread-safe."""
        return self._source.count() if self._source else Count(0, 0)

    def stop(self) -> None:
        """Interrupt its running jobs."""
        if is_connect(self._spark):
            self._spark.interruptTag(self._name)
        else:  # a tag does not apply to jobs of toArrow, which collects in its own thread
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
        for stage, one in infos.items():
            if one:
                self._seen[stage] = Count(one.numCompletedTasks, one.numTasks)
        return _total(self._seen)

    def close(self) -> None:
        """Nothing is held."""

    def _jobs(self) -> Iterable[int]:
        """Return the jobs of the group; without a group, active jobs and past ones in no group."""
        ours = self._tracker.getJobIdsForGroup(self._group)
        return ours if self._group else {*ours, *self._tracker.getActiveJobsIds()}


class _Connect:
    def __init__(self, spark: Any, thread: int | None = None) -> None:
        self._spark, self._thread = spark, thread
        self._seen: dict[tuple[str | None, int], Count] = {}
        spark.registerProgressHandler(self._report)

    def count(self) -> Count:
        return _total(dict(self._seen))

    def close(self) -> None:
        self._spark.removeProgressHandler(self._report)

    def _report(self, stages: Iterable[Any] | None, operation_id: str | None, **_: object) -> None:
        # The session calls this in the thread that waits for the query.
        if self._thread in (None, get_ident()):
            for one in stages or ():
                found = Count(one.num_completed_tasks, one.num_tasks)
                self._seen[operation_id, one.stage_id] = found


def _total(seen: Mapping[Any, Count]) -> Count:
    return Count(sum(one.done for one in seen.values()), sum(one.all for one in seen.values()))


_EVERY = 0.2  # seconds between two looks


@contextmanager
def spark_bar(words: str, shown: bool | None = None) -> Iterator[None]:
    """Show a bar with some words while Spark works in the ``with`` block.

    By default only in a notebook, unless Spark Connect draws a bar there itself, and of what a cell
    waits for: the views that a thread fills say what they read.
    """
    if shown is None:
        by_spark = os.environ.get("SPARK_CONNECT_PROGRESS_BAR_ENABLED") == "1"
        shown = in_notebook() and not by_spark and current_thread() is main_thread()
    if not shown:
        yield
        return
    from tqdm import tqdm

    ended = Event()
    with _line(words) if in_notebook() else tqdm(desc=words, unit="task", leave=False) as bar:
        what = (bar, Tasks(), ended)
        watcher = Thread(target=_watch, args=what, name="sharelag-spark-bar", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


class _Line:
    """A line of a notebook's output; a widget would leave a dead view in saved notebooks."""

    def __init__(self, words: str, show: Callable[[str], None]) -> None:
        self._words, self._show, self._shown = words, show, f"{words} ..."
        self.n, self.total = 0, None

    def refresh(self) -> None:
        """Show how many tasks are done."""
        done = f" {self.n} of {self.total} tasks" if self.total else ""
        line = f"{self._words} ...{done}"
        if line != self._shown:
            self._shown = line
            self._show(line)


@contextmanager
def _line(words: str) -> Iterator[_Line]:
    with display_line(f"{words} ...") as show:
        yield _Line(words, show)


def _watch(bar: Any, tasks: Tasks, ended: Event) -> None:
    """Bring the bar to where Spark is, again and again."""
    try:
        while True:
            last = ended.wait(_EVERY)
            bar.n, total = tasks.count()
            bar.total = total or None
            bar.refresh()
            if last:
                return
    finally:
        tasks.close()
