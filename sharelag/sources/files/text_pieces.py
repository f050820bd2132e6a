"""Lines of text files, whole files or pieces of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Bytes that are read at once.
_AT_ONCE = 8 << 20


@dataclass(frozen=True)
class Piece:
    """Lines of a file that begin from one byte on, before another; None: to its end."""

    file: str
    begin: int = 0
    end: int | None = None


def text_files(path: Path) -> list[Path]:
    """Return the files of a folder, sorted, or the one file; none where there is neither."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file())


def pieces_of(path: Path, size: int) -> Iterator[Piece]:
    """Yield a file in pieces of so many bytes; a packed one is one piece."""
    if path.name.endswith(".gz"):
        yield Piece(str(path))
        return
    length = path.stat().st_size
    for begin in range(0, max(length, 1), size):
        yield Piece(str(path), begin, min(begin + size, length))


def line_blocks(piece: Piece) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield lines of a piece of a file, and the bytes at which they begin, some megabytes at once.

    A line belongs to the piece in which it begins; what follows the last newline is one, too.
    """
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
                yield lines, positions
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
