"""What is said about one column: how its values read, what they mean, and its heading."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Format(Enum):
    """How values read; the value is the unit, where there is one."""

    unit: str

    TEXT = ("text", "")
    FLAG = ("flag", "")
    TIME = ("time", "UTC")
    DURATION = ("duration", "ms")
    ORDINAL = ("ordinal", "")  # partitions and epochs: no separators between thousands
    COUNT = ("count", "")
    OFFSET = ("offset", "offset")  # a place in a log
    OFFSETS = ("offsets", "offsets")  # how many of them
    BYTES = ("bytes", "bytes")
    RATE = ("rate", "1/s")
    RATIO = ("ratio", "")
    LIST = ("list", "")
    RUNS = ("runs", "")  # offsets with their state and delivery count
    DIFFERENCES = ("differences", "")  # why two numbers of one row differ

    def __new__(cls, word: str, unit: str) -> Format:
        """Keep the unit beside the word."""
        made = object.__new__(cls)
        made._value_ = word
        made.unit = unit
        return made


class Column(NamedTuple):
    """One column, whichever table it is in."""

    format: Format
    #: In people's words; ``null`` is what is not known.
    meaning: str
    #: On a terminal, where it is not the name in capitals.
    heading: str = ""
