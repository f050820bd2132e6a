"""Parts of a report as HTML for pages and notebooks, and as plain text; names are escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from sharelag.durations import duration
from sharelag.metrics.causes import OF_GROUP
from sharelag.tables import words
from sharelag.tables.level import LEVELS, rank
from sharelag.tables.lines import cell, lines
from sharelag.tables.words import MISSING, THOUSANDS, is_number, shell_word, terminal
from sharelag.workbench.verdicts import CLUSTER, evidence_in_words

#: The MIME type of the verdict in an executed notebook.
VERDICT_MIME = "application/vnd.sharelag.verdict+json"
PLOTLY_MIME = "application/vnd.plotly.v1+json"
VIEW_MIME = "application/vnd.jupyter.widget-view+json"
#: The same figure in the dark theme.
DARK_MIME = "application/vnd.sharelag.dark+json"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
#: The folders of an absolute path.
_FOLDERS = re.compile(r"(?:^|(?<=[\s,]))/(?:[^/,]+/)+(?=[^/,])")
#: Longer words do not fit a column on paper.
_LONGEST_WORD = 20
_LEVELS = ("level", "level_before", "severity")
#: Longer tables are truncated on the page; the notebook or the verdict has all rows.
MOST_ROWS = 200
#: Maximum number of share groups that a page names for one finding, worst first.
MOST_PLACES = 20


def group_findings(
    groups: Sequence[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Merge the causes and broken rules of a verdict; see `merge_findings`.

    Rules without a group belong to `CLUSTER`.
    """
    found = [{"group_id": CLUSTER, **one} for one in rules]
    found += [
        {"group_id": group["group_id"], **one}
        for group in groups
        for one in (*group["causes"], *group["rules"])
    ]
    # If nothing was ever fetched, the cause has the advice and the judgement has the level.
    judged = {one["group_id"] for one in found if _is_judgement(one)}
    started = [
        one for one in found if one.get("cause") == "not_started" and one["group_id"] in judged
    ]
    for one in started:
        one["severity"] = "warning"
    explained = {one["group_id"] for one in started}
    return merge_findings(
        one for one in found if not (_is_judgement(one) and one["group_id"] in explained)
    )


def _is_judgement(one: Mapping[str, Any]) -> bool:
    """Return whether this is the report's own finding that arrived records were never fetched."""
    return bool(one.get("is_own")) and one["rule"] == "lag" and one["level"] == "warning"


def merge_findings(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge findings with the same text: causes with their ``group_id``, or rules.

    Each has ``level``, ``title``, ``advice`` (None for a rule), ``is_rule``, and ``places``, the
    findings merged; worst first. The text of rules differs in each place.
    """
    together: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        # The report's own judgements are not rules of a rule file.
        is_rule = "rule" in one and not one.get("is_own")
        level = one["level"] if "rule" in one else one["severity"]
        title = one["rule"] if is_rule else one["summary"]
        new = {"level": level, "title": title, "advice": one.get("advice"), "is_rule": is_rule}
        new["places"] = []
        known = together.setdefault((is_rule, level, title, _of_any_group(one)), new)
        if known["advice"] != new["advice"]:  # for several groups, use a command for any of them
            known["advice"] = _of_any_group(one)
        known["places"].append(one)
    return sorted(together.values(), key=lambda one: -rank(one["level"]))


def _of_any_group(one: Mapping[str, Any]) -> str | None:
    """Return the advice of a finding in its form for any group."""
    advice, group = one.get("advice"), one.get("group_id")
    if advice is None or group is None:
        return advice
    return str(advice).replace(f"--group {shell_word(group)}", OF_GROUP)


def ranges(partitions: str) -> str:
    """Write partitions such as ``0,1,2,5`` as ``0-2, 5``; dots after many of them stay."""
    numbers = partitions.removesuffix(",...")
    dots = ", ..." if numbers != partitions else ""
    return words.ranges(map(int, numbers.split(","))) + dots


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
    macro = environment().get_template("blocks.html.j2").module.__dict__[name]
    return Block(macro(**values), text, data or {})


def sentence_block(words: str) -> Block:
    """Return a sentence as a part of a report."""
    return block("sentence", words, words=words)


def table(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], caption: str, empty: str
) -> Block:
    """Render rows, as `sharelag.tables.lines.plain_rows` returns them, as a table.

    Times, in UTC, are shown to the second. The caption says what a row is and what the numbers
    mean, and names the columns without any value, which are left out; ``empty`` is shown if there
    are no rows.
    """
    if not rows:
        return sentence_block(empty)
    text = "\n".join(lines(rows, "human", columns))
    nothing = [
        heading for heading, name in columns.items() if all(row.get(name) is None for row in rows)
    ]
    columns = {heading: name for heading, name in columns.items() if heading not in nothing}
    times = (str(row[name]) for row in rows for name in columns.values() if is_time(row.get(name)))
    days = {time[:10] for time in times}
    if day := days.pop() if len(days) == 1 else "":
        caption += f" Times are UTC on {day}."
    shown = [
        [
            {
                "text": _text(row, name).removeprefix(f"{day} "),
                "time": is_time(row.get(name)),
                "number": is_number(row.get(name)),
                "level": row[name] if name in _LEVELS else None,
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
    caption += f" First {MOST_ROWS:,} of {len(rows):,} rows." if len(rows) > MOST_ROWS else ""
    headings = [
        {"text": heading, "number": number}
        for heading, number in zip(columns, numeric, strict=True)
    ]
    return block("table", text, headings=headings, rows=shown, caption=caption)


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if isinstance(value, str) and is_time(value):
        return f"{value[:10]} {value[11:19]}"
    return cell(row, name, THOUSANDS)


def is_time(value: Any) -> bool:
    """Return whether a value is a time in ISO format, as in tables of a report."""
    return isinstance(value, str) and bool(_TIME.fullmatch(value))


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
    made.globals |= {"levels": LEVELS, "MOST_ROWS": MOST_ROWS, "MOST_PLACES": MOST_PLACES}
    made.filters |= {
        "number": number,
        "duration": lambda ms: MISSING if ms is None else duration(ms),
        "evidence": _evidence,
        "name": lambda value: MISSING if value is None else terminal(str(value)),
        "signed": _with_sign,
        "merged": merge_findings,
        "ranges": ranges,
        "when": when,
        "long": _long,
        "names": without_folders,
    }
    return made


def number(value: float | None) -> str:
    """Format a number; ``-`` if unknown."""
    return MISSING if value is None else f"{value:,}"


def when(moment: str | None) -> str:
    """Format an ISO time for reading, to the second, in UTC."""
    return MISSING if moment is None else f"{moment[:10]} {moment[11:19]} UTC"


def without_folders(text: str) -> str:
    """Replace absolute paths by names, because readers elsewhere have other folders."""
    return _FOLDERS.sub("", text)


def _with_sign(value: int | None) -> str:
    return MISSING if value is None else f"{value:+,}" if value else "±0"


def _evidence(found: Mapping[str, str]) -> str:
    """Return the evidence of a cause, as ``sharelag explain`` formats it."""
    shown = {name: value for name, value in found.items() if name != "partitions"}
    return evidence_in_words(shown, "," in found.get("partitions", ""))


def _long(value: object) -> str:
    """Return the CSS class of cells with very long words, which may be broken on paper."""
    return "sr-long" if max(map(len, str(value).split()), default=0) > _LONGEST_WORD else ""
