"""What tables of lines lack: the lines that could not be read, by one judgement on both engines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.sources.files.text_pieces import are_many
from sharelag.tables.words import counted
from sharelag.wire.requests.times import LAYOUT
from sharelag.wire.requests.wrapped import MARK

#: Characters of a line that an error shows.
_SHOWN = 120


class LineCounts(NamedTuple):
    """How many lines there are, how many of them are about something else or could not be read."""

    total: int
    skipped: int
    rejects: int
    first: Mapping[str, Any] | None
    """The first that could not be read, as a row of the rejects."""

    @classmethod
    def of(cls, counts: tuple[int, int], rejects: pa.Table | pa.RecordBatch) -> LineCounts:
        """Return the counts of lines and skipped lines, and of a table of rejects."""
        first = rejects.slice(0, 1).to_pylist()
        return cls(*counts, rejects.num_rows, first[0] if first else None)

    @property
    def read(self) -> int:
        """How many could be read."""
        return self.total - self.skipped - self.rejects


def lacking_requests(path: Path, counts: LineCounts) -> tuple[str, ...]:
    """Return what answers lack by a broker's log of requests, in sentences.

    Raises
    ------
    InputError
        No request could be read: nothing is said of a cluster by such a log.
    """
    if not counts.read and counts.first is not None:
        raise InputError(
            f"none of {counted(counts.rejects, 'request')} in {path} could be read "
            f"({counts.first['reason']}): {counts.first['text'][:_SHOWN]!r} was not understood; "
            f"give lines with {LAYOUT} before {MARK}{{...}}"
        )
    if not counts.read:
        raise InputError(
            f"{_nothing_in(path, counts)} is a request about share groups: give what "
            "kafka.request.logger writes at DEBUG on brokers that share "
            f"consumers fetch from, lines with {LAYOUT} before {MARK}{{...}}"
        )
    if counts.first is None or not are_many(counts.rejects, counts.read):
        return ()
    sentence = (
        f"{counts.rejects:,} of {counts.rejects + counts.read:,} requests in the log, which could "
        f"not be read (the first: {counts.first['reason']}); sharelag requests --show rejects "
        f"shows {'it' if counts.rejects == 1 else 'them'}"
    )
    return (sentence,)


def _nothing_in(path: Path, counts: LineCounts) -> str:
    """Return the lines of a file of which nothing could be read, as the subject of a sentence."""
    every = f"none of {counted(counts.total, 'line')} in {path}"
    return every if counts.total else f"{path} has no lines, so none of them"


def lacking_lines(path: Path, counts: LineCounts, name: str = "deliveries") -> tuple[str, ...]:
    """Return what a table lacks by output of consumers, in sentences.

    Raises
    ------
    InputError
        There are lines, and no line could be read; of outcomes, which few consumers print, no line
        that says that it has some.
    """
    if counts.total and not counts.read and (counts.rejects or name == "deliveries"):
        raise InputError(
            f"{_nothing_in(path, counts)} has a delivery or an outcome: "
            "let the console consumer print.partition, print.offset and print.delivery, and "
            "give its --separator"
        )
    if not are_many(counts.rejects, counts.read):
        return ()
    them = "it" if counts.rejects == 1 else "them"
    return (f"{counted(counts.rejects, 'line')} that could not be read; --show rejects has {them}",)
