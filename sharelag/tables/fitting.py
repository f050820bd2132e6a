"""Text tables on a terminal: within its width, the columns people need least given up first.

    wide      GROUP         TOPIC  PARTITION LEADER-EPOCH START-OFFSET LAG
    narrow    GROUP         TOPIC  PARTITION START-OFFSET LAG
    narrower  notificatio… emails PARTITION START-OFFSET LAG

Sentences are wrapped and never cut; what is left out is in ``-o json``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from sharelag.tables.declared import format_of
from sharelag.tables.table import Format
from sharelag.tables.words import MISSING

#: Columns that a narrow terminal does without, the first of them first: rather than long names,
_LEAST = (
    *("leader_epoch", "state_epoch", "snapshot_epoch", "current_leader_epoch", "replicas"),
    *("lost", "coordinator", "assignment_epoch", "group_epoch", "at_this_level"),
    *("range", "default", "jain", "cv", "record_kind", "max_delivery_count", "partial"),
    *("end_offset", "window_complete", "notes", "redelivery_rate", "drain_low_ms"),
    *("drain_high_ms", "oldest_offset", "updates_per_snapshot", "bytes_per_finished"),
    *("tombstones", "updates", "effective_start_offset", "window_end_offset", "lag_reason"),
    *("items", "ratio", "low", "high", "difference_low", "difference_high"),
)
#: and rather than names at all.
_LESS = (
    *("top_share", "needed_from", "snapshots", "topics", "group_coordinator", "type"),
    *("client_host", "leader_epoch_before", "occurrences", "share_partitions", "margin_ms"),
    *("lag_gini", "lag_max_mean", "skipped_unread", "archived", "released", "window_available"),
    *("source", "runs", "start_offset", "leader_id", "drained", "member_hours"),
)
#: Bounds that are given up together.
_BOUNDS = (("low", "high"), ("difference_low", "difference_high"))
#: Characters that a name keeps, and those that it keeps where these are too many.
_SHORTEST_NAME, _SHORTEST = 12, 8
#: Characters of a name for whose sake a column is given up.
_LONG_NAME = 24
#: What may be shortened: names, and lists that other outputs have in full.
_SHORTENED = frozenset({Format.TEXT, Format.LIST, Format.RUNS, Format.DIFFERENCES})
#: Columns of sentences, which are wrapped.
SENTENCES = frozenset(
    {"summary", "why", "advice", "meaning", "hint", "problem", "reason", "about", "verdict"}
)
#: Characters of a sentence that a line has at least.
_SHORTEST_LINE = 24
#: Columns whose values are what a row is about: they are never cut.
_WHOLE = frozenset(
    {"name", "level", "rule", "cause", "drain", "event", "state", "over", "measure", "by"}
    | {"drained", "age_p95_difference"}
)

#: What of a time is finer than a second.
_SECONDS = re.compile(r"\.\d+Z$")

Cells = dict[str, list[str]]


def fit(cells: Cells, names: Mapping[str, str], width: int) -> Cells:
    """Make a table fit a terminal of so many characters a line, where it can.

    ``cells`` have by heading the heading and the texts of its rows, ``names`` the columns. There
    are then fewer columns, shortened names, and sentences with line feeds in them.
    """
    cells = dict(cells)
    cuttable = {
        head
        for head, name in names.items()
        if format_of(name) in _SHORTENED and name not in _WHOLE | SENTENCES
    }

    def excess(most: int = 2**31) -> int:
        taken = 0
        for head, texts in cells.items():
            limit = most if head in cuttable else 2**31
            taken += min(widest(texts), _SHORTEST_LINE if names[head] in SENTENCES else limit)
        return taken + len(cells) - 1 - width

    empty = [head for head, texts in cells.items() if set(texts[1:]) == {MISSING}]
    least, less = (
        [head for name in some for head in cells if names[head] == name] for some in (_LEAST, _LESS)
    )
    for head in [*least[:1], *empty, *least[1:]]:
        if excess(_LONG_NAME) > 0 and len(cells) > 1:
            cells.pop(head, None)
    by_name = {name: head for head, name in names.items()}
    for low, high in _BOUNDS:  # half of an interval misleads
        if by_name.get(low) not in cells:
            cells.pop(by_name.get(high, ""), None)
    if excess(_SHORTEST_NAME) > 0:
        times = [head for head in cells if format_of(names[head]) is Format.TIME]
        cells |= {head: [_SECONDS.sub("Z", text) for text in cells[head]] for head in times}
    for head in less:
        if excess(_SHORTEST) > 0 and len(cells) > 1:
            cells.pop(head, None)
    left = [head for head in cells if head in cuttable]
    for least_of_name in (_SHORTEST_NAME, _SHORTEST):
        while (over := excess()) > 0 and left:
            longest = max(left, key=lambda head: widest(cells[head]))
            others = [widest(cells[head]) for head in left if head != longest]
            now = widest(cells[longest])
            most = max(now - over, min(now - 1, max(others, default=0)), least_of_name)
            if most >= now:
                break
            cells[longest] = [cells[longest][0], *shorten(cells[longest][1:], most)]
            if widest(cells[longest]) >= now:  # its heading is what takes the room
                left.remove(longest)
    return _wrap(cells, names, width)


def widest(texts: list[str]) -> int:
    """Return the width of the widest line of these texts."""
    return max((cells_of(line) for text in texts for line in text.split("\n")), default=0)


def cells_of(text: str) -> int:
    """Return how many places a text takes on a terminal: some characters take two, or none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(texts: list[str], most: int) -> list[str]:
    """Shorten the texts of a column: at the end, or in the middle where that tells more apart."""
    ends = [text if cells_of(text) <= most else f"{_start(text, most - 1)}\u2026" for text in texts]
    head = most // 2
    middles = [
        text
        if cells_of(text) <= most
        else f"{_start(text, head)}\u2026{_start(text[::-1], most - head - 1)[::-1]}"
        for text in texts
    ]
    return middles if len(set(middles)) > len(set(ends)) else ends


def _start(text: str, most: int) -> str:
    """Return as much of the text's start as fits."""
    text = text[:most]
    while cells_of(text) > most:
        text = text[:-1]
    return text


def _wrap(cells: Cells, names: Mapping[str, str], width: int) -> Cells:
    """Wrap sentences into what the other columns leave."""
    wide = [head for head in cells if names[head] in SENTENCES]
    rest = sum(widest(texts) for head, texts in cells.items() if head not in wide)
    left = width - rest - (len(cells) - 1)
    if not wide or sum(widest(cells[head]) for head in wide) <= left:
        return cells
    share = max(left // len(wide), _SHORTEST_LINE)
    return cells | {
        head: ["\n".join(_Wrapper(width=share).wrap(text)) or text for text in cells[head]]
        for head in wide
    }


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines at blanks, and names that are longer than a line behind a dot or a sign."""

    def __init__(self, width: int) -> None:
        super().__init__(width, break_on_hyphens=False)

    def _handle_long_word(
        self, reversed_chunks: list[str], cur_line: list[str], cur_len: int, width: int
    ) -> None:
        word = reversed_chunks[-1]
        end = max(word.rfind(sign, 0, width - cur_len) for sign in ".,=:/-") + 1
        if end > 0:
            cur_line.append(word[:end])
            reversed_chunks[-1] = word[end:]
        elif not cur_line:  # nowhere to break: it is cut
            super()._handle_long_word(reversed_chunks, cur_line, cur_len, width)
