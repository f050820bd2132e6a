"""Parse the output of ``kafka-share-groups.sh --describe --offsets``.

``ShareGroupCommand`` prints a header and aligned columns for each group: LEADER-EPOCH only with
``--verbose``, LAG since Kafka 4.2 (KIP-1226), a dash for unknown values. Topic names have no
blanks but group ids can, so lines are split from the right.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.schemas.comparisons import DESCRIBED
from sharelag.sources.texts import OTHERS

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
#: Of its tables.
HEADERS = [
    ["GROUP", "TOPIC", "PARTITION", *epoch, "START-OFFSET", *lag]
    for epoch in ([], ["LEADER-EPOCH"])
    for lag in ([], ["LAG"])
]
#: A name of a column.
HEADING = re.compile(r"\S+(?: \(ID\))?")
#: What may stand between the cells of a table that was pasted from a sheet or a page.
_DELIMITERS = ("\t", "|", ",", ";")
_NOTHING = re.compile(r"Share group '.*' has no offset information\.")


@dataclass
class Table:
    """The lines of a text as a command prints them, whatever was done to it since.

    A header tells how its rows are indented, and what stands between their cells.
    """

    headers: Sequence[Sequence[str]]
    indent: str = ""
    delimiter: str = ""

    def plain(self, line: str) -> str:
        """Return a line without what the header before it is indented by; note how a header is."""
        if line.lstrip(' "|').startswith("GROUP"):
            delimiters = [one for one in _DELIMITERS if _cells(line, one) in self.headers]
            if delimiters or HEADING.findall(line) in self.headers:
                self.delimiter = "".join(delimiters)
                self.indent = "" if delimiters else line[: len(line) - len(line.lstrip())]
        return line.removeprefix(self.indent)

    def cells(self, line: str) -> list[str] | None:
        """Return the cells of a line of a pasted table; None where there is none."""
        found = self.delimiter and self.delimiter in line
        return _cells(line, self.delimiter) if found else None


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == "|":
        line = line.strip().removeprefix("|").removesuffix("|")
    try:
        return [cell.strip() for row in csv.reader([line], delimiter=delimiter) for cell in row]
    except csv.Error:
        return []


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
    table = Table(HEADERS)
    for number, found in enumerate(lines, 1):
        line = table.plain(found)
        if not line.strip() or OTHERS.match(line) or _NOTHING.fullmatch(line.strip()):
            continue
        cells = table.cells(line)
        if (cells or line.split()) in HEADERS:
            header = cells or line.split()
            continue
        words = cells or (line.rsplit(None, len(header) - 1) if header else [])
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
