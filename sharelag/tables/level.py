"""Levels of severity in one order, with the mark and colour of each.

Causes are critical, warnings or notes. Checks and reports end as ok, unknown, warning or critical;
a report can fail as well. An unknown value is less urgent than a known problem; a failed report
knows less than one that found something.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

OK, NOTE, UNKNOWN = "ok", "note", "unknown"
WARNING, CRITICAL, FAILED = "warning", "critical", "failed"


class Level(NamedTuple):
    """The appearance of a level."""

    mark: str  # in mails, which may have no colours
    style: str  # on a terminal


#: From best to worst.
LEVELS = {
    OK: Level("●", "green"),
    NOTE: Level("◇", "cyan"),
    UNKNOWN: Level("?", "magenta"),
    WARNING: Level("▲", "yellow"),
    CRITICAL: Level("■", "bold red"),
    FAILED: Level("✕", "bold red"),
}
#: Severities of causes, worst first.
SEVERITIES = (CRITICAL, WARNING, NOTE)
#: Outcomes of checks, worst first.
CHECKED = (CRITICAL, WARNING, UNKNOWN, OK)
_RANKS = {name: rank for rank, name in enumerate(LEVELS)}
#: Names in rule files that differ.
_IN_RULES = {"warn": WARNING}


def rank(level: str) -> int:
    """Return the rank of a level, from 0, the best, to the worst."""
    return _RANKS[level]


def worst(levels: Iterable[str]) -> str:
    """Return the worst of some levels; `OK` if there are none."""
    return max(levels, key=rank, default=OK)


def outcome(severity: str) -> str:
    """Return the level of a group with a cause of this severity; a note requires no action."""
    return OK if severity == NOTE else severity


def of_rule(word: str) -> str:
    """Return the level for its name in a rule file."""
    return _IN_RULES.get(word, word)


#: Terminals that show the characters of cursors and colours, such as a shell in Emacs.
_DUMB = ("dumb", "unknown")


def can_redraw() -> bool:
    """Return whether standard error is a terminal on which a line can be replaced."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in _DUMB


def has_colours() -> bool:
    """Return whether a terminal has colours that the user allows (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in _DUMB


def paint(text: str) -> str:
    """Colour a level on a terminal, unless ``NO_COLOR`` or the terminal forbids it.

    It may have blanks around it; any other text is unchanged.
    """
    level = LEVELS.get(text.strip())
    return text if level is None else _render(text, level.style)


def embolden(text: str) -> str:
    """Make a text bold on a terminal, if levels are coloured there."""
    return _render(text, "bold")


def _render(text: str, style: str) -> str:
    if not has_colours():
        return text
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)
