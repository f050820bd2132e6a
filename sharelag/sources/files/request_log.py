"""A broker's log of requests: a file, or a folder with the files that log4j rolled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.schemas.requests import REQUEST_TABLES
from sharelag.wire.requests.lines import Lines, read_lines
from sharelag.wire.requests.tables import tables_of

#: Bytes that are read at once.
_AT_ONCE = 8 << 20


@dataclass(frozen=True)
class Piece:
    """Lines of a file that begin from one byte on, before another; None: to its end."""

    file: str
    begin: int = 0
    end: int | None = None


@dataclass(frozen=True)
class RequestLog:
    """What ``kafka.request.logger`` wrote at DEBUG.

    Parameters
    ----------
    path : pathlib.Path
        A file, or a folder of them; of several brokers, a folder with the files of all. Names that
        end with ``.gz`` are unpacked.
    zone : str
        The time zone of the log, such as ``Europe/Berlin``: log4j's ``%d`` does not tell it.
    """

    path: Path
    zone: str = "UTC"

    @property
    def files(self) -> list[Path]:
        """The files, sorted.

        Raises
        ------
        InputError
            There are none.
        """
        if self.path.is_file():
            return [self.path]
        found = sorted(file for file in self.path.rglob("*") if file.is_file())
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

    @cached_property
    def covers(self) -> tuple[int, int] | None:
        """The first and last moment of the log, in microseconds since 1970; None: it is empty."""
        requests = self.tables["requests"]
        if not requests.num_rows:
            return None
        first = pc.min(requests.column("began")).cast(pa.int64()).as_py()
        return first, pc.max(requests.column("timestamp")).cast(pa.int64()).as_py()

    @cached_property
    def _read(self) -> tuple[dict[str, pa.Table], tuple[int, int]]:
        found: dict[str, list[pa.RecordBatch]] = {name: [] for name in REQUEST_TABLES}
        count = skipped = 0
        for file in self.files:
            for lines in read_piece(Piece(str(file)), self.zone):
                count, skipped = count + lines.total, skipped + lines.skipped
                for name, batch in tables_of(lines).items():
                    found[name].append(batch)
        tables = {
            name: pa.Table.from_batches(found[name], schema)
            for name, schema in REQUEST_TABLES.items()
        }
        return tables, (count, skipped)


def read_piece(piece: Piece, zone: str = "UTC") -> Iterator[Lines]:
    """Yield the lines of a piece of a file, some megabytes at a time.

    A line belongs to the piece in which it begins; what follows the last newline is one, too.
    """
    name = Path(piece.file).name
    # Only a whole file can be one that has to be unpacked.
    with pa.OSFile(piece.file) if piece.begin else pa.input_stream(piece.file) as file:
        at, rest = piece.begin, b""
        if piece.begin:
            # The line that goes on here belongs to the piece before.
            at -= 1
            file.seek(at)
        is_first = bool(piece.begin)
        while piece.end is None or at < piece.end:
            block = file.read(_AT_ONCE)
            if not block and not rest:
                return
            data = rest + block
            if is_first:
                cut = data.find(b"\n") + 1
                if not cut and block:
                    rest = data
                    continue
                at, data, is_first = at + (cut or len(data)), data[cut or len(data) :], False
                if piece.end is not None and at >= piece.end:
                    return
            whole = data.rfind(b"\n") + 1 if block else len(data)
            if whole:
                lines, positions = _lines(data[:whole], at)
                if piece.end is not None:
                    mine = pc.less(positions, piece.end)
                    lines, positions = lines.filter(mine), positions.filter(mine)
                yield read_lines(lines, positions, zone, name)
            at, rest = at + whole, data[whole:]


def _lines(data: bytes, at: int) -> tuple[pa.Array, pa.Array]:
    """Split bytes at newlines; bytes that are not UTF-8 become U+FFFD."""
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets == ord("\n"))
    if not len(ends) or ends[-1] != len(octets) - 1:
        ends = np.append(ends, len(octets))
    begins = np.concatenate([[0], ends[:-1] + 1])
    # The offsets of Arrow end a text where the next begins, with its newline, which no text needs.
    offsets = np.append(begins, min(int(ends[-1]) + 1, len(octets))).astype(np.int32)
    lines = pa.StringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        lines = pa.array(
            [text.decode("utf-8", "replace") for text in data.split(b"\n")[: len(begins)]]
        )
    return lines, pa.array(begins + at)
