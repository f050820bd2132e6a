"""Parse the output of Kafka's commands about groups and members.

These are ``kafka-share-groups.sh --list``, ``--list --state`` and ``--describe`` with ``--state``,
``--members`` or ``--offsets``, and ``kafka-groups.sh --list``, alone or in sequence. Each table has
a header, and its rows are aligned with it (``ShareGroupCommand`` pads with blanks to the longest
value), so names may contain blanks. Java counts the length of a name in UTF-16. A name with line
feeds takes several lines: rows of a table show where it ends, but ``kafka-share-groups.sh --list``
does not.

``ShareGroupCommand`` prints a header and aligned columns for each group: LEADER-EPOCH only with
``--verbose``, LAG since Kafka 4.2 (KIP-1226), a dash for unknown values. Topic names have no
blanks but group ids can, so lines are split from the right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.inputs.texts import OTHERS
from sharelag.model import GroupState
from sharelag.schemas import DESCRIBED, GROUP_STATES, MEMBER_ROWS, SHARE

_OFFSET_COLUMNS = {
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
#: Headers of the tables of groups and members.
HEADERS = [
    ["GROUP", "TOPIC", "PARTITION", *epoch, "START-OFFSET", *lag]
    for epoch in ([], ["LEADER-EPOCH"])
    for lag in ([], ["LAG"])
]
#: Pattern of a column name.
HEADING = re.compile(r"\S+(?: \(ID\))?")
_NO_OFFSETS = re.compile(r"Share group '(?P<group>.*)' has no offset information\.")


def parse_offsets(text: str, as_of: datetime | None = None) -> pa.Table:
    """Parse complete output as `sharelag.schemas.DESCRIBED`, in its order.

    ``as_of`` is the time of printing, which the output lacks. Trailing blanks of a group id are
    lost. A line that is neither a header nor a row under one is an InputError.
    """
    return pa.Table.from_pylist(
        [row | {"as_of": as_of} for row in _rows(text.splitlines())], schema=DESCRIBED
    )


def _rows(lines: Iterable[str]) -> Iterable[dict[str, str | int | None]]:
    header: Sequence[str] = ()
    indent = ""  # of the header, and so of its rows
    for number, line in enumerate(lines, 1):
        if not line.strip() or OTHERS.match(line) or _NO_OFFSETS.fullmatch(line.strip()):
            continue
        if line.split() in HEADERS:
            header, indent = line.split(), line[: len(line) - len(line.lstrip())]
            continue
        words = line.removeprefix(indent).rsplit(None, len(header) - 1) if header else []
        if not header or len(words) != len(header) or not all(map(_is_number, header, words)):
            raise InputError(
                f"line {number} has no share group offset: {line[:200]!r}. Give the complete "
                "output of kafka-share-groups.sh --describe --offsets, with its headers"
            )
        pairs = list(zip(header, words, strict=True))
        numbers = {
            name: None if word == "-" else int(word) for name, word in pairs if name not in _TEXTS
        }
        texts = {name: word.rstrip(" ") for name, word in pairs if name in _TEXTS}
        yield {_OFFSET_COLUMNS[name]: value for name, value in (texts | numbers).items()}


def _is_number(name: str, word: str) -> bool:
    if name in _TEXTS or word == "-":
        return True
    is_number = re.fullmatch(r"\d{1,19}", word, re.ASCII) is not None
    return is_number and int(word) <= (_LAST_INT32 if name in _INT32 else _LAST_INT64)


_COLUMNS = {
    "GROUP": "group_id",
    "TYPE": "type",
    "STATE": "state",
    "COORDINATOR (ID)": "coordinator",
    "GROUP-EPOCH": "group_epoch",
    "ASSIGNMENT-EPOCH": "assignment_epoch",
    "#MEMBERS": "members",
    "CONSUMER-ID": "member_id",
    "HOST": "client_host",
    "CLIENT-ID": "client_id",
    "#PARTITIONS": "assigned",
    "MEMBER-EPOCH": "member_epoch",
    "ASSIGNMENT": "assignment",
}
_MEMBER_HEADINGS = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
_STATE_HEADINGS = ["GROUP", "COORDINATOR (ID)", "STATE"]
_HEADERS = [
    ["GROUP", "STATE"],
    ["GROUP", "TYPE", "PROTOCOL"],
    [*_STATE_HEADINGS, "#MEMBERS"],
    [*_STATE_HEADINGS, "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"],
    [*_MEMBER_HEADINGS, "ASSIGNMENT"],
    [*_MEMBER_HEADINGS, "MEMBER-EPOCH", "ASSIGNMENT"],
]
#: A line with two of these words is a header, whatever separates them.
_HEADINGS = {word for one in (*_HEADERS, *HEADERS) for name in one for word in name.split()}
_NUMBERS = {"GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS", "#PARTITIONS", "MEMBER-EPOCH"}
_MAY_BE_EMPTY = {"COORDINATOR (ID)", "CLIENT-ID", "ASSIGNMENT", "PROTOCOL"}
_NO_MEMBERS = re.compile(r"Share group '(?P<group>.*)' has no active members\.")
_ASSIGNMENT = re.compile(r"(?:[\w.-]+:\d+(?:,\d+)*(?:;(?=.)|$))*", re.ASCII)
#: A row whose header is missing, by its blanks; group names have no such blanks.
_IS_ROW = re.compile(r"\S\s{2,}\S|\t")
#: First characters of JSON, markup and quotations, and last ones of sentences, unlike group names.
_NO_NAME, _SENTENCE = ("{", "[", "<", '"', "'"), (".", ":", "!", "?")
#: Text that no name has: control and invisible characters, and those of binary data.
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060\ufeff\ufffd]| \| |^\|")
#: Maximum number of lines of an incomplete row.
_MOST_LINES = 4
_NEEDED = (
    "give the complete output of kafka-share-groups.sh --list or --describe, or of kafka-groups.sh "
    "--list, with its headers"
)

_Row = dict[str, Any]


class Described(NamedTuple):
    """Parsed output, as tables."""

    groups: pa.Table  # GROUP_STATES
    members: pa.Table  # MEMBER_ROWS
    others: tuple[str, ...] = ()  # lines from elsewhere


def parse_groups(text: str) -> Described:
    """Parse the complete output of one or more commands, with headers; ``--list`` has none.

    ``groups`` has one row per group, sorted: `GROUP_STATES`, null where the text has no value. A
    state that share groups do not have is ``Unknown``. ``members`` is `MEMBER_ROWS`, sorted; topic
    ids, subscriptions and racks are not printed. If a group is described twice, the later
    description counts. ``others`` are lines of loggers and shells, and lines that cannot be a group
    name. Any other line is an InputError, and so is an empty text.
    """
    read = _Read()
    for number, line in enumerate(text.split("\n"), 1):
        read.line(number, line.removesuffix("\r"))
    return read.tables()


@dataclass
class _Read:
    groups: dict[str, _Row] = field(default_factory=dict)
    members: dict[tuple[str, str], _Row] = field(default_factory=dict)
    offsets: list[str] = field(default_factory=list)
    header: Mapping[str, slice] = field(default_factory=dict)  # positions of its columns
    is_offsets: bool = False
    pending: list[str] = field(default_factory=list)  # lines of a row whose name has line feeds
    error: InputError | None = None  # for the first of these lines
    others: list[str] = field(default_factory=list)

    def line(self, number: int, line: str) -> None:
        if self.error is not None:
            self._row(number, line)
            return
        if not line.strip():
            return
        if OTHERS.match(line):
            self.others.append(line)
            return
        names = HEADING.findall(line)
        if names in _HEADERS:
            self.header, self.is_offsets = _places(line), False
        elif names[:3] == ["GROUP", "TOPIC", "PARTITION"]:
            self.header, self.is_offsets = {}, True
            self.offsets.append(line)
        elif match := _NO_MEMBERS.fullmatch(line.strip()):
            self._group(match["group"], {"type": SHARE, "members": 0})
        elif match := _NO_OFFSETS.fullmatch(line.strip()):
            nothing = {"topics": 0, "partitions": 0, "unknown_lags": 0}
            self._group(match["group"], {"type": SHARE, **nothing})
        elif self.is_offsets:
            self.offsets.append(line)
        elif self.header:
            self._row(number, line)
        else:
            self._list_line(number, line)

    def tables(self) -> Described:
        if self.error is not None:
            raise self.error
        lags = parse_offsets("\n".join(self.offsets))
        sums = lags.group_by("group_id").aggregate(
            [("topic", "count_distinct"), ("partition", "count"), ("lag", "sum"), ("lag", "count")]
        )
        for group, topics, partitions, lag, known in zip(*sums.columns, strict=True):
            counts = {"topics": topics.as_py(), "partitions": partitions.as_py()}
            unknown = {"unknown_lags": partitions.as_py() - known.as_py(), "lag": lag.as_py()}
            self._group(group.as_py(), {"type": SHARE} | counts | unknown)
        for name, count in Counter(name for name, _ in self.members).items():
            self.groups[name].setdefault("members", count)
        if not self.groups:
            first = f"; another line is {self.others[0][:200]!r}" if self.others else ""
            raise InputError(f"Kafka's command printed no group{first}: {_NEEDED}")
        members = [self.members[key] for key in sorted(self.members)]
        groups = [self.groups[name] for name in sorted(self.groups)]
        return Described(
            pa.Table.from_pylist(groups, schema=GROUP_STATES),
            pa.Table.from_pylist(members, schema=MEMBER_ROWS),
            tuple(self.others),
        )

    def _group(self, group: str, row: _Row) -> None:
        self.groups[group] = self.groups.get(group, {"group_id": group}) | row

    def _list_line(self, number: int, line: str) -> None:
        """Parse a line of ``--list``, which consists of a name."""
        is_header = len(_HEADINGS.intersection(re.split(r"[^\w#()-]+", line))) > 1
        is_error = line.startswith(("Error", "Exception", "Caused by", "Option"))
        if _IS_ROW.search(line) or is_header or is_error:
            raise _wrong(number, line)
        name = line.rstrip(" ")
        is_sentence = ": " in name or (" " in name and name.endswith(_SENTENCE))
        if is_sentence or name.startswith(_NO_NAME) or _NO_TEXT.search(name):
            self.others.append(line)
        else:
            self._group(name, {"type": SHARE})

    def _row(self, number: int, line: str) -> None:
        """Parse a row, which takes several lines if its name has line feeds."""
        self.pending.append(line)
        try:
            self._whole_row(number, "\n".join(self.pending))
        except InputError as error:
            self.error = self.error or error
            if len(self.pending) > _MOST_LINES:
                raise self.error from error
            return
        self.pending, self.error = [], None

    def _whole_row(self, number: int, line: str) -> None:
        row: _Row = {
            _COLUMNS[name]: _value(name, cell, number, line)
            for name, cell in _cells(line, self.header, number).items()
            if name in _COLUMNS
        }
        if "member_id" not in row:
            self._group(row["group_id"], {"type": SHARE} | row)
            return
        count = len(re.findall(r"[:,]", row["assignment"]))
        if not _ASSIGNMENT.fullmatch(row["assignment"]) or count != row["assigned"]:
            raise _wrong(number, line)
        self.members[row["group_id"], row["member_id"]] = row
        self._group(row["group_id"], {"type": SHARE})


def _places(header: str) -> dict[str, slice]:
    """Return the positions of a header's columns in UTF-16 units."""
    found = list(HEADING.finditer(header))
    ends = [*(one.start() for one in found[1:]), None]
    return {one[0]: slice(one.start(), end) for one, end in zip(found, ends, strict=True)}


