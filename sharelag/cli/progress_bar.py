"""Progress bars of long work, on standard error and only where it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from sharelag.whatif.compare import Progress

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
    """Give the input, with a bar while many of its records are read in this process."""
    if not sys.stderr.isatty() or source.size() < _SHOWN_FROM:
        yield source
        return
    with _bar("reading records") as bar:
        yield _Counting(source, bar, bar.add_task("", total=source.size()))


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
