"""Parts of a report as HTML for pages and notebooks, and as text for all else; names are escaped."""

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
from sharelag.reports.alike import alike, ranges
from sharelag.tables.level import LEVELS
from sharelag.workbench.show import MISSING, THIN_SPACE, cell, lines, terminal

#: How an executed notebook tells its verdict to who reads it.
VERDICT_MIME = "application/vnd.sharelag.verdict+json"
PLOTLY_MIME = "application/vnd.plotly.v1+json"
#: The same figure for dark paper.
DARK_MIME = "application/vnd.sharelag.dark+json"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
#: Characters of a word that a column of paper has room for.
_LONGEST_WORD = 20
#: Longer tables are cut in a page; the notebook has the whole.
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
    """A figure in both themes: notebooks show the first, a page the one that its reader has."""

    light: Any
    dark: Any

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        light, dark = (json.loads(one.to_json()) for one in (self.light, self.dark))
        told = [light["layout"]["meta"]["title"], *light["layout"]["meta"]["facts"]]
        return {PLOTLY_MIME: light, DARK_MIME: dark, "text/plain": "\n".join(told)}


def block(name: str, text: str, data: Mapping[str, Any] | None = None, **values: Any) -> Block:
    """The macro of this name in ``blocks.html.j2`` with these values."""
    return Block(
        environment().get_template("blocks.html.j2").module.__dict__[name](**values),
        text,
        data or {},
    )


def table(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], caption: str, empty: str
) -> Block:
    """Some rows as a table.

    Parameters
    ----------
    rows : sequence of mappings
        As `sharelag.workbench.show.plain_rows` gives them; times, which are UTC, are shown to the
        second.
    columns : mapping of heading to column
    caption : str
        What a row is, and what the numbers mean.
    empty : str
        What to say where there are no rows.

    Returns
    -------
    Block
        Columns without any value take no room in it; the caption names them.
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
        caption += f" All times are of {day}, UTC."
    shown = [
        [
            {
                "text": _text(row, name).removeprefix(f"{day} "),
                "time": _is_time(row.get(name)),
                "number": _is_number(row.get(name)),
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
    caption += f" Columns without any value: {', '.join(nothing)}." if nothing else ""
    caption += f" The first {MOST_ROWS} of {len(rows)} rows." if len(rows) > MOST_ROWS else ""
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _level(name: str, row: Mapping[str, Any]) -> str | None:
    return row[name] if name in ("level", "level_before", "severity") else None


@cache
def environment() -> jinja2.Environment:
    """All templates of reports; what is not marked as safe is escaped."""
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
        "name": _name,
        "signed": _signed,
        "alike": alike,
        "ranges": ranges,
        "when": when,
        "long": _long,
    }
    return made


def number(value: float | None) -> str:
    """A number with thin spaces between its thousands; a dash where it is not known."""
    return MISSING if value is None else f"{value:,}".replace(",", THIN_SPACE)


def when(moment: str | None) -> str:
    """An ISO time for people, to the second; the zone is always UTC."""
    return MISSING if moment is None else f"{moment[:10]} {moment[11:19]} UTC"


def _signed(value: int | None) -> str:
    if value is None:
        return "-"
    return "±0" if value == 0 else f"{value:+,}".replace(",", THIN_SPACE).replace("-", "\u2212")


def _duration(milliseconds: float | None) -> str:
    return MISSING if milliseconds is None else duration(milliseconds)


def _long(value: object) -> str:
    """The class of a cell with a word that paper may have no room for: only such words may be broken."""
    return "sr-long" if max(map(len, str(value).split()), default=0) > _LONGEST_WORD else ""


def _name(value: object) -> str:
    return MISSING if value is None else terminal(str(value))
