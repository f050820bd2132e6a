"""The lag of a cluster as one HTML file: no script, no request, readable offline and on paper.

A bar shows what the distance from start offset to end offset consists of, on one scale for the
whole page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2

from sharelag.tables.reasons import NOTES, REASONS
from sharelag.tables.words import MISSING, THIN_SPACE

#: Column, words, and what it means; the order of a bar's parts. Colours and patterns are in the
#: template.
PARTS = (
    ("unread", "unread", "beyond the window: never delivered as far as the topic shows"),
    ("window_available", "available", "released or timed out, waiting for another delivery"),
    (
        "window_unknown",
        "unknown",
        "in the window without a persisted state: acquired, or never persisted",
    ),
    (
        "window_complete",
        "complete",
        "acknowledged or archived, not yet passed by the start offset; no lag",
    ),
)


def lag_page(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    facts: Mapping[str, str],
) -> str:
    """Render a lag table.

    Parameters
    ----------
    title : str
    rows : sequence of mappings
        `sharelag.schemas.LAG`, as plain values.
    groups : sequence of mappings
        Their roll-up by group (`sharelag.schemas.ROLLUP`).
    facts : mapping of str to str
        What the reader must know of the whole: as of when, from where, what is missing.

    Returns
    -------
    str
        A whole HTML document. Every name in it is escaped.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters["number"] = _number
    template = environment.from_string(
        resources.files(__package__).joinpath("page.html.j2").read_text("utf-8")
    )
    widest = max((_distance(row) for row in rows), default=0)
    return template.render(
        title=title,
        facts=facts,
        groups=groups,
        rows=[{**row, "bar": _bar(row, widest), "details": _details(row)} for row in rows],
        parts=PARTS,
    )


def _distance(row: Mapping[str, Any]) -> int:
    return sum(row[name] or 0 for name, _, _ in PARTS)


def _bar(row: Mapping[str, Any], widest: int) -> list[tuple[str, str, float, int]]:
    """The parts of a row's bar: class, words, width in percent, offsets."""
    return [
        (name, words, 100 * row[name] / widest, row[name]) for name, words, _ in PARTS if row[name]
    ]


def _details(row: Mapping[str, Any]) -> list[str]:
    reason = [REASONS[row["lag_reason"]]] if row["lag_reason"] else []
    return reason + [NOTES[note] for note in row["notes"]]


def _number(value: int | None) -> str:
    return MISSING if value is None else f"{value:,}".replace(",", THIN_SPACE)
