"""Parse the output of ``kafka-share-groups.sh --describe --offsets``.

``ShareGroupCommand`` prints a header and aligned columns for each group: LEADER-EPOCH only with
``--verbose``, LAG since Kafka 4.2 (KIP-1226), a dash for unknown values. Topic names have no
blanks but group ids can, so lines are split from the right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.schemas.comparisons import DESCRIBED

_COLUMNS = {
    "GROUP": "group_id",
    "TOPIC": "topic",
    "PARTITION": "partition",
    "LEADER-EPOCH": "leader_epoch",
    "START-OFFSET": "start_offset",
    "LAG": "lag",
}
_TEXTS = {"GROUP", "TOPIC"}
_INT32 = {"PARTITION", "LEADER-EPOCH"}
_LAST_INT32, _LAST_INT64 = (1 << 31) - 1, (1 << 63) - 1
_HEADERS = [
    ["GROUP", "TOPIC", "PARTITION", *epoch, "START-OFFSET", *lag]
    for epoch in ([], ["LEADER-EPOCH"])
    for lag in ([], ["LAG"])
]
_NOTHING = re.compile(r"Share group '.*' has no offset information\.")


def described_offsets(text: str, as_of: datetime | None = None) -> pa.Table:
    """Parse the rows of one or more groups.

    Parameters
    ----------
    text : str
        The complete output, with headers.
    as_of : datetime, optional
        When it was printed; the output does not include it.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.comparisons.DESCRIBED`, in the order of the lines. Blanks at the end of a
        group id are lost, since the command pads with blanks.

    Raises
    ------
    InputError
        A line is neither a header nor a row under one, such as an error message of the command.
    """
    return pa.Table.from_pylist(
        [row | {"as_of": as_of} for row in _rows(text.splitlines())], schema=DESCRIBED
    )


def _rows(lines: Iterable[str]) -> Iterable[dict[str, str | int | None]]:
    header: Sequence[str] | None = None
    for number, line in enumerate(lines, 1):
        if not line.strip() or _NOTHING.fullmatch(line.strip()):
            continue
        if line.split() in _HEADERS:
            header = line.split()
            continue
        words = line.rsplit(None, len(header) - 1) if header else []
        if not header or len(words) != len(header) or not all(map(_is_number, header, words)):
            raise InputError(
                f"line {number} has no share group offset: {line[:200]!r}. Give the complete "
                "output of kafka-share-groups.sh --describe --offsets, with its headers"
            )
        yield {_COLUMNS[name]: _value(name, word) for name, word in zip(header, words, strict=True)}


def _is_number(name: str, word: str) -> bool:
    """Whether a word of a column is a number that Kafka has there, or the dash for none."""
    if name in _TEXTS or word == "-":
        return True
    is_number = re.fullmatch(r"\d{1,19}", word, re.ASCII) is not None
    return is_number and int(word) <= (_LAST_INT32 if name in _INT32 else _LAST_INT64)


def _value(name: str, word: str) -> str | int | None:
    if name in _TEXTS:
        return word.rstrip(" ")
    return None if word == "-" else int(word)
