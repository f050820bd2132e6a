"""Log files as tables: requests of a broker, and output of consumers; one file or a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.inputs.files.raw_files import files_below
from sharelag.inputs.files.text_pieces import Piece, line_blocks, unwrap_lines, whole_file
from sharelag.schemas import CONSUMED_TABLES, REQUEST_TABLES
from sharelag.tables.gaps import are_many
from sharelag.tables.words import pluralize
from sharelag.wire import consumed
from sharelag.wire.requests.lines import LAYOUT, MARK, Lines, read_lines, unread
from sharelag.wire.requests.tables import tables_of

#: Number of characters of a line that an error quotes.
_SHOWN = 120


class LineCounts(NamedTuple):
    """The numbers of lines, of skipped lines, and of lines that could not be parsed."""

    total: int
    skipped: int
    rejects: int
    first: Mapping[str, Any] | None
    """The first line that could not be parsed, as a row of the rejects."""

    @classmethod
    def of(cls, counts: tuple[int, int], rejects: pa.Table | pa.RecordBatch) -> LineCounts:
        """Combine the counts of lines and skipped lines with a table of rejects."""
        first = rejects.slice(0, 1).to_pylist()
        return cls(*counts, rejects.num_rows, first[0] if first else None)

    @property
    def read(self) -> int:
        """The number of parsed lines."""
        return self.total - self.skipped - self.rejects


@dataclass(frozen=True)
class TextLog:
    """Lines of a file, or of the files of a folder; those named ``*.gz`` are unpacked."""

    path: Path

    #: What a path without files lacks, and what to give instead.
    _MISSING: ClassVar[tuple[str, str]]
    _SCHEMAS: ClassVar[Mapping[str, pa.Schema]]

    @property
    def files(self) -> list[Path]:
        """The files, sorted; InputError if there are none."""
        found = [self.path] if self.path.is_file() else files_below(self.path)
        if not found:
            what, advice = self._MISSING
            raise InputError(f"no {what} at {self.path}: give {advice}")
        return found

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """The tables by name, in the order of the files and their lines."""
        return self._read[0]

    @cached_property
    def line_counts(self) -> tuple[int, int]:
        """The numbers of lines and of skipped lines."""
        return self._read[1]

    @property
    def counts(self) -> LineCounts:
        """The counts, including lines that could not be parsed."""
        return LineCounts.of(self.line_counts, self.tables["rejects"])

    @cached_property
    def _read(self) -> tuple[dict[str, pa.Table], tuple[int, int]]:
        found: dict[str, list[pa.RecordBatch]] = {name: [] for name in self._SCHEMAS}
        count = skipped = 0
        for file in self.files:
            for lines, others, batches in self._parts(whole_file(file, self.path)):
                count, skipped = count + lines, skipped + others
                for name, batch in batches.items():
                    found[name].append(batch)
        tables = {one: pa.Table.from_batches(found[one], of) for one, of in self._SCHEMAS.items()}
        return tables, (count, skipped)

    def _parts(self, piece: Piece) -> Iterator[tuple[int, int, Mapping[str, pa.RecordBatch]]]:
        """Yield the numbers of lines and of skipped lines, and the tables."""
        raise NotImplementedError


@dataclass(frozen=True)
class RequestLog(TextLog):
    """A log of ``kafka.request.logger`` at level DEBUG: `REQUEST_TABLES` by name.

    For several brokers, ``path`` is a folder with the files of all. ``zone`` is the time zone of
    the log, such as ``Europe/Berlin``: log4j's ``%d`` does not write it. By default it is derived
    from times of collectors; without them, times count as UTC.
    """

    zone: str | None = None
    _zone_sources: set[int] = field(default_factory=set, init=False, compare=False, repr=False)

    _SCHEMAS = REQUEST_TABLES
    _MISSING = (
        "request log",
        "the file that the logger kafka.request.logger writes at DEBUG, or a folder of them",
    )

    @property
    def zone_sources(self) -> frozenset[int]:
        """The sources of the zones of its times, as in `sharelag.wire.requests.lines`."""
        return frozenset(self._zone_sources if self.tables else ())

    @cached_property
    def covers(self) -> tuple[int, int] | None:
        """The first and last moment of the log, in microseconds since 1970; None if it is empty."""
        requests = self.tables["requests"]
        if not requests.num_rows:
            return None
        first = pc.min(requests.column("began")).cast(pa.int64()).as_py()
        return first, pc.max(requests.column("timestamp")).cast(pa.int64()).as_py()

    def _parts(self, piece: Piece) -> Iterator[tuple[int, int, dict[str, pa.RecordBatch]]]:
        for lines in read_requests(piece, self.zone):
            self._zone_sources.update(lines.zone_sources)
            yield lines.total, lines.skipped, tables_of(lines)


def read_requests(piece: Piece, zone: str | None = None) -> Iterator[Lines]:
    """Parse the lines of a piece of a file, some megabytes at a time."""
    for lines, positions, damage in line_blocks(piece):
        if damage:
            yield unread(lines, positions, piece.source, damage)
        else:
            yield read_lines(lines, positions, zone, piece.source)


def lacking_requests(path: Path, counts: LineCounts) -> tuple[str, ...]:
    """Return what answers lack by a request log; InputError if no line could be parsed."""
    if not counts.read and counts.first is not None:
        raise InputError(
            f"none of {pluralize(counts.rejects, 'request')} in {path} could be read "
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
    """Return a noun phrase for the lines of a file of which none could be parsed."""
    every = f"none of {pluralize(counts.total, 'line')} in {path}"
    return every if counts.total else f"{path} has no lines, so none of them"


def lacking_lines(path: Path, counts: LineCounts, name: str = "deliveries") -> tuple[str, ...]:
    """Return sentences on what a table lacks, by the lines of consumers that could not be parsed.

    It is an InputError if there are lines and none could be parsed; for outcomes, which few
    consumers print, if no line announces any.
    """
    if counts.total and not counts.read and (counts.rejects or name == "deliveries"):
        raise InputError(
            f"{_nothing_in(path, counts)} has a delivery or an outcome: "
            "run the console consumer with --formatter-property print.partition=true, the same "
            "for print.offset and print.delivery, and give its --separator here"
        )
    if not are_many(counts.rejects, counts.read):
        return ()
    them = "it" if counts.rejects == 1 else "them"
    lines = pluralize(counts.rejects, "line")
    return (f"{lines} that could not be read; --show rejects has {them}",)


@dataclass(frozen=True)
class ConsumedLog(TextLog):
    """Output of Kafka's consumers, or of a callback that writes the same: `CONSUMED_TABLES`.

    ``separator`` is the ``key.separator`` of the console consumer, by default a tab.
    """

    separator: str = "\t"

    _SCHEMAS = CONSUMED_TABLES
    _MISSING = (
        "output of consumers",
        (
            "a file with what kafka-console-share-consumer.sh or "
            "kafka-verifiable-share-consumer.sh printed"
        ),
    )

    def lacks(self, name: str = "deliveries") -> tuple[str, ...]:
        """Return what a table lacks, in sentences; see `lacking_lines`."""
        return lacking_lines(self.path, self.counts, name)

    def summary(self) -> str:
        """Return a sentence on the number of lines."""
        counts = self.counts
        return (
            f"{pluralize(counts.total, 'line')}: {counts.read:,} with deliveries or outcomes, "
            f"{counts.rejects:,} that could not be read, "
            f"{pluralize(counts.skipped, 'other')} skipped"
        )

    def _parts(self, piece: Piece) -> Iterator[tuple[int, int, dict[str, pa.RecordBatch]]]:
        for one in read_output(piece, self.separator):
            yield one.total, one.skipped, {name: getattr(one, name) for name in CONSUMED_TABLES}


def read_output(piece: Piece, separator: str = "\t") -> Iterator[consumed.Printed]:
    """Parse the lines of a piece of a file, some megabytes at a time."""
    for lines, positions, damage in line_blocks(piece):
        if damage:
            yield consumed.unread(positions, piece.source, damage)
        else:
            yield consumed.read_consumed(unwrap_lines(lines), positions, piece.source, separator)
