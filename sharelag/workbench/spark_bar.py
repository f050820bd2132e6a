"""How far has Spark come? A bar over the tasks of its jobs, for who waits in a notebook."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from sharelag.sources.spark.notice import in_notebook
from sharelag.sources.spark.progress import Tasks

_EVERY = 0.2  # seconds between two looks


@contextmanager
def spark_bar(words: str, shown: bool | None = None) -> Iterator[None]:
    """Show a bar while Spark works in the ``with`` block.

    Parameters
    ----------
    words : str
        What is being done.
    shown : bool, optional
        Else only in a notebook, unless Spark Connect draws a bar there itself.
    """
    if not (in_notebook() and not _drawn_by_spark() if shown is None else shown):
        yield
        return
    from tqdm.auto import tqdm

    ended = Event()
    with tqdm(desc=words, unit="task", leave=False) as bar:
        watcher = Thread(target=_watch, args=(bar, Tasks(), ended), name="sharelag-spark-bar", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _drawn_by_spark() -> bool:
    return os.environ.get("SPARK_CONNECT_PROGRESS_BAR_ENABLED") == "1"


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
