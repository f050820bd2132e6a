"""Rows as text: tables for people, JSON lines, YAML or CSV.

Group and topic names are hostile text: control characters are escaped before they reach a terminal,
in JSON and YAML by their own escapes, which programs read back as the same name, and cells that a
spreadsheet would run as a formula are quoted.

On a terminal a table is made to fit the width: the least important columns are dropped first.

    wide      GROUP         TOPIC  PARTITION LEADER-EPOCH START-OFFSET LAG
    narrow    GROUP         TOPIC  PARTITION START-OFFSET LAG
    narrower  notificatio… emails PARTITION START-OFFSET LAG

Sentences are wrapped and never truncated; ``-o json`` has everything that is left out.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from sharelag.durations import duration
from sharelag.model import UNINITIALIZED_START_OFFSET, DeliveryState, iso
from sharelag.tables.conform import Arrow
from sharelag.tables.declared import format_of, heading_of
from sharelag.tables.level import embolden, paint
from sharelag.tables.table import Format
from sharelag.tables.words import MEASURES, MISSING, lag_sum, number, shown_name, terminal

#: Columns to drop on a narrow terminal, first ones first: before long names are shortened,
_LEAST = (
    *("leader_epoch", "state_epoch", "snapshot_epoch", "current_leader_epoch", "replicas"),
    *("lost", "coordinator", "assignment_epoch", "group_epoch", "at_this_level"),
    *("range", "default", "jain", "cv", "record_kind", "max_delivery_count", "partial"),
    *("end_offset", "window_complete", "notes", "redelivery_rate", "drain_low_ms"),
    *("drain_high_ms", "oldest_offset", "updates_per_snapshot", "bytes_per_finished"),
    *("tombstones", "updates", "effective_start_offset", "window_end_offset", "lag_reason"),
    *("items", "ratio", "low", "high", "difference_low", "difference_high"),
)
#: and before names are shortened at all.
_LESS = (
    *("top_share", "needed_from", "snapshots", "topics", "group_coordinator", "type"),
    *("client_host", "leader_epoch_before", "occurrences", "share_partitions", "margin_ms"),
    *("lag_gini", "lag_max_mean", "skipped_unread", "archived", "released", "window_available"),
    *("source", "runs", "start_offset", "leader_id", "drained", "member_hours"),
)
#: Bounds that are dropped together.
_BOUNDS = (("low", "high"), ("difference_low", "difference_high"))
#: Minimum lengths of shortened names: preferred, and if there are too many.
_SHORTEST_NAME, _SHORTEST = 12, 8
#: Length of names that are worth dropping a column.
_LONG_NAME = 24
#: Formats that may be shortened: names, and lists that other outputs have in full.
_SHORTENED = frozenset({Format.TEXT, Format.LIST, Format.RUNS, Format.DIFFERENCES})
#: Columns of sentences, which are wrapped.
SENTENCES = frozenset(
    {"summary", "why", "advice", "meaning", "hint", "problem", "reason", "about", "verdict"}
)
#: Minimum width of a column of sentences.
_SHORTEST_LINE = 24
#: Columns that identify a row: they are never truncated.
_WHOLE = frozenset(
    {"name", "level", "rule", "cause", "drain", "event", "state", "over", "measure", "by"}
    | {"drained", "age_p95_difference"}
)

#: Fractions of a second in a time.
_SECONDS = re.compile(r"\.\d+Z$")

Cells = dict[str, list[str]]


def fit(cells: Cells, names: Mapping[str, str], width: int) -> Cells:
    """Make a table fit a terminal of a given width, if possible.

    ``cells`` has by heading the heading and the texts of its rows, ``names`` the columns. The
    result may have fewer columns, shortened names, and sentences with line feeds.
    """
    cells = dict(cells)
    short = {head for head, name in names.items() if format_of(name) in _SHORTENED}
    cuttable = {head for head in short if names[head] not in _WHOLE | SENTENCES}

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
            if widest(cells[longest]) >= now:  # the heading is the widest cell
                left.remove(longest)
    return _wrap(cells, names, width)


def widest(texts: list[str]) -> int:
    """Return the width of the widest line of these texts."""
    return max((cells_of(line) for text in texts for line in text.split("\n")), default=0)


def cells_of(text: str) -> int:
    """Return the width of a text on a terminal: some characters take two cells, or none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(texts: list[str], most: int) -> list[str]:
    """Shorten the texts of a column, at the end or, if that keeps more distinct, in the middle."""
    ends, middles, head = list(texts), list(texts), most // 2
    for at, text in enumerate(texts):
        if cells_of(text) > most:
            ends[at] = f"{_start(text, most - 1)}\u2026"
            end = _start(text[::-1], most - head - 1)[::-1]
            middles[at] = f"{_start(text, head)}\u2026{end}"
    return middles if len(set(middles)) > len(set(ends)) else ends


