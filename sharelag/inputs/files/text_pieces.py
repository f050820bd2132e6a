"""Lines of text files, read as a whole or in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.inputs.texts import (
    GZIP,
    MARK,
    OTHERWISE_PACKED,
    SAMPLE,
    UTF_8,
    Octets,
    PackedText,
    Recoded,
    encoding_of,
)
from sharelag.tables.words import shell_word
from sharelag.wire.json_rows import json_rows

_MARK = MARK.encode()
#: Bytes per read.
_AT_ONCE = 8 << 20
#: Maximum length of a line in bytes; a request for 10,000 share partitions has a hundredth of it.
MOST_LINE = 64 << 20
#: Maximum unpacked size in bytes, and its ratio to a larger packed size. Requests that hardly
#: differ have a ratio of 60.
_MOST_PACKED, _MOST_BYTES_A_BYTE = 256 << 20, 250


@dataclass(frozen=True)
class Piece:
    """Lines of a file that begin from one byte on and before another (None: at its end).

    ``source`` is the file's name in tables: names alone do not distinguish files of one folder.
    """

    file: str
    begin: int = 0
    end: int | None = None
    source: str = ""


class Block(NamedTuple):
    """Some lines and the bytes at which they begin; with ``damage``, one incomplete line."""

    lines: pa.Array
    positions: pa.Array
    damage: str = ""


def whole_file(path: Path, given: Path) -> Piece:
    """Return a file as one piece, named by its path within the user's folder."""
    source = path.name if path == given else path.relative_to(given).as_posix()
    return Piece(str(path), source=source)


def pieces_of(path: Path, size: int, given: Path) -> Iterator[Piece]:
    """Yield a file in pieces of a given size in bytes.

    A packed file, one in UTF-16, or one of a container runtime is a single piece, because it must
    be read in order.
    """
    whole = whole_file(path, given)
    with path.open("rb") as file:
        start = file.read(SAMPLE)
    if start.startswith(GZIP) or encoding_of(start) != UTF_8 or _IS_WRAPPED.search(start):
        yield whole
        return
    length = path.stat().st_size
    for begin in range(0, max(length, 1), size):
        yield replace(whole, begin=begin, end=min(begin + size, length))


def line_blocks(piece: Piece) -> Iterator[Block]:
    """Yield blocks of some megabytes: lines of a piece, and the bytes at which they begin.

    Lines divided by a container runtime are joined. For UTF-16, positions are those of the same
    text in UTF-8. A line belongs to the piece in which it begins; text after the last newline is a
    line, too. If a packed file is damaged, the last block is the text unpacked after the last
    newline, with the reason. It is an InputError if the file cannot be unpacked at all, becomes
    more than 250 times as large, or has a line longer than `MOST_LINE`.
    """
    waiting, damaged = Block(pa.array([], pa.string()), pa.array([], pa.int64())), None
    for block in _blocks(piece):
        if block.damage:
            damaged = block
            continue
        lines = pa.concat_arrays([waiting.lines, block.lines])
        positions = pa.concat_arrays([waiting.positions, block.positions])
        whole, waiting = _rejoin(Block(lines, positions))
        yield whole
    if len(waiting.lines):
        yield _rejoin(waiting, is_end=True)[0]
    if damaged:
        yield damaged


