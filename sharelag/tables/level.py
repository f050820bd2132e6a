"""How bad something is: one order of levels, with the mark and colour that each has.

Causes are critical, warnings or notes. Checks and reports end as ok, unknown, warning or critical;
a report can fail as well. That something is not known is less urgent than what is known to be
wrong; a report that failed knows less than one that found something.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

OK, NOTE, UNKNOWN = "ok", "note", "unknown"
WARNING, CRITICAL, FAILED = "warning", "critical", "failed"


class Level(NamedTuple):
    """What a level looks like."""

    mark: str  # in mails, where there may be no colour
    style: str  # on a terminal


#: From the best to the worst.
LEVELS = {
    OK: Level("●", "green"),
    NOTE: Level("◇", "cyan"),
    UNKNOWN: Level("?", "magenta"),
    WARNING: Level("▲", "yellow"),
    CRITICAL: Level("■", "bold red"),
    FAILED: Level("✕", "bold red"),
}
#: How a cause can be, worst first.
SEVERITIES = (CRITICAL, WARNING, NOTE)
#: How a check can end, worst first.
CHECKED = (CRITICAL, WARNING, UNKNOWN, OK)
_RANKS = {name: rank for rank, name in enumerate(LEVELS)}
#: As rule files call them.
_IN_RULES = {"warn": WARNING}


def rank(level: str) -> int:
    """Return the place of a level from the best, which is 0, to the worst."""
    return _RANKS[level]


def worst(levels: Iterable[str]) -> str:
    """Return the worst of some levels; of none it is `OK`."""
    return max(levels, key=rank, default=OK)


def outcome(severity: str) -> str:
    """Return the level of a group for a cause in it: for a note nobody has to do anything."""
    return OK if severity == NOTE else severity


def of_rule(word: str) -> str:
    """Return the level that a rule file names."""
    return _IN_RULES.get(word, word)


def paint(text: str) -> str:
    """Give a level its colour on a terminal, unless ``NO_COLOR`` or the terminal forbids it.

    There may be blanks around it; other texts stay as they are.
    """
    level = LEVELS.get(text.strip())
    return text if level is None else _render(text, level.style)


def embolden(text: str) -> str:
    """Write a text in bold on a terminal, where levels have colours."""
    return _render(text, "bold")


def _render(text: str, style: str) -> str:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown"):
        return text
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)