def _cells(line: str, places: Mapping[str, slice], number: int) -> dict[str, str]:
    octets = line.encode("utf-16-le", "surrogatepass")
    cells = {}
    for name, place in places.items():
        end = None if place.stop is None else 2 * place.stop
        cell = octets[2 * place.start : end].decode("utf-16-le", "replace")
        # A blank precedes the next column, unless the line ends before it.
        if place.stop is not None and len(octets) >= 2 * place.stop and not cell.endswith(" "):
            raise _wrong(number, line)
        cells[name] = cell.rstrip(" ")
        if not cells[name] and name not in _MAY_BE_EMPTY:
            raise _wrong(number, line)
    return cells


def _value(name: str, cell: str, number: int, line: str) -> str | int | None:
    if name == "STATE":
        return str(GroupState.parse(cell))
    if name == "COORDINATOR (ID)":
        return re.sub(r" {2,}\(", " (", cell) or None
    if name not in _NUMBERS:
        return cell
    if cell == "-":
        return None
    if not re.fullmatch(r"-?\d{1,10}", cell, re.ASCII) or abs(int(cell)) > _LAST_INT32:
        raise _wrong(number, line)
    return int(cell)


def _wrong(number: int, line: str) -> InputError:
    return InputError(f"line {number} has no group or member: {line[:200]!r}; {_NEEDED}")


def of_groups(described: Described, groups: Iterable[str]) -> Described:
    """Restrict parsed output to some groups; all if none is named."""
    chosen = pa.array(sorted(groups), pa.string())
    if not len(chosen):
        return described
    groups, members = (
        table.filter(pc.is_in(table.column("group_id"), chosen))
        for table in (described.groups, described.members)
    )
    return Described(groups, members, described.others)
