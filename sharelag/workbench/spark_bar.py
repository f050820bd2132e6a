"""Progress of Spark's jobs, for people who wait in a notebook."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread
from typing import Any, Self

from sharelag.inputs.spark.notice import in_notebook
from sharelag.inputs.spark.progress import Tasks

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
    with _Line(words) if in_notebook() else tqdm(desc=words, unit="task", leave=False) as bar:
        watcher = Thread(
            target=_watch, args=(bar, Tasks(), ended), name="sharelag-spark-bar", daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


class _Line:
    """A line of a notebook's output; a widget would leave a dead view in saved notebooks."""

    def __init__(self, words: str) -> None:
        self._words, self.n, self.total = words, 0, None

    def __enter__(self) -> Self:
        from IPython.display import display

        self._shown = f"{self._words} ..."
        self._handle: Any = display({"text/plain": self._shown}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        return self

    def refresh(self) -> None:
        """Show how many tasks are done."""
        line = (
            f"{self._words} ... {self.n} of {self.total} tasks"
            if self.total
            else f"{self._words} ..."
        )
        if line != self._shown:
            self._shown = line
            self._handle.update({"text/plain": line}, raw=True)

    def __exit__(self, *_: object) -> None:
        self._handle.update({"text/plain": ""}, raw=True)


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
