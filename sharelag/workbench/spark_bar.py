"""How far has Spark come? A bar over the tasks of its jobs, by Spark's own status tracker."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

_EVERY = 0.2  # seconds between two looks


@contextmanager
def spark_bar(words: str, shown: bool | None = None) -> Iterator[None]:
    """Show a bar while Spark works in the ``with`` block.

    Parameters
    ----------
    words : str
        What is being done.
    shown : bool, optional
        Else only in a notebook.
    """
    if not (in_notebook() if shown is None else shown):
        yield
        return
    from tqdm.auto import tqdm

    ended = Event()
    with tqdm(desc=words, unit="task", leave=False) as bar:
        watcher = Thread(target=_watch, args=(bar, ended), name="sharelag-spark-bar", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs us."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return bool(getattr(shell, "kernel", None))


def _watch(bar: Any, ended: Event) -> None:
    """Bring the bar to where Spark is, again and again."""
    before = set(_jobs())
    done: dict[int, tuple[int, int]] = {}
    while True:
        last = ended.wait(_EVERY)
        done |= _stages(job for job in _jobs() if job not in before)
        bar.total = sum(tasks for tasks, _ in done.values()) or None
        bar.n = sum(completed for _, completed in done.values())
        bar.refresh()
        if last:
            return


def _jobs() -> Iterable[int]:
    """Jobs that run, and those that ran unless somebody put them into a group; none while Spark starts."""
    context = _context()
    if context is None:
        return ()
    tracker = context.statusTracker()
    return {*tracker.getActiveJobsIds(), *tracker.getJobIdsForGroup(None)}


def _stages(jobs: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Tasks, and those among them that are completed, of every stage of some jobs."""
    found = [_context().statusTracker().getJobInfo(job) for job in jobs]
    infos = {stage: _context().statusTracker().getStageInfo(stage) for job in found if job for stage in job.stageIds}
    return {stage: (info.numTasks, info.numCompletedTasks) for stage, info in infos.items() if info}


def _context() -> Any:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return context if getattr(context, "_jsc", None) else None  # it is there before it has started
