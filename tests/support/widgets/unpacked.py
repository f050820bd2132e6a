"""The other side of `columns.pack`, written independently: what a browser reads."""

import gzip
import json
import struct
from typing import Any

_LETTERS = {"f64": "d", "i32": "i", "u32": "I", "u16": "H", "u8": "B"}


def unpacked(data: bytes) -> dict[str, list[Any]]:
    """Columns as plain values; texts in place of their codes, None for what is not known."""
    assert data[:4] == b"SLC1"
    body = gzip.decompress(data[8:]) if data[4] else data[8:]
    (length,) = struct.unpack_from("<I", body)
    columns = {}
    for entry in json.loads(body[4 : 4 + length]):
        letter = _LETTERS[entry["type"]]
        assert entry["at"] % 8 == 0  # a typed array cannot lie elsewhere
        values = struct.unpack_from(f"<{entry['length']}{letter}", body, entry["at"])
        texts = entry.get("texts")
        columns[entry["name"]] = [
            (None if v < 0 else texts[v]) if texts is not None else None if v != v else v
            for v in values
        ]
    return columns
