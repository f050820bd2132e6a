"""What long work says meanwhile, on standard error and only where it is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from sharelag.whatif.compare import Progress

#: Seconds after which work says that it goes on.
_QUIET = 2.0
#: Back to the beginning of the line, whose rest is removed.
_LINE, _REST = "\r", "\x1b[K"
#: Fewer records are read before a bar could be looked at.
_SHOWN_FROM = 200_000


@contextmanager
def simulation_bar() -> Iterator[Progress | None]:
    """Show how many simulations are done; gives what is to be called with done and all runs."""
    if not sys.stderr.isatty():
        yield None
        return
    with _bar("simulating") as bar:
        task = bar.add_task("", total=None)
        yield lambda done, runs: bar.update(task, completed=done, total=runs)


@contextmanager
def reading_bar(source: Any) -> Iterator[Any]:
    """Give the input, with a bar while many of its records are read in this process.

    Where they are few, a line says after some seconds how long the answer has been waited for:
    brokers may be slow, or Spark at work.
    """
    if not sys.stderr.isatty():
        yield source
    elif source.size() < _SHOWN_FROM:
        with _line("working on the answer"):
            yield source
    else:
        with _bar("reading records") as bar:
            yield _Counting(source, bar, bar.add_task("", total=source.size()))


@contextmanager
def _line(words: str) -> Iterator[None]:
    """Show how long it takes, from some seconds on, and remove the line at the end."""
    done = Event()
    telling = Thread(target=_tell, args=(words, done), daemon=True)
    telling.start()
    try:
        yield
    finally:
        done.set()
        telling.join()


def _tell(words: str, done: Event) -> None:
    from sharelag.inputs.spark import notice

    begun, is_drawn = time.monotonic(), False
    if done.wait(_QUIET):
        return
    while not done.is_set():
        if not notice.is_shown():  # else Spark's own line says what is waited for
            seconds = time.monotonic() - begun
            sys.stderr.write(f"{_LINE}{words}, {seconds:.0f} s{_REST}")
            sys.stderr.flush()
            is_drawn = True
        done.wait(1)
    if is_drawn:
        sys.stderr.write(f"{_LINE}{_REST}")
        sys.stderr.flush()


def _bar(what: str) -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


class _Counting:
    """An input that tells a progress bar how many of its records were read."""

    def __init__(self, source: Any, bar: Any, task: Any) -> None:
        self._source, self._bar, self._task = source, bar, task

    def batches(self, topic: str) -> Iterator[Any]:
        for batch in self._source.batches(topic):
            yield batch
            self._bar.advance(self._task, batch.num_rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)
