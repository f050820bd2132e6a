"""What consumers printed: a file of it, or a folder of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sharelag.inputs.files.request_log import LineCounts, lacking_lines
from sharelag.inputs.files.text_pieces import Piece, TextLog, line_blocks, unwrap_lines
from sharelag.schemas import CONSUMED_TABLES
from sharelag.tables.words import counted
from sharelag.wire.consumed import Printed, read_consumed, unread


@dataclass(frozen=True)
class ConsumedLog(TextLog):
    """Output of Kafka's consumers, or of a callback that writes the same: `CONSUMED_TABLES`.

    ``separator`` is the ``key.separator`` that the console consumer was given, by default a tab.
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
        counts = LineCounts.of(self.counted, self.tables["rejects"])
        return lacking_lines(self.path, counts, name)

    def summary(self) -> str:
        """Return how many lines there are, in words."""
        counts = LineCounts.of(self.counted, self.tables["rejects"])
        return (
            f"{counted(counts.total, 'line')}: {counts.read:,} with deliveries or outcomes, "
            f"{counts.rejects:,} that could not be read, {counted(counts.skipped, 'other')} skipped"
        )

    def _parts(self, piece: Piece) -> Iterator[tuple[int, int, dict[str, pa.RecordBatch]]]:
        for one in read_piece(piece, self.separator):
            yield one.total, one.skipped, {name: getattr(one, name) for name in CONSUMED_TABLES}


def read_piece(piece: Piece, separator: str = "\t") -> Iterator[Printed]:
    """Yield the lines of a piece of a file, some megabytes at a time."""
    for lines, positions, damage in line_blocks(piece):
        if damage:
            yield unread(positions, piece.source, damage)
        else:
            yield read_consumed(unwrap_lines(lines), positions, piece.source, separator)