def _start(text: str, most: int) -> str:
    """Return the longest beginning of a text that fits."""
    text = text[:most]
    while cells_of(text) > most:
        text = text[:-1]
    return text


def _wrap(cells: Cells, names: Mapping[str, str], width: int) -> Cells:
    """Wrap sentences into the width that other columns leave."""
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
    """Breaks lines at blanks, and names longer than a line after a dot or a sign."""

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
        elif not cur_line:  # no place to break
            super()._handle_long_word(reversed_chunks, cur_line, cur_len, width)


#: Kafka's numbers for unknown values.
_UNKNOWN = {"start_offset": UNINITIALIZED_START_OFFSET, "state_epoch": -1, "leader_epoch": -1}

#: Formats of numbers, which are right-aligned.
_NUMBERS = frozenset(
    {
        *(Format.DURATION, Format.ORDINAL, Format.COUNT, Format.OFFSET, Format.OFFSETS),
        *(Format.BYTES, Format.RATE, Format.RATIO),
    }
)
#: Columns of levels, which are coloured.
_LEVELS = frozenset({"level", "severity"})
#: Columns of names with arbitrary characters: different names must look different.
_NAMES = frozenset(
    {"group_id", "entity", "resource", "member_id", "client_id", "rack_id", "leader_rack", "rack"}
)
#: First characters of cells that a spreadsheet runs, including full-width variants.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_STATES = {int(state): state.name.lower().replace("_", "-") for state in DeliveryState}


def plain_rows(table: Arrow) -> list[dict[str, Any]]:
    """Convert the rows of a table to plain values, with times as text."""
    return [
        {name: iso(one) if isinstance(one, datetime) else one for name, one in row.items()}
        for row in table.to_pylist()
    ]