def _blocks(piece: Piece) -> Iterator[Block]:
    with Path(piece.file).open("rb") as opened:
        start = opened.read(SAMPLE)
        opened.seek(0)
        if start.startswith(OTHERWISE_PACKED):
            raise InputError(f"{piece.file} is compressed: decompress it, or compress it with gzip")
        is_packed, encoding = start.startswith(GZIP), UTF_8
        if piece.end is None and not piece.begin:
            encoding = encoding_of(PackedText(opened).read(SAMPLE) if is_packed else start)
            opened.seek(0)
        packed = PackedText(opened) if is_packed else None
        file: Octets = packed or opened
        if encoding != UTF_8:
            file = Recoded(file, encoding)
        at, rest, read = piece.begin, b"", 0
        most = max(_MOST_PACKED, _MOST_BYTES_A_BYTE * Path(piece.file).stat().st_size)
        if piece.begin:
            # A line that continues here belongs to the previous piece.
            opened.seek(at - 1)
            at += len(_require_short(opened.readline(MOST_LINE + 1), piece.file)) - 1
        while piece.end is None or at < piece.end:
            block = file.read(_AT_ONCE)
            read += len(block)
            if packed and packed.damage and not block:
                if not read:
                    raise InputError(
                        f"cannot unpack {piece.file}: {packed.damage}: copy it again, or give what "
                        f"`gzip -dc {shell_word(piece.file)}` unpacks of it"
                    )
                why = f"{packed.damage}, and what follows was not read"
                yield Block(pa.array([rest.decode("utf-8", "replace")]), pa.array([at]), why)
                return
            if not block and not rest:
                return
            if packed and read > most:
                raise InputError(
                    f"{piece.file} becomes more than {most >> 20:,} MiB: no such log is that "
                    "large, so it is not read; decompress it and give that file, if you trust it"
                )
            data = _require_short(rest, piece.file) + block
            whole = data.rfind(b"\n") + 1 if block else len(data)
            if whole:
                lines, positions = _lines(data[:whole], at)
                if piece.end is not None:
                    mine = pc.less(positions, piece.end)
                    lines, positions = lines.filter(mine), positions.filter(mine)
                yield Block(lines, positions)
            at, rest = at + whole, data[whole:]


def _require_short(line: bytes, name: str) -> bytes:
    if len(line) > MOST_LINE:
        raise InputError(
            f"{name} has a line of more than {MOST_LINE >> 20} MiB: give a log with a line for "
            "each request"
        )
    return line


def _lines(data: bytes, at: int) -> tuple[pa.Array, pa.Array]:
    """Split bytes at newlines; replace bytes that are not UTF-8 by U+FFFD."""
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets == ord("\n"))
    if not len(ends) or ends[-1] != len(octets) - 1:
        ends = np.append(ends, len(octets))
    begins = np.concatenate([[0], ends[:-1] + 1])
    # Arrow's texts end where the next begins, which includes the newline.
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


# ---- lines of container runtimes -----------------------------------------------------------------
# CRI marks a part with P and the last one with F; in Docker's json-file, a line without a line feed
# continues in the next object. Both divide at 16 KiB, and streams may alternate. Docker Compose,
# stern and syslog prefix a program's lines with names of containers and hosts.


_CRI = r"(?s)^(?P<head>\S+ (?P<stream>stdout|stderr) )(?P<tag>[PF])(?::\S*)? (?P<text>[^\r\n]*)"
_DOCKER = (
    r'(?s)^(?P<head>\{"log":\s?")(?P<text>(?:[^"\\]|\\.)*)'
    r'(?P<rest>",\s?"stream":\s?"(?P<stream>\w+)".*)'
)
#: A quick test before lines are parsed.
_MAY_BE = r"^\S+ std(?:out|err) P"
_IS_WRAPPED = re.compile(rb'^(?:\S+ std(?:out|err) [PF][ :]|\{"log":)', re.MULTILINE)
_ENDS = r"(?:^|[^\\])(?:\\\\)*\\n$"
#: Prefix that runtimes and ``kubectl logs --timestamps`` add to a line.
_BEFORE = r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [PF](?::\S*)? )?"
#: Beginnings of the output of Kafka's tools: records, their positions, segments, and the end.
_PRINTED = (
    r'\{\s*"(?:key|reject|timestamp|name)"\s*:|(?:CreateTime|LogAppendTime|Partition|Offset):-?\d'
    r"|NO_TIMESTAMP\t|Dumping |\| offset: \d|Processed a total of "
)
#: A prefix outside of a record or its position, which have brackets or tabs, and a blank.
_LED = rf'^(?:[^{{}}"\r\n\t]*? )??({_PRINTED})'
#: A line of a logger has such a word before any bracket.
LEVEL = r'^[^{}"\r\n]*\b(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b'
_LOG = pa.schema([("log", pa.string())])
#: Maximum number of bytes that may wait for the end of a line.
_MOST_WAITING = 64 << 20


