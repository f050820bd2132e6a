"""Decode users' texts: output that PowerShell redirects is often UTF-16.

A byte order mark determines the encoding; without one, UTF-16 is recognised by NULs in every other
byte of ASCII, which UTF-8 does not have. Programs that concatenate files leave such marks before
any line; they are removed there.
"""

from __future__ import annotations

import codecs
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from sharelag.errors import InputError

MARK = "\ufeff"
UTF_8 = "utf-8"
#: Encodings by byte order mark; those of UTF-32 begin with those of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_MARKED = re.compile(f"^{MARK}", re.MULTILINE)
#: Shell prompts: a user and a host, a shell's name, a folder, or a single sign.
_PROMPT = (
    r"(?:\(\S+\) )?(?:\[?(?:I have no name!|[\w.+-]+)@[\w.-]+"
    r"[^\s$#%>]{0,200}(?: [^\s$#%>]{1,200})? ?"
    r"|(?:ba|da|a|k|z)?sh(?:-[\d.]+)?|[~/]\S{0,200} ?)?[$#%>](?:\s|$)"
)
#: Lines of other origin in a command's output: loggers, the JVM, kubectl, a shell's prompt, and the
#: line below the header of another program's table.
OTHERS = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|SLF4J[(:]|log4j:|(?:main )?(?:WARN|INFO|ERROR|DEBUG)\b"
    r"|W(?:ARNING|arning): |NOTE: |Picked up \w+:|(?:OpenJDK|Java HotSpot)\b.* warning: "
    r"|Defaulted container |Unable to use a TTY|PS \S*>|[A-Za-z]:\\\S*>"
    r"|\S{0,200}(?:[$#>] )?\S{0,200}kafka(?:-[a-z]+)+\.(?:sh|bat)\b|[|+:-]+$"
    rf"|command terminated with exit code |(?:Shared c|C)onnection to \S+ closed|{_PROMPT}"
)
#: First bytes of packed files, whatever their names are.
GZIP = b"\x1f\x8b"
OTHERWISE_PACKED = (
    *(b"BZh%d1AY&SY" % level for level in range(1, 10)),
    *(b"\x04\x22\x4d\x18", b"\xfd7zXZ", b"PK\x03\x04", b"\x28\xb5\x2f\xfd"),
)
#: Number of bytes that determine the encoding of a file.
SAMPLE = 1 << 12
#: Detect UTF-16 if one of 4 characters is ASCII, and one side of the byte pairs has 4 times as many
#: NULs.
_LEAST_ASCII, _ONE_SIDED = 4, 4


def encoding_of(begin: bytes, otherwise: str = UTF_8) -> str:
    """Detect the encoding of a text from its beginning; ``otherwise`` is the default."""
    for mark, name in _MARKS.items():
        if begin.startswith(mark):
            return name
    sample = begin[:SAMPLE]
    first, second = sample[::2].count(0), sample[1::2].count(0)
    most = max(first, second)
    if not most or most * 2 * _LEAST_ASCII < len(sample) or most < _ONE_SIDED * min(first, second):
        return otherwise
    return "utf-16-le" if second > first else "utf-16-be"


def text_of(
    octets: bytes, errors: str = "strict", otherwise: str = UTF_8, name: object = "the text"
) -> str:
    """Decode a user's text, with line feeds only at the ends of lines.

    Invalid text in its encoding is a UnicodeDecodeError if ``errors`` is ``strict``. A packed text
    is an InputError with its ``name``.
    """
    if octets.startswith((GZIP, *OTHERWISE_PACKED)):
        raise InputError(f"{name} is compressed: decompress it first")
    text = octets.decode(encoding_of(octets, otherwise), errors)
    return _MARKED.sub("", text).replace("\r\n", "\n")


def read_text(path: str | Path, errors: str = "strict", otherwise: str = UTF_8) -> str:
    """Read and decode a user's file; see `text_of`."""
    return text_of(Path(path).read_bytes(), errors, otherwise, path)


class Octets(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; none at the end."""


class Recoded:
    """A file in another encoding, read as UTF-8."""

    def __init__(self, file: Octets, encoding: str) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder(encoding)("replace")

    def read(self, size: int) -> bytes:
        """Return the content of about ``size`` bytes of the file; none at its end."""
        octets = self._file.read(size)
        return self._decoder.decode(octets, not octets).encode()


# ---- packed texts --------------------------------------------------------------------------------


#: Bytes per read of the file.
_AT_ONCE = 1 << 16
#: For zlib: with the header of gzip.
_OF_GZIP = 31


class PackedText:
    """A packed file, read as unpacked; ``damage`` is the reason if it ends too early."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._packed = b""
        self._reader: zlib._Decompress | None = None  # None: between two members
        self.damage = ""

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes; fewer only at the end, or at the damage."""
        found, left = [], size
        while left and not self.damage and self._has_more():
            part = self._unpack(left)
            found.append(part)
            left -= len(part)
        return b"".join(found)

    def _has_more(self) -> bool:
        """Read on if the buffer is empty; record a premature end within a member."""
        if not self._packed:
            self._packed = self._file.read(_AT_ONCE)
        if self._reader is None:  # some tools fill the last block with zeros
            while self._packed and not self._packed.strip(b"\0"):
                self._packed = self._file.read(_AT_ONCE)
            self._packed = self._packed.lstrip(b"\0")
        if self._packed:
            return True
        if self._reader is not None:
            self.damage = "it is cut off"
        return False

    def _unpack(self, size: int) -> bytes:
        reader = self._reader or zlib.decompressobj(_OF_GZIP)
        before = reader.copy()
        try:
            part = reader.decompress(self._packed, size)
        except zlib.error as error:
            self.damage = f"it is damaged: {error}"
            return _until_it_fails(before, self._packed)
        self._packed = reader.unused_data if reader.eof else reader.unconsumed_tail
        self._reader = None if reader.eof else reader
        return part


def _until_it_fails(reader: zlib._Decompress, packed: bytes) -> bytes:
    """Unpack byte by byte, so that nothing before the damage is lost."""
    found = bytearray()
    with suppress(zlib.error):  # the known damage
        for at in range(len(packed)):
            found += reader.decompress(packed[at : at + 1])
    return bytes(found)
