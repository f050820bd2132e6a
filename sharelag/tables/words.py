"""Text for people: unknown values, thousands, times, and names from outside."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import count, groupby
from numbers import Integral
from pathlib import Path
from shlex import quote

#: An unknown value, in a cell and in a sentence.
MISSING, NOT_KNOWN = "-", "not known"
#: An unknown time, in a sentence.
NO_MOMENT = f"a time that is {NOT_KNOWN}"
#: Separator of thousands for people.
THOUSANDS = ","
#: Measures whose unit is in no heading, as shown.
MEASURES = {"finished": "finished/hour"}
#: From this number on, three digits are a whole number.
_WHOLE = 999.5


def number(value: float, thousands: str = "") -> str:
    """Format a number for people: with three digits if it is small and not an integer."""
    if isinstance(value, Integral):
        text = f"{value:,}"
    else:
        is_whole = float(value).is_integer() or abs(value) >= _WHOLE
        text = f"{value:,.0f}" if is_whole else f"{value:.3g}"
    return text.replace(",", thousands)


def per_second(rate: float) -> str:
    """Format a rate for people."""
    return f"{number(rate, THOUSANDS)}/s"


#: Characters after a backslash that make it the beginning of an escape.
_ESCAPES = frozenset("\\xuUtr")


def is_number(value: object) -> bool:
    """Return whether a value is a number, other than a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def pluralize(count: float, name: str, plural: str = "") -> str:
    """Format a count: ``1 record``, ``2 records``."""
    return f"{number(count, THOUSANDS)} {name if count == 1 else plural or name + 's'}"


def spell_out(name: str) -> str:
    """Format a name: ``hot partition`` for ``hot_partition``."""
    return name.replace("_", " ")


def percent(part: float, of: float = 1) -> str:
    """Format a share as ``42 %``; 0 or 100 % only if exact."""
    share = part / of
    if 0.99 < share < 1:
        return "over 99 %"
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def in_runs(numbers: Iterable[int], name: str) -> str:
    """Format ``partition 2``, ``partitions 0, 1`` or ``partitions 0, 4-49``."""
    ordered = sorted(numbers)
    return f"{name}{'s' * (len(ordered) > 1)} {ranges(ordered)}"


def ranges(ordered: Iterable[int]) -> str:
    """Format ascending numbers: ``0, 1`` or ``0, 4-49``."""
    place = count()
    runs = [list(run) for _, run in groupby(ordered, lambda number: number - next(place))]
    words = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(words)


def sentence(words: str) -> str:
    """Make words a sentence: ``Nothing is known.``."""
    return f"{words[:1].upper()}{words[1:]}."


def lag_sum(lag: int | None, unknown: int, thousands: str = ",") -> str:
    """Format the lag of many share partitions, with the number of unknown ones.

    With unknown lags, a sum of 0 would read as no lag.
    """
    known = MISSING if lag is None or (unknown and not lag) else number(lag, thousands)
    return f"{known} (+{number(unknown, thousands)} unknown)" if unknown else known


def terminal(text: str) -> str:
    """Escape terminal control characters, and direction characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def shown_name(text: str) -> str:
    """Escape a name as `terminal` does, with distinct results for distinct names.

    A backslash that would look like the beginning of an escape is doubled.
    """
    return _distinct(text, "", _ESCAPES | {"n"})


def label(text: str) -> str:
    """Escape a name for a Prometheus label, with distinct results for distinct names.

    Line feeds are kept: Prometheus's format itself escapes them.
    """
    return _distinct(text, "\n", _ESCAPES)


def _distinct(text: str, also_plain: str, begin: frozenset[str]) -> str:
    if "\\" not in text and text.isprintable():
        return text
    kept = []
    for character, after in zip(text, [*text[1:], "x"], strict=True):
        if character == "\\":
            begins = after in begin or not (after.isprintable() or after == also_plain)
            kept.append("\\\\" if begins else character)
        else:
            is_plain = character.isprintable() or character == also_plain
            kept.append(character if is_plain else _escape(character))
    return "".join(kept)


def shell_word(text: str) -> str:
    r"""Quote a text for a command line of bash; control characters become ``$'a\012'``.

    A command printed for copying must pass `terminal` unchanged.
    """
    if text.isprintable():
        return quote(text)
    safe = {"\\": "\\\\", "'": "\\'"}
    kept = (safe.get(c, c) if c.isprintable() else _octal(c) for c in text)
    return f"$'{''.join(kept)}'"


def client_words(server: str | None, command_config: str | Path | None) -> list[str]:
    """Return the options with which Kafka's commands reach a cluster, to be quoted one by one."""
    words = ["--bootstrap-server", server or "HOST:PORT"]
    return words if command_config is None else [*words, "--command-config", str(command_config)]


def _octal(character: str) -> str:
    # Three digits, because any character may follow, and UTF-8 whatever the locale.
    return "".join(f"\\{byte:03o}" for byte in character.encode(errors="surrogatepass"))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def moment(at: datetime | None) -> str:
    """Format a time in UTC and, if different, in this machine's time zone."""
    if at is None:
        return NO_MOMENT
    words = f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    here = at.astimezone()
    return f"{words} ({here:%H:%M:%S %Z})" if here.utcoffset() else words
