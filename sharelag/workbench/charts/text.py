"""Names, numbers and times as text in a figure.

plotly reads a subset of HTML, TeX between dollars, and ``%{...}`` in its texts. Names are whatever
somebody called a group, a topic or a client, so every text is escaped where it enters the figure,
and nowhere before.
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
from sharelag.tables.words import NO_MOMENT, NOT_KNOWN, THIN_SPACE

_NO_BREAK = "\u00a0"
_ISOLATE, _END = "\u2068", "\u2069"
#: These change the direction of what follows them, over the end of the name.
_DIRECTIONS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
#: As wide as a label may be beside an axis, in characters.
LABEL = 34
_HOVER_WIDTH = 76


def escaped(text: str) -> str:
    """A text that plotly shows as it is."""
    return html.escape(text, quote=False).replace("$", "&#36;").replace("%{", "&#37;{")


def lines_of(text: str, width: int) -> list[str]:
    """A text in escaped lines of at most so many characters."""
    return [escaped(line) for line in textwrap.wrap(text, width, break_on_hyphens=False)] or [""]


def hover(*lines: str) -> str:
    """Some lines as the text that appears over a point; ``<br />`` is within one that is long."""
    return "<br>".join("<br />".join(lines_of(line, _HOVER_WIDTH)) for line in lines if line)


def name(text: str | None, width: int | None = LABEL) -> str:
    """A name from outside for our own text: unescaped, but unable to turn or break the text.

    Parameters
    ----------
    text : str or None
    width : int or None
        Longer names lose their middle; None keeps all of it.
    """
    if text is None:
        return NOT_KNOWN
    shown = "".join(_visible(c) for c in text)
    if width is not None and len(shown) > width:
        shown = f"{shown[: width // 2]}…{shown[-(width - width // 2 - 1) :]}"
    if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in shown):
        return f"{_ISOLATE}{shown}{_END}"
    return shown


def share_partition(row: Mapping[str, Any], with_group: bool, width: int | None = LABEL) -> str:
    """A share partition, topic or group as Kafka writes it; by ids where names are not known."""
    if row["topic"] is None and row["topic_id"] is None:
        return name(row["group_id"], width)
    topic = name(row["topic"] or row["topic_id"], width)
    place = topic if row.get("partition") is None else f"{topic}-{row['partition']}"
    return f"{name(row['group_id'], width)}: {place}" if with_group else place


def number(value: float | None) -> str:
    """A number with thin spaces between thousands, of three digits if it is small and not whole."""
    if value is None or value != value:
        return NOT_KNOWN
    return words.number(value, THIN_SPACE)


def counted(value: float, word: str, plural: str = "") -> str:
    """``3 records``, ``1 record``."""
    return f"{number(value)} {word if value == 1 else plural or word + 's'}"


def not_known(*parts: str) -> str:
    """What is not known as a sentence, from its parts; empty where there are none."""
    missing = "; ".join(part for part in parts if part)
    return f"Not known: {missing}." if missing else ""


def percent(part: float, of: float) -> str:
    """A part of a whole; never all or nothing where it is not quite."""
    share = part / of
    if 0.99 < share < 1:
        return "over 99%"
    return "under 1%" if 0 < share < 0.01 else f"{share:.0%}"


def span(milliseconds: float | None) -> str:
    """A span of time, or that it is not known."""
    return NOT_KNOWN if milliseconds is None else duration(milliseconds).replace(" ", _NO_BREAK)


def moment(at: datetime | None) -> str:
    """A time in UTC, to the second."""
    return NO_MOMENT if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def axis_time(at: datetime) -> str:
    """A time for an axis: plotly knows no time zones, so all times are UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def time_unit(milliseconds: float) -> tuple[float, str]:
    """The unit that suits an axis up to so many milliseconds: its length, and its name."""
    units = ((86_400_000.0, "days"), (3_600_000.0, "hours"), (60_000.0, "minutes"))
    return next(
        ((size, words) for size, words in units if milliseconds >= 2 * size), (1000.0, "seconds")
    )


def listed(names: Iterable[str], most: int = 3) -> str:
    """Some names as part of a sentence."""
    texts = list(names)
    shown = texts[:most] + ([f"{len(texts) - most} more"] if len(texts) > most else [])
    return (
        shown[0]
        if len(shown) == 1
        else f"{', '.join(shown[:-1])} and {shown[-1]}"
        if shown
        else "none"
    )


def _visible(c: str) -> str:
    if c in _DIRECTIONS or unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs"):
        return c.encode("unicode_escape", "surrogatepass").decode()
    return c
