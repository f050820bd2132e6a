"""A broker's log of requests: a file, or a folder with the files that log4j rolled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.schemas.requests import REQUEST_TABLES
from sharelag.sources.files.text_pieces import (
    Piece,
    line_blocks,
    tables_of_parts,
    text_files,
    whole_file,
)
from sharelag.wire.requests.lines import Lines, read_lines, unread
from sharelag.wire.requests.tables import tables_of


@dataclass(frozen=True)
class RequestLog:
    """What ``kafka.request.logger`` wrote at DEBUG.

    Parameters
    ----------
    path : pathlib.Path
        A file, or a folder of them; of several brokers, a folder with the files of all. Names that
        end with ``.gz`` are unpacked.
    zone : str, optional
        The time zone of the log, such as ``Europe/Berlin``: log4j's ``%d`` does not tell it.
        Without it, times of collectors tell it; where they do not, times count as UTC.
    """

    path: Path
    zone: str | None = None

    @property
    def files(self) -> list[Path]:
        """The files, sorted.

        Raises
        ------
        InputError
            There are none.
        """
        found = text_files(self.path)
        if not found:
            raise InputError(
                f"no log of requests at {self.path}: give the file that the logger "
                "kafka.request.logger writes at DEBUG, or a folder of them"
            )
        return found

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """`REQUEST_TABLES` by name, in the order of the files and their lines."""
        return self._read[0]

    @cached_property
    def counted(self) -> tuple[int, int]:
        """How many lines there are, and how many of them are not about share groups."""
        return self._read[1]

    @property
    def told_by(self) -> frozenset[int]:
        """What tells the zones of its times: `sharelag.wire.requests.times`."""
        return self._read[2]

    @cached_property
    def covers(self) -> tuple[int, int] | None:
        """The first and last moment of the log, in microseconds since 1970; None: it is empty."""
        requests = self.tables["requests"]
        if not requests.num_rows:
            return None
        first = pc.min(requests.column("began")).cast(pa.int64()).as_py()
        return first, pc.max(requests.column("timestamp")).cast(pa.int64()).as_py()

    @cached_property
    def _read(self) -> tuple[dict[str, pa.Table], tuple[int, int], frozenset[int]]:
        told_by = set[int]()

        def parts() -> Iterator[tuple[int, int, dict[str, pa.RecordBatch]]]:
            for file in self.files:
                for lines in read_piece(whole_file(file, self.path), self.zone):
                    told_by.update(lines.told_by)
                    yield lines.total, lines.skipped, tables_of(lines)

        tables, counted = tables_of_parts(REQUEST_TABLES, parts())
        return tables, counted, frozenset(told_by)


def read_piece(piece: Piece, zone: str | None = None) -> Iterator[Lines]:
    """Yield the lines of a piece of a file, some megabytes at a time."""
    for lines, positions, damage in line_blocks(piece):
        if damage:
            yield unread(lines, positions, piece.source, damage)
        else:
            yield read_lines(lines, positions, zone, piece.source)
