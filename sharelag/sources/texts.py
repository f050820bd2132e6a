"""The one place where texts of users are decoded: what PowerShell redirects is often UTF-16.

A mark at the beginning tells the encoding; without one, UTF-16 shows by its NULs, which stand in
every other byte of ASCII and nowhere in UTF-8. Programs that join files leave such marks before any
line, so they are removed there.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Protocol

MARK = "\ufeff"
UTF_8 = "utf-8"
#: By their first bytes; those of UTF-32 begin with those of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_MARKED = re.compile(f"^{MARK}", re.MULTILINE)
#: The prompts of shells: a user and a host, a shell's name, a folder, or a sign alone.
_PROMPT = (
    r"(?:\(\S+\) )?(?:\[?(?:I have no name!|[\w.+-]+)@[\w.-]+"
    r"[^\s$#%>]{0,200}(?: [^\s$#%>]{1,200})? ?"
    r"|(?:ba|da|a|k|z)?sh(?:-[\d.]+)?|[~/]\S{0,200} ?)?[$#%>](?:\s|$)"
)
#: What others write between the lines of a command: loggers, the JVM, kubectl, a shell's prompt,
#: the line below the header of a pasted table, and Excel's about its separator.
OTHERS = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|SLF4J[(:]|log4j:|(?:main )?(?:WARN|INFO|ERROR|DEBUG)\b"
    r"|W(?:ARNING|arning): |NOTE: |Picked up \w+:|(?:OpenJDK|Java HotSpot)\b.* warning: "
    r"|Defaulted container |Unable to use a TTY|PS \S*>|[A-Za-z]:\\\S*>"
    r"|\S{0,200}(?:[$#>] )?\S{0,200}kafka(?:-[a-z]+)+\.(?:sh|bat)\b|[|+:-]+$|sep=.$"
    rf"|command terminated with exit code |(?:Shared c|C)onnection to \S+ closed|{_PROMPT}"
)
#: Bytes that tell the encoding of a file.
SAMPLE = 1 << 12
#: Of UTF-16 one in so many characters is ASCII at least; one side of its pairs has most NULs.
_LEAST_ASCII, _ONE_SIDED = 4, 4


def encoding_of(begin: bytes, otherwise: str = UTF_8) -> str:
    """Return the encoding of a text by its beginning; ``otherwise`` where nothing tells it."""
    for mark, name in _MARKS.items():
        if begin.startswith(mark):
            return name
    sample = begin[:SAMPLE]
    first, second = sample[::2].count(0), sample[1::2].count(0)
    most = max(first, second)
    if not most or most * 2 * _LEAST_ASCII < len(sample) or most < _ONE_SIDED * min(first, second):
        return otherwise
    return "utf-16-le" if second > first else "utf-16-be"


def text_of(octets: bytes, errors: str = "strict", otherwise: str = UTF_8) -> str:
    """Return a text of a user, with line feeds alone at the ends of lines.

    Raises
    ------
    UnicodeDecodeError
        It is not in its encoding, and ``errors`` is ``strict``.
    """
    text = octets.decode(encoding_of(octets, otherwise), errors)
    return _MARKED.sub("", text).replace("\r\n", "\n")


def read_text(path: str | Path, errors: str = "strict", otherwise: str = UTF_8) -> str:
    """Return the text of a user's file; see `text_of`.

    Raises
    ------
    OSError, UnicodeDecodeError
    """
    return text_of(Path(path).read_bytes(), errors, otherwise)


class Octets(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""


class Recoded:
    """A file in another encoding that is read as if it were UTF-8.

    Parameters
    ----------
    file : Octets
    encoding : str
    """

    def __init__(self, file: Octets, encoding: str) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder(encoding)("replace")

    def read(self, size: int) -> bytes:
        """Return what about so many bytes of the file are; nothing at its end."""
        octets = self._file.read(size)
        return self._decoder.decode(octets, not octets).encode()
