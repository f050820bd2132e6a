"""Names, numbers and times as text in a figure.

plotly interprets a subset of HTML, TeX between dollars, and ``%{...}`` in its texts. Names of
groups, topics and clients are arbitrary, so every text is escaped where it enters the figure, and
nowhere before.
"""

from __future__ import annotations

import html
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sharelag.durations import duration
from sharelag.tables import words
from sharelag.tables.words import NO_MOMENT, NOT_KNOWN, THOUSANDS
from sharelag.tables.words import pluralize as pluralize

_NO_BREAK = "\u00a0"
_ISOLATE, _END = "\u2068", "\u2069"
#: Characters that change the text direction beyond the end of the name.
_DIRECTIONS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
#: Maximum width of an axis label, in characters.
LABEL = 34
_HOVER_WIDTH = 76


def escape(text: str) -> str:
    """Escape a text so that plotly shows it literally."""
    return html.escape(text, quote=False).replace("$", "&#36;").replace("%{", "&#37;{")


def lines_of(text: str, width: int) -> list[str]:
    """Wrap a text into escaped lines of at most ``width`` characters."""
    return [escape(line) for line in textwrap.wrap(text, width, break_on_hyphens=False)] or [""]


def hover(*lines: str) -> str:
    """Return escaped hover text; long lines are wrapped by ``<br />``."""
    return "<br>".join("<br />".join(lines_of(line, _HOVER_WIDTH)) for line in lines if line)


def name(text: str | None, width: int | None = LABEL) -> str:
    """Return an external name that cannot reverse or break text around it; it is not escaped.

    Names longer than ``width`` lose their middle; None keeps all.
    """
    if text is None:
        return NOT_KNOWN
    shown = "".join(_visible(c) for c in text)
    if width is not None and len(shown) > width:
        shown = f"{shown[: width // 2]}…{shown[-(width - width // 2 - 1) :]}"
    if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in shown):
        return f"{_ISOLATE}{shown}{_END}"
    return shown


def _visible(c: str) -> str:
    if c in _DIRECTIONS or unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs"):
        return c.encode("unicode_escape", "surrogatepass").decode()
    return c


def share_partition(row: Mapping[str, Any], with_group: bool, width: int | None = LABEL) -> str:
    """Return a share partition, topic or group in Kafka's form, with ids if names are unknown."""
    if row["topic"] is None and row["topic_id"] is None:
        return name(row["group_id"], width)
    topic = name(row["topic"] or row["topic_id"], width)
    place = topic if row.get("partition") is None else f"{topic}-{row['partition']}"
    return f"{name(row['group_id'], width)}: {place}" if with_group else place


def number(value: float | None) -> str:
    """Return a number with thousands separators; three digits if it is a small fraction."""
    return NOT_KNOWN if value is None or value != value else words.number(value, THOUSANDS)


def offsets(count: float | None) -> str:
    """Return ``3 offsets`` or ``1 offset``, or that it is unknown."""
    return NOT_KNOWN if count is None or count != count else pluralize(count, "offset")


def change(by: float, milliseconds: float) -> str:
    """Return ``+3 in 10m``, ``-3 in 10m`` or ``unchanged for 10m``."""
    if not by:
        return f"unchanged for {span(milliseconds)}"
    return f"{'+' if by > 0 else '-'}{number(abs(by))} in {span(milliseconds)}"


def not_known(*parts: str) -> str:
    """Join unknown parts into a sentence; empty without any."""
    missing = "; ".join(part for part in parts if part)
    return f"Not known: {missing}." if missing else ""


def span(milliseconds: float | None) -> str:
    """Return a duration, or that it is unknown."""
    return NOT_KNOWN if milliseconds is None else duration(milliseconds).replace(" ", _NO_BREAK)


def moment(at: datetime | None) -> str:
    """Return a time in UTC, to the second."""
    return NO_MOMENT if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def axis_time(at: datetime) -> str:
    """Return a time for an axis in UTC, because plotly has no time zones."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def time_unit(milliseconds: float) -> tuple[float, str]:
    """Return the length and name of the unit for an axis up to so many milliseconds."""
    units = ((86_400_000.0, "days"), (3_600_000.0, "hours"), (60_000.0, "minutes"))
    return next((unit for unit in units if milliseconds >= 2 * unit[0]), (1000.0, "seconds"))


def list_names(names: Iterable[str], most: int = 3) -> str:
    """Return at most ``most`` names as part of a sentence."""
    shown = list(names)
    if len(shown) > most:
        shown = [*shown[:most], f"{len(shown) - most:,} more"]
    if len(shown) < 2:
        return shown[0] if shown else "none"
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
