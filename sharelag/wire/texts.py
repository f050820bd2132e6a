"""Texts out of bytes: UTF-8 as Java reads it, and topic ids as Kafka prints them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag.tables.arrow import of_distinct

_ALPHABET = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
#: The two characters of every number of twelve bits.
PAIRS = np.stack([np.repeat(_ALPHABET, 64), np.tile(_ALPHABET, 64)], axis=1).view(np.uint16)[:, 0]
#: Characters of a topic id.
TOPIC_ID = 22
#: Offsets of texts that all have one size: the longest so far of each size.
_multiples: dict[int, NDArray[np.int32]] = {}


def multiples(size: int, count: int) -> NDArray[np.int32]:
    """Return ``0, size, 2 * size, ...``: memory that others read too, so do not write to it."""
    known = _multiples.get(size)
    if known is None or len(known) < count:
        known = np.arange(1 << (count - 1).bit_length(), dtype=np.int32) * np.int32(size)
        known.setflags(write=False)
        _multiples[size] = known
    return known[:count]


def strings(binary: pa.Array) -> pa.Array:
    """Return bytes as texts; U+FFFD replaces those that are not UTF-8."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return of_distinct(binary, lambda raw: raw.decode("utf-8", "replace"), pa.string())


def topic_ids(ids: NDArray[np.uint8], mask: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return topic ids as texts, null where the mask is False (those have no row in ``ids``).

    Rows of 16 bytes become 22 characters of URL-safe base64 without padding.
    """
    mask = np.ones(len(ids), bool) if mask is None else mask
    offsets = np.append(0, TOPIC_ID * np.cumsum(mask)).astype(np.int32)
    padded = np.zeros((len(ids), 18), np.uint8)
    padded[:, :16] = ids
    first, second, third = (padded[:, k::3].astype(np.uint16) for k in range(3))
    pairs = np.empty((len(ids), 6, 2), np.uint16)
    pairs[:, :, 0] = PAIRS[first << 4 | second >> 4]
    pairs[:, :, 1] = PAIRS[(second & 15) << 8 | third]
    texts = np.ascontiguousarray(pairs.view(np.uint8).reshape(len(ids), 24)[:, :TOPIC_ID])
    return from_buffers(pa.string(), offsets, texts, mask)


def from_buffers(
    kind: pa.DataType,
    offsets: NDArray[Any],
    data: NDArray[Any],
    mask: NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Return texts or bytes of Arrow's buffers, null where the mask is False."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    if mask is not None and not mask.all():
        buffers[0] = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)
