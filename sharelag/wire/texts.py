"""Texts out of bytes: UTF-8 as Java reads it, and topic ids as Kafka prints them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_ALPHABET = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
#: Characters of a topic id.
TOPIC_ID = 22


def strings(binary: pa.Array) -> pa.Array:
    """Return bytes as texts; U+FFFD replaces those that are not UTF-8."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return _replace_bad_utf8(binary)


def _replace_bad_utf8(binary: pa.Array) -> pa.Array:
    encoded = binary.dictionary_encode()
    texts = [
        None if raw is None else raw.decode("utf-8", "replace")
        for raw in encoded.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.string()).take(encoded.indices)


def base64_ids(ids: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows of 16 bytes as rows of 22 characters of URL-safe base64 without padding."""
    padded = np.zeros((len(ids), 6, 3), np.uint8)
    padded.reshape(len(ids), 18)[:, :16] = ids
    words = padded.astype(np.uint32)
    joined = words[:, :, 0] << 16 | words[:, :, 1] << 8 | words[:, :, 2]
    sixes = np.stack([joined >> shift & 63 for shift in (18, 12, 6, 0)], axis=2)
    return np.ascontiguousarray(_ALPHABET[sixes].reshape(len(ids), 24)[:, :TOPIC_ID])


def topic_ids(ids: NDArray[np.uint8], mask: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return topic ids as texts, null where the mask is False (those have no row in ``ids``)."""
    mask = np.ones(len(ids), bool) if mask is None else mask
    offsets = np.concatenate([[0], TOPIC_ID * np.cumsum(mask)]).astype(np.int32)
    return from_buffers(pa.string(), offsets, base64_ids(ids), mask)


def from_buffers(
    kind: pa.DataType, offsets: NDArray[Any], data: NDArray[Any], mask: NDArray[Any]
) -> pa.Array:
    """Return texts or bytes of Arrow's buffers, null where the mask is False."""
    validity = None if mask.all() else pa.array(mask).buffers()[1]
    return pa.Array.from_buffers(
        kind,
        len(mask),
        [validity, pa.py_buffer(offsets), pa.py_buffer(data)],
        null_count=int((~mask).sum()),
    )
