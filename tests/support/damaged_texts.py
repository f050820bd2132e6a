"""Bytes of files that people or other programs wrote, damaged: by seed, at random places."""

import random
import re
import struct
from collections.abc import Sequence

#: What stands in the place of a number, a text or a name of the original.
_INSTEAD = [
    b"null", b"true", b"[]", b"{}", b'""', b"-1", b"1e999", b"NaN", b"0.5", b"9" * 25, b"9" * 5000,
    b"2147483648", b"9223372036854775807", b"-9223372036854775809", b'"x"', b'"\\ud800"', b"[1]",
    b'{"a": 1}', b"\xff\xfe", b"\x00", b"\xd9\xa1", b"&a [*a, *a]", b"!!python/object:os.system",
    b"!!bool x", b"!!timestamp x", b"!!int ''",
    b"1" * 400 + b"d", b"[" * 3000, b'{"a":' * 3000, b"\\u12", b"../../etc/passwd", b"0001-01-01",
    b"9999-12-31T23:59:59Z", b"\x1b[2J", b"2026-02-30", b"\n", b"'", b"#",
]  # fmt: skip
_TOKEN = re.compile(rb'"[^"\n]*"|-?\d+(?:\.\d+)?|\w+')

#: Mistakes in texts, and in what programs alone read.
TEXT = ("token", "token", "token", "flip", "cut", "repeat", "insert", "out")
BINARY = ("flip", "cut", "repeat", "insert", "out", "number")


def damaged(data: bytes, chance: random.Random, kinds: Sequence[str] = TEXT) -> bytes:
    """Return the bytes with one to four mistakes of some kinds."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        data = _one(data, chance, kinds)
    return data


def _one(data: bytes, chance: random.Random, kinds: Sequence[str]) -> bytes:
    at = chance.randrange(len(data) + 1)
    match chance.choice(kinds):
        case "token":
            tokens = list(_TOKEN.finditer(data))
            if not tokens:
                return data
            found = chance.choice(tokens)
            other = chance.choice([chance.choice(_INSTEAD), chance.choice(tokens)[0]])
            return data[: found.start()] + other + data[found.end() :]
        case "flip":
            octets = bytearray(data)
            for _ in range(chance.choice([1, 4, 30]) if data else 0):
                octets[chance.randrange(len(octets))] ^= 1 << chance.randrange(8)
            return bytes(octets)
        case "cut":
            return data[:at]
        case "repeat":
            return data[: at + chance.randrange(200)] + data[at:]
        case "insert":
            more = chance.choice([chance.choice(_INSTEAD), chance.randbytes(9)])
            return data[:at] + more + data[at:]
        case "number":
            number = struct.pack(">i", chance.choice([-1, 0, 1 << 30, -(1 << 31)]))
            return data[:at] + number + data[at + 4 :]
        case _:
            return data[:at] + data[at + chance.randrange(100) :]