def unwrap_lines(lines: pa.Array) -> pa.Array:
    """Return a program's lines, without additions of its container runtime or others."""
    lines = pc.replace_substring_regex(lines, _BEFORE, "")
    is_logged = pc.match_substring_regex(lines, LEVEL)
    lines = pc.if_else(is_logged, lines, pc.replace_substring_regex(lines, _LED, r"\1"))
    is_docker = pc.starts_with(lines, '{"log":')
    if not pc.any(is_docker).as_py():
        return lines
    rows, good = json_rows(lines.filter(is_docker), _LOG)
    is_read = np.array(is_docker)
    is_read[is_read] = good
    logged = rows.column("log").combine_chunks()
    return pc.replace_with_mask(lines, pa.array(is_read), logged)


def _rejoin(block: Block, is_end: bool = False) -> tuple[Block, Block]:
    """Join parts of lines; return the complete lines, and the parts that wait for their ends."""
    lines, cut = block.lines, len(block.lines)
    may_be = pc.or_(pc.match_substring_regex(lines, _MAY_BE), pc.starts_with(lines, '{"log":'))
    if not pc.any(may_be).as_py():
        return block, Block(lines[cut:], block.positions[cut:])
    cri, docker = (pc.extract_regex(lines, one) for one in (_CRI, _DOCKER))
    has_end = pc.match_substring_regex(pc.struct_field(docker, "text"), _ENDS)
    is_begun = pc.equal(pc.struct_field(cri, "tag"), "P").fill_null(False)
    is_part = np.asarray(pc.or_(is_begun, pc.invert(has_end).fill_null(False)))
    if not is_part.any():
        return block, Block(lines[cut:], block.positions[cut:])
    names = [pc.struct_field(one, "stream").fill_null("") for one in (cri, docker)]
    named = pc.binary_join_element_wise(*names, "/").dictionary_encode()
    stream = named.indices.to_numpy()
    order = np.argsort(stream, kind="stable")
    is_new = np.ones(len(order), bool)
    is_new[1:] = ~is_part[order[:-1]] | (np.diff(stream[order]) != 0)
    begins = np.append(np.flatnonzero(is_new), len(order))
    firsts, lasts = order[begins[:-1]], order[begins[1:] - 1]  # parts of each complete line
    texts = pc.coalesce(pc.struct_field(cri, "text"), pc.struct_field(docker, "text"), lines)
    parts = pa.ListArray.from_arrays(pa.array(begins, pa.int32()), texts.take(pa.array(order)))
    heads = pc.binary_join_element_wise(pc.struct_field(cri, "head"), "F ", "")
    heads = pc.coalesce(heads, pc.struct_field(docker, "head"), "").take(pa.array(firsts))
    rests = pc.coalesce(pc.struct_field(docker, "rest"), "").take(pa.array(firsts))
    whole = pc.binary_join_element_wise(heads, pc.binary_join(parts, ""), rests, "")
    # Hold back everything from the first incomplete line on. At the end, its parts are lines.
    if not is_end:
        cut = int(firsts[is_part[lasts]].min(initial=cut))
        while (across := firsts[(firsts < cut) & (lasts >= cut)]).size:
            cut = int(across.min())
        if lines[cut:].nbytes > _MOST_WAITING:  # their end is not in this file
            cut = len(lines)
    rows = np.argsort(firsts)
    rows = pa.array(rows[firsts[rows] < cut])
    before = Block(whole.take(rows), block.positions.take(pa.array(firsts).take(rows)))
    return before, Block(lines[cut:], block.positions[cut:])
