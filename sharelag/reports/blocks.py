"""Parts of a report as HTML for pages and notebooks, and as plain text; names are escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from sharelag.durations import duration
from sharelag.reports.findings import merge_findings, ranges
from sharelag.tables.level import LEVELS
from sharelag.tables.lines import cell, lines
from sharelag.tables.words import MISSING, THIN_SPACE, is_number, terminal
from sharelag.workbench.explained import evidence_in_words

#: The MIME type of the verdict in an executed notebook.
VERDICT_MIME = "application/vnd.sharelag.verdict+json"
PLOTLY_MIME = "application/vnd.plotly.v1+json"
#: The same figure in the dark theme.
DARK_MIME = "application/vnd.sharelag.dark+json"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
#: Words up to this length fit a column on paper.
_LONGEST_WORD = 20
#: Longer tables are truncated on the page; the notebook has all rows.
MOST_ROWS = 200


@dataclass(frozen=True)
class Block:
    """A part of a report."""

    html: str
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)  # other forms, by MIME type

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {"text/html": self.html, "text/plain": self.text, **self.data}


@dataclass(frozen=True)
class Chart:
    """A figure in both themes: notebooks show the light one, pages follow the reader's browser."""

    light: Any
    dark: Any

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        light, dark = (json.loads(one.to_json()) for one in (self.light, self.dark))
        words = [light["layout"]["meta"]["title"], *light["layout"]["meta"]["facts"]]
        return {PLOTLY_MIME: light, DARK_MIME: dark, "text/plain": "\n".join(words)}


def block(name: str, text: str, data: Mapping[str, Any] | None = None, **values: Any) -> Block:
    """Render the macro ``name`` of ``blocks.html.j2``."""
    return Block(
        environment().get_template("blocks.html.j2").module.__dict__[name](**values),
        text,
        data or {},
    )


def table(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], caption: str, empty: str
) -> Block:
    """Render rows as a table.

    Parameters
    ----------
    rows : sequence of mappings
        As `sharelag.tables.lines.plain_rows` returns them; times, in UTC, are shown to the
        second.
    columns : mapping of heading to column
    caption : str
        What a row is, and what the numbers mean.
    empty : str
        The text shown if there are no rows.

    Returns
    -------
    Block
        Columns without any value are left out; the caption names them.
    """
    if not rows:
        return block("sentence", empty, words=empty)
    text = "\n".join(lines(rows, "human", columns))
    nothing = [
        heading for heading, name in columns.items() if all(row.get(name) is None for row in rows)
    ]
    columns = {heading: name for heading, name in columns.items() if heading not in nothing}
    times = (str(row[name]) for row in rows for name in columns.values() if _is_time(row.get(name)))
    days = {time[:10] for time in times}
    if day := days.pop() if len(days) == 1 else "":
        caption += f" Times are UTC on {day}."
    shown = [
        [
            {
                "text": _text(row, name).removeprefix(f"{day} "),
                "time": _is_time(row.get(name)),
                "number": is_number(row.get(name)),
                "level": _level(name, row),
            }
            for name in columns.values()
        ]
        for row in rows[:MOST_ROWS]
    ]
    numeric = [any(line[place]["number"] for line in shown) for place in range(len(columns))]
    for line in shown:
        for place, number in enumerate(numeric):
            line[place]["number"] = number
    caption += f" Left out, as they are empty: {', '.join(nothing)}." if nothing else ""
    caption += f" First {MOST_ROWS} of {len(rows)} rows." if len(rows) > MOST_ROWS else ""
    headings = [
        {"text": heading, "number": number}
        for heading, number in zip(columns, numeric, strict=True)
    ]
    return block("table", text, headings=headings, rows=shown, caption=caption)


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if isinstance(value, str) and _is_time(value):
        return f"{value[:10]} {value[11:19]}"
    return cell(row, name, THIN_SPACE)


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and bool(_TIME.fullmatch(value))


def _level(name: str, row: Mapping[str, Any]) -> str | None:
    return row[name] if name in ("level", "level_before", "severity") else None


@cache
def environment() -> jinja2.Environment:
    """Load the templates of reports; values are escaped unless marked as safe."""
    folder = resources.files(__package__).joinpath("templates")
    made = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
    )
    made.globals["levels"] = LEVELS
    made.filters |= {
        "number": number,
        "duration": _duration,
        "evidence": _evidence,
        "name": _name,
        "signed": _signed,
        "merged": merge_findings,
        "ranges": ranges,
        "when": when,
        "long": _long,
    }
    return made


def number(value: float | None) -> str:
    """Format a number with thin spaces between thousands; ``-`` if unknown."""
    return MISSING if value is None else f"{value:,}".replace(",", THIN_SPACE)


def when(moment: str | None) -> str:
    """Format an ISO time for reading, to the second, in UTC."""
    return MISSING if moment is None else f"{moment[:10]} {moment[11:19]} UTC"


def _signed(value: int | None) -> str:
    if value is None:
        return "-"
    return "±0" if value == 0 else f"{value:+,}".replace(",", THIN_SPACE).replace("-", "\u2212")


def _duration(milliseconds: float | None) -> str:
    return MISSING if milliseconds is None else duration(milliseconds)


def _evidence(found: Mapping[str, str]) -> str:
    """What shows a cause, in the words of ``sharelag explain``."""
    shown = {name: value for name, value in found.items() if name != "partitions"}
    return evidence_in_words(shown, "," in found.get("partitions", ""), THIN_SPACE)


def _long(value: object) -> str:
    """Return the CSS class of cells with very long words, which may be broken on paper."""
    return "sr-long" if max(map(len, str(value).split()), default=0) > _LONGEST_WORD else ""


def _name(value: object) -> str:
    return MISSING if value is None else terminal(str(value))
