"""Tables in a notebook and as plain text, both from the same cells.

Names are untrusted: control and direction characters are escaped here, and the rest by jinja.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sharelag.tables.declared import format_of, meanings_of
from sharelag.tables.gaps import NOTES, REASONS
from sharelag.tables.lines import SENTENCES, cell, plain_rows
from sharelag.tables.presentation import Presentation
from sharelag.tables.table import AMOUNT, Format
from sharelag.tables.words import MISSING, NOT_KNOWN, THOUSANDS, pluralize, terminal

if TYPE_CHECKING:
    import jinja2

#: Number of rows to show.
MOST = 20
#: Number of runs of a window to show in a cell.
_RUNS = 6
#: Minimum width of a column of sentences on a narrow page.
_SHORTEST_LINE = 32
_TEXTS = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_list, pa.types.is_struct),
    pa.types.is_timestamp,
)


@dataclass(frozen=True)
class Cell:
    """One value as text."""

    text: str
    is_number: bool
    reason: str = ""  # why it is unknown, or an explanation of its text
    is_wrapped: bool = False  # if the page is narrower than the table
    is_best: bool = False
    bar: tuple[float, ...] = ()  # low, mean and high, from -1 to 1


@dataclass(frozen=True)
class Excerpt:
    """The part of a result to show, as text."""

    headings: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: str  # a note on what is left out; empty if nothing
    decides: bool = False  # few rows and columns, which fit the page


def as_html(result: Presentation, most: int = MOST) -> str:
    """Render a result as an HTML fragment."""
    means = meanings_of(result.columns.values()) | dict(result.means)
    return _template("result.html.j2").render(
        result=result,
        excerpt=excerpt(result, most),
        more=None if result.more is None else excerpt(result.more, len(result.more.table)),
        help={heading: means[name] for heading, name in result.columns.items() if name in means},
        notes=[terminal(note) for note in result.notes],
        summaries=result.summaries[:most],
        most=most,
        below=[*_source(result), *_charts(result)],
        more_groups=max(len(result.summaries) - most, 0),
        pluralize=pluralize,
    )


def as_text(result: Presentation, most: int = MOST) -> str:
    """Render a result as plain text."""
    body = _summaries_text(result, most) if result.summaries else _table_text(excerpt(result, most))
    unknown = [f"{NOT_KNOWN}: {one}" for one in result.unknown]
    head = f"{result.title} ({result.when})"
    lines = [head, *body, *unknown, *result.notes, *_source(result)]
    return "\n".join(terminal(line) for line in lines)


def _source(result: Presentation) -> list[str]:
    """Return the source of a result, unless its head has it."""
    return [] if result.source == result.when else [result.source]


def _charts(result: Presentation) -> list[str]:
    names = ", ".join(result.charts)
    return [f'charts: {names} (.figure("{result.charts[0]}"))'] if names else []


def excerpt(result: Presentation, most: int) -> Excerpt:
    """Return a result's first rows as cells; of too many, those with the largest values."""
    table, more = result.table, ""
    if len(table) > most:
        more = f"and {pluralize(len(table) - most, 'more row')} in .table"
        if result.order:
            table = table.sort_by([(result.order, "descending")])
            more += f"; shown are {_which(result)}"
        table = table.slice(0, most)
    names = tuple(result.columns.values())
    numbers = [_is_number(result.table.schema, name) for name in names]
    reach = {
        name: max((abs(end) for span in spans if span for end in span), default=0.0) or 1.0
        for name, spans in result.spans.items()
    }

    def mark(number: int, name: str, cell: Cell) -> Cell:
        span = result.spans[name][number] if name in reach else None
        bar = tuple(round(end / reach[name], 3) for end in span or ())
        return replace(cell, is_best=(number, name) in result.best, bar=bar)

    rows = tuple(
        tuple(
            mark(number, name, _cell(row, name, is_number))
            for name, is_number in zip(names, numbers, strict=True)
        )
        for number, row in enumerate(plain_rows(table))
    )
    headings = tuple(map(Cell, result.columns, numbers))
    return Excerpt(headings, rows, more, bool(result.spans or result.best))


def failure(title: str, why: str) -> dict[str, str]:
    """Explain why there is nothing to show, as text and as HTML."""
    html = _template("failure.html.j2").render(title=title, why=why)
    return {"text/plain": terminal(f"{title}: {why}"), "text/html": html}


@cache
def _template(name: str) -> jinja2.Template:
    # Commands that print a table need neither.
    from importlib import resources

    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    here = resources.files(__package__)
    environment.globals["style"] = here.joinpath("result.css").read_text("utf-8")
    return environment.from_string(here.joinpath(name).read_text("utf-8"))


def _cell(row: Mapping[str, Any], name: str, is_number: bool) -> Cell:
    value = row.get(name)
    rest = 0
    if format_of(name) is Format.RUNS and isinstance(value, list):
        rest = len(value) - _RUNS
        row = {**row, name: value[:_RUNS]}
    words = cell(row, name, THOUSANDS)
    if rest > 0:
        words += f" and {rest:,} more"
    is_wrapped = name in SENTENCES and len(words) > _SHORTEST_LINE
    return Cell(words, is_number, _reason(row, name, words), is_wrapped)


def _reason(row: Mapping[str, Any], name: str, words: str) -> str:
    """Return why a cell is unknown, if the row says so, or an explanation of its text."""
    if name == "notes":
        return "; ".join(NOTES[note] for note in row["notes"] or () if note in NOTES)
    if name == "lag_reason":
        return REASONS.get(row[name] or "", "")
    if words != MISSING or name == "max_lag":
        return ""
    return REASONS.get(row.get("lag_reason") or "", NOT_KNOWN)


def _is_number(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and (
        schema.field(name).metadata == AMOUNT
        or not any(is_text(schema.field(name).type) for is_text in _TEXTS)
    )


def _which(result: Presentation) -> str:
    kind = result.table.schema.field(result.order).type
    if pa.types.is_timestamp(kind):
        return "the latest"
    headings = {name: text for text, name in result.columns.items()}
    heading = headings.get(result.order, result.order)
    return f"those with {'a' if pa.types.is_string(kind) else 'the largest'} {heading}"


def _table_text(rows: Excerpt) -> list[str]:
    lines = [rows.headings, *rows.rows]
    widths = [max(len(line[n].text) for line in lines) for n in range(len(rows.headings))]
    text = [
        "  ".join(
            cell.text.rjust(width) if cell.is_number else cell.text.ljust(width)
            for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]
    return [*(text if rows.rows else ["nothing to show"]), *([rows.more] if rows.more else [])]


def _summaries_text(result: Presentation, most: int) -> list[str]:
    lines: list[str] = []
    for group in result.summaries[:most]:
        lines.append(f"{group.group}  {group.state}")
        for cause in group.causes[:most]:
            lines.append(f"  {cause.rank}. {cause.severity}: {cause.title}  {cause.where}")
            parts = filter(None, (cause.summary, cause.evidence, f"-> {cause.advice}"))
            lines += [f"     {line}" for line in parts]
        if (left := len(group.causes) - most) > 0:
            lines.append(f"  and {pluralize(left, 'more cause')} in .table")
    left = len(result.summaries) - most
    return lines + ([f"and {pluralize(left, 'more group')} in .table"] if left > 0 else [])
