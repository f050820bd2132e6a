"""Lines of text files, whole files or pieces of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.sources.files.containers import Rejoined, is_wrapped
from sharelag.sources.files.packed_text import PackedText
from sharelag.sources.texts import (
    MARK,
    SAMPLE,
    UTF_8,
    Octets,
    Recoded,
    encoding_of,
)
from sharelag.tables.words import shell_word

_MARK = MARK.encode()
#: Bytes that are read at once.
_AT_ONCE = 8 << 20
#: How packed files begin, whatever their names are.
_GZIP = b"\x1f\x8b"
_OTHERWISE_PACKED = (b"BZh", b"\x04\x22\x4d\x18", b"\xfd7zXZ", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")
#: Bytes of a line: a request about ten thousand share partitions has a hundredth of it.
MOST_LINE = 64 << 20
#: Of a hundred things, those that may be unreadable in an answer that is called whole.
MOST_REJECTS = 1
#: Bytes that a packed file may become; a large one may become so many times its size. Requests that
#: hardly differ become 60 times as large.
_MOST_PACKED, _MOST_BYTES_A_BYTE = 256 << 20, 250


@dataclass(frozen=True)
class Piece:
    """Lines of a file that begin from one byte on, before another; None: to its end.

    ``source`` is what tables call the file: names alone do not tell files of one folder apart.
    """

    file: str
    begin: int = 0
    end: int | None = None
    source: str = ""


class Block(NamedTuple):
    """Some lines, and the bytes at which they begin; with ``damage`` one that is not whole."""

    lines: pa.Array
    positions: pa.Array
    damage: str = ""


def text_files(path: Path) -> list[Path]:
    """Return the files of a folder, sorted, or the one file; none where there is neither."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file())


def whole_file(path: Path, given: Path) -> Piece:
    """Return a file as one piece, called by its path within the folder that was given."""
    source = path.name if path == given else path.relative_to(given).as_posix()
    return Piece(str(path), source=source)


def pieces_of(path: Path, size: int, given: Path) -> Iterator[Piece]:
    """Yield a file of what was given in pieces of so many bytes.

    A packed one, one in UTF-16 and one of a container runtime are one piece: their lines are only
    known from the beginning on.
    """
    whole = whole_file(path, given)
    with path.open("rb") as file:
        start = file.read(SAMPLE)
    if start.startswith(_GZIP) or encoding_of(start) != UTF_8 or is_wrapped(start):
        yield whole
        return
    length = path.stat().st_size
    for begin in range(0, max(length, 1), size):
        yield replace(whole, begin=begin, end=min(begin + size, length))


def line_blocks(piece: Piece) -> Iterator[Block]:
    """Yield lines of a piece of a file, and the bytes at which they begin, some megabytes at once.

    What a container runtime has cut is put together. Of UTF-16 the bytes are those of the same text
    in UTF-8. A line belongs to the piece in which it begins; what follows the last newline is one,
    too. Where a packed file is cut off or damaged, the last block is what was unpacked behind the
    last newline, with the reason.

    Raises
    ------
    InputError
        Nothing of a packed file can be unpacked, it is packed otherwise than by gzip, or becomes
        more than 250 times as large; or a line is longer than `MOST_LINE`.
    """
    parts, damaged = Rejoined(), None
    for block in _blocks(piece):
        if block.damage:
            damaged = block
        else:
            yield Block(*parts.add(block.lines, block.positions))
    if len((rest := Block(*parts.rest())).lines):
        yield rest
    if damaged:
        yield damaged


def _blocks(piece: Piece) -> Iterator[Block]:
    """Yield lines as they are in the file."""
    with Path(piece.file).open("rb") as opened:
        start = opened.read(SAMPLE)
        opened.seek(0)
        if start.startswith(_OTHERWISE_PACKED):
            raise InputError(f"{piece.file} is packed: unpack it, or pack it with gzip")
        is_packed, encoding = start.startswith(_GZIP), UTF_8
        if piece.end is None and not piece.begin:
            encoding = encoding_of(PackedText(opened).read(SAMPLE) if is_packed else start)
            opened.seek(0)
        packed = PackedText(opened) if is_packed else None
        file: Octets = packed or opened
        if encoding != UTF_8:
            file = Recoded(file, encoding)
        at, rest, read = piece.begin, b"", 0
        most = _most_bytes(piece.file) if packed else None
        if piece.begin:
            # The line that goes on here belongs to the piece before.
            at -= 1
            opened.seek(at)
        is_first = bool(piece.begin)
        while piece.end is None or at < piece.end:
            block = file.read(_AT_ONCE)
            read += len(block)
            if packed and packed.damage and not block:
                yield _damaged(piece.file, read, rest, at, packed.damage)
                return
            if not block and not rest:
                return
            if most is not None and read > most:
                raise InputError(
                    f"{piece.file} becomes more than {most >> 20:,} MiB: nobody writes such a log, "
                    "so it is not read; unpack it and give the file, if you trust it"
                )
            data = rest + block
            if len(rest) > MOST_LINE:
                raise InputError(
                    f"{piece.file} has a line of more than {MOST_LINE >> 20} MiB: give a log with "
                    "a line for each request"
                )
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
                yield Block(lines, positions)
            at, rest = at + whole, data[whole:]


def are_many(rejects: int, read: int) -> bool:
    """Whether an answer is partial without what could not be read: too much was rejected."""
    return 100 * rejects > MOST_REJECTS * (rejects + read)


def tables_of_parts(
    schemas: Mapping[str, pa.Schema], parts: Iterable[tuple[int, int, Mapping[str, pa.RecordBatch]]]
) -> tuple[dict[str, pa.Table], tuple[int, int]]:
    """Put together what was read of parts: their tables, and how many lines there are, and skipped.

    Parameters
    ----------
    schemas : mapping of name to pyarrow.Schema
    parts : iterable of (int, int, mapping of name to pyarrow.RecordBatch)
        Of each part the lines, those that were skipped, and a batch for each schema.
    """
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in schemas}
    count = skipped = 0
    for lines, others, batches in parts:
        count, skipped = count + lines, skipped + others
        for name, batch in batches.items():
            found[name].append(batch)
    tables = {name: pa.Table.from_batches(found[name], each) for name, each in schemas.items()}
    return tables, (count, skipped)


def _most_bytes(name: str) -> int:
    """Return what a packed file may become when it is unpacked."""
    return max(_MOST_PACKED, _MOST_BYTES_A_BYTE * Path(name).stat().st_size)


def _damaged(name: str, read: int, rest: bytes, at: int, why: str) -> Block:
    if not read:
        raise InputError(
            f"cannot unpack {name}: {why}: copy it again, or give what "
            f"`gzip -dc {shell_word(name)}` unpacks of it"
        )
    text = pa.array([rest.decode("utf-8", "replace")])
    return Block(text, pa.array([at]), f"{why}, and what is behind this was not read")


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
    if _MARK in data:
        lines = pc.replace_substring_regex(lines, f"^{MARK}", "")
    return lines, pa.array(begins + at)
