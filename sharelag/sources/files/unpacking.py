"""Record batches of a segment that anybody may have damaged, or packed to fill the memory."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sharelag.errors import InputError

if TYPE_CHECKING:
    from kafka.record.default_records import DefaultRecordBatch

#: Bytes of the records of a batch without compression. A coordinator writes batches of at most
#: ``max.message.bytes``, a megabyte by default, before they are compressed.
MOST_BYTES = 64 << 20
#: Bytes of the header of a batch, which is never compressed.
_HEADER = 61
_AT_ONCE = 1 << 20
_XERIAL = b"\x82SNAPPY\x00"


def records_in(
    batch: DefaultRecordBatch, octets: bytes, what: str, unpack: bool = True
) -> list[Any]:
    """Return the records of a batch.

    Parameters
    ----------
    batch : kafka.record.DefaultRecordBatch
    octets : bytes
        Those that the batch was read from, with its header.
    what : str
        What messages call it: the file and where in it the batch is.
    unpack : bool
        Without it, only the checksum is looked at, and there are no records.

    Raises
    ------
    InputError
        When its checksum is wrong, its bytes are not records, or there are more than `MOST_BYTES`
        of them without compression.
    """
    try:
        if not batch.validate_crc():
            raise InputError(f"{what} is corrupt (wrong checksum)")
        if not unpack:
            return []
        if batch.compression_type and _is_too_large(batch, octets):
            raise InputError(
                f"{what} has more than {MOST_BYTES >> 20} MiB without compression: no coordinator "
                "writes that, so it is not read"
            )
        return list(batch)
    except InputError:
        raise
    except Exception as error:  # each codec has its own, and not all have a class in common
        raise InputError(f"{what} cannot be read ({error or type(error).__name__})") from error


def _is_too_large(batch: DefaultRecordBatch, octets: bytes) -> bool:
    sizes = _SIZES.get(batch.compression_type)
    total = 0
    # Of a codec that there is not, the batch itself says so.
    for size in sizes(octets[_HEADER:]) if sizes else ():
        total += size
        if total > MOST_BYTES:
            return True
    return False


# ---- sizes of what is packed, some at a time, without keeping it ---------------------------------


def _gzip(packed: bytes) -> Iterator[int]:
    while packed:
        reader = zlib.decompressobj(wbits=31)
        while packed and not reader.eof:
            yield len(reader.decompress(packed, _AT_ONCE))
            packed = reader.unconsumed_tail
        packed = reader.unused_data.lstrip(b"\0")


def _lz4(packed: bytes) -> Iterator[int]:
    from lz4.frame import LZ4FrameDecompressor

    reader = LZ4FrameDecompressor()
    yield len(reader.decompress(packed, _AT_ONCE))
    while not reader.eof and not reader.needs_input:
        yield len(reader.decompress(b"", _AT_ONCE))


def _zstd(packed: bytes) -> Iterator[int]:
    from zstandard import ZstdDecompressor

    with ZstdDecompressor(max_window_size=MOST_BYTES).stream_reader(
        io.BytesIO(packed), read_across_frames=True
    ) as reader:
        while found := reader.read(_AT_ONCE):
            yield len(found)


def _snappy(packed: bytes) -> Iterator[int]:
    """Yield the sizes that blocks say, which snappy holds them to."""
    if not packed.startswith(_XERIAL):
        yield _varint(packed, 0)
        return
    at = 16
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        if size <= 0:
            raise ValueError("a block of snappy without bytes")
        yield _varint(packed, at + 4)
        at += 4 + size


def _varint(octets: bytes, at: int) -> int:
    value = 0
    for n, octet in enumerate(octets[at : at + 5]):
        value |= (octet & 0x7F) << 7 * n
        if octet < 0x80:
            return value
    raise ValueError("a block of snappy without a size")


#: By the number that Kafka has for the codec.
_SIZES: dict[int, Callable[[bytes], Iterator[int]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
