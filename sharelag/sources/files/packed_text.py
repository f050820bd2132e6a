"""A text that gzip packed, as far as it can be unpacked."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import BinaryIO

#: Bytes of the file that are read at once.
_AT_ONCE = 1 << 16
_GZIP = 31


class PackedText:
    """A packed file that is read like another one; ``damage`` says why it ends too early.

    Parameters
    ----------
    file : binary file
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._packed = b""
        self._reader: zlib._Decompress | None = None  # None: between two members
        self.damage = ""

    def read(self, size: int) -> bytes:
        """Return at most so many bytes; fewer only at the end, or at the damage."""
        found, left = [], size
        while left and not self.damage and self._has_more():
            part = self._unpacked(left)
            found.append(part)
            left -= len(part)
        return b"".join(found)

    def _has_more(self) -> bool:
        """Read on where nothing is left; note an end within a member."""
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

    def _unpacked(self, size: int) -> bytes:
        reader = self._reader or zlib.decompressobj(_GZIP)
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
    with suppress(zlib.error):  # that of the damage, which is known
        for at in range(len(packed)):
            found += reader.decompress(packed[at : at + 1])
    return bytes(found)