def each_row(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the same one by one, for long tables."""
    for batch in table.to_batches(max_chunksize=10_000):
        yield from plain_rows(batch)


def lines(
    rows: Iterable[Mapping[str, Any]],
    output: str,
    columns: Mapping[str, str] | None = None,
    best: Collection[tuple[int, str]] = (),
) -> Iterator[str]:
    """Format rows of plain values, as `plain_rows` and its siblings return them.

    ``human`` shows ``columns``, by heading; without them every key. On a terminal the cells in
    ``best``, by row number and column, are bold. Lines have no line ends: JSON and YAML have one
    element per row, CSV has a heading.
    """
    if output == "json":
        yield from map(json_text, rows)
    elif output == "yaml":
        import yaml

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # in C, where it was built
        for row in rows:
            is_plain = json.dumps(row, ensure_ascii=False).isprintable()
            yield yaml.dump(
                [dict(row)], Dumper=dumper, sort_keys=False, allow_unicode=is_plain,
                default_flow_style=None,
            ).rstrip()  # fmt: skip
    elif output == "csv":
        yield from _csv(rows)
    else:
        yield from _human(list(rows), columns, best)


# ---- people --------------------------------------------------------------------------------------


def _human(
    rows: list[Mapping[str, Any]],
    columns: Mapping[str, str] | None,
    best: Collection[tuple[int, str]],
) -> Iterator[str]:
    if not rows:
        return
    shown = columns or {heading_of(name): name for name in rows[0]}
    looked_at = sys.stdout.isatty()
    # Separate thousands only for people: programs read redirected output.
    thousands = "," if looked_at else ""
    cells = {
        head: [head, *(cell(row, name, thousands) for row in rows)] for head, name in shown.items()
    }
    left_out: list[str] = []
    if looked_at:
        width = shutil.get_terminal_size().columns
        every, cells = cells, fit(cells, shown, width)
        left_out = list(_left_out(every, cells, width))
    numbers = [format_of(shown[head]) in _NUMBERS for head in cells]
    widths = [widest(texts) for texts in cells.values()]
    styles: list[Callable[[str], str]] = [str] * len(cells)
    for place, texts in enumerate(zip(*cells.values(), strict=True), -1):  # -1: the headings
        if looked_at:
            styles = [_style(shown[head], (place, shown[head]) in best) for head in cells]
        for line in zip_longest(*(text.split("\n") for text in texts), fillvalue=""):
            padded = map(_pad, line, widths, numbers)
            aligned = (styled(text) for styled, text in zip(styles, padded, strict=True))
            yield " ".join(aligned).rstrip()
    yield from left_out


def _style(name: str, is_best: bool) -> Callable[[str], str]:
    """Return a function that styles the text of a cell on a terminal."""
    return paint if name in _LEVELS else embolden if is_best else str


def _left_out(every: Cells, shown: Cells, width: int) -> Iterator[str]:
    """Name the columns with values that a narrow terminal has no room for."""
    lost = {head: texts for head, texts in every.items() if head not in shown}
    if gone := [head for head, texts in lost.items() if {*texts[1:]} != {MISSING}]:
        words = f"(too narrow for {', '.join(gone)}: -o json has all)"
        yield from textwrap.wrap(words, width, break_on_hyphens=False)


def _pad(text: str, width: int, is_number: bool) -> str:
    blank = " " * (width - cells_of(text))
    return blank + text if is_number else text + blank


def cell(row: Mapping[str, Any], name: str, thousands: str = "") -> str:
    """Format a value of a row of `plain_rows` for people: ``-`` if unknown, with names escaped.

    Some columns depend on others, such as the topic's id if its name is unknown. ``thousands``
    separates groups of digits in large numbers.
    """
    value = row.get(name)
    if name in _UNKNOWN and value == _UNKNOWN[name]:
        value = None
    if name == "topic" and value is None:
        value = row.get("topic_id")
    if name == "partial":
        is_so = row.get("from_snapshot") is False and row["record_kind"] != "tombstone"
        value = "partial" if is_so else None
    if name == "event" and "event" not in row:
        value = "new leader" if row.get("leader_changed") else None
    if name == "lag" and row.get("unknown_lags"):
        value = lag_sum(value, row["unknown_lags"], thousands)
    if name == "measure" and value is not None:
        value = MEASURES.get(value, value)
    form = format_of(name)
    if isinstance(value, list):
        value = _list(value, form) or None
    if form is Format.DURATION and isinstance(value, int):
        value = duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value, "" if form in (Format.ORDINAL, Format.OFFSET) else thousands)
    if value is None:
        return MISSING
    return shown_name(str(value)) if name in _NAMES else terminal(str(value))


def _list(values: list[Any], form: Format | None) -> str:
    if form is Format.RUNS:
        return " ".join(_run(*(run.values() if isinstance(run, dict) else run)) for run in values)
    return ",".join(_difference(one) if form is Format.DIFFERENCES else str(one) for one in values)


def _difference(one: Mapping[str, Any]) -> str:
    """Format a difference: ``naive:complete_in_window:10``, the naive lag being larger by 10."""
    offsets = MISSING if one["offsets"] is None else one["offsets"]
    return f"{one['number']}:{one['reason']}:{offsets}"


def _run(first: int, last: int, state: int, count: int) -> str:
    """Format a run: ``110-112:available/1``, with the delivery count at the end."""
    offsets = str(first) if first == last else f"{first}-{last}"
    return f"{offsets}:{_STATES.get(state, state)}/{count}"


# ---- machines ------------------------------------------------------------------------------------


def json_text(value: object) -> str:
    """Format JSON, in which terminal control characters are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    # It returns what the function that writes returns.
    line = csv.writer(SimpleNamespace(write=lambda text: text[:-1]), lineterminator="\n").writerow
    for place, row in enumerate(rows):
        if place == 0:
            yield line(row)
        yield line([_csv_cell(name, value) for name, value in row.items()])


def _csv_cell(name: str, value: Any) -> Any:
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return value
    shown = shown_name(value) if name in _NAMES else terminal(value)
    return ("'" if value[:1] in _FORMULAS else "") + shown
