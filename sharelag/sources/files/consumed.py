"""What consumers printed: a file of it, or a folder of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.schemas.consumed import CONSUMED_TABLES
from sharelag.sources.files.containers import written
from sharelag.sources.files.text_pieces import (
    Piece,
    line_blocks,
    tables_of_parts,
    text_files,
    whole_file,
)
from sharelag.sources.files.unread_lines import LineCounts, lacking_lines
from sharelag.tables.words import counted
from sharelag.wire.consumed import Printed, read_consumed, unread


@dataclass(frozen=True)
class ConsumedLog:
    r"""Output of Kafka's consumers, or of a callback that writes the same lines.

    Parameters
    ----------
    path : pathlib.Path
        A file, or a folder of them. Names that end with ``.gz`` are unpacked.
    separator : str
        The ``key.separator`` that the console consumer was given; ``\t`` is its default.
    """

    path: Path
    separator: str = "\t"

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
                f"no output of consumers at {self.path}: give a file with what "
                "kafka-console-share-consumer.sh or kafka-verifiable-share-consumer.sh printed"
            )
        return found

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """`CONSUMED_TABLES` by name, in the order of the files and their lines."""
        return self._read[0]

    @cached_property
    def counted(self) -> tuple[int, int]:
        """How many lines there are, and how many of them say neither of both."""
        return self._read[1]

    def lacks(self, name: str = "deliveries") -> tuple[str, ...]:
        """Return what a table lacks, in sentences: many lines that could not be read.

        Raises
        ------
        InputError
            There are lines, and no line could be read; of outcomes, which few consumers print, no
            line that says that it has some.
        """
        counts = LineCounts.of(self.counted, self.tables["rejects"])
        return lacking_lines(self.path, counts, name)

    def summary(self) -> str:
        """Return how many lines there are, in words."""
        count, skipped = self.counted
        rejects = self.tables["rejects"].num_rows
        return (
            f"{counted(count, 'line')}: {count - skipped - rejects:,} with deliveries or outcomes, "
            f"{rejects:,} that could not be read, {counted(skipped, 'other')} skipped"
        )

    @cached_property
    def _read(self) -> tuple[dict[str, pa.Table], tuple[int, int]]:
        parts = (
            (one.total, one.skipped, {name: getattr(one, name) for name in CONSUMED_TABLES})
            for file in self.files
            for one in read_piece(whole_file(file, self.path), self.separator)
        )
        return tables_of_parts(CONSUMED_TABLES, parts)


def read_piece(piece: Piece, separator: str = "\t") -> Iterator[Printed]:
    """Yield the lines of a piece of a file, some megabytes at a time."""
    for lines, positions, damage in line_blocks(piece):
        if damage:
            yield unread(positions, piece.source, damage)
        else:
            yield read_consumed(written(lines), positions, piece.source, separator)
